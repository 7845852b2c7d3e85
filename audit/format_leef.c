/*
 * Log Event Extended Format 2.0, as QRadar reads it: a header of six fields, then key=value pairs with a tab between. The format
 * has no escapes: what would end a field is made visible. Event id and cat are the same for each event of a kind.
 */
#include "audit/format_field.h"

#include "audit/visible.h"
#include "common/cleanup.h"

static const struct visible_style header_style = {.doubled = "", .hidden = "|^"};

static const struct format_field header[] = {
	{"vendor", "metadata.product.vendor_name", FORMAT_TEXT},
	{"product", "metadata.product.name", FORMAT_TEXT},
	{"version", "metadata.product.version", FORMAT_TEXT},
	{"id", "status_code", FORMAT_TEXT},
};

static const struct format_field fields[] = {
	{"devTime", "time", FORMAT_TIME_QRADAR},
	{"devTimeFormat", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", FORMAT_FIXED},
	{"cat", "class_name", FORMAT_TEXT},
	{"sev", "severity_id", FORMAT_SEVERITY},
	{"action", "action", FORMAT_TEXT},
	{"outcome", "status", FORMAT_LOWER},
	{"reason", "status_detail", FORMAT_TEXT},
	{"msg", "message", FORMAT_TEXT},
	{"src", "src_endpoint.ip", FORMAT_IP},
	{"srcPort", "src_endpoint.port", FORMAT_NUMBER},
	{"dst", "dst_endpoint.ip", FORMAT_IP},
	{"dstPort", "dst_endpoint.port", FORMAT_NUMBER},
	{"dstHost", "dst_endpoint.hostname", FORMAT_TEXT},
	{"proto", "connection_info.protocol_name", FORMAT_TEXT},
	{"url", "http_request.url.url_string", FORMAT_TEXT},
	{"method", "http_request.http_method", FORMAT_TEXT},
	{"userAgent", "http_request.user_agent", FORMAT_TEXT},
	{"status", "http_response.code", FORMAT_NUMBER},
	{"srcBytes", "traffic.bytes_out", FORMAT_NUMBER},
	{"dstBytes", "traffic.bytes_in", FORMAT_NUMBER},
	{"count", "unmapped.eclusa.count", FORMAT_NUMBER},
	{"policy", "firewall_rule.uid", FORMAT_TEXT},
	{"ruleSource", "firewall_rule.desc", FORMAT_TEXT},
	{"policyHash", "policy.version", FORMAT_TEXT},
	{"profile", "profile", FORMAT_LABEL},
	{"sandbox", "container.uid", FORMAT_TEXT},
	{"process", "process.name", FORMAT_TEXT},
	{"exitCode", "exit_code", FORMAT_NUMBER},
	{"usrName", "actor.user.name", FORMAT_TEXT},
	{"identHostName", "device.hostname", FORMAT_TEXT},
	{"requestId", "metadata.correlation_uid", FORMAT_TEXT},
	{"eventUid", "metadata.uid", FORMAT_TEXT},
	{"sequence", "metadata.sequence", FORMAT_NUMBER},
};

void format_leef(const struct audit_line *line, struct buf *to)
{
	struct format_value value;
	(void)buf_append(to, SLICE("LEEF:2.0|")); /* errors are sticky in the buf */
	for (size_t i = 0; i < array_size(header); i++) {
		if (format_value(line, &header[i], 0, &value))
			visible_append(to, value.text, &header_style);
		(void)buf_append(to, SLICE("|"));
	}
	(void)buf_append(to, SLICE("x09|"));
	bool first = true;
	for (size_t i = 0; i < array_size(fields); i++) {
		if (!format_value(line, &fields[i], 0, &value))
			continue;
		(void)buf_printf(to, "%s%s=", first ? "" : "\t", fields[i].name);
		visible_append(to, value.text, NULL);
		first = false;
	}
}
