/* See metrics.h. A row a family: which number of a gauge it shows. */
#include "export/metrics.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exposition.h"

enum scale {
	SCALE_NUMBER,
	SCALE_TIME /* ms since 1970, shown as seconds */,
	SCALE_SINCE /* likewise, how long ago */
};

struct family {
	const char *name;
	const char *help;
	enum exposition_kind kind;
	enum scale scale;
	size_t offset; /* of an _Atomic(uint64_t) in struct gauge */
};

static const struct family families[] = {
	{"eclusa_export_delivered_total", "Events that receivers have.", EXPOSITION_COUNTER,
		SCALE_NUMBER, offsetof(struct gauge, delivered)},
	{"eclusa_export_quarantined_total", "Events that receivers will never take.",
		EXPOSITION_COUNTER, SCALE_NUMBER, offsetof(struct gauge, quarantined)},
	{"eclusa_export_lost_total", "Events that were gone before they were delivered.",
		EXPOSITION_COUNTER, SCALE_NUMBER, offsetof(struct gauge, lost)},
	{"eclusa_export_batches_total", "Batches that were given to receivers.", EXPOSITION_COUNTER,
		SCALE_NUMBER, offsetof(struct gauge, batches)},
	{"eclusa_export_retries_total", "Tries that failed.", EXPOSITION_COUNTER, SCALE_NUMBER,
		offsetof(struct gauge, retries)},
	{"eclusa_export_resent_total", "Events that were given once more.", EXPOSITION_COUNTER,
		SCALE_NUMBER, offsetof(struct gauge, resent)},
	{"eclusa_export_restarts_total", "Starts of a sink's process after its first one.",
		EXPOSITION_COUNTER, SCALE_NUMBER, offsetof(struct gauge, restarts)},
	{"eclusa_export_lag_bytes", "Bytes of the log that are not delivered.", EXPOSITION_GAUGE,
		SCALE_NUMBER, offsetof(struct gauge, lag_bytes)},
	{"eclusa_export_lag_events", "Events that are not delivered.", EXPOSITION_GAUGE,
		SCALE_NUMBER, offsetof(struct gauge, lag_events)},
	{"eclusa_export_lag_seconds", "Age of the oldest event that is not delivered; 0: none.",
		EXPOSITION_GAUGE, SCALE_SINCE, offsetof(struct gauge, oldest_ms)},
	{"eclusa_export_delivered_timestamp_seconds", "When an event was delivered last; 0: never.",
		EXPOSITION_GAUGE, SCALE_TIME, offsetof(struct gauge, delivered_ms)},
	{"eclusa_export_failed_timestamp_seconds", "When a try failed last; 0: never.",
		EXPOSITION_GAUGE, SCALE_TIME, offsetof(struct gauge, failed_ms)},
};

static const struct {
	enum gauge_state state;
	const char *name;
} states[] = {{GAUGE_STARTING, "starting"}, {GAUGE_IDLE, "idle"}, {GAUGE_SENDING, "sending"},
	{GAUGE_RETRYING, "retrying"}, {GAUGE_OPEN, "open"}};

_Static_assert(array_size(states) == GAUGE_STATE_COUNT, "a sample for every state");

static uint64_t number_at(const struct gauge *g, size_t offset)
{
	return *(const _Atomic(uint64_t) *)((const char *)g + offset);
}

static void write_sample(
	const struct family *f, const struct gauge *g, const struct sink_config *c, struct buf *to)
{
	const struct exposition_label labels[EXPOSITION_LABELS_MAX] = {
		{"sink", c->name}, {"kind", c->kind->name}};
	uint64_t value = number_at(g, f->offset), now = clock_wall_ms();
	switch (f->scale) {
	case SCALE_NUMBER:
		exposition_sample(to, f->name, labels, value);
		return;
	case SCALE_TIME:
		exposition_thousandths(to, f->name, labels, value);
		return;
	case SCALE_SINCE:
		exposition_thousandths(
			to, f->name, labels, value == 0 || value > now ? 0 : now - value);
		return;
	}
}

/** One of each sink's is 1. */
static void write_states(
	const struct gauge *gauges, const struct export_config *config, struct buf *to)
{
	static const char name[] = "eclusa_export_state";
	exposition_family(to, name, EXPOSITION_GAUGE,
		"1 for the state that a sink is in; open: so many tries failed that few are made.");
	for (size_t i = 0; i < config->sink_count; i++) {
		enum gauge_state now = gauges[i].state;
		for (size_t k = 0; k < array_size(states); k++) {
			const struct exposition_label labels[EXPOSITION_LABELS_MAX] = {
				{"sink", config->sinks[i].name}, {"state", states[k].name}};
			exposition_sample(to, name, labels, states[k].state == now);
		}
	}
}

void export_metrics_write(
	const struct gauge *gauges, const struct export_config *config, struct buf *to)
{
	for (size_t f = 0; f < array_size(families); f++) {
		exposition_family(to, families[f].name, families[f].kind, families[f].help);
		for (size_t i = 0; i < config->sink_count; i++)
			write_sample(&families[f], &gauges[i], &config->sinks[i], to);
	}
	write_states(gauges, config, to);
}
