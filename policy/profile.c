/* See profile.h. */
#include "policy/profile.h"

#include "policy/canonical.h"

#include <errno.h>
#include <stdlib.h>

int profile_build(
	struct profile *p, struct arena *arena, const struct rule_entry **rules, size_t rule_count)
{
	p->rules = rules;
	p->rule_count = rule_count;
	return matcher_build(&p->matcher, arena, rules, rule_count);
}

/** All that decides, in one spelling. Ids, owners, notes and places do not. */
static char *dump_rule(const struct rule *rule)
{
	struct buf text = {.limit = 0};
	int r = canonical_effect(rule, &text);
	(void)buf_append(&text, SLICE("\n"));
	char *copy = r < 0 || text.failed ? NULL : slice_dup(buf_slice(&text));
	buf_fini(&text);
	return copy;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int digest_lines(char **lines, size_t count, char ret_text[static DIGEST_TEXT_BYTES])
{
	struct digest *d = digest_new();
	int r = d == NULL ? -ENOMEM : 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0)
			r = digest_update(d, slice_of(lines[i]));
	}
	if (r == 0)
		r = digest_finish(d, ret_text);
	digest_free(d);
	return r;
}

int profile_seal(struct profile *p)
{
	size_t count = 0;
	int r = 0;
	char **lines = calloc(p->rule_count + 3, sizeof(*lines));
	if (lines == NULL)
		return -ENOMEM;
	for (; count < p->rule_count && r == 0; count++) {
		lines[count] = dump_rule(&p->rules[count]->rule);
		r = lines[count] == NULL ? -ENOMEM : 0;
	}
	if (r == 0 && p->observer != NULL) {
		lines[count] = dump_rule(&p->observer->rule);
		r = lines[count++] == NULL ? -ENOMEM : 0;
	}
	if (r == 0 && p->commit_before) {
		lines[count] = strdup("set commit before\n");
		r = lines[count++] == NULL ? -ENOMEM : 0;
	}
	if (r == 0) {
		qsort(lines, count, sizeof(*lines), compare_lines);
		r = digest_lines(lines, count, p->digest);
	}
	for (size_t i = 0; i < count; i++)
		free(lines[i]);
	free(lines);
	return r;
}

const char *profile_name(const struct profile *p)
{
	return p->name;
}

bool profile_commits_before(const struct profile *p)
{
	return p->commit_before;
}

const char *profile_digest(const struct profile *p)
{
	return p->digest;
}
