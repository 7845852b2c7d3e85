#include "tests/unit/audit_setup.h"

#include "audit/summary.h"

/** Append an event; its host names it. */
static void put(struct audit_rig *rig, struct audit_event e)
{
	assert_int_equal(audit_segment_append_event(rig->segment, &e), 0);
}

static struct audit_event request(enum reason reason, const char *host, const char *path)
{
	return (struct audit_event){.class = AUDIT_HTTP,
		.activity = 3,
		.reason = reason,
		.sandbox_id = "sb-1",
		.host = slice_of(host),
		.destination_port = 443,
		.method = SLICE("GET"),
		.scheme = SLICE("https"),
		.path = slice_of(path),
		.bytes_in = 100,
		.bytes_out = 10};
}

static struct audit_summary sum(struct audit_rig *rig, const char *sandbox_id)
{
	struct audit_summary s = {0};
	assert_int_equal(audit_summary_read(rig->segment_fd, sandbox_id, &s), 0);
	return s;
}

static void decisions_and_bytes_are_counted(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	put(&rig, request(REASON_ALLOW_RULE, "a.test", "/"));
	put(&rig, request(REASON_ALLOW_RULE, "a.test", "/"));
	put(&rig, request(REASON_ERROR_UPSTREAM, "a.test", "/"));
	put(&rig, request(REASON_DENY_DEFAULT, "b.test", "/"));
	put(&rig,
		(struct audit_event){.class = AUDIT_PROCESS,
			.activity = 1,
			.reason = REASON_SANDBOX_START,
			.sandbox_id = "sb-1"});
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.allowed, 3);
	assert_int_equal(s.failed, 1);
	assert_int_equal(s.denied, 1);
	assert_int_equal(s.bytes_in, 400);
	assert_int_equal(s.bytes_out, 40);
	assert_int_equal(s.denial_count, 1);
	audit_summary_fini(&s);
	s = sum(&rig, "sb-2");
	assert_int_equal(s.allowed + s.denied, 0);
	audit_summary_fini(&s);
	s = sum(&rig, NULL);
	assert_int_equal(s.allowed, 3);
	audit_summary_fini(&s);
	rig_close(&rig);
}

/** An address from the proxy's DNS let nothing pass yet; a name that it refuses is an attempt. */
static void refused_names_are_counted_and_answered_ones_are_not(void **state)
{
	(void)state;
	struct audit_rig rig;
	const struct audit_dns dns = {.name = SLICE("b.test"), .type = "A", .rcode = 3};
	struct audit_event e = {.class = AUDIT_DNS,
		.activity = 2,
		.reason = REASON_DENY_DEFAULT,
		.sandbox_id = "sb-1",
		.host = SLICE("b.test"),
		.dns = &dns,
		.suggestion = "b.test",
		.count = 2};
	rig_open(&rig);
	put(&rig, e);
	e.reason = REASON_ALLOW_RULE;
	put(&rig, e);
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.allowed, 0);
	assert_int_equal(s.denied, 2);
	assert_int_equal(s.denial_count, 1);
	assert_string_equal(s.denials[0].host, "b.test");
	assert_string_equal(s.denials[0].suggestion, "b.test");
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void a_failure_has_what_explains_it(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	struct audit_event e = request(REASON_ERROR_UPSTREAM, "a.test", "/");
	e.detail = "the name has no address";
	put(&rig, e);
	put(&rig, e);
	put(&rig, request(REASON_ALLOW_RULE, "b.test", "/"));
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.failure_count, 1);
	assert_int_equal(s.denial_count, 0);
	assert_string_equal(s.failures[0].reason, "error.upstream");
	assert_string_equal(s.failures[0].detail, "the name has no address");
	assert_string_equal(s.failures[0].host, "a.test");
	assert_int_equal(s.failures[0].count, 2);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void a_denial_has_what_explains_it(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	struct audit_event e = request(REASON_DENY_PATH, "b.test", "/x");
	e.rule_id = "r1";
	e.rule_place = "b.allow:3";
	e.detail = "path outside rule";
	e.suggestion = "b.test GET /x";
	put(&rig, e);
	put(&rig, e);
	put(&rig,
		(struct audit_event){.class = AUDIT_NETWORK,
			.activity = 5,
			.reason = REASON_DENY_PACKET,
			.sandbox_id = "sb-1",
			.address_class = "udp",
			.count = 5});
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.denied, 7);
	assert_int_equal(s.denial_count, 2);
	const struct audit_denial *d = &s.denials[0];
	assert_string_equal(d->reason, "deny.path");
	assert_string_equal(d->detail, "path outside rule");
	assert_string_equal(d->method, "GET");
	assert_string_equal(d->host, "b.test");
	assert_int_equal(d->port, 443);
	assert_string_equal(d->path, "/x");
	assert_string_equal(d->url, "https://b.test/x");
	assert_string_equal(d->rule, "r1");
	assert_string_equal(d->rule_place, "b.allow:3");
	assert_string_equal(d->suggestion, "b.test GET /x");
	assert_int_equal(d->count, 2);
	assert_string_equal(s.denials[1].address_class, "udp");
	assert_null(s.denials[1].host);
	assert_int_equal(s.denials[1].count, 5);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void an_event_that_stands_there_twice_counts_once(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	struct audit_event e = request(REASON_ALLOW_RULE, "a.test", "/");
	e.uid = "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11";
	put(&rig, e);
	e.recovered = true;
	put(&rig, e);
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.allowed, 1);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void distinct_denials_have_a_limit(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	for (int i = 0; i < AUDIT_SUMMARY_DENIALS_MAX + 5; i++) {
		char host[32];
		(void)snprintf(host, sizeof(host), "h%d.test", i);
		put(&rig, request(REASON_DENY_DEFAULT, host, "/"));
	}
	put(&rig, request(REASON_DENY_DEFAULT, "h0.test", "/"));
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.denial_count, AUDIT_SUMMARY_DENIALS_MAX);
	assert_int_equal(s.denials_left_out, 5);
	assert_int_equal(s.denied, AUDIT_SUMMARY_DENIALS_MAX + 6);
	assert_int_equal(s.denials[0].count, 2);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void a_nul_in_peer_text_does_not_hide_an_event(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	struct audit_event e = request(REASON_DENY_DEFAULT, "b.test", "/");
	e.user_agent = SLICE("x\0y");
	put(&rig, e);
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.denied, 1);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void many_lines_cross_block_borders(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	for (int i = 0; i < 2000; i++)
		put(&rig, request(REASON_ALLOW_RULE, "a.test", "/"));
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.allowed, 2000);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void hostile_text_is_skipped(void **state)
{
	(void)state;
	static const char *const lines[] = {"", "{", "[]", "null", "{\"class_uid\":4002}",
		"{\"class_uid\":\"4002\",\"metadata\":[]}", "\xff\xfe", "{\"class_uid\":4002,",
		"{\"class_uid\":4002,\"src_endpoint\":{\"uid\":\"sb-1\"},\"metadata\":{\"uid\":7}}"};
	struct audit_rig rig;
	rig_open(&rig);
	for (size_t i = 0; i < array_size(lines); i++) {
		struct slice line = slice_of(lines[i]);
		assert_int_equal(write(rig.segment_fd, line.ptr, line.len), (ssize_t)line.len);
		assert_int_equal(write(rig.segment_fd, "\n", 1), 1);
	}
	put(&rig, request(REASON_ALLOW_RULE, "a.test", "/"));
	auto_free char *wide = calloc(1, 600000); /* longer than any line and any block */
	assert_non_null(wide);
	memset(wide, 'w', 600000);
	wide[599999] = '\n';
	assert_int_equal(write(rig.segment_fd, wide, 600000), 600000);
	put(&rig, request(REASON_ALLOW_RULE, "a.test", "/"));
	struct audit_summary s = sum(&rig, "sb-1");
	assert_int_equal(s.allowed, 2);
	audit_summary_fini(&s);
	rig_close(&rig);
}

static void a_bad_descriptor_is_an_error(void **state)
{
	(void)state;
	struct audit_summary s = {.allowed = 7};
	assert_int_equal(audit_summary_read(-1, "sb-1", &s), -EBADF);
	assert_int_equal(s.allowed, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decisions_and_bytes_are_counted),
		cmocka_unit_test(refused_names_are_counted_and_answered_ones_are_not),
		cmocka_unit_test(a_failure_has_what_explains_it),
		cmocka_unit_test(a_denial_has_what_explains_it),
		cmocka_unit_test(an_event_that_stands_there_twice_counts_once),
		cmocka_unit_test(distinct_denials_have_a_limit),
		cmocka_unit_test(a_nul_in_peer_text_does_not_hide_an_event),
		cmocka_unit_test(many_lines_cross_block_borders),
		cmocka_unit_test(hostile_text_is_skipped),
		cmocka_unit_test(a_bad_descriptor_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
