/* Subcommands of `eclusa`: one file each, a table of them in main.c. */
#ifndef ECLUSA_CLI_COMMAND_H
#define ECLUSA_CLI_COMMAND_H

/** argv[0] is the subcommand's name. @return the process exit status. */
typedef int command_main(int argc, char **argv);

/** One row of the table. */
struct command {
	const char *name;
	const char *summary; /* one line of `eclusa --help` */
	command_main *main;
};

command_main command_run;
command_main command_serve;
command_main command_policy;
command_main command_audit;
command_main command_top;
command_main command_doctor;
command_main command_env;

#endif
