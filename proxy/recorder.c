/* See recorder.h. */
#include "proxy/recorder.h"

#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/spool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RETRY_MS 100  /* after a failed write */
#define IDLE_MS  1000 /* looked at again even if nobody says that there is something */

struct recorder {
	const struct recorder_context *context;
	struct spool spool;
	uint64_t
		stalled_ns; /* since when requests are denied, for the log can't be written; 0: they are not */
	int stalled_error;
	bool ended;
};

/** A change of state is an event, if it can be written, and one alarm. */
static void recorder_tell(struct recorder *r, enum reason reason, const char *detail)
{
	const struct audit_event e = {.class = AUDIT_LIFECYCLE,
		.activity = 99, /* OCSF: Other */
		.reason = reason,
		.detail = detail};
	log_event(LOG_LEVEL_ERROR,
		reason == REASON_DENY_AUDIT_FULL ? "audit-not-writable" : "audit-writable-again",
		"%s", detail);
	if (audit_segment_append_event(r->context->segment, &e) == 0)
		spool_wrote(&r->spool);
}

/** Tell workers whether they may allow, and everybody else once for each change. */
static void recorder_stall(struct recorder *r, int error)
{
	bool stalled = error < 0;
	char detail[256];
	if (stalled == (r->stalled_ns != 0))
		return;
	uint64_t now = clock_monotonic_ns();
	for (unsigned i = 0; i < r->context->ring_count; i++)
		audit_ring_set_stalled(r->context->rings[i], stalled);
	if (stalled) {
		r->stalled_error = error;
		(void)snprintf(detail, sizeof(detail),
			"the log can't be written: %s; requests are denied", strerror(-error));
	} else {
		(void)snprintf(detail, sizeof(detail),
			"the log can be written again; requests were denied for %llu ms: %s",
			(unsigned long long)((now - r->stalled_ns) / NS_PER_MS),
			strerror(-r->stalled_error));
	}
	r->stalled_ns = stalled ? now : 0;
	recorder_tell(r, stalled ? REASON_DENY_AUDIT_FULL : REASON_AUDIT_RECOVERED, detail);
}

/** Move what one ring holds. @return lines or negative errno. */
static int recorder_drain_ring(struct recorder *r, unsigned ring, bool orphaned)
{
	int lines = audit_segment_drain(r->context->segment, r->context->rings[ring], orphaned);
	if (lines > 0) {
		spool_wrote(&r->spool);
		fault_point("recorder-after-write");
	}
	return lines;
}

/** Move what all rings hold. @return lines or the first error. */
static int recorder_drain(struct recorder *r, bool orphaned)
{
	int lines = 0, error = 0;
	for (unsigned i = 0; i < r->context->ring_count; i++) {
		int moved = recorder_drain_ring(r, i, orphaned);
		if (moved < 0 && error == 0)
			error = moved;
		lines += moved > 0 ? moved : 0;
	}
	int turned = spool_turn(&r->spool);
	recorder_stall(r, error < 0 ? error : turned);
	return error < 0 ? error : lines;
}

static void recorder_answer(struct recorder *r, const struct recorder_message *asked, int result)
{
	struct recorder_message done = {.kind = RECORDER_DONE,
		.ring = asked->ring,
		.finish = asked->kind == RECORDER_FINISH,
		.result = result < 0 ? result : 0};
	if (channel_send(r->context->channel_fd, &done, sizeof(done), NULL, 0) < 0)
		r->ended = true; /* super is gone */
}

static void recorder_hear(struct recorder *r)
{
	struct recorder_message asked;
	int got = channel_receive(r->context->channel_fd, &asked, sizeof(asked), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got != (int)sizeof(asked)) {
		r->ended = true; /* super is gone; what is finished is written by the last drain */
		return;
	}
	if (asked.kind == RECORDER_ORPHAN && asked.ring < r->context->ring_count) {
		recorder_answer(r, &asked, recorder_drain_ring(r, asked.ring, true));
	} else if (asked.kind == RECORDER_FINISH) {
		int drained = recorder_drain(r, true);
		spool_finish(&r->spool);
		recorder_answer(r, &asked, drained);
		r->ended = true;
	}
}

/** Empty the wake pipe. */
static void recorder_hush(int wake_fd)
{
	char bytes[256];
	while (read(wake_fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		continue;
}

static void recorder_wait(struct recorder *r)
{
	struct pollfd wait[] = {{.fd = r->context->channel_fd, .events = POLLIN},
		{.fd = r->context->wake_fd, .events = POLLIN}};
	int limit_ms = r->stalled_ns != 0 ? RETRY_MS : IDLE_MS;
	int ready = poll(wait, 2, spool_timeout_ms(&r->spool, limit_ms));
	if (ready <= 0)
		return; /* a timeout or a signal: looked at again */
	if (wait[1].revents != 0) {
		recorder_hush(r->context->wake_fd);
		fault_point("recorder-before-write");
	}
	if (wait[0].revents != 0)
		recorder_hear(r);
}

int recorder_run(const struct recorder_context *context)
{
	struct recorder r = {.context = context,
		.spool = {.segment = context->segment,
			.segment_fd = context->segment_fd,
			.attest_fd = context->attest_fd}};
	spool_wrote(&r.spool); /* what the launcher, or a predecessor, wrote */
	for (unsigned i = 0; i < context->ring_count; i++)
		audit_ring_set_stalled(context->rings[i], false); /* a predecessor's word */
	while (!r.ended) {
		if (recorder_drain(&r, false) > 0)
			continue;
		for (unsigned i = 0; i < context->ring_count; i++)
			audit_ring_will_sleep(context->rings[i]);
		if (recorder_drain(&r, false) <= 0)
			recorder_wait(&r);
	}
	return recorder_drain(&r, false) < 0 ? 1 : 0;
}
