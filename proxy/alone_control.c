/* The control socket of the proxy alone. Its peers are this user and root, and are trusted no further: one question each. */
#include "proxy/alone_state.h"

#include "common/cleanup.h"
#include "ipc/channel.h"
#include "ipc/control.h"

void alone_accept(struct alone *a)
{
	int fd = control_accept(a->control_fd);
	struct alone_client *free_one = NULL;
	for (size_t i = 0; i < ALONE_CLIENTS_MAX; i++) {
		if (a->clients[i].fd < 0)
			free_one = &a->clients[i];
	}
	if (fd >= 0 && free_one != NULL)
		*free_one = (struct alone_client){.fd = fd};
	else if (fd >= 0)
		fd_close(&fd); /* who finds it full may ask again */
}

static void client_end(struct alone_client *c)
{
	fd_close(&c->fd);
	c->asks = c->waits = false;
}

void alone_hear_client(struct alone *a, struct alone_client *c)
{
	struct control_request request;
	int got = channel_receive(c->fd, &request, sizeof(request), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got != (int)sizeof(request) || request.header.kind != CONTROL_RELOAD) {
		client_end(c); /* gone, or speaks another language */
		return;
	}
	c->asks = true;
	alone_want(a, ALONE_ASKED);
}

void alone_answer(struct alone *a, const struct control_answer *answer)
{
	for (size_t i = 0; i < ALONE_CLIENTS_MAX; i++) {
		struct alone_client *c = &a->clients[i];
		if (c->fd < 0 || !c->waits)
			continue;
		(void)channel_send(
			c->fd, answer, sizeof(*answer), NULL, 0); /* who left is not told */
		client_end(c);
	}
}
