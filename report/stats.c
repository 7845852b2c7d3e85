/* What a report counts, as tables of text or as JSON: see report_stats() in report.h. One list of columns makes both. */
#include "report/report_state.h"

#include "audit/visible.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "report/html.h"

#include <assert.h>
#include <inttypes.h>

enum cell {
	CELL_EVENTS, /* allowed, failed and denied */
	CELL_COUNT,  /* the index is an enum tally_count */
	CELL_BYTES,  /* likewise */
	CELL_PART,   /* of the key, the index says which */
	CELL_NOTE,   /* likewise */
};

struct column {
	const char *name;
	enum cell cell;
	unsigned index;
};

#define COLUMNS_MAX 8 /* and the one that ends them */

/* Numbers come first, texts behind them. */
static const struct stats_table {
	const char *title, *name;
	enum report_table table;
	enum tally_order order;
	struct column columns[COLUMNS_MAX];
} tables[] = {
	{"Verdicts by reason", "reasons", REPORT_REASONS, TALLY_BY_EVENTS,
		{{"events", CELL_EVENTS, 0}, {"reason", CELL_PART, 0}}},
	{"Hosts", "hosts", REPORT_HOSTS, TALLY_BY_EVENTS,
		{{"events", CELL_EVENTS, 0}, {"denied", CELL_COUNT, TALLY_DENIED},
			{"failed", CELL_COUNT, TALLY_FAILED}, {"out", CELL_BYTES, TALLY_OUT},
			{"in", CELL_BYTES, TALLY_IN}, {"host", CELL_PART, 0}}},
	{"Denied hosts, and a rule that would allow them", "denied_hosts", REPORT_DENIED,
		TALLY_BY_EVENTS,
		{{"events", CELL_EVENTS, 0}, {"reason", CELL_PART, 1}, {"host", CELL_PART, 0},
			{"allow", CELL_PART, 2}}},
	{"Would be denied if it were enforced", "would_deny", REPORT_WOULD, TALLY_BY_EVENTS,
		{{"events", CELL_EVENTS, 0}, {"reason", CELL_PART, 1}, {"host", CELL_PART, 0},
			{"allow", CELL_PART, 2}}},
	{"Bytes by sandbox and rule", "sandboxes", REPORT_RULES, TALLY_BY_OUT,
		{{"out", CELL_BYTES, TALLY_OUT}, {"in", CELL_BYTES, TALLY_IN},
			{"events", CELL_EVENTS, 0}, {"sandbox", CELL_PART, 0},
			{"rule", CELL_PART, 1}, {"place", CELL_PART, 2}}},
};

/* Errors of all appends are sticky in the buf. */

static bool is_number(const struct column *c)
{
	return c->cell != CELL_PART && c->cell != CELL_NOTE;
}

static uint64_t number_of(const struct column *c, const struct tally_row *row)
{
	return c->cell == CELL_EVENTS ? tally_events(row) : row->counts[c->index];
}

static struct slice text_of(const struct column *c, const struct tally_row *row)
{
	return tally_slice(c->cell == CELL_PART ? &row->parts[c->index] : &row->notes[c->index]);
}

static void write_cell(const struct column *c, const struct tally_row *row, struct buf *to)
{
	struct buf shown = {0};
	if (c->cell == CELL_BYTES)
		html_bytes(&shown, number_of(c, row));
	else if (is_number(c))
		(void)buf_printf(&shown, "%" PRIu64, number_of(c, row));
	else
		visible_append(&shown, text_of(c, row), NULL);
	size_t width = is_number(c) ? 10 : 0;
	for (size_t i = buf_len(&shown); i < width; i++)
		(void)buf_append(to, SLICE(" "));
	(void)buf_append(to, buf_slice(&shown));
	to->failed |= shown.failed;
	buf_fini(&shown);
}

static void write_row(
	const struct stats_table *t, const struct tally_row *row, bool others, struct buf *to)
{
	for (const struct column *c = t->columns; c->name != NULL; c++) {
		if (others && !is_number(c)) {
			(void)buf_append(to, SLICE("  (others)"));
			break;
		}
		(void)buf_append(to, SLICE("  "));
		write_cell(c, row, to);
	}
	(void)buf_append(to, SLICE("\n"));
}

static void write_table(const struct stats_table *t, const struct tally *tally, struct buf *to)
{
	if (tally->count == 0)
		return;
	(void)buf_printf(to, "\n%s\n", t->title);
	for (const struct column *c = t->columns; c->name != NULL; c++)
		(void)buf_printf(to, is_number(c) ? "  %10s" : "  %s", c->name);
	(void)buf_append(to, SLICE("\n"));
	for (size_t i = 0; i < tally->count; i++)
		write_row(t, &tally->rows[i], false, to);
	if (tally_events(&tally->others) > 0)
		write_row(t, &tally->others, true, to);
}

static void write_text(const struct report *r, struct buf *to)
{
	(void)buf_printf(to, "%" PRIu64 " events", r->events);
	if (r->events > 0) {
		(void)buf_append(to, SLICE(" from "));
		html_time(to, r->first_ms);
		(void)buf_append(to, SLICE(" to "));
		html_time(to, r->last_ms);
		(void)buf_append(to, SLICE(" UTC"));
	}
	(void)buf_printf(to,
		"\n%" PRIu64 " allowed (%" PRIu64 " failed, %" PRIu64 " only observed), %" PRIu64
		" denied, ",
		r->counts[TALLY_ALLOWED], r->counts[TALLY_FAILED], r->counts[TALLY_WOULD],
		r->counts[TALLY_DENIED]);
	html_bytes(to, r->counts[TALLY_OUT]);
	(void)buf_append(to, SLICE(" out, "));
	html_bytes(to, r->counts[TALLY_IN]);
	(void)buf_append(to, SLICE(" in\n"));
	if (r->skipped > 0)
		(void)buf_printf(to, "%" PRIu64 " lines are no events\n", r->skipped);
	for (size_t i = 0; i < array_size(tables); i++)
		write_table(&tables[i], &r->tables[tables[i].table], to);
}

static void json_row(
	struct json *j, const struct stats_table *t, const struct tally_row *row, bool others)
{
	json_object(j, NULL);
	for (const struct column *c = t->columns; c->name != NULL; c++) {
		if (is_number(c))
			json_uint(j, c->name, number_of(c, row));
		else if (!others)
			json_slice(j, c->name, text_of(c, row));
	}
	if (others)
		json_bool(j, "others", true);
	json_object_end(j);
}

static void write_json(const struct report *r, struct buf *to)
{
	struct json j;
	json_open(&j, to);
	json_object(&j, NULL);
	json_uint(&j, "events", r->events);
	json_uint(&j, "first", r->first_ms);
	json_uint(&j, "last", r->last_ms);
	json_uint(&j, "allowed", r->counts[TALLY_ALLOWED]);
	json_uint(&j, "failed", r->counts[TALLY_FAILED]);
	json_uint(&j, "observed", r->counts[TALLY_WOULD]);
	json_uint(&j, "denied", r->counts[TALLY_DENIED]);
	json_uint(&j, "out", r->counts[TALLY_OUT]);
	json_uint(&j, "in", r->counts[TALLY_IN]);
	json_uint(&j, "skipped", r->skipped);
	for (size_t i = 0; i < array_size(tables); i++) {
		const struct tally *tally = &r->tables[tables[i].table];
		json_array(&j, tables[i].name);
		for (size_t row = 0; row < tally->count; row++)
			json_row(&j, &tables[i], &tally->rows[row], false);
		if (tally_events(&tally->others) > 0)
			json_row(&j, &tables[i], &tally->others, true);
		json_array_end(&j);
	}
	json_object_end(&j);
	(void)buf_append(to, SLICE("\n"));
}

int report_stats(struct report *r, size_t rows, bool json, struct buf *to)
{
	for (size_t i = 0; i < array_size(tables); i++) {
		size_t keep = tables[i].table == REPORT_REASONS ? REPORT_ROWS_MAX : rows;
		tally_close(&r->tables[tables[i].table], keep, tables[i].order);
	}
	if (json)
		write_json(r, to);
	else
		write_text(r, to);
	return to->failed ? -ENOBUFS : 0;
}
