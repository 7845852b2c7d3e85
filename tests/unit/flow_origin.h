/* An origin that behaves as its request's path says, in processes of its own. What it heard goes to a file. */
#ifndef ECLUSA_TESTS_UNIT_FLOW_ORIGIN_H
#define ECLUSA_TESTS_UNIT_FLOW_ORIGIN_H

#include "tests/unit/flow_lab.h"
#include "tests/unit/tls_lab.h"

#include <sys/mman.h>

#define ORIGIN_HEAD_BYTES 65536
#define ORIGIN_BIG_BYTES  ((size_t)1 << 20)

struct origin {
	uint16_t port;
	pid_t pid;
	int log_fd;  /* shared by all its processes */
	int gate[2]; /* a byte lets one that waits for it go on */
};

/** One connection of the origin, plain or TLS. */
struct origin_peer {
	int fd;
	SSL *ssl;
	const struct origin *origin;
	bool ends; /* with the next request, unanswered */
};

static inline ssize_t peer_read(struct origin_peer *p, char *to, size_t len)
{
	return p->ssl != NULL ? SSL_read(p->ssl, to, (int)len) : read(p->fd, to, len);
}

static inline void peer_write(struct origin_peer *p, struct slice text)
{
	if (p->ssl == NULL)
		(void)file_write_all(p->fd, text);
	else if (text.len > 0)
		(void)SSL_write(p->ssl, text.ptr, (int)text.len);
}

static inline void peer_say(struct origin_peer *p, const char *text)
{
	peer_write(p, slice_of(text));
}

/** A head, byte by byte, so that nothing behind it is taken. @return false at the end. */
static inline bool peer_head(struct origin_peer *p, char *to)
{
	size_t len = 0;
	while (len < ORIGIN_HEAD_BYTES - 1 && peer_read(p, to + len, 1) == 1) {
		(void)file_write_all(p->origin->log_fd, (struct slice){to + len, 1});
		len++;
		to[len] = '\0';
		if (len >= 4 && memcmp(to + len - 4, "\r\n\r\n", 4) == 0)
			return true;
	}
	return false;
}

/** One line without its end, as text. */
static inline bool peer_line(struct origin_peer *p, char to[static 32])
{
	size_t len = 0;
	while (len < 31 && peer_read(p, to + len, 1) == 1) {
		if (to[len++] == '\n') {
			to[len - 2] = '\0';
			return true;
		}
	}
	return false;
}

static inline uint64_t peer_skip(struct origin_peer *p, uint64_t len)
{
	uint64_t got = 0;
	char byte;
	while (got < len && peer_read(p, &byte, 1) == 1)
		got++;
	return got;
}

/** Read the request's body. @return its length. */
static inline size_t peer_body(struct origin_peer *p, const char *head)
{
	const char *field = strstr(head, "Content-Length: ");
	uint64_t len = 0, got = 0;
	char line[32];
	if (field != NULL) {
		field += strlen("Content-Length: ");
		(void)slice_decimal(
			(struct slice){field, strcspn(field, "\r")}, 1 << 30, false, &len);
		return peer_skip(p, len);
	}
	while (strstr(head, "Transfer-Encoding: chunked") != NULL && peer_line(p, line) &&
		slice_hex(slice_of(line), 1 << 30, &len) == 0) {
		got += peer_skip(p, len);
		(void)peer_line(p, line);
		if (len == 0)
			break;
	}
	return got;
}

/** @return whether the connection goes on. */
static inline bool peer_answer(struct origin_peer *p, const char *head)
{
	const char *path = strchr(head, '/');
	char text[256], byte;
	if (path == NULL || p->ends)
		return false;
	p->ends = strncmp(path, "/last", 5) == 0;
	if (strncmp(path, "/extra", 6) == 0) {
		peer_say(p,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ninjected");
	} else if (strncmp(path, "/chunked", 8) == 0) {
		peer_say(p,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-T: 1\r\n\r\n");
	} else if (strncmp(path, "/cut", 4) == 0) {
		peer_say(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n");
		return false;
	} else if (strncmp(path, "/silent", 7) == 0) {
		(void)!read(p->origin->gate[0], &byte, 1);
		return false;
	} else if (strncmp(path, "/continue", 9) == 0) {
		peer_say(p,
			"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
			"HTTP/1.1 100 Continue\r\n\r\n");
		size_t got = peer_body(p, head);
		(void)snprintf(text, sizeof(text),
			"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%04zu", got);
		peer_say(p, text);
	} else if (strncmp(path, "/early", 6) == 0) {
		peer_say(p, "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");
		return false;
	} else if (strncmp(path, "/switch", 7) == 0) {
		peer_say(p,
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
	} else if (strncmp(path, "/big", 4) == 0) {
		static char block[4096];
		memset(block, 'x', sizeof(block));
		(void)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
			ORIGIN_BIG_BYTES);
		peer_say(p, text);
		for (size_t sent = 0; sent < ORIGIN_BIG_BYTES; sent += sizeof(block))
			peer_write(p, (struct slice){block, sizeof(block)});
	} else if (strncmp(head, "HEAD", 4) == 0) {
		peer_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 1488324\r\n\r\n");
	} else {
		size_t got = peer_body(p, head);
		(void)snprintf(text, sizeof(text),
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nAlt-Svc: h3=\":1\"\r\n"
			"Connection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 9\r\n\r\nbody %04zu",
			got);
		peer_say(p, text);
	}
	return true;
}

static inline void origin_connection(struct origin_peer *p)
{
	static char head[ORIGIN_HEAD_BYTES];
	if (p->ssl != NULL && SSL_accept(p->ssl) != 1) {
		(void)file_write_all(p->origin->log_fd, SLICE("<handshake failed>\n"));
		return;
	}
	while (peer_head(p, head) && peer_answer(p, head))
		continue;
}

static inline void origin_serve(const struct origin *o, int listener, SSL_CTX *ctx)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGCHLD, &ignore, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			_exit(0);
		(void)file_write_all(o->log_fd, SLICE("<connection>\n"));
		if (fork() == 0) {
			struct origin_peer p = {.fd = fd, .origin = o};
			if (ctx != NULL) {
				p.ssl = SSL_new(ctx);
				(void)SSL_set_fd(p.ssl, fd);
			}
			origin_connection(&p);
			_exit(0);
		}
		(void)close(fd);
	}
}

/** @certificate NULL: plain HTTP. */
static inline void origin_start(struct origin *o, const struct lab *certificate)
{
	int listener = lab_listener(&o->port);
	o->log_fd = memfd_create("origin", MFD_CLOEXEC);
	assert_true(o->log_fd >= 0);
	assert_int_equal(fcntl(o->log_fd, F_SETFL, O_APPEND), 0);
	assert_int_equal(pipe2(o->gate, O_CLOEXEC), 0);
	o->pid = fork();
	assert_true(o->pid >= 0);
	if (o->pid == 0) {
		lab_child();
		SSL_CTX *ctx = NULL;
		if (certificate != NULL) {
			ctx = SSL_CTX_new(TLS_server_method());
			(void)SSL_CTX_use_certificate(ctx, certificate->certificate);
			(void)SSL_CTX_use_PrivateKey(ctx, certificate->key);
		}
		(void)close(o->gate[1]);
		origin_serve(o, listener, ctx);
	}
	fd_close(&listener);
	fd_close(&o->gate[0]);
}

/** All that was heard so far, NUL-terminated; valid until the next call. */
static inline const char *origin_heard(const struct origin *o)
{
	static char heard[1 << 20];
	ssize_t len = pread(o->log_fd, heard, sizeof(heard) - 1, 0);
	assert_true(len >= 0);
	heard[len] = '\0';
	return heard;
}

static inline void origin_stop(struct origin *o)
{
	fd_close(&o->gate[1]);
	(void)kill(o->pid, SIGKILL);
	(void)lab_reap(o->pid);
	fd_close(&o->log_fd);
}

#endif
