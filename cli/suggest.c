/* See suggest.h. Collecting distinct requests, and what is left out. */
#include "cli/suggest.h"

#include "common/cleanup.h"
#include "policy/alabel.h"
#include "policy/pattern.h"

#include <assert.h>

#define TABLE_MIN ((size_t)1024)
#define LOOK_BACK                                                                                  \
	256 /* requests among which a host's bytes are looked for; several of a host add up */

static const struct {
	const char *name, *option;
} lefts[] = {
	[SUGGEST_LEFT_NOT] = {"", NULL},
	[SUGGEST_LEFT_WRITE] = {"they write", "--allow-write"},
	[SUGGEST_LEFT_ADDRESS] = {"a private or special address", "--allow-private"},
	[SUGGEST_LEFT_METADATA] = {"a cloud metadata address", NULL},
	[SUGGEST_LEFT_REFUSED] =
		{"refused in observe mode, too: a rule with addr= opens the address", NULL},
	[SUGGEST_LEFT_NAME] = {"no rule can name the host", NULL},
	[SUGGEST_LEFT_CARRIED] =
		{"its requests are seen, too, and one port carries one or the other", NULL},
	[SUGGEST_LEFT_PATH] = {"no rule can have the path", NULL},
};

static_assert(array_size(lefts) == SUGGEST_LEFT_COUNT, "a line a reason");

const char *suggest_left_name(enum suggest_left left)
{
	return lefts[left].name;
}

const char *suggest_left_option(enum suggest_left left)
{
	return lefts[left].option;
}

static int compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

int suggest_compare_places(const struct suggest_request *a, const struct suggest_request *b)
{
	int order = compare_text(a->profile, b->profile);
	if (order == 0)
		order = compare_text(a->target, b->target);
	if (order == 0)
		order = COMPARE(a->port, b->port);
	if (order == 0)
		order = COMPARE(a->scheme, b->scheme);
	return order != 0 ? order : COMPARE(a->transport, b->transport);
}

/** FNV-1a. */
static uint64_t digest(uint64_t hash, struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3);
	return (hash ^ 0xff) * UINT64_C(0x100000001b3); /* between two texts */
}

#define DIGEST_START UINT64_C(0xcbf29ce484222325)

static uint64_t request_digest(const struct suggest_request *r)
{
	uint64_t hash = digest(DIGEST_START, slice_of(r->profile));
	hash = digest(hash, slice_of(r->host.name));
	hash = digest(hash, slice_of(r->method));
	hash = digest(hash, slice_of(r->path));
	return (hash ^ r->port) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool same_host(const struct suggest_request *a, const struct suggest_request *b)
{
	return strcmp(a->profile, b->profile) == 0 && host_equal(&a->host, &b->host) &&
		a->port == b->port && a->scheme == b->scheme && a->transport == b->transport;
}

static bool same_request(const struct suggest_request *a, const struct suggest_request *b)
{
	return same_host(a, b) && strcmp(a->method, b->method) == 0 &&
		strcmp(a->path, b->path) == 0 && a->left == b->left && a->query == b->query &&
		a->encoded_slash == b->encoded_slash && a->websocket == b->websocket &&
		address_equal(&a->address, &b->address);
}

/** Where this request is, or the empty place for it. */
static struct suggest_request **place_of(const struct suggest *s, const struct suggest_request *r)
{
	for (uint64_t at = request_digest(r) >> 16;; at++) {
		struct suggest_request **place = &s->table[at & (s->table_size - 1)];
		if (*place == NULL || same_request(*place, r))
			return place;
	}
}

static int grow(struct suggest *s)
{
	size_t capacity = s->capacity == 0 ? TABLE_MIN : 2 * s->capacity;
	struct suggest_request **requests = reallocarray(s->requests, capacity, sizeof(*requests));
	if (requests == NULL)
		return -ENOMEM;
	s->requests = requests;
	struct suggest_request **table = calloc(2 * capacity, sizeof(struct suggest_request *));
	if (table == NULL)
		return -ENOMEM;
	free(s->table);
	s->table = table;
	s->table_size = 2 * capacity;
	s->capacity = capacity;
	for (size_t i = 0; i < s->count; i++)
		*place_of(s, requests[i]) = requests[i];
	return 0;
}

static bool reads(struct slice method)
{
	static const struct slice reading[] = {
		{"GET", 3}, {"HEAD", 4}, {"OPTIONS", 7}, {"TRACE", 5}};
	for (size_t i = 0; i < array_size(reading); i++) {
		if (slice_equal(method, reading[i]))
			return true;
	}
	return false;
}

/** What no rule says without being asked to. A body that leaves with a GET is written, too. */
static enum suggest_left left_out(const struct suggest *s, const struct recorded *r)
{
	enum address_class class = address_classify(&r->destination);
	bool known = r->destination.family != 0;
	bool writes = !r->connect && (!reads(r->question.method) || r->request_body_bytes > 0);
	if (known && class == ADDRESS_METADATA)
		return SUGGEST_LEFT_METADATA;
	if (!r->passed)
		return SUGGEST_LEFT_REFUSED;
	if (known && class != ADDRESS_PUBLIC && !s->options.allow_private)
		return SUGGEST_LEFT_ADDRESS;
	if (r->host.kind == HOST_NAME &&
		(!pattern_names(&r->host) || alabel_mixes_scripts(r->host.name)))
		return SUGGEST_LEFT_NAME; /* a rule with it would not load, and none beside it */
	if (r->kind == RECORDED_CUT || (!r->connect && r->path.ptr[0] != '/'))
		return SUGGEST_LEFT_PATH;
	return writes && !s->options.allow_write ? SUGGEST_LEFT_WRITE : SUGGEST_LEFT_NOT;
}

/** Texts of a new request, from the line into the arena. */
static struct suggest_request *request_keep(struct suggest *s, const struct suggest_request *from)
{
	struct suggest_request *r = arena_alloc(&s->arena, 1, sizeof(*r));
	if (r == NULL)
		return NULL;
	*r = *from;
	r->profile = arena_dup(&s->arena, slice_of(from->profile));
	r->method = arena_dup(&s->arena, slice_of(from->method));
	r->path = arena_dup(&s->arena, slice_of(from->path));
	for (size_t i = s->count; i > 0 && i + LOOK_BACK > s->count && r->at == NULL; i--) {
		if (same_host(s->requests[i - 1], from))
			r->at = s->requests[i - 1]->at;
	}
	if (r->at == NULL)
		r->at = arena_alloc(&s->arena, 1, sizeof(*r->at));
	return s->arena.failed ? NULL : r;
}

static void count_up(struct suggest_host *at, struct slice sandbox, uint64_t bytes)
{
	uint64_t id = digest(DIGEST_START, sandbox);
	size_t i = 0;
	while (i < at->count && at->sandboxes[i] != id && i + 1 < SUGGEST_SANDBOXES)
		i++;
	if (i == at->count)
		at->sandboxes[at->count++] = id;
	if (__builtin_add_overflow(at->up_bytes[i], bytes, &at->up_bytes[i]))
		at->up_bytes[i] = UINT64_MAX;
}

static void count_event(struct suggest_request *to, const struct recorded *r)
{
	if (to->count++ == 0 || r->time_ms < to->first_ms)
		to->first_ms = r->time_ms;
	if (r->request_body_bytes > to->request_body_bytes)
		to->request_body_bytes = r->request_body_bytes;
	if (r->response_body_bytes > to->response_body_bytes)
		to->response_body_bytes = r->response_body_bytes;
	if (to->left == SUGGEST_LEFT_NOT)
		count_up(to->at, r->sandbox, r->bytes_out);
}

static int add_request(struct suggest *s, const struct recorded *r)
{
	/* Judged before: neither holds a NUL, and both end in one. */
	struct suggest_request request = {.profile = r->profile,
		.host = r->host,
		.port = r->question.port,
		.scheme = r->question.scheme,
		.transport = r->transport,
		.method = r->connect ? "" : r->question.method.ptr,
		.path = r->connect ? "" : r->path.ptr,
		.query = r->question.has_query,
		.encoded_slash = r->question.encoded_slash,
		.websocket = r->websocket,
		.left = left_out(s, r)};
	bool open = r->destination.family != 0 &&
		address_classify(&r->destination) != ADDRESS_PUBLIC && r->host.kind == HOST_NAME;
	if (open)
		request.address = r->destination;
	if (2 * s->count >= s->table_size && grow(s) < 0)
		return -ENOMEM;
	struct suggest_request **place = place_of(s, &request);
	if (*place == NULL && s->count == SUGGEST_REQUESTS_MAX) {
		s->too_many++;
		return 0;
	}
	if (*place == NULL) {
		*place = request_keep(s, &request);
		if (*place == NULL)
			return -ENOMEM;
		s->requests[s->count++] = *place;
	}
	count_event(*place, r);
	return 0;
}

/** Whether this is for us: let pass by observe mode alone, or refused by it for an address. */
static bool concerns(const struct recorded *r)
{
	bool opened = r->connect && r->transport == POLICY_INSPECT; /* its requests say more */
	if (r->passed)
		return r->would != REASON_ALLOW_RULE && !opened;
	return r->observing &&
		(r->reason == REASON_DENY_ADDRESS_PRIVATE ||
			r->reason == REASON_DENY_ADDRESS_METADATA);
}

int suggest_add(struct suggest *s, const struct recorded *r)
{
	if (r->kind == RECORDED_PACKETS || r->kind == RECORDED_OTHER) {
		s->kinds[r->kind]++;
		return 0;
	}
	int new = audit_seen_add(&s->seen, r->uid);
	if (new <= 0)
		return new == -ENOMEM ? new : 0;
	if (r->kind == RECORDED_INVALID) {
		s->kinds[r->kind] += r->would != REASON_ALLOW_RULE;
		return 0;
	}
	if (s->options.profile != NULL && strcmp(s->options.profile, r->profile) != 0)
		return 0;
	if (!concerns(r))
		return 0;
	s->kinds[r->kind]++;
	s->events += r->passed;
	return add_request(s, r);
}

void suggest_fini(struct suggest *s)
{
	free(s->requests);
	free(s->table);
	audit_seen_fini(&s->seen);
	arena_fini(&s->arena);
	*s = (struct suggest){.options = s->options};
}
