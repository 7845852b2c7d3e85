/* A policy as a list of rules, decided by asking each of them in order: what the compiled matcher is compared with. */
#ifndef ECLUSA_TESTS_UNIT_POLICY_MODEL_H
#define ECLUSA_TESTS_UNIT_POLICY_MODEL_H

#include "tests/unit/policy_setup.h"

#define RULES_MAX     80
#define PATHS_MAX     3
#define METHODS_COUNT 4
#define METHODS_ANY   0x100u

static const char *const method_names[METHODS_COUNT] = {"GET", "HEAD", "POST", "PUT"};

struct model_rule {
	bool allow;
	const char *prefix; /* "", "*.", "**.", ".", "any", "ip:" */
	char name[64];
	uint32_t base; /* of an ip: rule */
	unsigned bits;
	enum policy_transport transport;
	bool observe;
	unsigned ports; /* index into port_texts */
	unsigned methods;
	char paths[PATHS_MAX][40];
	size_t path_count;
	const char *scheme; /* "", "http", "https" */
	bool expired;
	bool query_denied;
	bool encoded_slash;
	unsigned resp_body_kib;
	char id[16];
};

struct model {
	bool observe; /* set mode observe */
	struct model_rule rules[RULES_MAX];
	size_t count;
};

struct model_question {
	char host[96];
	bool is_address;
	uint32_t address;
	uint16_t port;
	bool tls;
	const char *method;
	char path[80];
	bool has_query;
};

/** @id: of the rule, or "observe", or "-". */
struct answer {
	enum reason reason;
	enum reason would;
	const struct model_rule *rule;
	const char *id;
};

static const char *const port_texts[] = {
	"", ":443", ":80,443", ":80", ":8000-8010", ":443,8005", ":22", ":22,9001-9005"};

static bool model_has_port(const struct model_rule *r, uint16_t port)
{
	switch (r->ports) {
	case 0:
		return !r->allow || port == 443;
	case 1:
		return port == 443;
	case 2:
		return port == 80 || port == 443;
	case 3:
		return port == 80;
	case 4:
		return port >= 8000 && port <= 8010;
	case 5:
		return port == 443 || port == 8005;
	case 6:
		return port == 22;
	default:
		return port == 22 || (port >= 9001 && port <= 9005);
	}
}

static bool model_has_scheme(const struct model_rule *r, const struct model_question *q)
{
	if (r->transport != POLICY_INSPECT)
		return r->transport == POLICY_TCP || q->tls;
	if (r->scheme[0] == '\0')
		return !r->allow || q->tls == (q->port != 80);
	return (strcmp(r->scheme, "https") == 0) == q->tls;
}

static bool model_has_method(const struct model_rule *r, const char *method)
{
	for (unsigned i = 0; i < METHODS_COUNT; i++) {
		if (strcmp(method_names[i], method) == 0 && (r->methods >> i & 1) != 0)
			return true;
	}
	return (r->methods & METHODS_ANY) != 0;
}

static enum address_class model_class(uint32_t address)
{
	struct address a = {.family = 4,
		.bytes = {(uint8_t)(address >> 24), (uint8_t)(address >> 16),
			(uint8_t)(address >> 8), (uint8_t)address}};
	return address_classify(&a);
}

static bool model_covers_address(const struct model_rule *r, uint32_t address)
{
	if (strcmp(r->prefix, "ip:") != 0 || (r->base ^ address) >> (32 - r->bits) != 0)
		return false;
	return !r->allow || r->bits == 32 || model_class(address) != ADDRESS_METADATA;
}

static bool model_covers_name(const struct model_rule *r, const char *host)
{
	size_t name_len = strlen(r->name);
	size_t host_len = strlen(host);
	if (strcmp(r->prefix, "ip:") == 0 || strcmp(r->prefix, "any") == 0)
		return r->prefix[0] == 'a';
	if (strcmp(r->name, host) == 0)
		return r->prefix[0] == '\0' || strcmp(r->prefix, ".") == 0;
	if (r->prefix[0] == '\0' || host_len <= name_len + 1 ||
		host[host_len - name_len - 1] != '.' ||
		strcmp(host + host_len - name_len, r->name) != 0)
		return false;
	bool one = memchr(host, '.', host_len - name_len - 1) == NULL;
	return strcmp(r->prefix, "*.") != 0 || one;
}

static bool model_covers(const struct model_rule *r, const struct model_question *q)
{
	return q->is_address ? model_covers_address(r, q->address) : model_covers_name(r, q->host);
}

/** @start: the pattern stands at the start of a segment. */
static bool glob(const char *pattern, const char *path, bool start)
{
	if (start && strcmp(pattern, "**") == 0)
		return true;
	if (*pattern == '\0')
		return *path == '\0';
	if (*pattern != '*')
		return *pattern == *path && glob(pattern + 1, path + 1, *pattern == '/');
	bool whole = start && (pattern[1] == '/' || pattern[1] == '\0');
	if (!whole && glob(pattern + 1, path, false))
		return true;
	for (; *path != '\0' && *path != '/'; path++) {
		if (glob(pattern + 1, path + 1, false))
			return true;
	}
	return false;
}

static int model_literal(const struct model_rule *r, const char *path)
{
	int best = -1;
	if (r->path_count == 0)
		return 0;
	for (size_t i = 0; i < r->path_count; i++) {
		int literal = 0;
		for (const char *c = r->paths[i]; *c != '\0'; c++)
			literal += *c != '*';
		if (glob(r->paths[i], path, true) && literal > best)
			best = literal;
	}
	return best;
}

static void fold(const char *path, char to[static 80])
{
	size_t len = 0;
	while (*path != '\0') {
		bool encoded = strncmp(path, "%2F", 3) == 0;
		char c = encoded ? '/' : *path;
		path += encoded ? 3 : 1;
		if (c != '/' || len == 0 || to[len - 1] != '/')
			to[len++] = c;
	}
	to[len] = '\0';
}

static bool model_denies(const struct model_rule *r, const struct model_question *q, bool host_only)
{
	char folded[80];
	fold(q->path, folded);
	if (!model_has_port(r, q->port) || !model_has_scheme(r, q))
		return false;
	if (host_only)
		return r->methods == METHODS_ANY && r->path_count == 0;
	return model_has_method(r, q->method) &&
		(model_literal(r, q->path) >= 0 || model_literal(r, folded) >= 0);
}

static enum reason model_stage(const struct model_rule *r, const struct model_question *q,
	bool host_only, int *ret_literal)
{
	*ret_literal = 0;
	if (!model_has_port(r, q->port))
		return REASON_DENY_PORT;
	if (!model_has_scheme(r, q) || (!host_only && r->transport != POLICY_INSPECT))
		return REASON_DENY_SCHEME;
	if (!host_only && !model_has_method(r, q->method))
		return REASON_DENY_METHOD;
	int literal = host_only ? 0 : model_literal(r, q->path);
	if (literal < 0)
		return REASON_DENY_PATH;
	*ret_literal = literal;
	return r->expired ? REASON_DENY_EXPIRED : REASON_ALLOW_RULE;
}

static int stage_rank(enum reason reason)
{
	static const enum reason order[] = {REASON_DENY_DEFAULT, REASON_DENY_PORT,
		REASON_DENY_SCHEME, REASON_DENY_METHOD, REASON_DENY_PATH, REASON_DENY_EXPIRED,
		REASON_ALLOW_RULE};
	int rank = 0;
	while (order[rank] != reason)
		rank++;
	return rank;
}

static int method_count(const struct model_rule *r)
{
	return (r->methods & METHODS_ANY) != 0 ? 1000 : __builtin_popcount(r->methods);
}

static int host_rank(const struct model_rule *r)
{
	static const char *const order[] = {"any", "**.", "*.", "", "ip:"};
	const char *prefix = strcmp(r->prefix, ".") == 0 ? "**." : r->prefix;
	int rank = 0;
	while (strcmp(order[rank], prefix) != 0)
		rank++;
	return rank;
}

static int host_length(const struct model_rule *r)
{
	return strcmp(r->prefix, "ip:") == 0 ? (int)r->bits : (int)strlen(r->name);
}

/** A request body is zero for reading rules and 1 MiB for writing ones, unless said; unread it has no limit. */
static int writes(const struct model_rule *r)
{
	if (r->transport != POLICY_INSPECT)
		return 2;
	return (r->methods & (METHODS_ANY | 4 | 8)) != 0;
}

static bool model_better(
	const struct model_rule *a, int a_literal, const struct model_rule *b, int b_literal)
{
	const int order[] = {host_rank(a) - host_rank(b), host_length(a) - host_length(b),
		a_literal - b_literal, method_count(b) - method_count(a),
		a->query_denied - b->query_denied, b->encoded_slash - a->encoded_slash,
		writes(b) - writes(a), (int)b->resp_body_kib - (int)a->resp_body_kib,
		b->observe - a->observe};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (order[i] != 0)
			return order[i] > 0;
	}
	return strcmp(a->id, b->id) < 0;
}

/** What enforcing says: every rule is asked, in order. */
static struct answer model_enforce(
	const struct model *m, const struct model_question *q, bool host_only)
{
	struct answer near = {.reason = REASON_DENY_DEFAULT};
	const struct model_rule *deny = NULL;
	int near_literal = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct model_rule *r = &m->rules[i];
		int literal;
		if (!model_covers(r, q))
			continue;
		if (!r->allow) {
			if (model_denies(r, q, host_only) &&
				(deny == NULL || strlen(r->name) < strlen(deny->name)))
				deny = r;
			continue;
		}
		enum reason reason = model_stage(r, q, host_only, &literal);
		int ahead = stage_rank(reason) - stage_rank(near.reason);
		if (ahead < 0 ||
			(ahead == 0 && near.rule != NULL &&
				!model_better(r, literal, near.rule, near_literal)))
			continue;
		near = (struct answer){.reason = reason, .rule = r};
		near_literal = literal;
	}
	enum address_class class = q->is_address ? model_class(q->address) : ADDRESS_PUBLIC;
	if (near.rule == NULL && class != ADDRESS_PUBLIC)
		return (struct answer){.reason = class == ADDRESS_METADATA
				? REASON_DENY_ADDRESS_METADATA
				: REASON_DENY_ADDRESS_PRIVATE};
	if (deny != NULL)
		return (struct answer){.reason = REASON_DENY_RULE, .rule = deny};
	if (near.reason == REASON_ALLOW_RULE && !host_only) {
		if (strstr(q->path, "%2F") != NULL && !near.rule->encoded_slash)
			near.reason = REASON_DENY_SMUGGLING;
		else if (q->has_query && near.rule->query_denied)
			near.reason = REASON_DENY_QUERY;
	} else if (near.reason == REASON_ALLOW_RULE && near.rule->transport == POLICY_SPLICE) {
		near.reason = REASON_ALLOW_SPLICE;
	}
	return near;
}

static const struct model_rule *model_observer(
	const struct model *m, const struct model_question *q, bool host_only)
{
	const struct model_rule *best = NULL;
	for (size_t i = 0; i < m->count; i++) {
		const struct model_rule *r = &m->rules[i];
		if (!r->allow || !r->observe || r->expired || !model_covers(r, q) ||
			(!host_only && r->transport != POLICY_INSPECT))
			continue;
		if (best == NULL || model_better(r, 0, best, 0))
			best = r;
	}
	return best;
}

/** Whether some requests to the host and port are denied, so that they have to be read. */
static bool model_denies_some(const struct model *m, const struct model_question *q)
{
	for (size_t i = 0; i < m->count; i++) {
		struct model_rule every = m->rules[i];
		every.methods = METHODS_ANY;
		every.path_count = 0;
		if (!every.allow && model_covers(&every, q) && model_denies(&every, q, true))
			return true;
	}
	return false;
}

static struct answer model_decide(
	const struct model *m, const struct model_question *q, bool host_only)
{
	struct answer a = model_enforce(m, q, host_only);
	a.id = a.rule == NULL ? "-" : a.rule->id;
	if (reason_allows(a.reason) || a.reason == REASON_DENY_RULE ||
		a.reason == REASON_DENY_ADDRESS_METADATA || a.reason == REASON_DENY_ADDRESS_PRIVATE)
		return a;
	const struct model_rule *observer = model_observer(m, q, host_only);
	if (observer != NULL && observer->transport == POLICY_SPLICE && model_denies_some(m, q))
		observer = NULL;
	if (observer == NULL && (!m->observe || q->is_address))
		return a;
	return (struct answer){.reason = REASON_OBSERVE_WOULD_DENY,
		.would = a.reason,
		.rule = observer,
		.id = observer == NULL ? "observe" : observer->id};
}

/** Whether some host belongs to both: of names that are theirs, or up to two labels below. */
static bool model_hosts_meet(const struct model_rule *a, const struct model_rule *b)
{
	static const char *const below[] = {"", "q.", "q.q."};
	for (size_t i = 0; i < 6; i++) {
		struct model_question q = {.is_address = false};
		const struct model_rule *r = i % 2 == 0 ? a : b;
		const char *name = r->name[0] == '\0' ? "any.test" : r->name;
		(void)snprintf(q.host, sizeof(q.host), "%s%s", below[i / 2], name);
		if (model_covers(a, &q) && model_covers(b, &q))
			return true;
	}
	return false;
}

/** Whether rules, one of which passes bytes unread, may not stand in one policy. */
static bool model_conflict(const struct model_rule *a, const struct model_rule *b)
{
	static const uint16_t ports[] = {22, 80, 443, 8000, 8005, 9001};
	bool tied = strcmp(a->name, b->name) == 0 && host_rank(a) == host_rank(b);
	bool part = !b->allow && (b->methods != METHODS_ANY || b->path_count > 0);
	if (b->transport == POLICY_SPLICE && a->transport != POLICY_SPLICE)
		return model_conflict(b, a);
	if (a->transport != POLICY_SPLICE || b->transport != POLICY_INSPECT ||
		!(b->allow ? tied : part && model_hosts_meet(a, b)))
		return false;
	for (size_t i = 0; i < array_size(ports); i++) {
		struct model_question q = {.port = ports[i], .tls = true};
		if (model_has_port(a, q.port) && model_has_port(b, q.port) &&
			model_has_scheme(b, &q))
			return true;
	}
	return false;
}

#endif
