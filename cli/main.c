/* `eclusa`: finds the subcommand and hands over. */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/slice.h"

#include <stdio.h>

#define STATUS_USAGE 125

static const struct command COMMANDS[] = {
	{"run", "run a program in a sandbox", command_run},
	{"serve", "give networks to sandboxes, by one proxy for all of them", command_serve},
	{"policy", "check, test and explain policy files", command_policy},
	{"audit", "read, check, export and picture the audit log", command_audit},
	{"env", "print the variables that tell clients of the proxy", command_env},
	{"top", "show what sandboxes do now", command_top},
	{"doctor", "check what this host can hold", command_doctor},
};

static int print_help(FILE *to)
{
	(void)fputs("usage: eclusa COMMAND [OPTION]...\n\ncommands:\n", to);
	for (size_t i = 0; i < array_size(COMMANDS); i++)
		(void)fprintf(to, "  %-8s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
	(void)fputs(
		"\n`eclusa COMMAND --help` tells more. `eclusa --version` prints the version.\n",
		to);
	return fflush(to) == 0 ? 0 : STATUS_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		(void)fputs("eclusa: no command given (eclusa --help)\n", stderr);
		return STATUS_USAGE;
	}
	struct slice name = slice_of(argv[1]);
	if (slice_equal(name, SLICE("--help")) || slice_equal(name, SLICE("-h")) ||
		slice_equal(name, SLICE("help")))
		return print_help(stdout);
	if (slice_equal(name, SLICE("--version"))) {
		(void)printf("eclusa %s\n", ECLUSA_VERSION);
		return fflush(stdout) == 0 ? 0 : STATUS_USAGE;
	}
	for (size_t i = 0; i < array_size(COMMANDS); i++)
		if (slice_equal(name, slice_of(COMMANDS[i].name)))
			return COMMANDS[i].main(argc - 1, argv + 1);
	char shown[64];
	(void)fprintf(stderr, "eclusa: unknown command: %s (eclusa --help)\n",
		slice_escape(name, shown, sizeof(shown)));
	return STATUS_USAGE;
}
