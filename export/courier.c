/* See courier.h. One loop: look, read, deliver one batch, settle, retire, save, wait. */
#include "export/courier.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "export/feed.h"
#include "export/quarantine.h"

#include <inttypes.h>
#include <poll.h>

#define LOOK_NS          NS_PER_SEC        /* without a notice */
#define LOOK_SOON_NS     (10 * NS_PER_MS)  /* between two looks, at least */
#define SAVE_NS          (200 * NS_PER_MS) /* from an acknowledgement to the cursor on the disk */
#define SETTLE_MS        20 /* wait for news of the receiver while nothing else is to do */
#define CIRCUIT_FAILURES 5  /* in a row: then pauses are as long as they get */
#define SHIFT_MAX        20

struct courier {
	const struct courier_setup *setup;
	const struct sink_kind *kind;
	struct cursor cursor;
	struct feed *feed;
	struct batch *queue[COURIER_WINDOW_MAX]; /* oldest first */
	size_t count;
	unsigned failures; /* in a row */
	uint64_t retry_ns; /* not before */
	uint64_t looked_ns, saved_ns;
	bool noticed; /* something happened in the folder since the last look */
	bool unread;  /* there was something to read */
	bool dirty;   /* the cursor moved since it was saved */
	bool stop;
};

static size_t window(const struct courier *c)
{
	size_t most = c->kind->settle == NULL || c->kind->window == 0 ? 1 : c->kind->window;
	return most < COURIER_WINDOW_MAX ? most : COURIER_WINDOW_MAX;
}

/** Full jitter: anything from nothing to a span that doubles with each failure. */
static uint64_t backoff_ns(const struct courier *c)
{
	uint64_t random, most = c->setup->config->retry_most_ms, span = most;
	unsigned shift = c->failures > 0 ? c->failures - 1 : 0;
	if (c->failures < CIRCUIT_FAILURES && shift < SHIFT_MAX)
		span = (uint64_t)c->setup->config->retry_least_ms << shift;
	span = (span < most ? span : most) * NS_PER_MS;
	random_bytes(&random, sizeof(random));
	return random % (span + 1);
}

/** The next try comes after a pause. */
static void pause_after_failure(struct courier *c, unsigned asked_ms, const char *why)
{
	struct gauge *g = c->setup->gauge;
	c->failures++;
	uint64_t pause = backoff_ns(c), asked = asked_ms * NS_PER_MS;
	c->retry_ns = clock_monotonic_ns() + (asked > pause ? asked : pause);
	g->retries++;
	gauge_fail(g, why);
	/* Once when it starts, once when the circuit opens: an hour without a receiver is no hour of lines. */
	if (c->failures == 1 || c->failures == CIRCUIT_FAILURES)
		log_event(LOG_LEVEL_WARN, c->failures == 1 ? "sink-failed" : "sink-open",
			"sink=%s failures=%u why=\"%s\"", c->setup->config->name, c->failures,
			g->failure);
}

/** What is on its way is not known to have arrived. */
static void fail(struct courier *c, const struct failure *why)
{
	for (size_t i = 0; i < c->count; i++) {
		if (batch_has(c->queue[i], SINK_SENT))
			c->setup->gauge->resent += c->queue[i]->sink.count;
		batch_recall(c->queue[i]);
	}
	c->kind->reset(c->setup->sink);
	pause_after_failure(c, 0, why->text);
}

static int look(struct courier *c, struct failure *why)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t pause = c->noticed || c->unread ? LOOK_SOON_NS : LOOK_NS;
	if (c->looked_ns != 0 && now - c->looked_ns < pause)
		return 0;
	c->noticed = false;
	c->looked_ns = now;
	size_t files = c->cursor.count;
	uint64_t index = c->cursor.index_offset;
	int r = feed_look(c->feed, why);
	c->dirty = c->dirty || files != c->cursor.count || index != c->cursor.index_offset;
	if (r >= 0)
		c->unread = r == 1;
	return r < 0 ? r : 0;
}

/** Read ahead, but not while the receiver takes nothing. */
static int fill(struct courier *c, struct failure *why)
{
	while (c->count < window(c) && (c->failures == 0 || c->count == 0)) {
		struct batch *b = NULL;
		int r = feed_take(c->feed, c->setup->config, &b, why);
		if (r <= 0)
			return r;
		c->queue[c->count++] = b;
	}
	return 0;
}

/** Whether a batch is to be given now. */
static bool due(const struct courier *c)
{
	for (size_t i = 0; i < c->count; i++) {
		if (batch_has(c->queue[i], SINK_WAITING))
			return clock_monotonic_ns() >= c->retry_ns;
	}
	return false;
}

/** The oldest batch that has lines which wait. */
static void deliver(struct courier *c)
{
	struct failure why = {0};
	size_t i = 0;
	while (i < c->count && !batch_has(c->queue[i], SINK_WAITING))
		i++;
	if (i == c->count || clock_monotonic_ns() < c->retry_ns)
		return;
	struct sink_batch *b = &c->queue[i]->sink;
	b->retry_after_ms = 0;
	b->why[0] = '\0';
	c->setup->gauge->batches++;
	if (c->kind->deliver(c->setup->sink, b, &why) < 0)
		fail(c, &why);
	else if (batch_has(c->queue[i], SINK_WAITING))
		pause_after_failure(c, b->retry_after_ms,
			b->why[0] != '\0' ? b->why : "the receiver asks for lines again");
}

static void settle(struct courier *c, unsigned wait_ms)
{
	struct sink_batch *batches[COURIER_WINDOW_MAX];
	struct failure why = {0};
	size_t count = 0;
	for (size_t i = 0; i < c->count; i++) {
		if (batch_has(c->queue[i], SINK_SENT))
			batches[count++] = &c->queue[i]->sink;
	}
	if (count == 0 || c->kind->settle == NULL)
		return;
	if (c->kind->settle(c->setup->sink, batches, count, wait_ms, &why) < 0)
		fail(c, &why);
}

/** Batches that are done, oldest first. @return 0 or negative errno with a line. */
static int retire(struct courier *c, struct failure *why)
{
	struct gauge *g = c->setup->gauge;
	while (c->count > 0 && batch_is_done(c->queue[0])) {
		struct batch *b = c->queue[0];
		int poison = quarantine_write(c->setup->state_fd, c->setup->config->name, b, why);
		if (poison < 0)
			return poison;
		feed_acknowledge(c->feed, b);
		c->cursor.quarantined += (unsigned)poison;
		c->cursor.delivered += b->sink.count - (unsigned)poison;
		if (b->sink.count > (unsigned)poison) {
			g->delivered_ms = clock_wall_ms();
			if (c->failures > 0)
				log_event(LOG_LEVEL_INFO, "sink-recovered", "sink=%s failures=%u",
					c->setup->config->name, c->failures);
			c->failures = 0;
		}
		c->dirty = true;
		batch_free(b);
		c->count--;
		memmove(&c->queue[0], &c->queue[1], c->count * sizeof(struct batch *));
	}
	return 0;
}

static int save(struct courier *c, bool now, struct failure *why)
{
	uint64_t at = clock_monotonic_ns();
	if (!c->dirty || (!now && at - c->saved_ns < SAVE_NS))
		return 0;
	int r = cursor_save(&c->cursor, c->setup->state_fd, c->setup->config->name, why);
	c->saved_ns = at;
	c->dirty = r < 0;
	return r;
}

static void publish(const struct courier *c)
{
	struct gauge *g = c->setup->gauge;
	struct feed_lag lag;
	uint64_t oldest = 0;
	feed_lag(c->feed, &lag);
	for (size_t i = 0; i < c->count && oldest == 0; i++) {
		for (size_t k = 0; k < c->queue[i]->sink.count && oldest == 0; k++)
			oldest = c->queue[i]->sink.lines[k].facts.time_ms;
	}
	g->oldest_ms = oldest;
	g->lag_bytes = lag.bytes;
	g->lag_events = lag.events;
	g->delivered = c->cursor.delivered;
	g->quarantined = c->cursor.quarantined;
	g->lost = c->cursor.lost;
	g->state = c->failures >= CIRCUIT_FAILURES ? GAUGE_OPEN
		: c->failures > 0                  ? GAUGE_RETRYING
		: c->count > 0 || lag.bytes > 0    ? GAUGE_SENDING
						   : GAUGE_IDLE;
}

/** Until the folder changes, a pause is over, the cursor should be saved, or the end. */
static unsigned wait_ms(const struct courier *c)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t until = c->looked_ns + (c->noticed || c->unread ? LOOK_SOON_NS : LOOK_NS);
	if (c->count > 0 && c->failures > 0 && c->retry_ns < until)
		until = c->retry_ns;
	if (c->dirty && c->saved_ns + SAVE_NS < until)
		until = c->saved_ns + SAVE_NS;
	return until <= now ? 0 : (unsigned)((until - now + NS_PER_MS - 1) / NS_PER_MS);
}

static void await(struct courier *c, unsigned ms)
{
	char notices[4096];
	struct pollfd fds[] = {
		{.fd = c->setup->channel}, {.fd = c->setup->notify_fd, .events = POLLIN}};
	/* What was noticed waits for the next look: no need to be woken by more of it. */
	if (c->noticed)
		fds[1].fd = -1;
	if (poll(fds, array_size(fds), (int)ms) <= 0)
		return;
	c->stop = c->stop || (fds[0].revents & (POLLHUP | POLLERR)) != 0;
	if ((fds[1].revents & POLLIN) == 0)
		return;
	c->noticed = true;
	while (read(c->setup->notify_fd, notices, sizeof(notices)) > 0)
		continue; /* that something happened is all that counts */
}

/** @return 1: the end; 0; negative errno with a line. */
static int step(struct courier *c, struct failure *why)
{
	int r = look(c, why);
	if (r == 0)
		r = fill(c, why);
	if (r < 0)
		return r;
	deliver(c);
	bool more = due(c) || (c->count < window(c) && c->failures == 0 && c->unread);
	settle(c, more ? 0 : SETTLE_MS);
	size_t before = c->count;
	r = retire(c, why);
	if (r == 0)
		r = save(c, false, why);
	if (r < 0)
		return r;
	publish(c);
	if (c->setup->once && c->count == 0 && before == 0 && !c->unread)
		return 1;
	bool sent = false;
	for (size_t i = 0; i < c->count && !sent; i++)
		sent = batch_has(c->queue[i], SINK_SENT);
	await(c, due(c) || sent || before != c->count ? 0 : wait_ms(c));
	return c->stop;
}

static void courier_end(struct courier *c)
{
	for (size_t i = 0; i < c->count; i++)
		batch_free(c->queue[i]);
	feed_free(c->feed);
	cursor_fini(&c->cursor);
}

int courier_run(const struct courier_setup *setup, struct failure *why)
{
	struct courier *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return failure_errno(why, -ENOMEM, "sink %s", setup->config->name);
	c->setup = setup;
	c->kind = setup->config->kind;
	int r = cursor_load(setup->state_fd, setup->config->name, &c->cursor, why);
	if (r == 0)
		r = feed_open(setup->channel, &c->cursor, &c->feed, why);
	while (r == 0)
		r = step(c, why);
	/* Whoever hands out files ends by closing the channel. */
	bool ended = r > 0 || r == -EPIPE || r == -ECONNRESET;
	if (ended)
		r = save(c, true, why);
	courier_end(c);
	free(c);
	return r;
}
