/*
 * What a service writes into the log itself, beside the recorder: starts and ends of sandboxes; and what it reads of it, the lines of one
 * sandbox. While the log is on its way into another file nothing is written here: events wait. See serve_state.h.
 */
#include "proxy/serve_state.h"

#include "audit/reader.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/** One more file, which is written from now on. */
static int file_begin(struct serve *s)
{
	struct serve_file *f = calloc(1, sizeof(*f));
	struct audit_segment *writer = NULL;
	if (f == NULL)
		return -ENOMEM;
	f->fd = fcntl(s->alone->segment_fd, F_DUPFD_CLOEXEC, 0);
	int r = f->fd < 0 ? -errno : audit_segment_attach(f->fd, NULL, &writer, NULL);
	if (r < 0) {
		fd_close(&f->fd);
		free(f);
		return r;
	}
	if (s->file != NULL)
		s->file->next = f;
	else
		s->first = f;
	s->file = f;
	s->files++;
	audit_segment_free(s->writer);
	s->writer = writer;
	return 0;
}

/** Files that no lease needs any more, and those that are too many. */
static void files_sweep(struct serve *s)
{
	while (s->first != s->file && s->first->uses == 0) {
		struct serve_file *f = s->first;
		s->first = f->next;
		s->files--;
		fd_close(&f->fd);
		free(f);
	}
	unsigned more = s->files > SERVE_FILES_MAX ? s->files - SERVE_FILES_MAX : 0;
	for (struct serve_file *f = s->first; f != NULL && more > 0; f = f->next, more--)
		fd_close(&f->fd);
}

int serve_log_open(struct serve *s, struct failure *why)
{
	int r = file_begin(s);
	return r < 0 ? failure_errno(why, r, "the audit log can't be written") : 0;
}

void serve_log_close(struct serve *s)
{
	while (s->queue != NULL) {
		struct serve_line *line = s->queue;
		s->queue = line->next;
		free(line);
	}
	audit_segment_free(ptr_take(s->writer));
	while (s->first != NULL) {
		struct serve_file *f = s->first;
		s->first = f->next;
		fd_close(&f->fd);
		free(f);
	}
	s->file = NULL;
}

void serve_log_mark(struct serve_lease *l)
{
	struct stat st;
	l->file = l->serve->file;
	l->file->uses++;
	l->from = fstat(l->file->fd, &st) < 0 ? 0 : st.st_size;
}

void serve_log_leave(struct serve_lease *l)
{
	if (l->file == NULL)
		return;
	l->file->uses--;
	l->file = NULL;
	files_sweep(l->serve);
}

static void log_write(struct serve_lease *l, const struct service_event *event)
{
	struct serve *s = l->serve;
	struct serve_words words;
	struct audit_event e;
	char uid[UUID_TEXT_BYTES];
	int r = serve_event_read(event, &words, &e);
	if (r == 0) {
		e.uid = uuid_new(uid);
		e.sandbox_id = l->id;
		e.profile = l->profile;
		e.policy_version = l->policy;
		if (e.reason == REASON_SANDBOX_START) {
			e.pid = l->pid;
			e.policy_signer = s->alone->policy.bundle.signer.key_id;
			e.has_user = true;
			e.user_uid = l->uid;
			e.user_name = l->uid == 0 ? "root" : NULL;
			l->start_ms = e.start_ms;
		}
		r = audit_segment_append_event(s->writer, &e);
	}
	if (r < 0 && l->log_error == 0)
		l->log_error = r;
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "not-recorded", "sandbox=%s error=%s", l->id,
			strerror(-r));
}

void serve_log_event(struct serve_lease *l, const struct service_event *event)
{
	struct serve *s = l->serve;
	if (s->alone->next_fd < 0 && s->queue == NULL) {
		log_write(l, event);
		return;
	}
	struct serve_line *line = calloc(1, sizeof(*line)), **at = &s->queue;
	if (line == NULL) {
		l->log_error = -ENOMEM;
		return;
	}
	line->lease = l;
	line->event = *event;
	l->queued++;
	while (*at != NULL)
		at = &(*at)->next;
	*at = line;
}

void serve_log_end(struct serve_lease *l, const char *verdict, const char *detail)
{
	struct service_event e = {.class = AUDIT_PROCESS,
		.activity = 2, /* OCSF: Terminate */
		.reason = REASON_SANDBOX_EXIT,
		.exit_code = -1,
		.start_ms = l->start_ms,
		.end_ms = clock_wall_ms()};
	if (!l->begun || l->ended)
		return;
	l->ended = true;
	e.wall_ms = e.end_ms > l->start_ms ? e.end_ms - l->start_ms : 0;
	(void)slice_copy(slice_of(verdict), e.verdict, sizeof(e.verdict)); /* ours: it fits */
	(void)slice_copy(slice_of(detail), e.detail, sizeof(e.detail));
	serve_log_event(l, &e);
}

void serve_log_packets(struct serve_lease *l)
{
	for (uint32_t i = 0; i < PACKET_CLASS_COUNT; i++) {
		const struct packet_words *said = packet_class_words((enum packet_class)i);
		struct service_event e = {.class = AUDIT_NETWORK,
			.activity = 5, /* OCSF: Refuse */
			.reason = said->reason,
			.start_ms = l->start_ms,
			.end_ms = clock_wall_ms(),
			.count = l->counters.packets[i]};
		if (e.count == 0)
			continue;
		(void)slice_copy(SLICE("packet"), e.door, sizeof(e.door)); /* ours: they fit */
		(void)slice_copy(slice_of(packet_class_name((enum packet_class)i)), e.address_class,
			sizeof(e.address_class));
		(void)slice_copy(slice_of(said->words), e.subject, sizeof(e.subject));
		if (said->detail != NULL)
			(void)slice_copy(slice_of(said->detail), e.detail, sizeof(e.detail));
		serve_log_event(l, &e);
	}
}

/** The file is settled, whichever it is: what waited is written. */
static void queue_flush(struct serve *s)
{
	struct serve_line *line = s->queue;
	s->queue = NULL;
	while (line != NULL) {
		struct serve_line *next = line->next;
		log_write(line->lease, &line->event);
		line->lease->queued--;
		free(line);
		line = next;
	}
}

void serve_end_log(struct serve *s)
{
	if (s == NULL)
		return;
	queue_flush(s);
	for (struct serve_lease *l = s->leases; l != NULL; l = l->next)
		serve_lease_end(l);
}

void serve_file_taken(struct serve *s)
{
	if (s == NULL)
		return;
	int r = file_begin(s);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "log-not-followed", "error=%s", strerror(-r));
	files_sweep(s);
	queue_flush(s);
	for (struct serve_lease *l = s->leases; l != NULL; l = l->next)
		serve_lease_go_on(l);
}

static int line_take(void *arg, const struct audit_line *line)
{
	struct serve_lease *l = arg;
	struct slice bytes = audit_line_bytes(line);
	if (!slice_equal(audit_line_text(line, "container.uid"), slice_of(l->id)))
		return 0; /* another sandbox's words, in which this one's name stands */
	if (l->lines_bytes + bytes.len + 1 > SERVICE_LINES_BYTES)
		return -EFBIG;
	int r = file_write_all(l->lines_fd, bytes);
	if (r == 0)
		r = file_write_all(l->lines_fd, SLICE("\n"));
	l->lines_bytes += bytes.len + 1;
	return r;
}

/** Whole lines of @text. @return how many bytes they are, or negative errno. */
static ssize_t lines_take(struct serve_lease *l, struct slice text)
{
	struct audit_read read = {.visit = line_take, .arg = l};
	struct slice rest = text, line;
	while (slice_split(rest, '\n', &line, &rest)) {
		if (memmem(line.ptr, line.len, l->id, strlen(l->id)) == NULL)
			continue;
		int r = audit_read_line(&read, line);
		if (r < 0)
			return r;
	}
	return (ssize_t)(text.len - rest.len);
}

int serve_log_read(struct serve_lease *l)
{
	if (l->reading->fd < 0)
		return -EFBIG; /* so much has happened since that it is not kept open */
	auto_free char *text = malloc(SERVE_READ_BYTES);
	if (text == NULL)
		return -ENOMEM;
	ssize_t got = pread(l->reading->fd, text, SERVE_READ_BYTES, l->at);
	if (got < 0)
		return -errno;
	ssize_t taken = lines_take(l, (struct slice){text, (size_t)got});
	if (taken < 0)
		return (int)taken;
	l->at += taken;
	if (taken > 0)
		return 1;
	l->at = 0;
	l->reading = l->reading->next;
	return l->reading != NULL;
}
