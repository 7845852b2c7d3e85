/* See lane.h. */
#include "proxy/lane.h"

size_t lane_waiting(const struct lane *l)
{
	return l->pipe.len + buf_len(&l->to->out);
}

bool lane_send(struct lane *l)
{
	bool progress = stream_flush(l->to);
	while (l->pipe.len > 0 && l->to->writable && !l->to->broken && !l->to->mute) {
		size_t len = stream_from_pipe(l->to, l->pipe.read_fd, l->pipe.len);
		l->pipe.len -= len;
		progress |= len > 0;
	}
	return progress;
}

/** What is in the reader's buffer already, in whole if there is room. */
static size_t take_buffered(struct lane *l, uint64_t room)
{
	struct slice in = buf_slice(&l->from->in);
	struct slice part = slice_part(in, 0, room < in.len ? (size_t)room : in.len);
	if (buf_append(&l->to->out, part) < 0) {
		l->cut = l->over = true;
		return 0;
	}
	buf_consume(&l->from->in, part.len);
	return part.len;
}

/** By the kernel, from socket to pipe. */
static size_t take_piped(struct lane *l, struct pipe_pool *pool, uint64_t room)
{
	if (!l->from->readable || l->from->ended || l->from->broken)
		return 0;
	if (!l->pipe.open && pipe_get(pool, &l->pipe) < 0) {
		l->copies = true; /* no descriptor left: as others do it */
		return 0;
	}
	size_t want = room < PIPE_BYTES ? (size_t)room : PIPE_BYTES;
	l->pipe.len = stream_to_pipe(l->from, l->pipe.write_fd, want);
	return l->pipe.len;
}

size_t lane_take(struct lane *l, struct pipe_pool *pool, uint64_t room)
{
	bool plain = l->from->tls == NULL && l->to->tls == NULL;
	if (lane_waiting(l) > 0 || l->over || l->last || room == 0)
		return 0;
	if (buf_len(&l->from->in) == 0 && plain && !l->fed && !l->copies) {
		stream_trim(l->from);
		stream_trim(l->to);
		return take_piped(l, pool, room);
	}
	if (buf_len(&l->from->in) == 0 && !l->fed)
		(void)stream_fill(l->from); /* what it says shows in the stream */
	return take_buffered(l, room);
}

bool lane_end(struct lane *l)
{
	if (l->over)
		return false;
	if (l->to->broken || l->to->mute) {
		l->cut = l->over = true;
		return true;
	}
	if (lane_waiting(l) > 0 || (buf_len(&l->from->in) > 0 && !l->last))
		return false;
	if (l->from->broken) {
		l->cut = l->over = true;
		return true;
	}
	if (!l->from->ended && !l->last)
		return false;
	stream_end(l->to);
	l->over = true;
	return true;
}

void lane_watch(struct lane *l)
{
	l->from->held = l->over || l->last || lane_waiting(l) > 0;
	l->to->owed = !l->over && l->pipe.len > 0;
}

size_t lane_drop(struct lane *l, struct pipe_pool *pool)
{
	size_t len = l->pipe.len;
	pipe_put(pool, &l->pipe);
	return len;
}
