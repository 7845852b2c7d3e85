/* Verdicts over time, drawn as SVG without a font or a unit of its own: labels are text of the page. See report.h. */
#include "report/report_state.h"

#include "common/cleanup.h"
#include "report/html.h"

#define HEIGHT     1000 /* of the drawing, in its own units */
#define SLOT       20   /* width of an interval, */
#define BAR        16   /* and of its bar */
#define SLOTS_MIN  24   /* so that a short log has no fat bars */
#define SLIVER     8    /* the least height of something that is there */
#define GRID_LINES 4

static const struct {
	const char *class;
	const char *name;
} kinds[] = {
	[SPREAD_ALLOWED] = {"k-allowed", "allowed"},
	[SPREAD_WOULD] = {"k-would", "would be denied"},
	[SPREAD_FAILED] = {"k-failed", "failed"},
	[SPREAD_DENIED] = {"k-denied", "denied"},
};

_Static_assert(array_size(kinds) == SPREAD_KINDS, "a colour for every kind");

/* Errors of all appends are sticky in the buf. */

static void write_legend(const struct spread *s, struct buf *to)
{
	(void)buf_append_text(to, "<ul class=\"legend\">");
	for (size_t k = 0; k < SPREAD_KINDS; k++) {
		uint64_t sum = 0;
		for (size_t i = 0; i < s->count; i++)
			sum += s->counts[i][k];
		(void)buf_printf(to,
			"<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"%s\" "
			"width=\"10\" height=\"10\" rx=\"2\"/></svg>%s <b>",
			kinds[k].class, kinds[k].name);
		html_number(to, sum);
		(void)buf_append_text(to, "</b></li>");
	}
	(void)buf_append_text(to, "</ul>");
}

/** The end of the scale: 1, 2 or 5 and zeros, or more exact where that would leave much empty. */
static uint64_t scale_end(uint64_t most)
{
	static const unsigned ends[] = {10, 12, 16, 20, 30, 40, 60, 80, 100};
	uint64_t unit = 1;
	if (most <= 4)
		return 4;
	while (most > unit * 10 && unit < UINT64_MAX / 100)
		unit *= 10;
	for (size_t i = 0; i < array_size(ends); i++) {
		uint64_t end = unit * ends[i] / 10;
		if (end >= most && end % GRID_LINES == 0)
			return end;
	}
	return unit * 10 > most ? unit * 10 : most;
}

static unsigned height_of(uint64_t count, uint64_t end)
{
	unsigned height = (unsigned)((double)count / (double)end * HEIGHT);
	return count > 0 && height < SLIVER ? SLIVER : height;
}

/** "2026-11-29 20:30: 12 allowed, 3 denied": what a pointer that rests on a bar is told. */
static void write_title(const struct spread *s, size_t interval, struct buf *to)
{
	const char *before = ": ";
	(void)buf_append_text(to, "<title>");
	html_moment(to, (s->first + interval) * spread_width_s(s), spread_width_s(s));
	for (size_t k = 0; k < SPREAD_KINDS; k++) {
		if (s->counts[interval][k] == 0)
			continue;
		(void)buf_append_text(to, before);
		html_number(to, s->counts[interval][k]);
		(void)buf_printf(to, " %s", kinds[k].name);
		before = ", ";
	}
	(void)buf_append_text(to, "</title>");
}

static void write_bar(const struct spread *s, size_t interval, uint64_t end, struct buf *to)
{
	unsigned top = HEIGHT;
	if (spread_sum(s, interval) == 0)
		return;
	(void)buf_append_text(to, "<g>");
	write_title(s, interval, to);
	for (size_t k = 0; k < SPREAD_KINDS; k++) {
		unsigned height = height_of(s->counts[interval][k], end);
		height = height > top ? top : height; /* slivers may add up */
		if (height == 0)
			continue;
		top -= height;
		(void)buf_printf(to,
			"<rect class=\"%s\" x=\"%zu\" y=\"%u\" width=\"%d\" height=\"%u\"/>",
			kinds[k].class, interval * SLOT + (SLOT - BAR) / 2, top, BAR, height);
	}
	(void)buf_printf(to,
		"<rect class=\"hit\" x=\"%zu\" y=\"0\" width=\"%d\" height=\"%d\"/></g>",
		interval * SLOT, SLOT, HEIGHT);
}

static void write_drawing(const struct spread *s, size_t slots, uint64_t end, struct buf *to)
{
	(void)buf_printf(to,
		"<svg viewBox=\"0 0 %zu %d\" preserveAspectRatio=\"none\" role=\"img\" "
		"aria-label=\"Verdicts over time; the numbers are in the table below\">",
		slots * SLOT, HEIGHT);
	for (unsigned i = 0; i <= GRID_LINES; i++)
		(void)buf_printf(to,
			"<line class=\"grid\" x1=\"0\" x2=\"%zu\" y1=\"%u\" y2=\"%u\"/>",
			slots * SLOT, i * HEIGHT / GRID_LINES, i * HEIGHT / GRID_LINES);
	for (size_t i = 0; i < s->count; i++)
		write_bar(s, i, end, to);
	(void)buf_append_text(to, "</svg>");
}

static void write_scale(uint64_t end, struct buf *to)
{
	(void)buf_append_text(to, "<div class=\"scale\" aria-hidden=\"true\">");
	for (unsigned i = GRID_LINES + 1; i-- > 0;) {
		(void)buf_append_text(to, "<span>");
		html_number(to, end / GRID_LINES * i);
		(void)buf_append_text(to, "</span>");
	}
	(void)buf_append_text(to, "</div>");
}

static void write_times(const struct spread *s, size_t slots, struct buf *to)
{
	uint64_t width = spread_width_s(s);
	(void)buf_append_text(to, "<div class=\"times\" aria-hidden=\"true\"><span>");
	html_moment(to, s->first * width, width);
	(void)buf_append_text(to, "</span><span>");
	html_moment(to, (s->first + slots) * width, width);
	(void)buf_append_text(to, "</span></div>");
}

static void write_table(const struct spread *s, struct buf *to)
{
	(void)buf_append_text(to,
		"<details><summary>The numbers</summary><table><thead><tr><th scope=\"col\">From</th>");
	for (size_t k = 0; k < SPREAD_KINDS; k++)
		(void)buf_printf(to, "<th scope=\"col\" class=\"n\">%s</th>", kinds[k].name);
	(void)buf_append_text(to, "</tr></thead><tbody>");
	for (size_t i = 0; i < s->count; i++) {
		if (spread_sum(s, i) == 0)
			continue;
		(void)buf_append_text(to, "<tr><td class=\"t\" data-l=\"From\">");
		html_moment(to, (s->first + i) * spread_width_s(s), spread_width_s(s));
		(void)buf_append_text(to, "</td>");
		for (size_t k = 0; k < SPREAD_KINDS; k++) {
			(void)buf_printf(to, "<td class=\"n%s\" data-l=\"%s\"><span>",
				s->counts[i][k] == 0 ? " zero" : "", kinds[k].name);
			html_number(to, s->counts[i][k]);
			(void)buf_append_text(to, "</span></td>");
		}
		(void)buf_append_text(to, "</tr>\n");
	}
	(void)buf_append_text(to, "</tbody></table></details>");
}

void report_chart(const struct report *r, struct buf *to)
{
	const struct spread *s = &r->spread;
	size_t slots = s->count < SLOTS_MIN ? SLOTS_MIN : s->count;
	uint64_t end = scale_end(spread_most(s));
	if (s->count == 0) {
		(void)buf_append_text(to,
			"<div class=\"frame\"><p class=\"empty\">No decision was made.</p></div>");
		return;
	}
	(void)buf_append_text(to, "<div class=\"chart\">");
	write_legend(s, to);
	(void)buf_append_text(to, "<div class=\"plot\">");
	write_scale(end, to);
	write_drawing(s, slots, end, to);
	write_times(s, slots, to);
	(void)buf_append_text(to, "</div>");
	write_table(s, to);
	(void)buf_append_text(to, "</div>");
}
