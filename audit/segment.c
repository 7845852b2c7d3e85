/*
 * See segment.h. Making a file, attaching to it, and appending to it one line at a time.
 */
#include "audit/segment_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/file.h"
#include "common/json.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#define LOCK_WAIT_NS  (2 * NS_PER_SEC)
#define LOCK_RETRY_NS NS_PER_MS
#define BOOT_ID_BYTES (UUID_TEXT_BYTES - 1)

int audit_segment_create(
	int folder_fd, const char *id, char *ret_name, size_t capacity, struct failure *why)
{
	const struct tm utc = clock_utc(clock_wall_ms());
	char name[256], utc_text[32], link[sizeof(name) + 8];
	if (strchr(id, '/') != NULL)
		return failure_set(why, -EINVAL, "audit: bad segment id");
	(void)strftime(utc_text, sizeof(utc_text), "%Y%m%dT%H%M%SZ", &utc);
	int len = snprintf(name, sizeof(name), "%s-%s.jsonl", utc_text, id);
	if (len < 0 || (size_t)len >= sizeof(name) || (size_t)len >= capacity)
		return failure_set(why, -ENAMETOOLONG, "audit: segment id too long");
	(void)snprintf(link, sizeof(link), "open/%.*s", len - (int)sizeof("jsonl"), name);
	auto_fd fd = openat(folder_fd, name,
		O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return failure_errno(why, -errno, "audit folder: can't create %s", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return failure_errno(why, -errno, "audit folder: can't lock %s", name);
	if (mkdirat(folder_fd, "open", 0700) < 0 && errno != EEXIST)
		return failure_errno(why, -errno, "audit folder: can't create open/");
	if (linkat(folder_fd, name, folder_fd, link, 0) < 0 && errno != EPERM &&
		errno != EOPNOTSUPP)
		return failure_errno(why, -errno, "audit folder: can't create %s", link);
	memcpy(ret_name, name, (size_t)len + 1);
	return fd_take(&fd);
}

void audit_segment_close(int folder_fd, const char *name)
{
	char link[256];
	size_t suffix = sizeof(".jsonl") - 1;
	if (strlen(name) <= suffix)
		return;
	int len = snprintf(link, sizeof(link), "open/%.*s", (int)(strlen(name) - suffix), name);
	if (len > 0 && (size_t)len < sizeof(link))
		(void)unlinkat(folder_fd, link, 0); /* recovery would find it again */
}

/** The file's lock, which the kernel frees when this process ends. @return 0, -EBUSY, another errno. */
static int segment_lock(const struct audit_segment *s)
{
	uint64_t deadline = clock_monotonic_ns() + LOCK_WAIT_NS;
	for (;;) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		if (fcntl(s->fd, F_SETLK, &lock) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return -errno;
		if (clock_monotonic_ns() >= deadline)
			return -EBUSY;
		struct timespec pause = {.tv_nsec = (long)LOCK_RETRY_NS};
		(void)nanosleep(&pause, NULL); /* the next try tells */
	}
}

void segment_unlock(const struct audit_segment *s)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	(void)fcntl(s->fd, F_SETLK, &lock); /* can't fail on what is held */
}

int segment_write(struct audit_segment *s, struct slice text)
{
	ssize_t put;
	assert(text.ptr != NULL);
	do {
		put = write(s->fd, text.ptr, text.len);
	} while (put < 0 && errno == EINTR);
	int r = put < 0 ? -errno : (size_t)put == text.len ? 0 : -ENOSPC;
	if (r == 0)
		s->end += (off_t)text.len;
	else if (put > 0 && ftruncate(s->fd, s->end) < 0)
		return -errno; /* the next attempt finds a torn line and completes it */
	return r;
}

void segment_advance(struct audit_segment *s, const char hash[static DIGEST_TEXT_BYTES])
{
	memcpy(s->chain.head, hash, DIGEST_TEXT_BYTES);
	s->chain.sequence++;
}

/** Host name, and an id of the machine that does not reveal machine-id itself (machine-id(5)). */
static void segment_device(struct audit_segment *s)
{
	struct utsname system = {0};
	struct buf machine, text;
	char digest[DIGEST_TEXT_BYTES] = "";
	buf_init(&machine, 2 * 65536);
	buf_init(&text, sizeof(s->device) - 1);
	bool known = file_read(AT_FDCWD, "/etc/machine-id", 256, &machine) == 0 &&
		buf_append_text(&machine, "eclusa") == 0 &&
		digest_of(buf_slice(&machine), digest) == 0;
	(void)uname(&system); /* an empty name when it fails */
	struct json j;
	json_open(&j, &text);
	j.comma = true;
	json_object(&j, "device");
	json_int(&j, "type_id", 1);
	json_text(&j, "hostname", system.nodename);
	if (known)
		json_slice(&j, "uid", (struct slice){digest, 32});
	json_object_end(&j);
	if (!text.failed)
		(void)slice_copy(buf_slice(&text), s->device, sizeof(s->device));
	buf_fini(&machine);
	buf_fini(&text);
}

static void segment_boot(struct audit_segment *s)
{
	struct buf text;
	buf_init(&text, 2 * 65536);
	if (file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text) == 0)
		(void)snprintf(s->boot, sizeof(s->boot), ",\"boot_id\":\"%.*s\"", BOOT_ID_BYTES,
			buf_slice(&text).ptr); /* the file has so many, and a newline */
	else
		(void)snprintf(s->boot, sizeof(s->boot), ",\"boot_id\":\"\"");
	buf_fini(&text);
}

/** Zero but for what every segment has. @return NULL when out of memory. */
static struct audit_segment *segment_new(int fd)
{
	struct audit_segment *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->fd = fd;
	buf_init(&s->line, AUDIT_LINE_BYTES_MAX);
	buf_init(&s->batch, SEGMENT_BATCH_BYTES + 2 * AUDIT_LINE_BYTES_MAX);
	return s;
}

/** Find out where the chain is. Takes @s over, also when it fails. */
static int segment_start(struct audit_segment *s, struct audit_segment **ret, struct failure *why)
{
	int r = segment_begin(s);
	if (r == 0)
		segment_unlock(s);
	if (r == 0 && s->chain.name[0] == '\0')
		r = -ENODATA; /* nothing is in it that could be continued */
	if (r < 0) {
		audit_segment_free(s);
		return failure_errno(why, r, "audit segment: can't be written");
	}
	*ret = s;
	return 0;
}

int audit_segment_attach(int fd, const char *chain, struct audit_segment **ret, struct failure *why)
{
	struct audit_segment *s = segment_new(fd);
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "audit segment");
	segment_device(s);
	segment_boot(s);
	int r = chain == NULL ? 0 : chain_start(&s->chain, chain);
	if (r < 0) {
		audit_segment_free(s);
		return failure_errno(why, r, "audit segment: a chain's name");
	}
	return segment_start(s, ret, why);
}

int audit_segment_follow(
	int fd, const struct audit_segment *before, struct audit_segment **ret, struct failure *why)
{
	struct audit_segment *s = segment_new(fd);
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "audit segment");
	memcpy(s->device, before->device, sizeof(s->device));
	memcpy(s->boot, before->boot, sizeof(s->boot));
	s->chain = before->chain;
	return segment_start(s, ret, why);
}

const struct chain *audit_segment_chain(const struct audit_segment *s)
{
	return &s->chain;
}

off_t audit_segment_size(const struct audit_segment *s)
{
	return s->end;
}

void audit_segment_free(struct audit_segment *s)
{
	if (s == NULL)
		return;
	buf_fini(&s->line);
	buf_fini(&s->batch);
	free(s);
}

int segment_begin(struct audit_segment *s)
{
	int r = segment_lock(s);
	if (r < 0)
		return r;
	r = segment_sync(s);
	if (r < 0)
		segment_unlock(s);
	return r;
}

int audit_segment_reserve(struct audit_segment *s)
{
	if (s->reserved - s->end >= 3 * (AUDIT_SEGMENT_RESERVE_BYTES / 4))
		return 0;
	int r;
	do {
		r = fallocate(s->fd, FALLOC_FL_KEEP_SIZE, s->end, AUDIT_SEGMENT_RESERVE_BYTES) < 0
			? -errno
			: 0;
	} while (r == -EINTR);
	if (r == -EOPNOTSUPP || r == -ENOSYS)
		r = 0; /* a full disk is learnt from writing, then */
	if (r == 0)
		s->reserved = s->end + AUDIT_SEGMENT_RESERVE_BYTES;
	s->starved = r < 0;
	return r;
}

void audit_segment_release(struct audit_segment *s)
{
	if (segment_begin(s) < 0)
		return;
	(void)!ftruncate(s->fd, s->end); /* else it is kept until the file goes */
	s->reserved = s->end;
	segment_unlock(s);
}

int segment_compose(struct audit_segment *s, const struct audit_event *e, struct buf *to,
	char ret_hash[static DIGEST_TEXT_BYTES])
{
	size_t from = buf_len(to);
	struct audit_entry entry = {0};
	struct json j;
	buf_clear(&s->line);
	int r = audit_event_write(e, &s->line, &entry.metadata_end);
	if (r < 0)
		return r;
	entry.line = buf_slice(&s->line);
	(void)buf_append(to, slice_part(entry.line, 0, entry.metadata_end)); /* errors are sticky */
	json_open(&j, to);
	j.comma = true;
	json_uint(&j, "sequence", s->chain.sequence);
	json_uint(&j, "logged_time", clock_wall_ms());
	(void)buf_append(to, SLICE("}"));
	(void)buf_append(to, slice_of(s->device));
	/* but the braces of eclusa, unmapped and the line */
	(void)buf_append(to, slice_part(entry.line, entry.metadata_end + 1, entry.line.len - 3));
	(void)buf_append(to, slice_of(s->boot));
	r = chain_seal(&s->chain, CHAIN_EVENT_CLOSING, to, from, ret_hash);
	return r < 0 ? r : buf_append(to, SLICE("\n"));
}

int segment_put_event(struct audit_segment *s, const struct audit_event *e)
{
	char hash[DIGEST_TEXT_BYTES];
	buf_clear(&s->batch);
	int r = segment_compose(s, e, &s->batch, hash);
	if (r == 0)
		r = segment_write(s, buf_slice(&s->batch));
	if (r == 0)
		segment_advance(s, hash);
	return r;
}

int audit_segment_append_event(struct audit_segment *s, const struct audit_event *e)
{
	int r = segment_begin(s);
	if (r < 0)
		return r;
	r = segment_put_event(s, e);
	segment_unlock(s);
	return r;
}
