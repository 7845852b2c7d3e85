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
	const struct rule_entry *observer; /* the most specific one for the host that observes */
	bool partly_denied; /* some requests of the host and port are, whoever reads them */
};

/** How far a question gets before its path; the same for all rules of a group. */
static enum stage target_stage(const struct search *s, const struct rule_entry *r)
{
	const struct policy_question *q = s->q;
	if (!rule_has_port(r, q->port))
		return STAGE_PORT;
	/* Bytes that pass unread are no requests: this one came by another way. */
	bool unread = r->rule.allow && r->rule.transport != POLICY_INSPECT;
	if (!rule_has_scheme(r, q->port, q->scheme) || (unread && !s->host_only))
		return STAGE_SCHEME;
	if (!s->host_only && !rule_has_method(r, q->method))
		return STAGE_METHOD;
	return STAGE_PATH;
}

static void consider(struct search *s, const struct rule_entry *r, enum stage stage, size_t literal)
{
	if (stage < s->near_stage ||
		(stage == s->near_stage &&
			rule_compare_specificity(r, literal, s->near, s->near_literal) <= 0))
		return;
	s->near = r;
	s->near_stage = stage;
	s->near_literal = literal;
}

static enum stage expiry_stage(const struct search *s, const struct rule_entry *r)
{
	return s->q->now_ms >= r->expires_ms ? STAGE_EXPIRED : STAGE_MATCH;
}

/** An allow rule whose group the question got through. */
static void visit_allow(void *arg, const struct rule_entry *r)
{
	struct search *s = arg;
	size_t literal = 0;
	if (rule_has_path(r, s->q->path, &literal))
		consider(s, r, expiry_stage(s, r), literal);
}

/** A group whose rules observe: what they would refuse passes, whatever it is refused for. */
static void take_observer(struct search *s, const struct matcher *m, const struct matcher_group *g)
{
	for (uint32_t i = g->first; i < g->first + g->count; i++) {
		const struct rule_entry *r = m->rules[i];
		if (expiry_stage(s, r) == STAGE_EXPIRED)
			continue;
		if (s->observer == NULL || rule_compare_specificity(r, 0, s->observer, 0) > 0)
			s->observer = r;
		return; /* the first that lives is the best of the group */
	}
}

static void allow_group(struct search *s, const struct matcher *m, const struct matcher_group *g)
{
	const struct rule_entry *best = m->rules[g->first];
	if (best->rule.observe && (s->host_only || best->rule.transport == POLICY_INSPECT))
		take_observer(s, m, g);
	enum stage stage = target_stage(s, best);
	if (!s->host_only || stage < STAGE_PATH) {
		consider(s, best, stage, 0);
		if (stage == STAGE_PATH)
			matcher_candidates(m, g, s->q->path, visit_allow, s);
		return;
	}
	/* Any path: the first that has not expired is the best of those that match. */
	stage = STAGE_EXPIRED;
	for (uint32_t i = g->first; i < g->first + g->count && stage == STAGE_EXPIRED; i++) {
		stage = expiry_stage(s, m->rules[i]);
		consider(s, m->rules[i], stage, 0);
	}
}

/** Of those that match, the one with the shortest name, then the first in order of place. */
static void take_deny(struct search *s, const struct rule_entry *r)
{
	if (s->deny == NULL || r->name.len < s->deny->name.len ||
		(r->name.len == s->deny->name.len && matcher_compare_places(r, s->deny) < 0))
		s->deny = r;
}

static void visit_deny(void *arg, const struct rule_entry *r)
{
	struct search *s = arg;
	size_t literal;
	if (rule_has_path(r, s->q->path, &literal) || rule_has_path(r, s->folded, &literal))
		take_deny(s, r);
}

static void deny_group(struct search *s, const struct matcher *m, const struct matcher_group *g)
{
	const struct rule_entry *first = m->rules[g->first];
	if (target_stage(s, first) < STAGE_PATH)
		return;
	if (s->host_only) { /* denied whatever the request: every method, every path */
		if (first->method_count == 0 && first->path_count == 0)
			take_deny(s, first);
		else
			s->partly_denied = true;
		return;
	}
	matcher_candidates(m, g, s->q->path, visit_deny, s);
	if (g->index != MATCHER_NO_INDEX && !slice_equal(s->folded, s->q->path))
		matcher_candidates(m, g, s->folded, visit_deny, s);
}

/** Of a metadata address a wide prefix says nothing: only a rule that names it allows it. */
static bool covers(const struct search *s, const struct rule_entry *r, uint32_t labels_before)
{
	if (r->kind == PATTERN_ADDRESS)
		return !r->rule.allow ||
			reason_allows(policy_admit_address(&r->rule, &s->q->host->address));
	return pattern_covers(r->kind, labels_before);
}

static void search_host(const struct profile *p, struct search *s)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &p->matcher;
	size_t count = matcher_find(m, s->q->host, spans);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			const struct matcher_group *group = &m->groups[spans[i].first + g];
			const struct rule_entry *first = m->rules[group->first];
			if (!covers(s, first, spans[i].labels_before))
				continue;
			if (first->rule.allow)
				allow_group(s, m, group);
			else
				deny_group(s, m, group);
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

/** No allow rule opens the address, so its class decides; then a public one may be named by a deny rule. */
static bool decide_address(const struct search *s, struct policy_verdict *ret)
{
	const struct host *host = s->q->host;
	enum address_class class = address_classify(&host->address);
	if (s->near != NULL || (class == ADDRESS_PUBLIC && s->deny != NULL))
		return false;
	*ret = (struct policy_verdict){.reason = class == ADDRESS_METADATA
			? REASON_DENY_ADDRESS_METADATA
			: class == ADDRESS_PUBLIC ? REASON_DENY_DEFAULT
						  : REASON_DENY_ADDRESS_PRIVATE};
	(void)snprintf(ret->detail, sizeof(ret->detail),
		"%.45s is a %s address, and no ip: rule allows it", host->name,
		address_class_name(class));
	return true;
}

/** What enforcing says, before anything that observes. */
static void enforce(const struct profile *p, const struct search *s, struct policy_verdict *ret)
{
	const struct host *host = s->q->host;
	if (host->kind == HOST_ADDRESS && decide_address(s, ret))
		return;
	enum reason reason = stage_reasons[s->near_stage];
	if (s->deny != NULL)
		answer(s, REASON_DENY_RULE, s->deny, ret);
	else if (s->near_stage == STAGE_MATCH && !s->host_only)
		answer(s, judge_target(s->q, s->near), s->near, ret);
	else if (s->near_stage == STAGE_MATCH && s->near->rule.transport == POLICY_SPLICE)
		answer(s, REASON_ALLOW_SPLICE, s->near, ret);
	else
		answer(s, reason, s->near, ret);
	if (ret->rule == NULL)
		(void)snprintf(ret->detail, sizeof(ret->detail),
			"no allow rule of profile %.63s names %.140s", p->name, host->name);
}

/** What observing passes. Explicit deny rules and address classes stay enforced. */
static bool relaxes(enum reason reason)
{
	switch (reason) {
	case REASON_DENY_DEFAULT:
	case REASON_DENY_EXPIRED:
	case REASON_DENY_PORT:
	case REASON_DENY_SCHEME:
	case REASON_DENY_METHOD:
	case REASON_DENY_PATH:
	case REASON_DENY_QUERY:
	case REASON_DENY_SMUGGLING: /* a rule without enc-slash=; malformed paths come never so far */
		return true;
	default:
		return false;
	}
}

static void decide(const struct profile *p, struct search *s, struct policy_verdict *ret)
{
	search_host(p, s);
	ret->would = REASON_ALLOW_RULE;
	enforce(p, s, ret);
	if (s->q->enforce || !relaxes(ret->reason))
		return;
	const struct rule_entry *observer = s->observer;
	/* Beyond its own ports, where the compiler looked: bytes that pass unread would pass what is denied, too. */
	if (observer != NULL && observer->rule.transport == POLICY_SPLICE && s->partly_denied)
		observer = NULL;
	if (observer == NULL && s->q->host->kind == HOST_NAME)
		observer = p->observer;
	if (observer == NULL)
		return;
	ret->would = ret->reason;
	ret->reason = REASON_OBSERVE_WOULD_DENY;
	ret->rule = &observer->rule;
}

void policy_decide_host(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	struct search s = {.q = q, .host_only = true};
	decide(p, &s, ret);
}

enum policy_scheme policy_decide_tunnel(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	struct policy_question asked = *q;
	struct policy_verdict plain;
	asked.scheme = POLICY_SCHEME_HTTPS;
	policy_decide_host(p, &asked, ret);
	if (ret->reason == REASON_ALLOW_RULE || ret->reason == REASON_ALLOW_SPLICE)
		return POLICY_SCHEME_HTTPS;
	asked.scheme = POLICY_SCHEME_HTTP;
	policy_decide_host(p, &asked, &plain);
	if (plain.reason != REASON_ALLOW_RULE)
		return POLICY_SCHEME_HTTPS; /* observed, or refused: by what is said of https */
	*ret = plain;
	return POLICY_SCHEME_HTTP;
}

void policy_decide(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	char room[TARGET_PATH_BYTES];
	struct search s = {.q = q, .folded = fold_path(q->path, room)};
	decide(p, &s, ret);
}
