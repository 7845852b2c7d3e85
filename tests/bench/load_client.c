/* The clients of the benchmark: as many processes as there are to be at once, each with blocking sockets. See load.h. */
#include "tests/bench/load.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES_MAX  65536 /* kept of all operations */
#define READ_BYTES 65536
#define HEAD_BYTES 512

struct job {
	uint16_t port, origin_port;
	const char *front, *mode;
	bool tls;
	unsigned at_once;
	uint64_t duration_ns, operations; /* 0: no limit */
	unsigned names, first;
	int go[2]; /* a pipe that ends when all of mode keep may begin */
};

/** Shared by the processes. */
struct tally {
	_Atomic uint64_t until_ns, ready, asked, done, failed, bytes, connected;
	_Atomic uint32_t us[TIMES_MAX];
};

struct line {
	int fd;
	SSL *tls;
};

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* can't fail */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static long line_read(struct line *l, char *to, size_t len)
{
	return l->tls != NULL ? SSL_read(l->tls, to, (int)len) : recv(l->fd, to, len, 0);
}

static bool line_write(struct line *l, const char *text, size_t len)
{
	long n = l->tls != NULL ? SSL_write(l->tls, text, (int)len)
				: send(l->fd, text, len, MSG_NOSIGNAL);
	return n == (long)len;
}

/** Read a whole answer with a length. */
static bool answer(struct line *l, struct tally *t)
{
	static char text[READ_BYTES];
	size_t have = 0;
	char *end = NULL;
	while (end == NULL) {
		long n = line_read(l, text + have, sizeof(text) - 1 - have);
		if (n <= 0)
			return false;
		have += (size_t)n;
		text[have] = '\0';
		end = strstr(text, "\r\n\r\n");
	}
	const char *field = strcasestr(text, "\r\ncontent-length:");
	uint64_t length = field != NULL ? strtoull(field + 17, NULL, 10) : 0;
	uint64_t got = have - (size_t)(end + 4 - text);
	bool good = strncmp(text + 8, " 200", 4) == 0;
	while (good && got < length) {
		long n = line_read(l, text, sizeof(text));
		if (n <= 0)
			return false;
		got += (uint64_t)n;
	}
	atomic_fetch_add(&t->bytes, got);
	return good;
}

static bool open_way(struct line *l, const struct job *j, const char *host)
{
	static char head[HEAD_BYTES];
	size_t have = 0;
	int n = snprintf(head, sizeof(head), "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", host,
		j->origin_port, host, j->origin_port);
	if (send(l->fd, head, (size_t)n, MSG_NOSIGNAL) != n)
		return false;
	do {
		ssize_t r = recv(l->fd, head + have, sizeof(head) - 1 - have, 0);
		if (r <= 0)
			return false;
		have += (size_t)r;
		head[have] = '\0';
	} while (strstr(head, "\r\n\r\n") == NULL);
	return strncmp(head + 8, " 200", 4) == 0;
}

static void line_close(struct line *l)
{
	if (l->tls != NULL)
		(void)SSL_shutdown(l->tls); /* the other side may be gone */
	SSL_free(l->tls);
	(void)close(l->fd);
	*l = (struct line){.fd = -1};
}

static bool line_open(
	struct line *l, const struct job *j, SSL_CTX *tls, const char *host, struct tally *t)
{
	struct sockaddr_in at = load_loopback(j->port);
	int on = 1;
	*l = (struct line){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	(void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower */
	bool good = connect(l->fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
		(strcmp(j->front, "connect") != 0 || open_way(l, j, host));
	if (good && tls != NULL) {
		l->tls = SSL_new(tls);
		SSL_set_fd(l->tls, l->fd);
		SSL_set_tlsext_host_name(l->tls, host);
		good = SSL_connect(l->tls) == 1;
	}
	atomic_fetch_add(&t->connected, good);
	return good;
}

static bool ask(struct line *l, const struct job *j, const char *host, struct tally *t)
{
	char text[HEAD_BYTES];
	char path[64] = "/v1/rates";
	if (strcmp(j->mode, "bulk") == 0)
		(void)snprintf(path, sizeof(path), "/b/%llu",
			(unsigned long long)j->operations); /* bytes, here */
	int n = snprintf(text, sizeof(text),
		"GET %s HTTP/1.1\r\nHost: %s:%u\r\nUser-Agent: load/1\r\n\r\n", path, host,
		j->origin_port);
	return line_write(l, text, (size_t)n) && answer(l, t);
}

/** One operation. @return whether it was good. */
static bool operate(
	struct line *l, const struct job *j, SSL_CTX *tls, uint64_t number, struct tally *t)
{
	char host[64];
	bool keep = strcmp(j->mode, "keep") == 0;
	(void)snprintf(host, sizeof(host), "h%u.bench.test",
		j->first + (unsigned)((keep ? 0 : number) % j->names));
	bool good = (l->fd >= 0 || line_open(l, j, tls, host, t)) && ask(l, j, host, t);
	if ((!keep && strcmp(j->mode, "idle") != 0) || !good)
		line_close(l);
	return good;
}

/** Connect, and wait for the word to begin: the end of the pipe's other side. */
static void get_ready(struct line *l, const struct job *j, SSL_CTX *tls, struct tally *t)
{
	char end;
	if (!operate(l, j, tls, 0, t))
		atomic_fetch_add(&t->failed, 1);
	atomic_fetch_add(&t->ready, 1);
	(void)close(j->go[1]);
	(void)!read(j->go[0], &end, 1); /* its end */
}

static void work(const struct job *j, SSL_CTX *tls, struct tally *t)
{
	struct line l = {.fd = -1};
	bool idle = strcmp(j->mode, "idle") == 0;
	if (strcmp(j->mode, "keep") == 0)
		get_ready(&l, j, tls, t);
	uint64_t operations = strcmp(j->mode, "bulk") == 0 ? 1 : j->operations;
	for (;;) {
		uint64_t number = atomic_fetch_add(&t->asked, 1);
		uint64_t began = now_ns();
		if ((operations > 0 && number >= operations) || began >= atomic_load(&t->until_ns))
			return;
		if (idle)
			l.fd = -1; /* the one before stays open */
		if (!operate(&l, j, tls, number, t)) {
			atomic_fetch_add(&t->failed, 1);
			continue;
		}
		uint64_t done = atomic_fetch_add(&t->done, 1);
		atomic_store(&t->us[done % TIMES_MAX], (uint32_t)((now_ns() - began) / 1000));
	}
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void report(struct tally *t, uint64_t ns)
{
	struct rusage own, children;
	(void)getrusage(RUSAGE_SELF, &own);          /* can't fail */
	(void)getrusage(RUSAGE_CHILDREN, &children); /* can't fail */
	const struct timeval *all[] = {
		&own.ru_utime, &own.ru_stime, &children.ru_utime, &children.ru_stime};
	double cpu = 0;
	for (size_t i = 0; i < 4; i++)
		cpu += (double)all[i]->tv_sec + (double)all[i]->tv_usec / 1e6;
	uint64_t done = atomic_load(&t->done);
	size_t kept = done < TIMES_MAX ? (size_t)done : TIMES_MAX;
	qsort((void *)t->us, kept, sizeof(uint32_t), compare);
	(void)printf("{\"done\": %llu, \"failed\": %llu, \"bytes\": %llu, \"seconds\": %.6f, "
		     "\"cpu\": %.6f, \"p50_us\": %u, \"p99_us\": %u}\n",
		(unsigned long long)done, (unsigned long long)atomic_load(&t->failed),
		(unsigned long long)atomic_load(&t->bytes), (double)ns / 1e9, cpu,
		kept > 0 ? atomic_load(&t->us[kept / 2]) : 0,
		kept > 0 ? atomic_load(&t->us[kept * 99 / 100]) : 0);
	(void)fflush(stdout);
}

/** All are connected: let them ask, say so after a while, and count from the word on. @return when */
static uint64_t begin(const struct job *j, struct tally *t)
{
	char end;
	const struct timespec pause = {.tv_nsec = 1000000}, warm = {.tv_nsec = 300000000};
	while (atomic_load(&t->ready) < j->at_once)
		(void)nanosleep(&pause, NULL); /* shorter is no harm */
	(void)close(j->go[1]);
	(void)nanosleep(&warm, NULL); /* shorter is no harm */
	(void)printf("{}\n");
	(void)fflush(stdout);
	(void)!read(STDIN_FILENO, &end, 1); /* a byte, or the end */
	uint64_t began = now_ns();
	atomic_store(&t->done, 0);
	atomic_store(&t->until_ns, began + j->duration_ns);
	return began;
}

static SSL_CTX *context(void)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
	if (tls == NULL)
		load_fail("client");
	SSL_CTX_set_verify(tls, SSL_VERIFY_NONE, NULL); /* proxies.py verifies once a proxy */
	SSL_CTX_set_options(tls, SSL_OP_NO_TICKET);
	return tls;
}

int load_client(int argc, char **argv)
{
	if (argc != 11)
		return 2;
	struct job j = {.port = (uint16_t)atoi(argv[1]),
		.front = argv[2],
		.tls = argv[3][0] == '1',
		.origin_port = (uint16_t)atoi(argv[4]),
		.mode = argv[5],
		.at_once = (unsigned)atoi(argv[6]),
		.duration_ns = strtoull(argv[7], NULL, 10) * 1000000,
		.operations = strtoull(argv[8], NULL, 10),
		.names = (unsigned)atoi(argv[9]),
		.first = (unsigned)atoi(argv[10])};
	struct tally *t =
		mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	SSL_CTX *tls = j.tls ? context() : NULL;
	uint64_t began = now_ns();
	if (t == MAP_FAILED || pipe2(j.go, O_CLOEXEC) < 0)
		load_fail("client");
	atomic_store(
		&t->until_ns, strcmp(j.mode, "keep") == 0 ? UINT64_MAX : began + j.duration_ns);
	if (strcmp(j.mode, "idle") == 0) {
		char end;
		work(&j, tls, t);
		report(t, now_ns() - began);
		return read(STDIN_FILENO, &end, 1) < 0;
	}
	for (unsigned i = 0; i < j.at_once; i++) {
		pid_t pid = fork();
		if (pid < 0)
			load_fail("client");
		if (pid == 0) {
			work(&j, tls, t);
			_exit(0);
		}
	}
	if (strcmp(j.mode, "keep") == 0)
		began = begin(&j, t);
	(void)close(j.go[1]);
	while (wait(NULL) > 0)
		;
	report(t, now_ns() - began);
	return 0;
}
