/* See reader.h. */
#include "audit/reader.h"

#include "audit/event.h"
#include "audit/index.h"
#include "common/cleanup.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sys/stat.h>

#define READ_BYTES ((size_t)256 << 10) /* at a time; a line is far shorter */

#define SEGMENT_END ".jsonl"

static_assert(READ_BYTES > 2 * AUDIT_LINE_BYTES_MAX, "a whole line fits");

struct audit_line {
	struct slice bytes;
	uint64_t number;
	const char *file;
	json_t *event;
};

/** A file being read. */
struct reading {
	struct audit_read *read;
	struct audit_line line;
	bool too_long; /* inside of a line that is longer than any of ours */
};

struct slice audit_line_bytes(const struct audit_line *line)
{
	return line->bytes;
}

uint64_t audit_line_number(const struct audit_line *line)
{
	return line->number;
}

const char *audit_line_file(const struct audit_line *line)
{
	return line->file;
}

/** NULL when anything on the way is missing. */
static const json_t *member(const struct audit_line *line, const char *path)
{
	const json_t *at = line->event;
	struct slice rest = slice_of(path);
	for (bool more = true; more && at != NULL;) {
		struct slice key = rest;
		more = slice_split(rest, '.', &key, &rest);
		uint64_t index;
		if (json_is_array(at))
			at = slice_decimal(key, SIZE_MAX, false, &index) == 0
				? json_array_get(at, index)
				: NULL;
		else
			at = json_object_getn(at, key.ptr, key.len);
	}
	return at;
}

struct slice audit_line_text(const struct audit_line *line, const char *path)
{
	const json_t *value = member(line, path);
	return (struct slice){json_string_value(value), json_string_length(value)};
}

bool audit_line_find_number(const struct audit_line *line, const char *path, uint64_t *ret)
{
	const json_t *value = member(line, path);
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(value);
	return true;
}

uint64_t audit_line_number_at(const struct audit_line *line, const char *path)
{
	uint64_t value = 0;
	(void)audit_line_find_number(line, path, &value);
	return value;
}

bool audit_line_true(const struct audit_line *line, const char *path)
{
	return json_is_true(member(line, path));
}

bool audit_line_is_answer(const struct audit_line *line)
{
	enum { DNS = 4003, ALLOWED = 1 };
	return audit_line_number_at(line, "class_uid") == DNS &&
		audit_line_number_at(line, "action_id") == ALLOWED;
}

bool audit_line_counts(const struct audit_line *line)
{
	return !audit_line_true(line, "unmapped.eclusa.torn") &&
		!audit_line_true(line, "unmapped.eclusa.open");
}

/** @return an object of the caller, or NULL. jansson passes over a NUL behind a number: JSON has none anywhere. */
static json_t *parse_line(struct slice bytes)
{
	json_error_t error;
	if (slice_find(bytes, '\0') >= 0)
		return NULL;
	return json_loadb(bytes.ptr, bytes.len, JSON_ALLOW_NUL, &error);
}

static int read_line(struct reading *r, struct slice bytes)
{
	bool too_long = r->too_long;
	r->line.number++;
	r->too_long = false;
	if (bytes.len == 0 && !too_long)
		return 0;
	json_t *event = too_long ? NULL : parse_line(bytes);
	int result = 0;
	if (json_is_object(event)) {
		r->line.bytes = bytes;
		r->line.event = event;
		r->read->lines++;
		result = r->read->visit(r->read->arg, &r->line);
	} else {
		r->read->skipped++;
	}
	json_decref(event);
	return result;
}

/** Every whole line of @have; *ret_used: how many bytes they took. */
static int read_lines(struct reading *r, struct slice have, size_t *ret_used)
{
	size_t used = 0;
	int result = 0;
	while (result == 0) {
		struct slice rest = slice_part(have, used, have.len);
		ptrdiff_t end = slice_find(rest, '\n');
		if (end < 0)
			break;
		result = read_line(r, slice_part(rest, 0, (size_t)end));
		used += (size_t)end + 1;
	}
	*ret_used = used;
	return result;
}

static int read_all(struct reading *r, int fd)
{
	auto_free char *block = malloc(READ_BYTES);
	if (block == NULL)
		return -ENOMEM;
	size_t kept = 0; /* an unfinished line at the front of the block */
	for (off_t at = 0;;) {
		ssize_t got = pread(fd, block + kept, READ_BYTES - kept, at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return kept == 0 && !r->too_long
				? 0
				: read_line(r, (struct slice){block, kept});
		at += got;
		struct slice have = {block, kept + (size_t)got};
		size_t used;
		int result = read_lines(r, have, &used);
		if (result < 0)
			return result;
		if (used == 0 && have.len == READ_BYTES) {
			r->too_long = true;
			used = have.len;
		}
		kept = have.len - used;
		memmove(block, block + used, kept);
	}
}

static int read_named(struct audit_read *read, int fd, const char *name)
{
	struct reading r = {.read = read, .line = {.file = name}};
	return read_all(&r, fd);
}

int audit_read_line(struct audit_read *read, struct slice bytes)
{
	struct reading r = {.read = read, .line = {.file = ""}};
	return read_line(&r, bytes);
}

int audit_read_fd(struct audit_read *read, int segment_fd)
{
	return read_named(read, segment_fd, "");
}

static int is_segment(const struct dirent *entry)
{
	struct slice name = slice_of(entry->d_name);
	return slice_ends(name, SLICE(SEGMENT_END)) &&
		!slice_equal(name, SLICE(AUDIT_INDEX_NAME)) && name.ptr[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_beneath(struct audit_read *read, int folder_fd, const char *name)
{
	auto_fd fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd < 0 ? -errno : read_named(read, fd, name);
}

static int read_folder(
	struct audit_read *read, int folder_fd, const char *path, struct failure *why)
{
	struct dirent **entries = NULL;
	int count = scandirat(folder_fd, ".", &entries, is_segment, by_bytes);
	int result = count < 0 ? failure_errno(why, -errno, "%s", path) : 0;
	if (count == 0)
		result = failure_set(why, -ENOENT, "%s: no *%s in this folder", path, SEGMENT_END);
	for (int i = 0; i < count; i++) {
		char shown[NAME_MAX + 1];
		int here = result < 0 ? 0 : read_beneath(read, folder_fd, entries[i]->d_name);
		if (here < 0)
			result = failure_errno(why, here, "%s/%s", path,
				slice_escape(slice_of(entries[i]->d_name), shown, sizeof(shown)));
		free(entries[i]);
	}
	free(entries);
	return result;
}

int audit_read_path(struct audit_read *read, const char *path, struct failure *why)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "%s", path);
	if (S_ISDIR(st.st_mode))
		return read_folder(read, fd, path, why);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "%s: not a file or a folder", path);
	uint64_t lines = read->lines;
	uint64_t skipped = read->skipped;
	int result = read_named(read, fd, path);
	if (result < 0)
		return failure_errno(why, result, "%s", path);
	if (read->lines == lines && read->skipped > skipped)
		return failure_set(why, -EINVAL, "%s: no line of it is of an audit log", path);
	return 0;
}
