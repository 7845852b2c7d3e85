/* See super.h. */
#include "export/super.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/privilege.h"
#include "export/confine.h"
#include "export/metrics.h"
#include "export/courier.h"
#include "export/folder.h"
#include "export/super_start.h"
#include "ipc/channel.h"
#include "ipc/scrape.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PUBLISH_NS     NS_PER_SEC
#define PAUSE_LEAST_NS NS_PER_SEC /* before a process is started again; doubles */
#define PAUSE_MOST_NS  (60 * NS_PER_SEC)
#define STEADY_NS      (60 * NS_PER_SEC) /* who lived so long starts with the least again */
#define STOP_NS        (5 * NS_PER_SEC)  /* that sinks have to end in order */
#define EXIT_CANT_OPEN 3                 /* of a sink's process: credentials or files are wrong */

/** A sink and its process. */
struct child {
	pid_t pid;                     /* 0: none */
	int channel;                   /* -1: none */
	uint64_t started_ns, start_ns; /* when; not before */
	uint64_t pause_ns;
	bool done; /* with once: everything is delivered */
};

struct super {
	const struct super_options *options;
	struct super_base base;
	struct gauge *gauges;
	struct scrape *scrape; /* who asks for metrics; NULL: nobody may */
	struct child children[EXPORT_SINKS_MAX];
	int signal_fd;
	uint64_t published_ns;
	bool stop;
	bool was_up; /* every sink could be opened once */
};

/** inotify on the audit folder; -1 where there is none to be had: the log is looked at by the clock then. */
static int watch_folder(int folder_fd)
{
	char path[32];
	auto_fd fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", folder_fd); /* it fits */
	if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		return -1;
	return fd_take(&fd);
}

static const char *output_of(const struct sink_config *c)
{
	for (size_t i = 0; i < c->kind->setting_count; i++) {
		if (c->kind->settings[i].type == SETTING_OUTPUT && sink_value_is(&c->values[i]))
			return c->values[i].text;
	}
	return NULL;
}

/** The life of a sink's process. @return its exit status. */
static int child_run(const struct super *s, size_t index, int channel)
{
	const struct sink_config *c = &s->options->config->sinks[index];
	struct sink *sink = NULL;
	struct failure why = {0};
	struct gauge *gauge = &s->gauges[index];
	int notify_fd = watch_folder(s->base.audit_fd);
	int status = EXIT_CANT_OPEN;
	(void)prctl(PR_SET_NAME, "eclusa-sink", 0, 0, 0); /* for people only */
	int r = c->kind->open(c, &sink, &why);
	if (r == 0) {
		const struct confine_setup confine = {.needs = c->kind->needs,
			.state_fd = s->base.state_fd,
			.output = output_of(c)};
		status = EXIT_FAILURE;
		(void)close(s->base.audit_fd); /* files come by the channel */
		r = confine_sink(&confine, &why);
	}
	if (r == 0) {
		const struct courier_setup setup = {.config = c,
			.sink = sink,
			.channel = channel,
			.notify_fd = notify_fd,
			.state_fd = s->base.state_fd,
			.gauge = gauge,
			.once = s->options->once};
		r = courier_run(&setup, &why);
	}
	c->kind->free(sink);
	if (r == 0)
		return EXIT_SUCCESS;
	gauge_fail(gauge, why.text);
	log_event(LOG_LEVEL_ERROR, "sink-ended", "sink=%s why=\"%s\"", c->name, gauge->failure);
	return status;
}

/** In the child: nothing of its siblings. Ends it. */
static _Noreturn void child_main(struct super *s, size_t index, int channel, pid_t parent)
{
	sigset_t none;
	for (size_t i = 0; i < s->options->config->sink_count; i++)
		fd_close(&s->children[i].channel);
	fd_close(&s->signal_fd);
	scrape_leave(ptr_take(s->scrape));
	(void)sigemptyset(&none);
	/* Told to end by its channel, in order; a signal to the group is meant for the first process. */
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGTERM, &ignore, NULL); /* can't fail */
	(void)sigaction(SIGINT, &ignore, NULL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(privilege_die_with_parent(parent, SIGKILL) < 0 ? EXIT_FAILURE
							     : child_run(s, index, channel));
}

/** @return 0 or negative errno; then it is tried again after a pause. */
static int child_start(struct super *s, size_t index)
{
	struct child *child = &s->children[index];
	int ends[2];
	int r = channel_pair(ends);
	if (r < 0)
		return r;
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		fd_close(&ends[0]);
		child_main(s, index, ends[1], parent);
	}
	int error = errno;
	fd_close(&ends[1]);
	if (pid < 0) {
		fd_close(&ends[0]);
		return -error;
	}
	child->pid = pid;
	child->channel = ends[0];
	child->started_ns = clock_monotonic_ns();
	return 0;
}

/** Start what is due. */
static void start_children(struct super *s)
{
	uint64_t now = clock_monotonic_ns();
	for (size_t i = 0; i < s->options->config->sink_count && !s->stop; i++) {
		struct child *child = &s->children[i];
		if (child->pid != 0 || child->done || now < child->start_ns)
			continue;
		int r = child_start(s, i);
		if (r < 0) {
			child->start_ns = now + PAUSE_LEAST_NS;
			log_event(LOG_LEVEL_ERROR, "sink-start", "sink=%s error=%s",
				s->options->config->sinks[i].name, strerror(-r));
		}
	}
}

/** A process has ended. @return 0, or the error that ends everything: at the start a sink that can't be opened is one, with --once any. */
static int child_ended(struct super *s, struct child *child, int status)
{
	uint64_t now = clock_monotonic_ns();
	bool in_order = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
	size_t index = (size_t)(child - s->children);
	fd_close(&child->channel);
	child->pid = 0;
	child->done = in_order;
	if (in_order || s->stop)
		return 0;
	/* Who is to end once all is delivered does not wait for somebody to mend a cursor. */
	if (WIFEXITED(status) &&
		(s->options->once || (!s->was_up && WEXITSTATUS(status) == EXIT_CANT_OPEN)))
		return -EINVAL;
	if (WIFSIGNALED(status))
		log_event(LOG_LEVEL_ERROR, "sink-killed", "sink=%s signal=%d",
			s->options->config->sinks[index].name, WTERMSIG(status));
	s->gauges[index].restarts++;
	if (now - child->started_ns >= STEADY_NS || child->pause_ns == 0)
		child->pause_ns = PAUSE_LEAST_NS;
	child->start_ns = now + child->pause_ns;
	child->pause_ns = 2 * child->pause_ns < PAUSE_MOST_NS ? 2 * child->pause_ns : PAUSE_MOST_NS;
	return 0;
}

static int reap(struct super *s)
{
	int status, r = 0;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < s->options->config->sink_count; i++) {
			if (s->children[i].pid != pid)
				continue;
			int error = child_ended(s, &s->children[i], status);
			r = r == 0 ? error : r;
		}
	}
	return r;
}

/** The numbers of all sinks into the state folder, whole. What can't be written now is written next time. */
static void publish(struct super *s, bool now)
{
	uint64_t at = clock_monotonic_ns();
	struct buf text = {.limit = 1 << 20};
	if (!now && at - s->published_ns < PUBLISH_NS)
		return;
	s->published_ns = at;
	int r = gauges_write(s->gauges, s->options->config, &text);
	auto_fd fd = r < 0 ? r
			   : openat(s->base.state_fd, GAUGE_FILE ".new",
				     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd >= 0 && file_write_all(fd, buf_slice(&text)) == 0)
		(void)renameat(s->base.state_fd, GAUGE_FILE ".new", s->base.state_fd, GAUGE_FILE);
	buf_fini(&text);
}

static void take_signals(struct super *s)
{
	struct signalfd_siginfo info;
	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		s->stop = s->stop || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
}

static bool any_running(const struct super *s)
{
	for (size_t i = 0; i < s->options->config->sink_count; i++) {
		if (s->children[i].pid != 0)
			return true;
	}
	return false;
}

static bool all_done(const struct super *s)
{
	for (size_t i = 0; i < s->options->config->sink_count; i++) {
		if (!s->children[i].done)
			return false;
	}
	return true;
}

static void fill_metrics(void *arg, struct buf *to)
{
	const struct super *s = arg;
	export_metrics_write(s->gauges, s->options->config, to);
}

/** Wait for questions, signals, and at most @wait_ms. */
static void serve(struct super *s, int wait_ms)
{
	struct pollfd fds[2 + EXPORT_SINKS_MAX] = {{.fd = s->signal_fd, .events = POLLIN}};
	size_t count = s->options->config->sink_count;
	fds[1 + count] = (struct pollfd){.fd = scrape_fd(s->scrape), .events = POLLIN};
	for (size_t i = 0; i < count; i++)
		fds[1 + i] = (struct pollfd){.fd = s->children[i].channel, .events = POLLIN};
	if (poll(fds, (nfds_t)(2 + count), wait_ms) <= 0)
		return;
	if (fds[1 + count].revents != 0)
		scrape_turn(s->scrape, fill_metrics, s);
	for (size_t i = 0; i < count; i++) {
		if (fds[1 + i].revents == 0)
			continue;
		int r = folder_answer(s->base.audit_fd, s->children[i].channel);
		if (r != 0)
			fd_close(&s->children[i].channel); /* it ended, or it will: waitpid tells */
	}
	if (fds[0].revents != 0)
		take_signals(s);
}

/** Channels end, and with them the processes, in order; those that hang are killed. */
static void stop_children(struct super *s)
{
	uint64_t deadline_ns = clock_monotonic_ns() + STOP_NS;
	bool killed = false;
	s->stop = true;
	for (size_t i = 0; i < s->options->config->sink_count; i++)
		fd_close(&s->children[i].channel);
	while (any_running(s)) {
		serve(s, 20);
		(void)reap(s); /* ends all the same */
		if (killed || clock_monotonic_ns() < deadline_ns)
			continue;
		killed = true;
		for (size_t i = 0; i < s->options->config->sink_count; i++) {
			if (s->children[i].pid != 0)
				(void)kill(
					s->children[i].pid, SIGKILL); /* not reaped: it is there */
		}
	}
}

static int open_signals(void)
{
	sigset_t set;
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	/* Who rotates files says so; there is nothing to do here. A receiver that ends is an error of write(). */
	(void)sigaction(SIGHUP, &ignore, NULL); /* can't fail */
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int super_loop(struct super *s, struct failure *why)
{
	uint64_t began_ns = clock_monotonic_ns();
	int r = 0;
	while (r == 0 && !s->stop && !all_done(s)) {
		start_children(s);
		serve(s, 100);
		r = reap(s);
		s->was_up = s->was_up || clock_monotonic_ns() - began_ns >= STOP_NS;
		publish(s, false);
	}
	stop_children(s);
	publish(s, true);
	return r < 0 ? failure_set(why, r, "a sink can't be served") : 0;
}

static int open_metrics(struct super *s, struct failure *why)
{
	int r = scrape_open(s->options->metrics, &s->scrape, why);
	if (r == 0 && scrape_port(s->scrape) != 0)
		log_event(LOG_LEVEL_INFO, "metrics", "port=%u", scrape_port(s->scrape));
	return r;
}

int super_run(const struct super_options *options, struct failure *why)
{
	struct super *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "start");
	*s = (struct super){.options = options, .signal_fd = -1};
	for (size_t i = 0; i < EXPORT_SINKS_MAX; i++)
		s->children[i].channel = -1;
	int r = super_start(options->config, &s->base, why);
	if (r < 0) {
		free(s);
		return r;
	}
	s->gauges = gauges_new(options->config->sink_count);
	s->signal_fd = s->gauges == NULL ? -ENOMEM : open_signals();
	r = s->signal_fd < 0 ? failure_errno(why, s->signal_fd, "start") : 0;
	if (r == 0 && options->metrics != NULL)
		r = open_metrics(s, why);
	if (r == 0)
		r = super_loop(s, why);
	scrape_close(ptr_take(s->scrape));
	fd_close(&s->signal_fd);
	super_base_fini(&s->base);
	free(s);
	return r;
}
