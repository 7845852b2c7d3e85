/*
 * Events as lines of JSON in POST requests: what Vector's http_server source, Fluent Bit's http input and others take. Each status
 * speaks for the whole request.
 */
#include "common/cleanup.h"
#include "export/http_sink.h"
#include "export/kinds.h"

static const struct sink_setting settings[] = {
	HTTP_SINK_SETTINGS,
	{.name = "authorization", .type = SETTING_SECRET},
};

static bool add(const struct sink *s, struct sink_line *line, bool first, struct buf *to)
{
	(void)s;
	(void)first;
	(void)buf_append(to, line->text); /* errors are sticky in the buf */
	(void)buf_append(to, SLICE("\n"));
	return true;
}

static enum verdict judge(struct sink *s, const struct http_answer *answer,
	const struct parcel *parcel, char why[static SINK_WHY_BYTES])
{
	(void)s;
	(void)parcel;
	(void)why;
	return verdict_of_status(answer->status);
}

static const struct envelope envelope = {
	.content_type = "application/x-ndjson",
	.scheme = "",
	.credentials = "authorization",
	.add = add,
	.judge = judge,
};

static int open_sink(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	return http_sink_open(c, &envelope, "", ret, why);
}

const struct sink_kind sink_ndjson = {
	.name = "ndjson",
	.text = "lines of JSON over HTTP: Vector, Fluent Bit, Elastic Agent",
	.settings = settings,
	.setting_count = array_size(settings),
	.needs = HTTP_SINK_NEEDS,
	.formats = HTTP_SINK_JSON_FORMATS,
	.format = AUDIT_FORMAT_OCSF,
	.window = 1,
	.batch_lines = HTTP_SINK_BATCH_LINES,
	.batch_bytes = HTTP_SINK_BATCH_BYTES,
	.check = http_sink_check,
	.open = open_sink,
	.deliver = http_sink_deliver,
	.reset = http_sink_reset,
	.free = http_sink_free,
};
