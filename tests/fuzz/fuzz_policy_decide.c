/*
 * Any profile and any questions: what the matcher answers is what its rules say when each is asked in turn, and the
 * effective rules written down are the same policy again.
 */
#include "policy/ask.h"
#include "policy/bundle.h"
#include "policy/canonical.h"
#include "policy/diff.h"
#include "policy/explain.h"
#include "policy/profile.h"
#include "policy/source.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD      "policy 1\n[profile p]\n"
#define NOW_MS    UINT64_C(1800000000000)
#define ASKED_MAX 8

static struct policy *compile(struct slice text)
{
	static struct policy_report report;
	struct policy *p = NULL;
	struct bundle_text file = {BUNDLE_FILE, SLICE("x.allow"), text};
	struct buf bundle = {.limit = POLICY_BUNDLE_BYTES_MAX};
	if (bundle_open(&bundle) == 0 && bundle_append(&bundle, &file) == 0)
		(void)policy_compile(buf_slice(&bundle), &p, &report);
	buf_fini(&bundle);
	return p;
}

/** The path as a server may read it that decodes slashes and merges them; deny rules know both. */
static bool path_denied(const struct rule_entry *r, struct slice path)
{
	char folded[TARGET_PATH_BYTES];
	size_t len = 0;
	size_t literal;
	for (size_t i = 0; i < path.len; i++) {
		bool encoded = slice_equal(slice_part(path, i, i + 3), SLICE("%2F"));
		char c = encoded ? '/' : path.ptr[i];
		i += encoded ? 2 : 0;
		if (c != '/' || len == 0 || folded[len - 1] != '/')
			folded[len++] = c;
	}
	return rule_has_path(r, path, &literal) ||
		rule_has_path(r, (struct slice){folded, len}, &literal);
}

static bool connects(const struct rule_entry *r, const struct policy_question *q)
{
	return rule_covers_host(r, q->host) && rule_has_port(r, q->port) &&
		rule_has_scheme(r, q->port, q->scheme);
}

/** Whether the rule is about the whole request. */
static bool matches(const struct rule_entry *r, const struct policy_question *q)
{
	size_t literal;
	if (!connects(r, q) || !rule_has_method(r, q->method))
		return false;
	if (!r->rule.allow)
		return path_denied(r, q->path);
	return r->rule.transport == POLICY_INSPECT && q->now_ms < r->expires_ms &&
		rule_has_path(r, q->path, &literal);
}

static void check_request(const struct profile *p, const struct policy_question *q)
{
	struct policy_verdict v;
	bool denied = false;
	bool allowed = false;
	policy_decide(p, q, &v);
	for (size_t i = 0; i < p->rule_count; i++) {
		bool match = matches(p->rules[i], q);
		denied = denied || (match && !p->rules[i]->rule.allow);
		allowed = allowed || (match && p->rules[i]->rule.allow);
	}
	if (v.reason == REASON_ALLOW_RULE)
		assert(!denied && matches(rule_entry_of(v.rule), q));
	else if (v.reason == REASON_OBSERVE_WOULD_DENY)
		assert(!denied && v.rule->observe && !q->enforce);
	else if (v.reason == REASON_DENY_RULE)
		assert(denied && !v.rule->allow);
	else if (q->host->kind == HOST_NAME)
		assert(!denied &&
			(!allowed || v.reason == REASON_DENY_QUERY ||
				v.reason == REASON_DENY_SMUGGLING));
}

static void check_host(const struct profile *p, const struct policy_question *q)
{
	struct policy_verdict v;
	policy_decide_host(p, q, &v);
	assert(!reason_allows(v.reason) || v.rule->allow);
	assert(v.reason != REASON_OBSERVE_WOULD_DENY || v.rule->observe);
	if (v.reason == REASON_ALLOW_RULE || v.reason == REASON_ALLOW_SPLICE)
		assert(connects(rule_entry_of(v.rule), q) &&
			(v.reason == REASON_ALLOW_SPLICE) == (v.rule->transport == POLICY_SPLICE));
	if (q->host->kind == HOST_ADDRESS && reason_allows(v.reason))
		assert(reason_allows(policy_admit_address(v.rule, &q->host->address)));
}

static void ask(const struct profile *p, struct slice method, struct slice url, bool enforce)
{
	static struct policy_ask a;
	static struct explanation e;
	struct policy_verdict v;
	policy_ask_init(&a, method, url, NOW_MS);
	policy_ask_decide(p, &a, &v);
	assert(reason_allows(v.reason) == false || v.rule != NULL);
	a.question.enforce = enforce;
	(void)policy_explain(p, &a, &e);
	if (a.refused != REASON_ALLOW_RULE)
		return;
	check_host(p, &a.question);
	if (a.path_refused == REASON_ALLOW_RULE && !a.connect)
		check_request(p, &a.question);
}

static void check_spelling(const struct profile *p)
{
	struct canonical_list list;
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX};
	(void)buf_append_text(&text, HEAD);
	assert(canonical_list(p, &list) == 0);
	for (size_t i = 0; i < list.count; i++)
		(void)buf_printf(&text, "%s\n", list.lines[i].text);
	canonical_list_free(&list);
	struct policy *again = text.failed ? NULL : compile(buf_slice(&text));
	struct policy_diff diff;
	/* A line that was as long as may be can be too long with all its defaults. */
	if (again != NULL) {
		assert(strcmp(profile_digest(&again->profiles[0]), profile_digest(p)) == 0);
		assert(policy_diff(p, &again->profiles[0], NOW_MS, &diff) == 0);
		assert(diff.count == 0);
		policy_diff_free(&diff);
	}
	policy_free(again);
	buf_fini(&text);
}

/** Statements of a profile up to a NUL byte; then questions, a line each: "METHOD URL". */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice statements = {(const char *)data, size};
	struct slice questions = {NULL, 0};
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX};
	(void)slice_split(statements, '\0', &statements, &questions);
	(void)buf_append_text(&text, HEAD);
	(void)buf_append(&text, statements);
	struct policy *p = text.failed ? NULL : compile(buf_slice(&text));
	buf_fini(&text);
	if (p == NULL || p->profile_count == 0) {
		policy_free(p);
		return 0;
	}
	for (size_t i = 0; i < ASKED_MAX && questions.len > 0; i++) {
		struct slice line = questions;
		struct slice rest = {NULL, 0};
		struct slice method;
		struct slice url;
		(void)slice_split(questions, '\n', &line, &rest);
		if (slice_split(line, ' ', &method, &url))
			ask(&p->profiles[0], method, url, i % 2 == 1);
		questions = rest;
	}
	check_spelling(&p->profiles[0]);
	policy_free(p);
	return 0;
}
