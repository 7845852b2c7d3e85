/* See load.h. */
#include "tests/bench/load.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void load_fail(const char *what)
{
	perror(what);
	exit(1);
}

struct sockaddr_in load_loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int main(int argc, char **argv)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL); /* can't fail */
	if (argc > 1 && strcmp(argv[1], "origin") == 0)
		return load_origin(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "client") == 0)
		return load_client(argc - 1, argv + 1);
	(void)fputs("usage: load origin|client ...\n", stderr);
	return 2;
}
