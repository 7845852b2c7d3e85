/* eclusa-proxy: started by the launcher or a service, with its channels as descriptors 3 and 4. */
#include "common/log.h"
#include "proxy/super.h"

#include <getopt.h>
#include <stdio.h>

#define LAUNCHER_FD 3
#define NETD_FD     4

static const char usage[] =
	"usage: eclusa-proxy [--help] [--version]\n"
	"The proxy of Eclusa. It is started by eclusa, which hands it two channels\n"
	"as descriptors 3 and 4; there is nothing to be done with it by hand.\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	int option = getopt_long(argc, argv, "h", options, NULL);
	if (option == 'h')
		return fputs(usage, stdout) == EOF;
	if (option == 'V')
		return printf("eclusa-proxy %s\n", ECLUSA_VERSION) < 0;
	if (option != -1 || optind != argc) {
		(void)fputs(usage, stderr); /* nothing better can be done */
		return 125;
	}
	log_open("eclusa-proxy", LOG_LEVEL_WARN);
	return super_run(LAUNCHER_FD, NETD_FD);
}
