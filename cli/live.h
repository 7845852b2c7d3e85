/*
 * What is going on now, as the audit folder tells it: the sandboxes whose files are being written, with what their events add up
 * to, and the decisions that stand open in their rings. Only reads, and holds nothing that a writer waits for. What peers
 * wrote is kept as escaped ASCII.
 */
#ifndef ECLUSA_CLI_LIVE_H
#define ECLUSA_CLI_LIVE_H

#include "common/failure.h"
#include "common/slice.h"

#include <sys/types.h>

#define LIVE_FILES_MAX     1024 /* files and sandboxes that are looked at; others are counted */
#define LIVE_TEXT_BYTES    96
#define LIVE_NAME_BYTES    256
#define LIVE_TURN_BYTES    ((off_t)16 << 20) /* of one file that are read at once */
#define LIVE_SINKS_MAX     64
#define LIVE_METRICS_BYTES ((size_t)256 << 10)

enum live_count {
	LIVE_ALLOWED,
	LIVE_DENIED,
	LIVE_FAILED,
	LIVE_WOULD, /* of the allowed, by observe mode alone */
	LIVE_OUT,   /* bytes */
	LIVE_IN,
	LIVE_COUNTS
};

struct live_sandbox {
	char id[LIVE_TEXT_BYTES];
	char profile[LIVE_TEXT_BYTES];
	char denied[2 * LIVE_TEXT_BYTES]; /* the last denial: reason and host */
	char file[LIVE_NAME_BYTES];       /* where its last event stands */
	uint64_t began_ms;
	uint64_t counts[LIVE_COUNTS]; /* of the files that are being written */
	uint64_t before[LIVE_COUNTS]; /* at the last look */
	uint64_t rates[LIVE_COUNTS];  /* a second, in thousandths */
	uint64_t open;                /* decisions without an end yet */
	uint64_t waiting_bytes;       /* in its rings */
	bool stalled;                 /* the log can't be written */
};

/** A sink of eclusa-export, as its state folder tells. */
struct live_sink {
	char name[LIVE_TEXT_BYTES], kind[LIVE_TEXT_BYTES], state[LIVE_TEXT_BYTES];
	char failure[2 * LIVE_TEXT_BYTES];
	uint64_t lag_bytes, lag_events, lag_seconds, delivered, quarantined, lost;
};

struct live;

/** @folder_fd is borrowed. NULL: out of memory. */
struct live *live_new(int folder_fd);
void live_free(struct live *l);
/** Look again. @return 0 or negative errno. */
int live_look(struct live *l);
/** How much is not read yet: a folder's first look may take several. */
bool live_is_behind(const struct live *l);
/** Live ones; the pointer lives until the next look. */
const struct live_sandbox *live_sandboxes(const struct live *l, size_t *ret_count);
/** Files that found no room. */
uint64_t live_left_out(const struct live *l);

/** @state the state folder of eclusa-export. @return how many sinks, or negative errno with a line in @why. */
int live_read_sinks(
	const char *state, struct live_sink ret[static LIVE_SINKS_MAX], struct failure *why);

#endif
