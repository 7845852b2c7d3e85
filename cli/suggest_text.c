/* See suggest.h. From folded requests to policy text: profiles, rules, what to expect of them, and what was left out. */
#include "cli/suggest_rule.h"

#include "common/cleanup.h"
#include "policy/ask.h"
#include "policy/format.h"

#include <stdio.h>

#define URL_BYTES       9216 /* a path, a host, and what is around them */
#define RULE_EXPECTS    8    /* expect lines of one rule */
#define LEFT_LINES      100  /* comments on what was left out */
#define RULES_PER_ROUND 64

/** Text on its way, and the profile it is in. */
struct writing {
	const struct suggest *s;
	const struct suggest_style *style;
	const struct profile *profile; /* compiled; NULL: not yet */
	struct buf *rules;
	struct buf *expects; /* of the profile: they come last */
	size_t rule_count;
	struct policy_ask ask;
};

/** What a request of the log may have been, or a neighbour of it. */
static void url_of(
	const struct suggest_request *r, const char *path, bool query, char to[static URL_BYTES])
{
	bool six = r->host.kind == HOST_ADDRESS && r->host.address.family == 6;
	bool plain = r->scheme == POLICY_SCHEME_HTTP;
	char port[8] = "";
	if (r->port != (plain ? 80 : 443))
		(void)snprintf(port, sizeof(port), ":%u", r->port);
	(void)snprintf(to, URL_BYTES, "%s://%s%s%s%s%s%s", plain ? "http" : "https", six ? "[" : "",
		r->host.name, six ? "]" : "", port, path, query ? "?q=1" : ""); /* fits */
}

static enum reason verdict(struct writing *w, struct slice method, const char *url)
{
	struct policy_verdict v;
	policy_ask_init(&w->ask, method, slice_of(url), 0);
	policy_ask_decide(w->profile, &w->ask, &v);
	return v.reason;
}

/** A path of the pattern, with something short for what varies. */
static void sample(const char *pattern, char to[static PATTERN_PATH_BYTES_MAX + 1])
{
	size_t len = 0;
	for (; pattern[len] != '\0' && len < PATTERN_PATH_BYTES_MAX; len++)
		to[len] = pattern[len] == '*' ? '1' : pattern[len];
	to[len] = '\0';
}

static void expect_allow(struct writing *w, const struct suggest_leaf *leaf)
{
	char url[URL_BYTES];
	char path[PATTERN_PATH_BYTES_MAX + 1];
	const struct suggest_request *r = w->s->requests[leaf->from];
	sample(r->pattern, path);
	url_of(r, path, leaf->query, url);
	for (size_t i = 0; i < leaf->method_count; i++) {
		struct slice method = leaf->methods[i];
		if (reason_allows(verdict(w, method, url)))
			(void)buf_printf(w->expects, "expect allow %.*s %s\n", (int)method.len,
				method.ptr, url); /* sticky, as all of these */
	}
}

/** A request near those of a rule: what is neither NULL nor 0 differs. */
struct neighbour {
	const char *path;
	const char *method;
	uint16_t port;
};

static const struct neighbour neighbours[] = {
	{.path = "/not-suggested"},
	{.path = "/not/suggested/at/all"},
	{.method = "TRACE"},
	{.method = "PURGE"},
	{.port = 8},
	{.port = 9},
};

/** The first neighbour that stays denied; of bytes that are not read only another port says something. */
static void expect_deny(struct writing *w, const struct suggest_rule *rule)
{
	const struct suggest_leaf *leaf = rule->leaves[0];
	struct suggest_request other = *w->s->requests[leaf->from];
	bool requests = other.transport == POLICY_INSPECT;
	char path[PATTERN_PATH_BYTES_MAX + 1];
	char url[URL_BYTES];
	sample(requests ? other.pattern : "/", path);
	for (size_t i = 0; i < array_size(neighbours); i++) {
		const struct neighbour *n = &neighbours[i];
		struct slice method = leaf->method_count > 0 ? leaf->methods[0] : SLICE("GET");
		if (n->method != NULL)
			method = slice_of(n->method);
		if (n->port != 0)
			other.port = n->port;
		else if (!requests)
			continue;
		url_of(&other, n->path != NULL ? n->path : path, false, url);
		enum reason reason = verdict(w, method, url);
		if (reason_allows(reason))
			continue;
		(void)buf_printf(w->expects, "expect deny %.*s %s code=%s\n", (int)method.len,
			method.ptr, url, reason_code(reason));
		return;
	}
}

static void write_rule(struct writing *w, const struct suggest_rule *rule)
{
	suggest_rule_write(w->s, rule, w->rules);
	w->rule_count++;
	if (w->profile == NULL)
		return;
	for (size_t i = 0; i < rule->leaf_count && i < RULE_EXPECTS; i++)
		expect_allow(w, rule->leaves[i]);
}

/** Leaves that may stand in one rule, in order, up to SUGGEST_RULE_PATHS and what fits on a line. */
static void write_rules(
	struct writing *w, struct suggest_leaf *leaves, size_t count, size_t from, size_t to)
{
	struct suggest_rule first = {.leaf_count = 0};
	if (w->style->uniform)
		suggest_leaves_level(leaves, count);
	for (size_t i = 0; i < count; i++) {
		struct suggest_rule rule = {.from = from, .to = to};
		if (leaves[i].taken)
			continue;
		for (size_t k = i; k < count && rule.leaf_count < SUGGEST_RULE_PATHS; k++) {
			if (leaves[k].taken || !suggest_leaves_join(&leaves[i], &leaves[k]))
				continue;
			leaves[k].taken = true;
			rule.leaves[rule.leaf_count++] = &leaves[k];
		}
		if (first.leaf_count == 0)
			first = rule;
		write_rule(w, &rule);
	}
	if (first.leaf_count > 0 && w->profile != NULL)
		expect_deny(w, &first);
}

/** One place: the requests [from, to). */
static int write_place(struct writing *w, size_t from, size_t to)
{
	auto_free struct suggest_leaf *leaves = NULL;
	size_t count = 0;
	struct suggest_leaf leaf;
	for (size_t at = from; suggest_leaf_next(w->s, &at, to, &leaf);) {
		if (count % RULES_PER_ROUND == 0) {
			struct suggest_leaf *more =
				reallocarray(leaves, count + RULES_PER_ROUND, sizeof(*more));
			if (more == NULL)
				return -ENOMEM;
			leaves = more;
		}
		leaves[count++] = leaf;
	}
	write_rules(w, leaves, count, from, to);
	return 0;
}

/** One profile: the requests [from, to). */
static int write_profile(struct writing *w, size_t from, size_t to)
{
	struct failure why = {0};
	const char *name = w->s->requests[from]->profile;
	int r = 0;
	w->profile = NULL;
	if (w->style->probe != NULL)
		(void)policy_profile(
			w->style->probe, name, &w->profile, &why); /* NULL: no expects */
	buf_clear(w->expects);
	(void)buf_printf(w->rules, "\n[profile %s]\n", name);
	for (size_t at = from, end; at < to && r == 0; at = end) {
		end = at + 1;
		while (end < to &&
			suggest_compare_places(w->s->requests[at], w->s->requests[end]) == 0)
			end++;
		r = write_place(w, at, end);
	}
	(void)buf_append(w->rules, buf_slice(w->expects));
	return r;
}

static void write_left(const struct suggest *s, struct buf *to)
{
	size_t lines = 0;
	size_t more = 0;
	for (size_t i = 0; i < s->count; i++) {
		const struct suggest_request *r = s->requests[i];
		const char *option = suggest_left_option(r->left);
		if (r->left == SUGGEST_LEFT_NOT)
			continue;
		if (lines == 0)
			(void)buf_append_text(to, "\n# Left out:\n");
		more += lines == LEFT_LINES;
		if (lines == LEFT_LINES)
			continue;
		lines++;
		(void)buf_printf(to, "# %llu %s to %s:%u (%s): %s%s%s\n",
			(unsigned long long)r->count, r->method[0] == '\0' ? "tunnels" : r->method,
			r->host.name, r->port, r->profile, suggest_left_name(r->left),
			option == NULL ? "" : "; taken in by ", option == NULL ? "" : option);
	}
	if (more > 0)
		(void)buf_printf(to, "# and %zu more\n", more);
}

static int write_all(struct writing *w)
{
	const struct suggest *s = w->s;
	int r = 0;
	(void)buf_printf(w->rules,
		"policy 1\n\n# From %llu requests that only observe mode let pass.\n"
		"# Each rule needs a person who says why: that is its ticket.\n",
		(unsigned long long)s->events);
	for (size_t from = 0, to; from < s->count && r == 0; from = to) {
		to = from + 1;
		while (to < s->count &&
			strcmp(s->requests[from]->profile, s->requests[to]->profile) == 0)
			to++;
		r = write_profile(w, from, to);
	}
	write_left(s, w->rules);
	return r;
}

int suggest_text(const struct suggest *s, const struct suggest_style *style, struct buf *to,
	size_t *ret_rules)
{
	struct buf raw;
	struct buf expects;
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	auto_free struct writing *w = calloc(1, sizeof(*w));
	if (report == NULL || w == NULL)
		return -ENOMEM;
	buf_init(&raw, SUGGEST_TEXT_BYTES_MAX);
	buf_init(&expects, SUGGEST_TEXT_BYTES_MAX);
	*w = (struct writing){.s = s, .style = style, .rules = &raw, .expects = &expects};
	int r = write_all(w);
	if (r == 0 && (raw.failed || expects.failed))
		r = -EFBIG;
	if (r == 0)
		r = policy_format("suggested", buf_slice(&raw), to, report);
	if (r == 0 && buf_len(to) > POLICY_FILE_BYTES_MAX)
		r = -EFBIG;
	if (r == 0)
		*ret_rules = w->rule_count;
	buf_fini(&expects);
	buf_fini(&raw);
	return r;
}
