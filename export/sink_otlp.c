/*
 * OTLP/HTTP logs in JSON (OpenTelemetry Protocol 1.x): each event is a log record whose body is the event as a map. Integers of 64 bits
 * are strings there, names are lowerCamelCase. Only 429, 502, 503 and 504 are tried again, as the protocol says.
 */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "export/answer.h"
#include "export/http_sink.h"
#include "export/kinds.h"
#include "export/otlp_value.h"

#include <stdio.h>

#define SUFFIX "/v1/logs"

static const struct sink_setting settings[] = {
	HTTP_SINK_SETTINGS,
	{.name = "authorization", .type = SETTING_SECRET},
	{.name = "service", .type = SETTING_TEXT, .otherwise = "eclusa"},
};

/** severityNumber and severityText of a severity_id. */
static const struct severity {
	unsigned number;
	const char *text;
} severities[] = {{0, NULL}, {9, "INFO"}, {9, "INFO"}, {13, "WARN"}, {17, "ERROR"}, {21, "FATAL"}};

static void write_attribute(struct json *j, const char *key, const char *value)
{
	json_object(j, NULL);
	json_text(j, "key", key);
	json_object(j, "value");
	json_text(j, "stringValue", value);
	json_object_end(j);
	json_object_end(j);
}

static void begin(const struct sink *s, struct buf *to)
{
	struct json j;
	json_open(&j, to); /* errors are sticky in the buf */
	json_object(&j, NULL);
	json_array(&j, "resourceLogs");
	json_object(&j, NULL);
	json_object(&j, "resource");
	json_array(&j, "attributes");
	write_attribute(&j, "service.name", sink_config_value(s->config, "service")->text);
	json_array_end(&j);
	json_object_end(&j);
	json_array(&j, "scopeLogs");
	json_object(&j, NULL);
	json_object(&j, "scope");
	json_text(&j, "name", "eclusa.audit");
	json_text(&j, "version", ECLUSA_VERSION);
	json_object_end(&j);
	json_array(&j, "logRecords");
}

static void end(const struct sink *s, struct buf *to)
{
	(void)s;
	(void)buf_append(to, SLICE("]}]}]}")); /* errors are sticky in the buf */
}

/** @return 0, or the failure of otlp_value_write(). */
static int write_record(const struct sink_line *line, struct buf *to)
{
	const struct facts *f = &line->facts;
	const struct severity *severity =
		&severities[f->severity < array_size(severities) ? f->severity : 0];
	struct json j;
	json_open(&j, to); /* errors are sticky in the buf */
	json_object(&j, NULL);
	json_format(&j, "timeUnixNano", "%llu", (unsigned long long)(f->time_ms * NS_PER_MS));
	json_format(
		&j, "observedTimeUnixNano", "%llu", (unsigned long long)(f->time_ms * NS_PER_MS));
	if (severity->text != NULL) {
		json_uint(&j, "severityNumber", severity->number);
		json_text(&j, "severityText", severity->text);
	}
	json_array(&j, "attributes");
	(void)buf_append(to, SLICE("{\"key\":\"log.record.uid\",\"value\":{\"stringValue\":\""));
	(void)buf_append(to, f->uid); /* as it stands in the line, escapes included */
	(void)buf_append(to, SLICE("\"}}"));
	json_array_end(&j);
	(void)buf_append(to, SLICE(",\"body\":"));
	int result = otlp_value_write(line->text, to);
	json_object_end(&j);
	return result;
}

static bool add(const struct sink *s, struct sink_line *line, bool first, struct buf *to)
{
	(void)s;
	size_t before = buf_len(to);
	if (!first)
		(void)buf_append(to, SLICE(",")); /* errors are sticky in the buf */
	if (write_record(line, to) != -EBADMSG)
		return true;
	buf_drop_end(to, buf_len(to) - before);
	sink_poison(line, "no JSON of at most %d levels", OTLP_DEPTH_MAX);
	return false;
}

/** Which events were rejected is not said, and none may be sent again: all of them are kept aside. */
static enum verdict judge_success(const struct http_answer *answer, const struct parcel *parcel)
{
	struct answer_otlp said;
	if (answer_otlp(answer->body, &said) < 0)
		return VERDICT_SETTINGS;
	for (size_t i = 0; said.rejected > 0 && i < parcel->count; i++)
		sink_poison(parcel->lines[i], "%llu of %zu rejected: %s",
			(unsigned long long)said.rejected, parcel->count, said.message);
	return said.rejected > 0 ? VERDICT_SORTED : VERDICT_TAKEN;
}

static enum verdict judge(struct sink *s, const struct http_answer *answer,
	const struct parcel *parcel, char why[static SINK_WHY_BYTES])
{
	(void)s;
	(void)why;
	switch (answer->status) {
	case 429:
	case 502:
	case 503:
	case 504:
		return VERDICT_LATER;
	default:
		break;
	}
	enum verdict verdict = verdict_of_status(answer->status);
	if (verdict == VERDICT_TAKEN)
		return judge_success(answer, parcel);
	return verdict == VERDICT_LATER ? VERDICT_REFUSED : verdict;
}

static const struct envelope envelope = {
	.content_type = "application/json",
	.scheme = "",
	.credentials = "authorization",
	.begin = begin,
	.add = add,
	.end = end,
	.judge = judge,
};

static int open_sink(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	return http_sink_open(c, &envelope, SUFFIX, ret, why);
}

const struct sink_kind sink_otlp = {
	.name = "otlp",
	.text = "OpenTelemetry logs over HTTP in JSON",
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
