/* eclusa-proxy: alone as its options say, or started by the launcher or a service, with its channels as descriptors 3 and 4. */
#include "common/log.h"
#include "proxy/alone.h"
#include "proxy/super.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LAUNCHER_FD 3
#define NETD_FD     4

static const char usage[] =
	"usage: eclusa-proxy --listen ADDRESS:PORT --policy PATH [--profile NAME] [OPTION]...\n"
	"       eclusa-proxy --serve --policy PATH [--profile NAME]... [OPTION]...\n"
	"\n"
	"An explicit HTTP proxy that lets pass what a policy allows, for clients that are in no\n"
	"sandbox of Eclusa; or with --serve the service of `eclusa serve`, whose options\n"
	"`eclusa serve --help` tells. (Without options it is the proxy of a run.)\n"
	"\n"
	"  --listen ADDRESS:PORT    where clients reach it; port 0: any that is free\n"
	"  --remote-clients         the address may be one that other machines reach\n"
	"  --policy PATH            a file of rules, or a folder whose *.allow are taken together\n"
	"  --profile NAME           the profile that holds for all clients, if there are several\n"
	"  --trust FILE             a public key; the policy must be signed by it; again and again\n"
	"  --watch                  load the policy again when its files change (SIGHUP always does)\n"
	"  --state-dir DIR          keep the last good policy here, and the socket of\n"
	"                           `eclusa policy reload`\n"
	"  --ca-out FILE            write the certificate of the CA that is made, for clients to trust\n"
	"  --ca FILE --ca-key FILE  sign with this CA instead\n"
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
	"  --audit-decisions NUMBER how many may be on their way at once: 8192\n"
	"  --serve                  give networks to sandboxes, and listen for no clients\n"
	"  --socket PATH, --workers N, --leases N, --ready N\n"
	"                           of --serve\n"
	"  --help, --version\n"
	"\n"
	"Prints `ready ADDRESS:PORT` once it serves. SIGTERM and SIGINT end it in order, a second one\n"
	"at once.\n"
	"Exit status: 0 ended in order, 1 failed, 2 there is no policy to start with, 125 wrong usage.\n";

/** A channel is there where the launcher started us; who calls by hand has none, and wants to know the options. */
static bool is_channel(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char **argv)
{
	struct alone_options options;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return fputs(usage, stdout) == EOF;
		if (strcmp(argv[i], "--version") == 0)
			return printf("eclusa-proxy %s\n", ECLUSA_VERSION) < 0;
	}
	if (argc == 1 && is_channel(LAUNCHER_FD) && is_channel(NETD_FD)) {
		log_open("eclusa-proxy", LOG_LEVEL_WARN);
		return super_run(LAUNCHER_FD, NETD_FD);
	}
	log_open("eclusa-proxy", LOG_LEVEL_INFO);
	if (alone_parse(argc, argv, &options) < 0)
		return ALONE_EXIT_USAGE;
	return alone_run(&options);
}
