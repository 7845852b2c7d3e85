/* One lease of a service, from the launcher's connection to its end. See serve_state.h for its states. */
#include "proxy/serve_state.h"

#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/** Whatever may arrive. */
union lease_message {
	struct message_header header;
	struct service_lease lease;
	struct service_event event;
	struct message_lease_granted granted;
	struct message_counters_read counters;
	struct message_failed failed;
};

static void set_state(struct serve_lease *l, enum serve_state state, uint32_t at_most_ms)
{
	l->state = state;
	l->deadline_ns =
		at_most_ms == 0 ? UINT64_MAX : clock_monotonic_ns() + at_most_ms * NS_PER_MS;
}

static int lease_watch(struct serve_lease *l, int fd, struct serve_source *source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
	return epoll_ctl(l->serve->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void serve_lease_new(struct serve *s, int fd, uid_t uid, pid_t pid)
{
	struct serve_lease *l = calloc(1, sizeof(*l));
	if (l == NULL) {
		fd_close(&fd);
		return;
	}
	*l = (struct serve_lease){.next = s->leases,
		.serve = s,
		.launcher = {.lease = l},
		.netd = {.lease = l, .netd = true},
		.fd = fd,
		.netd_fd = -1,
		.lines_fd = -1,
		.uid = uid,
		.pid = pid};
	s->leases = l;
	s->count++;
	s->asking++;
	set_state(l, SERVE_ASKS, s->limits.lease_ask_ms);
	if (lease_watch(l, fd, &l->launcher) < 0)
		serve_lease_expired(l);
}

static void lease_go(struct serve_lease *l)
{
	if (l->state == SERVE_ASKS)
		l->serve->asking--;
	set_state(l, SERVE_GONE, 0);
	fd_close(&l->fd);
	fd_close(&l->netd_fd);
}

void serve_lease_free(struct serve_lease *l)
{
	lease_go(l);
	serve_log_leave(l);
	fd_close(&l->lines_fd);
	free(l);
}

/** To its launcher. One that does not read is lost. */
static int lease_say(
	struct serve_lease *l, const void *bytes, size_t len, const int *fds, size_t count)
{
	return l->fd < 0 ? -EPIPE : channel_send(l->fd, bytes, len, fds, count);
}

/** It gets no network. */
static void lease_refuse(struct serve_lease *l, int code, const char *text)
{
	if (l->fd >= 0)
		message_send_failed(l->fd, code, text);
	log_event(LOG_LEVEL_WARN, "refused", "uid=%u pid=%d sandbox=%s error=\"%s\"", l->uid,
		(int)l->pid, l->id, text);
	serve_log_end(l, "setup", text);
	fd_close(&l->fd);
	fd_close(&l->netd_fd);
	if (l->queued == 0)
		lease_go(l);
}

/** Nothing of the sandbox may go on from here on. */
static void lease_settle(struct serve_lease *l)
{
	fd_close(&l->netd_fd);
	set_state(l, SERVE_SETTLES, l->serve->limits.lease_record_ms);
	fault_point("serve-settles");
}

/** The sandbox has ended, or ends with its launcher. */
static void lease_count(struct serve_lease *l)
{
	const struct message_header question = {.kind = MESSAGE_COUNTERS};
	set_state(l, SERVE_COUNTS, l->serve->limits.lease_record_ms);
	if (l->netd_fd < 0 || channel_send(l->netd_fd, &question, sizeof(question), NULL, 0) < 0)
		lease_settle(l);
}

static void lease_lose(struct serve_lease *l)
{
	fd_close(&l->fd);
	if (l->state == SERVE_MADE) {
		lease_settle(l);
	} else if (l->state == SERVE_RUNS) {
		lease_count(l);
	} else if (l->state == SERVE_TELLS || l->state == SERVE_READS) {
		if (l->events == 0)
			serve_log_packets(l);
		serve_log_end(l, "supervisor", "its launcher left before it had told the end");
		if (l->queued == 0)
			lease_go(l);
	} else if (l->state == SERVE_ASKS) {
		lease_go(l);
	}
}

/** A name for it that no other one has. */
static void lease_name(struct serve_lease *l)
{
	bool taken = true;
	while (taken) {
		char id[SANDBOX_ID_BYTES];
		(void)sandbox_id_new(id);
		taken = false;
		for (struct serve_lease *other = l->serve->leases; other != NULL;
			other = other->next)
			taken = taken || strcmp(other->id, id) == 0;
		if (!taken)
			memcpy(l->id, id, sizeof(l->id));
	}
}

/** The profile that was asked for, if the service has it. */
static const struct profile *lease_profile(
	const struct serve_lease *l, const char *name, struct failure *why)
{
	const struct profile *profile;
	const char *one;
	char shown[MESSAGE_NAME_BYTES * 4];
	bool only = name[0] == '\0' && serve_profile(l->serve, 1) == NULL;
	for (size_t i = 0; (one = serve_profile(l->serve, i)) != NULL; i++) {
		if (!only && strcmp(one, name) != 0)
			continue;
		return policy_profile(l->serve->policy, one, &profile, why) < 0 ? NULL : profile;
	}
	if (name[0] == '\0')
		(void)failure_set(why, -EINVAL, "the service has several profiles: say --profile");
	else
		(void)failure_set(why, -ENOENT, "the service has no profile %s",
			slice_escape(slice_of(name), shown, sizeof(shown)));
	return NULL;
}

/** SERVICE_LEASE: its start is recorded before anything is made. */
static void lease_ask(struct serve_lease *l, const struct service_lease *m)
{
	struct serve *s = l->serve;
	struct failure why = {0};
	struct serve_words words;
	struct audit_event event;
	bool whole = memchr(m->profile, '\0', sizeof(m->profile)) != NULL &&
		m->start.reason == REASON_SANDBOX_START &&
		serve_event_read(&m->start, &words, &event) == 0;
	const struct profile *profile = whole ? lease_profile(l, m->profile, &why) : NULL;
	if (profile == NULL) {
		lease_refuse(l, whole ? why.code : -EPROTO,
			whole ? why.text : "malformed request: is the service of another version?");
		return;
	}
	if (s->count - s->asking >= s->alone->options->leases) {
		lease_refuse(l, -EUSERS, "the service has as many sandboxes as it may");
		return;
	}
	s->asking--;
	lease_name(l);
	(void)slice_copy(slice_of(profile_name(profile)), l->profile, sizeof(l->profile));
	(void)slice_copy(
		slice_of(profile_digest(profile)), l->policy, sizeof(l->policy)); /* both fit */
	serve_log_mark(l);
	l->begun = true;
	set_state(l, SERVE_BEGINS, s->limits.lease_made_ms);
	serve_log_event(l, &m->start);
	serve_lease_go_on(l);
}

/** Recorded: netd makes the network. */
static void lease_make(struct serve_lease *l)
{
	struct message_lease m = {.header = {.kind = MESSAGE_LEASE}};
	int ends[2];
	memcpy(m.sandbox_id, l->id, sizeof(m.sandbox_id));
	memcpy(m.profile, l->profile, sizeof(m.profile));
	int r = channel_pair(ends);
	if (r == 0) {
		l->netd_fd = ends[0];
		r = channel_send(l->serve->alone->netd_fd, &m, sizeof(m), &ends[1], 1);
		fd_close(&ends[1]);
	}
	if (r == 0 && fcntl(l->netd_fd, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	if (r == 0)
		r = lease_watch(l, l->netd_fd, &l->netd);
	if (r < 0)
		lease_refuse(l, r, "the gateway can't be asked for a network");
	else
		set_state(l, SERVE_MADE, l->serve->limits.lease_made_ms);
}

/** Where its start is, absolute; "" when that can't be told. */
static void log_path(const struct alone *a, char to[static SERVICE_PATH_BYTES])
{
	char link[32], folder[SERVICE_PATH_BYTES / 2];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", a->audit_folder);
	ssize_t len = readlink(link, folder, sizeof(folder));
	if (len > 0 && len < (ssize_t)sizeof(folder))
		(void)snprintf(
			to, SERVICE_PATH_BYTES, "%.*s/%s", (int)len, folder, a->segment_name);
}

static void lease_grant(struct serve_lease *l, const struct message_lease_granted *m, int fd)
{
	struct serve *s = l->serve;
	struct service_granted granted = {.header = {.kind = SERVICE_GRANTED},
		.lease = *m,
		.has_roots = s->roots_fd >= 0,
		.ca_len = s->ready.ca_len};
	const int fds[] = {fd, s->roots_fd};
	memcpy(granted.sandbox_id, l->id, sizeof(l->id));
	memcpy(granted.profile, l->profile, sizeof(l->profile));
	memcpy(granted.policy, l->policy, sizeof(l->policy));
	memcpy(granted.ca_pem, s->ready.ca_pem, sizeof(s->ready.ca_pem));
	log_path(s->alone, granted.log);
	set_state(l, SERVE_RUNS, 0);
	if (lease_say(l, &granted, sizeof(granted), fds, granted.has_roots ? 2 : 1) < 0)
		lease_lose(l);
	fault_point("serve-granted");
}

static void lease_hear_netd(struct serve_lease *l)
{
	union lease_message m;
	auto_fd fd = -1;
	size_t count = 0;
	int got = channel_receive(l->netd_fd, &m, sizeof(m), &fd, 1, &count);
	if (got == -EAGAIN)
		return;
	if (got == (int)sizeof(m.granted) && m.header.kind == MESSAGE_LEASE_GRANTED && fd >= 0 &&
		l->state == SERVE_MADE) {
		lease_grant(l, &m.granted, fd);
	} else if (got == (int)sizeof(m.counters) && m.header.kind == MESSAGE_COUNTERS_READ &&
		l->state == SERVE_COUNTS) {
		l->counters = m.counters;
		lease_settle(l);
	} else if (got == (int)sizeof(m.granted) && m.header.kind == MESSAGE_LEASE_PLACED) {
		return; /* it is not served yet */
	} else if (l->state == SERVE_MADE) {
		bool said = got == (int)sizeof(m.failed) && m.header.kind == MESSAGE_FAILED;
		if (said)
			m.failed.text[sizeof(m.failed.text) - 1] = '\0';
		lease_refuse(l, said ? m.failed.code : -EPIPE,
			said ? m.failed.text : "the gateway made no network");
	} else {
		lease_settle(l); /* it has failed; nothing of the sandbox goes on */
	}
}

static void lease_settled(struct serve_lease *l)
{
	if (l->fd >= 0) {
		l->counters.header.kind = MESSAGE_COUNTERS_READ;
		set_state(l, SERVE_TELLS, l->serve->limits.lease_tell_ms);
		if (lease_say(l, &l->counters, sizeof(l->counters), NULL, 0) < 0)
			lease_lose(l);
		return;
	}
	set_state(l, SERVE_TELLS, 0);
	lease_lose(l);
}

static void lease_tell(struct serve_lease *l, const struct service_event *m)
{
	struct serve_words words;
	struct audit_event event;
	if (l->ended || l->events == SERVICE_EVENTS_MAX || m->reason == REASON_SANDBOX_START ||
		serve_event_read(m, &words, &event) < 0) {
		lease_lose(l);
		return;
	}
	l->events++;
	l->ended = event.reason == REASON_SANDBOX_EXIT;
	serve_log_event(l, m);
}

/** Of a sandbox whose end is in the log. */
static void lease_read(struct serve_lease *l)
{
	l->lines_fd = memfd_create("eclusa-lines", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!l->ended || l->lines_fd < 0) {
		lease_lose(l);
		return;
	}
	l->reading = l->file;
	l->at = l->from;
	set_state(l, SERVE_READS, 0);
}

static void lease_hear_launcher(struct serve_lease *l)
{
	union lease_message m;
	int got = channel_receive(l->fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got == (int)sizeof(m.lease) && m.header.kind == SERVICE_LEASE && l->state == SERVE_ASKS)
		lease_ask(l, &m.lease);
	else if (got == (int)sizeof(m.header) && m.header.kind == MESSAGE_COUNTERS &&
		l->state == SERVE_RUNS)
		lease_count(l);
	else if (got == (int)sizeof(m.event) && m.header.kind == SERVICE_EVENT &&
		l->state == SERVE_TELLS)
		lease_tell(l, &m.event);
	else if (got == (int)sizeof(m.header) && m.header.kind == SERVICE_LINES &&
		l->state == SERVE_TELLS)
		lease_read(l);
	else
		lease_lose(l); /* it has ended, or speaks another language */
}

void serve_lease_hear(struct serve_lease *l, bool netd)
{
	if (netd && l->netd_fd >= 0)
		lease_hear_netd(l);
	else if (!netd && l->fd >= 0)
		lease_hear_launcher(l);
}

static void lease_give_lines(struct serve_lease *l, int code)
{
	const struct service_lines_read m = {
		.header = {.kind = SERVICE_LINES_READ}, .code = code < 0 ? code : l->log_error};
	(void)fcntl(l->lines_fd, F_ADD_SEALS,
		F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL); /* its reader's only */
	(void)lease_say(l, &m, sizeof(m), &l->lines_fd, 1); /* who left is not told */
	lease_go(l);
}

void serve_lease_go_on(struct serve_lease *l)
{
	if (l->queued > 0)
		return;
	if (l->state == SERVE_BEGINS && l->log_error < 0)
		lease_refuse(l, l->log_error, "the service's audit log can't be written");
	else if (l->state == SERVE_BEGINS && l->fd < 0)
		lease_refuse(l, -EPIPE, "its launcher left");
	else if (l->state == SERVE_BEGINS)
		lease_make(l);
	else if (l->state == SERVE_READS) {
		int r = serve_log_read(l);
		if (r <= 0)
			lease_give_lines(l, r);
	} else if (l->ended && l->fd < 0)
		lease_go(l);
}

void serve_lease_expired(struct serve_lease *l)
{
	if (l->state == SERVE_BEGINS || l->state == SERVE_MADE) {
		lease_refuse(l, -ETIMEDOUT, "the network was not ready in time");
		set_state(l, l->state, 0);
	} else if (l->state == SERVE_COUNTS) {
		lease_settle(l);
	} else if (l->state == SERVE_SETTLES) {
		l->log_error = -ETIMEDOUT; /* something may come into the log later */
		lease_settled(l);
	} else {
		lease_lose(l);
	}
}

void serve_recorded(struct serve *s, const struct message_sandbox_told *told)
{
	for (struct serve_lease *l = s == NULL ? NULL : s->leases; l != NULL; l = l->next) {
		if (l->state != SERVE_SETTLES ||
			strncmp(l->id, told->sandbox_id, sizeof(l->id)) != 0)
			continue;
		if (told->code < 0)
			l->log_error = told->code;
		lease_settled(l);
		return;
	}
}

void serve_lease_end(struct serve_lease *l)
{
	serve_log_end(l, "supervisor", "the service ended");
}
