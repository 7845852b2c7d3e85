/* See explain.h. Asks the same code that decides; here is only what people want to know beside the verdict. */
#include "policy/explain.h"

#include "policy/profile.h"
#include "policy/source.h"
#include "policy/value.h"

#include "common/cleanup.h"

#include <assert.h>

static const char *const names[] = {
	[EXPLAIN_HOST] = "host",
	[EXPLAIN_PORT] = "port",
	[EXPLAIN_SCHEME] = "scheme",
	[EXPLAIN_METHOD] = "method",
	[EXPLAIN_PATH] = "path",
	[EXPLAIN_ENCODED_SLASH] = "enc-slash",
	[EXPLAIN_QUERY] = "query",
	[EXPLAIN_EXPIRED] = "expires",
};

static_assert(array_size(names) == EXPLAIN_DIFFERENCE_COUNT, "a name for every difference");

const char *explain_difference_name(enum explain_difference d)
{
	return names[d];
}

/** Whether the rule's name is all of the host's, or its end after a dot; then *ret_before labels stand before. */
static bool is_suffix(struct slice name, struct slice host, size_t *ret_before)
{
	size_t before = 0;
	if (!slice_ends(host, name))
		return false;
	size_t rest = host.len - name.len;
	if (rest > 0 && host.ptr[rest - 1] != '.')
		return false;
	for (size_t i = 0; i < rest; i++)
		before += host.ptr[i] == '.';
	*ret_before = before;
	return true;
}

/** Whether somebody may have meant this rule's host: related, one inside of the other, or a slip away. */
static bool resembles(const struct rule_entry *r, const struct host *asked)
{
	size_t before;
	const char *words[] = {NULL, NULL};
	char word[HOST_NAME_BYTES];
	struct slice host = slice_of(asked->name);
	if (rule_covers_host(r, asked))
		return true;
	if (r->kind == PATTERN_ANY || r->kind == PATTERN_ADDRESS || asked->kind == HOST_ADDRESS)
		return false;
	if (is_suffix(r->name, host, &before) || is_suffix(host, r->name, &before))
		return true;
	if (slice_ends(host, r->name)) /* xallowed.test */
		return true;
	if (slice_starts(host, r->name) && host.ptr[r->name.len] == '.')
		return true; /* allowed.test.evil.test */
	if (slice_copy(r->name, word, sizeof(word)) < 0)
		return false;
	words[0] = word;
	return report_nearest(host, words) != NULL;
}

static unsigned bit(enum explain_difference d, bool differs)
{
	return differs ? 1u << d : 0;
}

/** What of the request lies outside of an allow rule. */
static unsigned differences(const struct rule_entry *r, const struct policy_ask *ask)
{
	const struct policy_question *q = &ask->question;
	size_t literal;
	bool whole = !ask->connect && ask->path_refused == REASON_ALLOW_RULE;
	bool raw = r->rule.transport == POLICY_TCP && !ask->connect;
	return bit(EXPLAIN_HOST, !rule_covers_host(r, q->host)) |
		bit(EXPLAIN_PORT, !rule_has_port(r, q->port)) |
		bit(EXPLAIN_SCHEME, raw || !rule_has_scheme(r, q->port, q->scheme)) |
		bit(EXPLAIN_METHOD, !ask->connect && !rule_has_method(r, q->method)) |
		bit(EXPLAIN_PATH, whole && !rule_has_path(r, q->path, &literal)) |
		bit(EXPLAIN_ENCODED_SLASH, whole && q->encoded_slash && !r->rule.encoded_slash) |
		bit(EXPLAIN_QUERY, whole && q->has_query && r->rule.query_denied) |
		bit(EXPLAIN_EXPIRED, q->now_ms >= r->expires_ms);
}

/** Less is nearer. Another host is further away than everything else together. */
static unsigned weight(unsigned differs)
{
	return (unsigned)__builtin_popcount(differs) +
		(differs >> EXPLAIN_HOST & 1) * EXPLAIN_DIFFERENCE_COUNT;
}

/** Insert in order; the furthest falls off the end. */
static void add_miss(struct explanation *e, const struct rule_entry *r, unsigned differs)
{
	size_t at = e->miss_count;
	while (at > 0 && weight(e->misses[at - 1].differs) > weight(differs))
		at--;
	if (at == EXPLAIN_MISSES_MAX)
		return;
	if (e->miss_count < EXPLAIN_MISSES_MAX)
		e->miss_count++;
	for (size_t i = e->miss_count - 1; i > at; i--)
		e->misses[i] = e->misses[i - 1];
	e->misses[at] = (struct explain_miss){&r->rule, differs};
}

static void find_misses(
	const struct profile *p, const struct policy_ask *ask, struct explanation *ret)
{
	for (size_t i = 0; i < p->rule_count; i++) {
		const struct rule_entry *r = p->rules[i];
		if (!r->rule.allow || !resembles(r, &ask->host))
			continue;
		unsigned differs = differences(r, ask);
		if (differs != 0)
			add_miss(ret, r, differs);
	}
}

/** Compile the one rule that was proposed. */
static int compile_rule(const char *text, struct policy **ret)
{
	struct buf bundle = {.limit = 0};
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	int r = report == NULL ? -ENOMEM : policy_source_rules(&text, 1, &bundle, NULL);
	if (r == 0)
		r = policy_compile(buf_slice(&bundle), ret, report);
	buf_fini(&bundle);
	return r;
}

/** The proposed rule decides, because it is more specific than the one that decided against the request. */
static bool beats(const struct rule *proposed, const struct policy_ask *ask, const struct rule *now)
{
	size_t literal = 0;
	size_t now_literal = 0;
	const struct rule_entry *entry = rule_entry_of(proposed);
	if (now == NULL)
		return true;
	(void)rule_has_path(entry, ask->question.path, &literal);
	(void)rule_has_path(rule_entry_of(now), ask->question.path, &now_literal);
	return rule_compare_specificity(entry, literal, rule_entry_of(now), now_literal) > 0;
}

/** The allow rule for the same host that came nearest, or NULL. */
static const struct rule *nearest_allowing(const struct explanation *e)
{
	const struct rule *decided = e->enforced.rule;
	if (decided != NULL && decided->allow)
		return decided;
	if (e->miss_count > 0 && (e->misses[0].differs >> EXPLAIN_HOST & 1) == 0)
		return e->misses[0].rule;
	return NULL;
}

/**
 * Put the narrowest rule into @ret. *ret_works: with it, and deny rules aside, the request would pass.
 * @return 0 or -ENOMEM.
 */
static int propose(const struct policy_ask *ask, const struct rule *now, struct explanation *ret,
	bool *ret_works)
{
	struct policy *policy = NULL;
	struct policy_verdict v;
	*ret_works = false;
	(void)policy_suggest(
		&ask->question, nearest_allowing(ret), ret->rule_text, sizeof(ret->rule_text));
	if (ret->rule_text[0] == '\0')
		return 0;
	int r = compile_rule(ret->rule_text, &policy);
	if (r < 0 || policy == NULL)
		return r == -ENOMEM ? r : 0;
	policy_ask_decide(&policy->profiles[0], ask, &v);
	*ret_works = reason_allows(v.reason) && beats(v.rule, ask, now);
	policy_free(policy);
	return 0;
}

static void edit(struct explanation *e, enum explain_edit kind, const char *why)
{
	e->edit = kind;
	e->why = why;
	e->at = kind == EXPLAIN_EDIT_CHANGE || kind == EXPLAIN_EDIT_REMOVE ? e->enforced.rule
									   : NULL;
	if (kind == EXPLAIN_EDIT_NONE || kind == EXPLAIN_EDIT_CHANGE)
		e->rule_text[0] = '\0';
}

/** What is said where no rule could change the verdict, or NULL. */
static const char *hopeless(const struct policy_ask *ask, const struct policy_verdict *v)
{
	if (reason_allows(v->reason))
		return "it is allowed";
	if (ask->refused != REASON_ALLOW_RULE || v->reason == ask->path_refused)
		return "no rule can allow it: the request is malformed";
	if (v->reason == REASON_DENY_ADDRESS_METADATA)
		return "only an ip: rule for this very address allows it, and it leads to the "
		       "machine's own credentials";
	bool closed = ask->host.kind == HOST_ADDRESS && v->reason != REASON_DENY_RULE &&
		v->reason != REASON_DENY_EXPIRED &&
		address_classify(&ask->host.address) != ADDRESS_PUBLIC;
	if (closed)
		return "only an ip: rule allows it, and it leads into networks of your own";
	bool raw = v->rule != NULL && v->rule->allow && v->rule->transport == POLICY_TCP;
	if (v->reason == REASON_DENY_PROTOCOL || (v->reason == REASON_DENY_SCHEME && raw))
		return "a tcp rule stands for this host and port, which carries no HTTP and no TLS";
	return NULL;
}

/** Whether some allow rule admits the request, deny rules aside. */
static bool admitted(const struct profile *p, const struct policy_ask *ask)
{
	for (size_t i = 0; i < p->rule_count; i++) {
		if (p->rules[i]->rule.allow && differences(p->rules[i], ask) == 0)
			return true;
	}
	return false;
}

static int find_edit(const struct profile *p, const struct policy_ask *ask, struct explanation *ret)
{
	bool works = false;
	enum reason reason = ret->enforced.reason;
	const char *why = hopeless(ask, &ret->enforced);
	/* Only these two are said by a rule that matches; a new one has to be more specific. */
	bool matched = reason == REASON_DENY_QUERY || reason == REASON_DENY_SMUGGLING;
	if (why != NULL) {
		edit(ret, EXPLAIN_EDIT_NONE, why);
		return 0;
	}
	int r = propose(ask, matched ? ret->enforced.rule : NULL, ret, &works);
	if (r < 0)
		return r;
	if (reason == REASON_DENY_RULE) {
		if (!works || admitted(p, ask))
			ret->rule_text[0] = '\0';
		edit(ret, EXPLAIN_EDIT_REMOVE,
			"remove or narrow this deny rule: it beats every allow rule");
	} else if (reason == REASON_DENY_EXPIRED) {
		edit(ret, EXPLAIN_EDIT_CHANGE, "give it a later expires=");
	} else if (works) {
		edit(ret, EXPLAIN_EDIT_ADD, "add this rule to the profile");
	} else if (reason == REASON_DENY_QUERY) {
		edit(ret, EXPLAIN_EDIT_CHANGE, "remove its query=deny");
	} else if (reason == REASON_DENY_SMUGGLING) {
		edit(ret, EXPLAIN_EDIT_CHANGE, "give it enc-slash=literal");
	} else {
		edit(ret, EXPLAIN_EDIT_NONE,
			ask->connect || value_method(ask->question.method) == NULL
				? "no rule can spell this request"
				: "no rule can allow it: methods of rules are in upper case");
	}
	return 0;
}

int policy_explain(const struct profile *p, const struct policy_ask *ask, struct explanation *ret)
{
	*ret = (struct explanation){.miss_count = 0};
	policy_ask_decide(p, ask, &ret->verdict);
	policy_ask_enforce(p, ask, &ret->enforced);
	if (ask->refused == REASON_ALLOW_RULE)
		find_misses(p, ask, ret);
	return find_edit(p, ask, ret);
}
