/* See dial.h. */
#include "proxy/dial.h"

#include "common/cleanup.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

struct dial_attempt {
	uv_poll_t poll;
	int fd;
	struct dial *dial;
	struct address address;
	struct dial_attempt *next;
};

struct dial {
	uv_loop_t *loop;
	uint32_t delay_ms;
	dial_wake *wake;
	void *arg;
	uv_timer_t timer; /* when the next address is tried beside */
	struct admitted_address addresses[DIAL_ADDRESSES_MAX];
	size_t count;
	size_t tried;
	struct dial_attempt *attempts; /* under way */
	enum dial_status status;
	int fd; /* the connected one */
	struct address address;
	int error;
};

static void dial_next(struct dial *d);

static void on_attempt_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/** Take it off the list; its descriptor is closed unless it was taken before. */
static void attempt_end(struct dial_attempt *a)
{
	struct dial_attempt **at = &a->dial->attempts;
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	uv_close((uv_handle_t *)&a->poll, on_attempt_closed);
	fd_close(&a->fd);
}

static void dial_decide(struct dial *d, enum dial_status status)
{
	d->status = status;
	(void)uv_timer_stop(&d->timer); /* can't fail */
	while (d->attempts != NULL)
		attempt_end(d->attempts);
	if (d->wake != NULL)
		d->wake(d->arg);
}

static void dial_won(struct dial *d, int fd, const struct address *address)
{
	d->fd = fd;
	d->address = *address;
	d->error = 0;
	dial_decide(d, DIAL_CONNECTED);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct dial_attempt *a = poll->data;
	struct dial *d = a->dial;
	int error = 0;
	socklen_t len = sizeof(error);
	(void)status; /* an error of the socket: it says so itself */
	(void)events;
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0) {
		struct address address = a->address;
		int fd = fd_take(&a->fd);
		attempt_end(a);
		dial_won(d, fd, &address);
		return;
	}
	d->error = error;
	d->address = a->address;
	attempt_end(a);
	dial_next(d);
}

static int attempt_socket(const struct admitted_address *to, bool *ret_pending)
{
	struct sockaddr_storage sa;
	socklen_t len = address_to_sockaddr(&to->checked.address, to->checked.port, &sa);
	int on = 1;
	auto_fd fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* Without it heads and bodies wait for one another's acknowledgement; no reason to fail. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	*ret_pending = false;
	if (connect(fd, (struct sockaddr *)&sa, len) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		*ret_pending = true;
	}
	return fd_take(&fd);
}

/** @return 0: under way or connected; negative errno: failed at once. */
static int attempt_start(struct dial *d, const struct admitted_address *to)
{
	bool pending = false;
	auto_fd fd = attempt_socket(to, &pending);
	if (fd < 0)
		return fd;
	if (!pending) {
		dial_won(d, fd_take(&fd), &to->checked.address);
		return 0;
	}
	struct dial_attempt *a = calloc(1, sizeof(*a));
	if (a == NULL)
		return -ENOMEM;
	if (uv_poll_init(d->loop, &a->poll, fd) < 0) {
		free(a);
		return -ENOMEM;
	}
	a->poll.data = a;
	a->fd = fd_take(&fd);
	a->dial = d;
	a->address = to->checked.address;
	a->next = d->attempts;
	d->attempts = a;
	if (uv_poll_start(&a->poll, UV_WRITABLE, on_writable) < 0) {
		attempt_end(a);
		return -ENOMEM;
	}
	return 0;
}

static void on_delay(uv_timer_t *timer)
{
	dial_next(timer->data);
}

/** Try the next address; when none is left and none is under way, all have failed. */
static void dial_next(struct dial *d)
{
	while (d->status == DIAL_WAIT && d->tried < d->count) {
		const struct admitted_address *to = &d->addresses[d->tried++];
		int r = attempt_start(d, to);
		if (r == 0) {
			if (d->status == DIAL_WAIT && d->tried < d->count)
				(void)uv_timer_start(
					&d->timer, on_delay, d->delay_ms, 0); /* can't fail */
			return;
		}
		d->error = -r;
		d->address = to->checked.address;
	}
	if (d->status == DIAL_WAIT && d->attempts == NULL)
		dial_decide(d, DIAL_FAILED);
}

/** Families take turns, beginning with that of the first address. */
static void dial_order(struct dial *d, const struct admitted_address *from, size_t count)
{
	size_t at[2] = {0, 0}; /* next of the first one's family, next of the other */
	uint8_t first = from[0].checked.address.family;
	for (unsigned turn = 0; d->count < DIAL_ADDRESSES_MAX; turn++) {
		size_t *i = &at[turn % 2];
		while (*i < count && (from[*i].checked.address.family == first) != (turn % 2 == 0))
			(*i)++;
		if (*i < count)
			d->addresses[d->count++] = from[(*i)++];
		if (at[0] >= count && at[1] >= count)
			break;
	}
}

struct dial *dial_start(uv_loop_t *loop, const struct limits *limits,
	const struct admitted_address *addresses, size_t count)
{
	assert(count > 0);
	struct dial *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return NULL;
	*d = (struct dial){.loop = loop, .delay_ms = limits->dial_delay_ms, .fd = -1};
	(void)uv_timer_init(loop, &d->timer); /* can't fail */
	d->timer.data = d;
	dial_order(d, addresses, count);
	dial_next(d);
	return d;
}

void dial_notify(struct dial *d, dial_wake *wake, void *arg)
{
	d->wake = wake;
	d->arg = arg;
}

enum dial_status dial_result(const struct dial *d, struct address *ret_address, int *ret_error)
{
	*ret_address = d->address;
	*ret_error = d->error;
	return d->status;
}

int dial_take(struct dial *d)
{
	return fd_take(&d->fd);
}

static void on_dial_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void dial_free(struct dial *d)
{
	if (d == NULL)
		return;
	while (d->attempts != NULL)
		attempt_end(d->attempts);
	fd_close(&d->fd);
	uv_close((uv_handle_t *)&d->timer, on_dial_closed);
}
