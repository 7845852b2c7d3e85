/* From text to profiles: groups, narrowing, inheritance, expect lines, digests, openings. */
#include "tests/unit/policy_setup.h"

static struct policy_setup_question ask;

static void decide(const struct profile *p, const char *question, struct policy_verdict *ret)
{
	policy_setup_ask(question, &ask);
	policy_decide(p, &ask.q, ret);
}

static const char *code_of(const struct profile *p, const char *question)
{
	struct policy_verdict v;
	decide(p, question, &v);
	return reason_code(v.reason);
}

/* The example of the specification. */
static const char example[] =
	"policy 1\n"
	"require owner ticket tests\n"
	"defaults owner=platform-sec ticket=SEC-1400 expires=2027-06-30\n"
	"\n"
	"[group pypi]\n"
	"# Index pages are small; distributions are large but only under one prefix.\n"
	"allow index.pkg.example          GET,HEAD /simple/** /pypi/*/json      id=pypi-simple "
	"resp-body=64m\n"
	"allow files.pkg.example          GET,HEAD /packages/**                 id=pypi-files  "
	"resp-body=2g rate=50/s\n"
	"deny  .pkg.example               POST,PUT,PATCH,DELETE                 "
	"id=pypi-no-upload note=\"publishing is a release job\"\n"
	"\n"
	"[group npm]\n"
	"allow npm-index.example          GET,HEAD /** enc-slash=literal query=deny id=npm-meta "
	"resp-body=64m ticket=SEC-1408\n"
	"allow npm-index.example          POST /-/npm/v1/security/** req-body=8m id=npm-audit "
	"ticket=SEC-1408\n"
	"deny  npm-index.example          PUT                                   id=npm-no-publish\n"
	"\n"
	"[group apt]\n"
	"allow mirror.deb.example:80,443  GET,HEAD /debian/** /debian-security/** id=apt "
	"resp-body=512m \\\n"
	"      note=\"repository metadata is signed; http allowed\"\n"
	"\n"
	"[group github-download]\n"
	"allow github.com                 GET,HEAD /*/*/releases/download/**  /*/*/archive/**  "
	"id=gh-rel ticket=SEC-1432\n"
	"allow codeload.github.com        GET,HEAD /**                          id=gh-codeload "
	"ticket=SEC-1432 resp-body=1g\n"
	"allow *.githubusercontent.com    GET,HEAD /**            query=allow   id=gh-assets "
	"ticket=SEC-1432 expires=2027-01-31\n"
	"deny  github.com                 ANY /*/*/info/refs /*/*/git-receive-pack id=gh-no-git "
	"note=\"clone goes through the mirror\"\n"
	"\n"
	"[profile base]\n"
	"set mode enforce\n"
	"set on-full deny\n"
	"set dns proxy-only\n"
	"\n"
	"[profile pypi-ci extends base]\n"
	"use pypi\n"
	"use apt expires=2026-12-31\n"
	"expect allow GET  https://index.pkg.example/simple/requests/             by=pypi-simple\n"
	"expect allow HEAD https://files.pkg.example/packages/aa/bb/x.whl         by=pypi-files\n"
	"expect deny  POST https://index.pkg.example/legacy/                      "
	"by=pypi-no-upload\n"
	"expect deny  GET  https://files.pkg.example/other/x.whl                  code=deny.path\n"
	"expect deny  GET  https://files.pkg.example/packages/..%2fother/x        "
	"code=deny.smuggling\n"
	"expect deny  GET  https://evil-files.pkg.example.attacker.example/       "
	"code=deny.default\n"
	"expect deny  GET  http://169.254.169.254/latest/meta-data/               "
	"code=deny.address-metadata\n"
	"expect allow GET  http://mirror.deb.example/debian/dists/stable/InRelease by=apt\n"
	"expect deny  GET  http://mirror.deb.example/debian/x code=deny.expired at=2027-01-01\n"
	"expect allow GET  http://mirror.deb.example/debian/x by=apt at=2026-12-31\n"
	"\n"
	"[profile web-agent extends base]\n"
	"set mode observe                  # decisions are logged as observe.would-deny, traffic "
	"passes\n"
	"use npm\n"
	"use github-download\n"
	"allow api.model.example          POST /v1/messages  id=model req-body=4m resp-body=64m "
	"time=10m ticket=SEC-1500\n"
	"expect allow GET https://github.com/o/r/releases/download/v1/a.tgz       by=gh-rel\n"
	"expect deny  GET https://github.com/o/r/info/refs?service=git-upload-pack by=gh-no-git\n"
	"expect allow GET  https://npm-index.example/@scope%2fname                  by=npm-meta\n"
	"expect deny  GET  https://npm-index.example/x%2f..%2fy                     "
	"code=deny.smuggling\n"
	"expect deny  GET  https://denied_host!/                                    "
	"code=deny.name-invalid\n";

static void the_example_of_the_specification_holds(void **state)
{
	(void)state;
	struct policy *p = policy_setup(example);
	assert_int_equal(policy_setup_report.count, 0);
	const struct profile *ci = policy_setup_profile(p, "pypi-ci");
	const struct profile *web = policy_setup_profile(p, "web-agent");
	struct policy_verdict v;
	decide(ci, "GET https://files.pkg.example/packages/x", &v);
	assert_string_equal(v.rule->owner, "platform-sec");
	assert_string_equal(v.rule->ticket, "SEC-1400");
	assert_int_equal(v.rule->resp_body_bytes, UINT64_C(2) << 30);
	assert_int_equal(v.rule->req_body_bytes, 0);
	assert_int_equal(v.rule->line, 8);
	decide(web, "GET https://github.com/o/r/archive/x", &v);
	assert_string_equal(v.rule->ticket, "SEC-1432");
	assert_string_equal(
		code_of(web, "GET https://index.pkg.example/simple/"), "observe.would-deny");
	assert_string_equal(code_of(ci, "GET https://github.com/o/r/archive/x"), "deny.default");
	policy_free(p);
}

static void a_profile_is_found_by_name_or_alone(void **state)
{
	(void)state;
	struct policy *p = policy_setup(example);
	const struct profile *profile = NULL;
	struct failure why = {0};
	assert_int_equal(policy_profile(p, NULL, &profile, &why), -ENOENT);
	assert_non_null(strstr(why.text, "base, pypi-ci, web-agent"));
	why = (struct failure){0};
	assert_int_equal(policy_profile(p, "ci", &profile, &why), -ENOENT);
	assert_string_equal(why.text, "no profile 'ci'; there are: base, pypi-ci, web-agent");
	assert_null(profile);
	assert_string_equal(profile_name(policy_setup_profile(p, "base")), "base");
	policy_free(p);
	p = policy_setup("policy 1\n[profile only]\n");
	assert_string_equal(profile_name(policy_setup_profile(p, "")), "only");
	/* An empty list loads, and denies everything. */
	assert_string_equal(
		code_of(policy_setup_profile(p, NULL), "GET https://a.test/"), "deny.default");
	policy_free(p);
	p = policy_setup("policy 1\ndeny a.test\n");
	why = (struct failure){0};
	assert_int_equal(policy_profile(p, NULL, &profile, &why), -ENOENT);
	assert_non_null(strstr(why.text, "no [profile NAME] section"));
	policy_free(p);
}

static void use_narrows_copies_and_leaves_the_group_alone(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n"
					"[group g]\n"
					"allow a.test POST req-body=8m resp-body=2m\n"
					"allow b.test POST req-body=1m\n"
					"deny c.test\n"
					"[group outer]\n"
					"use g req-body=4m\n"
					"[profile narrow]\n"
					"use outer req-body=2m query=deny\n"
					"[profile wide]\n"
					"use g\n");
	const struct profile *narrow = policy_setup_profile(p, "narrow");
	const struct profile *wide = policy_setup_profile(p, "wide");
	struct policy_verdict v;
	decide(narrow, "POST https://a.test/", &v);
	assert_int_equal(v.rule->req_body_bytes, 2 << 20);
	assert_int_equal(v.rule->resp_body_bytes, 2 << 20);
	assert_int_equal(v.rule->line, 3);
	decide(narrow, "POST https://b.test/", &v);
	assert_int_equal(v.rule->req_body_bytes, 1 << 20);
	assert_string_equal(code_of(narrow, "POST https://a.test/?x"), "deny.query");
	assert_string_equal(code_of(narrow, "GET https://c.test/"), "deny.rule");
	decide(wide, "POST https://a.test/?x", &v);
	assert_int_equal(v.reason, REASON_ALLOW_RULE);
	assert_int_equal(v.rule->req_body_bytes, 8 << 20);
	policy_free(p);
}

static void a_profile_has_what_it_extends(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n"
					"[profile c extends b]\nallow c.test\n"
					"[profile b extends a]\nallow b.test\ndeny no.test\n"
					"[profile a]\nallow a.test\nallow no.test\n");
	const struct profile *c = policy_setup_profile(p, "c");
	assert_string_equal(code_of(c, "GET https://a.test/"), "allow.rule");
	assert_string_equal(code_of(c, "GET https://b.test/"), "allow.rule");
	assert_string_equal(code_of(c, "GET https://c.test/"), "allow.rule");
	assert_string_equal(code_of(c, "GET https://no.test/"), "deny.rule");
	const struct profile *a = policy_setup_profile(p, "a");
	assert_string_equal(code_of(a, "GET https://no.test/"), "allow.rule");
	assert_string_equal(code_of(a, "GET https://c.test/"), "deny.default");
	policy_free(p);
}

static void expect_lines_of_a_group_are_judged_by_the_group(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n"
					"deny a.test POST\n"
					"[group g]\n"
					"allow a.test ANY\n"
					"expect allow GET https://a.test/\n"
					"expect deny POST https://a.test/ code=deny.rule\n"
					"[profile p]\n"
					"use g\n"
					"deny a.test\n"
					"expect deny GET https://a.test/\n");
	policy_free(p);
}

static void defaults_do_not_narrow_a_deny_rule(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n"
					"defaults expires=2026-01-01 scheme=https query=deny\n"
					"[profile p]\n"
					"deny a.test\n"
					"allow b.test expires=2100-01-01\n");
	const struct profile *profile = policy_setup_profile(p, NULL);
	struct policy_verdict v;
	policy_setup_ask("GET http://a.test/", &ask);
	ask.q.now_ms = UINT64_C(1900000000000);
	policy_decide(profile, &ask.q, &v);
	assert_int_equal(v.reason, REASON_DENY_RULE);
	assert_string_equal(code_of(profile, "GET https://b.test/?x"), "deny.query");
	policy_free(p);
}

struct body_case {
	const char *rule;
	uint64_t req_body;
	uint64_t resp_body;
};

static void a_writing_rule_takes_a_small_body(void **state)
{
	(void)state;
	const uint64_t g1 = UINT64_C(1) << 30;
	const struct body_case bodies[] = {
		{"allow a.test", 0, g1},
		{"allow a.test GET,HEAD,OPTIONS", 0, g1},
		{"allow a.test GET,POST", 1 << 20, g1},
		{"allow a.test GET,DELETE", 1 << 20, g1},
		{"allow a.test GET,REPORT", 1 << 20, g1},
		{"allow a.test ANY", 1 << 20, g1},
		{"allow a.test GET,POST req-body=0 resp-body=5", 0, 5},
		{"allow a.test GET req-body=3k resp-body=0", 3072, 0},
	};
	for (size_t i = 0; i < array_size(bodies); i++) {
		char text[256];
		struct policy_verdict v;
		(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\n%s\n", bodies[i].rule);
		struct policy *p = policy_setup(text);
		decide(policy_setup_profile(p, NULL), "GET https://a.test/", &v);
		if (v.rule->req_body_bytes != bodies[i].req_body ||
			v.rule->resp_body_bytes != bodies[i].resp_body)
			fail_msg("%s: %llu %llu", bodies[i].rule,
				(unsigned long long)v.rule->req_body_bytes,
				(unsigned long long)v.rule->resp_body_bytes);
		policy_free(p);
	}
}

static void a_digest_names_what_is_decided(void **state)
{
	(void)state;
	static const char *const same[] = {
		"policy 1\n[profile p]\nallow a.test GET,HEAD /a /b\ndeny b.test\n",
		("policy 1\n# comment\n[profile q]\ndeny b.test id=x\n"
		 "allow A.test HEAD,GET /b /a owner=me note=\"text\"\n"),
		"policy 1\ndeny b.test\n[group g]\nallow a.test /a /b\n[profile p]\nuse g\nuse g\n",
	};
	static const char *const other[] = {
		"policy 1\n[profile p]\nallow a.test GET,HEAD /a\ndeny b.test\n",
		"policy 1\n[profile p]\nallow a.test GET,HEAD /a /b query=deny\ndeny b.test\n",
		"policy 1\n[profile p]\nallow a.test GET,HEAD /a /b expires=2027-01-01\ndeny b.test\n",
		"policy 1\n[profile p]\nallow a.test GET,HEAD /a /b addr=10.0.0.0/8\ndeny b.test\n",
		"policy 1\n[profile p]\nallow a.test GET,HEAD /a /b\n",
	};
	char digest[DIGEST_TEXT_BYTES];
	struct policy *p = policy_setup(same[0]);
	memcpy(digest, profile_digest(policy_setup_profile(p, NULL)), sizeof(digest));
	assert_int_equal(strlen(digest), 64);
	policy_free(p);
	for (size_t i = 0; i < array_size(same); i++) {
		p = policy_setup(same[i]);
		assert_string_equal(profile_digest(policy_setup_profile(p, NULL)), digest);
		policy_free(p);
	}
	for (size_t i = 0; i < array_size(other); i++) {
		p = policy_setup(other[i]);
		assert_string_not_equal(profile_digest(policy_setup_profile(p, NULL)), digest);
		policy_free(p);
	}
}

struct opened {
	char text[512];
};

static void write_opened(const struct cidr *prefix, uint16_t first, uint16_t last, void *arg)
{
	struct opened *o = arg;
	char address[ADDRESS_TEXT_BYTES];
	size_t used = strlen(o->text);
	(void)snprintf(o->text + used, sizeof(o->text) - used, "%s/%u:%u-%u ",
		address_format(&prefix->base, address), prefix->bits, first, last);
}

static void what_rules_open_is_listed_once(void **state)
{
	(void)state;
	struct policy *p =
		policy_setup("policy 1\n"
			     "[group g]\n"
			     "allow a.test:443,8443 addr=10.1.0.0/16\n"
			     "[profile p]\nuse g\n"
			     "[profile q]\nuse g\nallow b.test:1-9 addr=public,fd00::/8\n"
			     "allow c.test\n");
	struct opened o = {""};
	policy_opened(p, write_opened, &o);
	assert_string_equal(o.text, "10.1.0.0/16:443-443 10.1.0.0/16:8443-8443 fd00::/8:1-9 ");
	policy_free(p);
}

struct admit_case {
	const char *address;
	enum reason without; /* addr= */
	enum reason with; /* addr=10.0.0.0/8,100.64.0.0/10,169.254.169.254,64:ff9b::/96,2002::/16 */
};

static const struct admit_case admit_cases[] = {
	{"8.8.8.8", REASON_ALLOW_RULE, REASON_ALLOW_RULE},
	{"2606:4700::1", REASON_ALLOW_RULE, REASON_ALLOW_RULE},
	{"10.1.2.3", REASON_DENY_ADDRESS_PRIVATE, REASON_ALLOW_RULE},
	{"11.0.0.1", REASON_ALLOW_RULE, REASON_ALLOW_RULE},
	{"192.168.1.1", REASON_DENY_ADDRESS_PRIVATE, REASON_DENY_ADDRESS_PRIVATE},
	{"127.0.0.1", REASON_DENY_ADDRESS_PRIVATE, REASON_DENY_ADDRESS_PRIVATE},
	{"::ffff:10.0.0.1", REASON_DENY_ADDRESS_PRIVATE, REASON_DENY_ADDRESS_PRIVATE},
	{"100.64.1.1", REASON_DENY_ADDRESS_PRIVATE, REASON_ALLOW_RULE},
	/* a metadata service inside an opened prefix stays closed until it is named itself */
	{"100.100.100.200", REASON_DENY_ADDRESS_METADATA, REASON_DENY_ADDRESS_METADATA},
	{"169.254.169.254", REASON_DENY_ADDRESS_METADATA, REASON_ALLOW_RULE},
	{"168.63.129.16", REASON_DENY_ADDRESS_METADATA, REASON_DENY_ADDRESS_METADATA},
	/* a prefix that carries IPv4 opens what of IPv4 is open */
	{"64:ff9b::8.8.8.8", REASON_DENY_ADDRESS_PRIVATE, REASON_ALLOW_RULE},
	{"64:ff9b::10.0.0.1", REASON_DENY_ADDRESS_PRIVATE, REASON_ALLOW_RULE},
	{"64:ff9b::192.168.0.1", REASON_DENY_ADDRESS_PRIVATE, REASON_DENY_ADDRESS_PRIVATE},
	{"64:ff9b::100.100.100.200", REASON_DENY_ADDRESS_PRIVATE, REASON_DENY_ADDRESS_METADATA},
	{"2002:808:808::1", REASON_DENY_ADDRESS_PRIVATE, REASON_ALLOW_RULE},
	{"2002:c0a8:1::1", REASON_DENY_ADDRESS_PRIVATE, REASON_DENY_ADDRESS_PRIVATE},
};

static void an_address_is_public_or_opened(void **state)
{
	(void)state;
	struct policy *p =
		policy_setup("policy 1\n[profile p]\nallow plain.test\n"
			     "allow lab.test addr=10.0.0.0/8,100.64.0.0/10,169.254.169.254,"
			     "64:ff9b::/96,2002::/16\n");
	const struct profile *profile = policy_setup_profile(p, NULL);
	struct policy_verdict plain;
	struct policy_verdict lab;
	decide(profile, "GET https://plain.test/", &plain);
	decide(profile, "GET https://lab.test/", &lab);
	for (size_t i = 0; i < array_size(admit_cases); i++) {
		const struct admit_case *c = &admit_cases[i];
		struct address a;
		assert_int_equal(address_parse(slice_of(c->address), &a), 0);
		if (policy_admit_address(plain.rule, &a) != c->without ||
			policy_admit_address(NULL, &a) != c->without ||
			policy_admit_address(lab.rule, &a) != c->with)
			fail_msg("%s", c->address);
	}
	policy_free(p);
}

static void an_expect_line_that_every_policy_passes_is_a_warning(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		const char *says; /* NULL: no warning */
	} lines[] = {
		{"expect deny GET https://a..test/", "host or port"},
		{"expect deny GET https://user@a.test/", "host or port"},
		{"expect deny GET https://a.test:99999/", "host or port"},
		{"expect deny GET https://a.test/%00", "hides"},
		{"expect deny get https://a.test/", "upper case"},
		{"expect deny GET https://a.test/%00 code=deny.smuggling", NULL},
		{"expect deny get https://a.test/ by=a", NULL},
		{"expect deny POST https://a.test/", NULL},
		{"expect deny CONNECT b.test:443", NULL},
	};
	for (size_t i = 0; i < array_size(lines); i++) {
		char text[256];
		(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\nallow a.test id=a\n%s\n",
			lines[i].line);
		struct policy *p = policy_setup(text);
		const struct policy_diagnostic *d = &policy_setup_report.items[0];
		bool warned = policy_setup_report.count == 1 && d->severity == POLICY_WARNING &&
			strcmp(d->code, "vacuous") == 0 && d->line == 4;
		if (lines[i].says == NULL ? policy_setup_report.count != 0
					  : !warned || strstr(d->text, lines[i].says) == NULL)
			fail_msg("%s", lines[i].line);
		policy_free(p);
	}
}

static void an_address_list_that_opens_nothing_is_a_warning(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n[profile p]\nallow a.test addr=8.8.8.0/24\n");
	assert_int_equal(policy_setup_report.count, 1);
	assert_int_equal(policy_setup_report.errors, 0);
	assert_int_equal(policy_setup_report.items[0].severity, POLICY_WARNING);
	assert_int_equal(policy_setup_report.items[0].column, 14);
	policy_free(p);
}

static void the_words_of_a_rule_survive(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n[profile p]\n"
					"allow   a.test:8443 \\\n\tGET /x   note=\"a  b\" # why\n");
	struct policy_verdict v;
	decide(policy_setup_profile(p, NULL), "GET https://a.test:8443/x", &v);
	assert_string_equal(v.rule->text, "allow a.test:8443 GET /x note=\"a  b\"");
	assert_string_equal(v.rule->id, "x.allow:3");
	assert_string_equal(v.rule->file, "x.allow");
	assert_null(v.rule->owner);
	policy_free(p);
}

struct suggest_case {
	const char *question;
	const char *rule;
};

static const struct suggest_case suggest_cases[] = {
	{"GET https://a.test/v1/x", "a.test /v1/x"},
	{"HEAD https://a.test/", "a.test /"},
	{"POST https://a.test:8443/v1/x?y", "a.test:8443 POST /v1/x"},
	{"GET http://a.test/x", "a.test:80 /x"},
	{"GET http://a.test:8080/x", "a.test:8080 /x scheme=http"},
	{"GET https://a.test:80/x", "a.test:80 /x scheme=https"},
	{"GET https://a.test/@s%2fn", "a.test /@s%2Fn enc-slash=literal"},
	{"GET https://a.test/a**b", "a.test /a*b"},
	{"GET https://a.test/a/**", "a.test /a/*"},
	{"GET https://a.test/**", "a.test /*"},
	{"GET https://a.test/a\"*\"b/\"", "a.test /a*b/*"},
	{"PROPFIND https://a.test/", "a.test PROPFIND /"},
	{"GET http://169.254.169.254/", ""},
	{"get https://a.test/", ""},
	{"G@T https://a.test/", ""},
};

static void a_suggestion_admits_what_it_was_made_for(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(suggest_cases); i++) {
		char rule[512];
		char text[1024];
		policy_setup_ask(suggest_cases[i].question, &ask);
		assert_string_equal(
			policy_suggest(&ask.q, NULL, rule, sizeof(rule)), suggest_cases[i].rule);
		if (rule[0] == '\0')
			continue;
		(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\nallow %s\n", rule);
		struct policy *p = policy_setup(text);
		assert_string_equal(
			code_of(policy_setup_profile(p, NULL), suggest_cases[i].question),
			"allow.rule");
		policy_free(p);
	}
	char cut[8];
	policy_setup_ask("GET https://a.test/v1/x", &ask);
	assert_string_equal(policy_suggest(&ask.q, NULL, cut, sizeof(cut)), "");
	char rule[64];
	ask.q.method = SLICE("CONNECT");
	assert_string_equal(policy_suggest(&ask.q, NULL, rule, sizeof(rule)), "a.test");
	struct cidr opened[] = {{.bits = 8}, {.bits = 128}};
	assert_int_equal(address_parse(SLICE("10.0.0.0"), &opened[0].base), 0);
	assert_int_equal(address_parse(SLICE("fd00::1"), &opened[1].base), 0);
	struct rule nearest = {.allow = true, .addresses = opened, .address_count = 2};
	assert_string_equal(policy_suggest(&ask.q, &nearest, rule, sizeof(rule)),
		"a.test addr=10.0.0.0/8,fd00::1/128");
	assert_string_equal(policy_suggest(&ask.q, &nearest, cut, sizeof(cut)), "a.test");
	ask.q.unread = true; /* a port of the web: no protocol of its own */
	assert_string_equal(policy_suggest(&ask.q, NULL, rule, sizeof(rule)), "a.test");
	ask.q.port = 22;
	assert_string_equal(policy_suggest(&ask.q, NULL, rule, sizeof(rule)), "tcp a.test:22");
	ask.q.port = 443;
	ask.q.unread = false;
	nearest.allow = false;
	assert_string_equal(policy_suggest(&ask.q, &nearest, rule, sizeof(rule)), "a.test");
	ask.q.method = (struct slice){NULL, 0};
	ask.q.path = (struct slice){NULL, 0};
	assert_string_equal(policy_suggest(&ask.q, NULL, rule, sizeof(rule)), "a.test");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_specification_holds),
		cmocka_unit_test(a_profile_is_found_by_name_or_alone),
		cmocka_unit_test(use_narrows_copies_and_leaves_the_group_alone),
		cmocka_unit_test(a_profile_has_what_it_extends),
		cmocka_unit_test(expect_lines_of_a_group_are_judged_by_the_group),
		cmocka_unit_test(defaults_do_not_narrow_a_deny_rule),
		cmocka_unit_test(a_writing_rule_takes_a_small_body),
		cmocka_unit_test(a_digest_names_what_is_decided),
		cmocka_unit_test(what_rules_open_is_listed_once),
		cmocka_unit_test(an_address_is_public_or_opened),
		cmocka_unit_test(an_address_list_that_opens_nothing_is_a_warning),
		cmocka_unit_test(an_expect_line_that_every_policy_passes_is_a_warning),
		cmocka_unit_test(the_words_of_a_rule_survive),
		cmocka_unit_test(a_suggestion_admits_what_it_was_made_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
