/* A rule inside a compiled policy: what rule of policy.h shows, and all that decides. */
#ifndef ECLUSA_POLICY_RULE_H
#define ECLUSA_POLICY_RULE_H

#include "policy/arena.h"
#include "policy/pattern.h"
#include "policy/report.h"

#define RULE_NEVER_MS UINT64_MAX

struct port_range {
	uint16_t first;
	uint16_t last;
};

enum rule_scheme {
	RULE_SCHEME_BY_PORT, /* 80 is plain HTTP, every other port TLS */
	RULE_SCHEME_HTTP,
	RULE_SCHEME_HTTPS,
	RULE_SCHEME_ANY, /* deny rules */
};

/** Everything belongs to the policy's arena. */
struct rule_entry {
	struct rule rule; /* first: a pointer to it is a pointer to the entry */
	enum pattern_kind kind;
	enum rule_scheme scheme;
	struct slice name;              /* of the host, without the pattern's prefix */
	const struct port_range *ports; /* none: every port */
	size_t port_count;
	const struct slice *methods; /* sorted; none: every method */
	size_t method_count;
	const struct slice *paths; /* sorted; none: every path */
	size_t path_count;
	uint64_t expires_ms; /* from then on it matches nothing */
	struct place place;
	struct cidr prefix;        /* of an ip: target; its text is the name */
	const char *target;        /* tcp, host and ports in canonical text */
	const char *admits;        /* methods and paths likewise; "" where bytes pass unread */
	bool narrowed;             /* a copy that one section changed: a use line, set mode */
	uint32_t given;            /* bits of enum attribute_key that the text gave */
	struct rule_entry *source; /* the rule as written: itself, or what it is a copy of */
	bool tested;     /* of the source: an expect line was decided by it or by a copy */
	bool wants_test; /* of the source: its file requires tests */
};

static inline const struct rule_entry *rule_entry_of(const struct rule *rule)
{
	return (const struct rule_entry *)rule;
}

/** By the rule's target alone, ports aside. Of a metadata address a wide prefix of an allow rule says nothing. */
bool rule_covers_host(const struct rule_entry *r, const struct host *host);
bool rule_has_port(const struct rule_entry *r, uint16_t port);
bool rule_has_scheme(const struct rule_entry *r, uint16_t port, enum policy_scheme scheme);
bool rule_has_method(const struct rule_entry *r, struct slice method);
/** Whether some path matches; *ret_literal gets the literal bytes of the most specific one. */
bool rule_has_path(const struct rule_entry *r, struct slice path, size_t *ret_literal);

/**
 * Which of two allow rules for one request is more specific: exact before one label before any depth before any,
 * then longer host or prefix, longer literal path, fewer methods, then the narrower limits, so that order never matters.
 * @return above 0: @a.
 */
int rule_compare_specificity(
	const struct rule_entry *a, size_t a_literal, const struct rule_entry *b, size_t b_literal);

/** Fill target and admits. @return 0 or -ENOMEM. */
int rule_describe(struct rule_entry *r, struct arena *arena);

#endif
