/* See leased.h. */
#include "sandbox-launcher/leased.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/channel.h"

#include <stdio.h>

#define LEASED_WAIT_NS (10 * NS_PER_SEC) /* for the network; the service has the same limit */

struct leased {
	int fd, namespace_fd, roots_fd;
	struct service_granted granted;
};

/** Cut where it is longer than the log keeps. NULL is "". */
static void copy_text(const char *text, char *to, size_t capacity)
{
	if (text != NULL)
		(void)slice_copy(slice_part(slice_of(text), 0, capacity - 1), to, capacity);
}

#define COPY_TEXT(text, to) copy_text((text), (to), sizeof(to))

static void copy_words(char *const *argv, struct service_event *to)
{
	size_t at = 0;
	for (uint32_t i = 0; argv != NULL && argv[i] != NULL && i < SERVICE_WORDS_MAX; i++) {
		size_t room = sizeof(to->argv) - at, len = strlen(argv[i]);
		if (room < 2)
			return;
		len = len < room - 1 ? len : room - 1;
		memcpy(to->argv + at, argv[i], len);
		at += len + 1; /* the struct is zero-filled */
		to->words++;
	}
}

static void copy_files(const struct audit_event *e, struct service_event *to)
{
	to->file_count = (uint32_t)e->file_count;
	for (size_t i = 0; i < e->file_count && i < SERVICE_FILES_MAX && i < AUDIT_FILES_MAX; i++) {
		COPY_TEXT(e->files[i].name, to->files[i].name);
		COPY_TEXT(e->files[i].sha256, to->files[i].sha256);
		to->files[i].size = e->files[i].size;
	}
}

static void event_write(const struct audit_event *e, struct service_event *to)
{
	*to = (struct service_event){.header = {.kind = SERVICE_EVENT},
		.class = e->class,
		.activity = e->activity,
		.reason = e->reason,
		.exit_code = e->exit_code,
		.signal = e->signal,
		.start_ms = e->start_ms,
		.end_ms = e->end_ms,
		.count = e->count,
		.wall_ms = e->wall_ms,
		.cpu_ms = e->cpu_ms,
		.memory_peak_bytes = e->memory_peak_bytes,
		.destination = e->destination,
		.destination_port = e->destination_port};
	COPY_TEXT(e->verdict, to->verdict);
	COPY_TEXT(e->door, to->door);
	COPY_TEXT(e->address_class, to->address_class);
	COPY_TEXT(e->subject, to->subject);
	COPY_TEXT(e->rule_text, to->rule_text);
	COPY_TEXT(e->detail, to->detail);
	copy_words(e->argv, to);
	copy_files(e, to);
}

/** What a service may answer. */
union leased_answer {
	struct message_header header;
	struct message_failed failed;
	struct service_granted granted;
	struct message_counters_read counters;
	struct service_lines_read lines;
};

static int judge_grant(union leased_answer *m, int len, size_t fds, struct failure *why)
{
	if (len == -ETIMEDOUT)
		return failure_set(why, len, "--service: the service does not answer");
	if (len <= 0)
		return failure_set(why, -EPIPE, "--service: the service ended without an answer");
	if (len == (int)sizeof(m->failed) && m->header.kind == MESSAGE_FAILED) {
		m->failed.text[sizeof(m->failed.text) - 1] = '\0';
		return failure_set(why, m->failed.code < 0 ? m->failed.code : -EIO, "--service: %s",
			m->failed.text);
	}
	struct service_granted *g = &m->granted;
	if (len != (int)sizeof(*g) || m->header.kind != SERVICE_GRANTED ||
		g->ca_len > sizeof(g->ca_pem) || fds != (g->has_roots != 0 ? 2U : 1U))
		return failure_set(why, -EPROTO, "--service: the service is of another version");
	g->sandbox_id[sizeof(g->sandbox_id) - 1] = g->profile[sizeof(g->profile) - 1] = '\0';
	g->policy[sizeof(g->policy) - 1] = g->log[sizeof(g->log) - 1] = '\0';
	return 0;
}

static int leased_ask(
	struct leased *l, const char *profile, const struct audit_event *start, struct failure *why)
{
	struct service_lease ask = {.header = {.kind = SERVICE_LEASE}};
	union leased_answer m = {.header = {0}};
	int fds[2] = {-1, -1};
	size_t count = 0;
	if (slice_copy(slice_of(profile == NULL ? "" : profile), ask.profile, sizeof(ask.profile)) <
		0)
		return failure_set(why, -ENAMETOOLONG, "the profile's name is too long");
	event_write(start, &ask.start);
	int r = channel_send(l->fd, &ask, sizeof(ask), NULL, 0);
	if (r < 0 && r != -EPIPE) /* it has ended the connection; its last words are read */
		return failure_errno(why, r, "--service");
	r = channel_receive_until(
		l->fd, clock_monotonic_ns() + LEASED_WAIT_NS, &m, sizeof(m), fds, 2, &count);
	r = judge_grant(&m, r, count, why);
	if (r < 0) {
		fd_close(&fds[0]);
		fd_close(&fds[1]);
		return r;
	}
	l->granted = m.granted;
	l->namespace_fd = fds[0];
	l->roots_fd = fds[1];
	return 0;
}

int leased_open(const char *socket, const char *profile, const struct audit_event *start,
	struct leased **ret, struct failure *why)
{
	struct leased *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return failure_errno(why, -ENOMEM, "--service");
	l->namespace_fd = l->roots_fd = -1;
	int r = l->fd = service_connect(socket, why);
	if (r >= 0)
		r = leased_ask(l, profile, start, why);
	if (r < 0) {
		leased_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void leased_free(struct leased *l)
{
	if (l == NULL)
		return;
	fd_close(&l->namespace_fd);
	fd_close(&l->roots_fd);
	fd_close(&l->fd);
	free(l);
}

const struct service_granted *leased_granted(const struct leased *l)
{
	return &l->granted;
}

int leased_namespace_fd(const struct leased *l)
{
	return l->namespace_fd;
}

int leased_roots_fd(const struct leased *l)
{
	return l->roots_fd;
}

int leased_fd(const struct leased *l)
{
	return l->fd;
}

static int ask_bare(struct leased *l, uint32_t kind)
{
	const struct message_header m = {.kind = kind};
	return channel_send(l->fd, &m, sizeof(m), NULL, 0);
}

int leased_finish(
	struct leased *l, uint64_t deadline_ns, struct message_counters_read *ret_counters)
{
	union leased_answer m = {.header = {0}};
	fd_close(&l->namespace_fd); /* the sandbox is gone; the network goes with it */
	int r = ask_bare(l, MESSAGE_COUNTERS);
	if (r == 0)
		r = channel_receive_until(l->fd, deadline_ns, &m, sizeof(m), NULL, 0, NULL);
	if (r < 0)
		return r;
	if (r != (int)sizeof(m.counters) || m.header.kind != MESSAGE_COUNTERS_READ)
		return r == 0 ? -EPIPE : -EPROTO;
	*ret_counters = m.counters;
	return 0;
}

int leased_record(struct leased *l, const struct audit_event *events, size_t count,
	uint64_t deadline_ns, int *ret_lines_fd)
{
	auto_free struct service_event *event = malloc(sizeof(*event));
	union leased_answer m = {.header = {0}};
	auto_fd fd = -1;
	size_t fds = 0;
	int r = event == NULL ? -ENOMEM : 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		event_write(&events[i], event);
		r = channel_send(l->fd, event, sizeof(*event), NULL, 0);
	}
	if (r == 0)
		r = ask_bare(l, SERVICE_LINES);
	if (r == 0)
		r = channel_receive_until(l->fd, deadline_ns, &m, sizeof(m), &fd, 1, &fds);
	if (r < 0)
		return r;
	if (r != (int)sizeof(m.lines) || m.header.kind != SERVICE_LINES_READ || fds != 1)
		return r == 0 ? -EPIPE : -EPROTO;
	*ret_lines_fd = fd_take(&fd);
	return m.lines.code < 0 ? m.lines.code : 0;
}
