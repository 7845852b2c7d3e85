/* See recorder.h. */
#include "proxy/recorder.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/clock_watch.h"
#include "proxy/spool.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BATCH_MS 10         /* after lines: more are let come, and nobody has to wake it */
#define RETRY_MS 100        /* after a failed write */
#define IDLE_MS  1000       /* looked at again even if nobody says that there is something */
#define ASK_NS   NS_PER_SEC /* another file is asked for again, as long as there is none */

struct recorder {
	const struct recorder_context *context;
	struct spool spool;
	uint64_t
		stalled_ns; /* since when requests are denied, for the log can't be written; 0: they are not */
	int stalled_error;
	struct clock_watch clock;
	struct message_segment next; /* the file to go on in, if next_fd is not -1 */
	int next_fd;
	uint64_t failed_ns;                  /* when that did not work; 0: it was not tried */
	uint64_t asked_ns;                   /* when one was asked for; 0: it was not */
	uint64_t asked[MESSAGE_WORKERS_MAX]; /* of each ring: up to where the disk was asked for */
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
	if (audit_segment_append_event(r->spool.segment, &e) == 0)
		spool_wrote(&r->spool);
}

/** Somebody set the clock: times in the log jump here, which is said. */
static void recorder_watch_clock(struct recorder *r)
{
	char detail[128];
	int64_t step_ms = clock_watch_step(&r->clock, clock_wall_ms(), clock_watch_boot_ms());
	if (step_ms == 0)
		return;
	(void)snprintf(detail, sizeof(detail), "the clock was set %s by %lld ms",
		step_ms > 0 ? "forward" : "back", (long long)(step_ms > 0 ? step_ms : -step_ms));
	const struct audit_event e = {.class = AUDIT_LIFECYCLE,
		.activity = 99, /* OCSF: Other */
		.reason = REASON_AUDIT_CLOCK,
		.detail = detail};
	log_event(LOG_LEVEL_WARN, "clock-set", "%s", detail);
	if (audit_segment_append_event(r->spool.segment, &e) == 0)
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
	int lines = audit_segment_drain(r->spool.segment, r->context->rings[ring], orphaned);
	if (lines > 0) {
		spool_wrote(&r->spool);
		fault_point("recorder-after-write");
	}
	return lines;
}

/** The disk has what was asked for: whoever waits for it goes on. */
static void recorder_release(struct recorder *r)
{
	const struct recorder_context *c = r->context;
	for (unsigned i = 0; i < c->commit_count; i++) {
		bool awaited = audit_ring_is_awaited(c->rings[i]);
		audit_ring_set_durable(c->rings[i], r->asked[i]);
		if (awaited)
			(void)eventfd_write(c->commit_fds[i], 1); /* full: it is being woken */
	}
}

/** Hear what the disk says, and ask it: at once for what some worker waits for, else from time to time. */
static void recorder_sync(struct recorder *r)
{
	const struct recorder_context *c = r->context;
	if (spool_synced(&r->spool) && r->spool.error == 0)
		recorder_release(r);
	bool awaited = false;
	for (unsigned i = 0; i < c->commit_count; i++)
		awaited = awaited || audit_ring_is_awaited(c->rings[i]);
	if (!awaited && !spool_sync_due(&r->spool))
		return;
	if (awaited)
		fault_point("recorder-before-commit");
	if (!spool_sync(&r->spool))
		return; /* it is asked already; what came since is next */
	for (unsigned i = 0; i < c->commit_count; i++)
		r->asked[i] = audit_ring_moved(c->rings[i]);
	if (spool_synced(&r->spool) && r->spool.error == 0)
		recorder_release(r); /* a disk that answers at once */
}

/** Go on in the next file, if there is one. Until that works this one does. */
static void recorder_move(struct recorder *r)
{
	const struct recorder_message taken = {.kind = RECORDER_TAKEN};
	uint64_t now = clock_monotonic_ns();
	if (r->next_fd < 0 || (r->failed_ns != 0 && now - r->failed_ns < ASK_NS))
		return;
	r->failed_ns = now;
	int error = spool_move(&r->spool, &r->next, r->next_fd);
	if (error < 0) {
		log_event(LOG_LEVEL_ERROR, "log-not-continued", "error=%s", strerror(-error));
		return;
	}
	r->next_fd = -1;
	r->asked_ns = r->failed_ns = 0;
	fault_point("recorder-moved");
	if (channel_send(r->context->channel_fd, &taken, sizeof(taken), NULL, 0) < 0)
		r->ended = true; /* super is gone */
}

/** The file has its size: super's launcher makes another one. */
static void recorder_ask(struct recorder *r)
{
	const struct recorder_message wanted = {.kind = RECORDER_WANTED};
	uint64_t now = clock_monotonic_ns();
	off_t most = r->context->segment_bytes;
	if (most == 0 || r->next_fd >= 0 || audit_segment_size(r->spool.segment) < most ||
		(r->asked_ns != 0 && now - r->asked_ns < ASK_NS))
		return;
	r->asked_ns = now;
	if (channel_send(r->context->channel_fd, &wanted, sizeof(wanted), NULL, 0) < 0)
		r->ended = true; /* super is gone */
}

/** Move what all rings hold. @return lines or the first error. */
static int recorder_drain(struct recorder *r, bool orphaned)
{
	int lines = 0, error = 0;
	recorder_move(r);
	for (unsigned i = 0; i < r->context->ring_count; i++) {
		int moved = recorder_drain_ring(r, i, orphaned);
		if (moved < 0 && error == 0)
			error = moved;
		lines += moved > 0 ? moved : 0;
	}
	recorder_sync(r);
	int turned = spool_turn(&r->spool);
	recorder_stall(r, error < 0 ? error : turned);
	recorder_ask(r);
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

/** All that workers have said by now is in the log. */
static void recorder_settle(struct recorder *r, const struct recorder_message *asked)
{
	struct recorder_message settled = {.kind = RECORDER_SETTLED};
	int drained = recorder_drain(r, false);
	settled.result = drained < 0 ? drained : 0;
	memcpy(settled.sandbox_id, asked->sandbox_id, sizeof(settled.sandbox_id));
	if (channel_send(r->context->channel_fd, &settled, sizeof(settled), NULL, 0) < 0)
		r->ended = true; /* super is gone */
}

static void recorder_hear(struct recorder *r)
{
	struct recorder_message asked;
	auto_fd fd = -1;
	size_t count = 0;
	int got = channel_receive(r->context->channel_fd, &asked, sizeof(asked), &fd, 1, &count);
	if (got == -EAGAIN)
		return;
	if (got != (int)sizeof(asked)) {
		r->ended = true; /* super is gone; what is finished is written by the last drain */
		return;
	}
	if (asked.kind == RECORDER_ORPHAN && asked.ring < r->context->ring_count) {
		recorder_answer(r, &asked, recorder_drain_ring(r, asked.ring, true));
	} else if (asked.kind == RECORDER_SETTLE) {
		recorder_settle(r, &asked);
	} else if (asked.kind == RECORDER_FINISH) {
		int drained = recorder_drain(r, true);
		spool_finish(&r->spool);
		recorder_answer(r, &asked, drained);
		r->ended = true;
	} else if (asked.kind == RECORDER_SEGMENT && r->next_fd < 0 && fd >= 0) {
		r->next = asked.segment;
		r->next.before[sizeof(r->next.before) - 1] = '\0';
		r->next.index_head[sizeof(r->next.index_head) - 1] = '\0';
		r->next_fd = fd_take(&fd);
	}
}

/** Empty the wake pipe. */
static void recorder_hush(int wake_fd)
{
	char bytes[256];
	while (read(wake_fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		continue;
}

static void recorder_wait(struct recorder *r, int limit_ms)
{
	struct pollfd wait[] = {{.fd = r->context->channel_fd, .events = POLLIN},
		{.fd = r->context->wake_fd, .events = POLLIN},
		{.fd = r->context->disk->event_fd, .events = POLLIN}};
	recorder_watch_clock(r); /* at least each second */
	int ready = poll(wait, 3, spool_timeout_ms(&r->spool, limit_ms));
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
		.next_fd = context->next_fd,
		.spool = {.segment = context->segment,
			.segment_fd = context->segment_fd,
			.disk = context->disk,
			.attest_fd = context->attest_fd}};
	if (context->next != NULL)
		r.next = *context->next;
	else
		r.next_fd = -1;
	spool_wrote(&r.spool); /* what the launcher, or a predecessor, wrote */
	for (unsigned i = 0; i < context->ring_count; i++)
		audit_ring_set_stalled(context->rings[i], false); /* a predecessor's word */
	while (!r.ended) {
		if (recorder_drain(&r, false) > 0) {
			recorder_wait(&r, BATCH_MS);
			continue;
		}
		for (unsigned i = 0; i < context->ring_count; i++)
			audit_ring_will_sleep(context->rings[i]);
		if (recorder_drain(&r, false) <= 0)
			recorder_wait(&r, r.stalled_ns != 0 ? RETRY_MS : IDLE_MS);
	}
	return recorder_drain(&r, false) < 0 ? 1 : 0;
}
