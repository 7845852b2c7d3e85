/* The world's server of the benchmark: one process, an event loop, as cheap as it can be. See load.h. */
#include "tests/bench/load.h"

#include <fcntl.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS      256
#define HEAD_BYTES  2048
#define BLOCK_BYTES 65536

struct connection {
	int fd;
	SSL *tls; /* NULL: plain */
	bool greeted;
	char in[HEAD_BYTES];
	size_t in_len;
	char head[128]; /* of the answer */
	size_t head_at, head_len;
	uint64_t left; /* bytes of its body */
};

static char block[BLOCK_BYTES];

/** What read and write say: > 0 bytes, 0 = wait, < 0 = over. */
static int outcome(struct connection *c, int n)
{
	if (n > 0)
		return n;
	if (c->tls == NULL)
		return n < 0 && errno == EAGAIN ? 0 : -1;
	int error = SSL_get_error(c->tls, n);
	return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static int take(struct connection *c, char *to, size_t len)
{
	return outcome(c,
		c->tls != NULL ? SSL_read(c->tls, to, (int)len)
			       : (int)recv(c->fd, to, len, MSG_DONTWAIT));
}

static int give(struct connection *c, const char *from, size_t len)
{
	return outcome(c,
		c->tls != NULL ? SSL_write(c->tls, from, (int)len)
			       : (int)send(c->fd, from, len, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static void begin_answer(struct connection *c)
{
	unsigned long long size = strlen(LOAD_BODY);
	(void)sscanf(c->in, "GET /b/%llu", &size); /* else the small one */
	c->left = size;
	c->head_at = 0;
	c->head_len = (size_t)snprintf(
		c->head, sizeof(c->head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n", size);
	if (size == strlen(LOAD_BODY)) { /* by one write */
		memcpy(c->head + c->head_len, LOAD_BODY, strlen(LOAD_BODY));
		c->head_len += strlen(LOAD_BODY);
		c->left = 0;
	}
}

/** @return > 0: an answer is under way; 0: wait; < 0: over. */
static int listen_to(struct connection *c)
{
	int n = take(c, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len);
	if (n <= 0)
		return n;
	c->in_len += (size_t)n;
	c->in[c->in_len] = '\0';
	const char *end = strstr(c->in, "\r\n\r\n");
	if (end == NULL)
		return c->in_len < sizeof(c->in) - 1 ? 1 : -1;
	begin_answer(c);
	c->in_len = 0; /* no client here sends the next request before the answer */
	return 1;
}

static int speak(struct connection *c)
{
	bool head = c->head_at < c->head_len;
	size_t len = c->left < BLOCK_BYTES ? (size_t)c->left : BLOCK_BYTES;
	int n = head ? give(c, c->head + c->head_at, c->head_len - c->head_at)
		     : give(c, block, len);
	if (n > 0 && head)
		c->head_at += (size_t)n;
	else if (n > 0)
		c->left -= (uint64_t)n;
	return n;
}

static int drive(struct connection *c)
{
	for (;;) {
		int n;
		if (c->tls != NULL && !c->greeted) {
			n = outcome(c, SSL_accept(c->tls));
			c->greeted = n > 0;
		} else {
			n = c->head_at < c->head_len || c->left > 0 ? speak(c) : listen_to(c);
		}
		if (n <= 0)
			return n;
	}
}

static int listener(uint16_t port)
{
	struct sockaddr_in at = load_loopback(port);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* bind() says it */
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 4096) < 0)
		load_fail("origin");
	return fd;
}

static void admit(int loop, int from, SSL_CTX *tls)
{
	int fd, on = 1;
	while ((fd = accept4(from, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct connection *c = calloc(1, sizeof(*c));
		struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
		if (c == NULL)
			load_fail("origin");
		c->fd = fd;
		c->tls = tls != NULL ? SSL_new(tls) : NULL;
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower */
		if (c->tls != NULL)
			SSL_set_fd(c->tls, fd);
		if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0)
			load_fail("origin");
	}
}

static SSL_CTX *context(const char *certificate, const char *key)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
	if (tls == NULL || SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
		SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
		load_fail("origin: certificate");
	SSL_CTX_set_mode(tls,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_RELEASE_BUFFERS);
	return tls;
}

int load_origin(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	SSL_CTX *tls = context(argv[3], argv[4]);
	int listeners[2] = {listener((uint16_t)atoi(argv[1])), listener((uint16_t)atoi(argv[2]))};
	int loop = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < 2; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listeners[i]};
		(void)epoll_ctl(loop, EPOLL_CTL_ADD, listeners[i], &event); /* else nobody comes */
	}
	for (;;) {
		struct epoll_event events[EVENTS];
		int count = epoll_wait(loop, events, EVENTS, -1);
		for (int i = 0; i < count; i++) {
			struct connection *c = events[i].data.ptr;
			if (events[i].data.ptr == &listeners[0])
				admit(loop, listeners[0], NULL);
			else if (events[i].data.ptr == &listeners[1])
				admit(loop, listeners[1], tls);
			else if (drive(c) < 0) {
				SSL_free(c->tls);
				(void)close(c->fd);
				free(c);
			}
		}
	}
}
