/*
 * Splunk's HTTP Event Collector. "Success" says that a request was parsed, not that it was indexed: with acknowledgements, which are
 * on unless the configuration says otherwise, each request has a number under a channel of ours, and events count as delivered when
 * the receiver says so of the number. What is not acknowledged in time is given again, under another channel, since a receiver that
 * was restarted counts anew.
 */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "export/answer.h"
#include "export/http_sink.h"
#include "export/kinds.h"

#include <poll.h>
#include <stdio.h>

#define HEC_WINDOW   8
#define SUFFIX_EVENT "/services/collector/event"
#define SUFFIX_ACK   "/services/collector/ack"

static const struct sink_setting settings[] = {
	HTTP_SINK_SETTINGS,
	{.name = "token", .type = SETTING_SECRET, .required = true},
	{.name = "acknowledge", .type = SETTING_FLAG, .otherwise = "yes"},
	{.name = "acknowledge-within",
		.type = SETTING_DURATION,
		.otherwise = "5m",
		.least = 1000,
		.most = 3600000},
	{.name = "acknowledge-poll",
		.type = SETTING_DURATION,
		.otherwise = "2s",
		.least = 20,
		.most = 60000},
	{.name = "source", .type = SETTING_TEXT, .otherwise = "eclusa"},
	{.name = "sourcetype", .type = SETTING_TEXT, .otherwise = "eclusa:ocsf"},
	{.name = "index", .type = SETTING_TEXT},
};

/** "time" is seconds with a fraction; host as it stands in the line, escapes included. */
static bool add(const struct sink *s, struct sink_line *line, bool first, struct buf *to)
{
	const struct facts *f = &line->facts;
	const struct sink_value *index = sink_config_value(s->config, "index");
	struct json j;
	(void)first;
	json_open(&j, to); /* errors are sticky in the buf */
	json_object(&j, NULL);
	json_text(&j, "source", sink_config_value(s->config, "source")->text);
	json_text(&j, "sourcetype", sink_config_value(s->config, "sourcetype")->text);
	if (sink_value_is(index))
		json_text(&j, "index", index->text);
	if (f->time_ms != 0)
		(void)buf_printf(to, ",\"time\":%llu.%03llu", (unsigned long long)f->time_ms / 1000,
			(unsigned long long)f->time_ms % 1000);
	if (f->host.len != 0)
		(void)buf_printf(to, ",\"host\":\"%.*s\"", (int)f->host.len, f->host.ptr);
	(void)buf_append(to, SLICE(",\"event\":"));
	(void)buf_append(to, line->text);
	json_object_end(&j);
	return true;
}

/** Those that say something about an event; all others of status 400 are about token, index, channel. */
static bool code_is_event(int64_t code)
{
	return code == 5 /* no data */ || code == 6 /* invalid data format */ ||
		code == 12 /* event is missing */ || code == 13 /* event is blank */ ||
		code == 15 /* indexed fields */;
}

static enum verdict judge_success(struct sink *s, const struct answer_hec *said)
{
	bool acknowledged = s->channel[0] != '\0';
	if (said->code != 0 || (acknowledged && !said->has_ack))
		return VERDICT_SETTINGS;
	s->ack_id = said->ack_id;
	return acknowledged ? VERDICT_PARSED : VERDICT_TAKEN;
}

static enum verdict judge(struct sink *s, const struct http_answer *answer,
	const struct parcel *parcel, char why[static SINK_WHY_BYTES])
{
	(void)parcel;
	enum verdict verdict = verdict_of_status(answer->status);
	struct answer_hec said = {.code = -1};
	bool readable = answer_hec(answer->body, &said) == 0;
	if (verdict == VERDICT_TAKEN)
		verdict = judge_success(s, &said);
	else if (answer->status == 400 && readable && !code_is_event(said.code))
		return VERDICT_SETTINGS;
	if (answer->status / 100 == 2 && verdict == VERDICT_SETTINGS)
		(void)snprintf(why, SINK_WHY_BYTES, "not the answer of an event collector%s",
			s->channel[0] == '\0' ? "" : " whose token has acknowledgements enabled");
	return verdict;
}

static const struct envelope envelope = {
	.content_type = "application/json",
	.scheme = "Splunk ",
	.credentials = "token",
	.add = add,
	.judge = judge,
};

static int open_sink(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	struct sink *s;
	int result = http_sink_open(c, &envelope, SUFFIX_EVENT, &s, why);
	if (result < 0)
		return result;
	if (sink_config_value(c, "acknowledge")->number != 0)
		uuid_new(s->channel);
	result = http_sink_url(c, SUFFIX_ACK, s->ack_url);
	if (result == 0)
		result = http_sink_headers(s, why);
	if (result < 0)
		http_sink_free(s);
	else
		*ret = s;
	return result;
}

/** Headers that could be made once can be made again, unless memory ran out: then the receiver refuses the old channel's numbers. */
static void reset(struct sink *s)
{
	http_sink_reset(s);
	s->acks.count = 0;
	s->ask_ns = 0;
	if (s->channel[0] == '\0')
		return;
	uuid_new(s->channel);
	(void)http_sink_headers(s, NULL);
}

/** @return 0, negative errno with a line in @why. */
static int ask(struct sink *s, struct failure *why)
{
	uint64_t poll_ms = sink_config_value(s->config, "acknowledge-poll")->number;
	struct http_answer answer;
	char said[SINK_WHY_BYTES];
	buf_clear(&s->body);
	s->body.failed = false;
	acks_ask(&s->acks, &s->body);
	int result = s->body.failed
		? failure_set(why, -ENOMEM, "can't write a request")
		: http_post(s->http, s->ack_url, buf_slice(&s->body), &answer, why);
	if (result < 0)
		return result;
	if (answer.retry_after_ms > poll_ms)
		poll_ms = answer.retry_after_ms;
	s->ask_ns = clock_monotonic_ns() + poll_ms * NS_PER_MS;
	switch (verdict_of_status(answer.status)) {
	case VERDICT_TAKEN:
		result = acks_answer(&s->acks, answer.body);
		break;
	case VERDICT_LATER:
		break;
	case VERDICT_SORTED:
	case VERDICT_PARSED:
	case VERDICT_REFUSED:
	case VERDICT_SETTINGS:
		result = -EACCES;
		break;
	}
	return result == 0
		? 0
		: failure_set(why, result, "%s: %s", s->ack_url, verdict_say(&answer, said));
}

static void acknowledge(const struct ack *ack, struct sink_batch *const *batches, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct sink_batch *batch = batches[i];
		for (size_t n = ack->first; batch->tag == ack->tag && n < ack->end; n++) {
			if (batch->lines[n].fate == SINK_SENT)
				batch->lines[n].fate = SINK_DELIVERED;
		}
	}
}

/** Until it is time to ask; @return whether it is. */
static bool wait_to_ask(const struct sink *s, unsigned wait_ms)
{
	uint64_t now = clock_monotonic_ns();
	if (now >= s->ask_ns)
		return true;
	uint64_t pause_ms = (s->ask_ns - now) / NS_PER_MS + 1;
	bool reached = pause_ms <= wait_ms;
	(void)poll(
		NULL, 0, (int)(reached ? pause_ms : wait_ms)); /* an interruption ends it early */
	return reached && clock_monotonic_ns() >= s->ask_ns;
}

static int settle(struct sink *s, struct sink_batch *const *batches, size_t count, unsigned wait_ms,
	struct failure *why)
{
	if (s->acks.count == 0 || !wait_to_ask(s, wait_ms))
		return 0;
	int result = ask(s, why);
	if (result < 0)
		return result;
	struct ack ack;
	while (acks_take(&s->acks, &ack))
		acknowledge(&ack, batches, count);
	uint64_t within_ms = sink_config_value(s->config, "acknowledge-within")->number;
	if (s->acks.count > 0 &&
		clock_monotonic_ns() - s->acks.waiting[0].sent_ns > within_ms * NS_PER_MS)
		return failure_set(why, -ETIMEDOUT, "%s: no acknowledgement within %llu s",
			s->ack_url, (unsigned long long)within_ms / 1000);
	return 0;
}

const struct sink_kind sink_splunk_hec = {
	.name = "splunk-hec",
	.text = "Splunk's HTTP Event Collector, with acknowledgements",
	.settings = settings,
	.setting_count = array_size(settings),
	.needs = HTTP_SINK_NEEDS,
	.formats = HTTP_SINK_JSON_FORMATS,
	.format = AUDIT_FORMAT_OCSF,
	.window = HEC_WINDOW,
	.batch_lines = HTTP_SINK_BATCH_LINES,
	.batch_bytes = HTTP_SINK_BATCH_BYTES,
	.check = http_sink_check,
	.open = open_sink,
	.deliver = http_sink_deliver,
	.settle = settle,
	.reset = reset,
	.free = http_sink_free,
};
