/* The tables of a report: which columns each has, and one way to write them. See report.h. */
#include "report/report_state.h"

#include "common/cleanup.h"
#include "common/reason.h"
#include "report/html.h"

enum cell {
	CELL_PART,    /* of the key, the index says which */
	CELL_NOTE,    /* likewise */
	CELL_REASON,  /* what the code of part 0 means */
	CELL_VERDICT, /* note 1 of a sandbox, which may not have ended */
	CELL_EVENTS,
	CELL_COUNT, /* the index is an enum tally_count */
	CELL_BYTES,
	CELL_FIRST,
	CELL_LAST,
};

struct column {
	const char *label;
	enum cell cell;
	unsigned index;
	const char *class; /* n number, t time, c code, k keyword */
};

#define COLUMNS_MAX 10 /* and the one that ends them */

struct table {
	enum tally_order order;
	const char *empty;                  /* said where there are no rows */
	struct column columns[COLUMNS_MAX]; /* up to the one without a label */
};

static const struct table tables[] = {
	[REPORT_DENIED] = {TALLY_BY_EVENTS, "Nothing was denied.",
		{{"Host", CELL_PART, 0, "h"}, {"Times", CELL_EVENTS, 0, "n"},
			{"Reason", CELL_PART, 1, "k"},
			{"Rule that would allow it", CELL_PART, 2, "c"},
			{"Denied by", CELL_NOTE, 1, "c"}, {"Last sandbox", CELL_NOTE, 0, "k"},
			{"Last", CELL_LAST, 0, "t"}}},
	[REPORT_WOULD] = {TALLY_BY_EVENTS, "Nothing: no rule that only observes let anything pass.",
		{{"Host", CELL_PART, 0, "h"}, {"Times", CELL_EVENTS, 0, "n"},
			{"Would be", CELL_PART, 1, "k"},
			{"Rule that would allow it", CELL_PART, 2, "c"},
			{"Observed by", CELL_NOTE, 1, "c"}, {"Last sandbox", CELL_NOTE, 0, "k"},
			{"Last", CELL_LAST, 0, "t"}}},
	[REPORT_HOSTS] = {TALLY_BY_EVENTS, "No host was asked for.",
		{{"Host", CELL_PART, 0, "h"}, {"Events", CELL_EVENTS, 0, "n"},
			{"Allowed", CELL_COUNT, TALLY_ALLOWED, "n"},
			{"Denied", CELL_COUNT, TALLY_DENIED, "n"},
			{"Failed", CELL_COUNT, TALLY_FAILED, "n"},
			{"Would deny", CELL_COUNT, TALLY_WOULD, "n"},
			{"Out", CELL_BYTES, TALLY_OUT, "n"}, {"In", CELL_BYTES, TALLY_IN, "n"},
			{"Last", CELL_LAST, 0, "t"}}},
	[REPORT_REASONS] = {TALLY_BY_EVENTS, "No decision was made.",
		{{"Reason", CELL_PART, 0, "k"}, {"Events", CELL_EVENTS, 0, "n"},
			{"What it means", CELL_REASON, 0, "h"}, {"First", CELL_FIRST, 0, "t"},
			{"Last", CELL_LAST, 0, "t"}}},
	[REPORT_RULES] = {TALLY_BY_OUT, "No sandbox used a rule.",
		{{"Sandbox", CELL_PART, 0, "k"}, {"Rule", CELL_PART, 1, "h"},
			{"Written in", CELL_PART, 2, "c"}, {"Events", CELL_EVENTS, 0, "n"},
			{"Denied", CELL_COUNT, TALLY_DENIED, "n"},
			{"Out", CELL_BYTES, TALLY_OUT, "n"}, {"In", CELL_BYTES, TALLY_IN, "n"}}},
	[REPORT_SANDBOXES] = {TALLY_BY_LAST, "No sandbox ran.",
		{{"Sandbox", CELL_PART, 0, "k"}, {"Ended", CELL_VERDICT, 0, "k"},
			{"Profile", CELL_NOTE, 0, "k"}, {"Command", CELL_NOTE, 2, "c"},
			{"Allowed", CELL_COUNT, TALLY_ALLOWED, "n"},
			{"Denied", CELL_COUNT, TALLY_DENIED, "n"},
			{"Out", CELL_BYTES, TALLY_OUT, "n"}, {"First", CELL_FIRST, 0, "t"},
			{"Last", CELL_LAST, 0, "t"}}},
	[REPORT_POLICIES] = {TALLY_BY_LAST, "No policy was in force.",
		{{"Digest", CELL_PART, 0, "c"}, {"Profile", CELL_PART, 1, "k"},
			{"Event", CELL_NOTE, 0, "k"},
			{"A later one was refused", CELL_NOTE, 1, "h"},
			{"Allowed", CELL_COUNT, TALLY_ALLOWED, "n"},
			{"Denied", CELL_COUNT, TALLY_DENIED, "n"}, {"First", CELL_FIRST, 0, "t"},
			{"Last", CELL_LAST, 0, "t"}}},
};

_Static_assert(array_size(tables) == REPORT_TABLE_COUNT, "columns for every table");

/* Errors of all appends are sticky in the buf. */

static const char *sentence_of(struct slice code)
{
	for (unsigned i = 0; i < REASON_COUNT; i++) {
		if (slice_equal(code, slice_of(reason_code((enum reason)i))))
			return reason_sentence((enum reason)i);
	}
	return "";
}

/** Also what the script sorts by, where that is not the text. */
static void begin_cell(const struct column *c, const uint64_t *value, bool blank, struct buf *to)
{
	(void)buf_printf(to, "<td class=\"%s%s\" data-l=\"%s\"", c->class,
		blank                                  ? " blank"
			: value != NULL && *value == 0 ? " zero"
						       : "",
		c->label);
	if (value != NULL)
		(void)buf_printf(to, " data-v=\"%llu\"", (unsigned long long)*value);
	(void)buf_append_text(to, ">");
}

static void write_text(const struct column *c, struct slice text, struct buf *to)
{
	begin_cell(c, NULL, text.len == 0, to);
	(void)buf_append_text(to, "<bdi>");
	html_text(to, text);
	(void)buf_append_text(to, "</bdi></td>");
}

static void write_number(const struct column *c, uint64_t value,
	void (*show)(struct buf *, uint64_t), struct buf *to)
{
	begin_cell(c, &value, false, to);
	(void)buf_append_text(to, "<span>");
	show(to, value);
	(void)buf_append_text(to, "</span></td>");
}

static void write_cell(const struct column *c, const struct tally_row *row, struct buf *to)
{
	struct slice verdict = tally_slice(&row->notes[1]);
	switch (c->cell) {
	case CELL_PART:
		write_text(c, tally_slice(&row->parts[c->index]), to);
		return;
	case CELL_NOTE:
		write_text(c, tally_slice(&row->notes[c->index]), to);
		return;
	case CELL_REASON:
		write_text(c, slice_of(sentence_of(tally_slice(&row->parts[0]))), to);
		return;
	case CELL_VERDICT:
		write_text(c, verdict.len > 0 ? verdict : SLICE("no end recorded"), to);
		return;
	case CELL_EVENTS:
		write_number(c, tally_events(row), html_number, to);
		return;
	case CELL_COUNT:
		write_number(c, row->counts[c->index], html_number, to);
		return;
	case CELL_BYTES:
		write_number(c, row->counts[c->index], html_bytes, to);
		return;
	case CELL_FIRST:
		write_number(c, row->first_ms, html_time, to);
		return;
	case CELL_LAST:
		write_number(c, row->last_ms, html_time, to);
		return;
	}
}

/** What is not in a row of its own; texts are blank. */
static void write_others(const struct table *table, const struct tally *tally, struct buf *to)
{
	(void)buf_append_text(to, "<tfoot><tr>");
	for (const struct column *c = table->columns; c->label != NULL; c++) {
		if (c == table->columns) {
			begin_cell(c, NULL, false, to);
			(void)buf_append_text(to, "others, in sum</td>");
		} else if (c->cell <= CELL_VERDICT) {
			write_text(c, (struct slice){0}, to);
		} else {
			write_cell(c, &tally->others, to);
		}
	}
	(void)buf_append_text(to, "</tr></tfoot>");
}

/** Whether the rows come in the order of this column. */
static bool orders_by(const struct table *table, const struct column *c)
{
	switch (table->order) {
	case TALLY_BY_EVENTS:
		return c->cell == CELL_EVENTS;
	case TALLY_BY_OUT:
		return c->cell == CELL_BYTES && c->index == TALLY_OUT;
	case TALLY_BY_LAST:
		return c->cell == CELL_LAST;
	}
	return false;
}

void report_rows_close(struct report *r)
{
	for (size_t i = 0; i < REPORT_TABLE_COUNT; i++)
		tally_close(&r->tables[i], REPORT_ROWS_MAX, tables[i].order);
}

void report_rows(const struct report *r, enum report_table which, struct buf *to)
{
	const struct table *table = &tables[which];
	const struct tally *tally = &r->tables[which];
	(void)buf_append_text(to, "<div class=\"frame\">");
	if (tally->count == 0) {
		(void)buf_printf(to, "<p class=\"empty\">%s</p></div>", table->empty);
		return;
	}
	(void)buf_append_text(to, "<table class=\"sortable filtered\"><thead><tr>");
	for (const struct column *c = table->columns; c->label != NULL; c++)
		(void)buf_printf(to, "<th scope=\"col\" class=\"%s\"%s>%s</th>",
			c->class[0] == 't' ? "t n" : c->class,
			orders_by(table, c) ? " aria-sort=\"descending\"" : "", c->label);
	(void)buf_append_text(to, "</tr></thead><tbody>\n");
	for (size_t i = 0; i < tally->count; i++) {
		(void)buf_append_text(to, "<tr>");
		for (const struct column *c = table->columns; c->label != NULL; c++)
			write_cell(c, &tally->rows[i], to);
		(void)buf_append_text(to, "</tr>\n");
	}
	(void)buf_append_text(to, "</tbody>");
	if (tally->given_up > 0)
		write_others(table, tally, to);
	(void)buf_append_text(to, "</table></div>");
}
