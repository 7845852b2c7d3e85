/*
 * What observe mode let pass, as the narrowest rules that let it pass when enforced. Distinct requests are collected from the log,
 * then hosts and paths become patterns, then policy text. Nothing gets into the text that was not judged as a host,
 * a method or a path of a rule is.
 */
#ifndef ECLUSA_CLI_SUGGEST_H
#define ECLUSA_CLI_SUGGEST_H

#include "audit/seen.h"
#include "cli/recorded.h"
#include "common/buf.h"
#include "policy/arena.h"
#include "policy/source.h"

#define SUGGEST_REQUESTS_MAX   20000 /* distinct ones; further ones are left out, and counted */
#define SUGGEST_TEXT_BYTES_MAX (2 * POLICY_FILE_BYTES_MAX) /* before it is laid out */
#define SUGGEST_HOSTS          5 /* sibling names that --fold makes a wildcard */

/** Why a request is not in the text. */
enum suggest_left {
	SUGGEST_LEFT_NOT,
	SUGGEST_LEFT_WRITE,   /* it writes */
	SUGGEST_LEFT_ADDRESS, /* its host has a private or special address */
	SUGGEST_LEFT_METADATA,
	SUGGEST_LEFT_REFUSED, /* for its host's address it was denied while observing, too */
	SUGGEST_LEFT_NAME,    /* its host is called as a word of the language */
	SUGGEST_LEFT_CARRIED, /* its host and port carry requests as well as bytes that are not read */
	SUGGEST_LEFT_PATH,    /* no rule can have its path, or it is not known */
	SUGGEST_LEFT_COUNT
};

/** Bytes that went to one host, by sandbox: budgets are counted so. */
#define SUGGEST_SANDBOXES 64
struct suggest_host {
	uint64_t sandboxes[SUGGEST_SANDBOXES]; /* digests of their ids */
	uint64_t up_bytes[SUGGEST_SANDBOXES];  /* the last one's: of all further sandboxes */
	size_t count;
	bool summed; /* into the up_bytes of the requests there */
};

/** A distinct request. All text is the arena's, and was judged. */
struct suggest_request {
	const char *profile;
	struct host host; /* as it was asked for */
	const char *
		target; /* host of the rule: the name, a wildcard over it, or ip: and the address */
	uint16_t port;
	enum policy_scheme scheme;
	enum policy_transport transport;
	const char *method; /* ""  where no requests are seen; likewise path */
	const char *path;
	const char *pattern; /* of the path */
	bool query, encoded_slash, websocket;
	struct address address; /* that the rule has to open; family 0: none */
	enum suggest_left left;
	uint64_t count, first_ms;
	uint64_t request_body_bytes, response_body_bytes; /* of the largest */
	struct suggest_host *at;
	uint64_t up_bytes; /* of one sandbox to this target */
};

struct suggest_options {
	const char *profile; /* only its events; NULL: of all */
	bool fold, allow_write, allow_private;
};

/** Zero-initialise but for the options. */
struct suggest {
	struct suggest_options options;
	struct arena arena;
	struct audit_seen seen;
	struct suggest_request **requests;
	size_t count, capacity;
	struct suggest_request **table; /* of the same: by hash, open addressing */
	size_t table_size;
	uint64_t events;   /* that observe mode let pass */
	size_t foldable;   /* families of hosts that --fold would make a wildcard */
	uint64_t too_many; /* of the events, beyond SUGGEST_REQUESTS_MAX */
	uint64_t kinds[RECORDED_KIND_COUNT]; /* of the lines of the log */
};

/** Take an event in. @return 0 or -ENOMEM. */
int suggest_add(struct suggest *s, const struct recorded *r);
/** Find targets and patterns, and bring the requests in the order of the text. @return 0 or -ENOMEM. */
int suggest_fold(struct suggest *s);
/** How the text is made. */
struct suggest_style {
	bool uniform; /* all rules of a place have the same attributes, so that no two are equally specific and differ */
	const struct policy *
		probe; /* the same rules, compiled: it says what to expect; NULL: no expect lines */
};
/** Append the policy. *ret_rules: how many. @return 0, or negative errno. */
int suggest_text(const struct suggest *s, const struct suggest_style *style, struct buf *to,
	size_t *ret_rules);
void suggest_fini(struct suggest *s);

/** "write method", ... and the option that takes it in, or NULL. */
const char *suggest_left_name(enum suggest_left left);
const char *suggest_left_option(enum suggest_left left);
/** Order of the text: profile, host, port, what it carries. */
int suggest_compare_places(const struct suggest_request *a, const struct suggest_request *b);

#endif
