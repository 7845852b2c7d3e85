/* See index.h. The lock is one of the open file (F_OFD_SETLK), so that threads and forks of a caller count as others, too. */
#include "audit/index.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define LOCK_WAIT_NS  (2 * NS_PER_SEC)
#define LOCK_RETRY_NS (NS_PER_MS / 4)
#define TAIL_BYTES    (2 * AUDIT_INDEX_LINE_BYTES_MAX) /* a whole line and a torn one */

static int index_lock(int fd)
{
	uint64_t deadline = clock_monotonic_ns() + LOCK_WAIT_NS;
	for (;;) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return -errno;
		if (clock_monotonic_ns() >= deadline)
			return -EBUSY;
		struct timespec pause = {.tv_nsec = (long)LOCK_RETRY_NS};
		(void)nanosleep(&pause, NULL); /* the next try tells */
	}
}

/** The chain's state after the last whole line, and how many bytes follow that. @return 0 or negative errno. */
static int index_tail(int fd, struct chain *ret, off_t *ret_end, off_t *ret_torn)
{
	char tail[TAIL_BYTES];
	struct stat st;
	struct chain chain;
	struct chain_link link;
	if (fstat(fd, &st) < 0)
		return -errno;
	off_t from = st.st_size > (off_t)sizeof(tail) ? st.st_size - (off_t)sizeof(tail) : 0;
	ssize_t got = pread(fd, tail, sizeof(tail), from);
	if (got < 0)
		return -errno;
	struct slice text = {tail, (size_t)got};
	while (text.len > 0 && text.ptr[text.len - 1] != '\n')
		text.len--;
	(void)chain_start(&chain, AUDIT_INDEX_CHAIN); /* it is a name */
	*ret_end = from + (off_t)text.len;
	*ret_torn = got - (off_t)text.len;
	if (text.len == 0 && from == 0) {
		*ret = chain;
		return 0;
	}
	size_t end = text.len == 0 ? 0 : text.len - 1;
	const char *before = end == 0 ? NULL : memrchr(tail, '\n', end);
	struct slice line = slice_part(text, before == NULL ? 0 : (size_t)(before - tail) + 1, end);
	if (!chain_read(line, CHAIN_INDEX_CLOSING, &link))
		return -EBADMSG;
	chain.sequence = chain_sequence(line) + 1;
	(void)slice_copy(link.hash, chain.head, sizeof(chain.head)); /* it fits */
	*ret = chain;
	return 0;
}

int audit_index_head(int folder_fd, struct chain *ret)
{
	struct chain chain;
	off_t end, torn;
	int r = chain_start(&chain, AUDIT_INDEX_CHAIN);
	auto_fd fd = openat(folder_fd, AUDIT_INDEX_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno != ENOENT)
		return -errno;
	if (fd >= 0)
		r = index_tail(fd, &chain, &end, &torn);
	if (r == 0) {
		chain.sequence--; /* the last one, not the next */
		*ret = chain;
	}
	return r;
}

static const char *const kinds[] = {
	[AUDIT_INDEX_OPENED] = "opened",
	[AUDIT_INDEX_CLOSED] = "closed",
	[AUDIT_INDEX_PRUNED] = "pruned",
};

static int index_compose(
	const struct audit_index_entry *e, const struct chain *chain, struct buf *line)
{
	char hash[DIGEST_TEXT_BYTES];
	struct json j;
	json_open(&j, line);
	json_object(&j, NULL);
	json_text(&j, "kind", kinds[e->kind]);
	json_text(&j, "segment", e->segment);
	json_text(&j, "of", e->at->name);
	json_uint(&j, "last", e->at->sequence - 1);
	json_text(&j, "head", e->at->head);
	json_uint(&j, "time", clock_wall_ms());
	if (e->recovered)
		json_bool(&j, "recovered", true);
	json_uint(&j, "sequence", chain->sequence);
	int r = chain_seal(chain, CHAIN_INDEX_CLOSING, line, 0, hash);
	return r < 0 ? r : buf_append(line, SLICE("\n"));
}

/** Under the lock. What a killed writer or a full disk left of a line was in no chain yet: it is taken back. */
static int index_put(int fd, const struct audit_index_entry *e)
{
	struct chain chain = {0};
	struct buf line;
	off_t end = 0, torn = 0;
	int r = index_tail(fd, &chain, &end, &torn);
	if (r < 0)
		return r;
	if (torn > 0 && ftruncate(fd, end) < 0)
		return -errno;
	buf_init(&line, AUDIT_INDEX_LINE_BYTES_MAX);
	r = index_compose(e, &chain, &line);
	ssize_t put = r < 0 ? 0 : write(fd, buf_slice(&line).ptr, buf_len(&line));
	if (r == 0 && put != (ssize_t)buf_len(&line)) {
		r = put < 0 ? -errno : -ENOSPC;
		(void)!ftruncate(fd, end); /* else the next writer does it */
	}
	buf_fini(&line);
	return r;
}

int audit_index_append(int folder_fd, const struct audit_index_entry *e, struct failure *why)
{
	auto_fd fd = openat(folder_fd, AUDIT_INDEX_NAME,
		O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = fd < 0 ? -errno : index_lock(fd);
	if (r == 0)
		r = index_put(fd, e); /* the lock ends with the descriptor */
	if (r == -EBADMSG)
		return failure_set(why, r,
			"audit folder: " AUDIT_INDEX_NAME
			" ends in a line that is not one: `eclusa audit verify` "
			"says more; move the folder's files away to go on");
	return r < 0 ? failure_errno(why, r, "audit folder: can't write " AUDIT_INDEX_NAME) : 0;
}
