/*
 * See uids.h. A byte of the lock file is a uid; the lock is the kernel's, so that nothing is left
 * behind.
 */
#include "common/uids.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>

#define UIDS_DATABASE_BYTES_MAX ((size_t)16 << 20)

/**
 * A database of `:`-separated lines: where a line's first id stands, and whether a count follows
 * it.
 */
struct uids_database {
	const char *path;
	unsigned first_field;
	bool counted;
};

static const struct uids_database databases[] = {
	{"/etc/passwd", 2, false},
	{"/etc/subuid", 1, true},
	{"/etc/group", 2, false}, /* the gids are the same numbers */
	{"/etc/subgid", 1, true},
};

/** The part of @line before its next colon; *@line goes behind it. */
static struct slice uids_field(struct slice *line)
{
	struct slice field = *line;
	struct slice rest = {0};
	(void)slice_split(*line, ':', &field, &rest); /* the last field has no colon */
	*line = rest;
	return field;
}

/** Whether a line claims an id in our range; lines that are no entries claim nothing. */
static bool uids_overlap(struct slice line, const struct uids_database *database)
{
	uint64_t first;
	uint64_t count = 1;
	for (unsigned i = 0; i < database->first_field; i++)
		(void)uids_field(&line); /* names are of no interest */
	if (slice_decimal(uids_field(&line), UINT32_MAX, true, &first) < 0)
		return false;
	if (database->counted && slice_decimal(uids_field(&line), UINT32_MAX, true, &count) < 0)
		return false;
	return first < (uint64_t)ECLUSA_UID_BASE + ECLUSA_UID_COUNT &&
		first + count > (uint64_t)ECLUSA_UID_PROXY;
}

static int uids_check_text(
	struct slice text, const struct uids_database *database, struct failure *why)
{
	unsigned number = 0;
	while (text.len > 0) {
		struct slice line = text;
		struct slice rest = {0};
		(void)slice_split(text, '\n', &line, &rest); /* the last line may lack its end */
		text = rest;
		number++;
		if (uids_overlap(line, database))
			return failure_set(why, -EADDRINUSE,
				"%s:%u uses an id between %u and %u, which are Eclusa's",
				database->path, number, (unsigned)ECLUSA_UID_PROXY,
				(unsigned)ECLUSA_UID_BASE + ECLUSA_UID_COUNT - 1);
	}
	return 0;
}

int uids_check(struct failure *why)
{
	for (size_t i = 0; i < array_size(databases); i++) {
		struct buf text;
		buf_init(&text, UIDS_DATABASE_BYTES_MAX);
		int r = file_read(AT_FDCWD, databases[i].path, UIDS_DATABASE_BYTES_MAX, &text);
		if (r == 0)
			r = uids_check_text(buf_slice(&text), &databases[i], why);
		else if (r == -ENOENT)
			r = 0;
		else
			failure_errno(why, r, "can't read %s", databases[i].path);
		buf_fini(&text);
		if (r < 0)
			return r;
	}
	return 0;
}

static int uids_open(struct failure *why)
{
	int r = file_make_dirs(UIDS_FOLDER, 0755);
	if (r < 0)
		return failure_errno(why, r, "can't make %s", UIDS_FOLDER);
	int fd = open(UIDS_FOLDER "/" UIDS_FILE,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	return fd < 0 ? failure_errno(why, -errno, "can't open %s/%s", UIDS_FOLDER, UIDS_FILE) : fd;
}

int uids_claim(uid_t *ret_uid, struct failure *why)
{
	int r = uids_check(why);
	if (r < 0)
		return r;
	auto_fd fd = uids_open(why);
	if (fd < 0)
		return fd;
	/* from a random place on, so that a uid is not had again soon */
	uint32_t start;
	random_bytes(&start, sizeof(start));
	for (uint32_t i = 0; i < ECLUSA_UID_COUNT; i++) {
		uint32_t number = (start + i) % ECLUSA_UID_COUNT;
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
			*ret_uid = ECLUSA_UID_BASE + number;
			return fd_take(&fd);
		}
		if (errno != EAGAIN && errno != EACCES)
			return failure_errno(
				why, -errno, "can't lock %s/%s", UIDS_FOLDER, UIDS_FILE);
	}
	return failure_set(why, -EUSERS, "all %d sandbox uids are taken", ECLUSA_UID_COUNT);
}
