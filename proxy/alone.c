/* See alone.h. One poll loop beside a super that does the work. */
#include "proxy/alone_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/privilege.h"
#include "ipc/channel.h"
#include "ipc/control.h"
#include "proxy/last_good.h"
#include "proxy/limits.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#define END_WAIT_NS (5 * NS_PER_SEC) /* for the recorder's last lines */

enum source_kind {
	SOURCE_SIGNAL,
	SOURCE_LAUNCHER,
	SOURCE_NETD,
	SOURCE_SUPER,
	SOURCE_WATCH,
	SOURCE_CONTROL,
	SOURCE_METRICS,
	SOURCE_SERVE,
	SOURCE_CLIENTS,
	SOURCE_COUNT = SOURCE_CLIENTS + ALONE_CLIENTS_MAX
};

static void alone_init(struct alone *a, const struct alone_options *o)
{
	*a = (struct alone){.options = o,
		.signal_fd = -1,
		.state_fd = -1,
		.control_fd = -1,
		.watch = WATCH_NONE,
		.audit_folder = -1,
		.segment_fd = -1,
		.next_fd = -1,
		.super_pidfd = -1,
		.launcher_fd = -1,
		.netd_fd = -1,
		.uid_lock = -1,
		.policy = {.source = {.path = o->policy,
				   .profile = o->profile,
				   .config = TRUST_CONFIG,
				   .trust = o->trust,
				   .trust_count = o->trust_count}}};
	for (size_t i = 0; i < ALONE_CLIENTS_MAX; i++)
		a->clients[i].fd = -1;
	buf_init(&a->policy.bundle.text, POLICY_BUNDLE_BYTES_MAX + 65536);
	buf_init(&a->asked.text, POLICY_BUNDLE_BYTES_MAX + 65536);
}

static void alone_fini(struct alone *a)
{
	if (a->control_fd >= 0)
		(void)unlinkat(a->state_fd, CONTROL_NAME, 0); /* the next start replaces it */
	int *fds[] = {&a->control_fd, &a->signal_fd, &a->audit_folder, &a->segment_fd, &a->next_fd,
		&a->super_pidfd, &a->launcher_fd, &a->netd_fd, &a->uid_lock, &a->state_fd};
	for (size_t i = 0; i < array_size(fds); i++)
		fd_close(fds[i]);
	for (size_t i = 0; i < ALONE_CLIENTS_MAX; i++)
		fd_close(&a->clients[i].fd);
	watch_close(&a->watch);
	serve_close(ptr_take(a->serve));
	scrape_close(ptr_take(a->scrape));
	for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++)
		metrics_close(ptr_take(a->metrics[i]));
	buf_fini(&a->policy.bundle.text);
	buf_fini(&a->asked.text);
}

static int open_signals(struct failure *why)
{
	sigset_t taken;
	(void)sigemptyset(&taken); /* can't fail on a set of ours */
	(void)sigaddset(&taken, SIGTERM);
	(void)sigaddset(&taken, SIGINT);
	(void)sigaddset(&taken, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &taken, NULL) < 0)
		return failure_errno(why, -errno, "signals");
	int fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? failure_errno(why, -errno, "signals") : fd;
}

static int alone_prepare(struct alone *a, struct failure *why)
{
	const struct alone_options *o = a->options;
	struct trust trust;
	struct limits limits = limits_default();
	int r = a->signal_fd = open_signals(why);
	if (r >= 0)
		r = limits_of_environment(&limits, why);
	a->leave_ms = limits.leave_ms;
	if (r >= 0)
		r = reload_source_trust(
			&a->policy.source, &trust, why); /* a mistake is said at once */
	if (r >= 0 && o->state_dir != NULL)
		r = a->state_fd = last_good_open(o->state_dir, why);
	if (r >= 0 && o->watch)
		r = watch_open(&a->watch, why);
	if (r < 0)
		return r;
	r = alone_first_policy(a, why);
	if (r < 0)
		a->status = ALONE_EXIT_POLICY;
	return r;
}

/** Into a file that is there whole or not at all. */
static int write_ca(const char *path, struct slice pem)
{
	char new_path[4096];
	int len = snprintf(new_path, sizeof(new_path), "%s.new", path);
	if (len < 0 || (size_t)len >= sizeof(new_path))
		return -ENAMETOOLONG;
	auto_fd fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, pem);
	if (r == 0 && (fsync(fd) < 0 || rename(new_path, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(new_path); /* it is no use to anybody */
	return r;
}

static void alone_end(struct alone *a, enum alone_exit status)
{
	const struct message_header finish = {.kind = MESSAGE_PROXY_FINISH};
	if (status != ALONE_EXIT_ENDED)
		a->status = (int)status;
	if (a->ending)
		return;
	a->ending = true;
	if (channel_send(a->launcher_fd, &finish, sizeof(finish), NULL, 0) < 0)
		fd_close(&a->launcher_fd); /* it has ended, or ends by that */
}

/** In order: new connections are refused, and what is under way may end, for a while. */
static void alone_leave(struct alone *a)
{
	const struct message_header leave = {.kind = MESSAGE_PROXY_LEAVE};
	serve_leave(a->serve);
	if (!a->is_ready || a->leaving) { /* asked again: at once */
		alone_end(a, ALONE_EXIT_ENDED);
		return;
	}
	a->leaving = true;
	a->leave_by_ns = clock_monotonic_ns() + a->leave_ms * NS_PER_MS;
	log_event(LOG_LEVEL_INFO, "leaving", "at_most_ms=%u", a->leave_ms);
	if (channel_send(a->launcher_fd, &leave, sizeof(leave), NULL, 0) < 0)
		fd_close(&a->launcher_fd); /* it has ended, or ends by that */
}

/** Once the CA is where clients read it, and the worker knows whose the connections are. */
static void alone_say_ready(struct alone *a)
{
	char shown[ADDRESS_TEXT_BYTES];
	bool six = a->options->address.family == 6;
	if (a->is_ready || !a->has_ca || (!a->has_sandbox && a->serve == NULL))
		return;
	a->is_ready = true;
	alone_file_begun(a);
	alone_policy_started(a);
	if (a->serve != NULL)
		(void)printf("ready %s\n", a->options->socket);
	else
		(void)printf("ready %s%s%s:%u\n", six ? "[" : "",
			address_format(&a->options->address, shown), six ? "]" : "", a->port);
	(void)fflush(stdout); /* who closed it does not want to know */
}

static void alone_hear_ca(struct alone *a, const struct message_proxy_ready *m)
{
	const char *path = a->options->ca_out;
	int r = m->ca_len > sizeof(m->ca_pem) ? -EPROTO : 0;
	if (r == 0 && path != NULL)
		r = write_ca(path, (struct slice){m->ca_pem, m->ca_len});
	if (r < 0) {
		log_event(LOG_LEVEL_ERROR, "ca-not-written", "path=%s error=%s",
			path != NULL ? path : "", strerror(-r));
		alone_end(a, ALONE_EXIT_FAILED);
		return;
	}
	a->has_ca = true;
	struct failure why = {0};
	if (a->serve != NULL && serve_ready(a, m, &why) < 0) {
		log_event(LOG_LEVEL_ERROR, "failed", "error=\"%s\"", why.text);
		alone_end(a, ALONE_EXIT_FAILED);
		return;
	}
	alone_say_ready(a);
}

static void alone_hear_launcher(struct alone *a)
{
	union {
		struct message_header header;
		struct message_failed failed;
		struct message_proxy_ready ready;
		struct message_policy_answer answer;
		struct message_sandbox_told recorded;
	} m;
	int got = channel_receive(a->launcher_fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got == (int)sizeof(m.ready) && m.header.kind == MESSAGE_PROXY_READY) {
		alone_hear_ca(a, &m.ready);
	} else if (got == (int)sizeof(m.ready) && m.header.kind == MESSAGE_PROXY_CA) {
		return; /* it comes again, when the proxy serves */
	} else if (got == (int)sizeof(m.answer) && m.header.kind == MESSAGE_POLICY_ANSWER) {
		alone_loaded(a, &m.answer);
	} else if (got == (int)sizeof(m.recorded) && m.header.kind == MESSAGE_SANDBOX_RECORDED) {
		serve_recorded(a->serve, &m.recorded);
	} else if (got == (int)sizeof(m.header) && m.header.kind == MESSAGE_PROXY_FINISHED) {
		a->finished = true;
	} else if (got == (int)sizeof(m.header) && m.header.kind == MESSAGE_SEGMENT_WANTED) {
		alone_want_file(a);
	} else if (got == (int)sizeof(m.header) && m.header.kind == MESSAGE_SEGMENT_TAKEN) {
		alone_file_taken(a);
	} else if (got == (int)sizeof(m.failed) && m.header.kind == MESSAGE_FAILED) {
		log_event(LOG_LEVEL_ERROR, "failed", "error=\"%.*s\"",
			(int)sizeof(m.failed.text) - 1, m.failed.text);
		alone_end(a, ALONE_EXIT_FAILED);
	} else {
		fd_close(&a->launcher_fd); /* its pidfd tells the rest */
	}
}

/** Of super: that the sandbox is known, or could not be. Of a service's netd: only that it has failed. */
static void alone_hear_netd(struct alone *a)
{
	union {
		struct message_header header;
		struct message_failed failed;
		struct message_sandbox_told refused;
		struct message_sandbox sandbox;
	} m;
	int got = channel_receive(a->netd_fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got > 0 && m.header.kind == MESSAGE_SANDBOX_ADDED) {
		a->has_sandbox = true;
		alone_say_ready(a);
		return;
	}
	if (got == (int)sizeof(m.failed) && m.header.kind == MESSAGE_FAILED) {
		log_event(LOG_LEVEL_ERROR, "failed", "error=\"netd: %.*s\"",
			(int)sizeof(m.failed.text) - 1, m.failed.text);
		alone_end(a, ALONE_EXIT_FAILED);
		return;
	}
	if (got == (int)sizeof(m.refused) && m.header.kind == MESSAGE_SANDBOX_REFUSED) {
		log_event(LOG_LEVEL_ERROR, "failed", "error=\"%.*s\"",
			(int)sizeof(m.refused.text) - 1, m.refused.text);
		alone_end(a, ALONE_EXIT_FAILED);
		return;
	}
	fd_close(&a->netd_fd);
	if (a->serve != NULL && !a->ending && !a->leaving) {
		log_event(LOG_LEVEL_ERROR, "netd-ended", "the gateway is gone");
		alone_end(a, ALONE_EXIT_FAILED);
	}
}

static void alone_hear_signal(struct alone *a)
{
	struct signalfd_siginfo info;
	while (read(a->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGHUP) {
			alone_leave(a);
			continue;
		}
		alone_want(a, ALONE_ASKED);
		alone_want_file(a);
	}
}

/** Super is gone; that is our end, in order or not. */
static void alone_reap(struct alone *a)
{
	siginfo_t info = {0};
	while (a->launcher_fd >= 0 && !a->finished)
		alone_hear_launcher(a); /* its last words; ends with its end of the channel */
	(void)waitid(P_PIDFD, (id_t)a->super_pidfd, &info, WEXITED); /* the pidfd said so */
	a->super = 0;
	fd_close(&a->super_pidfd);
	bool well = info.si_code == CLD_EXITED && info.si_status == 0 && (a->leaving || a->ending);
	if (!well && a->status == ALONE_EXIT_ENDED) {
		a->status = ALONE_EXIT_FAILED;
		log_event(LOG_LEVEL_ERROR, "super-ended", "%s=%d",
			info.si_code == CLD_EXITED ? "status" : "signal", info.si_status);
	}
}

static void alone_sources(const struct alone *a, struct pollfd waits[static SOURCE_COUNT])
{
	int fds[SOURCE_COUNT];
	fds[SOURCE_SIGNAL] = a->signal_fd;
	fds[SOURCE_LAUNCHER] = a->launcher_fd;
	fds[SOURCE_NETD] = a->netd_fd;
	fds[SOURCE_SUPER] = a->super_pidfd;
	fds[SOURCE_WATCH] = a->watch.fd;
	fds[SOURCE_CONTROL] = a->control_fd;
	fds[SOURCE_METRICS] = scrape_fd(a->scrape);
	fds[SOURCE_SERVE] = serve_fd(a->serve);
	for (size_t i = 0; i < ALONE_CLIENTS_MAX; i++)
		fds[SOURCE_CLIENTS + i] = a->clients[i].fd;
	for (size_t i = 0; i < SOURCE_COUNT; i++)
		waits[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
}

static void alone_dispatch(struct alone *a, size_t source)
{
	if (source == SOURCE_SIGNAL)
		alone_hear_signal(a);
	else if (source == SOURCE_LAUNCHER)
		alone_hear_launcher(a);
	else if (source == SOURCE_NETD)
		alone_hear_netd(a);
	else if (source == SOURCE_SUPER)
		alone_reap(a);
	else if (source == SOURCE_CONTROL)
		alone_accept(a);
	else if (source == SOURCE_METRICS)
		alone_turn_metrics(a);
	else if (source == SOURCE_SERVE)
		serve_turn(a->serve);
	else if (source >= SOURCE_CLIENTS)
		alone_hear_client(a, &a->clients[source - SOURCE_CLIENTS]);
	else if (watch_drain(&a->watch))
		alone_want(a, ALONE_CHANGED);
}

/** Until then, as poll() takes it. */
static int timeout_ms_until(uint64_t then)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t left_ms = then <= now ? 0 : (then - now) / NS_PER_MS + 1;
	return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/** @a and @b as poll() takes them. */
static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/** What to wait for at most, in milliseconds; -1: nothing is due at any time. */
static int alone_timeout_ms(const struct alone *a)
{
	int load = alone_load_timeout_ms(a);
	if (!a->is_ready || a->ending)
		return load;
	int leave = a->leaving ? timeout_ms_until(a->leave_by_ns) : -1;
	int rotate = a->next_fd >= 0 ? -1 : timeout_ms_until(a->rotate_ns);
	return sooner(load, sooner(leave, rotate));
}

static void alone_turn(struct alone *a)
{
	struct pollfd waits[SOURCE_COUNT];
	alone_sources(a, waits);
	int timeout_ms = alone_timeout_ms(a);
	if (timeout_ms == 0 && !a->ending && alone_load_timeout_ms(a) == 0) {
		alone_load(a);
		return;
	}
	if (timeout_ms == 0 && a->leaving && !a->ending && timeout_ms_until(a->leave_by_ns) == 0) {
		log_event(LOG_LEVEL_WARN, "cut", "what was under way has had its time");
		alone_end(a, ALONE_EXIT_ENDED);
		return;
	}
	if (timeout_ms == 0 && !a->ending) {
		alone_next_file(a);
		return;
	}
	if (poll(waits, SOURCE_COUNT, timeout_ms) <= 0)
		return; /* a signal or the time: looked at again */
	for (size_t i = 0; i < SOURCE_COUNT; i++) {
		struct pollfd now[SOURCE_COUNT];
		if (waits[i].revents == 0)
			continue;
		alone_sources(a, now); /* an earlier event may have closed it */
		if (now[i].fd == waits[i].fd)
			alone_dispatch(a, i);
	}
}

/** Whatever super left is our child now, and dead or dying. What is not gone in time is left to its new parent. */
static void reap_all(void)
{
	uint64_t deadline = clock_monotonic_ns() + END_WAIT_NS;
	const struct timespec pause = {.tv_nsec = (long)NS_PER_MS};
	pid_t gone = 0;
	while (gone >= 0 && clock_monotonic_ns() < deadline) {
		gone = waitpid(-1, NULL, WNOHANG);
		if (gone == 0)
			(void)nanosleep(&pause, NULL); /* the next try tells */
	}
}

static void alone_serve(struct alone *a)
{
	while (a->super != 0)
		alone_turn(a);
	fd_close(&a->launcher_fd);
	fd_close(&a->netd_fd);
	reap_all();
}

/**
 * As many descriptors as may be had, for all of the proxy's processes: a tunnel takes two, and what shells and service managers give
 * at first is meant for programs that use select(2).
 */
static void take_descriptors(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		log_event(LOG_LEVEL_WARN, "few-descriptors", "error=%s", strerror(errno));
}

int alone_run(const struct alone_options *options)
{
	struct alone *a = calloc(1, sizeof(*a));
	struct failure why = {0};
	if (a == NULL)
		return ALONE_EXIT_FAILED;
	alone_init(a, options);
	take_descriptors();
	int r = privilege_hide();
	if (r == 0)
		r = alone_prepare(a, &why);
	if (r >= 0)
		r = alone_start(a, &why);
	if (r >= 0 && a->state_fd >= 0)
		r = a->control_fd = control_listen(a->state_fd, &why);
	if (r < 0) {
		(void)fprintf(
			stderr, "eclusa-proxy: %s\n", why.code != 0 ? why.text : strerror(-r));
		a->status = a->status != 0 ? a->status : ALONE_EXIT_FAILED;
		fd_close(&a->launcher_fd); /* super, if there is one, ends with it */
		fd_close(&a->netd_fd);
		a->ending = true;
	}
	alone_serve(a);
	alone_end_log(a);
	int status = a->status;
	alone_fini(a);
	free(a);
	return status;
}
