/* What tcp, splice, any and ip: rules admit, and beside each what they do not. */
#include "tests/unit/policy_setup.h"

#include "policy/ask.h"

static const char text[] = "policy 1\n"                                 /* 1 */
			   "[profile p]\n"                              /* 2 */
			   "allow tcp git.test:22,9418\n"               /* 3 */
			   "allow git.test GET /** id=git\n"            /* 4 */
			   "allow pinned.test:443,8443 tls=splice\n"    /* 5 */
			   "allow ip:192.88.98.0/24:443,80 id=net\n"    /* 6 */
			   "allow ip:192.88.98.7 GET /own id=one\n"     /* 7 */
			   "deny ip:192.88.98.128/25\n"                 /* 8 */
			   "allow ip:10.1.0.0/16:8443 ANY\n"            /* 9 */
			   "allow tcp ip:10.1.2.3:5432\n"               /* 10 */
			   "allow ip:169.254.0.0/16:80 id=link\n"       /* 11 */
			   "allow ip:100.100.100.200:80 id=alibaba\n"   /* 12 */
			   "allow ip:[2620:fe::/48]:443 id=six\n"       /* 13 */
			   "deny ip:9.9.9.9\n"                          /* 14 */
			   "deny ip:127.0.0.1\n"                        /* 15 */
			   "allow tcp old.test:22 expires=2020-01-01\n" /* 16 */
			   "allow name.test addr=10.7.0.0/16\n"         /* 17 */
			   "[profile open]\n"                           /* 18 */
			   "allow any GET ticket=T-1\n"                 /* 19 */
			   "allow *.some.test POST id=some\n"           /* 20 */
			   "allow exact.some.test PUT id=exact\n"       /* 21 */
			   "deny any:444\n"                             /* 22 */
			   "deny evil.test\n"                           /* 23 */
			   "allow tcp any:22 ticket=T-2\n"              /* 24 */
			   "[profile shut]\n"                           /* 25 */
			   "deny any\n"                                 /* 26 */
			   "allow a.test\n";                            /* 27 */

struct target_case {
	const char *question; /* CONNECT asks for the host, everything else for the request */
	const char *code;
	unsigned line; /* of the rule; 0: none */
};

static const struct target_case cases[] = {
	/* tcp: bytes by name and port, never a request */
	{"CONNECT https://git.test:22", "allow.rule", 3},
	{"CONNECT http://git.test:9418", "allow.rule", 3},
	{"CONNECT https://git.test:23", "deny.port", 4},
	{"CONNECT https://a.git.test:22", "deny.default", 0},
	{"CONNECT https://git.test:443", "allow.rule", 4},
	{"GET https://git.test/x", "allow.rule", 4},
	{"GET https://git.test:22/x", "deny.scheme", 3},
	{"GET http://git.test:9418/x", "deny.scheme", 3},
	{"CONNECT https://old.test:22", "deny.expired", 16},
	/* splice: TLS by name and port, never a request */
	{"CONNECT https://pinned.test", "allow.splice", 5},
	{"CONNECT https://pinned.test:8443", "allow.splice", 5},
	{"CONNECT https://pinned.test:80", "deny.port", 5},
	{"CONNECT http://pinned.test:8443", "deny.scheme", 5},
	{"CONNECT https://x.pinned.test", "deny.default", 0},
	{"GET https://pinned.test/", "deny.scheme", 5},
	/* ip: the address itself, the longest prefix first */
	{"CONNECT https://192.88.98.1", "allow.rule", 6},
	{"GET http://192.88.98.1/any", "allow.rule", 6},
	{"GET https://192.88.98.7/own", "allow.rule", 7},
	{"GET https://192.88.98.7/other", "allow.rule", 6},
	{"POST https://192.88.98.1/", "deny.method", 6},
	{"GET https://192.88.98.1:8080/", "deny.port", 6},
	{"GET https://192.88.97.1/", "deny.default", 0},
	{"GET https://192.88.98.129/", "deny.rule", 8},
	{"CONNECT https://192.88.98.129", "deny.rule", 8},
	{"POST https://10.1.255.255:8443/", "allow.rule", 9},
	{"GET https://10.1.0.1/", "deny.port", 9},
	{"GET https://10.2.0.1:8443/", "deny.address-private", 0},
	{"CONNECT https://10.1.2.3:5432", "allow.rule", 10},
	{"CONNECT https://10.1.2.4:5432", "deny.port", 9},
	{"CONNECT https://[2620:fe::9]", "allow.rule", 13},
	{"CONNECT https://[2620:ff::9]", "deny.default", 0},
	{"CONNECT https://[fd00::9]", "deny.address-private", 0},
	{"CONNECT https://[::ffff:192.88.98.1]", "deny.address-private", 0},
	/* a metadata address only by its own rule; without an allow rule the class answers first */
	{"GET http://169.254.169.254/", "deny.address-metadata", 0},
	{"GET http://169.254.1.1/", "allow.rule", 11},
	{"GET http://100.100.100.200/", "allow.rule", 12},
	{"GET https://127.0.0.1/", "deny.address-private", 0},
	{"GET https://9.9.9.9/", "deny.rule", 14},
	{"GET https://9.9.9.10/", "deny.default", 0},
};

static const struct target_case open_cases[] = {
	{"GET https://whatever.example/", "allow.rule", 19},
	{"CONNECT https://whatever.example", "allow.rule", 19},
	{"GET http://whatever.example/", "deny.port", 19},
	{"POST https://whatever.example/", "deny.method", 19},
	{"GET https://a.some.test/", "allow.rule", 19}, /* the other one lists POST alone */
	{"POST https://a.some.test/", "allow.rule", 20},
	{"PUT https://exact.some.test/", "allow.rule", 21},
	{"PUT https://b.some.test/", "deny.method", 20},
	{"GET https://evil.test/", "deny.rule", 23},
	{"CONNECT https://whatever.example:444", "deny.rule", 22},
	{"CONNECT https://whatever.example:22", "allow.rule", 24},
	{"CONNECT https://8.8.8.8", "deny.default", 0}, /* never an address */
	{"CONNECT https://8.8.8.8:22", "deny.default", 0},
	{"CONNECT https://10.0.0.1", "deny.address-private", 0},
};

static const struct target_case shut_cases[] = {
	{"GET https://a.test/", "deny.rule", 26},
	{"CONNECT https://b.test", "deny.rule", 26},
	{"CONNECT https://8.8.8.8", "deny.default", 0},
};

static void ask(const struct profile *profile, const char *question, struct policy_verdict *ret)
{
	static struct policy_setup_question q;
	policy_setup_ask(question, &q);
	q.q.now_ms = UINT64_C(1800000000000);
	if (slice_equal(q.q.method, SLICE("CONNECT")))
		policy_decide_host(profile, &q.q, ret);
	else
		policy_decide(profile, &q.q, ret);
}

static void verdicts_are(
	const struct policy *p, const char *name, const struct target_case *list, size_t count)
{
	const struct profile *profile = policy_setup_profile(p, name);
	for (size_t i = 0; i < count; i++) {
		struct policy_verdict v;
		ask(profile, list[i].question, &v);
		unsigned line = v.rule == NULL ? 0 : v.rule->line;
		if (strcmp(reason_code(v.reason), list[i].code) != 0 || line != list[i].line)
			fail_msg("%s: %s by line %u (%s)", list[i].question, reason_code(v.reason),
				line, v.detail);
	}
}

static void each_target_admits_what_it_names(void **state)
{
	(void)state;
	struct policy *p = policy_setup(text);
	verdicts_are(p, "p", cases, array_size(cases));
	verdicts_are(p, "open", open_cases, array_size(open_cases));
	verdicts_are(p, "shut", shut_cases, array_size(shut_cases));
	policy_free(p);
}

static void the_transport_says_what_follows(void **state)
{
	(void)state;
	static const struct {
		const char *question;
		enum policy_transport transport;
	} transports[] = {
		{"CONNECT https://git.test:22", POLICY_TCP},
		{"CONNECT https://git.test", POLICY_INSPECT},
		{"CONNECT https://pinned.test", POLICY_SPLICE},
		{"CONNECT https://192.88.98.1", POLICY_INSPECT},
		{"CONNECT https://10.1.2.3:5432", POLICY_TCP},
	};
	struct policy *p = policy_setup(text);
	for (size_t i = 0; i < array_size(transports); i++) {
		struct policy_verdict v;
		ask(policy_setup_profile(p, "p"), transports[i].question, &v);
		assert_true(reason_allows(v.reason));
		assert_int_equal(v.rule->transport, transports[i].transport);
	}
	policy_free(p);
}

static const char tunnels[] = "policy 1\n"
			      "[profile p]\n"
			      "allow web.test:80,443\n"
			      "allow plain.test:8080 scheme=http id=plain\n"
			      "allow half.test:443 scheme=http id=half\n"
			      "deny  half.test scheme=https id=no-tls\n"
			      "allow pinned.test tls=splice\n"
			      "allow tcp git.test:22\n"
			      "[profile watch]\n"
			      "set mode observe\n"
			      "allow plain.test:8080 scheme=http id=watched\n";

static void a_tunnel_opens_for_either_scheme(void **state)
{
	(void)state;
	static const struct {
		const char *profile, *authority, *code;
		enum policy_scheme scheme;
	} list[] = {
		{"p", "web.test:443", "allow.rule", POLICY_SCHEME_HTTPS},
		{"p", "web.test:80", "allow.rule", POLICY_SCHEME_HTTP},
		{"p", "web.test:81", "deny.port", POLICY_SCHEME_HTTPS},
		{"p", "plain.test:8080", "allow.rule", POLICY_SCHEME_HTTP},
		{"p", "half.test:443", "allow.rule", POLICY_SCHEME_HTTP},
		{"p", "pinned.test:443", "allow.splice", POLICY_SCHEME_HTTPS},
		{"p", "git.test:22", "allow.rule", POLICY_SCHEME_HTTPS},
		{"p", "other.test:80", "deny.default", POLICY_SCHEME_HTTPS},
		{"watch", "plain.test:8080", "allow.rule", POLICY_SCHEME_HTTP},
		{"watch", "other.test:80", "observe.would-deny", POLICY_SCHEME_HTTPS},
	};
	struct policy *p = policy_setup(tunnels);
	for (size_t i = 0; i < array_size(list); i++) {
		struct host host;
		struct policy_question q = {.host = &host, .now_ms = UINT64_C(1800000000000)};
		struct policy_verdict v;
		assert_int_equal(
			authority_parse(slice_of(list[i].authority), 0, &host, &q.port), 0);
		enum policy_scheme scheme =
			policy_decide_tunnel(policy_setup_profile(p, list[i].profile), &q, &v);
		assert_string_equal(reason_code(v.reason), list[i].code);
		assert_int_equal(scheme, list[i].scheme);
	}
	policy_free(p);
}

static enum reason admitted(
	const struct profile *profile, const char *question, const char *address)
{
	struct policy_verdict v;
	struct address a;
	ask(profile, question, &v);
	assert_int_equal(address_parse(slice_of(address), &a), 0);
	return policy_admit_address(v.rule, &a);
}

static void an_ip_rule_opens_its_own_prefix_and_nothing_else(void **state)
{
	(void)state;
	static struct policy_setup_question q;
	struct address a;
	struct policy *p = policy_setup(text);
	const struct profile *profile = policy_setup_profile(p, "p");
	assert_int_equal(
		admitted(profile, "CONNECT https://10.1.0.1:8443", "10.1.0.1"), REASON_ALLOW_RULE);
	assert_int_equal(admitted(profile, "CONNECT https://10.1.0.1:8443", "10.2.0.1"),
		REASON_DENY_ADDRESS_PRIVATE);
	assert_int_equal(admitted(profile, "GET http://169.254.1.1/", "169.254.169.254"),
		REASON_DENY_ADDRESS_METADATA);
	assert_int_equal(admitted(profile, "GET http://100.100.100.200/", "100.100.100.200"),
		REASON_ALLOW_RULE);
	assert_int_equal(admitted(profile, "GET https://git.test/", "10.1.0.1"),
		REASON_DENY_ADDRESS_PRIVATE);
	policy_setup_ask("CONNECT https://10.1.0.1:8443", &q);
	assert_int_equal(address_parse(SLICE("10.1.0.1"), &a), 0);
	const struct rule *rule = policy_rule_opening(profile, &q.q, &a);
	assert_non_null(rule);
	assert_int_equal(rule->line, 9);
	q.q.port = 8444;
	assert_null(policy_rule_opening(profile, &q.q, &a));
	policy_free(p);
}

struct opened {
	char list[1024];
	size_t len;
};

static void note_opened(const struct cidr *c, uint16_t first, uint16_t last, void *arg)
{
	struct opened *o = arg;
	char address[ADDRESS_TEXT_BYTES];
	o->len += (size_t)snprintf(o->list + o->len, sizeof(o->list) - o->len, "%s/%u:%u-%u\n",
		address_format(&c->base, address), c->bits, first, last);
}

static void the_packet_filter_hears_of_them(void **state)
{
	(void)state;
	static const char *const wanted[] = {"10.1.0.0/16:8443-8443\n", "10.1.2.3/32:5432-5432\n",
		"10.7.0.0/16:443-443\n", "192.88.98.0/24:80-80\n", "169.254.0.0/16:80-80\n",
		"100.100.100.200/32:80-80\n", "2620:fe::/48:443-443\n"};
	struct opened o = {.len = 0};
	struct policy *p = policy_setup(text);
	policy_opened(p, note_opened, &o);
	for (size_t i = 0; i < array_size(wanted); i++) {
		if (strstr(o.list, wanted[i]) == NULL)
			fail_msg("%s is not in\n%s", wanted[i], o.list);
	}
	assert_null(strstr(o.list, "127.0.0.1")); /* deny rules open nothing */
	assert_null(strstr(o.list, "9.9.9.9"));
	policy_free(p);
}

static const char *ask_code(const struct profile *profile, const char *method, const char *url)
{
	static struct policy_ask question;
	struct policy_verdict v;
	policy_ask_init(&question, slice_of(method), slice_of(url), 0);
	policy_ask_decide(profile, &question, &v);
	return reason_code(v.reason);
}

/* As the proxy would: what a splice carries passes whatever it is, what tcp carries is no HTTP. */
static void a_request_is_judged_by_what_its_tunnel_carries(void **state)
{
	(void)state;
	struct policy *p = policy_setup(text);
	const struct profile *profile = policy_setup_profile(p, "p");
	assert_string_equal(
		ask_code(profile, "PUT", "https://pinned.test/a/%2e%2e/b"), "allow.splice");
	assert_string_equal(ask_code(profile, "GET", "http://pinned.test:8443/"), "deny.scheme");
	assert_string_equal(ask_code(profile, "GET", "https://git.test:22/"), "deny.protocol");
	assert_string_equal(ask_code(profile, "CONNECT", "git.test:22"), "allow.rule");
	assert_string_equal(ask_code(profile, "CONNECT", "[2620:fe::9]:443"), "allow.rule");
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_target_admits_what_it_names),
		cmocka_unit_test(the_transport_says_what_follows),
		cmocka_unit_test(a_tunnel_opens_for_either_scheme),
		cmocka_unit_test(an_ip_rule_opens_its_own_prefix_and_nothing_else),
		cmocka_unit_test(the_packet_filter_hears_of_them),
		cmocka_unit_test(a_request_is_judged_by_what_its_tunnel_carries),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
