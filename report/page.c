/* The places of the page, and what stands in them. See report.h. */
#include "report/report_state.h"

#include "common/cleanup.h"
#include "report/html.h"
#include "report/template.h"

/* Errors of all appends are sticky in the buf. */

static void write_tile(const char *name, const char *class, uint64_t value,
	void (*show)(struct buf *, uint64_t), struct buf *to)
{
	(void)buf_printf(to, "<li class=\"%s\"><span class=\"figure\">", class);
	show(to, value);
	(void)buf_printf(to, "</span><span class=\"name\">%s</span></li>", name);
}

static void write_tiles(const struct report *r, struct buf *to)
{
	uint64_t failed = r->counts[TALLY_FAILED], would = r->counts[TALLY_WOULD];
	uint64_t allowed = r->counts[TALLY_ALLOWED];
	allowed -= failed + would < allowed ? failed + would : allowed;
	write_tile("allowed", "allowed", allowed, html_number, to);
	write_tile("denied", r->counts[TALLY_DENIED] > 0 ? "denied" : "none",
		r->counts[TALLY_DENIED], html_number, to);
	write_tile("would be denied", "would", would, html_number, to);
	write_tile("failed upstream", "failed", failed, html_number, to);
	write_tile("sandboxes started", "sandboxes", r->starts, html_number, to);
	write_tile("left the sandboxes", "out", r->counts[TALLY_OUT], html_bytes, to);
	write_tile("came in", "in", r->counts[TALLY_IN], html_bytes, to);
}

static void write_notice(uint64_t count, const char *text, struct buf *to)
{
	if (count == 0)
		return;
	(void)buf_printf(to, "<p class=\"notice\">%s: <b>", text);
	html_number(to, count);
	(void)buf_append_text(to, "</b></p>");
}

/** What should not be, or should be known before the rest is believed. */
static void write_notices(const struct report *r, struct buf *to)
{
	write_notice(r->lost, "Events that were lost (audit.lost)", to);
	write_notice(r->skipped, "Lines of the log that are no events, torn or changed", to);
	write_notice(
		r->recovered, "Events that were completed after a crash (audit.recovered)", to);
	write_notice(r->violations, "Tries of what a sandbox may not (sandbox.violation)", to);
}

static void write_period(const struct report *r, struct buf *to)
{
	if (r->events == 0) {
		(void)buf_append_text(to, "No events");
		return;
	}
	html_time(to, r->first_ms);
	(void)buf_append_text(to, " to ");
	html_time(to, r->last_ms);
	(void)buf_append_text(to, " UTC");
}

static void write_source(const struct report *r, struct buf *to)
{
	html_number(to, r->events);
	(void)buf_append_text(to, " events of <bdi>");
	html_text(to, slice_of(r->options.source));
	(void)buf_append_text(to, "</bdi>");
	if (r->left_out > 0) {
		(void)buf_append_text(to, "; ");
		html_number(to, r->left_out);
		(void)buf_append_text(to, " more are before or after the time that was asked for");
	}
}

static void write_interval(const struct report *r, struct buf *to)
{
	static const struct {
		uint64_t seconds;
		const char *name;
	} units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
	uint64_t width = spread_width_s(&r->spread);
	size_t i = 0;
	while (width % units[i].seconds != 0)
		i++;
	uint64_t count = width / units[i].seconds;
	(void)buf_printf(to, "Each bar is %llu %s%s.", (unsigned long long)count, units[i].name,
		count == 1 ? "" : "s");
}

static void write_about(const struct report *r, struct buf *to)
{
	(void)buf_append_text(to, "Written by Eclusa " ECLUSA_VERSION " at ");
	html_time(to, r->options.now_ms);
	(void)buf_append_text(to, " UTC. ");
	html_number(to, r->checkpoints);
	(void)buf_append_text(to, " checkpoints are among the events. A table has at most ");
	html_number(to, REPORT_ROWS_MAX);
	(void)buf_append_text(to, " rows, the heaviest; others are summed up in its last line.");
}

static void fill(void *arg, struct slice name, struct buf *to)
{
	static const struct {
		const char *name;
		void (*write)(const struct report *, struct buf *);
	} places[] = {{"tiles", write_tiles}, {"notices", write_notices}, {"period", write_period},
		{"source", write_source}, {"interval", write_interval}, {"about", write_about},
		{"chart", report_chart}};
	static const char *const tables[] = {[REPORT_DENIED] = "denied",
		[REPORT_WOULD] = "would",
		[REPORT_HOSTS] = "hosts",
		[REPORT_REASONS] = "reasons",
		[REPORT_RULES] = "rules",
		[REPORT_SANDBOXES] = "sandboxes",
		[REPORT_POLICIES] = "policies"};
	const struct report *r = arg;
	for (size_t i = 0; i < array_size(places); i++) {
		if (slice_equal(name, slice_of(places[i].name)))
			places[i].write(r, to);
	}
	for (size_t i = 0; i < array_size(tables); i++) {
		if (slice_equal(name, slice_of(tables[i])))
			report_rows(r, (enum report_table)i, to);
	}
}

void report_page(const struct report *r, struct buf *to)
{
	template_write(fill, (void *)(uintptr_t)r, to);
}
