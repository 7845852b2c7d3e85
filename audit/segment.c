/*
 * See segment.h. The file is read only by its tail, to continue its sequence; what stands there was written by us, perhaps torn
 * by a crash. Lines that come from a ring are a worker's word and are checked before they are written.
 */
#include "audit/segment.h"

#include "audit/mend.h"
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

#define LOCK_WAIT_NS   (2 * NS_PER_SEC)
#define LOCK_RETRY_NS  NS_PER_MS
#define BATCH_BYTES    ((size_t)64 << 10)
#define TAIL_BYTES     ((size_t)4 * AUDIT_LINE_BYTES_MAX) /* looked at to find the last line */
#define DEVICE_BYTES   256
#define BOOT_ID_BYTES  40
#define SEQUENCE_FIELD ",\"sequence\":"
#define SEAL_FIELD     ",\"chain\":\""
#define CODE_FIELD     ",\"event_code\":\""

struct audit_segment {
	int fd;                    /* borrowed */
	off_t end;                 /* what we know of; another size means that others wrote */
	struct chain chain;        /* its name is empty until it is known */
	off_t reserved;            /* the disk has room up to here */
	bool starved;              /* and has no more */
	char device[DEVICE_BYTES]; /* ,"device":{...} */
	char boot[BOOT_ID_BYTES];
	struct buf line;
	struct buf batch; /* lines on their way into one write() */
};

/** Where open decisions are completed. */
enum entry_kind { ENTRY_PLAIN, ENTRY_RECOVERED };

int audit_segment_create(
	int folder_fd, const char *id, char *ret_name, size_t capacity, struct failure *why)
{
	uint64_t now_ms = clock_wall_ms();
	time_t now = (time_t)(now_ms / 1000);
	struct tm utc;
	char name[256], utc_text[32], link[sizeof(name) + 8];
	if (strchr(id, '/') != NULL || gmtime_r(&now, &utc) == NULL)
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

static void segment_unlock(const struct audit_segment *s)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	(void)fcntl(s->fd, F_SETLK, &lock); /* can't fail on what is held */
}

/** One write() or nothing: what a full disk cut short is taken back. */
static int segment_write(struct audit_segment *s, struct slice text)
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

/** A line that ends the chain with this hash has been written. */
static void segment_advance(struct audit_segment *s, const char hash[static DIGEST_TEXT_BYTES])
{
	memcpy(s->chain.head, hash, DIGEST_TEXT_BYTES);
	s->chain.sequence++;
}

/** Where the last sealed line of whole lines leaves the chain. False: there is none. */
static bool last_link(struct slice lines, struct chain *ret)
{
	while (lines.len > 0) {
		struct chain_link link;
		size_t end = lines.ptr[lines.len - 1] == '\n' ? lines.len - 1 : lines.len;
		const char *before = memrchr(lines.ptr, '\n', end);
		size_t at = before == NULL ? 0 : (size_t)(before - lines.ptr) + 1;
		struct slice line = slice_part(lines, at, end);
		if (chain_read(line, CHAIN_EVENT_CLOSING, &link)) {
			ret->sequence = chain_sequence(line) + 1;
			(void)slice_copy(link.chain, ret->name, sizeof(ret->name)); /* they fit */
			(void)slice_copy(link.hash, ret->head, sizeof(ret->head));
			return true;
		}
		lines.len = at;
	}
	return false;
}

/** The whole of a torn line that breaks off in its seal: what was written is a part of it, or it is not ours. */
static int mend_seal(struct audit_segment *s, struct slice torn, size_t seal_at, struct buf *whole,
	char ret_hash[static DIGEST_TEXT_BYTES])
{
	(void)buf_append(whole, slice_part(torn, 0, seal_at)); /* errors are sticky in the buf */
	int r = chain_seal(&s->chain, CHAIN_EVENT_CLOSING, whole, ret_hash);
	return r < 0 ? r : slice_starts(buf_slice(whole), torn) ? 0 : -EINVAL;
}

/** The whole of a torn line that breaks off before its seal: marked as torn, then sealed. */
static int mend_event(struct audit_segment *s, struct slice torn, struct buf *whole,
	char ret_hash[static DIGEST_TEXT_BYTES])
{
	(void)buf_append(whole, torn); /* errors are sticky in the buf */
	int r = mend_line(torn, s->chain.sequence, whole);
	if (r < 0)
		return r;
	if (!slice_ends(buf_slice(whole), SLICE(CHAIN_EVENT_CLOSING)) ||
		buf_len(whole) < torn.len + sizeof(CHAIN_EVENT_CLOSING) - 1)
		return -EINVAL;
	buf_drop_end(whole, sizeof(CHAIN_EVENT_CLOSING) - 1);
	return chain_seal(&s->chain, CHAIN_EVENT_CLOSING, whole, ret_hash);
}

/** A torn last line becomes a whole one, by what is appended. */
static int segment_mend(struct audit_segment *s, struct slice torn)
{
	struct buf whole;
	char hash[DIGEST_TEXT_BYTES];
	struct slice seal = SLICE(SEAL_FIELD);
	const char *at = memmem(torn.ptr, torn.len, seal.ptr, seal.len);
	buf_init(&whole, TAIL_BYTES + AUDIT_LINE_BYTES_MAX);
	int r = at != NULL ? mend_seal(s, torn, (size_t)(at - torn.ptr), &whole, hash)
			   : mend_event(s, torn, &whole, hash);
	bool is_line = r == 0;
	if (!is_line) { /* no line of ours: a newline keeps it away from the next one */
		buf_clear(&whole);
		(void)buf_append(&whole, torn); /* errors are sticky in the buf */
	}
	r = buf_append(&whole, SLICE("\n"));
	if (r == 0)
		r = segment_write(s, slice_part(buf_slice(&whole), torn.len, SIZE_MAX));
	if (r == 0 && is_line)
		segment_advance(s, hash);
	buf_fini(&whole);
	return r;
}

/** Find the end and the chain's head when others have written. Under the lock, so a torn line's writer is dead. */
static int segment_sync(struct audit_segment *s)
{
	struct stat st;
	if (fstat(s->fd, &st) < 0)
		return -errno;
	if (st.st_size == s->end)
		return 0;
	auto_free char *tail = malloc(TAIL_BYTES);
	if (tail == NULL)
		return -ENOMEM;
	off_t from = st.st_size > (off_t)TAIL_BYTES ? st.st_size - (off_t)TAIL_BYTES : 0;
	ssize_t got = pread(s->fd, tail, TAIL_BYTES, from);
	if (got != (ssize_t)(st.st_size - from))
		return got < 0 ? -errno : -EIO;
	size_t whole = (size_t)got;
	while (whole > 0 && tail[whole - 1] != '\n')
		whole--;
	(void)last_link((struct slice){tail, whole}, &s->chain); /* else it is at its beginning */
	s->end = st.st_size;
	if (whole == (size_t)got || s->chain.name[0] == '\0')
		return 0;
	return segment_mend(s, (struct slice){tail + whole, (size_t)got - whole});
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
		(void)slice_copy(slice_part(buf_slice(&text), 0, UUID_TEXT_BYTES - 1), s->boot,
			sizeof(s->boot));
	buf_fini(&text);
}

int audit_segment_attach(int fd, const char *chain, struct audit_segment **ret, struct failure *why)
{
	struct audit_segment *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "audit segment");
	s->fd = fd;
	buf_init(&s->line, AUDIT_LINE_BYTES_MAX);
	buf_init(&s->batch, BATCH_BYTES + AUDIT_LINE_BYTES_MAX);
	segment_device(s);
	segment_boot(s);
	int r = chain == NULL ? 0 : chain_start(&s->chain, chain);
	if (r == 0)
		r = segment_lock(s);
	if (r == 0) {
		r = segment_sync(s);
		segment_unlock(s);
	}
	if (r == 0 && s->chain.name[0] == '\0')
		r = -ENODATA; /* nothing is in it that could be continued */
	if (r < 0) {
		audit_segment_free(s);
		return failure_errno(why, r, "audit segment: can't be written");
	}
	*ret = s;
	return 0;
}

const struct chain *audit_segment_chain(const struct audit_segment *s)
{
	return &s->chain;
}

void audit_segment_free(struct audit_segment *s)
{
	if (s == NULL)
		return;
	buf_fini(&s->line);
	buf_fini(&s->batch);
	free(s);
}

/** Take the lock and find the end. @return 0, then segment_unlock() is due. */
static int segment_begin(struct audit_segment *s)
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
	segment_unlock(s);
}

/** Whether lines must wait: the run has its size, or what is left of the disk is for its end. */
static int segment_full(const struct audit_segment *s)
{
	if (s->end >= AUDIT_SEGMENT_BYTES_MAX)
		return -EDQUOT;
	return s->starved && s->reserved - s->end < AUDIT_SEGMENT_RESERVE_END_BYTES ? -ENOSPC : 0;
}

/** A line as event.c makes them: one object, no control byte, metadata's end where it is said to be. */
static bool entry_well_formed(struct audit_entry entry)
{
	struct slice line = entry.line;
	struct slice end = SLICE("}}}");
	if (line.len < 8 || line.len > AUDIT_LINE_BYTES_MAX || line.ptr[0] != '{' ||
		!slice_ends(line, end) || entry.metadata_end >= line.len - end.len ||
		line.ptr[entry.metadata_end] != '}')
		return false;
	for (size_t i = 0; i < line.len; i++) {
		if ((unsigned char)line.ptr[i] < 0x20)
			return false;
	}
	return true;
}

/** Metadata without its closing brace; of a recovered decision with another event_code. */
static void compose_metadata(struct buf *line, struct slice front, enum entry_kind kind)
{
	struct slice field = SLICE(CODE_FIELD);
	size_t at = front.len > 64 ? front.len - 64 : 0; /* it is metadata's last member */
	while (kind == ENTRY_RECOVERED && at < front.len &&
		!slice_starts(slice_part(front, at, front.len), field))
		at++;
	if (kind == ENTRY_RECOVERED && at < front.len) {
		(void)buf_append(line, slice_part(front, 0, at)); /* errors are sticky in the buf */
		(void)buf_append_text(line, CODE_FIELD "audit.recovered\"");
	} else {
		(void)buf_append(line, front);
	}
}

/** The whole line, sealed; *ret_hash: the chain's head once it is written. */
static int segment_compose(struct audit_segment *s, struct audit_entry entry, enum entry_kind kind,
	char ret_hash[static DIGEST_TEXT_BYTES])
{
	struct buf *line = &s->line;
	size_t end = entry.line.len - 3; /* before the braces of eclusa, unmapped and the line */
	buf_clear(line);
	compose_metadata(line, slice_part(entry.line, 0, entry.metadata_end), kind);
	(void)buf_printf(line, SEQUENCE_FIELD "%llu,\"logged_time\":%llu}",
		(unsigned long long)s->chain.sequence, (unsigned long long)clock_wall_ms());
	(void)buf_append_text(line, s->device);
	(void)buf_append(line, slice_part(entry.line, entry.metadata_end + 1, end));
	(void)buf_printf(line, ",\"boot_id\":\"%s\"", s->boot);
	if (kind == ENTRY_RECOVERED)
		(void)buf_append_text(line, ",\"recovered\":true");
	int r = chain_seal(&s->chain, CHAIN_EVENT_CLOSING, line, ret_hash);
	return r < 0 ? r : buf_append(line, SLICE("\n"));
}

/** Under the lock and in sync. @return 0, -EBADMSG, or another errno. */
static int segment_put(struct audit_segment *s, struct audit_entry entry, enum entry_kind kind)
{
	char hash[DIGEST_TEXT_BYTES];
	if (!entry_well_formed(entry))
		return -EBADMSG;
	int r = segment_compose(s, entry, kind, hash);
	if (r == 0)
		r = segment_write(s, buf_slice(&s->line));
	if (r == 0)
		segment_advance(s, hash);
	return r;
}

int audit_segment_append(struct audit_segment *s, struct audit_entry entry)
{
	int r = segment_begin(s);
	if (r < 0)
		return r;
	r = segment_put(s, entry, ENTRY_PLAIN);
	segment_unlock(s);
	return r;
}

/** Under the lock. */
static int segment_put_event(struct audit_segment *s, const struct audit_event *e)
{
	struct buf line = {.limit = AUDIT_LINE_BYTES_MAX};
	struct audit_entry entry = {0};
	int r = audit_event_write(e, &line, &entry.metadata_end);
	entry.line = buf_slice(&line);
	if (r == 0)
		r = segment_put(s, entry, ENTRY_PLAIN);
	buf_fini(&line);
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

static int segment_put_loss(struct audit_segment *s, uint64_t count)
{
	struct audit_event lost = {.class = AUDIT_LIFECYCLE,
		.activity = 99,
		.reason = REASON_AUDIT_LOST,
		.count = count};
	return segment_put_event(s, &lost);
}

/** A line goes into the batch, and the chain on behind it. @return 0, -EBADMSG, -ENOBUFS. */
static int batch_add(struct audit_segment *s, struct audit_entry entry)
{
	char hash[DIGEST_TEXT_BYTES];
	if (!entry_well_formed(entry))
		return -EBADMSG;
	int r = segment_compose(s, entry, ENTRY_PLAIN, hash);
	if (r == 0)
		r = buf_append(&s->batch, buf_slice(&s->line));
	if (r == 0)
		segment_advance(s, hash);
	return r;
}

/**
 * From the oldest finished line on, at most @most and as many as one write() takes: all of them or none are written. *ret_error: what is wrong
 * with the oldest one, when it is no line. @return lines or negative errno.
 */
static int drain_batch(
	struct audit_segment *s, struct audit_ring *ring, char *storage, int most, int *ret_error)
{
	struct chain before = s->chain;
	struct audit_entry entry;
	int lines = 0;
	buf_clear(&s->batch);
	int r = audit_ring_peek(ring, storage, AUDIT_LINE_BYTES_MAX, &entry);
	*ret_error = r < 0 ? r : 0;
	while (r > 0) {
		*ret_error = batch_add(s, entry);
		if (*ret_error < 0)
			break;
		lines++;
		r = lines == most || buf_len(&s->batch) >= BATCH_BYTES
			? 0
			: audit_ring_peek_more(ring, storage, AUDIT_LINE_BYTES_MAX, &entry);
	}
	if (lines > 0 && *ret_error < 0) { /* once more without it: then it is the oldest */
		s->chain = before;
		return drain_batch(s, ring, storage, lines, ret_error);
	}
	r = lines == 0 ? 0 : segment_write(s, buf_slice(&s->batch));
	if (r < 0) {
		s->chain = before;
		return r;
	}
	if (lines > 0)
		audit_ring_advance(ring);
	return lines;
}

/** Finished lines, oldest first. @return lines or negative errno. */
static int drain_finished(struct audit_segment *s, struct audit_ring *ring, char *storage)
{
	int lines = 0;
	for (;;) {
		int error;
		int r = drain_batch(s, ring, storage, INT_MAX, &error);
		if (r < 0)
			return r;
		lines += r;
		if (error < 0) { /* what can't be a line is left behind, and said */
			r = segment_put_loss(s, 1);
			if (r < 0)
				return r;
			audit_ring_advance(ring);
			lines++;
		} else if (r == 0) {
			return lines;
		}
	}
}

static int drain_open(struct audit_segment *s, struct audit_ring *ring, char *storage)
{
	int lines = 0;
	struct audit_entry entry;
	for (int slot = audit_ring_peek_open(ring, 0, storage, &entry); slot >= 0;
		slot = audit_ring_peek_open(ring, slot + 1, storage, &entry)) {
		int r = segment_put(s, entry, ENTRY_RECOVERED);
		if (r == -EBADMSG || r == -ENOBUFS)
			r = segment_put_loss(s, 1);
		if (r < 0)
			return r;
		audit_ring_clear(ring, slot);
		lines++;
	}
	return lines;
}

/** Under the lock. */
static int segment_drain(
	struct audit_segment *s, struct audit_ring *ring, bool orphaned, char *storage)
{
	int lines = drain_finished(s, ring, storage);
	if (lines >= 0 && orphaned) {
		int more = drain_open(s, ring, storage);
		lines = more < 0 ? more : lines + more;
	}
	uint64_t lost = lines < 0 ? 0 : audit_ring_lost(ring);
	if (lost > 0) {
		int r = segment_put_loss(s, lost);
		if (r < 0)
			return r;
		audit_ring_clear_lost(ring, lost);
	}
	return lines;
}

int audit_segment_drain(struct audit_segment *s, struct audit_ring *ring, bool orphaned)
{
	auto_free char *storage = malloc(AUDIT_LINE_BYTES_MAX);
	if (storage == NULL)
		return -ENOMEM;
	int r = segment_begin(s);
	if (r < 0)
		return r;
	r = orphaned ? 0 : segment_full(s);
	if (r == 0)
		r = segment_drain(s, ring, orphaned, storage);
	segment_unlock(s);
	return r;
}
