/* `eclusa policy show`: the effective rules of one profile or of all, each with its place. */
#include "cli/policy.h"

#include "policy/canonical.h"

#include <stdio.h>

static void print_profile(
	const struct profile *p, const struct canonical_list *list, struct buf *out)
{
	(void)buf_printf(
		out, "\n# effective %s\n[profile %s]\n", profile_digest(p), profile_name(p));
	if (profile_commits_before(p))
		(void)buf_append_text(out, "set commit before\n");
	for (size_t i = 0; i < list->count; i++)
		(void)buf_printf(out, "%s  # %s:%u\n", list->lines[i].text,
			list->lines[i].rule->file, list->lines[i].rule->line);
}

static void json_profile(const struct profile *p, const struct canonical_list *list, struct json *j)
{
	json_object(j, NULL);
	json_text(j, "name", profile_name(p));
	json_text(j, "effective", profile_digest(p));
	json_text(j, "commit", profile_commits_before(p) ? "before" : "after");
	json_array(j, "rules");
	for (size_t i = 0; i < list->count; i++) {
		const struct rule *rule = list->lines[i].rule;
		json_object(j, NULL);
		json_text(j, "verb", rule->allow ? "allow" : "deny");
		json_text(j, "text", list->lines[i].text);
		json_text(j, "id", rule->id);
		json_text(j, "file", rule->file);
		json_uint(j, "line", rule->line);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

/** @j NULL: lines to @out. */
static int show_profile(const struct profile *p, struct buf *out, struct json *j)
{
	struct canonical_list list;
	int r = canonical_list(p, &list);
	if (r < 0)
		return r;
	if (j == NULL)
		print_profile(p, &list, out);
	else
		json_profile(p, &list, j);
	canonical_list_free(&list);
	return 0;
}

/** One profile when it is named, else all. @return 0 or negative errno after a line on stderr. */
static int show(const struct policy_words *words, const struct policy *policy, struct buf *out,
	struct json *j)
{
	const struct profile *p;
	struct failure why = {0};
	int r = 0;
	if (words->profile != NULL) {
		r = policy_profile(policy, words->profile, &p, &why);
		if (r == 0)
			r = show_profile(p, out, j);
	}
	for (size_t i = 0; words->profile == NULL && r == 0; i++) {
		p = policy_profile_at(policy, i);
		if (p == NULL)
			break;
		r = show_profile(p, out, j);
	}
	if (r < 0)
		(void)fprintf(
			stderr, "eclusa policy: %s\n", why.code != 0 ? why.text : strerror(-r));
	return r;
}

int policy_show(const struct policy_words *words)
{
	struct buf out;
	struct json j;
	struct policy *policy = policy_load_good(words, words->words[0]);
	if (policy == NULL)
		return POLICY_EXIT_UNREADABLE;
	buf_init(&out, POLICY_OUTPUT_BYTES_MAX);
	if (words->json) {
		json_open(&j, &out);
		json_object(&j, NULL);
		json_array(&j, "profiles");
	} else {
		(void)buf_append_text(&out, "policy 1\n");
	}
	int r = show(words, policy, &out, words->json ? &j : NULL);
	policy_free(policy);
	if (words->json) {
		json_array_end(&j);
		json_object_end(&j);
		(void)buf_append_text(&out, "\n");
	}
	if (r == 0)
		return policy_finish(&out, POLICY_EXIT_CLEAN);
	buf_fini(&out);
	return POLICY_EXIT_UNREADABLE;
}
