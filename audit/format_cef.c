/*
 * Common Event Format 0, as ArcSight and Sentinel read it: a header of eight fields, then key=value pairs with a blank between. In
 * the header a backslash stands before '\' and '|', in values before '\' and '='; lines end in values as \r and \n.
 */
#include "audit/format_field.h"

#include "audit/visible.h"
#include "common/cleanup.h"

static const struct visible_style header_style = {.doubled = "\\|", .hidden = ""};
static const struct visible_style value_style = {.doubled = "\\=", .hidden = "", .line_ends = true};

static const struct format_field header[] = {
	{"vendor", "metadata.product.vendor_name", FORMAT_TEXT},
	{"product", "metadata.product.name", FORMAT_TEXT},
	{"version", "metadata.product.version", FORMAT_TEXT},
	{"id", "status_code", FORMAT_TEXT},
	{"name", "status_code", FORMAT_SENTENCE},
	{"severity", "severity_id", FORMAT_SEVERITY},
};

/* A custom field's label stands where the field does. */
static const struct format_field fields[] = {
	{"rt", "time", FORMAT_NUMBER},
	{"start", "start_time", FORMAT_NUMBER},
	{"end", "end_time", FORMAT_NUMBER},
	{"cat", "class_name", FORMAT_TEXT},
	{"act", "action", FORMAT_TEXT},
	{"outcome", "status", FORMAT_LOWER},
	{"reason", "status_detail", FORMAT_TEXT},
	{"msg", "message", FORMAT_TEXT},
	{"externalId", "metadata.uid", FORMAT_TEXT},
	{"src", "src_endpoint.ip", FORMAT_IPV4},
	{"c6a2", "src_endpoint.ip", FORMAT_IPV6},
	{"c6a2Label", "src_endpoint.ip=Source IPv6 Address", FORMAT_WITH_IPV6},
	{"spt", "src_endpoint.port", FORMAT_NUMBER},
	{"dst", "dst_endpoint.ip", FORMAT_IPV4},
	{"c6a3", "dst_endpoint.ip", FORMAT_IPV6},
	{"c6a3Label", "dst_endpoint.ip=Destination IPv6 Address", FORMAT_WITH_IPV6},
	{"dhost", "dst_endpoint.hostname", FORMAT_TEXT},
	{"dpt", "dst_endpoint.port", FORMAT_NUMBER},
	{"proto", "connection_info.protocol_name", FORMAT_TEXT},
	{"app", "http_request.url.scheme", FORMAT_TEXT},
	{"request", "http_request.url.url_string", FORMAT_TEXT},
	{"requestMethod", "http_request.http_method", FORMAT_TEXT},
	{"requestClientApplication", "http_request.user_agent", FORMAT_TEXT},
	{"in", "traffic.bytes_in", FORMAT_NUMBER},
	{"out", "traffic.bytes_out", FORMAT_NUMBER},
	{"cnt", "unmapped.eclusa.count", FORMAT_NUMBER},
	{"sproc", "process.name", FORMAT_TEXT},
	{"spid", "process.pid", FORMAT_NUMBER},
	{"suser", "actor.user.name", FORMAT_TEXT},
	{"suid", "actor.user.uid", FORMAT_TEXT},
	{"dvchost", "device.hostname", FORMAT_TEXT},
	{"cs1", "firewall_rule.uid", FORMAT_TEXT},
	{"cs1Label", "firewall_rule.uid=rule", FORMAT_WITH},
	{"cs2", "firewall_rule.desc", FORMAT_TEXT},
	{"cs2Label", "firewall_rule.desc=ruleSource", FORMAT_WITH},
	{"cs3", "policy.version", FORMAT_TEXT},
	{"cs3Label", "policy.version=policyHash", FORMAT_WITH},
	{"cs4", "container.uid", FORMAT_TEXT},
	{"cs4Label", "container.uid=sandbox", FORMAT_WITH},
	{"cs5", "metadata.correlation_uid", FORMAT_TEXT},
	{"cs5Label", "metadata.correlation_uid=requestId", FORMAT_WITH},
	{"cs6", "policy.name", FORMAT_TEXT},
	{"cs6Label", "policy.name=profile", FORMAT_WITH},
	{"cn1", "http_response.code", FORMAT_NUMBER},
	{"cn1Label", "http_response.code=httpStatus", FORMAT_WITH},
	{"cn2", "metadata.sequence", FORMAT_NUMBER},
	{"cn2Label", "metadata.sequence=sequence", FORMAT_WITH},
	{"cn3", "exit_code", FORMAT_NUMBER},
	{"cn3Label", "exit_code=exitCode", FORMAT_WITH},
};

void format_cef(const struct audit_line *line, struct buf *to)
{
	struct format_value value;
	bool first = true;
	(void)buf_append(to, SLICE("CEF:0|")); /* errors are sticky in the buf */
	for (size_t i = 0; i < array_size(header); i++) {
		if (format_value(line, &header[i], 0, &value))
			visible_append(to, value.text, &header_style);
		(void)buf_append(to, SLICE("|"));
	}
	for (size_t i = 0; i < array_size(fields); i++) {
		if (!format_value(line, &fields[i], 0, &value))
			continue;
		(void)buf_printf(to, "%s%s=", first ? "" : " ", fields[i].name);
		visible_append(to, value.text, &value_style);
		first = false;
	}
}
