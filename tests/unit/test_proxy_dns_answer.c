/* What is answered to which question, by a policy and the addresses that were given before. */
#include "tests/unit/policy_setup.h"

#include "proxy/dns_answer.h"

#define SANDBOX    5
#define RECORD_TXT 16
#define RECORD_SRV 33

static const char policy_text[] = "policy 1\n"
				  "[profile p]\n"
				  "allow allowed.test\n"
				  "allow *.wild.test\n"
				  "deny secret.wild.test\n"
				  "allow tcp ssh.test:22\n"
				  "allow pinned.test tls=splice\n"
				  "allow old.test expires=2020-01-01\n"
				  "allow c.d.e.test\n"
				  "allow a.half.test\n"
				  "deny half.test\n"
				  "deny below.no.test\n"
				  "[profile watched]\n"
				  "set mode observe\n"
				  "deny bad.test\n";

struct fixture {
	int fd;
	struct policy *policy;
	struct dns_asker asker;
	struct dns_question question;
	struct dns_reply reply;
	char message[300];
};

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->policy = policy_setup(policy_text);
	f->fd = synthetic_create();
	assert_true(f->fd >= 0);
	f->asker = (struct dns_asker){.profile = policy_setup_profile(f->policy, "p"),
		.synthetic = synthetic_open(f->fd),
		.sandbox = SANDBOX,
		.now_ms = UINT64_C(1795961863123)};
	assert_non_null(f->asker.synthetic);
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	synthetic_close(f->asker.synthetic);
	policy_free(f->policy);
	fd_close(&f->fd);
	free(f);
	return 0;
}

/** A question for a name with dots. */
static void question_of(struct fixture *f, struct slice name, uint16_t type, uint16_t class)
{
	struct slice label;
	size_t len = 12;
	memcpy(f->message, "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", len);
	while (name.len > 0) {
		if (!slice_split(name, '.', &label, &name)) {
			label = name;
			name.len = 0;
		}
		f->message[len++] = (char)label.len;
		memcpy(f->message + len, label.ptr, label.len);
		len += label.len;
	}
	const char end[] = {0, (char)(type >> 8), (char)type, (char)(class >> 8), (char)class};
	memcpy(f->message + len, end, sizeof(end));
	len += sizeof(end);
	assert_int_equal(dns_question_parse((struct slice){f->message, len}, &f->question), 0);
}

static const struct dns_reply *ask_class(
	struct fixture *f, struct slice name, uint16_t type, uint16_t class)
{
	question_of(f, name, type, class);
	dns_reply_make(&f->asker, &f->question, DNS_NOERROR, &f->reply);
	return &f->reply;
}

static const struct dns_reply *ask(struct fixture *f, const char *name, uint16_t type)
{
	return ask_class(f, slice_of(name), type, DNS_CLASS_IN);
}

static bool is_synthetic(const struct dns_reply *r)
{
	return r->answer.address.family == 4 && synthetic_is(&r->answer.address);
}

static void assert_denied_with(
	const struct dns_reply *r, enum dns_rcode rcode, enum reason reason, const char *said)
{
	assert_int_equal(r->answer.rcode, rcode);
	assert_int_equal(r->answer.extended,
		reason == REASON_DENY_DNS_TYPE ? DNS_EXTENDED_NOT_SUPPORTED : DNS_EXTENDED_BLOCKED);
	assert_true(r->answer.negative && r->recorded);
	assert_int_equal(r->answer.ttl_s, DNS_NEGATIVE_TTL_SECONDS);
	assert_int_equal(r->answer.address.family, 0);
	assert_int_equal(r->reason, reason);
	assert_non_null(strstr(r->answer.text, said));
	assert_memory_equal(r->answer.text, reason_code(reason), strlen(reason_code(reason)));
}

static void assert_denied(const struct dns_reply *r, enum reason reason, const char *said)
{
	assert_denied_with(r, DNS_NXDOMAIN, reason, said);
}

static void names_that_a_rule_admits_have_an_address(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *name;
		enum reason reason;
	} names[] = {{"allowed.test", REASON_ALLOW_RULE}, {"ssh.test", REASON_ALLOW_RULE},
		{"pinned.test", REASON_ALLOW_SPLICE}, {"x.wild.test", REASON_ALLOW_RULE}};
	for (size_t i = 0; i < array_size(names); i++) {
		const struct dns_reply *r = ask(f, names[i].name, DNS_TYPE_A);
		assert_int_equal(r->answer.rcode, DNS_NOERROR);
		assert_true(is_synthetic(r) && r->recorded && !r->answer.negative);
		assert_int_equal(r->answer.ttl_s, DNS_TTL_SECONDS);
		assert_int_equal(r->reason, names[i].reason);
		assert_non_null(r->verdict.rule);
		assert_string_equal(r->host.name, names[i].name);
		const struct host *host =
			synthetic_find(f->asker.synthetic, SANDBOX, &r->answer.address);
		assert_string_equal(host->name, names[i].name);
		struct address first = r->answer.address;
		r = ask(f, names[i].name, DNS_TYPE_A);
		assert_true(address_equal(&first, &r->answer.address));
		assert_false(r->recorded); /* it was, the first time */
	}
}

static void all_spellings_of_a_name_are_one(void **state)
{
	struct fixture *f = *state;
	struct address first = ask(f, "allowed.test", DNS_TYPE_A)->answer.address;
	const struct dns_reply *r = ask(f, "ALLOWED.Test", DNS_TYPE_A);
	assert_true(address_equal(&first, &r->answer.address));
	assert_string_equal(r->host.name, "allowed.test");
	assert_string_equal(r->name, "ALLOWED.Test");
}

static void names_that_no_rule_admits_are_not_there(void **state)
{
	struct fixture *f = *state;
	static const uint16_t types[] = {DNS_TYPE_A, DNS_TYPE_AAAA, DNS_TYPE_HTTPS, DNS_TYPE_SVCB};
	for (size_t i = 0; i < array_size(types); i++) {
		assert_denied(ask(f, "denied.test", types[i]), REASON_DENY_DEFAULT, "denied.test");
		assert_denied(ask(f, "a.allowed.test", types[i]), REASON_DENY_DEFAULT, "p");
		assert_denied(ask(f, "allowed.test.evil.test", types[i]), REASON_DENY_DEFAULT, "p");
		assert_denied(ask(f, "secret.wild.test", types[i]), REASON_DENY_RULE, "x.allow:5");
		assert_denied(ask(f, "old.test", types[i]), REASON_DENY_EXPIRED, "x.allow:8");
	}
}

static void names_above_one_that_a_rule_admits_exist(void **state)
{
	struct fixture *f = *state;
	static const uint16_t types[] = {
		DNS_TYPE_A, DNS_TYPE_AAAA, DNS_TYPE_HTTPS, RECORD_TXT, RECORD_SRV};
	static const struct {
		const char *name;
		enum dns_rcode rcode;
		enum reason reason;
	} names[] = {{"test", DNS_NOERROR, REASON_DENY_DEFAULT},
		{"wild.test", DNS_NOERROR, REASON_DENY_DEFAULT},
		{"e.test", DNS_NOERROR, REASON_DENY_DEFAULT},
		{"D.e.test", DNS_NOERROR, REASON_DENY_DEFAULT},
		{"half.test", DNS_NOERROR, REASON_DENY_RULE}, /* that name alone */
		{"x.e.test", DNS_NXDOMAIN, REASON_DENY_DEFAULT},
		{"x.d.e.test", DNS_NXDOMAIN, REASON_DENY_DEFAULT},
		{"ild.test", DNS_NXDOMAIN, REASON_DENY_DEFAULT},
		{"est", DNS_NXDOMAIN, REASON_DENY_DEFAULT},
		{"secret.wild.test", DNS_NXDOMAIN, REASON_DENY_RULE},
		{"below.no.test", DNS_NXDOMAIN, REASON_DENY_RULE}, /* what is denied is not there */
		{"no.test", DNS_NXDOMAIN, REASON_DENY_DEFAULT}};
	for (size_t i = 0; i < array_size(names) * array_size(types); i++) {
		uint16_t type = types[i % array_size(types)];
		size_t n = i / array_size(types);
		bool data = type == RECORD_TXT || type == RECORD_SRV;
		assert_denied_with(ask(f, names[n].name, type), names[n].rcode,
			data ? REASON_DENY_DNS_TYPE : names[n].reason, "");
	}
}

static void what_is_no_host_is_not_there(void **state)
{
	struct fixture *f = *state;
	static const struct slice names[] = {SLICE(""), SLICE("a b.test"), SLICE("203\x00.test"),
		SLICE("127"), SLICE("203.0.113.7"), SLICE("0x7f.1"), SLICE("-.test"),
		SLICE("al\xc3\xa4.test"), SLICE("*.wild.test"), SLICE("a\\.wild.test"),
		SLICE("allowed.test\x00")};
	for (size_t i = 0; i < array_size(names); i++) {
		const struct dns_reply *r = ask_class(f, names[i], DNS_TYPE_A, DNS_CLASS_IN);
		if (r->reason != REASON_DENY_NAME_INVALID && r->reason != REASON_DENY_DEFAULT)
			fail_msg("%s: %s", r->name, reason_code(r->reason));
		assert_int_equal(r->answer.rcode, DNS_NXDOMAIN);
		assert_int_equal(r->answer.address.family, 0);
	}
	/* a dot within a label is not one between two */
	question_of(f, SLICE("x_wild_test"), DNS_TYPE_A, DNS_CLASS_IN);
	f->message[12 + 1 + 1] = '.';
	f->message[12 + 1 + 6] = '.';
	dns_reply_make(&f->asker, &f->question, DNS_NOERROR, &f->reply);
	assert_denied(&f->reply, REASON_DENY_NAME_INVALID, "no name of a host");
	assert_string_equal(f->reply.name, "x\\046wild\\046test");
}

static void other_records_of_a_host_there_are_not(void **state)
{
	struct fixture *f = *state;
	static const uint16_t types[] = {DNS_TYPE_AAAA, DNS_TYPE_HTTPS, DNS_TYPE_SVCB};
	for (size_t i = 0; i < array_size(types); i++) {
		const struct dns_reply *r = ask(f, "allowed.test", types[i]);
		assert_int_equal(r->answer.rcode, DNS_NOERROR);
		assert_true(r->answer.negative && !r->recorded);
		assert_int_equal(r->answer.address.family, 0);
	}
	assert_true(ask(f, "allowed.test", DNS_TYPE_A)->recorded); /* it had no address yet */
}

static void records_that_reach_no_host_there_are_not(void **state)
{
	struct fixture *f = *state;
	static const uint16_t types[] = {2, 5, 6, 10, 13, 15, RECORD_TXT, RECORD_SRV, 35, 43, 48,
		127, 256, 257, 65280, 65535};
	for (size_t i = 0; i < array_size(types); i++) {
		const struct dns_reply *r = ask(f, "allowed.test", types[i]);
		assert_int_equal(r->answer.rcode, DNS_NOERROR);
		assert_true(r->answer.negative && !r->recorded);
		assert_int_equal(r->answer.address.family, 0);
		assert_denied(ask(f, "denied.test", types[i]), REASON_DENY_DNS_TYPE, "addresses");
		assert_denied(ask(f, "_http._tcp.allowed.test", types[i]), REASON_DENY_DNS_TYPE,
			"addresses");
	}
	assert_true(ask(f, "allowed.test", DNS_TYPE_A)->recorded); /* it had no address yet */
}

static void questions_for_no_one_record_are_refused(void **state)
{
	struct fixture *f = *state;
	static const uint16_t types[] = {0, 41, 128, 249, 250, 251, 252, 253, 254, 255};
	for (size_t i = 0; i < array_size(types); i++) {
		const struct dns_reply *r = ask(f, "allowed.test", types[i]);
		assert_int_equal(r->answer.rcode, DNS_REFUSED);
		assert_int_equal(r->answer.extended, DNS_EXTENDED_NOT_SUPPORTED);
		assert_int_equal(r->reason, REASON_DENY_DNS_TYPE);
		assert_true(r->recorded);
		assert_string_equal(r->name, "allowed.test");
	}
	static const uint16_t classes[] = {0, 2, 3, 4, 254, 255};
	for (size_t i = 0; i < array_size(classes); i++) {
		const struct dns_reply *r =
			ask_class(f, SLICE("allowed.test"), DNS_TYPE_A, classes[i]);
		assert_int_equal(r->answer.rcode, DNS_REFUSED);
		assert_int_equal(r->answer.address.family, 0);
	}
}

static void this_host_is_itself(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = {"localhost", "LOCALHOST", "x.localhost"};
	for (size_t i = 0; i < array_size(names); i++) {
		const struct dns_reply *r = ask(f, names[i], DNS_TYPE_A);
		char text[ADDRESS_TEXT_BYTES];
		assert_string_equal(address_format(&r->answer.address, text), "127.0.0.1");
		assert_false(r->recorded);
		r = ask(f, names[i], DNS_TYPE_AAAA);
		assert_true(r->answer.rcode == DNS_NOERROR && r->answer.negative);
	}
	assert_denied(ask(f, "notlocalhost", DNS_TYPE_A), REASON_DENY_DEFAULT, "notlocalhost");
}

static void observing_answers_what_it_would_deny(void **state)
{
	struct fixture *f = *state;
	f->asker.profile = policy_setup_profile(f->policy, "watched");
	const struct dns_reply *r = ask(f, "whatever.test", DNS_TYPE_A);
	assert_true(is_synthetic(r) && r->recorded);
	assert_int_equal(r->reason, REASON_OBSERVE_WOULD_DENY);
	assert_int_equal(r->verdict.would, REASON_DENY_DEFAULT);
	assert_denied(ask(f, "bad.test", DNS_TYPE_A), REASON_DENY_RULE, "bad.test");
}

static void only_addresses_that_were_given_have_names(void **state)
{
	struct fixture *f = *state;
	assert_denied(ask(f, "1.0.18.198.in-addr.arpa", DNS_TYPE_PTR), REASON_DENY_DNS_NAME,
		"answered here");
	(void)ask(f, "allowed.test", DNS_TYPE_A);
	const struct dns_reply *r = ask(f, "1.0.18.198.in-addr.arpa", DNS_TYPE_PTR);
	assert_string_equal(r->answer.pointer, "allowed.test");
	assert_false(r->recorded);
	f->asker.sandbox++;
	assert_denied(ask(f, "1.0.18.198.in-addr.arpa", DNS_TYPE_PTR), REASON_DENY_DNS_NAME, "");
	assert_denied(ask(f, "1.0.0.10.in-addr.arpa", DNS_TYPE_PTR), REASON_DENY_DNS_NAME, "");
	assert_denied(ask(f, "allowed.test", DNS_TYPE_PTR), REASON_DENY_DNS_NAME, "");
	assert_denied(ask(f, "1.0.18.198.in-addr.arpa", DNS_TYPE_A), REASON_DENY_DEFAULT, "");
}

static void a_first_address_waits_for_the_log(void **state)
{
	struct fixture *f = *state;
	(void)ask(f, "allowed.test", DNS_TYPE_A);
	f->asker.full = REASON_DENY_AUDIT_FULL;
	const struct dns_reply *r = ask(f, "x.wild.test", DNS_TYPE_A);
	assert_int_equal(r->answer.rcode, DNS_REFUSED);
	assert_int_equal(r->reason, REASON_DENY_AUDIT_FULL);
	assert_false(synthetic_has(f->asker.synthetic, SANDBOX, &r->host));
	assert_true(is_synthetic(ask(f, "allowed.test", DNS_TYPE_A))); /* known before */
	assert_denied(ask(f, "denied.test", DNS_TYPE_A), REASON_DENY_DEFAULT, "");
	f->asker.full = REASON_ALLOW_RULE;
	assert_true(ask(f, "x.wild.test", DNS_TYPE_A)->recorded);
}

static void errors_of_a_question_are_told(void **state)
{
	struct fixture *f = *state;
	static const int parsed[] = {DNS_FORMERR, DNS_NOTIMP, DNS_BADVERS};
	for (size_t i = 0; i < array_size(parsed); i++) {
		const struct dns_question nothing = {0};
		dns_reply_make(&f->asker, &nothing, parsed[i], &f->reply);
		assert_int_equal(f->reply.answer.rcode, parsed[i]);
		assert_int_equal(f->reply.reason, REASON_DENY_PROTOCOL);
		assert_true(f->reply.recorded);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			names_that_a_rule_admits_have_an_address, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			all_spellings_of_a_name_are_one, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			names_that_no_rule_admits_are_not_there, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			what_is_no_host_is_not_there, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			other_records_of_a_host_there_are_not, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			records_that_reach_no_host_there_are_not, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			questions_for_no_one_record_are_refused, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			names_above_one_that_a_rule_admits_exist, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(this_host_is_itself, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			observing_answers_what_it_would_deny, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			only_addresses_that_were_given_have_names, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			a_first_address_waits_for_the_log, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			errors_of_a_question_are_told, fixture_open, fixture_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
