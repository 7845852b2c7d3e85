/* See gauge.h. */
#include "export/gauge.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <assert.h>
#include <sys/mman.h>

struct gauge *gauges_new(size_t count)
{
	void *memory = mmap(NULL, count * sizeof(struct gauge), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void gauge_fail(struct gauge *g, const char *why)
{
	(void)slice_escape(slice_of(why), g->failure, sizeof(g->failure));
	g->failed_ms = clock_wall_ms();
}

static const char *state_name(enum gauge_state state)
{
	static const char *const names[] = {
		[GAUGE_STARTING] = "starting",
		[GAUGE_IDLE] = "idle",
		[GAUGE_SENDING] = "sending",
		[GAUGE_RETRYING] = "retrying",
		[GAUGE_OPEN] = "open",
	};
	static_assert(array_size(names) == GAUGE_STATE_COUNT, "a name for every state");
	return (unsigned)state < GAUGE_STATE_COUNT ? names[state] : "unknown";
}

/** Seconds, rounded up, since the oldest line that waits was recorded. */
static uint64_t lag_seconds(const struct gauge *g, uint64_t now_ms)
{
	uint64_t oldest = g->oldest_ms;
	return oldest == 0 || oldest >= now_ms ? 0 : (now_ms - oldest + 999) / 1000;
}

static void write_gauge(
	struct json *j, const struct gauge *g, const struct sink_config *c, uint64_t now_ms)
{
	char failure[sizeof(g->failure)];
	memcpy(failure, g->failure, sizeof(failure));
	failure[sizeof(failure) - 1] = '\0'; /* it may be written just now */
	json_object(j, NULL);
	json_text(j, "name", c->name);
	json_text(j, "kind", c->kind->name);
	json_text(j, "state", state_name(g->state));
	json_uint(j, "lag_bytes", g->lag_bytes);
	json_uint(j, "lag_events", g->lag_events);
	json_uint(j, "lag_seconds", lag_seconds(g, now_ms));
	json_uint(j, "delivered", g->delivered);
	json_uint(j, "quarantined", g->quarantined);
	json_uint(j, "lost", g->lost);
	json_uint(j, "batches", g->batches);
	json_uint(j, "retries", g->retries);
	json_uint(j, "resent", g->resent);
	json_uint(j, "restarts", g->restarts);
	json_uint(j, "delivered_ms", g->delivered_ms);
	json_uint(j, "failed_ms", g->failed_ms);
	json_text(j, "failure", failure);
	json_object_end(j);
}

int gauges_write(const struct gauge *gauges, const struct export_config *config, struct buf *to)
{
	struct json j;
	uint64_t now_ms = clock_wall_ms();
	json_open(&j, to);
	json_object(&j, NULL);
	json_uint(&j, "version", 1);
	json_uint(&j, "time", now_ms);
	json_array(&j, "sinks");
	for (size_t i = 0; i < config->sink_count; i++)
		write_gauge(&j, &gauges[i], &config->sinks[i], now_ms);
	json_array_end(&j);
	json_object_end(&j);
	return buf_append(to, SLICE("\n"));
}
