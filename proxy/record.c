/* See record.h. */
#include "proxy/flow_state.h"

#include "audit/packed.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <assert.h>
#include <stdio.h>

#define UUID_TAIL_BYTES 12 /* the random end of a UUIDv7 */

/* OCSF 1.8 HTTP Activity. */
enum http_activity { ACTIVITY_CONNECT = 1, ACTIVITY_OTHER = 99 };
/* OCSF 1.8 Network Activity. */
enum network_activity { ACTIVITY_CLOSE = 2 };

static const struct {
	struct slice method;
	unsigned activity;
} activities[] = {
	{SLICE("DELETE"), 2},
	{SLICE("GET"), 3},
	{SLICE("HEAD"), 4},
	{SLICE("OPTIONS"), 5},
	{SLICE("POST"), 6},
	{SLICE("PUT"), 7},
	{SLICE("TRACE"), 8},
	{SLICE("PATCH"), 9},
};

void record_start(struct flow *f, struct record *r, bool connect)
{
	assert(!r->live);
	*r = (struct record){.live = true,
		.connect = connect,
		.slot = -1,
		.reason = REASON_ALLOW_RULE,
		.start_ms = clock_wall_ms(),
		.began_ns = clock_monotonic_ns()};
	(void)uuid_make(&f->worker->ids, r->start_ms, r->uid);
	memcpy(r->request_id, "req-", 4);
	memcpy(r->request_id + 4, r->uid + UUID_TEXT_BYTES - 1 - UUID_TAIL_BYTES,
		UUID_TAIL_BYTES + 1);
}

void record_continue(struct flow *f, struct record *r)
{
	if (f->question[0] == '\0')
		return;
	(void)slice_copy(slice_of(f->question), r->request_id,
		sizeof(r->request_id)); /* one too long is none of ours */
	if (!r->connect)
		f->question[0] = '\0';
}

void record_verdict(struct record *r, const struct policy_verdict *v)
{
	r->rule = v->rule;
	r->reason = v->reason;
	r->would = v->reason == REASON_OBSERVE_WOULD_DENY ? v->would : REASON_ALLOW_RULE;
	free(ptr_take(r->observed));
	if (v->reason == REASON_OBSERVE_WOULD_DENY && v->detail[0] != '\0')
		r->observed = strdup(v->detail); /* without memory the record says less */
}

bool record_observe(struct record *r, enum reason would)
{
	if (r->rule == NULL || !r->rule->observe)
		return false;
	if (r->reason == REASON_OBSERVE_WOULD_DENY)
		return true;
	r->reason = REASON_OBSERVE_WOULD_DENY;
	r->would = would;
	return true;
}

static struct slice words_copy(char **to, struct slice from)
{
	struct slice copy = {*to, from.len};
	if (from.len > 0)
		memcpy(*to, from.ptr, from.len);
	*to += from.len;
	return copy;
}

void record_describe(struct record *r, const struct record_words *words)
{
	size_t len = words->method.len + words->path.len + words->user_agent.len + words->host.len +
		words->claims.len;
	free(r->text);
	r->text = malloc(len + 1);
	r->method = r->path = r->user_agent = r->host = r->claims = (struct slice){0};
	if (r->text == NULL)
		return;
	char *to = r->text;
	r->method = words_copy(&to, words->method);
	r->path = words_copy(&to, words->path);
	r->user_agent = words_copy(&to, words->user_agent);
	r->host = words_copy(&to, words->host);
	r->claims = words_copy(&to, words->claims);
}

static unsigned activity(const struct record *r)
{
	if (r->connect)
		return ACTIVITY_CONNECT;
	for (size_t i = 0; i < array_size(activities); i++) {
		if (slice_equal(r->method, activities[i].method))
			return activities[i].activity;
	}
	return ACTIVITY_OTHER;
}

static void fill_rule(const struct record *r, struct audit_event *e)
{
	const struct rule *rule = r->rule;
	if (rule == NULL)
		return;
	e->rule_id = rule->id;
	e->rule_place = rule->file;
	e->rule_line = rule->line;
	e->rule_text = rule->text;
	e->rule_owner = rule->owner;
	e->rule_ticket = rule->ticket;
	e->rule_allows = rule->allow;
	e->observe = rule->observe;
}

/** Whether another rule for the request would have let it pass: not where a limit of its own rule was met. */
static bool rule_missing(enum reason would)
{
	switch ((int)would) {
	case REASON_DENY_DEFAULT:
	case REASON_DENY_EXPIRED:
	case REASON_DENY_PORT:
	case REASON_DENY_SCHEME:
	case REASON_DENY_METHOD:
	case REASON_DENY_PATH:
	case REASON_DENY_QUERY:
	case REASON_DENY_SMUGGLING: /* an encoded slash */
		return true;
	default:
		return false;
	}
}

/** The rule that only observe mode made unnecessary; empty: there is none. */
static void suggest_observed(
	const struct flow *f, const struct record *r, char *to, size_t capacity)
{
	const struct policy_question q = {.host = &f->host,
		.port = f->port,
		.scheme = f->scheme,
		.method = r->method,
		.path = r->path,
		.has_query = r->has_query,
		.encoded_slash = r->encoded_slash};
	to[0] = '\0';
	if (rule_missing(r->would))
		(void)policy_suggest(&q, r->rule, to, capacity);
}

static void fill_names(const struct flow *f, const struct record *r, struct audit_event *e)
{
	struct slice host = slice_of(f->host.name);
	e->host = r->host.len > 0 ? r->host : host;
	if (r->claims.len > 0) {
		e->connect_host = host;
		if (r->connect)
			e->sni = r->claims;
		else
			e->host_header = r->claims;
	} else if (f->tls_info != NULL && f->host.kind == HOST_NAME) {
		e->sni = host;
	}
}

static void fill_tls(const struct flow *f, struct audit_event *e)
{
	if (f->tls_info == NULL)
		return;
	e->tls_version = f->tls_info->version;
	e->tls_cipher = f->tls_info->cipher;
	e->tls_certificate_subject = f->tls_info->subject;
	e->tls_certificate_issuer = f->tls_info->issuer;
	e->tls_certificate_serial = f->tls_info->serial;
}

static const char *tls_mode(const struct flow *f)
{
	static const char *const modes[] = {
		[POLICY_INSPECT] = "inspect", [POLICY_SPLICE] = "splice", [POLICY_TCP] = NULL};
	return f->tunnel && f->scheme == POLICY_SCHEME_HTTPS ? modes[f->transport] : NULL;
}

static const char *const doors[] = {
	[FLOW_DOOR_EXPLICIT] = "explicit",
	[FLOW_DOOR_SOCKS] = "socks5",
	[FLOW_DOOR_TRANSPARENT] = "transparent",
};

static_assert(array_size(doors) == FLOW_DOOR_COUNT, "a name for every door");

/** Every event of it tells of the policy by which it was decided, also when another one is in force by its end. */
static void bind_policy(const struct flow *f, struct record *r)
{
	if (r->policy != NULL)
		return;
	r->policy = snapshot_get(f->worker->policy);
	r->profile = f->sandbox->profile;
}

static struct audit_event event_of(const struct flow *f, const struct record *r)
{
	const struct profile *profile = r->profile;
	bool raw = r->connect && f->transport == POLICY_TCP; /* through whatever door it came */
	struct audit_event e = {
		.class = raw ? AUDIT_NETWORK : AUDIT_HTTP,
		.activity = raw ? ACTIVITY_CLOSE : activity(r),
		.reason = r->reason,
		.uid = r->uid,
		.correlation = r->request_id,
		.start_ms = r->start_ms,
		.sandbox_id = f->sandbox->id,
		.profile = profile_name(profile),
		.policy_version = profile_digest(profile),
		.policy_stale = r->policy->origin != MESSAGE_POLICY_NEWEST,
		.door = doors[f->door],
		.tls_mode = tls_mode(f),
		.connection = f->id,
		.source = f->ends.source,
		.source_port = f->ends.source_port,
		.destination = f->destination,
		.destination_port = f->port,
		.method = raw        ? SLICE("")
			: r->connect ? SLICE("CONNECT")
				     : r->method,
		.path = r->path,
		.has_query = r->has_query,
		.query_bytes = r->query_bytes,
		.encoded_slash = r->encoded_slash,
		.upstream_reused = r->reused,
		.address_unchecked = f->worker->guard.by_name && f->destination.family == 0 &&
			reason_allows(r->reason),
		.request_body_bytes = r->request_body_bytes,
		.response_body_bytes = r->response_body_bytes,
		.would = r->would,
		.user_agent = r->user_agent,
		.content_type = slice_of(r->content_type),
		.status = r->status,
		.bytes_in = r->bytes_in,
		.bytes_out = r->bytes_out,
		.proxy = f->ends.proxy,
		.proxy_port = f->ends.proxy_port,
	};
	if (!r->connect)
		e.scheme = f->scheme == POLICY_SCHEME_HTTPS ? SLICE("https") : SLICE("http");
	fill_names(f, r, &e);
	fill_tls(f, &e);
	return e;
}

/** The event, redacted and small, in the worker's buffer. @limit: bytes. */
static int event_pack(struct flow *f, const struct record *r, struct audit_event *e, size_t limit)
{
	char suggestion[RECORD_SUGGESTION_BYTES] = "";
	const char *given = e->suggestion;
	fill_rule(r, e);
	if (given == NULL && !reason_allows(r->would))
		suggest_observed(f, r, suggestion, sizeof(suggestion));
	e->suggestion = suggestion[0] != '\0' ? suggestion : given;
	buf_clear(&f->worker->line);
	int packed = audit_event_pack(e, limit, &f->worker->line);
	e->suggestion = given;
	return packed;
}

static bool has_room(const struct flow *f)
{
	return audit_ring_has_room(f->worker->context->ring, f->sandbox->decisions);
}

/** The finished event enters the ring, and clears the record's slot. @return 0, -ENOSPC, -ENOBUFS ... */
static int event_finish(struct flow *f, const struct record *r, struct audit_event *e)
{
	struct audit_ring *ring = f->worker->context->ring;
	struct buf *packed = &f->worker->line;
	int written = event_pack(f, r, e, AUDIT_PACKED_BYTES_MAX);
	if (written == 0)
		written = audit_ring_finish(ring, r->slot, buf_slice(packed));
	if (written == -EMSGSIZE) { /* the ring is full, and a slot is smaller */
		written = event_pack(f, r, e, AUDIT_SLOT_BYTES_MAX);
		if (written == 0)
			written = audit_ring_finish(ring, r->slot, buf_slice(packed));
	}
	if (written == 0 && r->slot >= 0)
		f->sandbox->decisions--;
	return written;
}

/** One alarm a second at most: a full log is loud, not a flood. */
static void alarm_full(struct worker *w, int code)
{
	uint64_t now = clock_monotonic_ns();
	if (audit_ring_stalled(w->context->ring))
		return; /* the recorder said so, once */
	if (w->full_logged_ns != 0 && now - w->full_logged_ns < NS_PER_SEC)
		return;
	w->full_logged_ns = now;
	log_event(LOG_LEVEL_ERROR, "audit-full", "worker=%u error=%d", w->context->index, -code);
}

static void wake_recorder(struct worker *w)
{
	/* A recorder that is being restarted looks by itself. */
	if (audit_ring_wants_wake(w->context->ring))
		(void)!write(w->context->recorder_fd, "", 1);
}

/** An event of its own: whoever takes one of each uid must get the last one, too. @return 0, -ENOSPC. */
static int write_open(struct flow *f, const struct record *r)
{
	struct worker *w = f->worker;
	char uid[UUID_TEXT_BYTES];
	struct audit_event e = event_of(f, r);
	e.uid = uuid_make(&f->worker->ids, clock_wall_ms(), uid);
	e.open = true;
	if (!audit_ring_has_room(w->context->ring, 0))
		return -ENOSPC;
	int written = event_pack(f, r, &e, AUDIT_PACKED_BYTES_MAX);
	return written < 0 ? written : audit_ring_finish(w->context->ring, -1, buf_slice(&w->line));
}

void record_note(struct flow *f, struct record *r)
{
	const struct worker *w = f->worker;
	if (!r->live || r->open_ms == 0 ||
		(uv_now(&w->loop) < r->open_ms &&
			r->bytes_in + r->bytes_out <= w->limits.open_bytes))
		return;
	r->open_ms = 0;
	if (write_open(f, r) == 0) /* else its end will tell */
		wake_recorder(f->worker);
}

/** Strict profiles: the decision is on its way to the disk, and waited for. @return 0, -ENOSPC. */
static int commit_begin(struct flow *f, struct record *r)
{
	struct worker *w = f->worker;
	int written = write_open(f, r);
	if (written < 0)
		return written;
	r->open_ms = 0;
	r->awaits_disk = true;
	r->ticket = audit_ring_await(w->context->ring);
	(void)!write(w->context->recorder_fd, "", 1); /* also one that lets more lines come first */
	return 0;
}

int record_open(struct flow *f, struct record *r)
{
	struct worker *w = f->worker;
	bind_policy(f, r);
	struct audit_event e = event_of(f, r);
	int slot = has_room(f) ? event_pack(f, r, &e, AUDIT_SLOT_BYTES_MAX) : -ENOSPC;
	if (slot == 0)
		slot = audit_ring_open(w->context->ring, buf_slice(&w->line));
	if (slot < 0) {
		alarm_full(w, slot);
		return -ENOSPC;
	}
	r->slot = slot;
	f->sandbox->decisions++;
	r->decided_ns = e.mono_ns;
	r->open_ms = uv_now(&w->loop) + w->limits.open_ms;
	if (!profile_commits_before(r->profile))
		return 0;
	int begun = commit_begin(f, r);
	if (begun < 0)
		alarm_full(w, begun);
	return begun < 0 ? -ENOSPC : 0;
}

void record_answered(struct flow *f, struct record *r)
{
	if (r->decided_ns != 0)
		metrics_took(f->worker->metrics, METRICS_FIRST_BYTE,
			clock_monotonic_ns() - r->decided_ns);
	r->decided_ns = 0;
}

static void measure(struct metrics *m, const struct record *r, uint64_t now_ns)
{
	metrics_decided(m, r->reason);
	metrics_add(m, METRICS_WOULD_DENY, !reason_allows(r->would));
	metrics_add(m, METRICS_BYTES_OUT, r->bytes_out);
	metrics_add(m, METRICS_BYTES_IN, r->bytes_in);
	metrics_took(m, METRICS_WHOLE, now_ns - r->began_ns);
}

int record_close(struct flow *f, struct record *r, const char *detail, const char *suggestion)
{
	struct worker *w = f->worker;
	bind_policy(f, r);
	flow_use_end(f, r);
	struct audit_event e = event_of(f, r);
	assert(r->live);
	e.end_ms = clock_wall_ms();
	e.detail = detail;
	if (detail == NULL && f->refused[0] != '\0' && (r->connect || !f->tunnel))
		e.detail = f->refused; /* others of the name's addresses were admitted */
	if (e.detail == NULL && reason_allows(r->reason))
		e.detail = r->observed;
	e.suggestion = suggestion;
	e.mono_ns = clock_monotonic_ns();
	measure(w->metrics, r, e.mono_ns);
	int written = event_finish(f, r, &e);
	if (written < 0)
		alarm_full(w, written); /* an open slot stays, and is completed as recovered */
	else
		wake_recorder(w);
	free(ptr_take(r->observed));
	free(ptr_take(r->text));
	r->method = r->path = r->user_agent = r->host = r->claims = (struct slice){0};
	snapshot_put(ptr_take(r->policy));
	r->rule = NULL;
	r->profile = NULL;
	r->live = false; /* the ids stay, for who still has to tell the client */
	r->slot = -1;
	return written < 0 ? -ENOSPC : 0;
}
