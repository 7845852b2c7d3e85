/*
 * The proxy of a company or a provider through which everything has to go that leaves this host: where it is, and what it wants to be
 * told. Found before anything starts, by the host's own means; handed over as a memory file.
 */
#ifndef ECLUSA_COMMON_UPSTREAM_PROXY_H
#define ECLUSA_COMMON_UPSTREAM_PROXY_H

#include "common/address.h"
#include "common/failure.h"
#include "common/slice.h"

#define UPSTREAM_PROXY_ADDRESSES_MAX 8
#define UPSTREAM_PROXY_LOGIN_BYTES   512 /* of user:password; RFC 7617 has no limit */
#define UPSTREAM_PROXY_WORD_BYTES    ((UPSTREAM_PROXY_LOGIN_BYTES + 2) / 3 * 4 + 1) /* in base64 */

/** As the user gave them; NULL: not given. */
struct upstream_proxy_options {
	const char *url;       /* http://HOST:PORT */
	const char *auth_file; /* its first line is user:password */
	bool by_name;
};

/** Zero: there is none. Has no pointers: a memory file holds it as it is. */
struct upstream_proxy {
	struct address addresses[UPSTREAM_PROXY_ADDRESSES_MAX];
	uint32_t count;
	uint16_t port;
	bool by_name; /* it is asked for names, and chooses their addresses; else for addresses */
	char basic
		[UPSTREAM_PROXY_WORD_BYTES]; /* credentials of the Basic scheme; empty: none. A secret */
};

/** Whether the options are well-formed and the file is one. @return 0 or negative errno with a line in @why. */
int upstream_proxy_check(const struct upstream_proxy_options *options, struct failure *why);
/** Look its name up, which may take as long as the host's resolver does, and read the credentials. @ret zero without a URL. */
int upstream_proxy_find(const struct upstream_proxy_options *options, struct upstream_proxy *ret,
	struct failure *why);
/** @return the descriptor of a memory file, or negative errno. */
int upstream_proxy_write(const struct upstream_proxy *proxy);
/** What upstream_proxy_write() wrote. @return 0, -EBADMSG, another negative errno. */
int upstream_proxy_read(int fd, struct upstream_proxy *ret);
void upstream_proxy_wipe(struct upstream_proxy *proxy);

#endif
