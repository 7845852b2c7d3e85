/*
 * Comma-separated values (RFC 4180), one record a line, the same columns for every class. A value that a spreadsheet would
 * take for a formula gets an apostrophe before it, so that opening the file computes nothing.
 */
#include "audit/format_field.h"

#include "audit/visible.h"
#include "common/cleanup.h"

static const struct format_field fields[] = {
	{"time", "time", FORMAT_TIME},
	{"class", "class_name", FORMAT_TEXT},
	{"reason", "status_code", FORMAT_TEXT},
	{"action", "action", FORMAT_TEXT},
	{"disposition", "disposition", FORMAT_TEXT},
	{"severity", "severity_id", FORMAT_NUMBER},
	{"sandbox", "container.uid", FORMAT_TEXT},
	{"sandbox_name", "container.name", FORMAT_TEXT},
	{"profile", "profile", FORMAT_LABEL},
	{"mode", "unmapped.eclusa.mode", FORMAT_TEXT},
	{"method", "http_request.http_method", FORMAT_TEXT},
	{"host", "dst_endpoint.hostname", FORMAT_TEXT},
	{"query", "query.hostname", FORMAT_TEXT},
	{"address", "dst_endpoint.ip", FORMAT_TEXT},
	{"port", "dst_endpoint.port", FORMAT_NUMBER},
	{"url", "http_request.url.url_string", FORMAT_TEXT},
	{"status", "http_response.code", FORMAT_NUMBER},
	{"bytes_out", "traffic.bytes_out", FORMAT_NUMBER},
	{"bytes_in", "traffic.bytes_in", FORMAT_NUMBER},
	{"count", "unmapped.eclusa.count", FORMAT_NUMBER},
	{"duration_ms", "duration", FORMAT_NUMBER},
	{"rule", "firewall_rule.uid", FORMAT_TEXT},
	{"rule_source", "firewall_rule.desc", FORMAT_TEXT},
	{"policy_version", "policy.version", FORMAT_TEXT},
	{"detail", "status_detail", FORMAT_TEXT},
	{"user_agent", "http_request.user_agent", FORMAT_TEXT},
	{"command", "process.cmd_line", FORMAT_TEXT},
	{"verdict", "unmapped.eclusa.verdict", FORMAT_TEXT},
	{"exit_code", "exit_code", FORMAT_NUMBER},
	{"source", "src_endpoint.ip", FORMAT_TEXT},
	{"source_port", "src_endpoint.port", FORMAT_NUMBER},
	{"host_name", "device.hostname", FORMAT_TEXT},
	{"request_id", "metadata.correlation_uid", FORMAT_TEXT},
	{"event_id", "metadata.uid", FORMAT_TEXT},
	{"chain", "unmapped.eclusa.chain", FORMAT_TEXT},
	{"sequence", "metadata.sequence", FORMAT_NUMBER},
};

/** Whether some spreadsheet computes it: = + - @ first, or their full-width forms, maybe after blanks. */
static bool is_formula(struct slice text)
{
	static const char *const starts[] = {
		"=", "+", "-", "@", "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d", "\xef\xbc\xa0"};
	text = slice_trim(text);
	for (size_t i = 0; i < array_size(starts); i++) {
		if (slice_starts(text, slice_of(starts[i])))
			return true;
	}
	return false;
}

static bool needs_quotes(struct slice text)
{
	return slice_find(text, ',') >= 0 || slice_find(text, '"') >= 0 ||
		slice_trim(text).len != text.len;
}

static void write_value(struct buf *to, struct slice text)
{
	bool quotes = needs_quotes(text);
	struct slice before;
	if (quotes)
		(void)buf_append(to, SLICE("\"")); /* errors are sticky in the buf */
	if (is_formula(text))
		(void)buf_append(to, SLICE("'"));
	while (slice_split(text, '"', &before, &text)) {
		visible_append(to, before, NULL);
		(void)buf_append(to, SLICE("\"\""));
	}
	visible_append(to, text, NULL);
	if (quotes)
		(void)buf_append(to, SLICE("\""));
}

void format_csv(const struct audit_line *line, struct buf *to)
{
	struct format_value value;
	for (size_t i = 0; i < array_size(fields); i++) {
		if (i > 0)
			(void)buf_append(to, SLICE(","));
		if (format_value(line, &fields[i], 0, &value))
			write_value(to, value.text);
	}
}

void format_csv_head(struct buf *to)
{
	for (size_t i = 0; i < array_size(fields); i++)
		(void)buf_printf(to, "%s%s", i > 0 ? "," : "", fields[i].name);
}
