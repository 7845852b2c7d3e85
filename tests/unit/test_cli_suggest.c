#include "tests/unit/cmocka_setup.h"

#include "audit/event.h"
#include "cli/suggest.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "policy/bundle.h"

#include <stdio.h>

#define WORD_TO_DO                                                                                 \
	"TO"                                                                                       \
	"DO"
#define PUBLIC                                                                                     \
	{                                                                                          \
		.family = 4, .bytes = { 5, 6, 7, 8 }                                               \
	}
#define PRIVATE                                                                                    \
	{                                                                                          \
		.family = 4, .bytes = { 10, 1, 2, 3 }                                              \
	}
#define METADATA                                                                                   \
	{                                                                                          \
		.family = 4, .bytes = { 169, 254, 169, 254 }                                       \
	}

/** A log, and what is suggested from it. */
struct rig {
	struct buf log;
	struct buf text;
	struct suggest s;
	size_t rules;
};

static struct audit_event observed(const char *host, const char *method, const char *path)
{
	return (struct audit_event){.class = AUDIT_HTTP,
		.activity = 3,
		.reason = REASON_OBSERVE_WOULD_DENY,
		.would = REASON_DENY_DEFAULT,
		.observe = true,
		.start_ms = 1795961863000,
		.sandbox_id = "sb-1",
		.profile = "p",
		.tls_mode = "inspect",
		.host = slice_of(host),
		.destination = PUBLIC,
		.destination_port = 443,
		.method = slice_of(method),
		.scheme = SLICE("https"),
		.path = slice_of(path),
		.status = 200};
}

static void put(struct rig *rig, struct audit_event e)
{
	size_t end;
	assert_int_equal(audit_event_write(&e, &rig->log, &end), 0);
	assert_int_equal(buf_append(&rig->log, SLICE("\n")), 0);
}

static int visit(void *suggest, const struct audit_line *line)
{
	struct recorded r;
	recorded_take(line, &r);
	return suggest_add(suggest, &r);
}

static struct policy *compile(struct slice text)
{
	static struct policy_report report;
	struct policy *policy = NULL;
	struct buf bundle;
	const struct bundle_text file = {BUNDLE_FILE, SLICE("suggested"), text};
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	assert_int_equal(bundle_open(&bundle), 0);
	assert_int_equal(bundle_append(&bundle, &file), 0);
	if (policy_compile(buf_slice(&bundle), &policy, &report) < 0)
		fail_msg("%u: %s in\n%.*s", report.items[0].line, report.items[0].text,
			(int)text.len, text.ptr);
	buf_fini(&bundle);
	return policy;
}

static void write_text(struct rig *rig, const struct policy *probe)
{
	const struct suggest_style style = {.probe = probe};
	buf_fini(&rig->text);
	assert_int_equal(suggest_text(&rig->s, &style, &rig->text, &rig->rules), 0);
}

/** Read the log, fold, write, and load what was written. */
static void suggest(struct rig *rig)
{
	auto_fd fd = file_memory("log", buf_slice(&rig->log));
	struct audit_read read = {.visit = visit, .arg = &rig->s};
	assert_int_equal(audit_read_fd(&read, fd), 0);
	assert_int_equal(suggest_fold(&rig->s), 0);
	write_text(rig, NULL);
	struct policy *policy = compile(buf_slice(&rig->text));
	write_text(rig, policy);
	policy_free(policy);
	policy_free(compile(buf_slice(&rig->text)));
	assert_int_equal(buf_append(&rig->text, (struct slice){"", 1}), 0);
}

static void rig_free(struct rig *rig)
{
	suggest_fini(&rig->s);
	buf_fini(&rig->log);
	buf_fini(&rig->text);
	*rig = (struct rig){.rules = 0};
}

static void has(const struct rig *rig, const char *line)
{
	if (strstr(buf_slice(&rig->text).ptr, line) == NULL)
		fail_msg("%s is not in\n%s", line, buf_slice(&rig->text).ptr);
}

static void has_not(const struct rig *rig, const char *text)
{
	if (strstr(buf_slice(&rig->text).ptr, text) != NULL)
		fail_msg("%s is in\n%s", text, buf_slice(&rig->text).ptr);
}

static void requests_become_one_rule_a_host(void **state)
{
	(void)state;
	struct rig rig = {.rules = 0};
	put(&rig, observed("a.test", "GET", "/one"));
	put(&rig, observed("a.test", "GET", "/one"));
	put(&rig, observed("a.test", "HEAD", "/one"));
	put(&rig, observed("a.test", "GET", "/two"));
	struct audit_event plain = observed("b.test", "GET", "/@s%2Fx");
	plain.scheme = SLICE("http");
	plain.destination_port = 8080;
	plain.has_query = plain.encoded_slash = true;
	put(&rig, plain);
	struct audit_event enforced = observed("c.test", "GET", "/");
	enforced.reason = REASON_ALLOW_RULE;
	enforced.would = REASON_ALLOW_RULE;
	put(&rig, enforced);
	enforced.reason = REASON_DENY_DEFAULT;
	put(&rig, enforced);
	suggest(&rig);
	assert_int_equal(rig.rules, 3);
	assert_int_equal(rig.s.events, 5);
	has(&rig, "\n[profile p]\n");
	has(&rig,
		"# 3 requests, first 2026-11-29T14:17:43Z\nallow a.test GET,HEAD /one query=deny ticket=" WORD_TO_DO
		"\n");
	has(&rig, "\nallow a.test GET /two query=deny ticket=" WORD_TO_DO "\n");
	has(&rig,
		"\nallow b.test:8080 GET /@s%2Fx scheme=http enc-slash=literal ticket=" WORD_TO_DO
		"\n");
	has(&rig, "\nexpect allow HEAD https://a.test/one\n");
	has(&rig, "\nexpect allow GET http://b.test:8080/@s%2Fx?q=1\n");
	has(&rig, "\nexpect deny GET https://a.test/not-suggested code=deny.path\n");
	has(&rig, "\nexpect deny GET http://b.test:8080/not-suggested code=deny.path\n");
	has_not(&rig, "c.test");
	rig_free(&rig);
}

static void what_is_dangerous_takes_a_flag(void **state)
{
	(void)state;
	for (int flags = 0; flags < 2; flags++) {
		struct rig rig = {.s.options = {.allow_write = flags, .allow_private = flags}};
		put(&rig, observed("w.test", "POST", "/write"));
		struct audit_event body = observed("w.test", "GET", "/body");
		body.request_body_bytes = 3000;
		put(&rig, body);
		struct audit_event inside = observed("i.test", "GET", "/inside");
		inside.destination = (struct address)PRIVATE;
		put(&rig, inside);
		struct audit_event cloud = observed("m.test", "GET", "/latest");
		cloud.destination = (struct address)METADATA;
		put(&rig, cloud);
		struct audit_event refused = observed("r.test", "GET", "/refused");
		refused.destination = (struct address)PRIVATE;
		refused.reason = REASON_DENY_ADDRESS_PRIVATE;
		put(&rig, refused);
		suggest(&rig);
		assert_int_equal(rig.rules, flags ? 3 : 0);
		if (flags) {
			has(&rig, "\nallow w.test POST /write query=deny ticket=");
			has(&rig, "\nallow w.test GET /body query=deny req-body=8k ticket=");
			has(&rig, "\nallow i.test GET /inside addr=10.1.2.3 query=deny ticket=");
		} else {
			has(&rig,
				"# 1 POST to w.test:443 (p): they write; taken in by --allow-write\n");
			has(&rig, "taken in by --allow-private\n");
		}
		has_not(&rig, "allow m.test");
		has_not(&rig, "allow r.test");
		has(&rig, "# 1 GET to m.test:443 (p): a cloud metadata address\n");
		rig_free(&rig);
	}
}

static void sizes_have_room(void **state)
{
	(void)state;
	struct rig rig = {.s.options = {.allow_write = true}};
	struct audit_event big = observed("a.test", "PUT", "/x");
	big.request_body_bytes = 700 << 10;
	big.bytes_out = (700 << 10) + 200;
	big.response_body_bytes = UINT64_C(3) << 30;
	put(&rig, big);
	struct audit_event many = observed("b.test", "GET", "/x");
	many.bytes_out = 300 << 10;
	for (int i = 0; i < 3; i++)
		put(&rig, many);
	many.host = SLICE("c.test"); /* as much, but of three sandboxes */
	for (int i = 0; i < 3; i++) {
		static const char *const ids[] = {"sb-1", "sb-2", "sb-3"};
		many.sandbox_id = ids[i];
		put(&rig, many);
	}
	suggest(&rig);
	has(&rig, "\nallow a.test PUT /x query=deny req-body=2m resp-body=8g ticket=");
	has(&rig, "\nallow b.test GET /x query=deny up=2m ticket=");
	has(&rig, "\nallow c.test GET /x query=deny ticket=");
	rig_free(&rig);
}

static void put_siblings(struct rig *rig, const char *parent, int count)
{
	for (int i = 0; i < count; i++) {
		char host[64];
		(void)snprintf(host, sizeof(host), "n%d.%s", i, parent);
		put(rig, observed(host, "GET", "/x"));
	}
}

static void siblings_fold_only_on_request_and_never_at_a_suffix(void **state)
{
	(void)state;
	for (int fold = 0; fold < 2; fold++) {
		struct rig rig = {.s.options = {.fold = fold}};
		put_siblings(&rig, "cdn.example", SUGGEST_HOSTS);
		put_siblings(&rig, "few.example", SUGGEST_HOSTS - 1);
		put_siblings(&rig, "co.uk", SUGGEST_HOSTS);
		put_siblings(&rig, "github.io", SUGGEST_HOSTS);
		put_siblings(&rig, "test", SUGGEST_HOSTS);
		suggest(&rig);
		assert_int_equal(rig.s.foldable, fold ? 0 : 1);
		if (fold)
			has(&rig,
				"\n# 5 requests, first 2026-11-29T14:17:43Z\nallow *.cdn.example GET /x query=deny ticket=");
		else
			has(&rig, "\nallow n0.cdn.example GET /x ");
		has(&rig, "\nallow n0.few.example GET /x ");
		has_not(&rig, "*.few.example");
		has_not(&rig, "*.co.uk");
		has_not(&rig, "*.github.io");
		has_not(&rig, "*.test");
		has(&rig, "\nallow n4.github.io GET /x ");
		rig_free(&rig);
	}
}

static void what_is_not_known_is_any_or_left_out(void **state)
{
	(void)state;
	struct rig rig = {.rules = 0};
	char longest[5000];
	memset(longest, 'x', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	for (size_t i = 0; i < 4000; i += 9)
		longest[i] = '/';
	put(&rig, observed("a.test", "GET", "/t/ghp_abcdefghij0123456789ABCDEFGHIJ/x"));
	put(&rig, observed("b.test", "GET", longest));
	put(&rig, observed("c.test", "OPTIONS", "*"));
	suggest(&rig);
	has(&rig, "\nallow a.test GET /t/*/x query=deny ");
	has_not(&rig, "ghp_");
	has(&rig, "\nexpect allow GET https://a.test/t/1/x\n");
	has_not(&rig, "allow b.test");
	has_not(&rig, "allow c.test");
	has(&rig, "# 1 GET to b.test:443 (p): no rule can have the path\n");
	has(&rig, "# 1 OPTIONS to c.test:443 (p): no rule can have the path\n");
	rig_free(&rig);
}

/** The words of the language are names that a peer can ask for, too, and so are those that people misread: one would spoil all rules. */
static void a_host_that_no_rule_names_is_left_out(void **state)
{
	(void)state;
	static const char *const names[] = {"any", "tcp", "ip", "xn--pypal-4ve.test"};
	struct rig rig = {.rules = 0};
	for (size_t i = 0; i < array_size(names); i++)
		put(&rig, observed(names[i], "GET", "/x"));
	put(&rig, observed("a.test", "GET", "/x"));
	suggest(&rig);
	assert_int_equal(rig.rules, 1);
	has(&rig, "# 1 GET to any:443 (p): no rule can name the host\n");
	has(&rig, "# 1 GET to xn--pypal-4ve.test:443 (p): no rule can name the host\n");
	has(&rig, "allow a.test ");
	rig_free(&rig);
}

static void tunnels_of_bytes_have_rules_of_their_own(void **state)
{
	(void)state;
	struct rig rig = {.rules = 0};
	struct audit_event e = observed("s.test", "CONNECT", "");
	e.scheme = (struct slice){0};
	put(&rig, e); /* its requests have events of their own */
	e.tls_mode = "splice";
	put(&rig, e);
	e.host = SLICE("t.test");
	e.class = AUDIT_NETWORK;
	e.activity = 2;
	e.method = (struct slice){0};
	e.tls_mode = NULL;
	e.destination_port = 22;
	put(&rig, e);
	suggest(&rig);
	assert_int_equal(rig.rules, 2);
	has(&rig, "\nallow s.test tls=splice ticket=");
	has(&rig, "\nallow tcp t.test:22 ticket=");
	rig_free(&rig);
}

/** One port has rules for requests or for bytes; a wildcard over both kinds of hosts is neither. */
static void requests_and_bytes_do_not_share_a_port(void **state)
{
	(void)state;
	struct rig rig = {.s.options = {.fold = true}};
	struct audit_event e = observed("s.test", "CONNECT", "");
	e.scheme = (struct slice){0};
	e.tls_mode = "splice";
	put(&rig, e);
	put(&rig, observed("s.test", "GET", "/x"));
	put_siblings(&rig, "cdn.example", SUGGEST_HOSTS);
	e.host = SLICE("raw.cdn.example");
	put(&rig, e);
	suggest(&rig);
	has(&rig, "\nallow s.test GET /x query=deny ticket=");
	has_not(&rig, "allow s.test tls=splice");
	has(&rig, "# 1 tunnels to s.test:443 (p): its requests are seen, too");
	has_not(&rig, "*.");
	has(&rig, "\nallow raw.cdn.example tls=splice ticket=");
	rig_free(&rig);
}

/** Lines that nobody's proxy wrote. Nothing of them may come into the text that is not a host, a method or a path. */
static void hostile_lines_make_no_policy(void **state)
{
	(void)state;
	static const char *const hosts[] = {"a.test\\nallow evil.test", "*.test", ".test",
		"a.test:1", "ip:1.2.3.4", "a.test ticket=x", "a.test\\u0000evil", "",
		"evil.test\\\\"};
	static const char *const methods[] = {"GET,POST", "ANY", "GET\\nallow evil.test", "get",
		"GET evil.test", "CONNECT\\u0000", "GET\\u0000"};
	static const char *const paths[] = {"/x\\nallow evil.test", "/x ticket=evil", "/..",
		"/%2e%2e/evil", "x", "/evil#", "/x\\u0000evil", "/evil\\\\", "/ev\\u00e9il",
		"/**\\n"};
	static const char *const profiles[] = {
		"p]\\nallow evil.test\\n[profile q", "p extends evil", "", "p\\u0000evil"};
	const struct {
		const char *const *values;
		size_t count;
		int at;
	} kinds[] = {{hosts, array_size(hosts), 0}, {methods, array_size(methods), 1},
		{paths, array_size(paths), 2}, {profiles, array_size(profiles), 3}};
	struct rig rig = {.s.options = {.allow_write = true, .allow_private = true, .fold = true}};
	unsigned lines = 0;
	for (size_t k = 0; k < array_size(kinds); k++) {
		for (size_t i = 0; i < kinds[k].count; i++) {
			const char *words[] = {"good.test", "GET", "/good", "p"};
			words[kinds[k].at] = kinds[k].values[i];
			assert_int_equal(
				buf_printf(&rig.log,
					"{\"class_uid\":4002,\"status_code\":\"observe.would-deny\",\"action_id\":1,"
					"\"metadata\":{\"uid\":\"01938f1e-7a53-7cc1-9b1e-%012x\"},"
					"\"policy\":{\"uid\":\"%s\"},\"dst_endpoint\":{\"hostname\":\"%s\",\"port\":443},"
					"\"http_request\":{\"http_method\":\"%s\",\"url\":{\"scheme\":\"https\",\"path\":\"%s\"}},"
					"\"unmapped\":{\"eclusa\":{\"mode\":\"observe\",\"would\":\"deny.default\",\"tls_mode\":\"inspect\"}}}\n",
					++lines, words[3], words[0], words[1], words[2]),
				0);
		}
	}
	suggest(&rig);
	has_not(&rig, "evil");
	has_not(&rig, "**");
	has_not(&rig, "good");
	assert_int_equal(rig.rules, 0);
	assert_int_equal(rig.s.kinds[RECORDED_INVALID], lines);
	rig_free(&rig);
}

static void a_profile_can_be_chosen(void **state)
{
	(void)state;
	for (int chosen = 0; chosen < 2; chosen++) {
		struct rig rig = {.s.options = {.profile = chosen ? "p" : NULL}};
		put(&rig, observed("a.test", "GET", "/x"));
		struct audit_event other = observed("b.test", "GET", "/x");
		other.profile = "other";
		put(&rig, other);
		suggest(&rig);
		has(&rig, "\n[profile p]\n");
		if (chosen)
			has_not(&rig, "other");
		else
			has(&rig, "\n[profile other]\n");
		rig_free(&rig);
	}
}

static void an_empty_log_is_an_empty_policy(void **state)
{
	(void)state;
	struct rig rig = {.rules = 0};
	suggest(&rig);
	assert_int_equal(rig.rules, 0);
	has(&rig, "policy 1\n");
	rig_free(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_become_one_rule_a_host),
		cmocka_unit_test(what_is_dangerous_takes_a_flag),
		cmocka_unit_test(sizes_have_room),
		cmocka_unit_test(siblings_fold_only_on_request_and_never_at_a_suffix),
		cmocka_unit_test(what_is_not_known_is_any_or_left_out),
		cmocka_unit_test(a_host_that_no_rule_names_is_left_out),
		cmocka_unit_test(tunnels_of_bytes_have_rules_of_their_own),
		cmocka_unit_test(requests_and_bytes_do_not_share_a_port),
		cmocka_unit_test(hostile_lines_make_no_policy),
		cmocka_unit_test(a_profile_can_be_chosen),
		cmocka_unit_test(an_empty_log_is_an_empty_policy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
