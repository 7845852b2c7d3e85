/*
 * The gate between an address and a connection: only what guard_admit() let pass can be dialled. It
 * refuses what policy does not open and what the kernel takes for the host's own.
 */
#ifndef ECLUSA_PROXY_GUARD_H
#define ECLUSA_PROXY_GUARD_H

#include "common/failure.h"
#include "common/upstream_proxy.h"
#include "policy/policy.h"

#define GUARD_ROUTES 64 /* that are remembered */

/** What the kernel said of an address; family 0: of none. */
struct guard_route {
	struct address address;
	int type; /* RTN_* */
};

struct guard {
	int netlink_fd; /* rtnetlink: how would the kernel route this? */
	uint32_t sequence;
	int changes_fd; /* rtnetlink: readable when anything of addresses and routes changed; -1: nobody tells, and nothing is remembered */
	struct guard_route routes[GUARD_ROUTES]; /* as they were when nothing had changed */
	bool by_name; /* a proxy beyond ours looks names up: an address of family 0, which nobody can dial, stands for one that it chooses */
};

/** Made by guard_admit() and guard_admit_proxy() and by nothing else; dial_start() takes nothing else. */
struct admitted_address {
	struct {
		struct address address;
		uint16_t port;
	} checked;
};

/** What somebody would like to dial; a stranger's choice so far. */
struct guard_target {
	const struct address *address;
	uint16_t port;
};

enum guard_result {
	GUARD_ADMITTED,
	GUARD_REFUSED,     /* *ret_reason says why */
	GUARD_UNREACHABLE, /* no route to it */
	GUARD_FAILED,      /* the kernel could not be asked: not dialled */
};

int guard_open(struct guard *ret, struct failure *why);
void guard_close(struct guard *g);

/**
 * Judge one address for a decision of @rule. The host's own addresses, broadcast and multicast are
 * refused even where they look public; only a prefix that the rule names itself opens them. Does not
 * block. On GUARD_ADMITTED *ret is filled, on GUARD_REFUSED *ret_reason.
 */
enum guard_result guard_admit(struct guard *g, const struct rule *rule,
	const struct guard_target *target, struct admitted_address *ret, enum reason *ret_reason);

/** The proxy that everything goes through, which whoever started us named: its address @index. */
void guard_admit_proxy(
	const struct upstream_proxy *proxy, size_t index, struct admitted_address *ret);

#endif
