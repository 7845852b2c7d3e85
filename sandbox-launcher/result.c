/* See result.h. */
#include "sandbox-launcher/result.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#define RESULT_HINT_BYTES 4096

static const struct {
	const char *name;
	int status; /* -1: the program's own */
} VERDICTS[] = {
	[VERDICT_OK] = {"ok", 0},
	[VERDICT_EXIT] = {"exit", -1},
	[VERDICT_SIGNAL] = {"signal", -1},
	[VERDICT_WALL] = {"wall", 124},
	[VERDICT_CPU] = {"cpu", 152},
	[VERDICT_OOM] = {"oom", 137},
	[VERDICT_PIDS] = {"pids", -1},
	[VERDICT_DISK] = {"disk", -1},
	[VERDICT_OUTPUT] = {"output", 125},
	[VERDICT_SETUP] = {"setup", 125},
	[VERDICT_SUPERVISOR] = {"supervisor", 125},
};
static_assert(array_size(VERDICTS) == VERDICT_COUNT, "one row a verdict");

const char *verdict_name(enum verdict v)
{
	return VERDICTS[v].name;
}

int result_status(const struct result *r)
{
	if (VERDICTS[r->verdict].status >= 0)
		return VERDICTS[r->verdict].status;
	return r->signal > 0 ? 128 + r->signal : r->exit_code;
}

/* @return whether there was room. */
__attribute__((format(printf, 4, 0))) static bool add_line(
	char **lines, size_t *count, size_t max, const char *format, va_list args)
{
	if (*count >= max)
		return false;
	if (vasprintf(&lines[*count], format, args) >= 0)
		(*count)++;
	return true;
}

void result_error(struct result *r, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	r->errors_left_out +=
		!add_line(r->errors, &r->error_count, RESULT_ERRORS_MAX, format, args);
	va_end(args);
}

void result_hint(struct result *r, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)add_line(r->hints, &r->hint_count, RESULT_HINTS_MAX, format, args);
	va_end(args);
}

void result_fini(struct result *r)
{
	buf_fini(&r->output[0]);
	buf_fini(&r->output[1]);
	collected_fini(&r->collected);
	audit_summary_fini(&r->network);
	violations_fini(&r->violations);
	for (size_t i = 0; i < r->error_count; i++)
		free(r->errors[i]);
	for (size_t i = 0; i < r->hint_count; i++)
		free(r->hints[i]);
	free(r->profile);
	free(r->audit_path);
	*r = (struct result){0};
}

static int base64(struct slice text, struct buf *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *room;
	size_t len = (text.len + 2) / 3 * 4;
	int r = buf_reserve(to, len, &room);
	if (r < 0)
		return r;
	for (size_t i = 0; i < text.len; i += 3) {
		uint32_t word = 0;
		for (size_t k = 0; k < 3; k++)
			word = word << 8 | (i + k < text.len ? (unsigned char)text.ptr[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			*room++ = i + k > text.len ? '=' : digits[word >> (18 - 6 * k) & 63];
	}
	buf_grew(to, len);
	return 0;
}

int result_json_bytes(struct json *j, const char *key, const char *flag, struct slice text)
{
	if (utf8_valid(text)) {
		json_slice(j, key, text);
		return 0;
	}
	struct buf encoded;
	buf_init(&encoded, text.len * 2 + 64);
	int r = base64(text, &encoded);
	if (r == 0) {
		json_slice(j, key, buf_slice(&encoded));
		json_bool(j, flag, true);
	}
	buf_fini(&encoded);
	return r;
}

static void json_milliseconds(struct json *j, const char *key, uint64_t ns)
{
	if (ns == UINT64_MAX)
		json_null(j, key);
	else
		json_uint(j, key, (ns + NS_PER_MS / 2) / NS_PER_MS);
}

static void json_known(struct json *j, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_null(j, key);
	else
		json_uint(j, key, value);
}

static void json_known_text(struct json *j, const char *key, const char *value)
{
	if (value != NULL)
		json_text(j, key, value);
}

/* The number that decided, under its unit. */
static void json_decided(struct json *j, const struct result *r)
{
	switch (r->verdict) {
	case VERDICT_WALL:
	case VERDICT_CPU:
		json_milliseconds(j, "decided_by_ms", r->decided);
		return;
	case VERDICT_OOM:
	case VERDICT_DISK:
		json_uint(j, "decided_by_bytes", r->decided);
		return;
	case VERDICT_OK:
	case VERDICT_EXIT:
	case VERDICT_SIGNAL:
	case VERDICT_PIDS:
	case VERDICT_OUTPUT:
	case VERDICT_SETUP:
	case VERDICT_SUPERVISOR:
	case VERDICT_COUNT:
		break;
	}
	json_uint(j, "decided_by", r->decided);
}

static void json_artifacts(struct json *j, const struct collected *c)
{
	json_array(j, "artifacts");
	for (size_t i = 0; i < c->count; i++) {
		json_object(j, NULL);
		(void)result_json_bytes(/* errors are sticky */
			j, "path", "path_base64", slice_of(c->items[i].path));
		json_uint(j, "size", c->items[i].size);
		json_text(j, "sha256", c->items[i].sha256);
		json_text(j, "media_type", c->items[i].media_type);
		json_object_end(j);
	}
	json_array_end(j);
}

void result_denial_members(const struct audit_denial *d, const struct result *r,
	const struct spec *spec, struct json *j)
{
	char file[RESULT_FILE_BYTES];
	struct buf hint;
	buf_init(&hint, RESULT_HINT_BYTES);
	json_known_text(j, "reason", d->reason);
	json_known_text(j, "detail", d->detail);
	json_known_text(j, "method", d->method);
	json_known_text(j, "host", d->host);
	if (d->port != 0)
		json_uint(j, "port", d->port);
	json_known_text(j, "path", d->path);
	json_known_text(j, "rule", d->rule);
	json_known_text(j, "rule_place", d->rule_place);
	json_known_text(j, "class", d->address_class);
	json_known_text(j, "allow", d->suggestion);
	if (d->suggestion != NULL && result_rule_file(r, spec, d, file, sizeof(file))) {
		json_text(j, "allow_file", file);
		json_known_text(j, "allow_profile", r->profile);
	}
	result_denial_hint(d, r, spec, &hint);
	if (buf_len(&hint) > 0)
		json_slice(j, "hint", buf_slice(&hint));
	buf_fini(&hint);
	if (d->count > 0)
		json_uint(j, "count", d->count);
}

/* One distinct denial or failure. */
static void json_denial(struct json *j, const struct audit_denial *d, const struct result *r,
	const struct spec *spec)
{
	json_object(j, NULL);
	result_denial_members(d, r, spec, j);
	json_object_end(j);
}

static void json_denials(struct json *j, const struct result *r, const struct spec *spec)
{
	const struct audit_summary *n = &r->network;
	json_array(j, "denials");
	for (size_t i = 0; i < n->denial_count; i++)
		json_denial(j, &n->denials[i], r, spec);
	for (size_t i = 0; i < r->violations.count; i++) {
		json_object(j, NULL);
		violation_members(&r->violations.items[i], j);
		json_object_end(j);
	}
	json_array_end(j);
	json_uint(j, "denials_left_out", n->denials_left_out + r->violations.left_out);
	json_array(j, "failures");
	for (size_t i = 0; i < n->failure_count; i++)
		json_denial(j, &n->failures[i], r, spec);
	json_array_end(j);
	json_uint(j, "failures_left_out", n->failures_left_out);
}

static void json_lines(struct json *j, const char *key, char *const *lines, size_t count)
{
	json_array(j, key);
	for (size_t i = 0; i < count; i++)
		json_text(j, NULL, lines[i]);
	json_array_end(j);
}

static void json_network(struct json *j, const struct result *r)
{
	json_object(j, "network");
	json_bool(j, "enabled", r->has_network);
	json_object(j, "decisions");
	json_uint(j, "allowed", r->network.allowed);
	json_uint(j, "denied", r->network.denied);
	json_uint(j, "failed", r->network.failed);
	json_uint(j, "observed", r->network.observed);
	json_object_end(j);
	json_uint(j, "bytes_in", r->network.bytes_in);
	json_uint(j, "bytes_out", r->network.bytes_out);
	if (r->has_network)
		json_bool(j, "dial_guard", r->root);
	json_object_end(j);
}

static void json_limits(struct json *j, const struct result *r, const struct spec *spec)
{
	json_object(j, "limits");
	json_text(j, "cgroup", cgroup_kind_name(r->cgroup));
	json_bool(j, "separate_uid", r->root);
	json_uint(j, "memory_bytes", spec->memory_bytes);
	json_format(j, "cpus", "%u.%03u", spec->cpu_milli / 1000, spec->cpu_milli % 1000);
	json_uint(j, "pids", spec->pids_limit);
	json_known(j, "io_rate_bytes", spec->io_rate_bytes == 0 ? UINT64_MAX : spec->io_rate_bytes);
	json_milliseconds(j, "timeout_ms", spec->timeout_ns);
	json_milliseconds(j, "cpu_time_ms", spec->cpu_time_ns);
	/* sampled: what a process used after the last look, and nobody waited for, is missing */
	json_text(j, "cpu_time_scope", r->cgroup == CGROUP_NONE ? "sampled" : "cgroup");
	json_uint(j, "output_bytes", spec->output_limit_bytes);
	json_uint(j, "out_bytes", spec->out_limit_bytes);
	json_object_end(j);
}

static void json_ending(struct json *j, const struct result *r)
{
	json_text(j, "id", r->id);
	json_text(j, "verdict", verdict_name(r->verdict));
	json_decided(j, r);
	if (r->exit_code >= 0)
		json_int(j, "exit_code", r->exit_code);
	else
		json_null(j, "exit_code");
	if (r->signal > 0)
		json_int(j, "signal", r->signal);
	else
		json_null(j, "signal");
}

static int json_output(struct json *j, const struct result *r, const struct spec *spec)
{
	if (spec->stream) { /* it was told as it came */
		json_null(j, "stdout");
		json_null(j, "stderr");
		return 0;
	}
	int e = result_json_bytes(j, "stdout", "stdout_base64", buf_slice(&r->output[0]));
	return e < 0 ? e
		     : result_json_bytes(j, "stderr", "stderr_base64", buf_slice(&r->output[1]));
}

static void json_receipt(struct json *j, const struct result *r, const struct spec *spec)
{
	if (!r->receipt.confined) { /* nothing stood, and nothing ran */
		json_null(j, "receipt");
		return;
	}
	json_object(j, "receipt");
	receipt_json(&r->receipt, j);
	json_limits(j, r, spec);
	json_object_end(j);
}

int result_json(const struct result *r, const struct spec *spec, struct buf *out)
{
	struct json j;
	json_open(&j, out);
	json_object(&j, NULL);
	if (spec->stream)
		json_text(&j, "event", "result");
	json_ending(&j, r);
	int e = json_output(&j, r, spec);
	if (e < 0)
		return e;
	json_object(&j, "truncated");
	json_uint(&j, "stdout", r->cut[0]);
	json_uint(&j, "stderr", r->cut[1]);
	json_object_end(&j);
	json_object(&j, "usage");
	json_milliseconds(&j, "wall_ms", r->wall_ns);
	json_milliseconds(&j, "cpu_ms", r->cpu_ns);
	json_known(&j, "memory_peak_bytes", r->memory_peak_bytes);
	json_known(&j, "io_read_bytes", r->io_known ? r->io_read_bytes : UINT64_MAX);
	json_known(&j, "io_written_bytes", r->io_known ? r->io_written_bytes : UINT64_MAX);
	json_object_end(&j);
	json_artifacts(&j, &r->collected);
	json_network(&j, r);
	json_denials(&j, r, spec);
	if (r->audit_path == NULL)
		json_null(&j, "audit");
	else
		json_text(&j, "audit", r->audit_path);
	json_limits(&j, r, spec);
	json_receipt(&j, r, spec);
	json_lines(&j, "errors", r->errors, r->error_count);
	json_uint(&j, "errors_left_out", r->errors_left_out);
	json_lines(&j, "hints", r->hints, r->hint_count);
	json_object_end(&j);
	return buf_append(out, SLICE("\n"));
}
