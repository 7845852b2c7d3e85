/* See quarantine.h. */
#include "export/quarantine.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/json.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/** The file that a line came from. */
static const struct cursor_segment *segment_of(const struct batch *b)
{
	return b->part_count == 1 ? b->parts[0].segment : NULL;
}

static void write_line(const struct batch *b, const struct sink_line *line, struct buf *to)
{
	struct json j;
	json_open(&j, to);
	json_object(&j, NULL);
	json_uint(&j, "time", clock_wall_ms());
	json_text(&j, "why", line->why);
	if (segment_of(b) != NULL)
		json_text(&j, "file", segment_of(b)->name);
	json_slice(&j, "line", line->bytes);
	json_object_end(&j);
	(void)buf_append(to, SLICE("\n")); /* errors show in to->failed */
}

int quarantine_write(int state_fd, const char *sink, const struct batch *b, struct failure *why)
{
	char file[FOLDER_NAME_BYTES];
	struct stat st = {.st_size = 0};
	struct buf text = {.limit = 8 * BUF_LIMIT_DEFAULT};
	int count = 0;
	for (size_t i = 0; i < b->sink.count; i++) {
		if (b->sink.lines[i].fate == SINK_POISON) {
			write_line(b, &b->sink.lines[i], &text);
			count++;
		}
	}
	if (count == 0)
		return 0;
	(void)snprintf(
		file, sizeof(file), "%s.quarantine.jsonl", sink); /* a sink's name is short */
	int r = text.failed ? -ENOMEM : 0;
	auto_fd fd = openat(
		state_fd, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r == 0 && (fd < 0 || fstat(fd, &st) < 0))
		r = -errno;
	if (r == 0 && st.st_size + (off_t)buf_len(&text) > QUARANTINE_BYTES_MAX)
		r = -EDQUOT;
	if (r == 0)
		r = file_write_all(fd, buf_slice(&text));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	buf_fini(&text);
	if (r == -EDQUOT)
		return failure_set(why, r,
			"%s in the state folder is full: look at it, and move it away", file);
	return r < 0 ? failure_errno(why, r, "%s in the state folder", file) : count;
}
