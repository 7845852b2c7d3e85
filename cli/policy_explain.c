/* `eclusa policy explain`: one request, its verdict, and what would change it. */
#include "cli/policy.h"

#include "policy/canonical.h"
#include "policy/explain.h"

#include "common/cleanup.h"

#include <stdio.h>

/** One answer on its way out. */
struct explain_answer {
	const struct profile *profile;
	const struct policy_ask *ask;
	const struct explanation *e;
	struct slice url;
	struct buf out;
};

static void print_place(const struct rule *rule, struct buf *out)
{
	(void)buf_printf(out, "%s:%u: %s", rule->file, rule->line, rule->text);
}

/** What follows for the connection where nobody reads requests; "" elsewhere. */
static const char *passage(const struct rule *rule)
{
	static const char *const texts[] = {
		[POLICY_INSPECT] = "",
		[POLICY_SPLICE] = "TLS passes unopened: its requests are not judged, nor recorded",
		[POLICY_TCP] = "bytes pass unread, and TLS or HTTP is cut",
	};
	return rule->allow ? texts[rule->transport] : "";
}

/** The rule that decided; of one that allows also its limits, those too that nobody wrote. */
static void print_decider(struct explain_answer *a, const struct rule *rule)
{
	(void)buf_append_text(&a->out, "  ");
	print_place(rule, &a->out);
	if (rule->allow) {
		(void)buf_append_text(&a->out, "\n  in full: ");
		(void)canonical_effect(rule, &a->out); /* its failure is the buffer's */
	}
	if (passage(rule)[0] != '\0')
		(void)buf_printf(&a->out, "\n  %s", passage(rule));
	(void)buf_append_text(&a->out, "\n");
}

/** Who is let through wants to know which rules else may have decided, not which are for other hosts. */
static bool shows_miss(const struct explanation *e, const struct explain_miss *miss)
{
	return !reason_allows(e->enforced.reason) || (miss->differs >> EXPLAIN_HOST & 1) == 0;
}

static void print_misses(struct explain_answer *a)
{
	const char *head = "near misses:\n";
	for (size_t i = 0; i < a->e->miss_count; i++) {
		const struct explain_miss *miss = &a->e->misses[i];
		if (!shows_miss(a->e, miss))
			continue;
		(void)buf_append_text(&a->out, head);
		head = "";
		const char *separator = "   differs: ";
		(void)buf_append_text(&a->out, "  ");
		print_place(miss->rule, &a->out);
		for (unsigned d = 0; d < EXPLAIN_DIFFERENCE_COUNT; d++) {
			if ((miss->differs >> d & 1) == 0)
				continue;
			(void)buf_printf(&a->out, "%s%s", separator,
				explain_difference_name((enum explain_difference)d));
			separator = ", ";
		}
		(void)buf_append_text(&a->out, "\n");
	}
}

static void print_edit(struct explain_answer *a)
{
	const struct explanation *e = a->e;
	if (reason_allows(e->enforced.reason))
		return;
	(void)buf_printf(&a->out, "smallest edit: %s\n", e->why);
	if (e->at != NULL) {
		(void)buf_append_text(&a->out, "  ");
		print_place(e->at, &a->out);
		(void)buf_append_text(&a->out, "\n");
	}
	if (e->rule_text[0] != '\0')
		(void)buf_printf(&a->out, "  %sallow %s\n",
			e->edit == EXPLAIN_EDIT_REMOVE ? "and add: " : "", e->rule_text);
	if (e->edit == EXPLAIN_EDIT_ADD && a->ask->connect)
		(void)buf_printf(&a->out,
			"  or, for a protocol that is neither TLS nor HTTP: allow tcp %s:%u\n",
			a->ask->host.name, a->ask->question.port);
}

static void print_lines(struct explain_answer *a)
{
	const struct policy_verdict *v = &a->e->verdict;
	char method[64];
	char url[512];
	(void)buf_printf(&a->out, "%s  %s %s  (profile %s)\n", reason_code(v->reason),
		slice_escape(a->ask->question.method, method, sizeof(method)),
		slice_escape(a->url, url, sizeof(url)), profile_name(a->profile));
	if (v->reason == REASON_OBSERVE_WOULD_DENY)
		(void)buf_printf(&a->out, "  enforced it is %s\n", reason_code(v->would));
	if (v->detail[0] != '\0')
		(void)buf_printf(&a->out, "  %s\n", v->detail);
	if (v->rule != NULL)
		print_decider(a, v->rule);
	print_misses(a);
	print_edit(a);
}

static void json_rule(struct json *j, const char *key, const struct rule *rule)
{
	json_object(j, key);
	json_text(j, "id", rule->id);
	json_text(j, "file", rule->file);
	json_uint(j, "line", rule->line);
	json_text(j, "text", rule->text);
}

/** The rule that decided, with what it comes to. */
static void json_decider(struct json *j, const struct rule *rule)
{
	static const char *const transports[] = {
		[POLICY_INSPECT] = "inspect", [POLICY_SPLICE] = "splice", [POLICY_TCP] = "tcp"};
	struct buf effect = {.limit = 0};
	json_rule(j, "rule", rule);
	if (rule->allow) {
		(void)canonical_effect(rule, &effect);
		json_slice(j, "effect", buf_slice(&effect));
		json_text(j, "transport", transports[rule->transport]);
		json_bool(j, "observe", rule->observe);
	}
	json_object_end(j);
	j->out->failed = j->out->failed || effect.failed;
	buf_fini(&effect);
}

static void json_question(struct json *j, const struct policy_ask *ask)
{
	const struct policy_question *q = &ask->question;
	if (ask->refused != REASON_ALLOW_RULE) {
		json_null(j, "request");
		return;
	}
	json_object(j, "request");
	json_text(j, "host", ask->host.name);
	json_uint(j, "port", q->port);
	json_text(j, "scheme", q->scheme == POLICY_SCHEME_HTTP ? "http" : "https");
	json_slice(j, "method", q->method);
	if (!ask->connect && ask->path_refused == REASON_ALLOW_RULE) {
		json_slice(j, "path", q->path);
		json_bool(j, "has_query", q->has_query);
	}
	json_object_end(j);
}

static void json_misses(struct json *j, const struct explanation *e)
{
	json_array(j, "near_misses");
	for (size_t i = 0; i < e->miss_count; i++) {
		if (!shows_miss(e, &e->misses[i]))
			continue;
		json_rule(j, NULL, e->misses[i].rule);
		json_array(j, "differs");
		for (unsigned d = 0; d < EXPLAIN_DIFFERENCE_COUNT; d++) {
			if ((e->misses[i].differs >> d & 1) != 0)
				json_text(j, NULL,
					explain_difference_name((enum explain_difference)d));
		}
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_edit(struct json *j, const struct explanation *e)
{
	static const char *const actions[] = {
		[EXPLAIN_EDIT_NONE] = "none",
		[EXPLAIN_EDIT_ADD] = "add",
		[EXPLAIN_EDIT_CHANGE] = "change",
		[EXPLAIN_EDIT_REMOVE] = "remove",
	};
	json_object(j, "edit");
	json_text(j, "action", actions[e->edit]);
	json_text(j, "text", e->why);
	if (e->at != NULL) {
		json_rule(j, "rule", e->at);
		json_object_end(j);
	}
	if (e->rule_text[0] != '\0')
		json_format(j, "add", "allow %s", e->rule_text);
	json_object_end(j);
}

static void print_json(struct explain_answer *a)
{
	struct json j;
	const struct policy_verdict *v = &a->e->verdict;
	json_open(&j, &a->out);
	json_object(&j, NULL);
	json_text(&j, "verdict", reason_allows(v->reason) ? "allow" : "deny");
	json_text(&j, "reason", reason_code(v->reason));
	if (v->reason == REASON_OBSERVE_WOULD_DENY)
		json_text(&j, "would", reason_code(v->would));
	json_text(&j, "detail", v->detail);
	json_text(&j, "profile", profile_name(a->profile));
	json_text(&j, "effective", profile_digest(a->profile));
	json_question(&j, a->ask);
	if (v->rule == NULL)
		json_null(&j, "rule");
	else
		json_decider(&j, v->rule);
	json_misses(&j, a->e);
	json_edit(&j, a->e);
	json_object_end(&j);
	(void)buf_append_text(&a->out, "\n");
}

/** Ask a loaded policy. */
static int explain(const struct policy_words *words, const struct policy *policy)
{
	size_t at = words->word_count - 2;
	const char *name = at == 1 ? words->words[0] : NULL;
	struct failure why = {0};
	struct explain_answer a = {.url = slice_of(words->words[at + 1]), .out = {.limit = 0}};
	auto_free struct policy_ask *ask = calloc(1, sizeof(*ask));
	auto_free struct explanation *e = calloc(1, sizeof(*e));
	if (ask == NULL || e == NULL)
		return policy_usage("out of memory", "");
	if (policy_profile(policy, name, &a.profile, &why) < 0) {
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
		return POLICY_EXIT_UNREADABLE;
	}
	if (strstr(words->words[at], "://") != NULL)
		return policy_usage(
			"the method stands before the URL, and is no URL: ", words->words[at]);
	policy_ask_init(ask, slice_of(words->words[at]), a.url, words->at_ms);
	if (policy_explain(a.profile, ask, e) < 0)
		return policy_usage("out of memory", "");
	a.ask = ask;
	a.e = e;
	if (words->json)
		print_json(&a);
	else
		print_lines(&a);
	return policy_finish(&a.out,
		reason_allows(e->verdict.reason) ? POLICY_EXIT_CLEAN : POLICY_EXIT_FINDINGS);
}

int policy_explain_request(const struct policy_words *words)
{
	if ((words->policy != NULL) == (words->allow_count > 0))
		return policy_usage("explain takes either --policy or --allow", "");
	struct policy *policy = policy_load_good(words, NULL);
	int status = policy == NULL ? POLICY_EXIT_UNREADABLE : explain(words, policy);
	policy_free(policy);
	return status;
}
