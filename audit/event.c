/*
 * See event.h. Every text is redacted, then cut to its limit counted in escaped bytes, so that the whole has a known
 * largest size; an event that is too large all the same is written again with every limit halved.
 */
#include "audit/event.h"

#include "audit/cut.h"
#include "audit/redact.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <netinet/in.h>
#include <stdio.h>

/* Limits in bytes of the line, escapes included. */
#define URL_BYTES          2048
#define USER_AGENT_BYTES   256
#define COMMAND_LINE_BYTES 1024
#define HOST_BYTES         256
#define METHOD_BYTES       32
#define MESSAGE_BYTES      512
#define NAME_BYTES         128
#define SUGGESTION_BYTES   1024
#define CUT_PASSES         4     /* limits halved so often at most */
#define RAW_BYTES_MAX      16384 /* of a text before redaction */
/* What the segment writer adds: sequence, times, device, boot id, recovery marks, the chain. */
#define ADDED_BYTES_MAX (512 + CHAIN_SEAL_BYTES_MAX)

enum action { ACTION_NONE, ACTION_ALLOWED, ACTION_DENIED };

/** An event on its way to text. */
struct writer {
	struct json j;
	const struct audit_event *e;
	unsigned pass; /* limits are shifted right by it */
	unsigned redactions, cuts;
	struct buf scratch;
};

struct class_entry {
	int uid;
	int category;
	const char *name;
};

static const struct class_entry classes[] = {
	[AUDIT_HTTP] = {4002, 4, "HTTP Activity"},
	[AUDIT_NETWORK] = {4001, 4, "Network Activity"},
	[AUDIT_PROCESS] = {1007, 1, "Process Activity"},
	[AUDIT_ENTITY] = {3004, 3, "Entity Management"},
	[AUDIT_LIFECYCLE] = {6002, 6, "Application Lifecycle"},
};

/** Write what is in the scratch buffer, cut. */
static void write_scratch(struct writer *w, const char *key, size_t limit)
{
	w->cuts += cut_to(&w->scratch, limit >> w->pass);
	json_slice(&w->j, key, buf_slice(&w->scratch));
	w->j.out->failed |= w->scratch.failed;
}

static struct slice raw(struct writer *w, struct slice text)
{
	w->cuts += text.len > RAW_BYTES_MAX;
	return slice_part(text, 0, RAW_BYTES_MAX);
}

/** Peer text. Nothing is written for an empty one. */
static void write_peer(struct writer *w, const char *key, struct slice text, size_t limit)
{
	if (text.len == 0)
		return;
	buf_clear(&w->scratch);
	w->redactions += redact_text(raw(w, text), &w->scratch);
	write_scratch(w, key, limit);
}

/** Our own or the operator's text. Nothing is written for NULL or "". */
static void write_own(struct writer *w, const char *key, const char *text, size_t limit)
{
	if (text == NULL || text[0] == '\0')
		return;
	buf_clear(&w->scratch);
	(void)buf_append(&w->scratch, raw(w, slice_of(text))); /* errors show in scratch.failed */
	write_scratch(w, key, limit);
}

static void write_host(struct writer *w, const char *key, struct slice host)
{
	if (host.len == 0)
		return;
	buf_clear(&w->scratch);
	w->redactions += redact_host(raw(w, host), &w->scratch);
	write_scratch(w, key, HOST_BYTES);
}

static void write_address(struct writer *w, const struct address *a, uint16_t port)
{
	char text[ADDRESS_TEXT_BYTES];
	if (a->family != 0)
		json_text(&w->j, "ip", address_format(a, text));
	if (port != 0)
		json_uint(&w->j, "port", port);
}

static enum action event_action(const struct audit_event *e)
{
	if (e->class != AUDIT_HTTP && e->class != AUDIT_NETWORK)
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

static void write_disposition(struct writer *w)
{
	const struct audit_event *e = w->e;
	enum action action = event_action(e);
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

static void write_times(struct writer *w)
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

/** "scheme://host[:port]/path" or, without a scheme (CONNECT, raw TCP), "host:port". */
static unsigned append_url(const struct audit_event *e, struct buf *to)
{
	bool https = slice_equal(e->scheme, SLICE("https"));
	bool usual = (https && e->destination_port == 443) ||
		(slice_equal(e->scheme, SLICE("http")) && e->destination_port == 80);
	if (e->scheme.len > 0) {
		(void)buf_append(to, e->scheme); /* errors are sticky in the buf */
		(void)buf_append(to, SLICE("://"));
	}
	bool bracket = slice_find(e->host, ':') >= 0 && slice_find(e->host, '[') < 0;
	if (bracket)
		(void)buf_append(to, SLICE("["));
	unsigned count = redact_host(slice_part(e->host, 0, RAW_BYTES_MAX), to);
	if (bracket)
		(void)buf_append(to, SLICE("]"));
	if (e->destination_port != 0 && !usual)
		(void)buf_printf(to, ":%u", e->destination_port);
	count += redact_path(slice_part(e->path, 0, RAW_BYTES_MAX), to);
	return count;
}

static void write_message(struct writer *w)
{
	const struct audit_event *e = w->e;
	buf_clear(&w->scratch);
	(void)buf_append_text(
		&w->scratch, reason_code(e->reason)); /* errors show in scratch.failed */
	if (e->class == AUDIT_PROCESS && e->verdict != NULL)
		(void)buf_printf(&w->scratch, " %s", e->verdict);
	if (e->method.len > 0)
		(void)buf_append(&w->scratch, SLICE(" "));
	w->redactions += redact_text(slice_part(e->method, 0, METHOD_BYTES), &w->scratch);
	if (e->host.len > 0) {
		(void)buf_append(&w->scratch, SLICE(" "));
		(void)append_url(e, &w->scratch); /* counted where the URL is written */
	} else if (e->subject != NULL) {
		(void)buf_append(&w->scratch, SLICE(" "));
		w->redactions += redact_text(raw(w, slice_of(e->subject)), &w->scratch);
	}
	if (e->count > 1)
		(void)buf_printf(&w->scratch, " (%llu)", (unsigned long long)e->count);
	write_scratch(w, "message", MESSAGE_BYTES);
}

static void write_head(struct writer *w)
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
	write_peer(w, "status_detail", slice_of(detail), MESSAGE_BYTES);
	write_disposition(w);
	write_message(w);
}

static void write_policy(struct writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	if (event_action(e) == ACTION_NONE)
		return;
	const char *rule = e->rule_id != NULL ? e->rule_id : "default";
	json_object(j, "firewall_rule");
	write_own(w, "uid", rule, NAME_BYTES);
	write_own(w, "name", rule, NAME_BYTES);
	json_text(j, "type", e->rule_id == NULL ? "default" : e->rule_allows ? "allow" : "deny");
	write_own(w, "version", e->policy_version, NAME_BYTES);
	write_own(w, "desc", e->rule_place, HOST_BYTES);
	write_own(w, "condition", e->rule_text, MESSAGE_BYTES);
	json_object_end(j);
	json_object(j, "policy");
	write_own(w, "uid", e->profile, NAME_BYTES);
	write_own(w, "name", e->profile, NAME_BYTES);
	write_own(w, "version", e->policy_version, NAME_BYTES);
	json_bool(j, "is_applied", !e->observe);
	json_object_end(j);
}

static void write_endpoints(struct writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	const char *name = e->sandbox_name != NULL ? e->sandbox_name : e->sandbox_id;
	json_object(j, "src_endpoint");
	write_address(w, &e->source, e->source_port);
	write_own(w, "uid", e->sandbox_id, NAME_BYTES);
	write_own(w, "name", name, NAME_BYTES);
	json_object_end(j);
	if (e->host.len > 0 || e->destination.family != 0 || e->destination_port != 0) {
		json_object(j, "dst_endpoint");
		write_host(w, "hostname", e->host);
		write_address(w, &e->destination, e->destination_port);
		json_object_end(j);
	}
	json_object(j, "proxy_endpoint");
	write_address(w, &e->proxy, e->proxy_port);
	json_text(j, "name", "eclusa-proxy");
	json_object_end(j);
	json_object(j, "connection_info");
	json_int(j, "direction_id", 2);
	json_text(j, "direction", "Outbound");
	bool packet = e->class == AUDIT_NETWORK && e->activity == 5;
	bool udp = e->address_class != NULL && strcmp(e->address_class, "udp") == 0;
	if (!packet || udp) {
		json_text(j, "protocol_name", udp ? "udp" : "tcp");
		json_int(j, "protocol_num", udp ? IPPROTO_UDP : IPPROTO_TCP);
	}
	write_own(w, "uid", e->connection, NAME_BYTES);
	json_object_end(j);
}

static void write_traffic(struct writer *w)
{
	const struct audit_event *e = w->e;
	json_object(&w->j, "traffic");
	json_uint(&w->j, "bytes", e->bytes_in + e->bytes_out);
	json_uint(&w->j, "bytes_in", e->bytes_in);
	json_uint(&w->j, "bytes_out", e->bytes_out);
	json_object_end(&w->j);
}

static void write_url(struct writer *w)
{
	const struct audit_event *e = w->e;
	json_object(&w->j, "url");
	write_peer(w, "scheme", e->scheme, METHOD_BYTES);
	write_host(w, "hostname", e->host);
	if (e->destination_port != 0)
		json_uint(&w->j, "port", e->destination_port);
	if (e->path.len > 0) {
		buf_clear(&w->scratch);
		(void)redact_path(raw(w, e->path), &w->scratch); /* counted with the URL */
		write_scratch(w, "path", URL_BYTES);
	}
	buf_clear(&w->scratch);
	w->redactions += append_url(e, &w->scratch);
	write_scratch(w, "url_string", URL_BYTES);
	json_object_end(&w->j);
}

static void write_http(struct writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	json_object(j, "http_request");
	write_own(w, "uid", e->correlation != NULL ? e->correlation : e->uid, NAME_BYTES);
	write_peer(w, "http_method", e->method, METHOD_BYTES);
	write_peer(w, "user_agent", e->user_agent, USER_AGENT_BYTES);
	json_uint(j, "body_length", e->request_body_bytes);
	write_url(w);
	json_object_end(j);
	if (e->status == 0)
		return;
	json_object(j, "http_response");
	json_uint(j, "code", e->status);
	json_uint(j, "length", e->bytes_in);
	json_uint(j, "body_length", e->response_body_bytes);
	write_peer(w, "content_type", e->content_type, NAME_BYTES);
	json_object_end(j);
}

static void write_tls(struct writer *w)
{
	const struct audit_event *e = w->e;
	if (e->tls_version == NULL)
		return;
	json_object(&w->j, "tls");
	write_own(w, "version", e->tls_version, NAME_BYTES);
	write_own(w, "cipher", e->tls_cipher, NAME_BYTES);
	write_host(w, "sni", e->sni);
	/* OCSF takes no certificate without these two. */
	if (e->tls_certificate_issuer != NULL && e->tls_certificate_issuer[0] != '\0' &&
		e->tls_certificate_serial != NULL && e->tls_certificate_serial[0] != '\0') {
		json_object(&w->j, "certificate");
		write_own(w, "subject", e->tls_certificate_subject, HOST_BYTES);
		write_own(w, "issuer", e->tls_certificate_issuer, HOST_BYTES);
		write_own(w, "serial_number", e->tls_certificate_serial, NAME_BYTES);
		json_object_end(&w->j);
	}
	json_object_end(&w->j);
}

static void write_container(struct writer *w)
{
	const struct audit_event *e = w->e;
	if (e->sandbox_id == NULL)
		return;
	json_object(&w->j, "container");
	write_own(w, "uid", e->sandbox_id, NAME_BYTES);
	write_own(w, "name", e->sandbox_name != NULL ? e->sandbox_name : e->sandbox_id, NAME_BYTES);
	json_object_end(&w->j);
}

static void write_actor(struct writer *w)
{
	json_object(&w->j, "actor");
	json_text(&w->j, "app_name", "eclusa");
	if (w->e->has_user) {
		json_object(&w->j, "user");
		write_own(w, "name", w->e->user_name, NAME_BYTES);
		json_format(&w->j, "uid", "%u", w->e->user_uid); /* OCSF: a string */
		json_object_end(&w->j);
	}
	json_object_end(&w->j);
}

static void write_process(struct writer *w)
{
	const struct audit_event *e = w->e;
	write_actor(w);
	json_object(&w->j, "process");
	if (e->pid > 0)
		json_int(&w->j, "pid", e->pid);
	if (e->argv != NULL && e->argv[0] != NULL) {
		const char *slash = strrchr(e->argv[0], '/');
		struct slice name = slice_of(slash != NULL ? slash + 1 : e->argv[0]);
		write_peer(w, "name", name, HOST_BYTES);
		buf_clear(&w->scratch);
		w->redactions += redact_arguments((const char *const *)e->argv, &w->scratch);
		write_scratch(w, "cmd_line", COMMAND_LINE_BYTES);
	} else {
		write_own(w, "name", e->sandbox_id, NAME_BYTES);
	}
	json_object_end(&w->j);
	if (e->reason == REASON_SANDBOX_EXIT && e->exit_code >= 0 && !e->recovered)
		json_int(&w->j, "exit_code", e->exit_code);
}

static void write_policy_entity(struct writer *w, const char *key, const char *digest)
{
	json_object(&w->j, key);
	json_text(&w->j, "type", "Policy");
	write_own(w, "name", w->e->profile != NULL ? w->e->profile : "policy", NAME_BYTES);
	write_own(w, "uid", digest, NAME_BYTES);
	json_object_end(&w->j);
}

/** The policy that there was, and what became of it; the first one only became. */
static void write_entity(struct writer *w)
{
	const struct audit_event *e = w->e;
	bool first = e->policy_before == NULL || e->policy_before[0] == '\0';
	write_actor(w);
	write_policy_entity(w, "entity", first ? e->policy_version : e->policy_before);
	if (!first && e->reason == REASON_POLICY_LOADED)
		write_policy_entity(w, "entity_result", e->policy_version);
}

static void write_product(struct writer *w, const char *key)
{
	json_object(&w->j, key);
	json_text(&w->j, "name", "Eclusa");
	json_text(&w->j, "vendor_name", "Eclusa");
	json_text(&w->j, "version", ECLUSA_VERSION);
	json_object_end(&w->j);
}

static void write_body(struct writer *w)
{
	switch (w->e->class) {
	case AUDIT_HTTP:
	case AUDIT_NETWORK:
		write_policy(w);
		write_endpoints(w);
		if (w->e->class == AUDIT_HTTP)
			write_http(w);
		write_tls(w);
		write_traffic(w);
		write_container(w);
		return;
	case AUDIT_PROCESS:
		write_process(w);
		write_container(w);
		return;
	case AUDIT_ENTITY:
		write_entity(w);
		return;
	case AUDIT_LIFECYCLE:
		write_product(w, "app");
		return;
	}
}

static void write_label(struct writer *w, const char *name, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return;
	buf_clear(&w->scratch);
	(void)buf_printf(&w->scratch, "%s:%.512s", name, value); /* errors show in scratch.failed */
	write_scratch(w, NULL, NAME_BYTES);
}

/** event_code comes last: the segment writer replaces it when it completes an open decision. */
static void write_metadata(struct writer *w, size_t *ret_end)
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
	write_own(w, "correlation_uid", together, NAME_BYTES);
	json_text(j, "log_name", "eclusa.audit");
	write_product(w, "product");
	json_array(j, "profiles");
	json_text(j, NULL, "host");
	if (event_action(e) != ACTION_NONE) {
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

static void write_host_sources(struct writer *w)
{
	const struct audit_event *e = w->e;
	if (e->connect_host.len == 0 && e->host_header.len == 0)
		return;
	json_object(&w->j, "host_sources");
	write_host(w, "connect", e->connect_host);
	write_host(w, "sni", e->sni);
	write_host(w, "host_header", e->host_header);
	json_object_end(&w->j);
}

static void write_usage(struct writer *w)
{
	const struct audit_event *e = w->e;
	if (e->reason != REASON_SANDBOX_EXIT)
		return;
	write_own(w, "verdict", e->verdict, NAME_BYTES);
	if (e->recovered)
		return; /* nobody was there to measure */
	if (e->signal != 0)
		json_int(&w->j, "signal", e->signal);
	json_uint(&w->j, "wall_ms", e->wall_ms);
	json_uint(&w->j, "cpu_ms", e->cpu_ms);
	json_uint(&w->j, "memory_peak_bytes", e->memory_peak_bytes);
}

/** What went into a sandbox or came out of it; fewer of them, too, in a smaller event. */
static void write_files(struct writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	bool results = e->reason == REASON_SANDBOX_EXIT;
	size_t most = AUDIT_FILES_MAX >> w->pass;
	size_t shown = e->file_count < most ? e->file_count : most;
	if (e->file_count == 0)
		return;
	json_array(j, results ? "results" : "inputs");
	for (size_t i = 0; i < shown; i++) {
		const struct audit_file *f = &e->files[i];
		json_object(j, NULL);
		write_peer(w, "name", slice_of(f->name), NAME_BYTES);
		if (f->size != UINT64_MAX)
			json_uint(j, "size", f->size);
		if (f->sha256 != NULL)
			json_text(j, "sha256", f->sha256);
		json_object_end(j);
	}
	json_array_end(j);
	if (shown < e->file_count)
		json_uint(
			j, results ? "results_left_out" : "inputs_left_out", e->file_count - shown);
}

static void write_checkpoint(struct writer *w)
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
static void write_index(struct writer *w)
{
	const struct chain *index = w->e->index;
	if (index == NULL)
		return;
	json_object(&w->j, "index");
	json_uint(&w->j, "last", index->sequence);
	json_text(&w->j, "head", index->head);
	json_object_end(&w->j);
}

static void write_unmapped(struct writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	json_object(j, "unmapped");
	json_object(j, "eclusa");
	json_text(j, "mode", e->observe ? "observe" : "enforce");
	if (!reason_allows(e->would) && event_action(e) == ACTION_ALLOWED)
		json_text(j, "would", reason_code(e->would));
	if (e->policy_stale)
		json_bool(j, "policy_stale", true);
	write_own(w, "policy_origin", e->policy_origin, METHOD_BYTES);
	write_own(w, "policy_signer", e->policy_signer, NAME_BYTES);
	write_own(w, "intercept", e->door, METHOD_BYTES);
	write_own(w, "tls_mode", e->tls_mode, METHOD_BYTES);
	write_host_sources(w);
	if (e->suggestion != NULL)
		write_peer(w, "allow", slice_of(e->suggestion), SUGGESTION_BYTES);
	if (e->has_query) {
		json_bool(j, "has_query", true);
		json_uint(j, "query_bytes", e->query_bytes);
	}
	if (e->encoded_slash)
		json_bool(j, "encoded_slash", true);
	if (e->count > 0)
		json_uint(j, "count", e->count);
	write_own(w, "address_class", e->address_class, METHOD_BYTES);
	if (e->reason == REASON_SANDBOX_VIOLATION)
		write_own(w, "rule", e->rule_text, HOST_BYTES);
	write_usage(w);
	write_files(w);
	write_checkpoint(w);
	write_index(w);
	if (w->redactions > 0)
		json_uint(j, "redactions", w->redactions);
	if (w->cuts > 0)
		json_uint(j, "truncated", w->cuts);
	json_uint(j, "mono_ns", clock_monotonic_ns());
	if (e->open)
		json_bool(j, "open", true);
	if (e->recovered)
		json_bool(j, "recovered", true);
	json_object_end(j);
	json_object_end(j);
}

/** One try with the limits of a pass. @return 0, -ENOBUFS: too large. */
static int write_pass(struct writer *w, struct buf *line, size_t *ret_metadata_end)
{
	buf_clear(line);
	json_open(&w->j, line);
	w->redactions = 0;
	w->cuts =
		w->pass > 0; /* something is cut, and metadata comes before all of it is counted */
	json_object(&w->j, NULL);
	write_head(w);
	write_body(w);
	write_metadata(w, ret_metadata_end);
	write_unmapped(w);
	json_object_end(&w->j);
	return line->failed ? -ENOBUFS : 0;
}

int audit_event_write(const struct audit_event *e, struct buf *out, size_t *ret_metadata_end)
{
	struct writer w = {.e = e};
	struct buf line;
	size_t metadata_end = 0;
	buf_init(&w.scratch, 8 * RAW_BYTES_MAX);
	buf_init(&line, AUDIT_LINE_BYTES_MAX - ADDED_BYTES_MAX);
	int r = -ENOBUFS;
	for (w.pass = 0; w.pass < CUT_PASSES && r < 0; w.pass++)
		r = write_pass(&w, &line, &metadata_end);
	if (r == 0)
		r = buf_append(out, buf_slice(&line));
	if (r == 0)
		*ret_metadata_end = metadata_end;
	buf_fini(&line);
	buf_fini(&w.scratch);
	return r;
}
