/*
 * The log of the proxy alone goes on in another file: when it has its size or its age, and on SIGHUP. This process makes the file and tells
 * the index; the recorder writes its first line. Until it says so the file before is the log. See alone_state.h.
 */
#include "proxy/alone_state.h"

#include "audit/index.h"
#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGAIN_NS (NS_PER_SEC / 4) /* names have seconds: the next one is another */

void alone_want_file(struct alone *a)
{
	a->rotate_ns = clock_monotonic_ns();
}

void alone_file_begun(struct alone *a)
{
	a->rotate_ns = clock_monotonic_ns() + a->options->segment_age_ms * NS_PER_MS;
}

/** Forget the file that was made and not gone on in. */
static void drop_next(struct alone *a)
{
	audit_segment_close(a->audit_folder, a->next_name);
	(void)unlinkat(a->audit_folder, a->next_name, 0); /* an empty one is no harm */
	fd_close(&a->next_fd);
}

static int send_file(struct alone *a)
{
	struct message_segment m = {.header = {.kind = MESSAGE_SEGMENT}};
	struct chain index;
	int r = audit_index_head(a->audit_folder, &index);
	if (r < 0)
		return r;
	m.index_last = index.sequence;
	memcpy(m.index_head, index.head, sizeof(index.head));
	(void)snprintf(m.before, sizeof(m.before), "%s", a->segment_name);
	return channel_send(a->launcher_fd, &m, sizeof(m), &a->next_fd, 1);
}

void alone_next_file(struct alone *a)
{
	struct failure why = {0};
	uint64_t now = clock_monotonic_ns();
	if (a->next_fd >= 0 || !a->is_ready || a->ending)
		return;
	alone_file_begun(
		a); /* whatever comes of it: with a file that can't be made the one before goes on */
	a->next_fd = audit_segment_create(
		a->audit_folder, a->id, a->next_name, sizeof(a->next_name), &why);
	if (a->next_fd == -EEXIST) {
		a->rotate_ns = now + AGAIN_NS;
		return;
	}
	int r = a->next_fd < 0 ? a->next_fd : send_file(a);
	if (r >= 0)
		return;
	log_event(LOG_LEVEL_ERROR, "log-not-rotated", "error=\"%s\"",
		why.code != 0 ? why.text : strerror(-r));
	if (a->next_fd >= 0)
		drop_next(a);
}

/** The last line of a file, into the index. */
static int index_put(struct alone *a, enum audit_index_kind kind, const char *name,
	const struct audit_segment *segment)
{
	const struct audit_index_entry entry = {
		.kind = kind, .segment = name, .at = audit_segment_chain(segment)};
	struct failure why = {0};
	int r = audit_index_append(a->audit_folder, &entry, &why);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "log-not-in-index", "file=%s error=\"%s\"", name,
			why.text);
	return r;
}

void alone_file_taken(struct alone *a)
{
	struct audit_segment *before = NULL, *next = NULL;
	if (a->next_fd < 0)
		return;
	int r = audit_segment_attach(a->segment_fd, NULL, &before, NULL);
	if (r == 0)
		r = audit_segment_follow(a->next_fd, before, &next, NULL);
	if (r == 0)
		r = index_put(a, AUDIT_INDEX_CLOSED, a->segment_name, before);
	if (r == 0)
		r = index_put(a, AUDIT_INDEX_OPENED, a->next_name, next);
	audit_segment_free(before);
	audit_segment_free(next);
	if (r == 0) /* else the next start does it */
		audit_segment_close(a->audit_folder, a->segment_name);
	fd_close(&a->segment_fd);
	a->segment_fd = fd_take(&a->next_fd);
	memcpy(a->segment_name, a->next_name, sizeof(a->segment_name));
	serve_file_taken(a->serve);
}

void alone_settle_file(struct alone *a)
{
	struct stat st;
	if (a->next_fd < 0)
		return;
	if (fstat(a->next_fd, &st) == 0 && st.st_size > 0)
		alone_file_taken(a); /* who wrote its first line could not say so */
	else
		drop_next(a);
}
