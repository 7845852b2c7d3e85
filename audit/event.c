/*
 * See event.h. Every text is redacted, then cut to its limit counted in escaped bytes, so that the whole has a known
 * largest size; an event that is too large all the same is written again with every limit halved.
 */
#include "audit/event_state.h"

#include "audit/cut.h"
#include "audit/redact.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <netinet/in.h>
#include <stdio.h>

struct class_entry {
	int uid;
	int category;
	const char *name;
};

static const struct class_entry classes[] = {
	[AUDIT_HTTP] = {4002, 4, "HTTP Activity"},
	[AUDIT_NETWORK] = {4001, 4, "Network Activity"},
	[AUDIT_DNS] = {4003, 4, "DNS Activity"},
	[AUDIT_PROCESS] = {1007, 1, "Process Activity"},
	[AUDIT_ENTITY] = {3004, 3, "Entity Management"},
	[AUDIT_LIFECYCLE] = {6002, 6, "Application Lifecycle"},
};

void event_write_scratch(struct event_writer *w, const char *key, size_t limit)
{
	w->cuts += cut_to(&w->scratch, limit >> w->pass);
	json_slice(&w->j, key, buf_slice(&w->scratch));
	w->j.out->failed |= w->scratch.failed;
}

struct slice event_cut_raw(struct event_writer *w, struct slice text)
{
	w->cuts += text.len > RAW_BYTES_MAX;
	return slice_part(text, 0, RAW_BYTES_MAX);
}

void event_append_peer(struct event_writer *w, struct slice text, struct buf *to)
{
	if (w->e->packed)
		(void)buf_append(to, text); /* errors are sticky in the buf */
	else
		w->redactions += redact_text(text, to);
}

/** Nothing, or a clean text that surely fits: no byte of it takes more than six in the line. @return false: it has to be looked at. */
static bool event_write_short(
	struct event_writer *w, const char *key, struct slice text, size_t limit)
{
	limit >>= w->pass;
	if (text.len > limit / 6) {
		if (text.len > limit || !json_is_plain(text))
			return false;
		json_plain(&w->j, key, text);
	} else if (text.len > 0) {
		json_slice(&w->j, key, text);
	}
	return true;
}

void event_write_peer(struct event_writer *w, const char *key, struct slice text, size_t limit)
{
	if (text.len == 0 || (w->e->packed && event_write_short(w, key, text, limit)))
		return;
	buf_clear(&w->scratch);
	event_append_peer(w, event_cut_raw(w, text), &w->scratch);
	event_write_scratch(w, key, limit);
}

void event_write_own(struct event_writer *w, const char *key, const char *text, size_t limit)
{
	if (text == NULL || event_write_short(w, key, slice_of(text), limit))
		return;
	buf_clear(&w->scratch);
	(void)buf_append(
		&w->scratch, event_cut_raw(w, slice_of(text))); /* errors show in scratch.failed */
	event_write_scratch(w, key, limit);
}

void event_write_host(struct event_writer *w, const char *key, struct slice host)
{
	if (host.len == 0 || (w->e->packed && event_write_short(w, key, host, HOST_BYTES)))
		return;
	buf_clear(&w->scratch);
	host = event_cut_raw(w, host);
	if (w->e->packed)
		(void)buf_append(&w->scratch, host); /* errors show in scratch.failed */
	else
		w->redactions += redact_host(host, &w->scratch);
	event_write_scratch(w, key, HOST_BYTES);
}

void event_write_address(struct event_writer *w, const struct address *a, uint16_t port)
{
	char text[ADDRESS_TEXT_BYTES];
	if (a->family != 0)
		json_text(&w->j, "ip", address_format(a, text));
	if (port != 0)
		json_uint(&w->j, "port", port);
}

enum event_action event_action_of(const struct audit_event *e)
{
	if (e->class != AUDIT_HTTP && e->class != AUDIT_NETWORK && e->class != AUDIT_DNS)
		return ACTION_NONE;
	/* Admitted, then failed at the other end: policy let it pass. */
	if (reason_allows(e->reason) || e->reason == REASON_ERROR_UPSTREAM ||
		e->reason == REASON_ERROR_TIMEOUT)
		return ACTION_ALLOWED;
	return ACTION_DENIED;
}

static bool event_is_error(const struct audit_event *e)
{
	return e->reason == REASON_ERROR_UPSTREAM || e->reason == REASON_ERROR_TIMEOUT ||
		e->reason == REASON_ERROR_INTERNAL;
}

static bool event_succeeded(const struct audit_event *e)
{
	switch (e->class) {
	case AUDIT_HTTP:
	case AUDIT_NETWORK:
	case AUDIT_DNS:
		return reason_allows(e->reason);
	case AUDIT_PROCESS:
		return e->reason != REASON_SANDBOX_VIOLATION &&
			(e->verdict == NULL || strcmp(e->verdict, "ok") == 0);
	case AUDIT_ENTITY:
		return e->reason != REASON_POLICY_REJECTED;
	case AUDIT_LIFECYCLE:
		return e->reason != REASON_AUDIT_LOST && e->reason != REASON_DENY_AUDIT_FULL &&
			!event_is_error(e);
	}
	return false;
}

static void write_disposition(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	enum event_action action = event_action_of(e);
	if (action == ACTION_NONE)
		return;
	int id = action == ACTION_ALLOWED ? 1 : 2;
	const char *name = action == ACTION_ALLOWED ? "Allowed" : "Denied";
	json_int(&w->j, "action_id", id);
	json_text(&w->j, "action", name);
	if (event_is_error(e)) {
		id = 27;
		name = "Error";
	} else if (e->reason == REASON_OBSERVE_WOULD_DENY) {
		id = 17;
		name = "Logged";
	} else if (action == ACTION_DENIED && e->class == AUDIT_NETWORK && e->activity == 5) {
		id = 6;
		name = "Dropped";
	} else if (action == ACTION_DENIED) {
		name = "Blocked";
	}
	json_int(&w->j, "disposition_id", id);
	json_text(&w->j, "disposition", name);
}

static void write_times(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	uint64_t start = e->start_ms != 0 ? e->start_ms : e->end_ms;
	uint64_t end = e->end_ms >= start ? e->end_ms : start;
	bool is_over =
		e->end_ms != 0 || start == 0; /* else its decision is all that there is so far */
	if (start == 0)
		start = end = clock_wall_ms();
	json_uint(&w->j, "time", end);
	json_uint(&w->j, "start_time", start);
	if (is_over) {
		json_uint(&w->j, "end_time", end);
		json_uint(&w->j, "duration", end - start);
	}
}

static void write_message(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	buf_clear(&w->scratch);
	(void)buf_append_text(
		&w->scratch, reason_code(e->reason)); /* errors show in scratch.failed */
	if (e->class == AUDIT_PROCESS && e->verdict != NULL)
		(void)buf_printf(&w->scratch, " %s", e->verdict);
	if (e->dns != NULL && e->dns->type != NULL && e->dns->name.len > 0)
		(void)buf_printf(&w->scratch, " %s", e->dns->type);
	if (e->method.len > 0)
		(void)buf_append(&w->scratch, SLICE(" "));
	event_append_peer(w, slice_part(e->method, 0, METHOD_BYTES), &w->scratch);
	if (e->host.len > 0) {
		(void)buf_append(&w->scratch, SLICE(" "));
		(void)event_append_url(e, &w->scratch); /* counted where the URL is written */
	} else if (e->subject != NULL) {
		(void)buf_append(&w->scratch, SLICE(" "));
		event_append_peer(w, event_cut_raw(w, slice_of(e->subject)), &w->scratch);
	}
	if (e->count > 1)
		(void)buf_printf(&w->scratch, " (%llu)", (unsigned long long)e->count);
	event_write_scratch(w, "message", MESSAGE_BYTES);
}

static void write_head(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	const struct class_entry *class = &classes[e->class];
	struct json *j = &w->j;
	json_int(j, "class_uid", class->uid);
	json_text(j, "class_name", class->name);
	json_int(j, "category_uid", class->category);
	json_uint(j, "activity_id", e->activity);
	json_uint(j, "type_uid", (uint64_t) class->uid * 100 + e->activity);
	write_times(w);
	json_int(j, "severity_id", reason_severity(e->reason));
	json_int(j, "status_id", event_succeeded(e) ? 1 : 2);
	json_text(j, "status", event_succeeded(e) ? "Success" : "Failure");
	json_text(j, "status_code", reason_code(e->reason));
	const char *detail = e->detail != NULL ? e->detail : reason_sentence(e->reason);
	event_write_peer(w, "status_detail", slice_of(detail), MESSAGE_BYTES);
	write_disposition(w);
	write_message(w);
}

static void write_policy_entity(struct event_writer *w, const char *key, const char *digest)
{
	json_object(&w->j, key);
	json_text(&w->j, "type", "Policy");
	event_write_own(w, "name", w->e->profile != NULL ? w->e->profile : "policy", NAME_BYTES);
	event_write_own(w, "uid", digest, NAME_BYTES);
	json_object_end(&w->j);
}

/** The policy that there was, and what became of it; the first one only became. */
static void write_entity(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	bool first = e->policy_before == NULL || e->policy_before[0] == '\0';
	event_write_actor(w);
	write_policy_entity(w, "entity", first ? e->policy_version : e->policy_before);
	if (!first && e->reason == REASON_POLICY_LOADED)
		write_policy_entity(w, "entity_result", e->policy_version);
}

static void write_product(struct event_writer *w, const char *key)
{
	json_object(&w->j, key);
	json_text(&w->j, "name", "Eclusa");
	json_text(&w->j, "vendor_name", "Eclusa");
	json_text(&w->j, "version", ECLUSA_VERSION);
	json_object_end(&w->j);
}

static void write_body(struct event_writer *w)
{
	switch (w->e->class) {
	case AUDIT_HTTP:
	case AUDIT_NETWORK:
		event_write_policy(w);
		event_write_endpoints(w);
		if (w->e->class == AUDIT_HTTP)
			event_write_http(w);
		event_write_tls(w);
		event_write_traffic(w);
		event_write_container(w);
		return;
	case AUDIT_DNS:
		event_write_policy(w);
		event_write_endpoints(w);
		event_write_dns(w);
		event_write_traffic(w);
		event_write_container(w);
		return;
	case AUDIT_PROCESS:
		event_write_process(w);
		event_write_container(w);
		return;
	case AUDIT_ENTITY:
		write_entity(w);
		return;
	case AUDIT_LIFECYCLE:
		write_product(w, "app");
		return;
	}
}

static void write_label(struct event_writer *w, const char *name, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return;
	buf_clear(&w->scratch);
	(void)buf_append_text(&w->scratch, name); /* errors show in scratch.failed */
	(void)buf_append(&w->scratch, SLICE(":"));
	(void)buf_append(&w->scratch, slice_part(slice_of(value), 0, MESSAGE_BYTES));
	event_write_scratch(w, NULL, NAME_BYTES);
}

/** event_code comes last: the segment writer replaces it when it completes an open decision. */
static void write_metadata(struct event_writer *w, size_t *ret_end)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	char uid[UUID_TEXT_BYTES];
	json_object(j, "metadata");
	json_text(j, "version", "1.8.0");
	const char *own = e->uid != NULL ? e->uid : uuid_new(uid);
	json_text(j, "uid", own);
	/* What has no request belongs to its sandbox, or stands alone. */
	const char *together = e->correlation != NULL ? e->correlation
		: e->sandbox_id != NULL               ? e->sandbox_id
						      : own;
	event_write_own(w, "correlation_uid", together, NAME_BYTES);
	json_text(j, "log_name", "eclusa.audit");
	write_product(w, "product");
	json_array(j, "profiles");
	json_text(j, NULL, "host");
	if (event_action_of(e) != ACTION_NONE) {
		json_text(j, NULL, "security_control");
		json_text(j, NULL, "network_proxy");
	}
	if (e->sandbox_id != NULL)
		json_text(j, NULL, "container");
	json_array_end(j);
	json_array(j, "labels");
	write_label(w, "profile", e->profile);
	write_label(w, "owner", e->rule_owner);
	write_label(w, "ticket", e->rule_ticket);
	json_array_end(j);
	if (w->cuts > 0)
		json_bool(j, "is_truncated", true);
	json_text(j, "event_code",
		e->recovered ? reason_code(REASON_AUDIT_RECOVERED) : reason_code(e->reason));
	*ret_end = buf_len(j->out);
	json_object_end(j);
}

static void write_host_sources(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	if (e->connect_host.len == 0 && e->host_header.len == 0)
		return;
	json_object(&w->j, "host_sources");
	event_write_host(w, "connect", e->connect_host);
	event_write_host(w, "sni", e->sni);
	event_write_host(w, "host_header", e->host_header);
	json_object_end(&w->j);
}

static void write_checkpoint(struct event_writer *w)
{
	const struct checkpoint *c = w->e->checkpoint;
	struct json *j = &w->j;
	char signature[2 * SIGN_SIGNATURE_BYTES + 1];
	if (c == NULL)
		return;
	json_object(j, "checkpoint");
	json_text(j, "of", c->chain);
	json_uint(j, "first", c->first);
	json_uint(j, "last", c->last);
	json_text(j, "head", c->head);
	json_uint(j, "time", c->time_ms);
	json_text(j, "policy", c->policy);
	json_text(j, "clock", checkpoint_clock_name((enum checkpoint_clock)c->clock));
	json_uint(j, "clock_error_us", c->clock_error_us);
	if (c->key[0] != '\0') {
		for (size_t i = 0; i < SIGN_SIGNATURE_BYTES; i++)
			(void)snprintf(signature + 2 * i, 3, "%02x", c->signature[i]);
		json_text(j, "key", c->key);
		json_text(j, "signature", signature);
	}
	json_object_end(j);
}

/** Ties the index's past into this chain: what a later signature here covers, too. */
static void write_index(struct event_writer *w)
{
	const struct chain *index = w->e->index;
	if (index == NULL)
		return;
	json_object(&w->j, "index");
	json_uint(&w->j, "last", index->sequence);
	json_text(&w->j, "head", index->head);
	json_object_end(&w->j);
}

static void write_unmapped(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	json_object(j, "unmapped");
	json_object(j, "eclusa");
	json_text(j, "mode", e->observe ? "observe" : "enforce");
	if (!reason_allows(e->would) && event_action_of(e) == ACTION_ALLOWED)
		json_text(j, "would", reason_code(e->would));
	if (e->policy_stale)
		json_bool(j, "policy_stale", true);
	event_write_own(w, "policy_origin", e->policy_origin, METHOD_BYTES);
	event_write_own(w, "policy_signer", e->policy_signer, NAME_BYTES);
	event_write_own(w, "intercept", e->door, METHOD_BYTES);
	event_write_own(w, "tls_mode", e->tls_mode, METHOD_BYTES);
	write_host_sources(w);
	if (e->suggestion != NULL)
		event_write_peer(w, "allow", slice_of(e->suggestion), SUGGESTION_BYTES);
	if (e->has_query) {
		json_bool(j, "has_query", true);
		json_uint(j, "query_bytes", e->query_bytes);
	}
	if (e->encoded_slash)
		json_bool(j, "encoded_slash", true);
	if (e->upstream_reused)
		json_bool(j, "upstream_reused", true);
	if (e->address_unchecked)
		json_text(j, "address", "unchecked");
	if (e->count > 0)
		json_uint(j, "count", e->count);
	event_write_own(w, "address_class", e->address_class, METHOD_BYTES);
	if (e->reason == REASON_SANDBOX_VIOLATION)
		event_write_own(w, "rule", e->rule_text, HOST_BYTES);
	event_write_usage(w);
	event_write_files(w);
	write_checkpoint(w);
	write_index(w);
	if (w->redactions > 0)
		json_uint(j, "redactions", w->redactions);
	if (w->cuts > 0)
		json_uint(j, "truncated", w->cuts);
	json_uint(j, "mono_ns", e->mono_ns != 0 ? e->mono_ns : clock_monotonic_ns());
	if (e->open)
		json_bool(j, "open", true);
	if (e->recovered)
		json_bool(j, "recovered", true);
	json_object_end(j);
	json_object_end(j);
}

/** One try with the limits of a pass. @return 0, -ENOBUFS: too large. */
static int write_pass(struct event_writer *w, size_t *ret_metadata_end)
{
	struct buf *out = w->j.out;
	size_t from = buf_len(out);
	json_open(&w->j, out);
	w->redactions = w->e->redactions;
	/* Something is cut, and metadata comes before all of it is counted. */
	w->cuts = w->e->cuts + (w->pass > 0);
	json_object(&w->j, NULL);
	write_head(w);
	write_body(w);
	write_metadata(w, ret_metadata_end);
	write_unmapped(w);
	json_object_end(&w->j);
	*ret_metadata_end -= from;
	size_t len = buf_len(out) - from;
	if (!out->failed && len <= AUDIT_LINE_BYTES_MAX - ADDED_BYTES_MAX)
		return 0;
	buf_drop_end(out, len);
	out->failed = false;
	return -ENOBUFS;
}

int audit_event_write(const struct audit_event *e, struct buf *out, size_t *ret_metadata_end)
{
	struct event_writer w = {.e = e, .j = {.out = out}};
	size_t metadata_end = 0;
	buf_init(&w.scratch, 8 * RAW_BYTES_MAX);
	int r = -ENOBUFS;
	for (w.pass = 0; w.pass < CUT_PASSES && r < 0; w.pass++)
		r = write_pass(&w, &metadata_end);
	if (r == 0)
		*ret_metadata_end = metadata_end;
	buf_fini(&w.scratch);
	return r;
}
