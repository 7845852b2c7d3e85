/* See diff.h. Hosts, ports, methods and paths that stand for all; hosts whose rules are the same are skipped. */
#include "policy/diff.h"

#include "policy/canonical.h"
#include "policy/cover.h"
#include "policy/diff_change.h"
#include "policy/value.h"
#include "policy/witness.h"

#include "common/cleanup.h"

#include <stdio.h>

#define PORTS_MAX     256
#define METHODS_MAX   64
#define DECISIONS_MAX UINT64_C(20000000)

/** A method that no rule lists, for rules that take any. */
#define OTHER_METHOD "OTHER"

/** A rule of either side, and what it does in one spelling. */
struct side_rule {
	const struct rule_entry *entry;
	char *effect;
	bool is_new;
	bool changed; /* the other side has no such rule */
};

/** One host, and what can be told apart on it. */
struct host_axes {
	struct host host;
	const struct side_rule **rules; /* of both sides that cover it; room for all there are */
	size_t rule_count;
	uint16_t ports[PORTS_MAX];
	size_t port_count;
	struct slice methods[METHODS_MAX];
	size_t method_count;
	struct witness_paths paths;
	bool queries;
	bool encoded;
};

struct differ {
	struct diff_sides sides;
	struct side_rule *rules; /* by name */
	size_t rule_count;
	uint64_t now_ms;
	uint64_t decisions;
	struct host_axes axes;
};

static int compare_rules(const void *a, const void *b)
{
	const struct side_rule *left = a;
	const struct side_rule *right = b;
	int order = value_compare_slices(&left->entry->name, &right->entry->name);
	return order != 0 ? order : strcmp(left->effect, right->effect);
}

static int take_rule(struct differ *d, const struct rule_entry *r, bool is_new, struct buf *text)
{
	buf_clear(text);
	char *effect = canonical_effect(&r->rule, text) < 0 ? NULL : slice_dup(buf_slice(text));
	if (effect == NULL)
		return -ENOMEM;
	d->rules[d->rule_count++] =
		(struct side_rule){.entry = r, .effect = effect, .is_new = is_new};
	return 0;
}

static int take_rules(struct differ *d, bool is_new)
{
	const struct profile *p = d->sides.profiles[is_new];
	struct buf text = {.limit = 0};
	int r = 0;
	for (size_t i = 0; p != NULL && i < p->rule_count && r == 0; i++)
		r = take_rule(d, p->rules[i], is_new, &text);
	if (p != NULL && p->observer != NULL && r == 0)
		r = take_rule(d, p->observer, is_new, &text);
	buf_fini(&text);
	return r;
}

static int compare_name(const void *key, const void *item)
{
	const struct side_rule *rule = item;
	return value_compare_slices(key, &rule->entry->name);
}

/** Index of the first rule with a name; rule_count: there is none. */
static size_t find_name(const struct differ *d, struct slice name)
{
	const struct side_rule *found =
		bsearch(&name, d->rules, d->rule_count, sizeof(*d->rules), compare_name);
	size_t at = found == NULL ? d->rule_count : (size_t)(found - d->rules);
	while (found != NULL && at > 0 && slice_equal(d->rules[at - 1].entry->name, name))
		at--;
	return at;
}

static void take_relevant(struct differ *d, const struct side_rule *rule)
{
	struct host_axes *x = &d->axes;
	if (rule_covers_host(rule->entry, &x->host))
		x->rules[x->rule_count++] = rule;
}

static void take_suffix(struct differ *d, struct slice suffix)
{
	for (size_t i = find_name(d, suffix);
		i < d->rule_count && slice_equal(d->rules[i].entry->name, suffix); i++)
		take_relevant(d, &d->rules[i]);
}

/** The rules of both sides that cover the host. */
static void find_rules(struct differ *d)
{
	struct slice rest = slice_of(d->axes.host.name);
	struct slice label;
	d->axes.rule_count = 0;
	for (size_t i = 0; d->axes.host.kind == HOST_ADDRESS && i < d->rule_count; i++)
		take_relevant(d, &d->rules[i]);
	if (d->axes.host.kind == HOST_ADDRESS)
		return;
	do
		take_suffix(d, rest);
	while (slice_split(rest, '.', &label, &rest));
	take_suffix(d, SLICE("")); /* any */
}

/** What only one side has. Where no rule is of that kind both sides have the same rules, and no decision can differ. */
static void mark_changed(struct differ *d)
{
	for (size_t i = 0, end; i < d->rule_count; i = end) {
		bool on[2] = {false, false};
		for (end = i;
			end < d->rule_count && compare_rules(&d->rules[i], &d->rules[end]) == 0;
			end++)
			on[d->rules[end].is_new] = true;
		for (size_t k = i; k < end; k++)
			d->rules[k].changed = !on[0] || !on[1];
	}
}

static bool same_rules(const struct host_axes *x)
{
	for (size_t i = 0; i < x->rule_count; i++) {
		if (x->rules[i]->changed)
			return false;
	}
	return true;
}

static bool add_port(struct host_axes *x, unsigned port)
{
	if (port == 0 || port > 65535)
		return true;
	for (size_t i = 0; i < x->port_count; i++) {
		if (x->ports[i] == port)
			return true;
	}
	if (x->port_count == PORTS_MAX)
		return false;
	x->ports[x->port_count++] = (uint16_t)port;
	return true;
}

/** Both ends of each range, and what lies beside them; first the usual ones, so that examples read well. */
static bool find_ports(struct host_axes *x)
{
	bool fine = true;
	x->port_count = 0;
	fine = add_port(x, 443) && add_port(x, 80);
	for (int beside = 0; beside < 2; beside++) {
		for (size_t i = 0; i < x->rule_count; i++) {
			const struct rule_entry *r = x->rules[i]->entry;
			for (size_t p = 0; p < r->port_count; p++)
				fine = add_port(x, r->ports[p].first - (unsigned)beside) &&
					add_port(x, r->ports[p].last + (unsigned)beside) && fine;
		}
	}
	return add_port(x, 79) && add_port(x, 81) && fine;
}

static bool add_method(struct host_axes *x, struct slice method)
{
	for (size_t i = 0; i < x->method_count; i++) {
		if (slice_equal(x->methods[i], method))
			return true;
	}
	if (x->method_count == METHODS_MAX)
		return false;
	x->methods[x->method_count++] = method;
	return true;
}

static bool find_methods(struct host_axes *x)
{
	bool fine = true;
	x->method_count = 0;
	fine = add_method(x, SLICE("GET"));
	for (size_t i = 0; i < x->rule_count; i++) {
		const struct rule_entry *r = x->rules[i]->entry;
		for (size_t m = 0; m < r->method_count; m++)
			fine = add_method(x, r->methods[m]) && fine;
	}
	return add_method(x, SLICE(OTHER_METHOD)) && fine;
}

/** Patterns of the rules that changed, or of the others. @return how many; written to @to where it is not NULL. */
static size_t list_patterns(const struct host_axes *x, bool changed, struct slice *to)
{
	size_t count = 0;
	for (size_t i = 0; i < x->rule_count; i++) {
		const struct rule_entry *r = x->rules[i]->entry;
		if (x->rules[i]->changed != changed)
			continue;
		for (size_t p = 0; p < r->path_count; p++, count++) {
			if (to != NULL)
				to[count] = r->paths[p];
		}
	}
	return count;
}

/** A rule that changed and is for every path. */
static bool changes_all_paths(const struct host_axes *x)
{
	for (size_t i = 0; i < x->rule_count; i++) {
		if (x->rules[i]->changed && x->rules[i]->entry->path_count == 0)
			return true;
	}
	return false;
}

/** Only a request that some changed rule is for can get another verdict: patterns that meet none of theirs tell nothing. @return how many stay */
static size_t drop_apart(struct slice *patterns, size_t changed, size_t count)
{
	size_t kept = changed;
	for (size_t i = changed; i < count; i++) {
		bool meets = false;
		for (size_t k = 0; k < changed && !meets; k++)
			meets = cover_paths_meet(patterns[i], patterns[k]);
		if (meets)
			patterns[kept++] = patterns[i];
	}
	return kept;
}

static int find_paths(struct host_axes *x, struct arena *arena)
{
	size_t changed = list_patterns(x, true, NULL);
	size_t count = changed + list_patterns(x, false, NULL);
	x->queries = x->encoded = false;
	for (size_t i = 0; i < x->rule_count; i++) {
		x->queries = x->queries || x->rules[i]->entry->rule.query_denied;
		x->encoded = x->encoded || x->rules[i]->entry->rule.encoded_slash;
	}
	struct slice *patterns = arena_alloc(arena, count + 1, sizeof(*patterns));
	if (patterns == NULL)
		return -ENOMEM;
	patterns[0] = SLICE("/**");
	(void)list_patterns(x, true, patterns + 1);
	(void)list_patterns(x, false, patterns + 1 + changed);
	/* Of more than that not all combinations are tried anyway. */
	if (!changes_all_paths(x) && changed <= WITNESS_PATTERNS_MAX)
		count = drop_apart(patterns + 1, changed, count);
	return witness_paths(patterns, count + 1, x->encoded, arena, &x->paths);
}

/** Both schemes and, where it matters, with a query and without. */
static int ask_request(struct differ *d, struct policy_question *q)
{
	int r = 0;
	for (int i = 0; i < (d->axes.queries ? 4 : 2) && r == 0; i++) {
		bool usual = (i & 1) == 0;
		q->scheme = usual == (q->port == 80) ? POLICY_SCHEME_HTTP : POLICY_SCHEME_HTTPS;
		q->has_query = i >= 2;
		d->decisions++;
		r = diff_ask(&d->sides, q);
	}
	return r;
}

static bool holds_encoded_slash(struct slice path)
{
	for (size_t i = 0; i + 3 <= path.len; i++) {
		if (slice_equal(slice_part(path, i, i + 3), SLICE("%2F")))
			return true;
	}
	return false;
}

static int ask_host(struct differ *d)
{
	struct host_axes *x = &d->axes;
	struct policy_question q = {
		.host = &x->host, .scheme = POLICY_SCHEME_HTTPS, .now_ms = d->now_ms};
	size_t combinations = x->paths.count * x->method_count * x->port_count;
	int r = 0;
	for (size_t i = 0; i < x->port_count && r == 0; i++) {
		q.port = x->ports[i];
		d->decisions++;
		r = diff_ask(&d->sides, &q);
	}
	for (size_t i = 0; i < combinations && r == 0; i++) {
		size_t rest = i / x->paths.count;
		q.path = x->paths.paths[i % x->paths.count];
		q.encoded_slash = holds_encoded_slash(q.path);
		q.method = x->methods[rest % x->method_count];
		q.port = x->ports[rest / x->method_count];
		if (d->decisions >= DECISIONS_MAX) {
			d->sides.diff->complete = false;
			return 0;
		}
		r = ask_request(d, &q);
	}
	return r;
}

static int compare_host(struct differ *d)
{
	struct host_axes *x = &d->axes;
	struct arena arena = {.chunks = NULL};
	find_rules(d);
	if (same_rules(x))
		return 0;
	bool fine = find_ports(x);
	fine = find_methods(x) && fine;
	int r = find_paths(x, &arena);
	if (r == 0) {
		if (!fine || !x->paths.complete)
			d->sides.diff->complete = false;
		r = ask_host(d);
	}
	arena_fini(&arena);
	return r;
}

/**
 * Put @labels made-up labels before a name: below a name, all of one depth are alike, and from two on all
 * depths are, unless another name lies there, which has its own turn. False: the name gets too long.
 */
static bool make_host(struct differ *d, struct slice name, unsigned labels)
{
	char label[64] = "any";
	char text[2 * HOST_NAME_BYTES];
	for (size_t len = 3; len < sizeof(label) - 1; len++) {
		int n = snprintf(
			text, sizeof(text), "%s%s%.*s", label, ".", (int)name.len, name.ptr);
		if (find_name(d, (struct slice){text, (size_t)n}) == d->rule_count)
			break;
		label[len] = 'x';
		label[len + 1] = '\0';
	}
	int n = snprintf(text, sizeof(text), "%s%s%s%s%.*s", labels > 1 ? "any" : "",
		labels > 1 ? "." : "", labels > 0 ? label : "", labels > 0 ? "." : "",
		(int)name.len, name.ptr);
	return host_parse((struct slice){text, (size_t)n}, &d->axes.host) == 0;
}

/** Rules of a prefix: its first and last address, and the one behind it, which belongs to what lies around. */
static int compare_prefix(struct differ *d, const struct cidr *prefix)
{
	size_t len = prefix->base.family == 4 ? 4 : 16;
	struct address at[3] = {prefix->base, prefix->base, prefix->base};
	for (size_t i = prefix->bits; i < 8 * len; i++)
		at[1].bytes[i / 8] |= (uint8_t)(0x80 >> i % 8);
	at[2] = at[1];
	for (size_t i = len; i > 0 && ++at[2].bytes[i - 1] == 0; i--)
		; /* carry */
	int r = 0;
	for (size_t i = 0; i < array_size(at) && r == 0; i++) {
		struct host *host = &d->axes.host;
		*host = (struct host){.kind = HOST_ADDRESS, .address = at[i]};
		(void)address_format(&at[i], host->name);
		r = compare_host(d);
	}
	return r;
}

/** Rules of a name: the name itself, and what lies below it. */
static int compare_name_and_below(struct differ *d, struct slice name)
{
	int r = 0;
	for (unsigned labels = 0; labels < 3 && r == 0; labels++) {
		if (make_host(d, name, labels))
			r = compare_host(d);
	}
	return r;
}

static int compare_all(struct differ *d)
{
	int r = 0;
	for (size_t i = 0; i < d->rule_count && r == 0; i++) {
		const struct rule_entry *entry = d->rules[i].entry;
		if (i > 0 && slice_equal(entry->name, d->rules[i - 1].entry->name))
			continue;
		r = entry->kind == PATTERN_ADDRESS ? compare_prefix(d, &entry->prefix)
						   : compare_name_and_below(d, entry->name);
	}
	return r;
}

int policy_diff(const struct profile *old_profile, const struct profile *new_profile,
	uint64_t now_ms, struct policy_diff *ret)
{
	struct policy_diff diff = {.complete = true};
	/* The same rules decide the same, however many there are of one host. */
	if (old_profile != NULL && new_profile != NULL &&
		strcmp(old_profile->digest, new_profile->digest) == 0) {
		*ret = diff;
		return 0;
	}
	auto_free struct differ *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	d->sides = (struct diff_sides){.profiles = {old_profile, new_profile}, .diff = &diff};
	d->now_ms = now_ms;
	size_t room = (old_profile == NULL ? 0 : old_profile->rule_count) +
		(new_profile == NULL ? 0 : new_profile->rule_count);
	d->rules = calloc(room + 2, sizeof(*d->rules));
	d->axes.rules = calloc(room + 2, sizeof(*d->axes.rules));
	int r = d->rules == NULL || d->axes.rules == NULL ? -ENOMEM : take_rules(d, false);
	if (r == 0)
		r = take_rules(d, true);
	if (r == 0) {
		qsort(d->rules, d->rule_count, sizeof(*d->rules), compare_rules);
		mark_changed(d);
		r = compare_all(d);
	}
	for (size_t i = 0; d->rules != NULL && i < d->rule_count; i++)
		free(d->rules[i].effect);
	free(d->rules);
	free(d->axes.rules);
	if (r < 0)
		policy_diff_free(&diff);
	else
		*ret = diff;
	return r;
}
