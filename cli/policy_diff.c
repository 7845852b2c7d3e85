/* `eclusa policy diff`: which decisions change between two policies, profile by profile. */
#include "cli/policy.h"

#include "policy/diff.h"

#include <stdio.h>

struct diff_run {
	const struct policy *sides[2];
	uint64_t now_ms;
	size_t kinds[DIFF_KIND_COUNT];
	bool complete;
	bool weaker; /* some profile waits no longer for the disk */
	struct buf out;
	struct json json;
	bool as_json;
};

static void print_rule(
	const char *word, const struct rule *rule, enum reason reason, struct buf *out)
{
	if (rule == NULL)
		(void)buf_printf(out, "      %s %s\n", word, reason_code(reason));
	else
		(void)buf_printf(out, "      %s %s by %s:%u: %s\n", word, reason_code(reason),
			rule->file, rule->line, rule->text);
}

static void print_change(const struct diff_change *c, struct buf *out)
{
	const char *separator = " (";
	(void)buf_printf(out, "  %s: %s", diff_kind_name(c->kind), c->example);
	for (unsigned i = 0; i < DIFF_LIMIT_COUNT; i++) {
		if ((c->limits >> i & 1) == 0)
			continue;
		(void)buf_printf(out, "%s%s", separator, diff_limit_name((enum diff_limit)i));
		separator = ", ";
	}
	(void)buf_append_text(out, c->limits != 0 ? ")\n" : "\n");
	print_rule("was", c->old_rule, c->old_reason, out);
	print_rule("is ", c->new_rule, c->new_reason, out);
}

static void json_side(struct json *j, const char *key, const struct rule *rule, enum reason reason)
{
	json_object(j, key);
	json_text(j, "reason", reason_code(reason));
	if (rule != NULL) {
		json_text(j, "id", rule->id);
		json_text(j, "file", rule->file);
		json_uint(j, "line", rule->line);
		json_text(j, "text", rule->text);
	}
	json_object_end(j);
}

static void json_change(const struct diff_change *c, struct json *j)
{
	json_object(j, NULL);
	json_text(j, "kind", diff_kind_name(c->kind));
	json_text(j, "example", c->example);
	json_array(j, "limits");
	for (unsigned i = 0; i < DIFF_LIMIT_COUNT; i++) {
		if ((c->limits >> i & 1) != 0)
			json_text(j, NULL, diff_limit_name((enum diff_limit)i));
	}
	json_array_end(j);
	json_side(j, "old", c->old_rule, c->old_reason);
	json_side(j, "new", c->new_rule, c->new_reason);
	json_object_end(j);
}

static const char *commit_of(const struct profile *p)
{
	return profile_commits_before(p) ? "before" : "after";
}

/** What is set of a profile that is in both: no decision changes, but what its record is worth does. */
static void print_commit(
	struct diff_run *run, const struct profile *old_profile, const struct profile *new_profile)
{
	if (old_profile == NULL || new_profile == NULL ||
		profile_commits_before(old_profile) == profile_commits_before(new_profile))
		return;
	run->weaker = run->weaker || profile_commits_before(old_profile);
	if (!run->as_json)
		(void)buf_printf(&run->out, "profile %s: commit was %s, is %s\n",
			profile_name(new_profile), commit_of(old_profile), commit_of(new_profile));
}

static void json_commit(
	struct json *j, const struct profile *old_profile, const struct profile *new_profile)
{
	json_object(j, "commit");
	if (old_profile != NULL)
		json_text(j, "old", commit_of(old_profile));
	if (new_profile != NULL)
		json_text(j, "new", commit_of(new_profile));
	json_object_end(j);
}

static void print_profile(struct diff_run *run, const struct profile *old_profile,
	const struct profile *new_profile, const char *state, const struct policy_diff *diff)
{
	const char *name = profile_name(old_profile != NULL ? old_profile : new_profile);
	print_commit(run, old_profile, new_profile);
	if (run->as_json) {
		json_object(&run->json, NULL);
		json_text(&run->json, "name", name);
		json_text(&run->json, "state", state);
		json_commit(&run->json, old_profile, new_profile);
		json_bool(&run->json, "complete", diff->complete);
		json_array(&run->json, "changes");
	} else if (diff->count > 0) {
		(void)buf_printf(&run->out, "profile %s (%s)\n", name, state);
	}
	for (size_t i = 0; i < diff->count; i++) {
		if (run->as_json)
			json_change(&diff->changes[i], &run->json);
		else
			print_change(&diff->changes[i], &run->out);
	}
	if (run->as_json) {
		json_array_end(&run->json);
		json_object_end(&run->json);
	} else if (!diff->complete) {
		(void)buf_printf(&run->out,
			"profile %s: the changed rules of some host have more combinations than are tried; not "
			"everything was compared\n",
			name);
	}
}

/** @p of one side; its twin on the other side has the same name. */
static int compare(
	struct diff_run *run, const struct profile *old_profile, const struct profile *new_profile)
{
	struct policy_diff diff;
	const char *state = old_profile == NULL ? "added"
		: new_profile == NULL           ? "removed"
						: "in both";
	int r = policy_diff(old_profile, new_profile, run->now_ms, &diff);
	if (r < 0)
		return r;
	print_profile(run, old_profile, new_profile, state, &diff);
	for (size_t i = 0; i < DIFF_KIND_COUNT; i++)
		run->kinds[i] += diff.kinds[i];
	run->complete = run->complete && diff.complete;
	policy_diff_free(&diff);
	return 0;
}

/** The profile of this name, or NULL. */
static const struct profile *find(const struct policy *policy, const char *name)
{
	for (size_t i = 0; policy_profile_at(policy, i) != NULL; i++) {
		if (strcmp(profile_name(policy_profile_at(policy, i)), name) == 0)
			return policy_profile_at(policy, i);
	}
	return NULL;
}

static int compare_profiles(struct diff_run *run)
{
	const struct profile *p;
	int r = 0;
	for (size_t i = 0; r == 0 && (p = policy_profile_at(run->sides[0], i)) != NULL; i++)
		r = compare(run, p, find(run->sides[1], profile_name(p)));
	for (size_t i = 0; r == 0 && (p = policy_profile_at(run->sides[1], i)) != NULL; i++) {
		if (find(run->sides[0], profile_name(p)) == NULL)
			r = compare(run, NULL, p);
	}
	return r;
}

static void print_end(struct diff_run *run)
{
	if (run->as_json) {
		json_array_end(&run->json);
		for (unsigned i = 0; i < DIFF_KIND_COUNT; i++)
			json_uint(&run->json, diff_kind_name((enum diff_kind)i), run->kinds[i]);
		json_bool(&run->json, "complete", run->complete);
		json_object_end(&run->json);
	} else {
		for (unsigned i = 0; i < DIFF_KIND_COUNT; i++)
			(void)buf_printf(&run->out, "%s%zu %s", i == 0 ? "" : ", ", run->kinds[i],
				diff_kind_name((enum diff_kind)i));
	}
	(void)buf_append_text(&run->out, "\n");
}

static int diff(struct diff_run *run)
{
	buf_init(&run->out, POLICY_OUTPUT_BYTES_MAX);
	if (run->as_json) {
		json_open(&run->json, &run->out);
		json_object(&run->json, NULL);
		json_array(&run->json, "profiles");
	}
	if (compare_profiles(run) < 0) {
		buf_fini(&run->out);
		return policy_usage("out of memory", "");
	}
	print_end(run);
	bool wider = run->kinds[DIFF_ALLOWED] + run->kinds[DIFF_WIDER] > 0 || !run->complete ||
		run->weaker;
	return policy_finish(&run->out, wider ? POLICY_EXIT_FINDINGS : POLICY_EXIT_CLEAN);
}

int policy_diff_files(const struct policy_words *words)
{
	struct diff_run run = {.now_ms = words->at_ms, .complete = true, .as_json = words->json};
	struct policy *before = policy_load_good(words, words->words[0]);
	struct policy *after = before == NULL ? NULL : policy_load_good(words, words->words[1]);
	run.sides[0] = before;
	run.sides[1] = after;
	int status = after == NULL ? POLICY_EXIT_UNREADABLE : diff(&run);
	policy_free(before);
	policy_free(after);
	return status;
}
