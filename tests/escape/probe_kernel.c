/* See probe.h: what of the kernel's surface a program is given. Numbers and structures are enough to see a refusal. */
#include "tests/escape/probe.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/rtnetlink.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define X32_BIT 0x40000000L
#define ROUNDS  100 /* of the race */

/* A descriptor that a call gave is closed at once. */
static void try_fd(struct attempt *a, const char *what, long fd)
{
	attempt_call(a, what, fd);
	if (fd > 2)
		(void)close((int)fd);
}

/* CVE-2021-41133: every way to change mounts. A mount that is made is taken away. */
static void mount_calls(struct attempt *a)
{
	(void)mkdir("/tmp/mounted", 0700); /* may be there */
	long r = mount("none", "/tmp/mounted", "tmpfs", 0, "size=4k");
	attempt_call(a, "mount", r);
	if (r == 0)
		(void)umount2("/tmp/mounted", MNT_DETACH);
	(void)rmdir("/tmp/mounted");
	try_fd(a, "fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	try_fd(a, "open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */));
	try_fd(a, "fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0));
	attempt_call(a, "pivot_root", syscall(SYS_pivot_root, "/nowhere", "/nowhere"));
	attempt_call(a, "chroot", chroot("/"));
}

/* moby 46762: a ring does what the filter does not see. */
static void io_uring(struct attempt *a)
{
	struct io_uring_params params = {0};
	try_fd(a, "io_uring_setup", syscall(SYS_io_uring_setup, 4, &params));
	for (int i = 0; i < 2; i++) {
		long number = i == 0 ? SYS_io_uring_enter : SYS_io_uring_register;
		long r = syscall(number, -1, 0, 0, 0, NULL, 0);
		bool there = r < 0 && errno != ENOSYS && errno != EPERM;
		if (there)
			attempt_reached(a, "%s: %s, so it exists",
				i == 0 ? "io_uring_enter" : "io_uring_register",
				strerrorname_np(errno));
		else
			attempt_refused(a, "%s: %s",
				i == 0 ? "io_uring_enter" : "io_uring_register",
				strerrorname_np(errno));
	}
}

struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static void in_child(struct attempt *a, const char *what, int flags)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(unshare(flags) == 0 ? 0 : errno);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		attempt_refused(a, "%s: killed", what);
	else if (WEXITSTATUS(status) == 0)
		attempt_reached(a, "%s: worked", what);
	else
		attempt_refused(a, "%s: %s", what, strerrorname_np(WEXITSTATUS(status)));
}

/* CVE-2022-0185, CVE-2022-32250, CVE-2023-32233, CVE-2024-1086: all begin with a user namespace. */
static void user_namespaces(struct attempt *a)
{
	struct clone3_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	in_child(a, "unshare(user)", CLONE_NEWUSER);
	in_child(a, "unshare(user, net)", CLONE_NEWUSER | CLONE_NEWNET);
	for (int i = 0; i < 2; i++) {
		long pid = i == 0 ? syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
				  : syscall(SYS_clone3, &args, sizeof(args));
		if (pid == 0)
			_exit(0);
		attempt_call(a, i == 0 ? "clone(user)" : "clone3(user)", pid);
		if (pid > 0)
			(void)waitpid((pid_t)pid, NULL, 0);
	}
	auto_fd other = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
	attempt_call(a, "setns", other < 0 ? -1 : setns(other, CLONE_NEWNET));
}

/* The second step of the same: the packet filter, which needs no device. */
static void packet_filter(struct attempt *a)
{
	struct {
		struct nlmsghdr head;
		uint8_t family, version;
		uint16_t number;
	} get = {{20, 0x0a10 /* NFT_MSG_GETGEN: of nftables, 10 << 8 | 16 */, NLM_F_REQUEST, 1, 0},
		0, 0, 0};
	auto_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	attempt_call(a, "socket(netlink, netfilter)", fd);
	if (fd >= 0 && send(fd, &get, sizeof(get), 0) < 0)
		attempt_refused(a, "send: %s", strerrorname_np(errno));
	auto_fd raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 255);
	attempt_call(a, "socket(raw)", raw);
}

/* A request of route netlink and the kernel's answer: 0 or an error. */
static int ask_route(int fd, void *request, uint32_t bytes)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char more[512];
	} answer = {0};
	((struct nlmsghdr *)request)->nlmsg_len = bytes;
	if (send(fd, request, bytes, 0) < 0 || recv(fd, &answer, sizeof(answer), 0) < 0)
		return -errno;
	return answer.head.nlmsg_type == NLMSG_ERROR ? answer.error.error : -EPROTO;
}

/* An answer that a program without a right over its network does not get. */
static void judge_answer(struct attempt *a, const char *what, int error)
{
	if (error == -EPERM || error == -EACCES)
		attempt_refused(a, "%s: %s", what, strerrorname_np(-error));
	else
		attempt_reached(a, "%s: %s", what, error == 0 ? "worked" : "not refused");
}

/*
 * Links, addresses and settings of the network that the program is in, which may be the host's: so what is asked for changes
 * nothing. An address that is not there is removed, and a link that is not there gets another size of packets.
 */
static void network_changes(struct attempt *a)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
		struct rtattr size;
		uint32_t mtu;
	} change = {{0, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0}, {.ifi_index = INT32_MAX},
		{8, IFLA_MTU}, 1500};
	struct {
		struct nlmsghdr head;
		struct ifaddrmsg address;
		struct rtattr local;
		uint8_t bytes[4];
	} remove = {{0, RTM_DELADDR, NLM_F_REQUEST | NLM_F_ACK, 2, 0}, {AF_INET, 32, 0, 0, 1},
		{8, IFA_LOCAL}, {192, 0, 2, 222}};
	auto_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0) {
		attempt_refused(a, "socket: %s", strerrorname_np(errno));
	} else {
		judge_answer(a, "remove an address", ask_route(fd, &remove, sizeof(remove)));
		judge_answer(a, "change a link", ask_route(fd, &change, sizeof(change)));
	}
	attempt_open(a, "/proc/sys/net/ipv4/ip_forward", O_WRONLY);
	attempt_open(a, "/proc/sys/net/ipv4/conf/all/route_localnet", O_WRONLY);
}

/* CVE-2017-7308, CVE-2021-26708, CVE-2022-0185's kin: families of sockets that few programs need. */
static void socket_families(struct attempt *a)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} families[] = {{"packet", AF_PACKET, SOCK_RAW, 0}, {"vsock", AF_VSOCK, SOCK_STREAM, 0},
		{"alg", AF_ALG, SOCK_SEQPACKET, 0}, {"key", AF_KEY, SOCK_RAW, 2},
		{"can", AF_CAN, SOCK_RAW, 1}, {"tipc", AF_TIPC, SOCK_SEQPACKET, 0},
		{"bluetooth", AF_BLUETOOTH, SOCK_RAW, 1}, {"xdp", AF_XDP, SOCK_RAW, 0},
		{"netlink audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
		{"netlink xfrm", AF_NETLINK, SOCK_RAW, NETLINK_XFRM}};
	for (size_t i = 0; i < array_size(families); i++)
		try_fd(a, families[i].name,
			socket(families[i].family, families[i].type | SOCK_CLOEXEC,
				families[i].protocol));
}

#ifdef __x86_64__
static long entry32(long number, long first)
{
	long r = number;
	__asm__ volatile("int $0x80" : "+a"(r) : "b"(first) : "memory", "r8", "r9", "r10", "r11");
	return r;
}

static long x32_getpid(void)
{
	return syscall(SYS_getpid | X32_BIT);
}

static long i386_getpid(void)
{
	return entry32(20, 0);
}

static long i386_unshare(void)
{
	return entry32(310, CLONE_NEWUTS);
}

static void foreign_call(struct attempt *a, const char *what, long (*call)(void))
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		long r = call();
		_exit(r > 0 ? 0 : r == 0 ? 254 : r == -1 ? errno : (int)-r);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		attempt_refused(a, "%s: no process", what);
	else if (WIFSIGNALED(status))
		attempt_refused(a, "%s: SIG%s", what, sigabbrev_np(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 254)
		attempt_reached(a, "%s: worked", what);
	else
		attempt_refused(a, "%s: %s", what, strerrorname_np(WEXITSTATUS(status)));
}

/* Calls of other architectures, whose numbers a filter of the native ones does not know. */
static void foreign_calls(struct attempt *a)
{
	foreign_call(a, "x32 getpid", x32_getpid);
	foreign_call(a, "i386 getpid", i386_getpid);
	foreign_call(a, "i386 unshare", i386_unshare);
}
#else
static void foreign_calls(struct attempt *a)
{
	attempt_refused(a, "there are none");
}
#endif

/* Calls that almost no program needs, and by which many escapes began. */
static void kernel_surface(struct attempt *a)
{
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	struct perf_event_attr event = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(event), .exclude_kernel = 1};
	try_fd(a, "bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)));
	try_fd(a, "perf_event_open", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
	try_fd(a, "userfaultfd", syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY));
	try_fd(a, "fanotify_init", syscall(SYS_fanotify_init, 0, 0));
	struct {
		unsigned bytes;
		int type;
		unsigned char handle[128];
	} at = {.bytes = 128};
	int mount_id;
	if (syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &at, &mount_id, 0) == 0) {
		auto_fd root = open("/", O_RDONLY | O_CLOEXEC); /* CVE-2014-9357: "shocker" */
		try_fd(a, "open_by_handle_at", syscall(SYS_open_by_handle_at, root, &at, O_RDONLY));
	} else {
		attempt_refused(a, "name_to_handle_at: %s", strerrorname_np(errno));
	}
	attempt_call(a, "kcmp", syscall(SYS_kcmp, getpid(), getppid(), 0, 0, 0));
	attempt_call(a, "syslog", syscall(SYS_syslog, 10 /* size of the buffer */, NULL, 0));
	attempt_call(a, "personality", syscall(SYS_personality, 0x0040000 /* no randomisation */));
}

/* Keys of a user outlive its processes, and others of the user read them. */
static void keyrings(struct attempt *a)
{
	char name[64];
	(void)snprintf(name, sizeof(name), "escape-%.40s", a->token);
	long key = syscall(SYS_add_key, "user", name, "x", 1, KEY_SPEC_USER_KEYRING);
	attempt_call(a, "add_key", key);
	if (key > 0)
		(void)syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING);
	attempt_call(a, "keyctl",
		syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
	attempt_call(a, "request_key", syscall(SYS_request_key, "user", name, NULL, 0));
}

static char racing_type[16] = "nosuchtype";
static volatile bool racing = true, started;

static void *race(void *unused)
{
	(void)unused;
	started = true;
	for (bool other = false; racing; other = !other)
		memcpy(racing_type, other ? "tmpfs\0    " : "nosuchtype", 10);
	return NULL;
}

/* sandlock 27 and 111: arguments that change between who checks and who does. */
static void argument_race(struct attempt *a)
{
	pthread_t thread;
	int worked = 0;
	(void)mkdir("/tmp/raced", 0700); /* may be there */
	if (pthread_create(&thread, NULL, race, NULL) != 0) {
		attempt_refused(a, "no thread");
		return;
	}
	while (!started)
		(void)sched_yield();
	for (int i = 0; i < ROUNDS; i++) {
		(void)usleep(20);
		if (mount("none", "/tmp/raced", racing_type, 0, "size=4k") != 0)
			continue;
		worked++;
		(void)umount2("/tmp/raced", MNT_DETACH);
	}
	racing = false;
	(void)pthread_join(thread, NULL);
	(void)rmdir("/tmp/raced");
	if (worked > 0)
		attempt_reached(a, "%d of %d calls worked", worked, ROUNDS);
	else
		attempt_refused(a, "none of %d calls worked", ROUNDS);
}

const struct probe PROBES_KERNEL[] = {{"mount-calls", mount_calls}, {"io-uring", io_uring},
	{"user-namespaces", user_namespaces}, {"packet-filter", packet_filter},
	{"socket-families", socket_families}, {"foreign-calls", foreign_calls},
	{"kernel-surface", kernel_surface}, {"keyrings", keyrings},
	{"network-changes", network_changes}, {"argument-race", argument_race}, {NULL, NULL}};
