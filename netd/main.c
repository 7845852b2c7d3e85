/*
 * eclusa-netd: the gateway, for one run. It is started by the launcher with two connected
 * channels: descriptor 3 is the launcher's, descriptor 4 the proxy's. It reads no file but the
 * kernel's settings. `eclusa doctor` starts it with --probe PART: to make that part, and nothing else.
 */
#include "common/log.h"
#include "ipc/fault.h"
#include "ipc/message.h"
#include "netd/confine.h"
#include "netd/probe.h"
#include "netd/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>

#define NETD_LAUNCHER_FD 3
#define NETD_PROXY_FD    4
#define NETD_FIRST_OTHER 5

static int is_channel(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

/** @return the exit status; the line on standard output says what was refused. */
static int probe(const char *part)
{
	struct failure why = {0};
	int r = confine_apply(NETD_LAUNCHER_FD, &why);
	if (r == 0)
		r = probe_run(part, &why);
	if (r < 0)
		(void)printf("%s\n", why.text);
	return r == 0 ? 0 : r == -EINVAL ? EX_USAGE : EX_OSERR;
}

int main(int argc, char **argv)
{
	log_open("eclusa-netd", LOG_LEVEL_WARN);
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)printf("eclusa-netd %s\n", ECLUSA_VERSION);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--probe") == 0)
		return probe(argv[2]);
	if (argc != 1 || !is_channel(NETD_LAUNCHER_FD) || !is_channel(NETD_PROXY_FD)) {
		(void)fprintf(stderr, "eclusa-netd: started by `eclusa run`, not by hand\n");
		return EX_USAGE;
	}
	struct failure why = {0};
	/*
	 * From here on: links, rules and namespaces of its own; no file, process or key of others.
	 */
	if (confine_apply(NETD_FIRST_OTHER, &why) < 0) {
		message_send_failed(NETD_LAUNCHER_FD, why.code, why.text);
		return EX_OSERR;
	}
	fault_point("netd-started");
	return server_run(NETD_LAUNCHER_FD, NETD_PROXY_FD);
}
