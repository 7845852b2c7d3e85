/* What eclusa-export says about its sinks, in its state folder. See live.h. */
#include "cli/live.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <jansson.h>

#define METRICS_NAME "metrics.json" /* export/gauge.h */

static void take_text(const json_t *sink, const char *key, char *to, size_t capacity)
{
	const json_t *value = json_object_get(sink, key);
	struct slice text = {json_string_value(value), json_string_length(value)};
	(void)slice_escape(text, to, capacity);
}

static uint64_t number(const json_t *sink, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(sink, key)); /* 0: none */
	return value < 0 ? 0 : (uint64_t)value;
}

static void take_sink(const json_t *sink, struct live_sink *to)
{
	*to = (struct live_sink){.lag_bytes = number(sink, "lag_bytes"),
		.lag_events = number(sink, "lag_events"),
		.lag_seconds = number(sink, "lag_seconds"),
		.delivered = number(sink, "delivered"),
		.quarantined = number(sink, "quarantined"),
		.lost = number(sink, "lost")};
	take_text(sink, "name", to->name, sizeof(to->name));
	take_text(sink, "kind", to->kind, sizeof(to->kind));
	take_text(sink, "state", to->state, sizeof(to->state));
	take_text(sink, "failure", to->failure, sizeof(to->failure));
}

int live_read_sinks(
	const char *state, struct live_sink ret[static LIVE_SINKS_MAX], struct failure *why)
{
	struct buf text = {.limit = LIVE_METRICS_BYTES + 65536};
	auto_fd folder = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = folder < 0 ? -errno : file_read(folder, METRICS_NAME, LIVE_METRICS_BYTES, &text);
	if (r < 0) {
		buf_fini(&text);
		return failure_errno(why, r, "%s: no " METRICS_NAME " of eclusa-export", state);
	}
	json_t *all = json_loadb(buf_slice(&text).ptr, buf_len(&text), JSON_ALLOW_NUL, NULL);
	const json_t *sinks = json_object_get(all, "sinks");
	size_t count = json_array_size(sinks);
	count = count < LIVE_SINKS_MAX ? count : LIVE_SINKS_MAX;
	for (size_t i = 0; i < count; i++)
		take_sink(json_array_get(sinks, i), &ret[i]);
	r = json_is_array(sinks)
		? (int)count
		: failure_set(why, -EBADMSG, "%s: " METRICS_NAME " is none", state);
	json_decref(all);
	buf_fini(&text);
	return r;
}
