/* See stream.h. */
#include "sandbox-launcher/stream.h"

#include "common/cleanup.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>

void stream_init(struct stream *s, int from, int to, uint64_t limit)
{
	*s = (struct stream){.from = from, .to = to, .limit = limit};
	buf_init(&s->kept, (size_t)limit + 2 * STREAM_CHUNK);
}

void stream_fini(struct stream *s)
{
	buf_fini(&s->kept);
}

bool stream_wants_read(const struct stream *s)
{
	return s->from >= 0 && (s->to < 0 || buf_len(&s->kept) < STREAM_CHUNK);
}

bool stream_wants_write(const struct stream *s)
{
	return s->to >= 0 && buf_len(&s->kept) > 0;
}

bool stream_done(const struct stream *s)
{
	return s->from < 0 && !stream_wants_write(s);
}

/* @len bytes are behind what is kept. */
static void stream_keep(struct stream *s, size_t len)
{
	s->total += len;
	if (s->to < 0) {
		uint64_t room = s->limit - buf_len(&s->kept);
		if (len > room)
			len = (size_t)room;
	}
	buf_grew(&s->kept, len);
}

int stream_read(struct stream *s)
{
	char *room;
	if (!stream_wants_read(s))
		return 0;
	int r = buf_reserve(&s->kept, STREAM_CHUNK, &room);
	if (r < 0)
		return r;
	ssize_t got = read(s->from, room, STREAM_CHUNK);
	if (got > 0)
		stream_keep(s, (size_t)got);
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		s->from = -1;
	return 0;
}

/*
 * The descriptor is the caller's, so its mode must not change: a pipe that polls writable takes PIPE_BUF bytes without
 * blocking, a socket can be asked not to block.
 */
void stream_write(struct stream *s)
{
	struct stat st;
	struct slice ready = buf_slice(&s->kept);
	bool file = fstat(s->to, &st) == 0 && S_ISREG(st.st_mode);
	if (!file && ready.len > PIPE_BUF)
		ready.len = PIPE_BUF;
	ssize_t put = S_ISSOCK(st.st_mode)
		? send(s->to, ready.ptr, ready.len, MSG_DONTWAIT | MSG_NOSIGNAL)
		: write(s->to, ready.ptr, ready.len);
	if (put >= 0) {
		buf_consume(&s->kept, (size_t)put);
		return;
	}
	if (errno != EINTR && errno != EAGAIN)
		stream_give_up(s, errno);
}

void stream_give_up(struct stream *s, int error)
{
	if (s->to < 0)
		return;
	s->write_error = error;
	buf_clear(&s->kept);
	s->closes_from = true;
	s->from = -1;
}

/* Length of the incomplete character at the end, 0-3. */
static size_t incomplete_tail(struct slice text)
{
	for (size_t back = 1; back <= 3 && back <= text.len; back++) {
		unsigned char c = (unsigned char)text.ptr[text.len - back];
		size_t whole = c >= 0xf8 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		if (whole > 1)
			return whole > back ? back : 0;
		if (c < 0x80)
			return 0;
	}
	return 0;
}

struct slice stream_text(const struct stream *s)
{
	struct slice text = buf_slice(&s->kept);
	if (s->from >= 0)
		text.len -= incomplete_tail(text);
	return text;
}

uint64_t stream_cut(struct stream *s)
{
	uint64_t cut = s->total - buf_len(&s->kept);
	if (cut > 0) {
		size_t tail = incomplete_tail(buf_slice(&s->kept));
		s->kept.end -= tail;
		cut += tail;
	}
	return cut;
}
