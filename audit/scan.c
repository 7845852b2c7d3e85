/* See scan.h. */
#include "audit/scan.h"

#include "common/cleanup.h"

/** More bytes behind those that are there. @return how many, 0 at the end of the file, negative errno. */
static ssize_t scan_fill(struct scan *s)
{
	ssize_t got;
	if (s->data == NULL)
		s->data = malloc(SCAN_BUFFER_BYTES);
	if (s->data == NULL)
		return -ENOMEM;
	memmove(s->data, s->data + s->start, s->end - s->start);
	s->end -= s->start;
	s->start = 0;
	do {
		got = read(s->fd, s->data + s->end, SCAN_BUFFER_BYTES - s->end);
	} while (got < 0 && errno == EINTR);
	s->end += got > 0 ? (size_t)got : 0;
	return got < 0 ? -errno : got;
}

int scan_next(struct scan *s, struct slice *ret)
{
	size_t looked = 0;
	for (;;) {
		size_t have = s->end - s->start;
		const char *newline = NULL;
		if (have > looked)
			newline = memchr(s->data + s->start + looked, '\n', have - looked);
		ssize_t got = 0;
		if (newline == NULL && have < SCAN_BUFFER_BYTES)
			got = scan_fill(s);
		if (got < 0)
			return (int)got;
		looked = have;
		if (newline == NULL && got > 0)
			continue;
		if (have == 0)
			return 0;
		size_t len = newline == NULL ? have : (size_t)(newline - (s->data + s->start));
		*ret = (struct slice){s->data + s->start, len};
		s->whole = newline != NULL;
		s->start += len + s->whole;
		s->bytes += len + s->whole;
		s->number++;
		return 1;
	}
}

void scan_fini(struct scan *s)
{
	free(s->data);
	s->data = NULL;
	s->start = s->end = 0;
}
