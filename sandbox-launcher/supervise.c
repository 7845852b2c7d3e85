/* See supervise.h. */
#include "sandbox-launcher/supervise.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/resident.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "sandbox-launcher/env.h"
#include "sandbox-launcher/notify.h"
#include "sandbox-launcher/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	POLL_REPORT,
	POLL_PROCESS,
	POLL_SIGNALS,
	POLL_CALLS,
	POLL_OOM,
	POLL_LOG, /* of --stream: */
	POLL_SINK,
	POLL_NETWORK,
	POLL_STREAMS = POLL_NETWORK + NETWORK_POLL_COUNT, /* from and to of input, output, error */
	POLL_COUNT = POLL_STREAMS + 6
};

enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAM_COUNT };

struct loop {
	const struct supervise_options *options;
	struct launched *launched;
	struct supervised *seen;
	struct limits_clock clock;
	struct stream streams[STREAM_COUNT];
	struct notify calls;
	int signals;
	int last_signal;
	bool ended; /* the first process is gone, and with it all others */
	uint64_t start_ns;
};

static const int FORWARDED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

int supervise_prepare(struct failure *why)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN}, plain = {.sa_handler = SIG_DFL};
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigaction(SIGCHLD, &plain, NULL) < 0)
		return failure_errno(why, -errno, "can't set signal dispositions");
	return 0;
}

static sigset_t forwarded(void)
{
	sigset_t set;
	(void)sigemptyset(&set);
	for (size_t i = 0; i < array_size(FORWARDED); i++)
		(void)sigaddset(&set, FORWARDED[i]); /* valid numbers */
	return set;
}

void supervise_finish(void)
{
	const struct timespec now = {0};
	const sigset_t set = forwarded();
	while (sigtimedwait(&set, NULL, &now) > 0)
		;                                   /* meant for the program, which has ended */
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* it can't fail so */
}

static int open_signals(void)
{
	const sigset_t set = forwarded();
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void end_program(struct loop *l)
{
	launched_kill(l->launched);
}

/* Nothing of the sandbox is left but output, which a reader who takes none would have us wait for without end. */
static void leave_readers(struct loop *l)
{
	for (int i = STREAM_OUT; i < STREAM_COUNT; i++)
		if (stream_wants_write(&l->streams[i]))
			stream_give_up(&l->streams[i], ECANCELED);
	if (l->options->lines != NULL && stream_wants_write(&l->options->lines->sink))
		stream_give_up(&l->options->lines->sink, ECANCELED);
}

/* First time: tell the program. A second time of the same, or after its end: the caller means it. */
static void read_signals(struct loop *l)
{
	struct signalfd_siginfo info;
	while (read(l->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int number = (int)info.ssi_signo;
		if (l->ended) {
			leave_readers(l);
			return;
		}
		if (number == l->last_signal) {
			l->seen->caller_signal = number;
			end_program(l);
			return;
		}
		l->last_signal = number;
		(void)syscall(SYS_pidfd_send_signal, l->launched->pidfd, number, NULL,
			0); /* init passes it on */
		if (number == SIGINT && !l->options->spec->quiet && isatty(STDERR_FILENO))
			(void)dprintf(STDERR_FILENO,
				"eclusa: waiting for the program to end; ^C again ends it\n");
	}
}

static void read_reports(struct loop *l)
{
	struct init_report report;
	int got, listener;
	size_t fds = 0;
	while ((got = channel_receive(l->launched->report, &report, sizeof(report), &listener, 1,
			&fds)) == (int)sizeof(report)) {
		if (fds > 0)
			notify_listen(&l->calls, listener);
		if (report.kind == INIT_REPORT_LISTENER)
			continue;
		if (report.kind == INIT_REPORT_CONFINED) {
			l->options->result->receipt.confined = true;
			l->options->result->receipt.facts = report.facts;
			continue;
		}
		report.text[sizeof(report.text) - 1] = '\0';
		l->seen->reported = true;
		l->seen->report = report;
	}
	if (got != -EAGAIN)
		fd_close(&l->launched->report);
}

static void open_streams(struct loop *l)
{
	const struct spec *spec = l->options->spec;
	uint64_t limit = spec->output_limit_bytes;
	stream_init(&l->streams[STREAM_IN], spec->interactive ? STDIN_FILENO : -1,
		l->launched->input, spec->stdin_len);
	if (l->options->lines != NULL)
		limit = 2 * STREAM_CHUNK; /* emptied after each turn */
	stream_init(&l->streams[STREAM_OUT], l->launched->output[0],
		spec->json ? -1 : STDOUT_FILENO, limit);
	stream_init(&l->streams[STREAM_ERR], l->launched->output[1],
		spec->json ? -1 : STDERR_FILENO, limit);
	if (spec->stdin_text != NULL &&
		buf_append(&l->streams[STREAM_IN].kept,
			(struct slice){spec->stdin_text, spec->stdin_len}) < 0)
		result_error(l->options->result, "standard input does not fit in memory");
}

static void poll_streams(const struct loop *l, struct pollfd *fds)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		const struct stream *s = &l->streams[i];
		bool waits = i != STREAM_IN && l->options->lines != NULL &&
			!event_lines_have_room(l->options->lines);
		fds[2 * i] =
			(struct pollfd){stream_wants_read(s) && !waits ? s->from : -1, POLLIN, 0};
		fds[2 * i + 1] = (struct pollfd){stream_wants_write(s) ? s->to : -1, POLLOUT, 0};
	}
}

static void serve_streams(struct loop *l, const struct pollfd *fds)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		struct stream *s = &l->streams[i];
		if (fds[2 * i].revents != 0 && stream_read(s) < 0) {
			result_error(l->options->result, "out of memory for a stream");
			s->from = -1;
		}
		if (fds[2 * i + 1].revents != 0)
			stream_write(s);
		if (l->options->lines != NULL && i != STREAM_IN)
			event_lines_take(l->options->lines, i - STREAM_OUT, s);
		if (s->closes_from && i != STREAM_IN)
			fd_close(&l->launched->output[i - STREAM_OUT]);
	}
	if (stream_done(&l->streams[STREAM_IN]))
		fd_close(&l->launched->input); /* the program sees the end of its input */
}

static void fill(const struct loop *l, struct pollfd fds[static POLL_COUNT])
{
	fds[POLL_REPORT] = (struct pollfd){l->launched->report, POLLIN, 0};
	fds[POLL_PROCESS] = (struct pollfd){l->ended ? -1 : l->launched->pidfd, POLLIN, 0};
	fds[POLL_SIGNALS] = (struct pollfd){l->signals, POLLIN, 0};
	notify_poll(&l->calls, &fds[POLL_CALLS]);
	fds[POLL_OOM] = (struct pollfd){l->ended ? -1 : l->options->cgroup->oom, POLLIN, 0};
	for (int i = 0; i < NETWORK_POLL_COUNT; i++)
		fds[POLL_NETWORK + i] = (struct pollfd){-1, 0, 0};
	if (l->options->network != NULL && !l->ended && !l->seen->network_died)
		network_poll(l->options->network, &fds[POLL_NETWORK]);
	poll_streams(l, &fds[POLL_STREAMS]);
	const struct event_lines *lines = l->options->lines;
	bool writes = lines != NULL && stream_wants_write(&lines->sink);
	fds[POLL_LOG] = (struct pollfd){lines == NULL ? -1 : lines->changes, POLLIN, 0};
	fds[POLL_SINK] = (struct pollfd){writes ? lines->sink.to : -1, POLLOUT, 0};
}

/* A reader who is gone: the program learns it as it would from a pipe. */
static void serve_lines(struct loop *l, const struct pollfd fds[static POLL_COUNT])
{
	struct event_lines *lines = l->options->lines;
	if (lines == NULL)
		return;
	event_lines_violations(lines);
	if (fds[POLL_LOG].revents != 0)
		event_lines_follow(lines);
	if (fds[POLL_SINK].revents != 0)
		stream_write(&lines->sink);
	for (int i = 0; i < 2 && lines->sink.write_error != 0; i++) {
		l->streams[STREAM_OUT + i].from = -1;
		fd_close(&l->launched->output[i]);
		buf_clear(&lines->sink.kept);
	}
}

static void serve(struct loop *l, const struct pollfd fds[static POLL_COUNT])
{
	if (fds[POLL_SIGNALS].revents != 0)
		read_signals(l);
	for (int i = 0; i < NETWORK_POLL_COUNT; i++) {
		if (fds[POLL_NETWORK + i].revents == 0)
			continue;
		l->seen->network_died = true;
		end_program(l);
	}
	if (fds[POLL_OOM].revents != 0 && cgroup_oom_seen(l->options->cgroup)) {
		l->seen->oom = true;
		end_program(l);
	}
	serve_streams(l, &fds[POLL_STREAMS]);
	notify_serve(&l->calls, fds[POLL_CALLS].revents, clock_monotonic_ns());
	serve_lines(l, fds);
	if (fds[POLL_REPORT].revents != 0)
		read_reports(l);
	if (fds[POLL_PROCESS].revents != 0) {
		launched_reap(l->launched);
		l->ended = true;
		l->options->result->wall_ns = clock_monotonic_ns() - l->start_ns;
		l->streams[STREAM_IN].from = -1;
		buf_clear(&l->streams[STREAM_IN].kept);
	}
}

static bool finished(const struct loop *l)
{
	if (l->options->lines != NULL && !stream_done(&l->options->lines->sink))
		return false;
	return l->ended && l->launched->report < 0 && stream_done(&l->streams[STREAM_OUT]) &&
		stream_done(&l->streams[STREAM_ERR]);
}

static void watch_clocks(struct loop *l)
{
	if (l->ended || l->seen->fired != LIMITS_NONE)
		return;
	l->seen->fired =
		limits_check(&l->clock, l->options->spec, l->options->cgroup, clock_monotonic_ns());
	if (l->seen->fired != LIMITS_NONE)
		end_program(l);
}

/* Until a clock or an answer is due: in ms, -1 = without end. */
static int wait_ms(const struct loop *l)
{
	uint64_t now = clock_monotonic_ns();
	bool idle = l->ended || l->seen->fired != LIMITS_NONE;
	int clock = idle ? -1 : limits_wait_ms(&l->clock, now);
	int answer = notify_wait_ms(&l->calls, now);
	return clock < 0 || (answer >= 0 && answer < clock) ? answer : clock;
}

static void keep_output(struct loop *l)
{
	struct result *result = l->options->result;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &l->streams[STREAM_OUT + i];
		result->write_error[i] = s->write_error;
		if (l->options->lines != NULL)
			result->write_error[0] = l->options->lines->sink.write_error;
		else if (s->to < 0) {
			result->cut[i] = stream_cut(s);
			result->output[i] = s->kept;
			s->kept = (struct buf){0};
		}
	}
	for (int i = 0; i < STREAM_COUNT; i++)
		stream_fini(&l->streams[i]);
}

void supervise_run(
	const struct supervise_options *options, struct launched *launched, struct supervised *ret)
{
	struct loop l = {.options = options,
		.launched = launched,
		.seen = ret,
		.start_ns = clock_monotonic_ns()};
	*ret = (struct supervised){.fired = LIMITS_NONE};
	fault_point("launch-running");
	l.signals =
		open_signals(); /* without it the caller's signals end us, and the sandbox with us */
	limits_start(&l.clock, options->spec, l.start_ns);
	open_streams(&l);
	notify_init(&l.calls, options->spec->memory_bytes, &options->result->violations);
	if (stream_done(&l.streams[STREAM_IN]))
		fd_close(&launched->input);
	resident_drop_program();
	while (!finished(&l)) {
		struct pollfd fds[POLL_COUNT];
		fill(&l, fds);
		if (poll(fds, POLL_COUNT, wait_ms(&l)) < 0) {
			if (errno == EINTR)
				continue;
			result_error(options->result, "poll: %s", strerror(errno));
			end_program(&l);
			launched_reap(launched);
			break;
		}
		serve(&l, fds);
		watch_clocks(&l);
	}
	cgroup_read(options->cgroup, &ret->usage);
	ret->oom |= cgroup_oom_seen(options->cgroup); /* at the very end */
	keep_output(&l);
	notify_fini(&l.calls);
	fd_close(&l.signals);
}

static void judge_usage(struct result *r, const struct supervised *seen)
{
	r->cpu_ns = seen->usage.cpu_ns;
	r->memory_peak_bytes = seen->usage.memory_peak_bytes;
	if (r->cpu_ns == UINT64_MAX && seen->reported)
		r->cpu_ns = seen->report.cpu_ns;
	if (r->memory_peak_bytes == UINT64_MAX && seen->reported)
		r->memory_peak_bytes = seen->report.memory_peak_bytes;
	r->receipt.cpu_ns = r->cpu_ns;
	r->receipt.memory_peak_bytes = r->memory_peak_bytes;
	r->receipt.pids_peak = seen->usage.pids_peak;
	r->io_known = seen->usage.io_read_bytes != UINT64_MAX;
	r->io_read_bytes = seen->usage.io_read_bytes;
	r->io_written_bytes = seen->usage.io_written_bytes;
}

static void decide(struct result *r, enum verdict verdict, uint64_t number)
{
	r->verdict = verdict;
	r->decided = number;
}

/* Of --tmpfs at this place; 0: there is none, or it has no size of its own. */
static uint64_t tmpfs_bytes(const struct spec *spec, const char *folder)
{
	struct spec_tmpfs t;
	for (size_t i = 0; i < spec->tmpfs.count; i++)
		if (spec_tmpfs(spec->tmpfs.items[i], &t, NULL) == 0 && strcmp(t.path, folder) == 0)
			return t.bytes;
	return 0;
}

static void judge_disk(const struct supervise_options *o, const char *folder)
{
	bool out = strcmp(folder, MOUNTS_OUT) == 0;
	uint64_t bytes =
		out ? o->spec->out_limit_bytes : mounts_scratch_bytes(o->spec->memory_bytes);
	uint64_t own = tmpfs_bytes(o->spec, folder);
	if (own > 0) {
		char size[32], shown[SPEC_PATH_BYTES];
		decide(o->result, VERDICT_DISK, own);
		(void)slice_escape(slice_of(folder), shown, sizeof(shown));
		result_error(o->result, "disk limit of %s: try --tmpfs %s:%s", shown, shown,
			spec_format_size(own * 4, size, sizeof(size)));
		return;
	}
	decide(o->result, VERDICT_DISK, bytes);
	char now[32], more[32];
	result_error(o->result, "disk limit %s of %s: %s %s",
		spec_format_size(bytes, now, sizeof(now)), folder,
		out ? "--out-limit" : "half of --memory; try --memory",
		spec_format_size((out ? bytes : o->spec->memory_bytes) * 4, more, sizeof(more)));
}

/* The program ended by itself: how, and whether a limit was why. */
static void judge_status(const struct supervise_options *o, const struct supervised *seen)
{
	struct result *r = o->result;
	int status = seen->report.value;
	if (WIFSIGNALED(status)) {
		r->signal = WTERMSIG(status);
		decide(r, VERDICT_SIGNAL, (uint64_t)r->signal);
	} else {
		r->exit_code = WEXITSTATUS(status);
		decide(r, r->exit_code == 0 ? VERDICT_OK : VERDICT_EXIT, (uint64_t)r->exit_code);
	}
	if (r->verdict == VERDICT_OK)
		return;
	if (seen->usage.oom_kills > 0)
		decide(r, VERDICT_OOM, o->spec->memory_bytes);
	else if (seen->usage.pids_refused > 0)
		decide(r, VERDICT_PIDS, o->spec->pids_limit);
	else if (seen->report.text[0] != '\0')
		judge_disk(o, seen->report.text);
}

static void judge_exec(struct result *r, const struct spec *spec, int error)
{
	char shown[256];
	bool missing = error == ENOENT || error == ENOTDIR;
	r->exit_code = missing ? 127 : 126;
	decide(r, VERDICT_EXIT, (uint64_t)r->exit_code);
	(void)slice_escape(slice_of(spec->argv.items[0]), shown, sizeof(shown));
	if (missing && strchr(spec->argv.items[0], '/') == NULL)
		result_error(r, "%s: not found in the sandbox (PATH=%s)", shown, ENV_PATH);
	else
		result_error(r, "%s: %s", shown, strerror(error));
}

static void judge_setup(struct result *r, const struct supervised *seen)
{
	decide(r, VERDICT_SETUP, (uint64_t)seen->report.value);
	result_error(r, "%s", seen->report.text);
}

void supervise_judge(const struct supervise_options *options, const struct supervised *seen)
{
	struct result *r = options->result;
	judge_usage(r, seen);
	if (seen->network_died) {
		decide(r, VERDICT_SUPERVISOR, 0);
		result_error(r, "the network's gateway or proxy died, the run was ended");
	} else if (seen->fired == LIMITS_WALL) {
		decide(r, VERDICT_WALL, r->wall_ns);
	} else if (seen->fired == LIMITS_CPU ||
		(seen->reported && seen->report.kind == INIT_REPORT_CPU)) {
		decide(r, VERDICT_CPU, r->cpu_ns);
	} else if (seen->oom) {
		decide(r, VERDICT_OOM, options->spec->memory_bytes);
	} else if (seen->caller_signal != 0) {
		r->signal = seen->caller_signal;
		decide(r, VERDICT_SIGNAL, (uint64_t)r->signal);
	} else if (seen->reported && seen->report.kind == INIT_REPORT_FAILED) {
		judge_setup(r, seen);
	} else if (seen->reported && seen->report.kind == INIT_REPORT_EXEC_FAILED) {
		judge_exec(r, options->spec, seen->report.value);
	} else if (seen->reported) {
		judge_status(options, seen);
	} else if (seen->usage.oom_kills > 0) {
		decide(r, VERDICT_OOM, options->spec->memory_bytes);
	} else {
		decide(r, VERDICT_SUPERVISOR, 0);
		result_error(r, "the sandbox's first process was killed");
	}
}
