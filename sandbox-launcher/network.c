/*
 * See network.h. Both programs are started before anything else is prepared, and every message is
 * sent before any answer is awaited, so that their start-up, the gateway's making and our own work
 * overlap. Both are ours and trusted to say what went wrong; that they are alive is read from
 * pidfds only.
 */
#include "sandbox-launcher/network.h"

#include "audit/key.h"
#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/resolver.h"
#include "common/upstream.h"
#include "ipc/channel.h"
#include "ipc/openings.h"
#include "policy/policy.h"
#include "sandbox-launcher/leased.h"
#include "ipc/program.h"
#include "common/uids.h"

#include <fcntl.h>
#include <sys/prctl.h>

/* An embedded run has one sandbox, and a sandbox belongs to one worker: docs/decisions/0002. */
#define NETWORK_WORKERS       1
#define NETWORK_FINISH_NS     (5 * NS_PER_SEC)
#define NETWORK_LAST_WORDS_NS (300 * NS_PER_MS)
#define NETWORK_NETD_NS       NS_PER_SEC /* for netd to take the guard away and quit */

/** What is known of one program's answer. */
enum network_answer {
	NETWORK_AWAITED,
	NETWORK_PLACED, /* what it made is known; it does not serve yet */
	NETWORK_ANSWERED,
	NETWORK_ENDED,
	NETWORK_FAILED
};

struct network {
	struct program netd;
	struct program proxy;
	uid_t proxy_uid; /* root: claimed for this run's proxy alone, see docs/decisions/0006 */
	int proxy_uid_lock;
	enum network_answer netd_answer;
	enum network_answer proxy_answer;
	int namespace_fd;
	struct message_lease_granted granted;
	struct message_proxy_ready ready;
	char ring_id[MESSAGE_NAME_BYTES];
	bool started; /* both were told what to do */
	bool has_ring;
	bool has_guard;        /* netd has loaded the dial guard */
	bool retired;          /* both have said all that they had to say */
	bool dismissed;        /* netd was told to quit */
	int segment_fd;        /* borrowed */
	int audit_folder_fd;   /* borrowed */
	struct leased *leased; /* a service's network, and none of the programs; NULL: none */
};

/** What the start messages need, gathered while the programs start. */
struct network_parts {
	struct message_netd_start netd;
	struct message_proxy_start proxy;
	struct openings openings; /* gathered in netd */
	int bundle_fd, ring_fd, audit_key_fd;
	struct upstream_files upstream;
	struct upstream_proxy upstream_proxy;
	int upstream_proxy_fd;
};

static int network_spawn(struct network *n, struct failure *why)
{
	auto_fd netd_far = -1, proxy_far = -1, netd_side = -1, proxy_side = -1;
	int to_netd[2], to_proxy[2], between[2];
	int r = channel_pair(to_netd);
	if (r < 0)
		return failure_errno(why, r, "can't make channels");
	netd_far = to_netd[1];
	n->netd.channel_fd = to_netd[0];
	r = channel_pair(to_proxy);
	if (r < 0)
		return failure_errno(why, r, "can't make channels");
	proxy_far = to_proxy[1];
	n->proxy.channel_fd = to_proxy[0];
	r = channel_pair(between);
	if (r < 0)
		return failure_errno(why, r, "can't make channels");
	netd_side = between[0];
	proxy_side = between[1];
	/* the proxy first: loading and initialising its libraries takes longest */
	r = program_spawn("eclusa-proxy", proxy_far, proxy_side, &n->proxy, why);
	if (r == 0)
		r = program_spawn("eclusa-netd", netd_far, netd_side, &n->netd, why);
	return r;
}

static int network_find_resolvers(
	const struct network_options *options, struct network_parts *parts, struct failure *why)
{
	struct resolver found[MESSAGE_RESOLVERS_MAX];
	int count = resolver_find(options->resolver, found, array_size(found), why);
	if (count < 0)
		return count;
	parts->proxy.resolver_count = (uint32_t)count;
	for (int i = 0; i < count; i++) {
		parts->proxy.resolvers[i].address = found[i].address;
		parts->proxy.resolvers[i].port = found[i].port;
		openings_open_server(&parts->openings, &found[i].address, found[i].port);
	}
	return 0;
}

/** The proxy that everything goes through, which may have an address of the company's own. */
static int network_find_proxy(
	const struct network_options *options, struct network_parts *parts, struct failure *why)
{
	struct upstream_proxy *proxy = &parts->upstream_proxy;
	int r = upstream_proxy_find(&options->upstream_proxy, proxy, why);
	for (uint32_t i = 0; r == 0 && i < proxy->count; i++)
		openings_open_proxy(&parts->openings, &proxy->addresses[i], proxy->port);
	if (r == 0 && proxy->count > 0) {
		r = parts->upstream_proxy_fd = upstream_proxy_write(proxy);
		if (r < 0)
			(void)failure_errno(why, r, "can't hand over the upstream proxy's place");
	}
	upstream_proxy_wipe(proxy);
	return r < 0 ? r : 0;
}

/**
 * What the dial guard lets through beyond public addresses: resolvers, the upstream proxy, and what some rule's addr=
 * opens.
 */
static int network_open_rules(
	const struct network_options *options, struct network_parts *parts, struct failure *why)
{
	policy_opened(options->policy, openings_open, &parts->openings);
	if (parts->openings.too_many_opened)
		return failure_set(why, -E2BIG,
			"the policy's addr= open more than %d prefixes and ports",
			MESSAGE_OPENED_MAX);
	return 0;
}

/** Addresses by which a client that knows no proxy may ask: the gateway hands such connections to it. */
static int network_capture(
	const struct network_options *options, struct network_parts *parts, struct failure *why)
{
	if (options->rules == NULL)
		return 0;
	policy_asked_by_address(options->rules, openings_capture, &parts->openings);
	if (parts->openings.too_many_captured)
		return failure_set(
			why, -E2BIG, "the policy has more than %d ip: rules", MESSAGE_CAPTURED_MAX);
	return 0;
}

/** netd's two messages: it builds the gateway while we go on. */
static int network_send_netd(struct network *n, const struct network_options *options,
	struct network_parts *parts, struct failure *why)
{
	int r = network_find_resolvers(options, parts, why);
	if (r == 0)
		r = network_find_proxy(options, parts, why);
	if (r == 0 && options->root)
		r = n->proxy_uid_lock = uids_claim(&n->proxy_uid, why);
	if (r >= 0 && options->root)
		r = network_open_rules(options, parts, why);
	if (r >= 0)
		r = network_capture(options, parts, why);
	if (r < 0)
		return r;
	parts->netd.header.kind = MESSAGE_NETD_START;
	parts->netd.workers = NETWORK_WORKERS;
	parts->netd.dial_guard = options->root;
	parts->netd.proxy_uid = n->proxy_uid;
	struct message_lease lease = {.header = {.kind = MESSAGE_LEASE}};
	if (slice_copy(slice_of(options->sandbox_id), lease.sandbox_id, sizeof(lease.sandbox_id)) <
			0 ||
		slice_copy(slice_of(options->profile), lease.profile, sizeof(lease.profile)) < 0)
		return failure_set(why, -ENAMETOOLONG, "the profile's name is too long");
	r = channel_send(n->netd.channel_fd, &parts->netd, sizeof(parts->netd), NULL, 0);
	if (r == 0)
		r = channel_send(n->netd.channel_fd, &lease, sizeof(lease), NULL, 0);
	/* EPIPE: it has ended; network_wait() reads its last words */
	return r < 0 && r != -EPIPE ? failure_errno(why, r, "can't speak to eclusa-netd") : 0;
}

static int network_open_files(struct network *n, const struct network_options *options,
	struct network_parts *parts, struct failure *why)
{
	parts->bundle_fd = file_memory("policy", options->bundle);
	if (parts->bundle_fd < 0)
		return failure_errno(why, parts->bundle_fd, "can't hand over the policy");
	const struct upstream_options upstream = {
		options->upstream_ca, options->hosts, options->upstream_proxy};
	int r = upstream_open(&upstream, &parts->upstream, why);
	if (r < 0)
		return r;
	struct failure key = {0};
	parts->audit_key_fd = audit_key_open_default(options->root, &key);
	if (key.code < 0)
		return failure_set(why, key.code, "%s", key.text);
	r = slice_copy(slice_of(options->sandbox_id), n->ring_id, sizeof(n->ring_id));
	if (r < 0)
		return failure_errno(why, r, "sandbox id");
	parts->ring_fd = audit_ring_create(n->audit_folder_fd, n->ring_id, AUDIT_RING_SLOTS, why);
	if (parts->ring_fd < 0)
		return parts->ring_fd;
	n->has_ring = true;
	return 0;
}

static int network_send_proxy(struct network *n, const struct network_options *options,
	struct network_parts *parts, struct failure *why)
{
	int r = network_open_files(n, options, parts, why);
	if (r < 0)
		return r;
	int fds[8] = {parts->bundle_fd, n->segment_fd, parts->ring_fd, parts->upstream.roots_fd};
	size_t count = 4;
	if (parts->upstream.more_roots_fd >= 0)
		fds[count++] = parts->upstream.more_roots_fd;
	if (parts->upstream.hosts_fd >= 0)
		fds[count++] = parts->upstream.hosts_fd;
	if (parts->audit_key_fd >= 0)
		fds[count++] = parts->audit_key_fd;
	if (parts->upstream_proxy_fd >= 0)
		fds[count++] = parts->upstream_proxy_fd;
	parts->proxy.header.kind = MESSAGE_PROXY_START;
	parts->proxy.workers = NETWORK_WORKERS;
	parts->proxy.uid = n->proxy_uid;
	parts->proxy.has_upstream_ca = parts->upstream.more_roots_fd >= 0;
	parts->proxy.has_hosts = parts->upstream.hosts_fd >= 0;
	parts->proxy.has_audit_key = parts->audit_key_fd >= 0;
	parts->proxy.has_upstream_proxy = parts->upstream_proxy_fd >= 0;
	(void)slice_copy(slice_of(options->profile), parts->proxy.profile,
		sizeof(parts->proxy.profile)); /* it fitted in the lease */
	r = channel_send(n->proxy.channel_fd, &parts->proxy, sizeof(parts->proxy), fds, count);
	/* EPIPE: it has ended; network_wait() reads its last words */
	return r < 0 && r != -EPIPE ? failure_errno(why, r, "can't speak to eclusa-proxy") : 0;
}

int network_lease_from(struct leased *leased, struct network **ret, struct failure *why)
{
	struct network *n = calloc(1, sizeof(*n));
	if (n == NULL)
		return failure_errno(why, -ENOMEM, "network");
	n->netd = PROGRAM_NONE;
	n->proxy = PROGRAM_NONE;
	n->proxy_uid_lock = n->namespace_fd = -1;
	n->leased = leased;
	*ret = n;
	return 0;
}

struct leased *network_leased(const struct network *n)
{
	return n == NULL ? NULL : n->leased;
}

int network_begin(struct network **ret, struct failure *why)
{
	struct network *n = calloc(1, sizeof(*n));
	if (n == NULL)
		return failure_errno(why, -ENOMEM, "network");
	n->netd = PROGRAM_NONE;
	n->proxy = PROGRAM_NONE;
	n->namespace_fd = -1;
	n->proxy_uid_lock = -1;
	/* what a dead super leaves in its group becomes our child: program_end() */
	int r = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0
		? failure_errno(why, -errno, "can't become a subreaper")
		: network_spawn(n, why);
	if (r < 0) {
		network_free(n);
		return r;
	}
	*ret = n;
	return 0;
}

int network_start(struct network *n, const struct network_options *options, struct failure *why)
{
	auto_free struct network_parts *parts = calloc(1, sizeof(*parts));
	if (parts == NULL)
		return failure_errno(why, -ENOMEM, "network");
	n->has_guard = options->root;
	n->segment_fd = options->segment_fd;
	n->audit_folder_fd = options->audit_folder_fd;
	parts->bundle_fd = parts->ring_fd = parts->audit_key_fd = parts->upstream_proxy_fd = -1;
	parts->upstream = UPSTREAM_FILES_NONE;
	parts->openings = (struct openings){.to = &parts->netd};
	int r = network_send_netd(n, options, parts, why);
	if (r == 0)
		r = network_send_proxy(n, options, parts, why);
	n->started = r == 0; /* who was told nothing is not asked to finish: it would complain */
	fd_close(&parts->bundle_fd);
	upstream_close(&parts->upstream);
	fd_close(&parts->ring_fd);
	fd_close(&parts->audit_key_fd);
	fd_close(&parts->upstream_proxy_fd);
	return r;
}

/** A message from one of the programs; at least a header long. */
union network_message {
	struct message_header header;
	struct message_failed failed;
	struct message_lease_granted granted;
	struct message_proxy_ready ready;
	struct message_counters_read counters;
};

static enum network_answer network_failed(
	const struct program *p, const struct message_failed *m, struct failure *why)
{
	char text[MESSAGE_TEXT_BYTES];
	memcpy(text, m->text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	(void)failure_set(why, m->code < 0 ? m->code : -EIO, "%s: %s", p->name, text);
	return NETWORK_FAILED;
}

/** An answer that is awaited: first what is made, then, in a message of the same shape, that it serves. */
struct network_awaited {
	uint32_t placed, answered; /* enum message_kind */
	size_t size;
};

/** Read what one program has to say; a descriptor in @ret_fd if not NULL. */
static enum network_answer network_read(struct program *p, union network_message *m,
	const struct network_awaited *awaited, int *ret_fd, struct failure *why)
{
	size_t count = 0;
	int fd = -1;
	int len =
		channel_receive(p->channel_fd, m, sizeof(*m), &fd, ret_fd == NULL ? 0 : 1, &count);
	bool answered = len > 0 && m->header.kind == awaited->answered;
	if (len > 0 && (size_t)len == awaited->size &&
		(answered || m->header.kind == awaited->placed) &&
		count == (ret_fd == NULL ? 0 : 1)) {
		if (ret_fd != NULL)
			*ret_fd = fd;
		return answered ? NETWORK_ANSWERED : NETWORK_PLACED;
	}
	if (count > 0)
		fd_close(&fd);
	if (len == sizeof(m->failed) && m->header.kind == MESSAGE_FAILED)
		return network_failed(p, &m->failed, why);
	if (len == 0)
		return NETWORK_ENDED;
	(void)failure_set(why, -EPROTO, "%s sent an unexpected message", p->name);
	return NETWORK_FAILED;
}

/** Somebody who may still say something: even after its answer it may have to say that it failed. */
static bool network_listens(enum network_answer answer)
{
	return answer <= NETWORK_ANSWERED;
}

static bool network_knows(enum network_answer answer)
{
	return answer == NETWORK_PLACED || answer == NETWORK_ANSWERED;
}

static void network_hear_netd(struct network *n, struct failure *why)
{
	static const struct network_awaited awaited = {
		MESSAGE_LEASE_PLACED, MESSAGE_LEASE_GRANTED, sizeof(struct message_lease_granted)};
	union network_message m = {0};
	int fd = -1;
	n->netd_answer = network_read(&n->netd, &m, &awaited, &fd, why);
	if (!network_knows(n->netd_answer))
		return;
	fd_close(&n->namespace_fd);
	n->namespace_fd = fd;
	n->granted = m.granted;
}

static void network_hear_proxy(struct network *n, struct failure *why)
{
	static const struct network_awaited awaited = {
		MESSAGE_PROXY_CA, MESSAGE_PROXY_READY, sizeof(struct message_proxy_ready)};
	union network_message m = {0};
	n->proxy_answer = network_read(&n->proxy, &m, &awaited, NULL, why);
	if (network_knows(n->proxy_answer))
		n->ready = m.ready;
}

/** Hear who speaks next. @return 0, -ETIMEDOUT, or another negative errno. */
static int network_turn(struct network *n, uint64_t deadline_ns, struct failure *why)
{
	uint64_t now = clock_monotonic_ns();
	if (now >= deadline_ns)
		return -ETIMEDOUT;
	struct pollfd waits[2] = {
		{.fd = network_listens(n->netd_answer) ? n->netd.channel_fd : -1, .events = POLLIN},
		{.fd = network_listens(n->proxy_answer) ? n->proxy.channel_fd : -1,
			.events = POLLIN},
	};
	int left_ms = (int)((deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS);
	if (poll(waits, 2, left_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	if (waits[0].revents != 0)
		network_hear_netd(n, why);
	if (waits[1].revents != 0)
		network_hear_proxy(n, why);
	return 0;
}

/** One is gone without a word: say which, and how. Of two, one may only have followed the other, so both are told. */
static int network_say_ended(struct network *n, struct failure *why)
{
	bool both = n->netd_answer == NETWORK_ENDED && n->proxy_answer == NETWORK_ENDED;
	struct program *p = n->netd_answer == NETWORK_ENDED ? &n->netd : &n->proxy;
	uint64_t deadline_ns = clock_monotonic_ns() + NETWORK_LAST_WORDS_NS;
	char ending[64], other[64];
	(void)program_end(p, deadline_ns);
	if (both)
		(void)program_end(&n->proxy, deadline_ns);
	if (both && p->status != 0 && n->proxy.status != 0)
		return failure_set(why, -EPIPE, "%s %s, %s %s before the network was ready",
			p->name, program_ending(p, ending, sizeof(ending)), n->proxy.name,
			program_ending(&n->proxy, other, sizeof(other)));
	if (both && p->status == 0)
		p = &n->proxy;
	return failure_set(why, -EPIPE, "%s %s before the network was ready", p->name,
		program_ending(p, ending, sizeof(ending)));
}

/** What the answers heard so far amount to: 1 both are @wanted, 0 not yet, or negative errno. */
static int network_judge(struct network *n, enum network_answer wanted, struct failure *why)
{
	if (n->netd_answer == NETWORK_FAILED || n->proxy_answer == NETWORK_FAILED)
		return why == NULL || why->code == 0 ? -EIO : why->code;
	if (n->netd_answer == NETWORK_ENDED && n->proxy_answer == NETWORK_ENDED)
		return network_say_ended(n, why);
	if (!network_listens(n->netd_answer) || !network_listens(n->proxy_answer) ||
		n->netd_answer < wanted || n->proxy_answer < wanted)
		return 0;
	if (n->ready.ca_len > sizeof(n->ready.ca_pem))
		return failure_set(why, -EPROTO, "eclusa-proxy sent a malformed message");
	return 1;
}

static int network_await_both(
	struct network *n, enum network_answer wanted, uint64_t deadline_ns, struct failure *why)
{
	bool last_words = false;
	if (n->leased != NULL)
		return 0; /* it was waited for when it was asked for */
	for (;;) {
		int r = network_judge(n, wanted, why);
		if (r != 0)
			return r < 0 ? r : 0;
		bool ended = n->netd_answer == NETWORK_ENDED || n->proxy_answer == NETWORK_ENDED;
		uint64_t last_ns = clock_monotonic_ns() + NETWORK_LAST_WORDS_NS;
		/* each quits when the other does: the one that knows why may speak second */
		if (ended && !last_words && last_ns < deadline_ns)
			deadline_ns = last_ns;
		last_words = ended;
		r = network_turn(n, deadline_ns, why);
		if (r == -ETIMEDOUT && ended)
			return network_say_ended(n, why);
		if (r == -ETIMEDOUT)
			return failure_set(why, r, "the network was not ready in time: %s is late",
				n->netd_answer < wanted ? n->netd.name : n->proxy.name);
		if (r < 0)
			return failure_errno(why, r, "can't wait for the network");
	}
}

int network_wait_place(struct network *n, uint64_t deadline_ns, struct failure *why)
{
	return network_await_both(n, NETWORK_PLACED, deadline_ns, why);
}

int network_wait(struct network *n, uint64_t deadline_ns, struct failure *why)
{
	return network_await_both(n, NETWORK_ANSWERED, deadline_ns, why);
}

int network_namespace_fd(const struct network *n)
{
	return n->leased != NULL ? leased_namespace_fd(n->leased) : n->namespace_fd;
}

const struct message_lease_granted *network_lease(const struct network *n)
{
	return n->leased != NULL ? &leased_granted(n->leased)->lease : &n->granted;
}

struct slice network_ca_pem(const struct network *n)
{
	if (n->leased != NULL) {
		const struct service_granted *g = leased_granted(n->leased);
		return (struct slice){g->ca_pem, g->ca_len};
	}
	return (struct slice){n->ready.ca_pem, n->ready.ca_len};
}

void network_poll(const struct network *n, struct pollfd ret[static NETWORK_POLL_COUNT])
{
	if (n->leased != NULL) {
		ret[0] = (struct pollfd){.fd = leased_fd(n->leased), .events = POLLIN};
		ret[1] = (struct pollfd){.fd = -1};
		return;
	}
	/* pidfds, not channels: a channel's end may outlive its program in a child of it */
	ret[0] = (struct pollfd){.fd = n->netd.pidfd, .events = POLLIN};
	ret[1] = (struct pollfd){.fd = n->proxy.pidfd, .events = POLLIN};
}

static int network_ask(struct program *p, enum message_kind question)
{
	const struct message_header header = {.kind = question};
	return channel_send(p->channel_fd, &header, sizeof(header), NULL, 0);
}

/**
 * Wait for the answer to a question; earlier answers that nobody read are passed over. @return its
 * length or negative errno.
 */
static int network_await(struct program *p, enum message_kind answer, uint64_t deadline_ns,
	union network_message *ret)
{
	for (;;) {
		auto_fd fd = -1;
		size_t count = 0;
		int len = channel_receive_until(
			p->channel_fd, deadline_ns, ret, sizeof(*ret), &fd, 1, &count);
		if (len <= 0)
			return len < 0 ? len : -EPIPE;
		if ((size_t)len < sizeof(ret->header))
			return -EPROTO;
		if (ret->header.kind == answer)
			return len;
		if (ret->header.kind == MESSAGE_FAILED)
			return -EPIPE;
	}
}

/**
 * netd takes the dial guard away and quits: it may, once nobody who could dial is left. Without that word it is killed: then the
 * kernel takes the guard away with the last process that has its socket, and makes that one wait.
 */
static void network_dismiss_netd(struct network *n)
{
	if (!n->dismissed)
		n->dismissed = network_ask(&n->netd, MESSAGE_NETD_FINISH) == 0;
}

/**
 * The proxy first: it ends when its channel does, or is killed. netd is the last holder of the namespaces and of the
 * dial guard. Both are reaped with all that was theirs: where process 1 reaps nothing, as in many containers, they would
 * stay as zombies. @return whether the proxy ended well.
 */
static bool network_end_programs(struct network *n, uint64_t deadline_ns)
{
	fd_close(&n->proxy.channel_fd);
	bool gone = program_end(&n->proxy, deadline_ns);
	fd_close(&n->namespace_fd);
	if (gone && n->retired)
		network_dismiss_netd(n);
	if (!n->dismissed)
		program_kill(&n->netd); /* it has nothing left to say */
	fd_close(&n->netd.channel_fd);
	(void)program_end(
		&n->netd, n->dismissed ? clock_monotonic_ns() + NETWORK_NETD_NS : deadline_ns);
	return n->proxy.status == 0;
}

/**
 * Whatever the recorder did not get to. @return 0 or negative errno: the next start completes it.
 */
static int network_complete_ring(struct network *n)
{
	if (!n->has_ring)
		return 0;
	struct audit_segment *segment;
	int r = audit_segment_attach(n->segment_fd, n->ring_id, &segment, NULL);
	if (r < 0)
		return r;
	r = audit_ring_complete(n->audit_folder_fd, n->ring_id, segment);
	audit_segment_free(segment);
	n->has_ring = false;
	return r < 0 ? r : 0;
}

/**
 * Both said their last words: the kernel takes down processes and namespaces while the caller goes on; network_free() waits for
 * it. @return false: something is left in the ring after all.
 */
static bool network_retire(struct network *n)
{
	if (n->has_ring && audit_ring_retire(n->audit_folder_fd, n->ring_id) < 0)
		return false;
	n->has_ring = false;
	n->retired = true;
	program_kill(&n->proxy);
	if (!n->has_guard)
		network_dismiss_netd(n);
	fd_close(&n->namespace_fd);
	return true;
}

int network_finish(struct network *n, struct message_counters_read *ret_counters)
{
	uint64_t deadline_ns = clock_monotonic_ns() + NETWORK_FINISH_NS;
	union network_message m;
	struct message_counters_read counters = {.header = {.kind = MESSAGE_COUNTERS_READ}};
	if (n->leased != NULL)
		return leased_finish(
			n->leased, deadline_ns, ret_counters != NULL ? ret_counters : &counters);
	if (!n->started)
		return -EPIPE;
	/* both are asked before either answers */
	int counted = network_ask(&n->netd, MESSAGE_COUNTERS);
	int finished = network_ask(&n->proxy, MESSAGE_PROXY_FINISH);
	if (counted == 0)
		counted = network_await(&n->netd, MESSAGE_COUNTERS_READ, deadline_ns, &m);
	if (counted == (int)sizeof(m.counters))
		counters = m.counters;
	if (finished == 0)
		finished = network_await(&n->proxy, MESSAGE_PROXY_FINISHED, deadline_ns, &m);
	bool well = counted >= 0 && finished >= 0;
	int completed = 0;
	if (!well || !network_retire(n)) {
		well = network_end_programs(n, deadline_ns) && well;
		completed = network_complete_ring(n);
	}
	if (ret_counters != NULL)
		*ret_counters = counters;
	return well ? completed : -EPIPE;
}

void network_free(struct network *n)
{
	if (n == NULL)
		return;
	if (n->leased != NULL) {
		leased_free(n->leased);
		free(n);
		return;
	}
	(void)network_end_programs(n, 0);
	(void)network_complete_ring(n); /* what is left, the next start completes */
	program_fini(&n->netd);
	program_fini(&n->proxy);
	fd_close(&n->proxy_uid_lock);
	free(n);
}
