/* What an event says of a request or a connection: rule, ends, URL, TLS, bytes. See event_state.h. */
#include "audit/event_state.h"

#include "audit/redact.h"

#include <netinet/in.h>
#include <stdio.h>

/** ":" and a number. */
static void append_number(struct buf *to, uint64_t number)
{
	char text[24];
	size_t at = sizeof(text);
	do {
		text[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	text[--at] = ':';
	(void)buf_append(to, (struct slice){text + at, sizeof(text) - at}); /* sticky in the buf */
}

unsigned event_append_url(const struct audit_event *e, struct buf *to)
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
	unsigned count = 0;
	if (e->packed)
		(void)buf_append(to, e->host);
	else
		count += redact_host(slice_part(e->host, 0, RAW_BYTES_MAX), to);
	if (bracket)
		(void)buf_append(to, SLICE("]"));
	if (e->destination_port != 0 && !usual)
		append_number(to, e->destination_port);
	if (e->packed)
		(void)buf_append(to, e->path);
	else
		count += redact_path(slice_part(e->path, 0, RAW_BYTES_MAX), to);
	return count;
}

/** "file:line" of the rule. */
static void write_place(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	if (e->rule_line == 0) {
		event_write_own(w, "desc", e->rule_place, HOST_BYTES);
	} else if (e->rule_place != NULL) {
		buf_clear(&w->scratch);
		(void)buf_append_text(
			&w->scratch, e->rule_place); /* errors show in scratch.failed */
		append_number(&w->scratch, e->rule_line);
		event_write_scratch(w, "desc", HOST_BYTES);
	}
}

void event_write_policy(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	if (event_action_of(e) == ACTION_NONE)
		return;
	const char *rule = e->rule_id != NULL ? e->rule_id : "default";
	json_object(j, "firewall_rule");
	event_write_own(w, "uid", rule, NAME_BYTES);
	event_write_own(w, "name", rule, NAME_BYTES);
	json_text(j, "type", e->rule_id == NULL ? "default" : e->rule_allows ? "allow" : "deny");
	event_write_own(w, "version", e->policy_version, NAME_BYTES);
	write_place(w);
	event_write_own(w, "condition", e->rule_text, MESSAGE_BYTES);
	json_object_end(j);
	json_object(j, "policy");
	event_write_own(w, "uid", e->profile, NAME_BYTES);
	event_write_own(w, "name", e->profile, NAME_BYTES);
	event_write_own(w, "version", e->policy_version, NAME_BYTES);
	json_bool(j, "is_applied", !e->observe);
	json_object_end(j);
}

/** Of refused packets: by the names that packet_class_name() (ipc/message.h) gives. */
static bool is_udp(const char *address_class)
{
	return address_class != NULL &&
		(strcmp(address_class, "udp") == 0 || strcmp(address_class, "questions") == 0);
}

void event_write_endpoints(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	const char *name = e->sandbox_name != NULL ? e->sandbox_name : e->sandbox_id;
	json_object(j, "src_endpoint");
	event_write_address(w, &e->source, e->source_port);
	event_write_own(w, "uid", e->sandbox_id, NAME_BYTES);
	event_write_own(w, "name", name, NAME_BYTES);
	json_object_end(j);
	if (e->host.len > 0 || e->destination.family != 0 || e->destination_port != 0) {
		json_object(j, "dst_endpoint");
		event_write_host(w, "hostname", e->host);
		event_write_address(w, &e->destination, e->destination_port);
		json_object_end(j);
	}
	json_object(j, "proxy_endpoint");
	event_write_address(w, &e->proxy, e->proxy_port);
	json_text(j, "name", "eclusa-proxy");
	json_object_end(j);
	json_object(j, "connection_info");
	json_int(j, "direction_id", 2);
	json_text(j, "direction", "Outbound");
	bool packet = e->class == AUDIT_NETWORK && e->activity == 5;
	bool udp = e->dns != NULL ? e->dns->udp : is_udp(e->address_class);
	if (!packet || udp) {
		json_text(j, "protocol_name", udp ? "udp" : "tcp");
		json_int(j, "protocol_num", udp ? IPPROTO_UDP : IPPROTO_TCP);
	}
	event_write_own(w, "uid", e->connection, NAME_BYTES);
	json_object_end(j);
}

void event_write_traffic(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	json_object(&w->j, "traffic");
	json_uint(&w->j, "bytes", e->bytes_in + e->bytes_out);
	json_uint(&w->j, "bytes_in", e->bytes_in);
	json_uint(&w->j, "bytes_out", e->bytes_out);
	json_object_end(&w->j);
}

/** As OCSF calls the numbers of RFC 6895. */
static const char *rcode_caption(unsigned rcode)
{
	switch (rcode) {
	case 0:
		return "NoError";
	case 1:
		return "FormError";
	case 2:
		return "ServError";
	case 3:
		return "NXDomain";
	case 4:
		return "NotImp";
	case 5:
		return "Refused";
	case 16:
		return "BADVERS";
	default:
		return NULL;
	}
}

static void event_write_answer(struct event_writer *w, const struct audit_dns *dns)
{
	char text[ADDRESS_TEXT_BYTES];
	struct json *j = &w->j;
	if (dns->answer.family == 0)
		return;
	json_array(j, "answers");
	json_object(j, NULL);
	json_text(j, "rdata", address_format(&dns->answer, text));
	json_text(j, "type", dns->answer.family == 4 ? "A" : "AAAA");
	json_text(j, "class", "IN");
	json_uint(j, "ttl", dns->ttl_s);
	json_object_end(j);
	json_array_end(j);
}

void event_write_dns(struct event_writer *w)
{
	const struct audit_dns *dns = w->e->dns;
	struct json *j = &w->j;
	if (dns == NULL)
		return;
	if (dns->name.len > 0) { /* OCSF takes no query without one */
		json_object(j, "query");
		event_write_host(w, "hostname", dns->name);
		event_write_own(w, "type", dns->type, METHOD_BYTES);
		event_write_own(w, "class", dns->class, METHOD_BYTES);
		json_object_end(j);
	}
	event_write_answer(w, dns);
	const char *caption = rcode_caption(dns->rcode);
	json_text(j, "rcode", caption != NULL ? caption : "Other");
	json_uint(j, "rcode_id", caption != NULL ? dns->rcode : 99);
}

static void event_write_url(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	json_object(&w->j, "url");
	event_write_peer(w, "scheme", e->scheme, METHOD_BYTES);
	event_write_host(w, "hostname", e->host);
	if (e->destination_port != 0)
		json_uint(&w->j, "port", e->destination_port);
	if (e->path.len > 0) {
		buf_clear(&w->scratch);
		struct slice path = event_cut_raw(w, e->path);
		if (e->packed)
			(void)buf_append(&w->scratch, path);
		else
			(void)redact_path(path, &w->scratch); /* counted with the URL */
		event_write_scratch(w, "path", URL_BYTES);
	}
	buf_clear(&w->scratch);
	w->redactions += event_append_url(e, &w->scratch);
	event_write_scratch(w, "url_string", URL_BYTES);
	json_object_end(&w->j);
}

void event_write_http(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	json_object(j, "http_request");
	event_write_own(w, "uid", e->correlation != NULL ? e->correlation : e->uid, NAME_BYTES);
	event_write_peer(w, "http_method", e->method, METHOD_BYTES);
	event_write_peer(w, "user_agent", e->user_agent, USER_AGENT_BYTES);
	json_uint(j, "body_length", e->request_body_bytes);
	event_write_url(w);
	json_object_end(j);
	if (e->status == 0)
		return;
	json_object(j, "http_response");
	json_uint(j, "code", e->status);
	json_uint(j, "length", e->bytes_in);
	json_uint(j, "body_length", e->response_body_bytes);
	event_write_peer(w, "content_type", e->content_type, NAME_BYTES);
	json_object_end(j);
}

void event_write_tls(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	if (e->tls_version == NULL)
		return;
	json_object(&w->j, "tls");
	event_write_own(w, "version", e->tls_version, NAME_BYTES);
	event_write_own(w, "cipher", e->tls_cipher, NAME_BYTES);
	event_write_host(w, "sni", e->sni);
	/* OCSF takes no certificate without these two. */
	if (e->tls_certificate_issuer != NULL && e->tls_certificate_issuer[0] != '\0' &&
		e->tls_certificate_serial != NULL && e->tls_certificate_serial[0] != '\0') {
		json_object(&w->j, "certificate");
		event_write_own(w, "subject", e->tls_certificate_subject, HOST_BYTES);
		event_write_own(w, "issuer", e->tls_certificate_issuer, HOST_BYTES);
		event_write_own(w, "serial_number", e->tls_certificate_serial, NAME_BYTES);
		json_object_end(&w->j);
	}
	json_object_end(&w->j);
}
