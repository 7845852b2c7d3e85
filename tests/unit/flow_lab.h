/*
 * A worker with everything around it faked, but the keeper: the test is super and recorder, and
 * 127.0.0.1 is a sandbox. For the tests of the data plane.
 */
#ifndef ECLUSA_TESTS_UNIT_FLOW_LAB_H
#define ECLUSA_TESTS_UNIT_FLOW_LAB_H

#include "tests/unit/cmocka_setup.h"

#include "audit/ring.h"
#include "audit/event.h"
#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "ipc/channel.h"
#include "policy/profile.h"
#include "policy/source.h"
#include "proxy/keeper.h"
#include "proxy/worker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#define LAB_WAIT_NS   (60 * NS_PER_SEC)
#define LAB_PEM_BYTES 4096

struct lab_options {
	const char *const *rules; /* as --allow takes them */
	size_t rule_count;
	const char *hosts;
	struct slice origin_ca; /* PEM */
	const char *limits;     /* as ECLUSA_LIMITS, or NULL */
	const char *fault;      /* as ECLUSA_FAULT, or NULL */
	uint16_t resolver_port; /* on 127.0.0.1; 0: none */
	uint64_t expires_in_ms; /* of every rule, from the start; 0: never */
	bool dns;               /* it answers questions, too */
	int listener_fd;        /* borrowed: where it accepts; 0: a socket on 127.0.0.1 */
	int transparent_fd;     /* borrowed: the door for captured connections; 0: none */
};

struct lab_world {
	char folder[64];
	int folder_fd;
	int super_fd;
	int wake[2];
	int commit_fd;
	pid_t worker;
	pid_t keeper;
	uint16_t port; /* of the explicit listener */
	uint16_t dns_udp_port, dns_tcp_port;
	char ca_pem[LAB_PEM_BYTES];
	struct audit_ring *ring;
	int budget_fd; /* what rules grant and what was used of it */
	int synthetic_fd;
	struct policy *policy;
	struct buf bundle;
	struct buf events; /* lines drained so far */
};

/** In a new child: a fault ends it, instead of going on as the test. */
static inline void lab_child(void)
{
	const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE};
	struct sigaction normal = {.sa_handler = SIG_DFL};
	for (size_t i = 0; i < array_size(signals); i++)
		(void)sigaction(signals[i], &normal, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* nothing survives a test that crashed */
}

static inline int lab_listener(uint16_t *ret_port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

static inline int lab_udp(uint16_t *ret_port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

static inline void lab_policy(struct lab_world *w, const struct lab_options *o)
{
	struct failure why = {0};
	struct policy_report report = {0};
	buf_init(&w->bundle, 0);
	assert_int_equal(policy_source_rules(o->rules, o->rule_count, &w->bundle, &why), 0);
	if (policy_compile(buf_slice(&w->bundle), &w->policy, &report) < 0)
		fail_msg("%s", report.items[0].text);
	/* Policy text knows days only. */
	for (size_t i = 0; o->expires_in_ms != 0 && i < w->policy->profiles[0].rule_count; i++)
		((struct rule_entry *)(uintptr_t)w->policy->profiles[0].rules[i])->expires_ms =
			clock_wall_ms() + o->expires_in_ms;
}

static inline void lab_keeper(struct lab_world *w, int keeper_ends[2])
{
	int ready[2];
	assert_int_equal(channel_pair(keeper_ends), 0);
	assert_int_equal(channel_pair(ready), 0);
	w->keeper = fork();
	assert_true(w->keeper >= 0);
	if (w->keeper == 0) {
		lab_child();
		fd_close(&keeper_ends[0]);
		fd_close(&ready[0]);
		_exit(keeper_run(&(struct keeper_context){.worker_fds = &keeper_ends[1],
			.worker_count = 1,
			.super_fd = ready[1],
			.ca_fd = -1,
			.ca_key_fd = -1,
			.audit_key_fd = -1,
			.attest_fd = -1,
			.policy = w->policy}));
	}
	fd_close(&keeper_ends[1]);
	fd_close(&ready[1]);
	struct message_proxy_ready m;
	int len = channel_receive_until(
		ready[0], clock_monotonic_ns() + LAB_WAIT_NS, &m, sizeof(m), NULL, 0, NULL);
	assert_int_equal(len, (int)sizeof(m));
	assert_true(m.ca_len < sizeof(w->ca_pem));
	memcpy(w->ca_pem, m.ca_pem, m.ca_len);
	w->ca_pem[m.ca_len] = '\0';
	fd_close(&ready[0]);
}

/** Under ASan: what the worker still holds that nothing points at makes it fail. */
static inline int lab_leaks(int status)
{
#ifdef __SANITIZE_ADDRESS__
	if (__lsan_do_recoverable_leak_check() != 0)
		return 99;
#endif
	return status;
}

static inline void lab_worker(struct lab_world *w, const struct lab_options *o, int super_end,
	int keeper_fd, int listener)
{
	static struct message_proxy_start start;
	start = (struct message_proxy_start){.workers = 1};
	if (o->resolver_port != 0) {
		start.resolver_count = 1;
		start.resolvers[0].port = o->resolver_port;
		start.resolvers[0].address = (struct address){4, {127, 0, 0, 1}};
	}
	auto_fd dns_udp = o->dns ? lab_udp(&w->dns_udp_port) : -1;
	auto_fd dns_tcp = o->dns ? lab_listener(&w->dns_tcp_port) : -1;
	int ca_fd = file_memory("roots", o->origin_ca);
	assert_true(ca_fd >= 0);
	w->worker = fork();
	assert_true(w->worker >= 0);
	if (w->worker == 0) {
		lab_child();
		fd_close(&w->super_fd);
		if (o->limits != NULL)
			(void)setenv("ECLUSA_LIMITS", o->limits, 1);
		if (o->fault != NULL)
			(void)setenv("ECLUSA_FAULT", o->fault, 1);
		const struct worker_context context = {.channel_fd = super_end,
			.keeper_fd = keeper_fd,
			.recorder_fd = w->wake[1],
			.commit_fd = w->commit_fd,
			.explicit_fd = listener,
			.guard_fd = -1,
			.ca_bundle_fd = ca_fd,
			.upstream_ca_fd = -1,
			.hosts = slice_of(o->hosts),
			.ring = w->ring,
			.budget = budget_open(w->budget_fd),
			.synthetic = synthetic_open(w->synthetic_fd),
			.transparent_fd = o->transparent_fd > 0 ? o->transparent_fd : -1,
			.dns_udp_fd = dns_udp,
			.dns_tcp_fd = dns_tcp,
			.policy = w->policy,
			.start = &start,
			.instance = "test"};
		int status = worker_run(&context);
		budget_close(context.budget);
		synthetic_close(context.synthetic);
		_exit(lab_leaks(status));
	}
	fd_close(&ca_fd);
}

static inline void lab_add_sandbox(struct lab_world *w)
{
	struct message_sandbox m = {.header.kind = MESSAGE_SANDBOX_ADD,
		.sandbox_id = "sb-test",
		.address = {4, {127, 0, 0, 1}}};
	struct message_sandbox added;
	assert_int_equal(channel_send(w->super_fd, &m, sizeof(m), NULL, 0), 0);
	assert_int_equal(channel_receive_until(w->super_fd, clock_monotonic_ns() + LAB_WAIT_NS,
				 &added, sizeof(added), NULL, 0, NULL),
		(int)sizeof(added));
	assert_int_equal(added.header.kind, MESSAGE_SANDBOX_ADDED);
	struct message_header serve = {.kind = MESSAGE_PROXY_SERVE};
	assert_int_equal(channel_send(w->super_fd, &serve, sizeof(serve), NULL, 0), 0);
}

/** Without a sandbox yet. */
static inline void lab_begin(struct lab_world *w, const struct lab_options *o)
{
	struct failure why = {0};
	int super_ends[2], keeper_ends[2];
	*w = (struct lab_world){0};
	(void)snprintf(w->folder, sizeof(w->folder), "/tmp/eclusa-flow-XXXXXX");
	assert_non_null(mkdtemp(w->folder));
	w->folder_fd = audit_folder_open(w->folder, &why);
	assert_true(w->folder_fd >= 0);
	auto_fd ring_fd = audit_ring_create(w->folder_fd, "test", AUDIT_RING_SLOTS, &why);
	assert_true(ring_fd >= 0);
	w->ring = audit_ring_map(ring_fd);
	assert_non_null(w->ring);
	lab_policy(w, o);
	w->budget_fd = budget_create();
	assert_true(w->budget_fd >= 0);
	w->synthetic_fd = synthetic_create();
	assert_true(w->synthetic_fd >= 0);
	assert_int_equal(pipe2(w->wake, O_CLOEXEC | O_NONBLOCK), 0);
	w->commit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(w->commit_fd >= 0);
	lab_keeper(w, keeper_ends);
	assert_int_equal(channel_pair(super_ends), 0);
	w->super_fd = super_ends[0];
	auto_fd listener = o->listener_fd > 0 ? fcntl(o->listener_fd, F_DUPFD_CLOEXEC, 3)
					      : lab_listener(&w->port);
	lab_worker(w, o, super_ends[1], keeper_ends[0], listener);
	fd_close(&super_ends[1]);
	fd_close(&keeper_ends[0]);
}

static inline void lab_start(struct lab_world *w, const struct lab_options *o)
{
	lab_begin(w, o);
	lab_add_sandbox(w);
}

/** Move finished lines out of the ring. */
static inline struct slice lab_events(struct lab_world *w)
{
	static char storage[AUDIT_PACKED_BYTES_MAX];
	struct slice packed;
	struct audit_unpacked u;
	size_t metadata_end;
	while (audit_ring_peek(w->ring, storage, &packed) == 1) {
		assert_int_equal(audit_event_unpack(packed, &u), 0);
		assert_int_equal(audit_event_write(&u.event, &w->events, &metadata_end), 0);
		(void)buf_append(&w->events, SLICE("\n"));
		audit_ring_advance(w->ring);
	}
	return buf_slice(&w->events);
}

/** The decision that a dead worker left in its slot, as a line; NULL: there is none. */
static inline const char *lab_open_decision(struct lab_world *w)
{
	static char storage[AUDIT_PACKED_BYTES_MAX];
	static struct buf line;
	struct slice packed;
	struct audit_unpacked u;
	size_t metadata_end;
	if (audit_ring_take_open(w->ring, storage, &packed) == 0)
		return NULL;
	buf_clear(&line);
	assert_int_equal(audit_event_unpack(packed, &u), 0);
	assert_int_equal(audit_event_write(&u.event, &line, &metadata_end), 0);
	assert_int_equal(buf_append(&line, (struct slice){"", 1}), 0);
	return buf_slice(&line).ptr;
}

static inline int lab_reap(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/** Orderly end; the events stay for lab_events() until lab_free(). */
static inline void lab_finish(struct lab_world *w)
{
	const struct message_header finish = {.kind = MESSAGE_PROXY_FINISH};
	union {
		struct message_header header;
		struct message_sandbox sandbox;
	} m;
	assert_int_equal(channel_send(w->super_fd, &finish, sizeof(finish), NULL, 0), 0);
	do /* behind what it says of sandboxes that a test took away */
		assert_true(channel_receive_until(w->super_fd, clock_monotonic_ns() + LAB_WAIT_NS,
				    &m, sizeof(m), NULL, 0, NULL) > 0);
	while (m.header.kind == MESSAGE_SANDBOX_REMOVED);
	assert_int_equal(m.header.kind, MESSAGE_PROXY_FINISHED);
	assert_int_equal(lab_reap(w->worker), 0);
	(void)lab_events(w);
}

static inline void world_free(struct lab_world *w)
{
	char path[128];
	fd_close(&w->super_fd);
	(void)lab_reap(w->keeper); /* its last worker is gone, and so is it */
	fd_close(&w->wake[0]);
	fd_close(&w->wake[1]);
	fd_close(&w->commit_fd);
	fd_close(&w->budget_fd);
	fd_close(&w->synthetic_fd);
	audit_ring_free(w->ring);
	policy_free(w->policy);
	buf_fini(&w->bundle);
	buf_fini(&w->events);
	(void)snprintf(path, sizeof(path), "%s/open/test.ring", w->folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/open", w->folder);
	(void)rmdir(path);
	fd_close(&w->folder_fd);
	(void)rmdir(w->folder);
}

/* --- a client, and what was recorded of it --- */

static inline int lab_connect(const struct lab_world *w)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(w->port)};
	struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	return fd;
}

/** Read until the end. @return false when the end was a reset. */
static inline bool lab_drain(int fd, char *to, size_t capacity)
{
	size_t len = 0;
	ssize_t n;
	while ((n = read(fd, to + len, capacity - 1 - len)) > 0)
		len += (size_t)n;
	to[len] = '\0';
	return n == 0;
}

/** End the world; the recorded lines as one text. */
static inline const char *lab_recorded(struct lab_world *w)
{
	lab_finish(w);
	assert_int_equal(buf_append(&w->events, (struct slice){"", 1}), 0);
	return w->events.data + w->events.start;
}

static inline size_t count_of(const char *text, const char *what)
{
	size_t count = 0;
	for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
		count++;
	return count;
}

#define assert_says(text, what)                                                                    \
	do {                                                                                       \
		if (strstr((text), (what)) == NULL)                                                \
			fail_msg("no '%s' in: %s", (what), (text));                                \
	} while (0)
#define assert_says_not(text, what)                                                                \
	do {                                                                                       \
		if (strstr((text), (what)) != NULL)                                                \
			fail_msg("'%s' in: %s", (what), (text));                                   \
	} while (0)
#define assert_recorded(lines, reason, times)                                                      \
	do {                                                                                       \
		size_t n_ = count_of((lines), "\"status_code\":\"" reason "\"");                   \
		if (n_ != (times))                                                                 \
			fail_msg("%zu times " reason " in: %s", n_, (lines));                      \
	} while (0)

#endif
