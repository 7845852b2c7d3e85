/* See probe.h: what reaches other sandboxes, the host's programs, and memory that nobody counts. */
#include "tests/escape/probe.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define FILL_BYTES  ((size_t)96 << 20) /* more than the driver's limit, and less than any host has */
#define FILL_PART   ((size_t)1 << 20)
#define SHARED_FILE "/usr/lib/os-release" /* every sandbox sees one of the host's */

static void unix_connect(struct attempt *a, const char *what, const char *path, size_t len)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || len > sizeof(to.sun_path)) {
		attempt_refused(a, "%s: no socket", what);
		return;
	}
	memcpy(to.sun_path, path, len);
	attempt_call(a, what,
		connect(fd, (const struct sockaddr *)&to,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)));
}

/* CVE-2020-15257: an abstract socket belongs to a network namespace, not to a file system. */
static void abstract_sockets(struct attempt *a)
{
	char name[100];
	int len = snprintf(name, sizeof(name), "%cescape-%.60s", '\0', a->token);
	unix_connect(a, "the caller's abstract socket", name, (size_t)len);
}

/* Sockets in folders, which a read-only mount does not close. */
static void daemon_sockets(struct attempt *a)
{
	char path[100];
	(void)snprintf(path, sizeof(path), "%.80s/daemon.sock", a->folder);
	unix_connect(a, "the caller's socket", path, strlen(path) + 1);
	static const char *const known[] = {"/run/docker.sock", "/run/dbus/system_bus_socket",
		"/run/containerd/containerd.sock"};
	for (size_t i = 0; i < array_size(known); i++)
		unix_connect(a, known[i], known[i], strlen(known[i]) + 1);
}

/* Services that trust whoever comes from this machine. */
static void host_loopback(struct attempt *a)
{
	static const char *const addresses[] = {"127.0.0.1", "127.0.0.2"}; /* no packet leaves */
	for (size_t i = 0; i < array_size(addresses); i++) {
		struct sockaddr_in to = {
			.sin_family = AF_INET, .sin_port = htons((uint16_t)a->port)};
		(void)inet_pton(AF_INET, addresses[i], &to.sin_addr);
		auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct pollfd ready = {fd, POLLOUT, 0};
		if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
			(errno != EINPROGRESS || poll(&ready, 1, 300) <= 0))
			attempt_refused(a, "%s: %s", addresses[i], strerrorname_np(errno));
		else if (attempt_says_token(a, fd))
			attempt_reached(a, "%s: the host's listener", addresses[i]);
		else
			attempt_refused(a, "%s: nothing", addresses[i]);
	}
}

/* nsjail: memory of System V, which no limit of files counts and which goes when the kernel comes to it. */
static void ipc_objects(struct attempt *a)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	attempt_call(a, "shmget", id);
	if (id >= 0)
		(void)shmctl(id, IPC_RMID, NULL);
	long messages = syscall(SYS_msgget, IPC_PRIVATE, 0600);
	attempt_call(a, "msgget", messages);
	if (messages >= 0)
		(void)syscall(SYS_msgctl, messages, IPC_RMID, NULL);
	long semaphores = syscall(SYS_semget, IPC_PRIVATE, 1, 0600);
	attempt_call(a, "semget", semaphores);
	if (semaphores >= 0)
		(void)syscall(SYS_semctl, semaphores, 0, IPC_RMID, NULL);
	long queue = syscall(SYS_mq_open, "escape", O_CREAT | O_RDWR | O_EXCL, 0600, NULL);
	attempt_call(a, "mq_open", queue);
	if (queue >= 0)
		(void)syscall(SYS_mq_unlink, "escape");
}

static const char *const SHARED[] = {"/dev/shm", "/tmp", "/var/tmp", "/run/lock", "/dev/mqueue"};

/* Two of these meet: `leave` goes on until it is killed, `shared-files` comes later. */
static void leave_shared(struct attempt *a)
{
	char path[PATH_MAX];
	for (size_t i = 0; i < array_size(SHARED); i++) {
		(void)snprintf(path, sizeof(path), "%s/escape-%s", SHARED[i], a->token);
		auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd >= 0)
			(void)!write(fd, a->token, strlen(a->token)); /* the other one looks */
	}
	(void)alarm(0);
	int file = open(SHARED_FILE, O_RDONLY | O_CLOEXEC);
	(void)flock(file, LOCK_EX);
	(void)printf("left\n");
	(void)fflush(stdout);
	for (;;) { /* what inotify of the other would see */
		int again = open(SHARED_FILE, O_RDONLY | O_CLOEXEC);
		fd_close(&again);
		(void)usleep(10000);
	}
}

/* isolate 2.4: folders that two sandboxes share. */
static void shared_files(struct attempt *a)
{
	char path[PATH_MAX];
	for (size_t i = 0; i < array_size(SHARED); i++) {
		(void)snprintf(path, sizeof(path), "%s/escape-%s", SHARED[i], a->token);
		if (attempt_is_secret(a, path))
			attempt_reached(a, "%s is shared", SHARED[i]);
		else
			attempt_refused(a, "%s: %s", SHARED[i], strerrorname_np(errno));
	}
}

/* isolate 2.5: locks and events of one file that both see. */
static void shared_locks(struct attempt *a)
{
	auto_fd file = open(SHARED_FILE, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		attempt_refused(a, "no file of the host: %s", strerrorname_np(errno));
		return;
	}
	if (flock(file, LOCK_EX | LOCK_NB) < 0)
		attempt_reached(a, "a lock of the other one is seen");
	else
		attempt_refused(a, "no lock is seen");
	auto_fd events = inotify_init1(IN_CLOEXEC);
	struct pollfd ready = {events, POLLIN, 0};
	if (inotify_add_watch(events, SHARED_FILE, IN_OPEN) < 0)
		attempt_refused(a, "inotify: %s", strerrorname_np(errno));
	else if (poll(&ready, 1, 500) > 0)
		attempt_reached(a, "the other one's open() is seen");
	else
		attempt_refused(a, "no event is seen");
}

/* Writes @bytes to @fd. @return how many fit. */
static size_t fill(int fd, size_t bytes)
{
	static char part[FILL_PART];
	size_t done = 0;
	memset(part, 1, sizeof(part));
	while (done < bytes) {
		ssize_t got = write(fd, part, sizeof(part));
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

/* moby 39004: memory in files, beyond the limit. */
static void memory_files(struct attempt *a)
{
	auto_fd anonymous = (int)syscall(SYS_memfd_create, "escape", 1U /* MFD_CLOEXEC */);
	auto_fd shared = open("/dev/shm/escape", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	(void)unlink("/dev/shm/escape");
	size_t half = fill(shared, FILL_BYTES / 2);
	size_t all = half + fill(anonymous, FILL_BYTES / 2);
	if (all >= FILL_BYTES)
		attempt_reached(a, "%zu MiB held in files", all >> 20);
	else
		attempt_refused(a, "%zu MiB fit", all >> 20);
}

const struct probe PROBES_CHANNELS[] = {{"abstract-sockets", abstract_sockets},
	{"daemon-sockets", daemon_sockets}, {"host-loopback", host_loopback},
	{"ipc-objects", ipc_objects}, {"leave", leave_shared}, {"shared-files", shared_files},
	{"shared-locks", shared_locks}, {"memory-files", memory_files}, {NULL, NULL}};
