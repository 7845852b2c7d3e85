/* See audit_show.h. */
#include "cli/audit_show.h"

#include "audit/format_field.h"
#include "audit/visible.h"
#include "cli/audit_filter.h"
#include "common/cleanup.h"

#include <assert.h>
#include <inttypes.h>

#define PLAIN "\033[m"
#define FAINT "\033[2m"

static const char *const colours[] = {
	[AUDIT_VERDICT_NONE] = FAINT,
	[AUDIT_VERDICT_ALLOW] = "\033[32m",
	[AUDIT_VERDICT_DENY] = "\033[31m",
	[AUDIT_VERDICT_ERROR] = "\033[33m",
	[AUDIT_VERDICT_OBSERVE] = "\033[36m",
};
static_assert(array_size(colours) == AUDIT_VERDICT_COUNT, "a colour for each verdict");

bool audit_show_coloured(int fd)
{
	const char *no = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	return isatty(fd) && (no == NULL || no[0] == '\0') && terminal != NULL &&
		strcmp(terminal, "dumb") != 0;
}

/** @before and @after only where there is a text. @return whether there is. */
static bool show_text(const struct audit_line *line, const char *path, const char *before,
	const char *after, struct buf *to)
{
	struct slice text = audit_line_text(line, path);
	if (text.len == 0)
		return false;
	(void)buf_append_text(to, before); /* errors are sticky in the buf */
	visible_append(to, text, NULL);
	(void)buf_append_text(to, after);
	return true;
}

static void show_time(const struct audit_line *line, struct buf *to)
{
	static const struct format_field time = {"", "time", FORMAT_TIME};
	struct format_value value;
	bool there = format_value(line, &time, 0, &value);
	(void)buf_append(to, there ? value.text : SLICE("-                       "));
}

/** "https://host/path", "host:443", "192.0.2.1:80", or what the event says of itself. */
static void show_destination(const struct audit_line *line, struct buf *to)
{
	uint64_t port, count = audit_line_number_at(line, "unmapped.eclusa.count");
	(void)show_text(line, "http_request.http_method", " ", "", to);
	(void)show_text(line, "query.type", " ", "", to);
	if (!show_text(line, "http_request.url.url_string", " ", "", to)) {
		bool host = show_text(line, "dst_endpoint.hostname", " ", "", to) ||
			show_text(line, "query.hostname", " ", "", to) ||
			show_text(line, "dst_endpoint.ip", " ", "", to) ||
			show_text(line, "unmapped.eclusa.address_class", " packets: ", "", to);
		if (host && audit_line_find_number(line, "dst_endpoint.port", &port))
			(void)buf_printf(to, ":%" PRIu64, port);
	}
	if (count > 1)
		(void)buf_printf(to, " (%" PRIu64 " times)", count);
}

static void show_decision(const struct audit_line *line, enum audit_verdict verdict, struct buf *to)
{
	uint64_t status, out, in;
	show_destination(line, to);
	if (audit_line_find_number(line, "http_response.code", &status))
		(void)buf_printf(to, " %" PRIu64, status);
	if (audit_line_find_number(line, "traffic.bytes_out", &out) &&
		audit_line_find_number(line, "traffic.bytes_in", &in) && (out | in) != 0)
		(void)buf_printf(to, " out=%" PRIu64 " in=%" PRIu64, out, in);
	(void)show_text(line, "firewall_rule.uid", " rule=", "", to);
	if (!slice_equal(audit_line_text(line, "firewall_rule.uid"),
		    audit_line_text(line, "firewall_rule.desc")))
		(void)show_text(line, "firewall_rule.desc", " (", ")", to);
	if (verdict != AUDIT_VERDICT_ALLOW)
		(void)show_text(line, "status_detail", ": ", "", to);
	(void)show_text(line, "unmapped.eclusa.would", "; would be ", "", to);
}

/** A refused system call: the message is the code, and the call as it was made. */
static void show_call(const struct audit_line *line, struct buf *to)
{
	struct slice message = audit_line_text(line, "message"), code, call;
	if (!slice_split(message, ' ', &code, &call) ||
		!slice_equal(code, audit_line_text(line, "status_code")))
		return;
	(void)buf_append_text(to, ": "); /* errors are sticky in the buf */
	visible_append(to, call, NULL);
}

static void show_process(const struct audit_line *line, struct buf *to)
{
	uint64_t status;
	(void)show_text(line, "process.cmd_line", " ", "", to);
	if (audit_line_text(line, "unmapped.eclusa.rule").len > 0)
		show_call(line, to);
	else if (show_text(line, "unmapped.eclusa.verdict", ": ", "", to) &&
		audit_line_find_number(line, "exit_code", &status))
		(void)buf_printf(to, ", status %" PRIu64, status);
}

void audit_show(const struct audit_line *line, bool coloured, struct buf *to)
{
	enum audit_verdict verdict = audit_verdict_of(line);
	bool alarming = audit_line_number_at(line, "severity_id") >= 4;
	show_time(line, to);
	(void)buf_printf(to, " %s%s%-7s%s", coloured ? colours[verdict] : "",
		coloured && alarming ? "\033[1m" : "", audit_verdict_name(verdict),
		coloured ? PLAIN : "");
	(void)show_text(line, "status_code", " ", "", to);
	if (!show_text(line, "container.name", " ", "", to))
		(void)show_text(line, "container.uid", " ", "", to);
	if (audit_line_number_at(line, "action_id") != 0)
		show_decision(line, verdict, to);
	else if (audit_line_number_at(line, "class_uid") == 1007)
		show_process(line, to);
	else
		(void)show_text(line, "status_detail", ": ", "", to);
	if (audit_line_true(line, "unmapped.eclusa.recovered"))
		(void)buf_append(to, SLICE(" (completed after a crash)"));
}
