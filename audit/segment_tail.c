/*
 * The end of a segment: where its chain is, and a last line that a crash has torn. The file is read only by its tail; what stands there
 * was written by us. See segment.h.
 */
#include "audit/segment_state.h"

#include "audit/mend.h"
#include "common/cleanup.h"

#include <sys/stat.h>

#define TAIL_BYTES ((size_t)4 * AUDIT_LINE_BYTES_MAX) /* looked at to find the last line */

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
	int r = chain_seal(&s->chain, CHAIN_EVENT_CLOSING, whole, 0, ret_hash);
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
	return chain_seal(&s->chain, CHAIN_EVENT_CLOSING, whole, 0, ret_hash);
}

/** A torn last line becomes a whole one, by what is appended. */
static int segment_mend(struct audit_segment *s, struct slice torn)
{
	struct buf whole;
	char hash[DIGEST_TEXT_BYTES];
	struct slice seal = SLICE(SEGMENT_SEAL_FIELD);
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

int segment_sync(struct audit_segment *s)
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
