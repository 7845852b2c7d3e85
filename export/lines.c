/* See lines.h. */
#include "export/lines.h"

#include "common/cleanup.h"

#include <poll.h>

void lines_head(enum audit_format format, struct buf *to)
{
	size_t before = buf_len(to);
	audit_format_head(format, to);
	if (buf_len(to) > before)
		(void)buf_append(to, SLICE("\n")); /* the caller looks at to->failed */
}

int lines_join(const struct sink_batch *batch, struct buf *to)
{
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->lines[i].fate != SINK_WAITING)
			continue;
		int r = buf_append(to, batch->lines[i].text);
		if (r == 0)
			r = buf_append(to, SLICE("\n"));
		if (r < 0)
			return r;
	}
	return to->failed ? -ENOBUFS : 0;
}

int lines_write(int fd, struct slice text, bool *ret_torn)
{
	bool torn = *ret_torn;
	while (text.len > 0) {
		ssize_t put = write(fd, text.ptr, text.len);
		if (put < 0 && errno == EAGAIN) {
			struct pollfd wait = {.fd = fd, .events = POLLOUT};
			(void)poll(&wait, 1, -1); /* write tells */
		} else if (put < 0 && errno != EINTR) {
			int error = errno;
			*ret_torn = torn;
			return -error;
		} else if (put > 0) {
			torn = text.ptr[put - 1] != '\n';
			text = slice_part(text, (size_t)put, text.len);
		}
	}
	*ret_torn = torn;
	return 0;
}

void lines_delivered(struct sink_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->lines[i].fate == SINK_WAITING)
			batch->lines[i].fate = SINK_DELIVERED;
	}
}
