/* See summary.h. */
#include "audit/summary.h"

#include "audit/event.h"
#include "common/cleanup.h"

#include <assert.h>
#include <jansson.h>

#define READ_BYTES ((size_t)256 << 10) /* at a time; a line is far shorter */

static_assert(READ_BYTES > 2 * AUDIT_LINE_BYTES_MAX, "a whole line fits");

/** The metadata.uid of every event so far: an open-addressing set of their 128 bits. */
struct uid_set {
	struct uid {
		uint64_t high, low;
	} * slots;
	size_t capacity; /* a power of two */
	size_t count;
};

/** A reading in progress. */
struct reader {
	const char *sandbox_id;
	struct audit_summary sum;
	struct uid_set seen;
};

static bool uid_parse(const char *text, struct uid *ret)
{
	uint64_t halves[2] = {0, 0};
	size_t digits = 0;
	for (; *text != '\0'; text++) {
		uint64_t digit;
		if (*text == '-')
			continue;
		if (digits == 32 || slice_hex((struct slice){text, 1}, 15, &digit) < 0)
			return false;
		halves[digits / 16] = halves[digits / 16] << 4 | digit;
		digits++;
	}
	*ret = (struct uid){halves[0], halves[1]};
	return digits == 32 && (halves[0] | halves[1]) != 0;
}

/** Where this uid is, or the empty place for it. */
static struct uid *uid_place(const struct uid_set *set, struct uid uid)
{
	size_t at = (size_t)((uid.low ^ uid.high) * UINT64_C(0x9e3779b97f4a7c15) >> 16);
	for (;; at++) {
		struct uid *place = &set->slots[at & (set->capacity - 1)];
		if ((place->high == uid.high && place->low == uid.low) ||
			(place->high | place->low) == 0)
			return place;
	}
}

static int uid_set_grow(struct uid_set *set)
{
	struct uid_set larger = {.capacity = set->capacity == 0 ? 1024 : 2 * set->capacity};
	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (larger.slots == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < set->capacity; i++) {
		if ((set->slots[i].high | set->slots[i].low) != 0)
			*uid_place(&larger, set->slots[i]) = set->slots[i];
	}
	larger.count = set->count;
	free(set->slots);
	*set = larger;
	return 0;
}

/** @return 1 when new, 0 when it was there, -ENOMEM. */
static int uid_set_add(struct uid_set *set, struct uid uid)
{
	if (2 * set->count >= set->capacity) {
		int r = uid_set_grow(set);
		if (r < 0)
			return r;
	}
	struct uid *place = uid_place(set, uid);
	if ((place->high | place->low) != 0)
		return 0;
	*place = uid;
	set->count++;
	return 1;
}

/** The member at a path such as "src_endpoint", "uid"; NULL when anything on the way is missing. */
static json_t *member(json_t *event, const char *first, const char *second)
{
	json_t *inner = json_object_get(event, first);
	return second == NULL ? inner : json_object_get(inner, second);
}

static const char *text_at(json_t *event, const char *first, const char *second)
{
	return json_string_value(member(event, first, second));
}

/** A number that is not negative; 0 for everything else. */
static uint64_t number_at(json_t *event, const char *first, const char *second)
{
	json_int_t value = json_integer_value(member(event, first, second));
	return value < 0 ? 0 : (uint64_t)value;
}

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/** The texts of a denial, borrowed from the event. */
static struct audit_denial denial_of(json_t *event)
{
	json_t *ours = member(event, "unmapped", "eclusa");
	json_t *url = member(event, "http_request", "url");
	uint64_t port = number_at(event, "dst_endpoint", "port");
	return (struct audit_denial){
		.reason = (char *)text_at(event, "status_code", NULL),
		.detail = (char *)text_at(event, "status_detail", NULL),
		.method = (char *)text_at(event, "http_request", "http_method"),
		.host = (char *)text_at(event, "dst_endpoint", "hostname"),
		.path = (char *)text_at(url, "path", NULL),
		.url = (char *)text_at(url, "url_string", NULL),
		.rule = (char *)text_at(event, "firewall_rule", "uid"),
		.rule_place = (char *)text_at(event, "firewall_rule", "desc"),
		.suggestion = (char *)text_at(ours, "allow", NULL),
		.address_class = (char *)text_at(ours, "address_class", NULL),
		.port = port > UINT16_MAX ? 0 : (uint16_t)port,
	};
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/** The same thing tried again, for a person who reads the list. */
static bool denial_same(const struct audit_denial *a, const struct audit_denial *b)
{
	return a->port == b->port && text_same(a->reason, b->reason) &&
		text_same(a->method, b->method) && text_same(a->host, b->host) &&
		text_same(a->path, b->path) && text_same(a->rule_place, b->rule_place) &&
		text_same(a->address_class, b->address_class);
}

static void denial_fini(struct audit_denial *d)
{
	char **texts[] = {&d->reason, &d->detail, &d->method, &d->host, &d->path, &d->url, &d->rule,
		&d->rule_place, &d->suggestion, &d->address_class};
	for (size_t i = 0; i < array_size(texts); i++) {
		free(*texts[i]);
		*texts[i] = NULL;
	}
}

/** From borrowed to owned texts. @return 0 or -ENOMEM, then nothing is owned. */
static int denial_own(struct audit_denial *d)
{
	char **texts[] = {&d->reason, &d->detail, &d->method, &d->host, &d->path, &d->url, &d->rule,
		&d->rule_place, &d->suggestion, &d->address_class};
	bool failed = false;
	for (size_t i = 0; i < array_size(texts); i++) {
		if (*texts[i] == NULL)
			continue;
		*texts[i] = failed ? NULL : strdup(*texts[i]);
		failed |= *texts[i] == NULL;
	}
	if (failed)
		denial_fini(d);
	return failed ? -ENOMEM : 0;
}

/** Into a list of at most AUDIT_SUMMARY_DENIALS_MAX distinct ones; what finds no room counts in @left_out. */
static int add_denial(struct audit_denial **list, size_t *length, uint64_t *left_out, json_t *event,
	uint64_t count)
{
	struct audit_denial denial = denial_of(event);
	for (size_t i = 0; i < *length; i++) {
		if (denial_same(&(*list)[i], &denial)) {
			(*list)[i].count = add_clamped((*list)[i].count, count);
			return 0;
		}
	}
	if (*length == AUDIT_SUMMARY_DENIALS_MAX) {
		*left_out = add_clamped(*left_out, count);
		return 0;
	}
	if (*list == NULL) {
		*list = calloc(AUDIT_SUMMARY_DENIALS_MAX, sizeof(**list));
		if (*list == NULL)
			return -ENOMEM;
	}
	denial.count = count;
	int r = denial_own(&denial);
	if (r == 0)
		(*list)[(*length)++] = denial;
	return r;
}

/** Whether this event is to be counted: a decision, of this sandbox, whole, and not seen before. */
static int event_counts(struct reader *reader, json_t *event)
{
	uint64_t class_uid = number_at(event, "class_uid", NULL);
	const char *sandbox = text_at(event, "src_endpoint", "uid");
	const char *uid_text = text_at(event, "metadata", "uid");
	json_t *torn = json_object_get(member(event, "unmapped", "eclusa"), "torn");
	struct uid uid;
	if ((class_uid != 4002 && class_uid != 4001) || json_is_true(torn))
		return 0; /* a torn line comes again whole, from its ring */
	if (reader->sandbox_id != NULL && !text_same(sandbox, reader->sandbox_id))
		return 0;
	if (uid_text == NULL || !uid_parse(uid_text, &uid))
		return 0;
	return uid_set_add(&reader->seen, uid);
}

static int read_event(struct reader *reader, json_t *event)
{
	struct audit_summary *sum = &reader->sum;
	int r = event_counts(reader, event);
	if (r <= 0)
		return r;
	uint64_t aggregated = number_at(member(event, "unmapped", "eclusa"), "count", NULL);
	uint64_t count = aggregated > 0 ? aggregated : 1;
	sum->bytes_in = add_clamped(sum->bytes_in, number_at(event, "traffic", "bytes_in"));
	sum->bytes_out = add_clamped(sum->bytes_out, number_at(event, "traffic", "bytes_out"));
	if (number_at(event, "action_id", NULL) == 1) {
		sum->allowed = add_clamped(sum->allowed, count);
		if (number_at(event, "disposition_id", NULL) != 27)
			return 0;
		sum->failed = add_clamped(sum->failed, count);
		return add_denial(
			&sum->failures, &sum->failure_count, &sum->failures_left_out, event, count);
	}
	sum->denied = add_clamped(sum->denied, count);
	return add_denial(&sum->denials, &sum->denial_count, &sum->denials_left_out, event, count);
}

static int read_line(struct reader *reader, struct slice line)
{
	json_error_t error;
	if (line.len == 0)
		return 0;
	json_t *event = json_loadb(line.ptr, line.len, JSON_ALLOW_NUL, &error);
	if (event == NULL)
		return 0; /* not an event; audit verify is the tool that complains */
	int r = read_event(reader, event);
	json_decref(event);
	return r;
}

/** Every whole line of @have; *ret_used: how many bytes they took. */
static int read_lines(struct reader *reader, struct slice have, size_t *ret_used)
{
	size_t used = 0;
	int r = 0;
	while (r == 0) {
		struct slice rest = slice_part(have, used, have.len);
		ptrdiff_t end = slice_find(rest, '\n');
		if (end < 0)
			break;
		r = read_line(reader, slice_part(rest, 0, (size_t)end));
		used += (size_t)end + 1;
	}
	*ret_used = used;
	return r;
}

static int read_all(struct reader *reader, int fd)
{
	auto_free char *block = malloc(READ_BYTES);
	if (block == NULL)
		return -ENOMEM;
	size_t kept = 0; /* an unfinished line at the front of the block */
	for (off_t at = 0;;) {
		ssize_t got = pread(fd, block + kept, READ_BYTES - kept, at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return read_line(reader, (struct slice){block, kept});
		at += got;
		struct slice have = {block, kept + (size_t)got};
		size_t used;
		int r = read_lines(reader, have, &used);
		if (r < 0)
			return r;
		if (used == 0 && have.len == READ_BYTES)
			used = have.len; /* longer than any line of ours */
		kept = have.len - used;
		memmove(block, block + used, kept);
	}
}

int audit_summary_read(int segment_fd, const char *sandbox_id, struct audit_summary *ret)
{
	struct reader reader = {.sandbox_id = sandbox_id};
	int r = read_all(&reader, segment_fd);
	free(reader.seen.slots);
	if (r < 0) {
		audit_summary_fini(&reader.sum);
		return r;
	}
	*ret = reader.sum;
	return 0;
}

void audit_summary_fini(struct audit_summary *s)
{
	for (size_t i = 0; i < s->denial_count; i++)
		denial_fini(&s->denials[i]);
	free(s->denials);
	for (size_t i = 0; i < s->failure_count; i++)
		denial_fini(&s->failures[i]);
	free(s->failures);
	*s = (struct audit_summary){0};
}
