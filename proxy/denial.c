/* See denial.h. Its inputs were parsed, but still hold a peer's bytes. */
#include "proxy/denial.h"
#include "common/json.h"

#include <assert.h>
#include <errno.h>

#define DENIAL_BODY_BYTES_MAX 65536
#define DENIAL_TEXT_BYTES     512  /* peer text in the head */
#define DENIAL_PEER_BYTES     2048 /* one peer text in the body, before escaping */

/** RFC 9209 2.3: what an intermediary calls this failure. */
static const char *error_type(enum reason reason, unsigned status)
{
	if (reason == REASON_DENY_LIMIT && status < 500)
		return "http_request_error";
	switch ((int)reason) {
	case REASON_DENY_ADDRESS_PRIVATE:
	case REASON_DENY_ADDRESS_METADATA:
		return "destination_ip_prohibited";
	case REASON_DENY_UPSTREAM_CERT:
		return "tls_certificate_error";
	case REASON_DENY_NAME_INVALID:
	case REASON_DENY_SMUGGLING:
	case REASON_DENY_PROTOCOL:
		return "http_request_error";
	case REASON_DENY_LIMIT:
	case REASON_DENY_QUOTA:
		return "connection_limit_reached";
	case REASON_ERROR_UPSTREAM:
		return "destination_unavailable";
	case REASON_ERROR_TIMEOUT:
		return "connection_timeout";
	case REASON_DENY_AUDIT_FULL:
	case REASON_DENY_POLICY_STALE:
	case REASON_ERROR_INTERNAL:
		return "proxy_internal_error";
	default:
		return "http_request_denied";
	}
}

/** Visible ASCII and blanks, for a status line; what else there is becomes '?'. @return to */
static char *plain(struct slice text, char *to, size_t capacity)
{
	size_t len = text.len < capacity - 1 ? text.len : capacity - 1;
	for (size_t i = 0; i < len; i++)
		to[i] = text.ptr[i] >= 0x20 && text.ptr[i] < 0x7f ? text.ptr[i] : '?';
	to[len] = '\0';
	return to;
}

/** As plain(), for inside of a quoted string of RFC 8941. */
static char *quotable(const char *text, char *to, size_t capacity)
{
	(void)plain(slice_of(text), to, capacity);
	for (char *c = to; *c != '\0'; c++) {
		if (*c == '"' || *c == '\\')
			*c = '\'';
	}
	return to;
}

static const char *message_of(const struct denial *d)
{
	return d->message != NULL ? d->message : reason_sentence(d->reason);
}

static void json_text_if(struct json *j, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		json_text(j, key, value);
}

static void json_slice_if(struct json *j, const char *key, struct slice value)
{
	if (value.len > 0)
		json_slice(j, key, slice_part(value, 0, DENIAL_PEER_BYTES));
}

static void budget_write(struct json *j, const struct budget_denial *b)
{
	json_object(j, "budget");
	json_text(j, "limit", budget_kind_name(b->kind));
	json_uint(j, "allowed", b->allowed);
	json_uint(j, "used", b->used);
	if (b->window_ms != 0)
		json_uint(j, "window_ms", b->window_ms);
	if (b->resets_ms != 0)
		json_uint(j, "resets_in_ms", b->resets_ms);
	json_object_end(j);
}

static void body_write(const struct denial *d, struct buf *to)
{
	struct json j;
	json_open(&j, to);
	json_object(&j, NULL);
	json_text(&j, "error", d->reason >= REASON_ERROR_UPSTREAM ? "failed" : "denied");
	json_text(&j, "reason", reason_code(d->reason));
	json_text(&j, "message", message_of(d));
	json_slice_if(&j, "host", d->host);
	if (d->port != 0)
		json_uint(&j, "port", d->port);
	json_slice_if(&j, "method", d->method);
	json_slice_if(&j, "path", d->path);
	if (d->rule != NULL) {
		json_text(&j, "rule", d->rule->id);
		json_format(&j, "place", "%s:%u", d->rule->file, d->rule->line);
	}
	if (d->budget != NULL)
		budget_write(&j, d->budget);
	json_text_if(&j, "hint", d->hint);
	json_text_if(&j, "allow", d->allow);
	json_text_if(&j, "request_id", d->request_id);
	json_object_end(&j);
	(void)buf_append_text(to, "\n"); /* sticky in the buf */
}

static void head_write(const struct denial *d, size_t body_len, struct buf *out)
{
	char text[DENIAL_TEXT_BYTES];
	unsigned status = d->status != 0 ? d->status : (unsigned)reason_status(d->reason);
	assert(status >= 400); /* a reason that refuses nothing has no denial */
	const char *error = d->error != NULL ? d->error : error_type(d->reason, status);
	(void)buf_printf(out, "HTTP/1.1 %u %s", status, reason_code(d->reason));
	if (d->host.len > 0)
		(void)buf_printf(out, " %s", plain(d->host, text, sizeof(text)));
	(void)buf_printf(out, "\r\nProxy-Status: eclusa; error=%s; details=\"%s\"\r\n", error,
		quotable(message_of(d), text, sizeof(text)));
	(void)buf_printf(
		out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_len);
	(void)buf_printf(out, "Cache-Control: no-store\r\nConnection: close\r\n");
	if (d->request_id != NULL)
		(void)buf_printf(out, "Eclusa-Request: %s\r\n",
			plain(slice_of(d->request_id), text, sizeof(text)));
	if (d->budget != NULL && d->budget->resets_ms != 0)
		(void)buf_printf(out, "Retry-After: %llu\r\n",
			(unsigned long long)(d->budget->resets_ms + 999) / 1000);
	(void)buf_append_text(out, "\r\n"); /* all of these: sticky in the buf */
}

int denial_write(const struct denial *d, struct buf *out)
{
	struct buf body;
	buf_init(&body, DENIAL_BODY_BYTES_MAX);
	body_write(d, &body);
	int r = body.failed ? -ENOBUFS : 0;
	if (r == 0)
		head_write(d, buf_len(&body), out);
	if (r == 0 && !d->head)
		(void)buf_append(out, buf_slice(&body)); /* sticky in the buf */
	if (r == 0 && out->failed)
		r = -ENOBUFS;
	buf_fini(&body);
	return r;
}
