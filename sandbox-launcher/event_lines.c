/* See event_lines.h. */
#include "sandbox-launcher/event_lines.h"

#include "audit/reader.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>

#define LINES_WAITING_MAX ((size_t)1 << 20)
#define LOG_LINE_MAX      ((size_t)1 << 20)
#define READ_BYTES        16384

static const char *const STREAM_NAMES[] = {"stdout", "stderr"};

static void begin(struct event_lines *e, struct json *j, const char *event)
{
	json_open(j, &e->sink.kept);
	json_object(j, NULL);
	json_text(j, "event", event);
}

static void end(struct event_lines *e, struct json *j)
{
	json_object_end(j);
	(void)buf_append(&e->sink.kept, SLICE("\n")); /* errors are sticky */
}

int event_lines_open(
	struct event_lines *e, const struct spec *spec, const struct result *result, int segment)
{
	struct json j;
	char path[32];
	*e = (struct event_lines){
		.spec = spec, .result = result, .segment = segment, .changes = -1};
	stream_init(&e->sink, -1, STDOUT_FILENO, 8 * LINES_WAITING_MAX);
	buf_init(&e->line, LOG_LINE_MAX + READ_BYTES);
	begin(e, &j, "start");
	json_text(&j, "id", result->id);
	end(e, &j);
	if (segment < 0)
		return 0;
	e->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", segment);
	return e->changes < 0 || inotify_add_watch(e->changes, path, IN_MODIFY) < 0 ? -errno : 0;
}

void event_lines_fini(struct event_lines *e)
{
	fd_close(&e->changes);
	stream_fini(&e->sink);
	buf_fini(&e->line);
}

bool event_lines_have_room(const struct event_lines *e)
{
	return buf_len(&e->sink.kept) < LINES_WAITING_MAX;
}

void event_lines_take(struct event_lines *e, int which, struct stream *from)
{
	struct json j;
	struct slice text = stream_text(from);
	if (text.len == 0)
		return;
	begin(e, &j, STREAM_NAMES[which]);
	(void)result_json_bytes(&j, "data", "base64", text); /* errors are sticky */
	end(e, &j);
	buf_consume(&from->kept, text.len);
}

void event_lines_violations(struct event_lines *e)
{
	struct json j;
	for (; e->violations < e->result->violations.count; e->violations++) {
		begin(e, &j, "denial");
		violation_members(&e->result->violations.items[e->violations], &j);
		end(e, &j);
	}
}

static int tell_line(void *arg, const struct audit_line *line)
{
	struct event_lines *e = arg;
	struct json j;
	struct audit_denial d;
	bool failed;
	if (!audit_summary_denial(line, e->result->id, &d, &failed))
		return 0;
	unsigned *told = failed ? &e->failures : &e->denials;
	if (*told == EVENT_LINES_DENIALS_MAX)
		return 0;
	++*told;
	begin(e, &j, failed ? "failure" : "denial");
	result_denial_members(&d, e->result, e->spec, &j);
	end(e, &j);
	return 0;
}

/* @return whether there was anything. */
static bool read_more(struct event_lines *e)
{
	char chunk[READ_BYTES];
	ssize_t got = pread(e->segment, chunk, sizeof(chunk), (off_t)e->read_to);
	if (got <= 0 || buf_append(&e->line, (struct slice){chunk, (size_t)got}) < 0)
		return false;
	e->read_to += (uint64_t)got;
	struct audit_read read = {.visit = tell_line, .arg = e};
	struct slice rest = buf_slice(&e->line), line;
	while (slice_split(rest, '\n', &line, &rest))
		(void)audit_read_line(&read, line); /* what is no event is skipped */
	buf_consume(&e->line, buf_len(&e->line) - rest.len);
	return true;
}

void event_lines_follow(struct event_lines *e)
{
	char changed[sizeof(struct inotify_event) + NAME_MAX + 1];
	while (e->changes >= 0 && read(e->changes, changed, sizeof(changed)) > 0)
		;
	while (e->segment >= 0 && read_more(e))
		;
}

int event_lines_flush(struct event_lines *e)
{
	if (e->sink.write_error != 0)
		return -e->sink.write_error;
	int r = e->sink.kept.failed ? -ENOBUFS
				    : file_write_all(STDOUT_FILENO, buf_slice(&e->sink.kept));
	buf_clear(&e->sink.kept);
	return r;
}
