/* The verdict on a question. Pure, without allocation; peer bytes end up in details, escaped. */
#include "policy/profile.h"

#include <assert.h>
#include <stdio.h>

/** How far a question got with an allow rule that names its host; the reason is where it stopped. */
enum stage {
	STAGE_NONE,
	STAGE_PORT,
	STAGE_SCHEME,
	STAGE_METHOD,
	STAGE_PATH,
	STAGE_EXPIRED,
	STAGE_MATCH,
	STAGE_COUNT
};

static const enum reason stage_reasons[] = {
	[STAGE_NONE] = REASON_DENY_DEFAULT,
	[STAGE_PORT] = REASON_DENY_PORT,
	[STAGE_SCHEME] = REASON_DENY_SCHEME,
	[STAGE_METHOD] = REASON_DENY_METHOD,
	[STAGE_PATH] = REASON_DENY_PATH,
	[STAGE_EXPIRED] = REASON_DENY_EXPIRED,
	[STAGE_MATCH] = REASON_ALLOW_RULE,
};

static_assert(sizeof(stage_reasons) / sizeof(stage_reasons[0]) == STAGE_COUNT, "a reason a stage");

struct search {
	const struct policy_question *q;
	bool host_only;      /* no method and path yet */
	struct slice folded; /* the path as a lax server reads it; for deny rules */
	const struct rule_entry *deny;
	const struct rule_entry
		*near; /* the allow rule that got furthest, then the most specific */
	enum stage near_stage;
	size_t near_literal;
};

static enum stage allow_stage(
	const struct search *s, const struct rule_entry *r, size_t *ret_literal)
{
	const struct policy_question *q = s->q;
	*ret_literal = 0;
	if (!rule_has_port(r, q->port))
		return STAGE_PORT;
	if (!rule_has_scheme(r, q->port, q->scheme))
		return STAGE_SCHEME;
	if (!s->host_only && !rule_has_method(r, q->method))
		return STAGE_METHOD;
	if (!s->host_only && !rule_has_path(r, q->path, ret_literal))
		return STAGE_PATH;
	return q->now_ms >= r->expires_ms ? STAGE_EXPIRED : STAGE_MATCH;
}

static bool deny_matches(const struct search *s, const struct rule_entry *r)
{
	const struct policy_question *q = s->q;
	size_t literal;
	if (!rule_has_port(r, q->port) || !rule_has_scheme(r, q->port, q->scheme))
		return false;
	if (s->host_only)
		return r->method_count == 0 && r->path_count == 0;
	return rule_has_method(r, q->method) &&
		(rule_has_path(r, q->path, &literal) || rule_has_path(r, s->folded, &literal));
}

static void visit(struct search *s, const struct rule_entry *r)
{
	if (!r->rule.allow) {
		if (s->deny == NULL && deny_matches(s, r))
			s->deny = r;
		return;
	}
	size_t literal;
	enum stage stage = allow_stage(s, r, &literal);
	if (stage < s->near_stage ||
		(stage == s->near_stage &&
			rule_compare_specificity(r, literal, s->near, s->near_literal) <= 0))
		return;
	s->near = r;
	s->near_stage = stage;
	s->near_literal = literal;
}

/** Visit every rule whose pattern covers the name: one look-up for each of its suffixes. */
static void search_name(const struct profile *p, struct slice name, struct search *s)
{
	uint32_t hash = PROFILE_HASH_START;
	size_t labels_before = 1;
	for (size_t i = 0; i < name.len; i++)
		labels_before += name.ptr[i] == '.';
	for (size_t i = name.len; i > 0; i--) {
		hash = profile_hash_step(hash, name.ptr[i - 1]);
		if (i > 1 && name.ptr[i - 2] != '.')
			continue;
		labels_before--;
		struct slice suffix = slice_part(name, i - 1, name.len);
		const struct profile_slot *slot = profile_find(p, suffix, hash);
		for (size_t r = 0; slot != NULL && r < slot->count; r++) {
			const struct rule_entry *rule = p->rules[slot->first + r];
			if (pattern_covers(rule->kind, labels_before))
				visit(s, rule);
		}
	}
}

/** A path with encoded slashes decoded and repeated ones made one, in the caller's room. */
static struct slice fold_path(struct slice path, char to[static TARGET_PATH_BYTES])
{
	size_t len = 0;
	for (size_t i = 0; i < path.len && len < TARGET_PATH_BYTES; i++) {
		char c = path.ptr[i];
		if (slice_equal(slice_part(path, i, i + 3), SLICE("%2F"))) {
			c = '/';
			i += 2;
		}
		if (c != '/' || len == 0 || to[len - 1] != '/')
			to[len++] = c;
	}
	return (struct slice){to, len};
}

#define SHOWN_BYTES 96

/** The sentence of a denial that has a rule to point at. */
static void explain_rule(const struct search *s, enum reason reason, const struct rule_entry *r,
	struct policy_verdict *ret)
{
	char method[SHOWN_BYTES];
	char path[SHOWN_BYTES];
	char said[SHOWN_BYTES] = "";
	const char *rest = r->admits;
	(void)slice_escape(s->q->method, method, sizeof(method));
	(void)slice_escape(s->q->path, path, sizeof(path));
	if (reason == REASON_DENY_RULE) {
		rest = r->rule.text;
		(void)snprintf(said, sizeof(said), "denied by");
	} else if (reason == REASON_DENY_PORT) {
		rest = r->target;
		(void)snprintf(said, sizeof(said), "port %u is outside", s->q->port);
	} else if (reason == REASON_DENY_SCHEME) {
		rest = r->target;
		(void)snprintf(said, sizeof(said), "%s on port %u is outside",
			s->q->scheme == POLICY_SCHEME_HTTP ? "plain HTTP" : "TLS", s->q->port);
	} else if (reason == REASON_DENY_METHOD) {
		(void)snprintf(said, sizeof(said), "method %.60s is outside", method);
	} else if (reason == REASON_DENY_PATH) {
		(void)snprintf(said, sizeof(said), "path %.76s is outside", path);
	} else if (reason == REASON_DENY_QUERY) {
		(void)snprintf(said, sizeof(said), "a query is not allowed by");
	} else if (reason == REASON_DENY_SMUGGLING) {
		(void)snprintf(said, sizeof(said),
			"an encoded slash in the path needs enc-slash=literal on");
	} else if (reason == REASON_DENY_EXPIRED) {
		rest = r->target;
		(void)snprintf(said, sizeof(said), "the rule has expired:");
	}
	(void)snprintf(ret->detail, sizeof(ret->detail), "%s %.96s (%s:%u)", said, rest,
		r->rule.file, r->rule.line);
}

static void answer(const struct search *s, enum reason reason, const struct rule_entry *r,
	struct policy_verdict *ret)
{
	ret->reason = reason;
	ret->rule = r == NULL ? NULL : &r->rule;
	ret->detail[0] = '\0';
	if (r != NULL && !reason_allows(reason))
		explain_rule(s, reason, r, ret);
}

/** What the most specific matching rule says about the rest of the target. */
static enum reason judge_target(const struct policy_question *q, const struct rule_entry *r)
{
	if (q->encoded_slash && !r->rule.encoded_slash)
		return REASON_DENY_SMUGGLING;
	if (q->has_query && r->rule.query_denied)
		return REASON_DENY_QUERY;
	return REASON_ALLOW_RULE;
}

/** No rule can name an address, so its class decides, before anything else is asked. */
static void decide_address(const struct policy_question *q, struct policy_verdict *ret)
{
	enum address_class class = address_classify(&q->host->address);
	*ret = (struct policy_verdict){.reason = class == ADDRESS_METADATA
			? REASON_DENY_ADDRESS_METADATA
			: class == ADDRESS_PUBLIC ? REASON_DENY_DEFAULT
						  : REASON_DENY_ADDRESS_PRIVATE};
	(void)snprintf(ret->detail, sizeof(ret->detail),
		"%.45s is a %s address, and rules name hosts", q->host->name,
		address_class_name(class));
}

static void decide(const struct profile *p, struct search *s, struct policy_verdict *ret)
{
	const struct policy_question *q = s->q;
	if (q->host->kind == HOST_ADDRESS) {
		decide_address(q, ret);
		return;
	}
	search_name(p, slice_of(q->host->name), s);
	enum reason reason = stage_reasons[s->near_stage];
	if (s->deny != NULL)
		answer(s, REASON_DENY_RULE, s->deny, ret);
	else if (s->near_stage == STAGE_MATCH && !s->host_only)
		answer(s, judge_target(q, s->near), s->near, ret);
	else
		answer(s, reason, s->near, ret);
	if (ret->rule == NULL)
		(void)snprintf(ret->detail, sizeof(ret->detail),
			"no allow rule of profile %.63s names %.140s", p->name, q->host->name);
}

void policy_decide_host(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	struct search s = {.q = q, .host_only = true};
	decide(p, &s, ret);
}

void policy_decide(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	char room[TARGET_PATH_BYTES];
	struct search s = {.q = q, .folded = fold_path(q->path, room)};
	decide(p, &s, ret);
}
