/* See suggest.h. From requests as they were asked for to the hosts and paths of rules. */
#include "cli/suggest.h"
#include "cli/suggest_path.h"

#include "common/cleanup.h"
#include "policy/suffix.h"

#include <stdio.h>

#define TARGET_BYTES (HOST_NAME_BYTES + 8) /* and "ip:", brackets, "*." */

static int by_place(const void *a, const void *b)
{
	const struct suggest_request *const *left = a;
	const struct suggest_request *const *right = b;
	return suggest_compare_places(*left, *right);
}

static int compare_texts(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a == NULL ? "" : a, b == NULL ? "" : b);
}

/** Place, then pattern, then what is left out, then method. */
static int by_pattern(const void *a, const void *b)
{
	const struct suggest_request *left = *(const struct suggest_request *const *)a;
	const struct suggest_request *right = *(const struct suggest_request *const *)b;
	int order = suggest_compare_places(left, right);
	if (order == 0)
		order = compare_texts(left->pattern, right->pattern);
	if (order == 0)
		order = (left->left > right->left) - (left->left < right->left);
	if (order == 0)
		order = strcmp(left->method, right->method);
	return order != 0 ? order : strcmp(left->path, right->path);
}

/** One host and port of one profile, whatever goes there: requests before bytes. */
static int by_port(const void *a, const void *b)
{
	const struct suggest_request *left = *(const struct suggest_request *const *)a;
	const struct suggest_request *right = *(const struct suggest_request *const *)b;
	int order = strcmp(left->profile, right->profile);
	if (order == 0)
		order = strcmp(left->host.name, right->host.name);
	if (order == 0)
		order = (left->port > right->port) - (left->port < right->port);
	return order;
}

static int by_port_and_transport(const void *a, const void *b)
{
	const struct suggest_request *left = *(const struct suggest_request *const *)a;
	const struct suggest_request *right = *(const struct suggest_request *const *)b;
	int order = by_port(a, b);
	return order != 0
		? order
		: (left->transport > right->transport) - (left->transport < right->transport);
}

/** Rules for requests and for bytes can't share a port: those for requests, which say more, are kept. */
static void leave_out_carried(struct suggest *s)
{
	qsort(s->requests, s->count, sizeof(struct suggest_request *), by_port_and_transport);
	const struct suggest_request *kept = NULL;
	for (size_t i = 0; i < s->count; i++) {
		struct suggest_request *r = s->requests[i];
		if (r->left != SUGGEST_LEFT_NOT)
			continue;
		bool same = kept != NULL && by_port(&kept, &s->requests[i]) == 0;
		if (same && r->transport != kept->transport)
			r->left = SUGGEST_LEFT_CARRIED;
		else if (!same)
			kept = r;
	}
}

/** The host as a rule names it alone. */
static const char *target_of(struct suggest *s, const struct host *host)
{
	char text[TARGET_BYTES];
	bool six = host->kind == HOST_ADDRESS && host->address.family == 6;
	int len = snprintf(text, sizeof(text), "%s%s%s%s", host->kind == HOST_ADDRESS ? "ip:" : "",
		six ? "[" : "", host->name, six ? "]" : "");
	return arena_dup(&s->arena, (struct slice){text, (size_t)len}); /* fits */
}

/** What follows the first label; NULL: no wildcard may stand there. */
static const char *parent_of(const struct suggest_request *r)
{
	const char *dot = r->host.kind == HOST_NAME ? strchr(r->host.name, '.') : NULL;
	if (dot == NULL || r->left != SUGGEST_LEFT_NOT || r->transport != POLICY_INSPECT ||
		r->address.family != 0 || suffix_classify(dot + 1) != SUFFIX_NONE)
		return NULL;
	return dot + 1;
}

/** By what a wildcard's rules have in common; then by name. */
static int by_parent(const void *a, const void *b)
{
	const struct suggest_request *left = *(const struct suggest_request *const *)a;
	const struct suggest_request *right = *(const struct suggest_request *const *)b;
	const char *left_parent = parent_of(left);
	const char *right_parent = parent_of(right);
	if ((left_parent == NULL) != (right_parent == NULL))
		return left_parent == NULL ? 1 : -1;
	int order = left_parent == NULL ? 0 : strcmp(left_parent, right_parent);
	if (order == 0)
		order = strcmp(left->profile, right->profile);
	if (order == 0)
		order = (left->port > right->port) - (left->port < right->port);
	if (order == 0)
		order = (left->scheme > right->scheme) - (left->scheme < right->scheme);
	return order;
}

static int by_parent_and_name(const void *a, const void *b)
{
	const struct suggest_request *left = *(const struct suggest_request *const *)a;
	const struct suggest_request *right = *(const struct suggest_request *const *)b;
	int order = by_parent(a, b);
	return order != 0 ? order : strcmp(left->host.name, right->host.name);
}

/** Whether bytes that are not read go to some host that the wildcard over the request's siblings covers. */
static bool carries_bytes(const struct suggest *s, const struct suggest_request *of)
{
	const char *parent = parent_of(of);
	for (size_t i = 0; i < s->count; i++) {
		const struct suggest_request *r = s->requests[i];
		const char *dot = strchr(r->host.name, '.');
		if (r->transport != POLICY_INSPECT && r->port == of->port && dot != NULL &&
			strcmp(dot + 1, parent) == 0)
			return true;
	}
	return false;
}

/** One wildcard for requests [from, to), which by_parent() takes for siblings, if their hosts are enough. */
static int fold_siblings(struct suggest *s, size_t from, size_t to)
{
	char text[TARGET_BYTES];
	size_t hosts = 1;
	const char *parent = parent_of(s->requests[from]);
	for (size_t i = from + 1; i < to; i++)
		hosts += strcmp(s->requests[i]->host.name, s->requests[i - 1]->host.name) != 0;
	if (parent == NULL || hosts < SUGGEST_HOSTS || carries_bytes(s, s->requests[from]))
		return 0;
	if (!s->options.fold) {
		s->foldable++;
		return 0;
	}
	int len = snprintf(text, sizeof(text), "*.%s", parent);
	const char *target = arena_dup(&s->arena, (struct slice){text, (size_t)len}); /* fits */
	if (target == NULL)
		return -ENOMEM;
	for (size_t i = from; i < to; i++)
		s->requests[i]->target = target;
	return 0;
}

static int fold_hosts(struct suggest *s)
{
	qsort(s->requests, s->count, sizeof(struct suggest_request *), by_parent_and_name);
	for (size_t from = 0, to; from < s->count; from = to) {
		to = from + 1;
		while (to < s->count && by_parent(&s->requests[from], &s->requests[to]) == 0)
			to++;
		int r = fold_siblings(s, from, to);
		if (r < 0)
			return r;
	}
	return 0;
}

/** Patterns of the requests [from, to) of one place, which are in the text. */
static int fold_paths(struct suggest *s, size_t from, size_t to)
{
	auto_free struct suggest_path *paths = calloc(to - from, sizeof(*paths));
	size_t count = 0;
	if (paths == NULL)
		return -ENOMEM;
	for (size_t i = from; i < to; i++) {
		struct suggest_request *r = s->requests[i];
		r->pattern = "";
		if (r->left == SUGGEST_LEFT_NOT && r->path[0] != '\0')
			paths[count++] = (struct suggest_path){
				.path = slice_of(r->path), .pattern_at = &r->pattern};
	}
	int result = suggest_paths(paths, count, &s->arena);
	for (size_t i = from; i < to; i++) {
		struct suggest_request *r = s->requests[i];
		if (r->pattern == NULL) {
			r->pattern = "";
			r->left = SUGGEST_LEFT_PATH;
		}
	}
	return result;
}

/** What one sandbox sent at most to the place of the requests [from, to). */
static void sum_up(struct suggest *s, size_t from, size_t to)
{
	uint64_t sum = 0;
	for (size_t i = from; i < to; i++) {
		struct suggest_host *at = s->requests[i]->at;
		uint64_t most = 0;
		for (size_t k = 0; k < at->count; k++)
			most = at->up_bytes[k] > most ? at->up_bytes[k] : most;
		if (!at->summed && __builtin_add_overflow(sum, most, &sum))
			sum = UINT64_MAX;
		at->summed = true;
	}
	for (size_t i = from; i < to; i++)
		s->requests[i]->up_bytes = sum;
}

int suggest_fold(struct suggest *s)
{
	for (size_t i = 0; i < s->count; i++) {
		s->requests[i]->target = target_of(s, &s->requests[i]->host);
		if (s->requests[i]->target == NULL)
			return -ENOMEM;
	}
	if (s->count == 0)
		return 0;
	leave_out_carried(s);
	int r = fold_hosts(s);
	if (r == 0)
		qsort(s->requests, s->count, sizeof(struct suggest_request *), by_place);
	for (size_t from = 0, to; r == 0 && from < s->count; from = to) {
		to = from + 1;
		while (to < s->count &&
			suggest_compare_places(s->requests[from], s->requests[to]) == 0)
			to++;
		r = fold_paths(s, from, to);
		sum_up(s, from, to);
	}
	if (r == 0)
		qsort(s->requests, s->count, sizeof(struct suggest_request *), by_pattern);
	return r;
}
