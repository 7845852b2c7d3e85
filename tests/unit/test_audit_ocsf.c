/*
 * Every kind of event, as it stands in a segment, against the part of the published schema in tests/cases/ocsf-1.8.0.json: no attribute that the
 * schema has not, each of its type, none missing that is required, each number one that it has; and against the fields that audit consumers were promised.
 */
#include "tests/unit/audit_setup.h"

#include <jansson.h>
#include <stdarg.h>

#define SCHEMA "tests/cases/ocsf-1.8.0.json"

static json_t *schema;

static const char *names(json_t *event)
{
	return json_string_value(json_object_get(event, "message"));
}

static void check_object(json_t *event, json_t *object, const char *type, const char *path);

static void check_value(json_t *event, json_t *value, const char *type, const char *path)
{
	bool fits = strcmp(type, "json") == 0;
	fits |= strcmp(type, "string") == 0 && json_is_string(value) &&
		json_string_length(value) > 0;
	fits |= strcmp(type, "integer") == 0 && json_is_integer(value);
	fits |= strcmp(type, "boolean") == 0 && json_is_boolean(value);
	fits |= strcmp(type, "timestamp") == 0 &&
		json_is_integer(value) && /* ms, and not s or ns */
		json_integer_value(value) > 1600000000000 &&
		json_integer_value(value) < 9999999999999;
	if (strncmp(type, "array:", 6) == 0 && json_is_array(value)) {
		size_t i;
		json_t *item;
		json_array_foreach(value, i, item) check_value(event, item, type + 6, path);
		fits = true;
	}
	if (strncmp(type, "object:", 7) == 0 && json_is_object(value)) {
		check_object(event, value, type + 7, path);
		fits = true;
	}
	if (!fits)
		fail_msg("%s: %s is no %s", names(event), path, type);
}

static void check_attributes(json_t *event, json_t *object, json_t *table, const char *path)
{
	json_t *attributes = json_object_get(table, "attributes"), *value, *name;
	const char *key;
	size_t i;
	json_object_foreach(object, key, value)
	{
		char inner[256];
		const char *type = json_string_value(json_object_get(attributes, key));
		(void)snprintf(inner, sizeof(inner), "%s.%s", path, key);
		if (type == NULL)
			fail_msg("%s: %s is not in the schema", names(event), inner);
		else
			check_value(event, value, type, inner);
	}
	json_array_foreach(json_object_get(table, "required"), i, name)
	{
		if (json_object_get(object, json_string_value(name)) == NULL)
			fail_msg("%s: %s.%s is required", names(event), path,
				json_string_value(name));
	}
}

static void check_any_of(json_t *event, json_t *object, json_t *of, const char *path)
{
	size_t i;
	json_t *name;
	bool has = json_array_size(of) == 0;
	json_array_foreach(of, i, name) has |=
		json_object_get(object, json_string_value(name)) != NULL;
	if (!has)
		fail_msg("%s: %s has none of what it needs one of", names(event), path);
}

/** Numbers that stand for something are among those which the schema has, and the text beside them is its caption; that of 99 is free. */
static void check_enums(json_t *event, json_t *object, json_t *table, const char *path)
{
	const char *key;
	json_t *one;
	json_object_foreach(json_object_get(table, "enums"), key, one)
	{
		json_t *number = json_object_get(object, key), *caption;
		const char *sibling = json_string_value(json_object_get(one, "sibling"));
		json_t *text = json_object_get(object, sibling);
		char digits[24];
		if (number == NULL)
			continue;
		(void)snprintf(
			digits, sizeof(digits), "%lld", (long long)json_integer_value(number));
		caption = json_object_get(json_object_get(one, "values"), digits);
		if (caption == NULL)
			fail_msg("%s: %s.%s can't be %s", names(event), path, key, digits);
		if (text != NULL && json_is_string(caption) && !json_equal(text, caption))
			fail_msg("%s: %s.%s is %s, and %s.%s is %s", names(event), path, key,
				digits, path, sibling, json_string_value(text));
	}
}

static void check_object(json_t *event, json_t *object, const char *type, const char *path)
{
	json_t *table = json_object_get(json_object_get(schema, "objects"), type);
	if (table == NULL)
		fail_msg("%s: the table has no object %s", path, type);
	check_attributes(event, object, table, path);
	check_enums(event, object, table, path);
	check_enums(event, object, schema, path);
	check_any_of(event, object, json_object_get(table, "at_least_one"), path);
}

static json_int_t number_of(json_t *event, const char *key)
{
	return json_integer_value(json_object_get(event, key));
}

static void check_schema(json_t *event)
{
	char uid[16];
	(void)snprintf(uid, sizeof(uid), "%lld", (long long)number_of(event, "class_uid"));
	json_t *table = json_object_get(json_object_get(schema, "classes"), uid), *one;
	assert_non_null(table);
	size_t i;
	bool known = false;
	json_array_foreach(json_object_get(table, "activities"), i, one) known |=
		json_integer_value(one) == number_of(event, "activity_id");
	assert_true(known);
	assert_int_equal(number_of(event, "category_uid"), number_of(table, "category_uid"));
	assert_int_equal(number_of(event, "type_uid"),
		number_of(event, "class_uid") * 100 + number_of(event, "activity_id"));
	assert_string_equal(json_string_value(json_object_get(event, "class_name")),
		json_string_value(json_object_get(table, "name")));
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(event, "metadata"), "version")),
		json_string_value(json_object_get(schema, "version")));
	check_attributes(event, event, table, "event");
	check_enums(event, event, schema, "event");
	json_array_foreach(json_object_get(table, "at_least_one"), i, one)
		check_any_of(event, event, one, "event");
}

/** The value at "a.b.c", or NULL. */
static json_t *at(json_t *event, const char *path)
{
	char part[64];
	json_t *value = event;
	while (value != NULL && *path != '\0') {
		size_t len = strcspn(path, ".");
		assert_int_equal(slice_copy((struct slice){path, len}, part, sizeof(part)), 0);
		value = json_object_get(value, part);
		path += len + (path[len] == '.');
	}
	return value;
}

static void check_has(json_t *event, const char *const *paths, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (at(event, paths[i]) == NULL)
			fail_msg("%s: %s is missing", names(event), paths[i]);
	}
}

/** What every event has, and what every decision has. */
static void check_promised(json_t *event, bool full)
{
	static const char *const every[] = {"class_uid", "class_name", "category_uid",
		"activity_id", "type_uid", "time", "start_time", "severity_id", "status_id",
		"status_code", "status_detail", "message", "metadata.uid",
		"metadata.correlation_uid", "metadata.sequence", "metadata.event_code",
		"metadata.log_name", "metadata.logged_time", "metadata.labels",
		"metadata.product.name", "metadata.product.vendor_name", "metadata.product.version",
		"metadata.profiles", "device.hostname", "device.type_id", "unmapped.eclusa.mode",
		"unmapped.eclusa.boot_id", "unmapped.eclusa.mono_ns", "unmapped.eclusa.chain",
		"unmapped.eclusa.prev", "unmapped.eclusa.hash"};
	static const char *const decision[] = {"action_id", "disposition_id", "firewall_rule.uid",
		"firewall_rule.name", "firewall_rule.type", "firewall_rule.version", "policy.uid",
		"policy.name", "policy.version", "policy.is_applied", "src_endpoint.uid",
		"src_endpoint.name", "proxy_endpoint.name", "connection_info.direction_id",
		"traffic.bytes", "traffic.bytes_in", "traffic.bytes_out",
		"unmapped.eclusa.intercept"};
	static const char *const request[] = {"end_time", "duration", "firewall_rule.desc",
		"firewall_rule.condition", "src_endpoint.ip", "src_endpoint.port",
		"dst_endpoint.hostname", "dst_endpoint.ip", "dst_endpoint.port",
		"proxy_endpoint.ip", "proxy_endpoint.port", "connection_info.protocol_num",
		"connection_info.protocol_name", "connection_info.uid", "container.uid",
		"tls.version", "tls.sni", "tls.cipher", "tls.certificate.subject",
		"tls.certificate.issuer", "unmapped.eclusa.tls_mode"};
	check_has(event, every, array_size(every));
	if (json_object_get(event, "action_id") == NULL)
		return;
	check_has(event, decision, array_size(decision));
	if (full)
		check_has(event, request, array_size(request));
}

static const char *const words[] = {"fetch", "--token", "x", NULL};
static const struct checkpoint signed_one = {.chain = "run",
	.first = 1,
	.last = 2,
	.head = "00",
	.time_ms = 1700000000000,
	.policy = "sha256:00",
	.key = "0123456789abcdef"};

static const struct audit_dns answered = {.name = SLICE("data.example.com"),
	.type = "A",
	.class = "IN",
	.answer = {.family = 4, .bytes = {198, 18, 0, 1}},
	.ttl_s = 30,
	.udp = true};
static const struct audit_dns refused = {.rcode = 1};

/** Everything that can be known of an event of a class. */
static struct audit_event whole_event(enum audit_class class, unsigned activity, enum reason reason)
{
	static const struct audit_file file = {"results.csv", 12, "00ff"};
	static const struct chain index = {.head = "00", .sequence = 3};
	struct address a = {.family = 4, .bytes = {203, 0, 113, 7}};
	return (struct audit_event){.class = class,
		.activity = activity,
		.reason = reason,
		.correlation = "req-1",
		.detail = "why",
		.start_ms = 1700000000000,
		.end_ms = 1700000000072,
		.sandbox_id = "sb-1",
		.sandbox_name = "ci-431",
		.profile = "research",
		.policy_version = "sha256:00",
		.rule_id = "r1",
		.rule_place = "a.allow:3",
		.rule_text = "GET /**",
		.rule_owner = "team",
		.rule_ticket = "SEC-1",
		.rule_allows = true,
		.door = "explicit",
		.tls_mode = "inspect",
		.connection = "c-1",
		.source = a,
		.destination = a,
		.source_port = 40000,
		.destination_port = 443,
		.host = SLICE("data.example.com"),
		.connect_host = SLICE("data.example.com"),
		.sni = SLICE("data.example.com"),
		.host_header = SLICE("other.example.com"),
		.method = SLICE("GET"),
		.scheme = SLICE("https"),
		.path = SLICE("/v1"),
		.has_query = true,
		.query_bytes = 7,
		.user_agent = SLICE("agent/1"),
		.content_type = SLICE("text/plain"),
		.status = 200,
		.bytes_in = 5,
		.bytes_out = 6,
		.dns = class == AUDIT_DNS ? &answered : NULL,
		.tls_version = "TLSv1.3",
		.tls_cipher = "TLS_AES_256_GCM_SHA384",
		.tls_certificate_subject = "CN=data.example.com",
		.tls_certificate_issuer = "CN=roots",
		.tls_certificate_serial = "01",
		.policy_before = "sha256:01",
		.policy_origin = "last-good",
		.policy_signer = "0123456789abcdef",
		.policy_stale = true,
		.suggestion = "data.example.com /v1",
		.count = 3,
		.subject = "packets",
		.argv = (char *const *)(uintptr_t)words,
		.pid = 42,
		.verdict = "ok",
		.wall_ms = 1,
		.cpu_ms = 1,
		.memory_peak_bytes = 1,
		.has_user = true,
		.user_name = "agent",
		.files = &file,
		.file_count = 1,
		.proxy = a,
		.proxy_port = 3128,
		.index = &index,
		.checkpoint = reason == REASON_AUDIT_CHECKPOINT ? &signed_one : NULL};
}

/** The least that a writer knows. */
static struct audit_event bare_event(enum audit_class class, unsigned activity, enum reason reason)
{
	return (struct audit_event){.class = class,
		.activity = activity,
		.reason = reason,
		.start_ms = 1700000000000,
		.sandbox_id = "sb-1",
		.profile = "research",
		.policy_version = "sha256:00",
		.door = "packet",
		.verdict = "ok",
		.dns = class == AUDIT_DNS ? &refused : NULL,
		.host = class == AUDIT_HTTP ? SLICE("a.test") : (struct slice){0}};
}

static const struct {
	enum audit_class class;
	unsigned activity;
	enum reason first, last;
} kinds[] = {
	{AUDIT_HTTP, 1, REASON_ALLOW_RULE, REASON_ERROR_INTERNAL},
	{AUDIT_HTTP, 3, REASON_ALLOW_RULE, REASON_ERROR_INTERNAL},
	{AUDIT_HTTP, 99, REASON_ALLOW_RULE, REASON_ERROR_INTERNAL},
	{AUDIT_NETWORK, 1, REASON_ALLOW_RULE, REASON_ERROR_INTERNAL},
	{AUDIT_NETWORK, 2, REASON_ALLOW_RULE, REASON_ERROR_INTERNAL},
	{AUDIT_NETWORK, 5, REASON_DENY_DEFAULT, REASON_DENY_PACKET},
	{AUDIT_DNS, 2, REASON_ALLOW_RULE, REASON_ERROR_INTERNAL},
	{AUDIT_PROCESS, 1, REASON_SANDBOX_START, REASON_SANDBOX_START},
	{AUDIT_PROCESS, 2, REASON_SANDBOX_EXIT, REASON_SANDBOX_EXIT},
	{AUDIT_PROCESS, 99, REASON_SANDBOX_VIOLATION, REASON_SANDBOX_VIOLATION},
	{AUDIT_ENTITY, 3, REASON_POLICY_LOADED, REASON_POLICY_REJECTED},
	{AUDIT_LIFECYCLE, 99, REASON_AUDIT_LOST, REASON_AUDIT_CLOCK},
	{AUDIT_LIFECYCLE, 99, REASON_DENY_AUDIT_FULL, REASON_DENY_AUDIT_FULL},
};

/** The last line of the segment, as a reader gets it. */
static void check_last(struct audit_rig *rig, bool full)
{
	struct buf all = read_file(rig->folder_fd, rig->name);
	struct slice rest = slice_of(all.data), line = {0}, last = {0};
	while (slice_split(rest, '\n', &line, &rest))
		last = line;
	json_t *event = json_loadb(last.ptr, last.len, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(event);
	check_schema(event);
	check_promised(event, full);
	json_decref(event);
	buf_fini(&all);
	assert_int_equal(ftruncate(rig->segment_fd, 0), 0);
}

static void every_kind_of_event_fits_the_schema(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(kinds); i++) {
		for (unsigned reason = kinds[i].first; reason <= kinds[i].last; reason++) {
			struct audit_rig rig;
			rig_open(&rig);
			struct audit_event e =
				whole_event(kinds[i].class, kinds[i].activity, (enum reason)reason);
			assert_int_equal(audit_segment_append_event(rig.segment, &e), 0);
			check_last(&rig, e.class == AUDIT_HTTP);
			e = bare_event(kinds[i].class, kinds[i].activity, (enum reason)reason);
			assert_int_equal(audit_segment_append_event(rig.segment, &e), 0);
			check_last(&rig, false);
			rig_close(&rig);
		}
	}
}

static void what_the_schema_has_not_is_noticed(void **state)
{
	(void)state;
	json_t *objects = json_object_get(schema, "objects");
	assert_null(json_object_get(at(objects, "metadata.attributes"), "ticket"));
	assert_non_null(json_object_get(at(objects, "metadata.attributes"), "uid"));
	assert_int_equal(json_object_size(json_object_get(schema, "classes")), 6);
}

static int load_schema(void **state)
{
	(void)state;
	json_error_t error;
	schema = json_load_file(SCHEMA, JSON_REJECT_DUPLICATES, &error);
	if (schema == NULL)
		print_error("%s: %s (tests run in the repository's folder)\n", SCHEMA, error.text);
	return schema == NULL ? -1 : 0;
}

static int drop_schema(void **state)
{
	(void)state;
	json_decref(schema);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_event_fits_the_schema),
		cmocka_unit_test(what_the_schema_has_not_is_noticed),
	};
	return cmocka_run_group_tests(tests, load_schema, drop_schema);
}
