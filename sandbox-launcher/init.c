/* See init.h. The order of the steps in init_confine() is the design: each says what must not be possible after it. */
#include "sandbox-launcher/init.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/privilege.h"
#include "common/resident.h"
#include "ipc/channel.h"
#include "sandbox-launcher/cpu_sampler.h"
#include "sandbox-launcher/env.h"
#include "sandbox-launcher/landlock.h"
#include "sandbox-launcher/limits.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const WRITABLE[] = {"/tmp", "/work", "/out", VIEW_HOME, "/dev/shm"};

enum {
	FD_REPORT = 3,
	FD_GO = 4,
	FD_LOADAVG = 5,
	FD_FIRST_FREE = 6
}; /* FD_LOADAVG: cpu_sampler.h */

static void report_send(int fd, struct init_report *report)
{
	(void)channel_send(fd, report, sizeof(*report), NULL, 0); /* else the launcher is gone */
}

static void fail(int fd, const struct failure *why) __attribute__((noreturn));
static void fail(int fd, const struct failure *why)
{
	struct init_report report = {.kind = INIT_REPORT_FAILED, .value = -why->code};
	(void)slice_copy(slice_of(why->text), report.text, sizeof(report.text)); /* cut when long */
	report.text[sizeof(report.text) - 1] = '\0';
	report_send(fd, &report);
	_exit(125);
}

/* The launcher holds the other end as long as it lives. */
static int wait_for_go(int go)
{
	char byte;
	ssize_t got;
	do {
		got = read(go, &byte, 1);
	} while (got < 0 && errno == EINTR);
	return got == 1 ? 0 : got == 0 ? -ESRCH : -errno;
}

/* The groups to join are made by the launcher while the sandbox's network namespace is. */
static int take_groups(const struct init_job *job)
{
	struct init_go message;
	int fds[CGROUP_PART_COUNT];
	size_t count = 0, used = 0;
	int got = channel_receive(
		job->report, &message, sizeof(message), fds, CGROUP_PART_COUNT, &count);
	if (got != (int)sizeof(message))
		return got < 0 ? got : -ESRCH;
	for (int i = 0; i < CGROUP_PART_COUNT && used < count; i++)
		if ((message.groups & 1U << i) != 0)
			job->cgroup->join[i] = fds[used++];
	return 0;
}

/* A change of credentials forgets the death signal, so it is asked for anew after each. */
static int die_with_launcher(int go)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	struct pollfd alive = {.fd = go};
	if (poll(&alive, 1, 0) < 0)
		return -errno;
	return (alive.revents & POLLHUP) != 0 ? -ESRCH : 0;
}

static int become_user(const struct init_job *job)
{
	if (job->drop_groups && setgroups(0, NULL) < 0)
		return -errno;
	if (setresgid(SANDBOX_GID, SANDBOX_GID, SANDBOX_GID) < 0 ||
		setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0)
		return -errno;
	return privilege_hide();
}

static int raise_loopback(void)
{
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return -errno;
	return 0;
}

static int take_streams(const struct init_job *job, int loadavg)
{
	auto_fd null = job->streams[0] >= 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
	int from[3] = {
		job->streams[0] >= 0 ? job->streams[0] : null, job->streams[1], job->streams[2]};
	/* out of the way first: a source may sit where another's target is */
	int moved[6];
	const int all[6] = {from[0], from[1], from[2], job->report, job->go, loadavg};
	for (int i = 0; i < (loadavg < 0 ? 5 : 6); i++) {
		moved[i] = fcntl(all[i], F_DUPFD_CLOEXEC, 64);
		if (moved[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(moved[i], i) < 0)
			return -errno;
	if (dup3(moved[3], FD_REPORT, O_CLOEXEC) < 0 || dup3(moved[4], FD_GO, O_CLOEXEC) < 0)
		return -errno;
	fd_close(&null);
	if (loadavg < 0)
		return privilege_close_from(FD_LOADAVG);
	if (dup3(moved[5], FD_LOADAVG, O_CLOEXEC) < 0)
		return -errno;
	return privilege_close_from(FD_FIRST_FREE);
}

/* The launcher must have the listener before a call can wait for it; nobody in here may keep it. */
static int load_filter(const struct filter_program *filter, struct probe_facts *facts)
{
	auto_fd listener = -1;
	struct init_report report = {.kind = INIT_REPORT_LISTENER};
	int r = filter_load(filter, &listener);
	if (r < 0 || listener < 0)
		return r;
	facts->layers |= LAYER_BIT(LAYER_NOTIFY);
	return channel_send(FD_REPORT, &report, sizeof(report), &listener, 1);
}

/* uid 0 means nothing, and none of this can be undone (capabilities(7)) */
#define SECURE_BITS                                                                                \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                           \
		SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |                          \
		SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* Absolute paths of what may be written to. @return how many, or negative errno. */
static int writable_paths(const struct view *v, char ***ret)
{
	char **paths = calloc(array_size(WRITABLE) + v->count, sizeof(*paths));
	int count = 0;
	for (size_t i = 0; paths != NULL && i < array_size(WRITABLE); i++)
		if ((paths[count] = strdup(WRITABLE[i])) != NULL)
			count++;
	for (size_t i = 0; paths != NULL && i < v->count; i++) {
		enum view_kind kind = v->items[i].kind;
		if ((kind == VIEW_BIND || kind == VIEW_BIND_FILE || kind == VIEW_TMPFS) &&
			asprintf(&paths[count], "/%s", v->items[i].path) >= 0)
			count++;
	}
	*ret = paths;
	return paths == NULL ? -ENOMEM : count;
}

static int restrict_files(const struct init_job *job, struct probe_facts *facts)
{
	char **paths;
	int count = writable_paths(job->mounts.view, &paths);
	int abi = count < 0 ? count : landlock_apply((const char *const *)paths, (size_t)count);
	for (int i = 0; i < count; i++)
		free(paths[i]);
	free(paths);
	facts->landlock_abi = abi < 0 ? 0 : abi;
	if (abi > 0 && landlock_holds(WRITABLE[0]))
		facts->layers |= LAYER_BIT(LAYER_LANDLOCK);
	return abi < 0 ? abi : 0;
}

/* Must not be possible: that the program starts where a layer that it needs does not hold. */
static int check_layers(
	const struct init_job *job, const struct probe_facts *facts, struct failure *why)
{
	const uint32_t elsewhere = LAYER_BIT(LAYER_DIAL_GUARD); /* the launcher sees to it */
	char names[256];
	uint32_t missing = (LAYERS_ALWAYS | job->spec->required) & ~(facts->layers | elsewhere);
	if (missing == 0)
		return 0;
	return failure_set(why, -EPERM, "%s: %s: it does not hold as seen from inside the sandbox",
		(missing & LAYERS_ALWAYS) != 0 ? "layers of the sandbox" : "--require",
		layers_text(missing, names, sizeof(names)));
}

#define STEP(call, ...)                                                                            \
	do {                                                                                       \
		int step_r = (call);                                                               \
		if (step_r < 0) {                                                                  \
			(void)failure_errno(why, step_r, __VA_ARGS__);                             \
			return step_r;                                                             \
		}                                                                                  \
	} while (0)

/*
 * should: work under every supported kernel for root and for an ordinary user.
 * must not be possible after each step:
 */
static int init_confine(
	const struct init_job *job, int *report, struct probe_facts *facts, struct failure *why)
{
	(void)umask(022);                        /* returns the old mask; can't fail */
	(void)prctl(PR_SET_NAME, "eclusa-init"); /* for people who list processes */
	/* getting a signal that the caller sends to its process group: the launcher passes it on, once */
	STEP(setsid() < 0 ? -errno : 0, "can't make a session");
	/* outliving the launcher */
	STEP(die_with_launcher(job->go), "the launcher is gone");
	/* going before every other program of the host; a group may also refuse such a process */
	STEP(limits_leave_realtime(), "can't leave the real-time class");
	/* reaching any network: what takes longest, and needs nothing of what the launcher does meanwhile */
	if (job->own_network) {
		STEP(unshare(CLONE_NEWNET) < 0 ? -errno : 0, "can't make a network namespace");
		STEP(raise_loopback(), "can't raise lo");
	}
	/* going on as an unmapped user */
	STEP(take_groups(job), "the launcher is gone");
	/* using memory, processor or processes that are not counted */
	STEP(cgroup_join(job->cgroup), "can't join the control group");
	/* touching files of the caller's uid or groups (root); being read by other processes */
	STEP(become_user(job), "can't become the sandbox's user");
	STEP(die_with_launcher(job->go), "the launcher is gone");
	if (probe_cgroup(job->cgroup))
		facts->layers |= LAYER_BIT(LAYER_CGROUP);
	/* seeing the host's control groups */
	STEP(unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0, "can't make a control group namespace");
	STEP(sethostname("sandbox", 7) < 0 ? -errno : 0, "can't name the host");
	/* naming a file of the host that is not in the view */
	auto_fd loadavg = -1;
	bool samples = job->cgroup->kind == CGROUP_NONE;
	int r = mounts_enter(&job->mounts, samples ? &loadavg : NULL, why);
	if (r < 0)
		return r;
	/* holding any descriptor of the launcher but streams, report and go */
	STEP(take_streams(job, loadavg), "can't set up the streams");
	loadavg = -1; /* closed with the rest */
	*report = FD_REPORT;
	/* dumping core on the host, opening without bound */
	STEP(limits_apply(job->spec, job->cgroup->kind != CGROUP_NONE),
		"can't set resource limits");
	/* gaining: no capability in any set, none by exec */
	STEP(prctl(PR_SET_SECUREBITS, SECURE_BITS, 0, 0, 0) < 0 ? -errno : 0,
		"can't lock securebits");
	STEP(privilege_drop_all(), "can't drop capabilities");
	STEP(privilege_hide(), "can't hide from the sandbox");
	STEP(die_with_launcher(FD_GO), "the launcher is gone");
	/* writing elsewhere than the mounts let, should a mount be wrong */
	STEP(restrict_files(job, facts), "can't restrict files by Landlock");
	/* calling what is not in the table; last, as it refuses what the steps above did */
	STEP(load_filter(job->filter, facts), "can't load the system call filter");
	probe_inside(&job->outside, facts);
	return 0;
}

/* Where a shell would find the program. @return 0 or -ENOENT, -EACCES. */
static int find_program(const char *name, char *ret_path, size_t capacity)
{
	if (strchr(name, '/') != NULL)
		return slice_copy(slice_of(name), ret_path, capacity);
	int r = -ENOENT;
	struct slice rest = SLICE(ENV_PATH), folder;
	while (rest.len > 0) {
		if (!slice_split(rest, ':', &folder, &rest)) {
			folder = rest;
			rest.len = 0;
		}
		struct stat st;
		int len =
			snprintf(ret_path, capacity, "%.*s/%s", (int)folder.len, folder.ptr, name);
		if (len < 0 || (size_t)len >= capacity || stat(ret_path, &st) < 0 ||
			!S_ISREG(st.st_mode))
			continue;
		if (access(ret_path, X_OK) == 0)
			return 0;
		r = -EACCES;
	}
	return r;
}

/*
 * A session of its own (no controlling terminal to push input into), no signal blocked or ignored. posix_spawn() shares
 * our memory until exec, which saves copying it.
 */
static int spawn_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	short flags = POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	int r = posix_spawnattr_init(attributes);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes, flags);
	return -r;
}

/* @return 0, or the negative errno that a shell turns into 126 or 127. */
static int start_program(const struct init_job *job, pid_t *ret_program)
{
	char path[PATH_MAX];
	posix_spawnattr_t attributes;
	int r = find_program(job->spec->argv.items[0], path, sizeof(path));
	if (r == 0)
		r = spawn_attributes(&attributes);
	if (r == 0)
		r = -posix_spawn(
			ret_program, path, NULL, &attributes, job->spec->argv.items, job->env);
	return r;
}

static uint64_t time_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * NS_PER_SEC + (uint64_t)t->tv_usec * 1000;
}

static void report_usage(const struct init_job *job, struct init_report *report)
{
	struct rusage own, children;
	if (getrusage(RUSAGE_SELF, &own) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
		return;
	report->cpu_ns = time_ns(&own.ru_utime) + time_ns(&own.ru_stime) +
		time_ns(&children.ru_utime) + time_ns(&children.ru_stime);
	report->memory_peak_bytes = (uint64_t)children.ru_maxrss * 1024;
	char room[VIEW_PATH_BYTES + 1];
	const char *full = mounts_full(job->mounts.view, room);
	if (full != NULL)
		(void)slice_copy(
			slice_of(full), report->text, sizeof(report->text)); /* cut at worst */
	report->text[sizeof(report->text) - 1] = '\0';
}

/* @cpu_ns: what is known beyond those that were reaped. */
static void finish(const struct init_job *job, enum init_report_kind kind, int value,
	uint64_t cpu_ns) __attribute__((noreturn));
static void finish(
	const struct init_job *job, enum init_report_kind kind, int value, uint64_t cpu_ns)
{
	struct init_report report = {.kind = (uint32_t)kind, .value = value};
	report_usage(job, &report);
	if (report.cpu_ns < cpu_ns)
		report.cpu_ns = cpu_ns;
	report_send(FD_REPORT, &report);
	_exit(0); /* the kernel kills whoever is left in the pid namespace */
}

/* Reap; once the program itself ended, say how. */
static void reap(const struct init_job *job, pid_t program, struct cpu_sampler *sampler)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == program)
			finish(job, INIT_REPORT_EXITED, status,
				sampler == NULL ? 0 : cpu_sampler_take(sampler));
}

static void serve_signal(
	const struct init_job *job, int number, pid_t program, struct cpu_sampler *sampler)
{
	if (number == SIGCHLD)
		reap(job, program, sampler);
	else if (number > 0)
		(void)kill(program, number); /* it may just have ended */
}

static void supervise(const struct init_job *job, pid_t program, const sigset_t *watched)
	__attribute__((noreturn));
static void supervise(const struct init_job *job, pid_t program, const sigset_t *watched)
{
	for (;;)
		serve_signal(job, sigtimedwait(watched, NULL, NULL), program, NULL);
}

/* No control group counts processor time: we do. Looks are apart in time, whatever signals come between. */
static void supervise_sampling(const struct init_job *job, pid_t program, const sigset_t *watched,
	struct cpu_sampler *sampler)
{
	uint64_t next = 0;
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		if (now >= next) {
			uint64_t used = cpu_sampler_take(sampler);
			if (used >= job->spec->cpu_time_ns)
				finish(job, INIT_REPORT_CPU, 0, used);
			next = now + cpu_sampler_pause_ns(sampler, job->spec->cpu_time_ns);
		}
		const struct timespec pause = {.tv_sec = (time_t)((next - now) / NS_PER_SEC),
			.tv_nsec = (long)((next - now) % NS_PER_SEC)};
		serve_signal(job, sigtimedwait(watched, NULL, &pause), program, sampler);
	}
}

void init_main(const struct init_job *job)
{
	struct failure why = {0};
	int report = job->report;
	struct init_report confined = {.kind = INIT_REPORT_CONFINED};
	if (init_confine(job, &report, &confined.facts, &why) < 0)
		fail(report, &why);
	report_send(report, &confined);
	if (check_layers(job, &confined.facts, &why) < 0)
		fail(report, &why);
	sigset_t watched;
	(void)sigemptyset(&watched);
	static const int forwarded[] = {
		SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	for (size_t i = 0; i < array_size(forwarded); i++)
		(void)sigaddset(&watched, forwarded[i]); /* valid numbers */
	(void)sigprocmask(SIG_BLOCK, &watched, NULL);    /* valid arguments */
	pid_t program = -1;
	struct cpu_sampler sampler;
	bool samples = job->cgroup->kind == CGROUP_NONE;
	int r = samples ? cpu_sampler_init(&sampler, (size_t)job->spec->pids_limit + 2, FD_LOADAVG)
			: 0;
	if (r < 0) {
		(void)failure_errno(&why, r, "can't watch processor time");
		fail(report, &why);
	}
	/* must not be possible: that the program runs before its start is recorded */
	r = wait_for_go(FD_GO);
	if (r < 0)
		_exit(125); /* the launcher is gone */
	r = start_program(job, &program);
	if (r < 0)
		finish(job, INIT_REPORT_EXEC_FAILED, -r, 0);
	/* the program's streams end with the program */
	for (int i = 0; i < 3; i++)
		(void)close(i); /* inherited, open */
	resident_drop_program();
	if (samples)
		supervise_sampling(job, program, &watched, &sampler);
	supervise(job, program, &watched);
}
