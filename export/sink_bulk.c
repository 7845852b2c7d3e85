/*
 * Elasticsearch's and OpenSearch's _bulk: each event is a "create" under its own id, so that one that comes again is refused as already
 * there (409), which is success. The answer has a status for each event.
 */
#include "common/cleanup.h"
#include "export/answer.h"
#include "export/http_sink.h"
#include "export/kinds.h"

#include <stdio.h>

#define ID_BYTES_MAX 512 /* the receiver's limit */

static const struct sink_setting settings[] = {
	HTTP_SINK_SETTINGS,
	{.name = "authorization", .type = SETTING_SECRET},
	{.name = "index", .type = SETTING_TEXT, .otherwise = "logs-eclusa.audit-default"},
};

static bool add(const struct sink *s, struct sink_line *line, bool first, struct buf *to)
{
	struct slice id = line->facts.uid;
	(void)s;
	(void)first;
	if (id.len == 0 || id.len > ID_BYTES_MAX) {
		sink_poison(line, "no metadata.uid to be its id");
		return false;
	}
	(void)buf_append(to, SLICE("{\"create\":{\"_id\":\"")); /* errors are sticky in the buf */
	(void)buf_append(to, id);
	(void)buf_append(to, SLICE("\"}}\n"));
	(void)buf_append(to, line->text);
	(void)buf_append(to, SLICE("\n"));
	return true;
}

/** A parcel whose events get their fates. */
struct sorting {
	const struct parcel *parcel;
	enum verdict verdict;
	char *why; /* SINK_WHY_BYTES: of an item that says that no event would be taken */
};

static void judge_item(void *arg, size_t index, const struct answer_item *item)
{
	struct sorting *sorting = arg;
	struct sink_line *line = sorting->parcel->lines[index];
	switch (item->status == 409 ? VERDICT_TAKEN : verdict_of_status(item->status)) {
	case VERDICT_TAKEN:
		line->fate = SINK_DELIVERED;
		return;
	case VERDICT_LATER:
		return;
	case VERDICT_REFUSED:
		sink_poison(line, "status %u: %s", item->status, item->error);
		return;
	case VERDICT_SORTED:
	case VERDICT_PARSED:
	case VERDICT_SETTINGS:
		break;
	}
	char error[ANSWER_TEXT_BYTES];
	sorting->verdict = VERDICT_SETTINGS;
	(void)snprintf(sorting->why, SINK_WHY_BYTES, "status %u: %s", item->status,
		slice_escape(slice_of(item->error), error, sizeof(error)));
}

/** Of all of a request a status tells, but 400: the form of a request is always the same, so that is about index or pipeline. */
static enum verdict judge(struct sink *s, const struct http_answer *answer,
	const struct parcel *parcel, char why[static SINK_WHY_BYTES])
{
	(void)s;
	enum verdict verdict = verdict_of_status(answer->status);
	if (verdict == VERDICT_REFUSED && answer->status != 413)
		return VERDICT_SETTINGS;
	if (verdict != VERDICT_TAKEN)
		return verdict;
	struct sorting sorting = {.parcel = parcel, .verdict = VERDICT_SORTED, .why = why};
	if (answer_bulk(answer->body, parcel->count, judge_item, &sorting) < 0) {
		(void)snprintf(why, SINK_WHY_BYTES, "not the answer of a _bulk with %zu items",
			parcel->count);
		return VERDICT_SETTINGS;
	}
	return sorting.verdict;
}

static const struct envelope envelope = {
	.content_type = "application/x-ndjson",
	.scheme = "",
	.credentials = "authorization",
	.add = add,
	.judge = judge,
};

/** What becomes a part of the URL: no '/', no '?', no upper case, as the receiver wants its names. */
static void check(const struct sink_config *c, struct policy_report *report)
{
	const char *index = sink_config_value(c, "index")->text;
	http_sink_check(c, report);
	if (index[strspn(index, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] != '\0')
		sink_config_error(c, "index", report,
			"an index or data stream is named by lower-case letters, digits, '-', '_' and '.'");
}

/** Only the parts of the answer that judge() reads are asked for. */
static int open_sink(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	char suffix[HTTP_URL_BYTES];
	int len = snprintf(suffix, sizeof(suffix),
		"/%s/_bulk?filter_path=items.*.status,items.*.error.type,items.*.error.reason",
		sink_config_value(c, "index")->text);
	if ((size_t)len >= sizeof(suffix))
		return failure_set(why, -ENAMETOOLONG, "sink %s: the index is too long", c->name);
	return http_sink_open(c, &envelope, suffix, ret, why);
}

const struct sink_kind sink_elastic_bulk = {
	.name = "elastic-bulk",
	.text = "the _bulk of Elasticsearch and OpenSearch, in ECS",
	.settings = settings,
	.setting_count = array_size(settings),
	.needs = HTTP_SINK_NEEDS,
	.formats = 1U << AUDIT_FORMAT_ECS,
	.format = AUDIT_FORMAT_ECS,
	.window = 1,
	.batch_lines = HTTP_SINK_BATCH_LINES,
	.batch_bytes = HTTP_SINK_BATCH_BYTES,
	.check = check,
	.open = open_sink,
	.deliver = http_sink_deliver,
	.reset = http_sink_reset,
	.free = http_sink_free,
};
