/*
 * The supervisor with everything around it faked: the test is launcher and netd, and worker_run() below is a worker that
 * obeys the id of the sandbox it is given. Keeper and recorder are real, and so is their confinement.
 */
#include "tests/unit/cmocka_setup.h"

#include "audit/segment.h"
#include "audit/summary.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/privilege.h"
#include "ipc/channel.h"
#include "policy/source.h"
#include "proxy/keeper.h"
#include "proxy/leaf.h"
#include "proxy/super.h"
#include "proxy/worker.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define WAIT_NS   (60 * NS_PER_SEC)
#define PROXY_UID 4100000 /* nobody's */

/* --- the worker --- */

static void put_event(const struct worker_context *c, bool finish, const char *host)
{
	char uid[UUID_TEXT_BYTES];
	struct audit_event e = {.class = AUDIT_HTTP,
		.activity = 3,
		.reason = REASON_ALLOW_RULE,
		.uid = uuid_new(uid),
		.sandbox_id = "sb-test",
		.host = slice_of(host),
		.destination_port = 443,
		.method = SLICE("GET"),
		.path = SLICE("/")};
	struct buf packed = {0};
	assert_int_equal(audit_event_pack(&e, AUDIT_SLOT_BYTES_MAX, &packed), 0);
	int slot = audit_ring_open(c->ring, buf_slice(&packed));
	assert_true(slot >= 0);
	if (finish)
		assert_int_equal(audit_ring_finish(c->ring, slot, buf_slice(&packed)), 0);
	buf_fini(&packed);
}

/** What a confined worker can do and must not; NULL when all of it fails. */
static const char *forbidden(void)
{
	struct {
		const char *what;
		long result;
	} tries[] = {
		{"open", syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY, 0)},
		{"open parent", syscall(SYS_openat, AT_FDCWD, "../../etc/passwd", O_RDONLY, 0)},
		{"kill", syscall(SYS_kill, 1, 0)},
		{"unix socket", syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0)},
		{"raw socket", syscall(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_TCP)},
		{"packet socket", syscall(SYS_socket, AF_PACKET, SOCK_DGRAM, 0)},
		{"netfilter socket", syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 12)},
		{"dumpable", syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)},
		{"fork", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0 ? 0 : -1},
		{"executable memory", syscall(SYS_mmap, NULL, 4096, 7, 0x22, -1, 0) == -1 ? -1 : 0},
		{"mkdir", syscall(SYS_mkdirat, AT_FDCWD, "x", 0700)},
		{"memory file", syscall(SYS_memfd_create, "x", 0)},
	};
	for (size_t i = 0; i < array_size(tries); i++) {
		if (tries[i].result >= 0)
			return tries[i].what;
	}
	int inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (inet < 0 || route < 0)
		return "an internet or route socket, which it needs";
	if (getpid() != 1)
		return "see other pids";
	return NULL;
}

static size_t mint(const struct worker_context *c, const char *name)
{
	struct failure why = {0};
	struct leaf_key *key;
	assert_int_equal(leaf_key_new(&key, &why), 0);
	struct slice public_key = leaf_key_public(key);
	struct keeper_request request = {.id = 7, .public_key_len = (uint16_t)public_key.len};
	struct keeper_reply reply;
	(void)snprintf(request.name, sizeof(request.name), "%s", name);
	memcpy(request.public_key, public_key.ptr, public_key.len);
	assert_int_equal(channel_send(c->keeper_fd, &request, sizeof(request), NULL, 0), 0);
	assert_int_equal(
		channel_receive(c->keeper_fd, &reply, sizeof(reply), NULL, 0, NULL), sizeof(reply));
	assert_int_equal(reply.id, 7);
	leaf_key_free(key);
	return reply.der_len;
}

/** Do what the id says. @return false: the worker is to end; *ret_refusal: why it does not take the sandbox, or NULL. */
static bool serve(const struct worker_context *c, const char *id, const char **ret_refusal)
{
	*ret_refusal = NULL;
	if (strcmp(id, "sb-die") == 0) {
		put_event(c, true, "finished.test");
		put_event(c, false, "open.test");
		return false;
	}
	if (strcmp(id, "sb-exec") == 0) {
		(void)syscall(SYS_execve, "/bin/true", NULL, NULL);
		return false;
	}
	if (strcmp(id, "sb-log") == 0) {
		put_event(c, true, "logged.test");
		if (audit_ring_wants_wake(c->ring))
			assert_int_equal(write(c->recorder_fd, "", 1), 1);
	}
	if (strcmp(id, "sb-mint") == 0 &&
		(mint(c, "allowed.test") == 0 || mint(c, "denied.test") != 0))
		*ret_refusal = "keeper";
	if (strcmp(id, "sb-room") == 0 && !audit_ring_has_room(c->ring, 0))
		*ret_refusal = "no room";
	if (strcmp(id, "sb-probe") == 0)
		*ret_refusal = forbidden();
	return true;
}

int worker_run(const struct worker_context *c)
{
	for (;;) {
		struct message_sandbox m;
		const char *refusal;
		int got = channel_receive(c->channel_fd, &m, sizeof(m), NULL, 0, NULL);
		if (got <= 0)
			return 0;
		if (m.header.kind == MESSAGE_PROXY_FINISH) {
			m.header.kind = MESSAGE_PROXY_FINISHED;
			(void)channel_send(c->channel_fd, &m.header, sizeof(m.header), NULL, 0);
			return 0;
		}
		if (m.header.kind == MESSAGE_SANDBOX_REMOVE) {
			put_event(c, true, "removed.test");
			m.header.kind = MESSAGE_SANDBOX_REMOVED;
			(void)channel_send(c->channel_fd, &m, sizeof(m), NULL, 0);
			continue;
		}
		if (m.header.kind != MESSAGE_SANDBOX_ADD)
			continue;
		if (!serve(c, m.sandbox_id, &refusal))
			return 3;
		m.header.kind = MESSAGE_SANDBOX_ADDED;
		if (refusal != NULL)
			message_send_failed(c->channel_fd, -EPERM, refusal);
		else
			(void)channel_send(c->channel_fd, &m, sizeof(m), NULL, 0);
	}
}

/* --- launcher and netd --- */

struct rig {
	char folder[64], segment[128];
	unsigned long disk_bytes; /* not 0: the folder is a file system of this size */
	int folder_fd, segment_fd;
	int launcher, netd; /* our ends */
	pid_t super;
	bool in_namespace, says_recorded;
	unsigned workers;
	struct message_proxy_ready ready;
};

static int listener(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(fd >= 0);
	return fd;
}

/** As super_run() is called: in a process of its own, perhaps as root of a user namespace. */
static pid_t start_super(struct rig *rig, int launcher_fd, int netd_fd)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	if (rig->in_namespace &&
		(privilege_change_user(PROXY_UID, PROXY_UID) < 0 ||
			prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ||
			privilege_enter_user_namespace() < 0))
		_exit(77);
	_exit(super_run(launcher_fd, netd_fd));
}

static void send_start(struct rig *rig, const char *rule)
{
	struct message_proxy_start start = {.header = {.kind = MESSAGE_PROXY_START},
		.workers = rig->workers,
		.says_recorded = rig->says_recorded,
		.uid = rig->in_namespace ? 0 : PROXY_UID};
	struct failure why = {0};
	struct buf bundle = {0};
	int fds[CHANNEL_FDS_MAX];
	size_t count = 0;
	assert_int_equal(policy_source_rules(&rule, 1, &bundle, &why), 0);
	fds[count++] = file_memory("policy", buf_slice(&bundle));
	fds[count++] = fcntl(rig->segment_fd, F_DUPFD_CLOEXEC, 0);
	for (unsigned i = 0; i < rig->workers; i++) {
		char id[32];
		(void)snprintf(id, sizeof(id), "run.%u", i);
		fds[count++] = audit_ring_create(rig->folder_fd, id, AUDIT_RING_SLOTS, &why);
	}
	fds[count++] = file_memory("roots", SLICE(""));
	assert_int_equal(channel_send(rig->launcher, &start, sizeof(start), fds, count), 0);
	for (size_t i = 0; i < count; i++)
		fd_close(&fds[i]);
	buf_fini(&bundle);
}

static void send_listeners(struct rig *rig)
{
	struct message_listeners m = {
		.header = {.kind = MESSAGE_LISTENERS}, .count = rig->workers, .kinds = 1};
	int fds[MESSAGE_WORKERS_MAX];
	for (unsigned i = 0; i < rig->workers; i++)
		fds[i] = listener();
	assert_int_equal(channel_send(rig->netd, &m, sizeof(m), fds, rig->workers), 0);
	for (unsigned i = 0; i < rig->workers; i++)
		fd_close(&fds[i]);
}

/** In a mount namespace of the test's own. */
static void mount_disk(struct rig *rig)
{
	char options[64];
	(void)snprintf(options, sizeof(options), "mode=0700,size=%lu", rig->disk_bytes);
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("none", rig->folder, "tmpfs", 0, options), 0);
}

/** What the launcher writes first; its chain is what the recorder continues. */
static void put_start(int segment_fd)
{
	struct failure why = {0};
	struct audit_segment *segment;
	struct audit_event e = {
		.class = AUDIT_PROCESS, .reason = REASON_SANDBOX_START, .sandbox_id = "run"};
	assert_int_equal(audit_segment_attach(segment_fd, "run", &segment, &why), 0);
	assert_int_equal(audit_segment_append_event(segment, &e), 0);
	audit_segment_free(segment);
}

static void rig_open(struct rig *rig, bool in_namespace, unsigned workers)
{
	struct failure why = {0};
	int launcher[2], netd[2];
	*rig = (struct rig){.in_namespace = in_namespace,
		.workers = workers,
		.says_recorded = rig->says_recorded,
		.disk_bytes = rig->disk_bytes};
	(void)snprintf(rig->folder, sizeof(rig->folder), "/tmp/eclusa-super-XXXXXX");
	assert_non_null(mkdtemp(rig->folder));
	if (rig->disk_bytes != 0)
		mount_disk(rig);
	rig->folder_fd = audit_folder_open(rig->folder, &why);
	rig->segment_fd = audit_segment_create(
		rig->folder_fd, "run", rig->segment, sizeof(rig->segment), &why);
	assert_true(rig->segment_fd >= 0);
	put_start(rig->segment_fd);
	assert_int_equal(channel_pair(launcher), 0);
	assert_int_equal(channel_pair(netd), 0);
	rig->launcher = launcher[0];
	rig->netd = netd[0];
	rig->super = start_super(rig, launcher[1], netd[1]);
	fd_close(&launcher[1]);
	fd_close(&netd[1]);
}

static int hear(int fd, void *message, size_t capacity)
{
	return channel_receive_until(
		fd, clock_monotonic_ns() + WAIT_NS, message, capacity, NULL, 0, NULL);
}

/** Up to READY; the CA's certificate comes before it. */
static void rig_start(struct rig *rig, bool in_namespace, unsigned workers)
{
	rig_open(rig, in_namespace, workers);
	send_start(rig, "allowed.test");
	send_listeners(rig);
	int got = hear(rig->launcher, &rig->ready, sizeof(rig->ready));
	struct message_proxy_ready early = rig->ready;
	if (got == sizeof(early) && early.header.kind == MESSAGE_PROXY_CA)
		got = hear(rig->launcher, &rig->ready, sizeof(rig->ready));
	if (got == sizeof(struct message_failed))
		print_message("%s\n", ((struct message_failed *)(void *)&rig->ready)->text);
	assert_int_equal(got, sizeof(rig->ready));
	assert_int_equal(rig->ready.header.kind, MESSAGE_PROXY_READY);
	assert_int_equal(early.header.kind, MESSAGE_PROXY_CA);
	assert_string_equal(early.ca_pem, rig->ready.ca_pem);
	assert_non_null(strstr(rig->ready.ca_pem, "BEGIN CERTIFICATE"));
}

static int reap(struct rig *rig)
{
	int status;
	assert_int_equal(waitpid(rig->super, &status, 0), rig->super);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void rig_close(struct rig *rig)
{
	char ring[64];
	fd_close(&rig->launcher);
	fd_close(&rig->netd);
	for (unsigned i = 0; i < rig->workers; i++) {
		(void)snprintf(ring, sizeof(ring), "open/run.%u.ring", i);
		(void)unlinkat(rig->folder_fd, ring, 0);
	}
	audit_segment_close(rig->folder_fd, rig->segment);
	assert_int_equal(unlinkat(rig->folder_fd, rig->segment, 0), 0);
	assert_int_equal(unlinkat(rig->folder_fd, "open", AT_REMOVEDIR), 0);
	fd_close(&rig->segment_fd);
	fd_close(&rig->folder_fd);
	if (rig->disk_bytes != 0)
		assert_int_equal(umount2(rig->folder, MNT_DETACH), 0);
	assert_int_equal(rmdir(rig->folder), 0);
}

static void add(struct rig *rig, const char *id, uint8_t octet)
{
	struct message_sandbox m = {.header = {.kind = MESSAGE_SANDBOX_ADD},
		.address = {.family = 4, .bytes = {10, 0, 0, octet}}};
	(void)snprintf(m.sandbox_id, sizeof(m.sandbox_id), "%s", id);
	(void)snprintf(m.profile, sizeof(m.profile), "run");
	assert_int_equal(channel_send(rig->netd, &m, sizeof(m), NULL, 0), 0);
}

static void expect_added(struct rig *rig, const char *id)
{
	union {
		struct message_sandbox sandbox;
		struct message_sandbox_told refused;
	} m;
	int got = hear(rig->netd, &m, sizeof(m));
	if (got == sizeof(m.refused))
		print_message("a worker can: %s\n", m.refused.text);
	assert_int_equal(got, sizeof(m.sandbox));
	assert_int_equal(m.sandbox.header.kind, MESSAGE_SANDBOX_ADDED);
	assert_string_equal(m.sandbox.sandbox_id, id);
}

static void finish(struct rig *rig)
{
	struct message_header m = {.kind = MESSAGE_PROXY_FINISH};
	assert_int_equal(channel_send(rig->launcher, &m, sizeof(m), NULL, 0), 0);
	assert_int_equal(hear(rig->launcher, &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.kind, MESSAGE_PROXY_FINISHED);
	assert_int_equal(reap(rig), 0);
}

static struct audit_summary sum(struct rig *rig)
{
	struct audit_summary s = {0};
	assert_int_equal(audit_summary_read(rig->segment_fd, "sb-test", &s), 0);
	return s;
}

static bool segment_has(struct rig *rig, const char *text)
{
	struct buf all = {0};
	assert_int_equal(lseek(rig->segment_fd, 0, SEEK_SET), 0);
	assert_int_equal(file_read_fd(rig->segment_fd, 1 << 20, &all), 0);
	bool found = memmem(buf_slice(&all).ptr, buf_len(&all), text, strlen(text)) != NULL;
	buf_fini(&all);
	return found;
}

/* --- tests --- */

static void run_whole_life(bool in_namespace)
{
	struct rig rig = {0};
	rig_start(&rig, in_namespace, 2);
	add(&rig, "sb-log", 3);
	expect_added(&rig, "sb-log");
	add(&rig, "sb-probe", 5);
	expect_added(&rig, "sb-probe");
	add(&rig, "sb-mint", 7);
	expect_added(&rig, "sb-mint");
	finish(&rig);
	struct audit_summary s = sum(&rig);
	assert_int_equal(s.allowed, 1);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void serves_and_records_as_its_own_uid(void **state)
{
	(void)state;
	run_whole_life(false);
}

static void serves_and_records_in_a_user_namespace(void **state)
{
	(void)state;
	run_whole_life(true);
}

static void completes_the_ring_of_a_dead_worker_and_starts_another(void **state)
{
	(void)state;
	struct rig rig = {0};
	rig_start(&rig, false, 1);
	add(&rig, "sb-a", 3);
	expect_added(&rig, "sb-a");
	add(&rig, "sb-die", 5); /* dies each time it is told, until it is removed */
	for (uint64_t end = clock_monotonic_ns() + WAIT_NS; !segment_has(&rig, "open.test");)
		assert_true(clock_monotonic_ns() < end);
	struct message_sandbox gone = {.header = {.kind = MESSAGE_SANDBOX_REMOVE},
		.sandbox_id = "sb-die",
		.address = {.family = 4, .bytes = {10, 0, 0, 5}}};
	assert_int_equal(channel_send(rig.netd, &gone, sizeof(gone), NULL, 0), 0);
	add(&rig, "sb-b", 7);
	expect_added(&rig, "sb-b");
	finish(&rig);
	struct audit_summary s = sum(&rig);
	assert_true(s.allowed >= 2 && s.allowed % 2 == 0);
	assert_true(segment_has(&rig, "\"event_code\":\"audit.recovered\""));
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void a_worker_that_executes_is_killed(void **state)
{
	(void)state;
	struct rig rig = {0};
	struct message_failed m;
	rig_start(&rig, false, 1);
	add(&rig, "sb-exec", 3); /* restarted, told again, killed again: given up */
	int got;
	while ((got = hear(rig.launcher, &m, sizeof(m))) > 0 && m.header.kind != MESSAGE_FAILED)
		continue;
	assert_int_equal(got, sizeof(m));
	assert_non_null(strstr(m.text, "times in a row"));
	assert_int_equal(reap(&rig), 1);
	rig_close(&rig);
}

/** Pid of a child of super by its name. */
static pid_t member_pid(struct rig *rig, const char *name)
{
	char path[64];
	struct buf text = {0};
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", rig->super, rig->super);
	assert_int_equal(file_read(AT_FDCWD, path, 4096, &text), 0);
	assert_int_equal(buf_append(&text, (struct slice){"", 1}), 0);
	pid_t found = -1;
	char *rest = text.data;
	for (long pid = strtol(rest, &rest, 10); pid > 0; pid = strtol(rest, &rest, 10)) {
		struct buf comm = {0};
		(void)snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
		if (file_read(AT_FDCWD, path, 64, &comm) == 0 &&
			slice_starts(buf_slice(&comm), slice_of(name)))
			found = (pid_t)pid;
		buf_fini(&comm);
	}
	buf_fini(&text);
	return found;
}

/** The same, once it is confined: it has its name first and its filter last. */
static pid_t confined_pid(struct rig *rig, const char *name)
{
	char path[64];
	for (uint64_t end = clock_monotonic_ns() + WAIT_NS; clock_monotonic_ns() < end;) {
		struct buf text = {0};
		pid_t pid = member_pid(rig, name);
		(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
		bool filtered = pid > 0 && file_read(AT_FDCWD, path, 8192, &text) == 0 &&
			buf_append(&text, (struct slice){"", 1}) == 0 &&
			strstr(text.data, "Seccomp:\t2") != NULL;
		buf_fini(&text);
		if (filtered)
			return pid;
		(void)sched_yield(); /* the next look tells */
	}
	fail_msg("%s isn't confined in time", name);
	return -1;
}

/** What the kernel says of a process, against what must be said. */
static void expect_status(pid_t pid, bool confined)
{
	static const char *const lines[] = {"CapInh:\t0000000000000000",
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
		"Uid:\t4100000\t4100000\t4100000\t4100000", "Seccomp:\t2"};
	char path[64];
	struct stat st;
	struct buf text = {0};
	assert_true(pid > 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	assert_int_equal(file_read(AT_FDCWD, path, 8192, &text), 0);
	assert_int_equal(buf_append(&text, (struct slice){"", 1}), 0);
	for (size_t i = 0; i < array_size(lines) - !confined; i++) {
		if (strstr(text.data, lines[i]) == NULL)
			fail_msg("%d lacks %s", pid, lines[i]);
	}
	/* Files of an unreadable process belong to root (PR_SET_DUMPABLE in prctl(2)). */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 0);
	buf_fini(&text);
}

static bool same_namespace(pid_t a, pid_t b, const char *kind)
{
	char path[64];
	struct stat of_a, of_b;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", a, kind);
	assert_int_equal(stat(path, &of_a), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", b, kind);
	assert_int_equal(stat(path, &of_b), 0);
	return of_a.st_ino == of_b.st_ino;
}

/** Entries of a folder of /proc. */
static size_t count_entries(pid_t pid, const char *what)
{
	char path[64];
	size_t count = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	DIR *dir = opendir(path);
	struct dirent *entry;
	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	(void)closedir(dir);
	return count;
}

static void members_have_nothing_that_they_do_not_need(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool network; /* of the host */
		size_t fds;   /* 0-2 and what its role needs, at most */
	} members[] = {{"eclusa-worker", true, 3 + 6}, {"eclusa-keeper", false, 3 + 3},
		{"eclusa-recorder", true, 3 + 7}};
	struct rig rig = {0};
	rig_start(&rig, false, 1);
	add(&rig, "sb-a", 3);
	expect_added(&rig, "sb-a");
	expect_status(rig.super, false);
	for (size_t i = 0; i < array_size(members); i++) {
		pid_t pid = confined_pid(&rig, members[i].name);
		expect_status(pid, true);
		assert_false(same_namespace(pid, rig.super, "user"));
		assert_false(same_namespace(pid, rig.super, "pid"));
		assert_false(same_namespace(pid, rig.super, "mnt"));
		assert_int_equal(same_namespace(pid, rig.super, "net"), members[i].network);
		assert_int_equal(count_entries(pid, "root"), 0);
		assert_true(count_entries(pid, "fd") <= members[i].fds);
	}
	finish(&rig);
	rig_close(&rig);
}

static void survives_the_recorder(void **state)
{
	(void)state;
	struct rig rig = {0};
	rig_start(&rig, false, 1);
	assert_int_equal(kill(confined_pid(&rig, "eclusa-recorder"), SIGKILL), 0);
	add(&rig, "sb-log", 3);
	expect_added(&rig, "sb-log");
	finish(&rig);
	struct audit_summary s = sum(&rig);
	assert_int_equal(s.allowed, 1);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void drop(struct rig *rig, const char *id, uint8_t octet)
{
	struct message_sandbox gone = {.header = {.kind = MESSAGE_SANDBOX_REMOVE},
		.address = {.family = 4, .bytes = {10, 0, 0, octet}}};
	(void)snprintf(gone.sandbox_id, sizeof(gone.sandbox_id), "%s", id);
	assert_int_equal(channel_send(rig->netd, &gone, sizeof(gone), NULL, 0), 0);
}

/** Whether the worker may allow, in its own words. */
static bool has_room(struct rig *rig, uint8_t octet)
{
	union {
		struct message_header header;
		struct message_sandbox sandbox;
		struct message_sandbox_told refused;
	} m;
	add(rig, "sb-room", octet);
	assert_true(hear(rig->netd, &m, sizeof(m)) > 0);
	bool room = m.header.kind == MESSAGE_SANDBOX_ADDED;
	drop(rig, "sb-room", octet);
	return room;
}

static void a_full_disk_denies_until_there_is_room_again(void **state)
{
	(void)state;
	struct rig rig = {.disk_bytes = 16UL << 20};
	static const char block[4096];
	rig_start(&rig, false, 1);
	assert_true(has_room(&rig, 3));
	auto_fd filler = openat(rig.folder_fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(filler >= 0);
	while (write(filler, block, sizeof(block)) > 0)
		continue;
	uint64_t end = clock_monotonic_ns() + WAIT_NS;
	do { /* until a line finds no room in the segment and waits in the ring */
		assert_true(clock_monotonic_ns() < end);
		add(&rig, "sb-log", 5);
		expect_added(&rig, "sb-log");
		drop(&rig, "sb-log", 5);
	} while (has_room(&rig, 3));
	assert_int_equal(unlinkat(rig.folder_fd, "filler", 0), 0);
	assert_int_equal(ftruncate(filler, 0), 0);
	while (!has_room(&rig, 3))
		assert_true(clock_monotonic_ns() < end);
	assert_true(segment_has(&rig, "logged.test"));
	finish(&rig);
	rig_close(&rig);
}

/** Who asked for it is told of a sandbox's end, and everything is in the log by then. */
static void says_when_a_sandbox_is_recorded(void **state)
{
	(void)state;
	struct rig rig = {.says_recorded = true};
	struct message_sandbox_told told;
	rig_start(&rig, false, 2);
	add(&rig, "sb-a", 3);
	expect_added(&rig, "sb-a");
	drop(&rig, "sb-a", 3);
	assert_int_equal(hear(rig.launcher, &told, sizeof(told)), sizeof(told));
	assert_int_equal(told.header.kind, MESSAGE_SANDBOX_RECORDED);
	assert_string_equal(told.sandbox_id, "sb-a");
	assert_int_equal(told.code, 0);
	assert_true(segment_has(&rig, "removed.test"));
	finish(&rig);
	rig_close(&rig);
}

/** A refusal names the sandbox: others may wait as well. */
static void names_the_sandbox_that_it_refuses(void **state)
{
	(void)state;
	struct rig rig = {0};
	struct message_sandbox_told told;
	rig_start(&rig, false, 1);
	add(&rig, "sb-a", 3);
	add(&rig, "sb-a", 5); /* there is one of that name */
	assert_int_equal(hear(rig.netd, &told, sizeof(told)), sizeof(told));
	assert_int_equal(told.header.kind, MESSAGE_SANDBOX_REFUSED);
	assert_string_equal(told.sandbox_id, "sb-a");
	assert_int_equal(told.code, -EEXIST);
	finish(&rig);
	rig_close(&rig);
}

static void ends_with_the_keeper(void **state)
{
	(void)state;
	struct rig rig = {0};
	struct message_failed m;
	rig_start(&rig, false, 1);
	assert_int_equal(kill(member_pid(&rig, "eclusa-keeper"), SIGKILL), 0);
	assert_int_equal(hear(rig.launcher, &m, sizeof(m)), sizeof(m));
	assert_non_null(strstr(m.text, "keeper"));
	assert_int_equal(reap(&rig), 1);
	rig_close(&rig);
}

static void ends_with_either_channel(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) {
		struct rig rig = {0};
		rig_start(&rig, false, 1);
		fd_close(which == 0 ? &rig.launcher : &rig.netd);
		assert_int_equal(reap(&rig), 0);
		rig_close(&rig);
	}
}

static void nothing_survives_a_killed_supervisor(void **state)
{
	(void)state;
	struct rig rig = {0};
	struct failure why = {0};
	struct audit_segment *segment;
	rig_start(&rig, false, 2);
	add(&rig, "sb-log", 3);
	expect_added(&rig, "sb-log");
	assert_int_equal(kill(rig.super, SIGKILL), 0);
	(void)reap(&rig);
	assert_int_equal(audit_segment_attach(rig.segment_fd, NULL, &segment, &why), 0);
	/* Complete only once no process holds the rings, so this waits for the workers' death. */
	assert_true(audit_ring_complete(rig.folder_fd, "run.0", segment) >= 0);
	assert_true(audit_ring_complete(rig.folder_fd, "run.1", segment) >= 0);
	audit_segment_free(segment);
	struct audit_summary s = sum(&rig);
	assert_int_equal(s.allowed, 1);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void refuses_what_it_cannot_start_with(void **state)
{
	(void)state;
	struct rig rig = {0};
	struct message_failed m;
	struct message_proxy_start bad = {.header = {.kind = MESSAGE_PROXY_START}, .workers = 1};
	rig_open(&rig, false, 1);
	assert_int_equal(channel_send(rig.launcher, &bad, sizeof(bad), NULL, 0), 0);
	assert_int_equal(hear(rig.launcher, &m, sizeof(m)), sizeof(m));
	assert_non_null(strstr(m.text, "malformed"));
	assert_int_equal(reap(&rig), 1);
	rig_close(&rig);
}

int main(void)
{
	if (geteuid() != 0) {
		print_message("needs root\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(serves_and_records_as_its_own_uid),
		cmocka_unit_test(serves_and_records_in_a_user_namespace),
		cmocka_unit_test(completes_the_ring_of_a_dead_worker_and_starts_another),
		cmocka_unit_test(a_worker_that_executes_is_killed),
		cmocka_unit_test(members_have_nothing_that_they_do_not_need),
		cmocka_unit_test(survives_the_recorder),
		cmocka_unit_test(a_full_disk_denies_until_there_is_room_again),
		cmocka_unit_test(says_when_a_sandbox_is_recorded),
		cmocka_unit_test(names_the_sandbox_that_it_refuses),
		cmocka_unit_test(ends_with_the_keeper),
		cmocka_unit_test(ends_with_either_channel),
		cmocka_unit_test(nothing_survives_a_killed_supervisor),
		cmocka_unit_test(refuses_what_it_cannot_start_with),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
