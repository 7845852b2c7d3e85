/* See spool.h. */
#include "proxy/spool.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/fault.h"
#include "proxy/attest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEST_WAIT_MS 500

void spool_wrote(struct spool *s)
{
	uint64_t now = clock_monotonic_ns();
	if (s->unsynced_ns == 0)
		s->unsynced_ns = now;
	if (s->uncovered_ns == 0)
		s->uncovered_ns = now;
}

static uint64_t last_line(const struct spool *s)
{
	return audit_segment_chain(s->segment)->sequence - 1;
}

/** A checkpoint behind the last line. Without an answer of the keeper there is none until the next is due. */
static int spool_checkpoint(struct spool *s)
{
	const struct chain *chain = audit_segment_chain(s->segment);
	struct checkpoint c = {.first = s->covered + 1, .last = last_line(s)};
	memcpy(c.chain, chain->name, sizeof(c.chain));
	memcpy(c.head, chain->head, sizeof(c.head));
	s->uncovered_ns = clock_monotonic_ns();
	int r = attest_ask(s->attest_fd, &c, ATTEST_WAIT_MS);
	if (r < 0) {
		log_event(LOG_LEVEL_WARN, "no-checkpoint", "last=%llu error=%s",
			(unsigned long long)c.last, strerror(-r));
		return 0;
	}
	const struct audit_event e = {.class = AUDIT_LIFECYCLE,
		.activity = 99, /* OCSF: Other */
		.reason = REASON_AUDIT_CHECKPOINT,
		.detail = c.key[0] == '\0' ? "there is no audit key: not signed" : NULL,
		.checkpoint = &c};
	r = audit_segment_append_event(s->segment, &e);
	if (r < 0)
		return r;
	s->covered = last_line(s);
	s->uncovered_ns = 0;
	return 0;
}

static bool checkpoint_due(const struct spool *s)
{
	if (s->attest_fd < 0 || s->uncovered_ns == 0)
		return false;
	return last_line(s) - s->covered >= CHECKPOINT_LINES ||
		clock_monotonic_ns() - s->uncovered_ns >= CHECKPOINT_SECONDS * NS_PER_SEC;
}

bool spool_sync_due(const struct spool *s)
{
	return s->unsynced_ns != 0 && !s->disk->pending &&
		clock_monotonic_ns() - s->unsynced_ns >= SPOOL_SYNC_MS * NS_PER_MS;
}

/** An answer: lines that could not be written to the disk wait again. */
static void spool_answer(struct spool *s, int error)
{
	s->error = error;
	s->answered = true;
	if (error < 0 && s->unsynced_ns == 0)
		s->unsynced_ns = clock_monotonic_ns();
}

bool spool_sync(struct spool *s)
{
	if (s->unsynced_ns == 0 || s->disk->pending)
		return false;
	s->unsynced_ns = 0;
	s->asked_ns = clock_monotonic_ns();
	int r = disk_begin(s->disk, s->segment_fd);
	if (r != 0)
		spool_answer(s, r < 0 ? r : 0);
	return true;
}

bool spool_synced(struct spool *s)
{
	int error;
	if (disk_ended(s->disk, &error))
		spool_answer(s, error);
	bool answered = s->answered;
	s->answered = false;
	return answered;
}

int spool_turn(struct spool *s)
{
	int r = checkpoint_due(s) ? spool_checkpoint(s) : 0;
	bool late =
		s->disk->pending && clock_monotonic_ns() - s->asked_ns >= SPOOL_LATE_MS * NS_PER_MS;
	int synced = late ? -ETIMEDOUT : s->error;
	int reserved = audit_segment_reserve(s->segment);
	return r < 0 ? r : synced < 0 ? synced : reserved;
}

/** All that will ever be in the file before. @begun: the next one has lines already, so that nothing may be added. */
static int spool_end_file(struct spool *s, bool begun)
{
	audit_segment_release(s->segment); /* also finds what a predecessor wrote */
	if (!begun && s->attest_fd >= 0 && last_line(s) > s->covered)
		(void)spool_checkpoint(s); /* without it the next one covers these lines, too */
	return fdatasync(s->segment_fd) < 0 ? -errno : 0;
}

/** What the first line of a file says: where it comes from. */
static int spool_begin_file(struct audit_segment *next, const struct message_segment *m)
{
	struct chain index = {.sequence = m->index_last};
	char detail[MESSAGE_TEXT_BYTES + 32];
	(void)slice_copy(slice_part(slice_of(m->index_head), 0, DIGEST_TEXT_BYTES - 1), index.head,
		sizeof(index.head)); /* it fits */
	(void)snprintf(
		detail, sizeof(detail), "goes on after %.*s", MESSAGE_TEXT_BYTES - 1, m->before);
	const struct audit_event e = {.class = AUDIT_LIFECYCLE,
		.activity = 99, /* OCSF: Other */
		.reason = REASON_AUDIT_ROTATED,
		.detail = detail,
		.index = &index};
	int r = audit_segment_reserve(next);
	return r < 0 ? r : audit_segment_append_event(next, &e);
}

int spool_move(struct spool *s, const struct message_segment *m, int fd)
{
	struct audit_segment *next = NULL;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	bool begun = st.st_size > 0;
	int r = disk_wait(s->disk);
	if (r == 0)
		r = spool_end_file(s, begun);
	if (r == 0)
		r = audit_segment_follow(fd, s->segment, &next, NULL);
	fault_point("recorder-next-file");
	if (r == 0 && !begun)
		r = spool_begin_file(next, m);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	if (r < 0) {
		audit_segment_free(next);
		return r;
	}
	audit_segment_free(s->segment);
	fd_close(&s->segment_fd);
	s->segment = next;
	s->segment_fd = fd;
	s->unsynced_ns = 0;
	spool_wrote(s);
	return 0;
}

void spool_finish(struct spool *s)
{
	if (s->attest_fd >= 0 && last_line(s) > s->covered)
		(void)spool_checkpoint(
			s); /* without it the end is not signed; it is written all the same */
	/* Handed to the disk at once, and not waited for: a run's caller is. */
	(void)sync_file_range(s->segment_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int spool_timeout_ms(const struct spool *s, int limit_ms)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t due = s->disk->pending ? s->asked_ns + SPOOL_LATE_MS * NS_PER_MS
					: s->unsynced_ns + SPOOL_SYNC_MS * NS_PER_MS;
	if (s->unsynced_ns == 0 && !s->disk->pending)
		return limit_ms;
	int left_ms = now >= due ? 0 : (int)((due - now) / NS_PER_MS) + 1;
	/* One that is late is looked at again like a failed one. */
	return left_ms == 0 && s->disk->pending ? limit_ms
		: left_ms < limit_ms            ? left_ms
						: limit_ms;
}
