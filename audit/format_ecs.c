/*
 * Elastic Common Schema 9: a JSON object. Rows are in the order of the output, those of one object together. What ECS has no name for
 * stands below "eclusa". Names are fixed, so that no peer adds fields to an index.
 */
#include "audit/format_field.h"

#include "common/cleanup.h"
#include "common/json.h"

static const struct format_field fields[] = {
	{"@timestamp", "time", FORMAT_TIME},
	{"ecs.version", "9.0.0", FORMAT_FIXED},
	{"message", "message", FORMAT_TEXT},
	{"tags", "metadata.labels.*", FORMAT_LIST},
	{"labels.owner", "owner", FORMAT_LABEL},
	{"labels.profile", "profile", FORMAT_LABEL},
	{"labels.ticket", "ticket", FORMAT_LABEL},

	{"event.kind", "severity_id", FORMAT_ECS_KIND},
	{"event.category", "", FORMAT_ECS_CATEGORY},
	{"event.type", "", FORMAT_ECS_TYPE},
	{"event.action", "status_code", FORMAT_TEXT},
	{"event.code", "metadata.event_code", FORMAT_TEXT},
	{"event.outcome", "status", FORMAT_LOWER},
	{"event.reason", "status_detail", FORMAT_TEXT},
	{"event.severity", "severity_id", FORMAT_NUMBER},
	{"event.id", "metadata.uid", FORMAT_TEXT},
	{"event.sequence", "metadata.sequence", FORMAT_NUMBER},
	{"event.created", "metadata.logged_time", FORMAT_TIME},
	{"event.start", "start_time", FORMAT_TIME},
	{"event.end", "end_time", FORMAT_TIME},
	{"event.duration", "duration", FORMAT_NANOSECONDS},
	{"event.module", "eclusa", FORMAT_FIXED},
	{"event.dataset", "eclusa.audit", FORMAT_FIXED},
	{"event.provider", "metadata.log_name", FORMAT_TEXT},
	{"trace.id", "metadata.correlation_uid", FORMAT_TEXT},

	{"rule.id", "firewall_rule.uid", FORMAT_TEXT},
	{"rule.name", "firewall_rule.name", FORMAT_TEXT},
	{"rule.category", "firewall_rule.type", FORMAT_TEXT},
	{"rule.ruleset", "policy.name", FORMAT_TEXT},
	{"rule.version", "firewall_rule.version", FORMAT_TEXT},
	{"rule.description", "firewall_rule.desc", FORMAT_TEXT},

	{"source.ip", "src_endpoint.ip", FORMAT_IP},
	{"source.port", "src_endpoint.port", FORMAT_NUMBER},
	{"source.bytes", "traffic.bytes_out", FORMAT_NUMBER},
	{"destination.domain", "dst_endpoint.hostname", FORMAT_TEXT},
	{"destination.ip", "dst_endpoint.ip", FORMAT_IP},
	{"destination.port", "dst_endpoint.port", FORMAT_NUMBER},
	{"destination.bytes", "traffic.bytes_in", FORMAT_NUMBER},
	{"network.bytes", "traffic.bytes", FORMAT_NUMBER},
	{"network.direction", "connection_info.direction", FORMAT_LOWER},
	{"network.transport", "connection_info.protocol_name", FORMAT_LOWER},

	{"url.full", "http_request.url.url_string", FORMAT_TEXT},
	{"url.scheme", "http_request.url.scheme", FORMAT_TEXT},
	{"url.domain", "http_request.url.hostname", FORMAT_TEXT},
	{"url.port", "http_request.url.port", FORMAT_NUMBER},
	{"url.path", "http_request.url.path", FORMAT_TEXT},
	{"http.request.id", "http_request.uid", FORMAT_TEXT},
	{"http.request.method", "http_request.http_method", FORMAT_TEXT},
	{"http.request.body.bytes", "http_request.body_length", FORMAT_NUMBER},
	{"http.response.status_code", "http_response.code", FORMAT_NUMBER},
	{"http.response.mime_type", "http_response.content_type", FORMAT_TEXT},
	{"http.response.body.bytes", "http_response.body_length", FORMAT_NUMBER},
	{"user_agent.original", "http_request.user_agent", FORMAT_TEXT},

	{"tls.version_protocol", "tls.version", FORMAT_TLS_PROTOCOL},
	{"tls.version", "tls.version", FORMAT_TLS_VERSION},
	{"tls.cipher", "tls.cipher", FORMAT_TEXT},
	{"tls.client.server_name", "tls.sni", FORMAT_TEXT},
	{"tls.server.subject", "tls.certificate.subject", FORMAT_TEXT},
	{"tls.server.issuer", "tls.certificate.issuer", FORMAT_TEXT},
	{"dns.question.name", "query.hostname", FORMAT_TEXT},
	{"dns.question.type", "query.type", FORMAT_TEXT},
	{"dns.response_code", "rcode", FORMAT_TEXT},
	{"dns.answers.data", "answers.*.rdata", FORMAT_LIST},

	{"container.id", "container.uid", FORMAT_TEXT},
	{"container.name", "container.name", FORMAT_TEXT},
	{"process.pid", "process.pid", FORMAT_NUMBER},
	{"process.name", "process.name", FORMAT_TEXT},
	{"process.command_line", "process.cmd_line", FORMAT_TEXT},
	{"process.exit_code", "exit_code", FORMAT_NUMBER},
	{"user.id", "actor.user.uid", FORMAT_TEXT},
	{"user.name", "actor.user.name", FORMAT_TEXT},
	{"host.name", "device.hostname", FORMAT_TEXT},
	{"host.id", "device.uid", FORMAT_TEXT},
	{"host.boot.id", "unmapped.eclusa.boot_id", FORMAT_TEXT},
	{"observer.type", "proxy", FORMAT_FIXED},
	{"observer.ip", "proxy_endpoint.ip", FORMAT_IP},
	{"observer.vendor", "metadata.product.vendor_name", FORMAT_TEXT},
	{"observer.product", "metadata.product.name", FORMAT_TEXT},
	{"observer.version", "metadata.product.version", FORMAT_TEXT},

	{"eclusa.mode", "unmapped.eclusa.mode", FORMAT_TEXT},
	{"eclusa.would", "unmapped.eclusa.would", FORMAT_TEXT},
	{"eclusa.intercept", "unmapped.eclusa.intercept", FORMAT_TEXT},
	{"eclusa.tls_mode", "unmapped.eclusa.tls_mode", FORMAT_TEXT},
	{"eclusa.disposition", "disposition", FORMAT_TEXT},
	{"eclusa.host_sources.connect", "unmapped.eclusa.host_sources.connect", FORMAT_TEXT},
	{"eclusa.host_sources.sni", "unmapped.eclusa.host_sources.sni", FORMAT_TEXT},
	{"eclusa.host_sources.host_header", "unmapped.eclusa.host_sources.host_header",
		FORMAT_TEXT},
	{"eclusa.allow", "unmapped.eclusa.allow", FORMAT_TEXT},
	{"eclusa.count", "unmapped.eclusa.count", FORMAT_NUMBER},
	{"eclusa.address_class", "unmapped.eclusa.address_class", FORMAT_TEXT},
	{"eclusa.verdict", "unmapped.eclusa.verdict", FORMAT_TEXT},
	{"eclusa.wall_ms", "unmapped.eclusa.wall_ms", FORMAT_NUMBER},
	{"eclusa.cpu_ms", "unmapped.eclusa.cpu_ms", FORMAT_NUMBER},
	{"eclusa.memory_peak_bytes", "unmapped.eclusa.memory_peak_bytes", FORMAT_NUMBER},
	{"eclusa.policy.uid", "entity.uid", FORMAT_TEXT},
	{"eclusa.policy.result", "entity_result.uid", FORMAT_TEXT},
	{"eclusa.policy.stale", "unmapped.eclusa.policy_stale", FORMAT_TRUE},
	{"eclusa.recovered", "unmapped.eclusa.recovered", FORMAT_TRUE},
	{"eclusa.mono_ns", "unmapped.eclusa.mono_ns", FORMAT_NUMBER},
	{"eclusa.checkpoint.of", "unmapped.eclusa.checkpoint.of", FORMAT_TEXT},
	{"eclusa.checkpoint.first", "unmapped.eclusa.checkpoint.first", FORMAT_NUMBER},
	{"eclusa.checkpoint.last", "unmapped.eclusa.checkpoint.last", FORMAT_NUMBER},
	{"eclusa.checkpoint.head", "unmapped.eclusa.checkpoint.head", FORMAT_TEXT},
	{"eclusa.checkpoint.time", "unmapped.eclusa.checkpoint.time", FORMAT_NUMBER},
	{"eclusa.checkpoint.policy", "unmapped.eclusa.checkpoint.policy", FORMAT_TEXT},
	{"eclusa.checkpoint.clock", "unmapped.eclusa.checkpoint.clock", FORMAT_TEXT},
	{"eclusa.checkpoint.clock_error_us", "unmapped.eclusa.checkpoint.clock_error_us",
		FORMAT_NUMBER},
	{"eclusa.checkpoint.key", "unmapped.eclusa.checkpoint.key", FORMAT_TEXT},
	{"eclusa.checkpoint.signature", "unmapped.eclusa.checkpoint.signature", FORMAT_TEXT},
	{"eclusa.chain", "unmapped.eclusa.chain", FORMAT_TEXT},
	{"eclusa.prev", "unmapped.eclusa.prev", FORMAT_TEXT},
	{"eclusa.hash", "unmapped.eclusa.hash", FORMAT_TEXT},
};

/** Categories and type of a class; activity 0: of all its other activities. */
static const struct {
	uint64_t class_uid, activity_id;
	const char *categories[2];
	const char *type;
} kinds[] = {
	{4002, 0, {"network", "web"}, "access"},
	{4001, 0, {"network"}, "connection"},
	{4003, 0, {"network"}, "protocol"},
	{1007, 1, {"process"}, "start"},
	{1007, 2, {"process"}, "end"},
	{1007, 0, {"process"}, "info"},
	{3004, 3, {"configuration"}, "change"},
	{3004, 0, {"configuration"}, "info"},
	{6002, 3, {"process"}, "start"},
	{6002, 4, {"process"}, "end"},
	{0, 0, {"host"}, "info"},
};

static size_t kind_of(const struct audit_line *line)
{
	uint64_t class_uid = audit_line_number_at(line, "class_uid");
	uint64_t activity_id = audit_line_number_at(line, "activity_id");
	size_t i = 0;
	while (i < array_size(kinds) - 1 &&
		(kinds[i].class_uid != class_uid ||
			(kinds[i].activity_id != 0 && kinds[i].activity_id != activity_id)))
		i++;
	return i;
}

const char *format_ecs_category(const struct audit_line *line, size_t index)
{
	return index < array_size(kinds[0].categories) ? kinds[kind_of(line)].categories[index]
						       : NULL;
}

const char *format_ecs_type(const struct audit_line *line, size_t index)
{
	uint64_t action = audit_line_number_at(line, "action_id");
	bool failed = audit_line_number_at(line, "disposition_id") == 27;
	if (index == 0)
		return kinds[kind_of(line)].type;
	if (index == 1 && (action == 1 || action == 2))
		return action == 1 ? "allowed" : "denied";
	return index == 2 && failed ? "error" : NULL;
}

/** The objects that a name is in: all before its last dot, dot included. */
static struct slice parents(const char *name)
{
	struct slice all = slice_of(name);
	while (all.len > 0 && all.ptr[all.len - 1] != '.')
		all.len--;
	return all;
}

/** Close the objects that the next name is not in, open those that it is in. */
static void go_to(struct json *j, struct slice *in, struct slice next)
{
	size_t same = 0;
	for (size_t i = 0; i < in->len && i < next.len && in->ptr[i] == next.ptr[i]; i++) {
		if (next.ptr[i] == '.')
			same = i + 1;
	}
	for (size_t i = same; i < in->len; i++) {
		if (in->ptr[i] == '.')
			json_object_end(j);
	}
	for (struct slice key, rest = slice_part(next, same, next.len);
		slice_split(rest, '.', &key, &rest);) {
		char name[32];
		if (slice_copy(key, name, sizeof(name)) == 0) /* they are short */
			json_object(j, name);
	}
	*in = next;
}

static void write_value(struct json *j, const char *key, const struct format_value *value)
{
	if (value->is_number)
		json_uint(j, key, value->number);
	else if (value->is_true)
		json_bool(j, key, true);
	else
		json_slice(j, key, value->text);
}

static void write_list(struct json *j, const char *key, const struct audit_line *line,
	const struct format_field *field)
{
	struct format_value value;
	json_array(j, key);
	for (size_t i = 0; format_value(line, field, i, &value); i++)
		write_value(j, NULL, &value);
	json_array_end(j);
}

void format_ecs(const struct audit_line *line, struct buf *to)
{
	struct json j;
	struct slice in = SLICE("");
	json_open(&j, to);
	json_object(&j, NULL);
	for (size_t i = 0; i < array_size(fields); i++) {
		struct format_value value;
		struct slice above = parents(fields[i].name);
		const char *key = fields[i].name + above.len;
		if (!format_value(line, &fields[i], 0, &value))
			continue;
		go_to(&j, &in, above);
		if (format_is_list(&fields[i]))
			write_list(&j, key, line, &fields[i]);
		else
			write_value(&j, key, &value);
	}
	go_to(&j, &in, SLICE(""));
	json_object_end(&j);
}
