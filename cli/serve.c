/* `eclusa serve`: one gateway and one proxy for all sandboxes of a host. It becomes eclusa-proxy --serve, which takes the same options. */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATUS_USAGE 125

static const char usage[] =
	"usage: eclusa serve --policy PATH [--profile NAME]... [OPTION]...\n"
	"\n"
	"Gives networks to sandboxes of `eclusa run` that ask for it, by one gateway and one proxy that\n"
	"stay. Needs root.\n"
	"\n"
	"  --policy PATH            a file of rules, or a folder whose *.allow are taken together\n"
	"  --profile NAME           a profile that runs may ask for; again and again. May be left out\n"
	"                           if there is one\n"
	"  --socket PATH            where runs ask (/run/eclusa/serve)\n"
	"  --workers N              processes that serve sandboxes: 1 to 8 (1)\n"
	"  --leases N               sandboxes at once: 1 to 4096 (1024)\n"
	"  --ready N                networks that are kept ready: 0 to 64 (4)\n"
	"  --trust FILE             a public key; the policy must be signed by it; again and again\n"
	"  --watch                  load the policy again when its files change (SIGHUP always does)\n"
	"  --state-dir DIR          keep the last good policy here, and the socket of\n"
	"                           `eclusa policy reload`\n"
	"  --ca FILE --ca-key FILE  sign with this CA instead of one that is made\n"
	"  --ca-out FILE            write the certificate of the CA that is made\n"
	"  --upstream-ca FILE       trust these roots too, towards the world\n"
	"  --upstream-proxy http://HOST:PORT\n"
	"                           go to hosts through this proxy, by CONNECT\n"
	"  --upstream-proxy-auth FILE\n"
	"                           user:password for it, the file's first line\n"
	"  --upstream-proxy-by-name it looks names up, and no address is checked\n"
	"  --hosts FILE             lines ADDRESS NAME... that hold before DNS\n"
	"  --resolver ADDRESS:PORT  the name server, instead of those of /etc/resolv.conf\n"
	"  --audit-dir DIR          where the audit log goes\n"
	"  --metrics WHERE          answer Prometheus at ADDRESS:PORT of the loopback, or on the\n"
	"                           Unix socket /PATH\n"
	"  --audit-segment-size SIZE, --audit-segment-age TIME\n"
	"                           begin another file of it then, and on SIGHUP: 64m, 1d\n"
	"  --audit-decisions NUMBER how many may be on their way at once, of a worker: 8192\n"
	"  --help\n"
	"\n"
	"Prints `ready SOCKET` once it serves. SIGTERM and SIGINT end it in order, a second one at\n"
	"once; sandboxes that are left end with it.\n"
	"Exit status: 0 ended in order, 1 failed, 2 there is no policy to start with, 125 wrong usage.\n";

int command_serve(int argc, char **argv)
{
	char path[PATH_MAX];
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return fputs(usage, stdout) == EOF || fflush(stdout) != 0;
	}
	int r = file_sibling_program("eclusa-proxy", path, sizeof(path));
	auto_free char **words = calloc((size_t)argc + 2, sizeof(*words));
	char name[] = "eclusa serve"; /* whose --help it names */
	char serve[] = "--serve";
	if (r == 0 && words == NULL)
		r = -ENOMEM;
	if (r == 0) {
		words[0] = name;
		words[1] = serve;
		for (int i = 1; i < argc; i++)
			words[i + 1] = argv[i];
		(void)execv(path, words);
		r = -errno;
	}
	(void)fprintf(stderr, "eclusa: can't start eclusa-proxy: %s\n", strerror(-r));
	return STATUS_USAGE;
}
