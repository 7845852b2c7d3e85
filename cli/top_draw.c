/* See top.h. Every text in a picture is printable ASCII before it comes here, so a byte is a column. */
#include "cli/top.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

#define LINE_BYTES 512

/** Where lines go, and how many still may. */
struct drawing {
	struct buf *to;
	unsigned rows, columns;
	bool colour;
};

/** One line, cut at the screen's edge. Its end is cleared on a terminal, whose last picture is below it. */
static void draw_line(struct drawing *d, bool bold, const char *text)
{
	size_t len = strlen(text);
	if (d->rows == 0)
		return;
	d->rows--;
	len = len < d->columns ? len : d->columns;
	if (bold && d->colour)
		(void)buf_append_text(d->to, BOLD); /* errors are sticky in the buf */
	(void)buf_append(d->to, (struct slice){text, len});
	if (bold && d->colour)
		(void)buf_append_text(d->to, PLAIN);
	(void)buf_append_text(d->to, d->colour ? "\033[K\n" : "\n");
}

/** "123", "1.2k", "34M": at most five columns. */
static const char *number_text(uint64_t number, uint64_t unit, char to[static 24])
{
	static const char names[] = " kMGTPE";
	size_t i = 0;
	uint64_t tenths = number > UINT64_MAX / 10 ? UINT64_MAX : number * 10;
	while (tenths >= unit * 10 && names[i + 1] != '\0') {
		tenths /= unit;
		i++;
	}
	if (i == 0)
		(void)snprintf(to, 24, "%" PRIu64, number);
	else if (tenths < 100)
		(void)snprintf(
			to, 24, "%" PRIu64 ".%" PRIu64 "%c", tenths / 10, tenths % 10, names[i]);
	else
		(void)snprintf(to, 24, "%" PRIu64 "%c", tenths / 10, names[i]);
	return to;
}

static const char *rate_text(uint64_t thousandths, char to[static 24])
{
	if (thousandths < 100000)
		(void)snprintf(
			to, 24, "%" PRIu64 ".%" PRIu64, thousandths / 1000, thousandths / 100 % 10);
	else
		(void)number_text(thousandths / 1000, 1000, to);
	return to;
}

static const char *age_text(uint64_t since_ms, uint64_t now_ms, char to[static 24])
{
	uint64_t s = since_ms == 0 || since_ms > now_ms ? 0 : (now_ms - since_ms) / 1000;
	if (s < 3600)
		(void)snprintf(to, 24, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
	else if (s < 100 * 3600)
		(void)snprintf(to, 24, "%" PRIu64 "h%02" PRIu64, s / 3600, s / 60 % 60);
	else
		(void)snprintf(to, 24, "%" PRIu64 "d", s / 86400);
	return to;
}

static void draw_head(struct drawing *d, const struct top_picture *p)
{
	static const char *const orders[] = {[TOP_BY_RATE] = "requests a second",
		[TOP_BY_DENIED] = "denied",
		[TOP_BY_OUT] = "bytes out",
		[TOP_BY_AGE] = "age"};
	_Static_assert(array_size(orders) == TOP_ORDER_COUNT, "a name for every order");
	char line[LINE_BYTES], folder[LINE_BYTES / 4], a[24], b[24], c[24], e[24];
	uint64_t open = 0, rates[LIVE_COUNTS] = {0};
	struct tm t = {0};
	time_t now = (time_t)(p->now_ms / 1000);
	for (size_t i = 0; i < p->sandbox_count; i++) {
		open += p->sandboxes[i].open;
		for (size_t k = 0; k < LIVE_COUNTS; k++)
			rates[k] += p->sandboxes[i].rates[k];
	}
	(void)gmtime_r(&now, &t); /* else it shows zeros */
	(void)snprintf(line, sizeof(line), "eclusa top  %02d:%02d:%02d UTC  %s%s", t.tm_hour,
		t.tm_min, t.tm_sec, slice_escape(slice_of(p->folder), folder, sizeof(folder)),
		p->behind ? "  (still reading)" : "");
	draw_line(d, true, line);
	(void)snprintf(line, sizeof(line),
		"%zu sandbox%s, %" PRIu64
		" requests open; a second: %s allowed, %s denied, %sB out, %sB in",
		p->sandbox_count, p->sandbox_count == 1 ? "" : "es", open,
		rate_text(rates[LIVE_ALLOWED], a), rate_text(rates[LIVE_DENIED], b),
		number_text(rates[LIVE_OUT] / 1000, 1024, c),
		number_text(rates[LIVE_IN] / 1000, 1024, e));
	draw_line(d, false, line);
	if (d->colour) {
		(void)snprintf(
			line, sizeof(line), "by %s; s: another order, q: quit", orders[p->order]);
		draw_line(d, false, line);
	}
	draw_line(d, false, "");
}

static void draw_sandbox(struct drawing *d, const struct live_sandbox *s, uint64_t now_ms)
{
	char line[LINE_BYTES], age[24], allowed[24], denied[24], would[24], rate[24], out[24],
		in[24];
	uint64_t all = s->rates[LIVE_ALLOWED] + s->rates[LIVE_DENIED];
	(void)snprintf(line, sizeof(line),
		"%-15.15s %-12.12s %6s %5" PRIu64 " %7s %7s %6s %6s %6s %6s  %s%s", s->id,
		s->profile, age_text(s->began_ms, now_ms, age), s->open,
		number_text(s->counts[LIVE_ALLOWED], 1000, allowed),
		number_text(s->counts[LIVE_DENIED], 1000, denied),
		number_text(s->counts[LIVE_WOULD], 1000, would), rate_text(all, rate),
		number_text(s->counts[LIVE_OUT], 1024, out),
		number_text(s->counts[LIVE_IN], 1024, in), s->stalled ? "LOG STALLED " : "",
		s->denied);
	draw_line(d, false, line);
}

static void draw_sink(struct drawing *d, const struct live_sink *s)
{
	char line[LINE_BYTES], events[24], bytes[24], delivered[24], quarantined[24], lost[24];
	(void)snprintf(line, sizeof(line),
		"%-15.15s %-12.12s %-9.9s %6" PRIu64 "s %7s %7s %9s %6s %6s  %s", s->name, s->kind,
		s->state, s->lag_seconds, number_text(s->lag_events, 1000, events),
		number_text(s->lag_bytes, 1024, bytes), number_text(s->delivered, 1000, delivered),
		number_text(s->quarantined, 1000, quarantined), number_text(s->lost, 1000, lost),
		s->failure);
	draw_line(d, false, line);
}

static uint64_t key_of(const struct live_sandbox *s, enum top_order order)
{
	switch (order) {
	case TOP_BY_RATE:
		return s->rates[LIVE_ALLOWED] + s->rates[LIVE_DENIED];
	case TOP_BY_DENIED:
		return s->counts[LIVE_DENIED];
	case TOP_BY_OUT:
		return s->counts[LIVE_OUT];
	case TOP_BY_AGE:
		return UINT64_MAX - s->began_ms;
	case TOP_ORDER_COUNT:
		break;
	}
	return 0;
}

static int by_order(const void *left, const void *right, void *arg)
{
	const struct live_sandbox *a = *(const struct live_sandbox *const *)left;
	const struct live_sandbox *b = *(const struct live_sandbox *const *)right;
	enum top_order order = *(enum top_order *)arg;
	if (key_of(a, order) != key_of(b, order))
		return key_of(a, order) < key_of(b, order) ? 1 : -1;
	return strcmp(a->id, b->id);
}

/** In order; the caller frees. NULL: no memory, or none there. */
static const struct live_sandbox **sorted(const struct top_picture *p)
{
	const struct live_sandbox **to =
		p->sandbox_count == 0 ? NULL : calloc(p->sandbox_count, sizeof(*to));
	enum top_order order = p->order;
	for (size_t i = 0; to != NULL && i < p->sandbox_count; i++)
		to[i] = &p->sandboxes[i];
	if (to != NULL)
		qsort_r(to, p->sandbox_count, sizeof(*to), by_order, &order);
	return to;
}

void top_draw(
	const struct top_picture *p, unsigned rows, unsigned columns, bool colour, struct buf *to)
{
	struct drawing d = {.to = to, .rows = rows, .columns = columns, .colour = colour};
	auto_free const struct live_sandbox **order = sorted(p);
	char line[LINE_BYTES];
	/* Sinks are few, and what is wrong with them is why somebody looks. */
	unsigned below = p->sink_count > 0 ? (unsigned)p->sink_count + 2 : 0;
	below += p->sinks_failure != NULL;
	draw_head(&d, p);
	draw_line(&d, true,
		"SANDBOX         PROFILE         AGE  OPEN ALLOWED  DENIED  WOULD    /s    OUT     IN  LAST DENIED");
	for (size_t i = 0; order != NULL && i < p->sandbox_count && d.rows > below + 1; i++)
		draw_sandbox(&d, order[i], p->now_ms);
	if (p->left_out > 0) {
		(void)snprintf(line, sizeof(line), "and %" PRIu64 " more files", p->left_out);
		draw_line(&d, false, line);
	}
	if (p->sink_count > 0) {
		draw_line(&d, false, "");
		draw_line(&d, true,
			"SINK            KIND         STATE        LAG  EVENTS   BYTES DELIVERED QUARAN   LOST  LAST FAILURE");
	}
	for (size_t i = 0; i < p->sink_count; i++)
		draw_sink(&d, &p->sinks[i]);
	if (p->sinks_failure != NULL)
		draw_line(&d, false, p->sinks_failure);
}

static void json_sandbox(struct json *j, const struct live_sandbox *s)
{
	json_object(j, NULL);
	json_text(j, "id", s->id);
	json_text(j, "profile", s->profile);
	json_uint(j, "began_ms", s->began_ms);
	json_uint(j, "open", s->open);
	json_uint(j, "allowed", s->counts[LIVE_ALLOWED]);
	json_uint(j, "denied", s->counts[LIVE_DENIED]);
	json_uint(j, "failed", s->counts[LIVE_FAILED]);
	json_uint(j, "would_deny", s->counts[LIVE_WOULD]);
	json_uint(j, "bytes_out", s->counts[LIVE_OUT]);
	json_uint(j, "bytes_in", s->counts[LIVE_IN]);
	json_uint(j, "waiting_bytes", s->waiting_bytes);
	json_bool(j, "stalled", s->stalled);
	json_text(j, "last_denied", s->denied);
	json_object_end(j);
}

static void json_sink(struct json *j, const struct live_sink *s)
{
	json_object(j, NULL);
	json_text(j, "name", s->name);
	json_text(j, "kind", s->kind);
	json_text(j, "state", s->state);
	json_uint(j, "lag_seconds", s->lag_seconds);
	json_uint(j, "lag_events", s->lag_events);
	json_uint(j, "lag_bytes", s->lag_bytes);
	json_uint(j, "delivered", s->delivered);
	json_uint(j, "quarantined", s->quarantined);
	json_uint(j, "lost", s->lost);
	json_text(j, "failure", s->failure);
	json_object_end(j);
}

void top_json(const struct top_picture *p, struct buf *to)
{
	struct json j;
	auto_free const struct live_sandbox **order = sorted(p);
	json_open(&j, to);
	json_object(&j, NULL);
	json_uint(&j, "time", p->now_ms);
	json_array(&j, "sandboxes");
	for (size_t i = 0; order != NULL && i < p->sandbox_count; i++)
		json_sandbox(&j, order[i]);
	json_array_end(&j);
	json_uint(&j, "left_out", p->left_out);
	json_array(&j, "sinks");
	for (size_t i = 0; i < p->sink_count; i++)
		json_sink(&j, &p->sinks[i]);
	json_array_end(&j);
	json_object_end(&j);
	(void)buf_append(to, SLICE("\n")); /* errors are sticky in the buf */
}
