/*
 * See super.h. One poll loop; what is waited for is a phase of the whole and a state of each member:
 *
 *   START -> RUN -> LEAVING (only if asked: workers end what is under way) -> ENDING (workers are told or killed) -> DRAIN (the recorder completes the rings) -> DONE
 *
 * Any error leads to ENDING; a phase never goes back.
 */
#include "proxy/super.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/privilege.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/confine.h"
#include "proxy/recorder.h"
#include "proxy/reload.h"
#include "proxy/roster.h"
#include "proxy/super_start.h"
#include "proxy/tls.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#define END_WAIT_NS     (2 * NS_PER_SEC) /* for workers to finish, and again for the recorder */
#define RESTARTS_MAX    10 /* of one member, each within RESTART_NS of the one before */
#define RESTART_NS      (60 * NS_PER_SEC)
#define MESSAGES_A_TURN 64

enum phase { PHASE_START, PHASE_RUN, PHASE_LEAVING, PHASE_ENDING, PHASE_DRAIN, PHASE_DONE };

struct super {
	enum phase phase;
	int launcher_fd, netd_fd, signal_fd;
	int status;
	bool answer; /* the launcher asked for the end and waits for FINISHED */
	bool said_ready;
	uint64_t deadline_ns; /* of ENDING and DRAIN */
	struct crew crew;
	struct roster roster;
	struct reload reload;
	struct message_proxy_ready ready;   /* ca_len 0: the keeper has not said yet */
	bool orphaned[MESSAGE_WORKERS_MAX]; /* dead, its ring not completed yet */
};

/** What poll() waits for. */
enum source_kind {
	SOURCE_LAUNCHER,
	SOURCE_NETD,
	SOURCE_SIGNAL,
	SOURCE_KEEPER,
	SOURCE_KEEPER_PID,
	SOURCE_RECORDER,
	SOURCE_RECORDER_PID,
	SOURCE_WORKERS,
	SOURCE_WORKER_PIDS = SOURCE_WORKERS + MESSAGE_WORKERS_MAX,
	SOURCE_COUNT = SOURCE_WORKER_PIDS + MESSAGE_WORKERS_MAX
};

static void super_drain(struct super *s);

/** Workers are told, or with @kill not asked; what follows is the same. */
static void super_end(struct super *s, int status, bool kill)
{
	struct message_header finish = {.kind = MESSAGE_PROXY_FINISH};
	s->status = status != 0 ? status : s->status;
	if (s->phase >= PHASE_ENDING && !kill)
		return;
	if (s->phase < PHASE_ENDING) {
		s->phase = PHASE_ENDING;
		s->deadline_ns = clock_monotonic_ns() + END_WAIT_NS;
	}
	for (unsigned i = 0; i < s->crew.workers; i++) {
		struct crew_member *worker = &s->crew.worker[i];
		if (kill ||
			(worker->channel_fd >= 0 &&
				channel_send(worker->channel_fd, &finish, sizeof(finish), NULL, 0) <
					0))
			crew_kill(worker);
	}
	super_drain(s);
}

/** Workers take no more connections, and end after the last one, or when the launcher has waited long enough. */
static void super_leave(struct super *s)
{
	const struct message_header leave = {.kind = MESSAGE_PROXY_LEAVE};
	if (s->phase != PHASE_RUN)
		return;
	s->phase = PHASE_LEAVING;
	for (unsigned i = 0; i < s->crew.workers; i++) {
		struct crew_member *worker = &s->crew.worker[i];
		if (worker->channel_fd < 0 ||
			channel_send(worker->channel_fd, &leave, sizeof(leave), NULL, 0) < 0)
			crew_kill(worker); /* what it has not recorded, the recorder completes */
	}
	super_drain(s);
}

/** Something of ours failed for good: say it once to whoever is there, and end. */
static void super_fail(struct super *s, const struct failure *why)
{
	log_event(LOG_LEVEL_ERROR, "proxy-failed", "%s", why->text);
	if (s->phase < PHASE_ENDING)
		message_send_failed(s->launcher_fd, why->code, why->text);
	super_end(s, 1, true);
}

static bool workers_are(const struct super *s, enum member_state state)
{
	for (unsigned i = 0; i < s->crew.workers; i++) {
		if (s->crew.worker[i].state != state)
			return false;
	}
	return true;
}

/** Once every worker has ended or has said that nothing is open: the recorder completes what is left, then all is recorded. */
static void super_drain(struct super *s)
{
	struct recorder_message finish = {.kind = RECORDER_FINISH};
	if (s->phase != PHASE_LEAVING && s->phase != PHASE_ENDING)
		return;
	for (unsigned i = 0; i < s->crew.workers; i++) {
		enum member_state state = s->crew.worker[i].state;
		if (state == MEMBER_STARTING || state == MEMBER_RUNNING)
			return;
	}
	s->phase = PHASE_DRAIN;
	s->deadline_ns = clock_monotonic_ns() + END_WAIT_NS;
	if (s->crew.recorder.channel_fd < 0)
		s->phase = PHASE_DONE; /* it never started */
	else
		(void)channel_send(s->crew.recorder.channel_fd, &finish, sizeof(finish), NULL,
			0); /* its death, if it is that, is an event of its own */
}

/** READY once: the CA is there and every worker is confined. */
static void super_say_ready(struct super *s)
{
	if (s->said_ready || s->ready.ca_len == 0 || !workers_are(s, MEMBER_RUNNING))
		return;
	s->said_ready = true;
	reload_note_start(&s->crew);
	if (channel_send(s->launcher_fd, &s->ready, sizeof(s->ready), NULL, 0) < 0)
		super_end(s, 0, true);
	fault_point("super-ready");
}

static void super_ask_worker(struct super *s, struct roster_entry *entry)
{
	struct crew_member *worker = &s->crew.worker[entry->worker];
	entry->asked = false;
	if (worker->channel_fd < 0)
		return; /* told when it is there */
	entry->asked = true;
	if (channel_send(worker->channel_fd, &entry->sandbox, sizeof(entry->sandbox), NULL, 0) < 0)
		crew_kill(worker); /* it does not read: its successor is told */
}

static void super_start_worker(struct super *s, unsigned index)
{
	const struct message_header serve = {.kind = MESSAGE_PROXY_SERVE};
	struct failure why = {0};
	if (crew_start_worker(&s->crew, index, &why) < 0) {
		super_fail(s, &why);
		return;
	}
	for (size_t i = 0; i < s->roster.count; i++) {
		if (s->roster.entries[i].worker == index)
			super_ask_worker(s, &s->roster.entries[i]);
	}
	reload_member_started(&s->reload, &s->crew, index);
	/* Who waits at a listener that a predecessor left is known by the time it is asked for. */
	if (s->crew.worker[index].channel_fd >= 0 &&
		channel_send(s->crew.worker[index].channel_fd, &serve, sizeof(serve), NULL, 0) < 0)
		crew_kill(&s->crew.worker[index]);
}

/* --- netd --- */

/** netd ends the lease of the one that is named. */
static void super_refuse_sandbox(
	struct super *s, const char *sandbox_id, int code, const char *text)
{
	struct message_sandbox_told told = {
		.header = {.kind = MESSAGE_SANDBOX_REFUSED}, .code = code};
	memcpy(told.sandbox_id, sandbox_id, sizeof(told.sandbox_id));
	(void)snprintf(told.text, sizeof(told.text), "%s", text);
	(void)channel_send(s->netd_fd, &told, sizeof(told), NULL,
		0); /* its end, if that is why, is an event of its own */
}

static void super_add_sandbox(struct super *s, const struct message_sandbox *sandbox)
{
	int error = 0;
	struct roster_entry *entry = roster_add(&s->roster, sandbox, s->crew.workers, &error);
	if (entry == NULL)
		super_refuse_sandbox(
			s, sandbox->sandbox_id, error, "proxy: can't serve another sandbox");
	else
		super_ask_worker(s, entry);
}

/** Nothing of a sandbox goes on, and all of it is in the log, or is not (negative errno). */
static void super_say_recorded(struct super *s, const char *sandbox_id, int code)
{
	struct message_sandbox_told told = {
		.header = {.kind = MESSAGE_SANDBOX_RECORDED}, .code = code};
	if (s->crew.start.says_recorded == 0)
		return;
	memcpy(told.sandbox_id, sandbox_id, sizeof(told.sandbox_id));
	(void)channel_send(s->launcher_fd, &told, sizeof(told), NULL,
		0); /* its end, if that is why, is an event of its own */
}

/** Its worker has cut its flows: what it has to say of them is in its ring, and goes into the log before anybody is told. */
static void super_sandbox_removed(struct super *s, const struct message_sandbox *sandbox)
{
	struct recorder_message settle = {.kind = RECORDER_SETTLE};
	memcpy(settle.sandbox_id, sandbox->sandbox_id, sizeof(settle.sandbox_id));
	if (s->crew.start.says_recorded == 0)
		return;
	if (s->crew.recorder.channel_fd < 0 ||
		channel_send(s->crew.recorder.channel_fd, &settle, sizeof(settle), NULL, 0) < 0)
		super_say_recorded(s, sandbox->sandbox_id, -EPIPE);
}

static void super_remove_sandbox(struct super *s, const struct message_sandbox *sandbox)
{
	struct roster_entry *entry = roster_find(&s->roster, sandbox->sandbox_id);
	if (entry == NULL)
		return;
	struct crew_member *worker = &s->crew.worker[entry->worker];
	if (worker->channel_fd >= 0 &&
		channel_send(worker->channel_fd, sandbox, sizeof(*sandbox), NULL, 0) < 0)
		crew_kill(worker); /* flows of a sandbox that is gone must not go on */
	roster_remove(&s->roster, entry);
}

static void super_take_gateway(
	struct super *s, const struct message_listeners *message, const int *fds, size_t fd_count)
{
	struct failure why = {0};
	if (super_take_listeners(message, fds, fd_count, &s->crew, &why) < 0) {
		super_fail(s, &why);
		return;
	}
	for (unsigned i = 0; i < s->crew.workers && s->phase == PHASE_RUN; i++)
		super_start_worker(s, i);
	fault_point("super-forked");
}

static bool sandbox_well_formed(const struct message_sandbox *m)
{
	return memchr(m->sandbox_id, '\0', sizeof(m->sandbox_id)) != NULL &&
		memchr(m->profile, '\0', sizeof(m->profile)) != NULL &&
		(m->address.family == 4 || m->address.family == 6 || m->address.family == 0);
}

/** @return whether there may be more. */
static bool super_hear_netd(struct super *s)
{
	union {
		struct message_header header;
		struct message_listeners listeners;
		struct message_sandbox sandbox;
	} m;
	int fds[CHANNEL_FDS_MAX];
	size_t count = 0;
	int got = channel_receive(s->netd_fd, &m, sizeof(m), fds, CHANNEL_FDS_MAX, &count);
	if (got == -EAGAIN)
		return false;
	bool listeners = got == (int)sizeof(m.listeners) && m.header.kind == MESSAGE_LISTENERS;
	bool sandbox = got == (int)sizeof(m.sandbox) && sandbox_well_formed(&m.sandbox);
	if (listeners) {
		super_take_gateway(s, &m.listeners, fds, count);
		return true;
	}
	for (size_t i = 0; i < count; i++)
		fd_close(&fds[i]);
	if (sandbox && m.header.kind == MESSAGE_SANDBOX_ADD) {
		super_add_sandbox(s, &m.sandbox);
	} else if (sandbox && m.header.kind == MESSAGE_SANDBOX_REMOVE) {
		super_remove_sandbox(s, &m.sandbox);
	} else {
		super_end(s, got == 0 ? 0 : 1,
			true); /* it is gone, or makes no sense: the gateway ends */
		return false;
	}
	return true;
}

/* --- launcher --- */

/** The log goes on in another file. Whoever records from now on has to know. */
static void super_next_segment(struct super *s, const struct message_segment *m, int fd)
{
	struct recorder_message next = {.kind = RECORDER_SEGMENT, .segment = *m};
	if (s->crew.next_fd >= 0) {
		fd_close(&fd); /* the launcher waits for an answer before it sends another one */
		return;
	}
	s->crew.next = *m;
	s->crew.next_fd = fd;
	if (s->crew.recorder.channel_fd >= 0)
		(void)channel_send(s->crew.recorder.channel_fd, &next, sizeof(next), &fd,
			1); /* if it died, its successor begins with it */
	fault_point("super-segment");
}

static void super_hear_launcher(struct super *s)
{
	union {
		struct message_header header;
		struct message_policy policy;
		struct message_segment segment;
	} m;
	auto_fd fd = -1;
	size_t count = 0;
	int got = channel_receive(s->launcher_fd, &m, sizeof(m), &fd, 1, &count);
	if (got == -EAGAIN)
		return;
	bool policy = got == (int)sizeof(m.policy);
	if (policy && m.header.kind == MESSAGE_POLICY && fd >= 0) {
		reload_begin(&s->reload, &s->crew, &m.policy, fd_take(&fd));
		return;
	}
	if (got == (int)sizeof(m.segment) && m.header.kind == MESSAGE_SEGMENT && fd >= 0) {
		super_next_segment(s, &m.segment, fd_take(&fd));
		return;
	}
	if (policy && m.header.kind == MESSAGE_POLICY_REJECTED) {
		reload_note_rejected(&s->crew, &m.policy);
		return;
	}
	if (got == (int)sizeof(m.header) && m.header.kind == MESSAGE_PROXY_LEAVE) {
		s->answer = true;
		super_leave(s);
		return;
	}
	if (got == (int)sizeof(m.header) && m.header.kind == MESSAGE_PROXY_FINISH) {
		s->answer = true;
		super_end(s, 0, false);
		return;
	}
	super_end(s, got == 0 ? 0 : 1, true);
}

/* --- members --- */

static void super_keeper_ready(struct super *s, const struct message_proxy_ready *m)
{
	s->crew.keeper.state = MEMBER_RUNNING;
	s->ready = *m;
	struct message_proxy_ready early = *m;
	early.header.kind = MESSAGE_PROXY_CA;
	if (channel_send(s->launcher_fd, &early, sizeof(early), NULL, 0) < 0)
		super_end(s, 0, true);
	super_say_ready(s);
}

static void super_hear_keeper(struct super *s)
{
	union {
		struct message_header header;
		struct message_proxy_ready ready;
		struct message_failed failed;
		struct message_policy_step policy;
	} m;
	struct failure why = {0};
	int got = channel_receive(s->crew.keeper.channel_fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got == (int)sizeof(m.ready) && m.header.kind == MESSAGE_PROXY_READY) {
		super_keeper_ready(s, &m.ready);
	} else if (got == (int)sizeof(m.policy) && m.header.kind == MESSAGE_POLICY_PREPARED) {
		reload_heard(&s->reload, &s->crew, RELOAD_KEEPER, &m.policy);
	} else if (got == (int)sizeof(m.failed) && m.header.kind == MESSAGE_FAILED) {
		m.failed.text[sizeof(m.failed.text) - 1] = '\0';
		(void)failure_set(&why, m.failed.code, "proxy: %s", m.failed.text);
		super_fail(s, &why);
	} else {
		fd_close(&s->crew.keeper.channel_fd); /* its pidfd tells the rest */
	}
}

static void super_sandbox_added(struct super *s, unsigned index, const struct message_sandbox *m)
{
	struct roster_entry *entry = m != NULL ? roster_find(&s->roster, m->sandbox_id)
					       : roster_pending(&s->roster, index);
	if (entry == NULL || entry->worker != index || entry->acknowledged)
		return; /* evicted meanwhile, or a restarted worker's: netd knows */
	entry->acknowledged = true;
	struct message_sandbox added = entry->sandbox;
	added.header.kind = MESSAGE_SANDBOX_ADDED;
	if (channel_send(s->netd_fd, &added, sizeof(added), NULL, 0) < 0)
		super_end(s, 0, true);
	fault_point("super-sandbox-added");
}

/** While it starts: it could not be confined. Later: it can't serve the sandbox that it was last asked about. */
static void super_worker_failed(struct super *s, unsigned index, const struct message_failed *m)
{
	struct failure why = {0};
	(void)failure_set(&why, m->code, "%.*s", (int)sizeof(m->text) - 1, m->text);
	struct roster_entry *entry = roster_pending(&s->roster, index);
	if (s->crew.worker[index].state == MEMBER_STARTING) {
		super_fail(s, &why);
	} else if (entry != NULL) {
		super_refuse_sandbox(s, entry->sandbox.sandbox_id, why.code, why.text);
		roster_remove(&s->roster, entry);
	}
}

/** @return whether there may be more. */
static bool super_hear_worker(struct super *s, unsigned index)
{
	union {
		struct message_header header;
		struct message_sandbox sandbox;
		struct message_failed failed;
		struct message_policy_step policy;
	} m;
	struct crew_member *worker = &s->crew.worker[index];
	int got = channel_receive(worker->channel_fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return false;
	if (got < (int)sizeof(m.header)) {
		fd_close(&worker->channel_fd);
		crew_kill(worker); /* if it is not dead yet */
		return false;
	}
	if (m.header.kind == MESSAGE_PROXY_READY && worker->state == MEMBER_STARTING) {
		worker->state = MEMBER_RUNNING;
		super_say_ready(s);
	} else if (m.header.kind == MESSAGE_SANDBOX_ADDED) {
		bool whole = got == (int)sizeof(m.sandbox) && sandbox_well_formed(&m.sandbox);
		super_sandbox_added(s, index, whole ? &m.sandbox : NULL);
	} else if (m.header.kind == MESSAGE_SANDBOX_REMOVED) {
		if (got == (int)sizeof(m.sandbox) && sandbox_well_formed(&m.sandbox))
			super_sandbox_removed(s, &m.sandbox);
	} else if (m.header.kind == MESSAGE_FAILED && got == (int)sizeof(m.failed)) {
		super_worker_failed(s, index, &m.failed);
	} else if (m.header.kind == MESSAGE_POLICY_PREPARED && got == (int)sizeof(m.policy)) {
		reload_heard(&s->reload, &s->crew, index, &m.policy);
	} else if (m.header.kind == MESSAGE_PROXY_FINISHED) {
		worker->state = MEMBER_FINISHED;
		super_drain(s);
	}
	return worker->channel_fd >= 0;
}

/** Whether a member that died may be started again. */
static bool may_restart(struct super *s, struct crew_member *m, const char *name, int status)
{
	bool quick = clock_monotonic_ns() - m->started_ns < RESTART_NS;
	struct failure why = {0};
	if (!quick)
		m->starts = 1;
	if (!s->said_ready) {
		(void)failure_set(&why, -ECHILD, "proxy: the %s ended while it started (status %d)",
			name, status);
		super_fail(s, &why);
		return false;
	}
	if (m->starts <= RESTARTS_MAX) {
		log_event(LOG_LEVEL_WARN, "restarted", "process=%s status=%d", name, status);
		return true;
	}
	(void)failure_set(&why, -ECHILD, "proxy: the %s ended %u times in a row", name, m->starts);
	super_fail(s, &why);
	return false;
}

static void super_ask_orphan(struct super *s, unsigned index)
{
	struct recorder_message orphan = {.kind = RECORDER_ORPHAN, .ring = index};
	if (s->crew.recorder.channel_fd >= 0)
		(void)channel_send(s->crew.recorder.channel_fd, &orphan, sizeof(orphan), NULL,
			0); /* if it died, its successor is asked */
}

static void super_worker_died(struct super *s, unsigned index)
{
	struct crew_member *worker = &s->crew.worker[index];
	while (worker->channel_fd >= 0 && super_hear_worker(s, index))
		continue; /* what it said last may explain it */
	int status = crew_reap(worker);
	reload_member_died(&s->reload, &s->crew, index);
	if (s->phase != PHASE_RUN) {
		super_drain(s);
	} else if (may_restart(s, worker, "worker", status)) {
		s->orphaned[index] = true;
		super_ask_orphan(s, index);
	}
}

static void super_recorder_died(struct super *s)
{
	int status = crew_reap(&s->crew.recorder);
	struct failure why = {0};
	if (s->phase == PHASE_DONE || !may_restart(s, &s->crew.recorder, "recorder", status))
		return;
	if (crew_start_recorder(&s->crew, &why) < 0) {
		super_fail(s, &why);
		return;
	}
	s->crew.recorder.state = MEMBER_RUNNING;
	for (unsigned i = 0; i < s->crew.workers; i++) {
		if (s->orphaned[i])
			super_ask_orphan(s, i);
	}
	if (s->phase == PHASE_DRAIN) {
		s->phase = PHASE_ENDING;
		super_drain(s);
	}
}

static void super_tell_launcher(struct super *s, uint32_t kind)
{
	const struct message_header m = {.kind = kind};
	(void)channel_send(s->launcher_fd, &m, sizeof(m), NULL,
		0); /* its end, if that is why, is an event of its own */
}

static void super_segment_taken(struct super *s)
{
	struct failure why = {0};
	if (s->crew.next_fd < 0)
		return;
	if (crew_take_segment(&s->crew, &why) < 0) {
		super_fail(s, &why);
		return;
	}
	super_tell_launcher(s, MESSAGE_SEGMENT_TAKEN);
	fault_point("super-segment-taken");
}

/** An answer to ORPHAN or FINISH. */
static void super_ring_completed(struct super *s, const struct recorder_message *m)
{
	if (m->result < 0)
		log_event(LOG_LEVEL_ERROR, "ring-not-completed", "ring=%u error=%s", m->ring,
			strerror(-m->result));
	if (m->finish != 0) {
		s->phase = s->phase == PHASE_DRAIN ? PHASE_DONE : s->phase;
	} else if (m->ring < s->crew.workers && s->orphaned[m->ring]) {
		s->orphaned[m->ring] = false;
		if (s->phase == PHASE_RUN)
			super_start_worker(s, m->ring);
	}
}

static void super_hear_recorder(struct super *s)
{
	struct recorder_message m;
	int got = channel_receive(s->crew.recorder.channel_fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got != (int)sizeof(m)) {
		fd_close(&s->crew.recorder.channel_fd); /* it died; its pidfd tells */
		crew_kill(&s->crew.recorder);
		return;
	}
	if (m.kind == RECORDER_SETTLED)
		super_say_recorded(s, m.sandbox_id, m.result);
	else if (m.kind == RECORDER_DONE)
		super_ring_completed(s, &m);
	else if (m.kind == RECORDER_TAKEN)
		super_segment_taken(s);
	else if (m.kind == RECORDER_WANTED)
		super_tell_launcher(s, MESSAGE_SEGMENT_WANTED);
}

static void super_keeper_died(struct super *s)
{
	struct failure why = {0};
	(void)failure_set(
		&why, -ECHILD, "proxy: the keeper ended (status %d)", crew_reap(&s->crew.keeper));
	super_fail(s, &why);
}

/* --- the loop --- */

static void super_start(struct super *s)
{
	struct failure why = {0};
	int r = super_take_start(s->launcher_fd, &s->crew, &why);
	if (r == 0) {
		s->phase = PHASE_DONE;
		return;
	}
	s->phase = PHASE_RUN;
	if (r > 0)
		r = crew_open(&s->crew, &why);
	if (r == 0)
		r = crew_start_keeper(&s->crew, &why);
	if (r == 0)
		r = crew_start_recorder(&s->crew, &why);
	if (r < 0) {
		super_fail(s, &why);
		return;
	}
	s->crew.recorder.state = MEMBER_RUNNING;
	fault_point("super-started");
}

static void super_sources(const struct super *s, struct pollfd waits[static SOURCE_COUNT])
{
	const struct crew *c = &s->crew;
	int fds[SOURCE_COUNT];
	for (size_t i = 0; i < SOURCE_COUNT; i++)
		fds[i] = -1;
	fds[SOURCE_LAUNCHER] = s->phase <= PHASE_LEAVING ? s->launcher_fd : -1;
	fds[SOURCE_NETD] = s->phase == PHASE_RUN ? s->netd_fd : -1;
	fds[SOURCE_SIGNAL] = s->signal_fd;
	fds[SOURCE_KEEPER] = c->keeper.channel_fd;
	fds[SOURCE_KEEPER_PID] = c->keeper.pidfd;
	fds[SOURCE_RECORDER] = c->recorder.channel_fd;
	fds[SOURCE_RECORDER_PID] = c->recorder.pidfd;
	for (unsigned i = 0; i < c->workers; i++) {
		fds[SOURCE_WORKERS + i] = c->worker[i].channel_fd;
		fds[SOURCE_WORKER_PIDS + i] = c->worker[i].pidfd;
	}
	for (size_t i = 0; i < SOURCE_COUNT; i++)
		waits[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
}

static void super_dispatch(struct super *s, size_t source)
{
	unsigned turns = 0;
	if (source == SOURCE_LAUNCHER && s->phase == PHASE_START)
		super_start(s);
	else if (source == SOURCE_LAUNCHER)
		super_hear_launcher(s);
	else if (source == SOURCE_SIGNAL)
		super_end(s, 0, true); /* SIGTERM */
	else if (source == SOURCE_KEEPER)
		super_hear_keeper(s);
	else if (source == SOURCE_KEEPER_PID)
		super_keeper_died(s);
	else if (source == SOURCE_RECORDER)
		super_hear_recorder(s);
	else if (source == SOURCE_RECORDER_PID)
		super_recorder_died(s);
	else if (source >= SOURCE_WORKER_PIDS)
		super_worker_died(s, (unsigned)(source - SOURCE_WORKER_PIDS));
	else if (source >= SOURCE_WORKERS)
		while (super_hear_worker(s, (unsigned)(source - SOURCE_WORKERS)) &&
			++turns < MESSAGES_A_TURN)
			continue;
	else
		while (super_hear_netd(s) && s->phase == PHASE_RUN && ++turns < MESSAGES_A_TURN)
			continue;
}

static int super_reload_timeout_ms(struct super *s, uint64_t now)
{
	uint64_t deadline = reload_deadline_ns(&s->reload);
	if (deadline == UINT64_MAX)
		return -1;
	if (now < deadline)
		return (int)((deadline - now) / NS_PER_MS) + 1;
	reload_expired(&s->reload, &s->crew);
	return 0;
}

/** Deadlines of the end: first workers that do not finish are killed, then the recorder is left. */
static int super_timeout_ms(struct super *s)
{
	uint64_t now = clock_monotonic_ns();
	if (s->phase < PHASE_ENDING)
		return super_reload_timeout_ms(s, now);
	if (now < s->deadline_ns)
		return (int)((s->deadline_ns - now) / NS_PER_MS) + 1;
	if (s->phase == PHASE_DRAIN) {
		log_event(LOG_LEVEL_ERROR, "recorder-slow", "rings are left to the next start");
		s->status = 1;
		s->phase = PHASE_DONE;
		return 0;
	}
	s->deadline_ns = now + END_WAIT_NS;
	super_end(s, 0, true);
	return s->phase == PHASE_DONE ? 0 : (int)(END_WAIT_NS / NS_PER_MS);
}

static void super_turn(struct super *s)
{
	struct pollfd waits[SOURCE_COUNT];
	super_sources(s, waits);
	int timeout_ms = super_timeout_ms(s);
	if (s->phase == PHASE_DONE || poll(waits, SOURCE_COUNT, timeout_ms) <= 0)
		return;
	for (size_t i = 0; i < SOURCE_COUNT && s->phase != PHASE_DONE; i++) {
		struct pollfd now[SOURCE_COUNT];
		if (waits[i].revents == 0)
			continue;
		super_sources(s, now); /* an earlier event may have closed or replaced it */
		if (now[i].fd == waits[i].fd)
			super_dispatch(s, i);
	}
}

/** The launcher handles the terminal's signals; SIGTERM ends a service. */
static int super_signals(void)
{
	const int ignored[] = {SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
	for (size_t i = 0; i < array_size(ignored); i++) {
		if (sigaction(ignored[i], &(struct sigaction){.sa_handler = SIG_IGN}, NULL) < 0)
			return -errno;
	}
	sigset_t term;
	(void)sigemptyset(&term); /* can't fail on a set of ours */
	(void)sigaddset(&term, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &term, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/** Keep 0-2 and the two channels. @return 0 or negative errno. */
static int super_descriptors(int launcher_fd, int netd_fd)
{
	const int channels[] = {launcher_fd, netd_fd};
	for (size_t i = 0; i < array_size(channels); i++) {
		if (fcntl(channels[i], F_SETFD, FD_CLOEXEC) < 0 ||
			fcntl(channels[i], F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	return confine_keep_only(channels, array_size(channels));
}

int super_run(int launcher_fd, int netd_fd)
{
	struct super s = {.launcher_fd = launcher_fd, .netd_fd = netd_fd, .signal_fd = -1};
	struct failure why = {0};
	crew_init(&s.crew);
	reload_init(&s.reload, launcher_fd);
	(void)prctl(PR_SET_NAME, "eclusa-super", 0, 0, 0); /* for people only */
	int r = privilege_hide();
	if (r == 0)
		r = super_descriptors(launcher_fd, netd_fd);
	if (r == 0)
		r = s.signal_fd = super_signals();
	if (r < 0) {
		(void)failure_errno(&why, r, "proxy: can't start");
		super_fail(&s, &why);
		s.phase = PHASE_DONE;
	}
	tls_warm_up(); /* while the launcher gets ready to say what to do */
	while (s.phase != PHASE_DONE)
		super_turn(&s);
	crew_kill(&s.crew.keeper);
	if (s.answer) {
		struct message_header finished = {.kind = MESSAGE_PROXY_FINISHED};
		(void)channel_send(launcher_fd, &finished, sizeof(finished), NULL,
			0); /* if it is gone, nobody asks */
	}
	reload_fini(&s.reload);
	crew_fini(&s.crew);
	roster_fini(&s.roster);
	return s.status;
}
