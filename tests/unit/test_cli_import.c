/* Lists of other tools: what each line becomes, what is left out or refused with its place, and that order is kept. */
#include "tests/unit/cmocka_setup.h"

#include "cli/import_list.h"
#include "tests/unit/import_setup.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/** A case: text in; then texts that the policy and the messages must hold, or (with '!') must not. */
struct import_case {
	const char *text;
	size_t left_out;
	bool refused;
	const char *policy[6];
	const char *said[3];
};

static void check_holds(const char *of, const char *text, struct slice whole,
	const char *const *wanted, size_t count)
{
	auto_free char *all = slice_dup(whole);
	for (size_t i = 0; i < count && wanted[i] != NULL; i++) {
		bool not = wanted[i][0] == '!';
		if ((strstr(all, wanted[i] + not ) != NULL) == not )
			fail_msg("of\n%s\n%s: %s\nin\n%s", text, of, wanted[i], all);
	}
}

static int read_named(const char *path, struct buf *to)
{
	return strcmp(path, "more.txt") == 0 ? buf_append_text(to, "# c\n.more.test\n") : -ENOENT;
}

static void check_case(import_from *from, const struct import_case *c)
{
	struct import im = {.profile = "p", .read = read_named};
	from(&im, "f", slice_of(c->text));
	if (im.left_out != c->left_out || im.refused != c->refused)
		fail_msg("of\n%s\nleft out %zu, refused %d: %.*s", c->text, im.left_out, im.refused,
			(int)buf_len(&im.said), buf_slice(&im.said).ptr);
	if (!c->refused) {
		check_holds("policy", c->text, buf_slice(&im.text), c->policy, 6);
		policy_free(import_compile(&im));
	}
	check_holds("said", c->text, buf_slice(&im.said), c->said, 3);
	import_fini(&im);
}

static void a_squid_list_is_names(void **state)
{
	static const struct import_case cases[] = {
		{"# c\n.a.test\nb.test # d\n\n", 0, false,
			{"\nallow .a.test  # f:2\n", "\nallow b.test  # f:3\n",
				"expect allow GET https://a.test/\n", "code=deny.default\n"},
			{"!:"}},
		{"A.Test\r\na.test", 0, false, {"allow a.test  # f:1", "not needed: f:2: a.test"},
			{NULL}},
		{".com\nb.test\n", 1, false,
			{"# not imported: f:1: .com", "allow b.test", "!allow .com"},
			{"f:1: warning: not imported: .com: "}},
		{"192.0.2.1\nx..y\n", 2, false,
			{"# not imported: f:1: 192.0.2.1", "# not imported: f:2: x..y"},
			{"f:1: warning", "f:2: warning"}},
		{"a.test\x01\x1b[2J\n", 1, false, {"!\x1b", "a.test\\x01\\x1b[2J"}, {"!\x1b"}},
		{"\xc3\xa9.test\n", 1, false, {"# not imported: f:1: \\xc3\\xa9.test"}, {NULL}},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++)
		check_case(import_squid, &cases[i]);
}

#define GOOD "acl good dstdomain .a.test\n"
#define BAD  "acl bad dstdomain .x.a.test\n"

static void a_squid_configuration_is_taken_where_it_can_be_said(void **state)
{
	static const struct import_case cases[] = {
		{GOOD "http_access allow good\n", 0, false,
			{"allow .a.test  # f:1", "# f:2: allow good"}, {"!:"}},
		{GOOD BAD "http_access deny bad\nhttp_access allow good\nhttp_access deny all\n", 0,
			false,
			{"deny .x.a.test  # f:2", "allow .a.test  # f:1",
				"expect deny GET https://x.a.test/ code=deny.rule"},
			{NULL}},
		/* the deny never decides */
		{GOOD BAD "http_access allow good\nhttp_access deny bad\nhttp_access deny all\n", 0,
			false, {"# not needed: f:2: .x.a.test: decided by f:1", "!deny ."}, {NULL}},
		/* the allow inside of a deny, and nothing allowed after it */
		{"acl good dstdomain y.x.a.test\n" BAD
		 "http_access allow good\nhttp_access deny bad\nhttp_access deny all\n",
			0, false,
			{"allow y.x.a.test  # f:1", "!deny .x",
				"nothing after it allows any of this"},
			{NULL}},
		/* and with something allowed after it: order can't be kept */
		{"acl inner dstdomain y.x.a.test\n" GOOD BAD
		 "http_access allow inner\nhttp_access deny bad\nhttp_access allow good\nhttp_access deny all\n",
			0, true, {NULL},
			{"f:3: error: nothing was imported: its order matters", "what f:2 allows"}},
		{GOOD "http_access deny good\n", 0, true, {NULL},
			{"f:2: error", "http_access deny all"}},
		{"http_access allow all\n", 0, true, {NULL}, {"it allows everything"}},
		{"http_access deny all\nhttp_access allow all\n", 0, false,
			{"# never: f:2", "!allow any"}, {NULL}},
		{"acl us src 10.0.0.0/8\n" GOOD "http_access allow us good\nhttp_access deny all\n",
			1, false, {"# not imported: f:3", "!allow .a.test"},
			{"f:3: warning: not imported: http_access allow us good"}},
		{"acl us src 10.0.0.0/8\n" GOOD "http_access deny !us\nhttp_access allow good\n", 0,
			true, {NULL}, {"f:3: error: nothing was imported: it denies by"}},
		{"acl ok port 443 80\nacl C method CONNECT\n" GOOD
		 "http_access deny !ok\nhttp_access deny C !ok\nhttp_access deny manager\nhttp_access deny to_localhost\n"
		 "http_access allow ok good\n",
			0, false,
			{"# never: f:4", "# never: f:5", "# never: f:6", "# never: f:7",
				"allow .a.test"},
			{NULL}},
		{"acl ok port 80\n" GOOD "http_access deny !ok\nhttp_access allow good\n", 0, true,
			{NULL}, {"f:3: error"}},
		{"acl ok port 1-65535\n" GOOD "http_access allow !ok good\nhttp_access deny all\n",
			1, false, {"!allow ."}, {"f:3: warning", "other ports than 443"}},
		{GOOD "http_access allow !good\nhttp_access deny all\n", 1, false, {"!allow ."},
			{NULL}},
		{"acl m dstdomain \"more.txt\"\nhttp_access allow m\n", 0, false,
			{"allow .more.test  # more.txt:2"}, {NULL}},
		{"acl m dstdomain \"gone.txt\"\nhttp_access allow m\n", 0, true, {NULL},
			{"f:1: error", "gone.txt: No such file"}},
		{"include x\n" GOOD "http_access allow good\n", 0, true, {NULL}, {"f:1: error"}},
		{GOOD "http_access allow \\\n good\n", 0, true, {NULL}, {"goes on in the next"}},
		{"http_port 3128\n" GOOD "http_access allow good\n", 0, false,
			{"# not about access: f:1: http_port 3128"}, {NULL}},
		{"acl dynamic dstdomain .a.test\nacl dynamic src 10.0.0.0/8\nhttp_access allow dynamic\n",
			1, false, {"!allow ."}, {NULL}},
		{GOOD, 1, false, {"!allow"}, {"there is no such line"}},
		{"acl tld dstdomain .com\n" GOOD
		 "acl c dstdomain c.com\nhttp_access deny tld\nhttp_access allow good\nhttp_access allow c\n",
			1, false, {"allow .a.test", "!allow c.com", "# not needed: f:3: c.com"},
			{NULL}},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++)
		check_case(import_squid, &cases[i]);
}

static void a_hosts_file_only_denies(void **state)
{
	static const struct import_case cases[] = {
		{"127.0.0.1 localhost\n::1 ip6-localhost localhost\n0.0.0.0 a.test b.test # c\n", 0,
			false,
			{"deny a.test  # f:3\n", "deny b.test  # f:3\n", "!localhost", "![profile"},
			{"!:"}},
		{"0.0.0.0\ta.test\n127.0.0.1   b.test\n:: c.test\n", 0, false,
			{"deny a.test", "deny b.test", "deny c.test"}, {NULL}},
		{"203.0.113.9 a.test\n", 1, false, {"# not imported: f:1: a.test", "!\ndeny"},
			{NULL}},
		{"[Adblock Plus 2.0]\n! c\n||a.test^\nb.test\n", 0, false,
			{"deny .a.test  # f:3", "deny b.test  # f:4"}, {NULL}},
		{"||a.test^$third-party\n/x/\n|http://b.test\n*.c.test\n||d.*^\n", 5, false,
			{"!\ndeny"}, {"f:1: warning", "f:2: warning", "f:5: warning"}},
		{"||a.test^\n@@||a.test^\n", 0, false,
			{"!\ndeny", "# an exception: f:2", "# not needed: f:1"}, {NULL}},
		{"||a.test^\n@@||b.a.test^\n", 1, false, {"deny .a.test", "!\nallow"},
			{"f:2: warning", "an exception from a part"}},
		{"@@||a.test^\nb.a.test\n||c.test^\n", 0, false, {"!deny b", "deny .c.test"},
			{NULL}},
		{"||a.test^\nb.a.test\n0.0.0.0 a.test\n", 0, false,
			{"deny .a.test", "!\ndeny b.a.test", "!\ndeny a.test"}, {NULL}},
		{"0.0.0.0 zip\n||com^\n", 1, false, {"deny zip", "# not imported: f:2"}, {NULL}},
		{"a.test b.test\n", 1, false, {"!\ndeny"}, {NULL}},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++)
		check_case(import_hosts, &cases[i]);
}

static void settings_of_srt_are_names_with_ports(void **state)
{
#define NETWORK(text) "{\"network\":{" text "}}"
	static const struct import_case cases[] = {
		{NETWORK("\"allowedDomains\":[\"a.test\",\"*.b.test\",\"c.test:8443\",\"d.test:80\"]"),
			0, false,
			{"allow a.test  # f: network.allowedDomains[0]", "allow **.b.test  #",
				"allow c.test:8443  #", "allow d.test:80  #",
				"expect allow GET http://d.test/\n",
				"expect allow GET https://c.test:8443/\n"},
			{"!:"}},
		{NETWORK("\"allowedDomains\":[\"*.b.test\"],\"deniedDomains\":[\"x.b.test\"]"), 0,
			false, {"deny x.b.test", "allow **.b.test"}, {NULL}},
		{NETWORK("\"allowedDomains\":[\"x.b.test\"],\"deniedDomains\":[\"*.b.test\"]"), 0,
			false,
			{"deny **.b.test", "!allow x.b.test",
				"# not needed: f: network.allowedDomains[0]"},
			{NULL}},
		{NETWORK("\"allowedDomains\":[\"a.test:0\",\"a.test:x\",\"*.com\",\"a.*.test\",\"*\"]"),
			5, false, {"!\nallow"},
			{"f: network.allowedDomains[0]: warning",
				"network.allowedDomains[2]: warning"}},
		{NETWORK("\"allowedDomains\":[],\"allowUnixSockets\":[\"x\"]"), 1, false, {NULL},
			{"allowUnixSockets"}},
		{"{\"network\":{\"allowedDomains\":[]},\"filesystem\":{}}", 0, false,
			{"# not about hosts: f: filesystem"}, {NULL}},
		{NETWORK("\"allowedDomains\":\"a.test\""), 0, true, {NULL}, {"lists of texts"}},
		{NETWORK("\"allowedDomains\":[7]"), 0, true, {NULL},
			{"network.allowedDomains[0]: error"}},
		{NETWORK("\"allowedDomains\":[],\"allowedDomains\":[\"a.test\"]"), 0, true, {NULL},
			{"f:1: error", "stands twice"}},
		{"{}", 0, true, {NULL}, {"no object 'network'"}},
		{"[]", 0, true, {NULL}, {NULL}},
		{"{\n\n", 0, true, {NULL}, {"f:3: error"}},
		{NETWORK("\"allowedDomains\":[\"a.test\\u0000.evil.test\"]"), 0, true, {NULL},
			{NULL}},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++)
		check_case(import_srt, &cases[i]);
}

#define SERVICE(action, names)                                                                     \
	"services:\n- name: web\n  project: us\n  action: " action "\n  allowed_domains: [" names  \
	"]\n"

static void services_of_smokescreen_are_profiles(void **state)
{
	static const struct import_case cases[] = {
		{"version: v1\n" SERVICE("enforce", "a.test, \"*.b.test\""), 0, false,
			{"[profile web]\nset mode enforce\n", "allow a.test  # f:6",
				"allow **.b.test  # f:6", "# f:3: service, project us",
				"code=deny.default"},
			{"!:"}},
		{SERVICE("report", "a.test") "global_deny_list: [b.test]\n", 0, false,
			{"set mode observe", "deny b.test", "!deny.default"}, {NULL}},
		{SERVICE("open", "a.test"), 1, false, {"![profile"},
			{"f:4: warning: not imported: open"}},
		{SERVICE("shout", "a.test"), 1, false, {"![profile"},
			{"an action is open, report or enforce"}},
		{"default:\n  project: x\n  action: enforce\n  allowed_domains: [d.test]\n", 0,
			false, {"[profile default]", "allow d.test"}, {NULL}},
		/* a service's own list comes before the global deny, here a deny comes first */
		{SERVICE("enforce", "a.b.test") "global_deny_list: [\"*.b.test\"]\n", 0, false,
			{"allow a.b.test", "!\ndeny", "nothing after it allows"}, {NULL}},
		{SERVICE("enforce",
			 "a.b.test") "global_deny_list: [\"*.b.test\"]\nglobal_allow_list: [\"*.test.example\", \"c.b.test\"]\n",
			0, false, {"allow a.b.test", "!deny **", "# not needed: f:7: c.b.test"},
			{NULL}},
		{SERVICE("enforce",
			 "a.b.c.test") "global_deny_list: [\"*.b.c.test\"]\nglobal_allow_list: [\"*.c.test\"]\n",
			0, true, {NULL}, {"f:6: error: nothing was imported: its order matters"}},
		{SERVICE("report", "a.b.test") "global_deny_list: [\"*.b.test\"]\n", 0, true,
			{NULL}, {"lets pass what it does not allow"}},
		{SERVICE("enforce", "a.test") "extra: 1\n", 1, false, {"allow a.test"},
			{"f:6: warning: not imported: extra"}},
		{SERVICE("enforce", "a.test") "services: []\n", 0, true, {NULL},
			{"f:6: error", "stands twice"}},
		{"services:\n- name: a b\n  action: enforce\n", 1, false, {"![profile"},
			{"can't be the name of a profile"}},
		{SERVICE("enforce", "*.b.test"), 0, true, {NULL},
			{"quote a name that begins with *"}},
		{"services: &a []\ndefault: *a\n", 0, true, {NULL},
			{"f:1: error", "anchors, aliases and tags"}},
		{"services: !!set {}\n", 0, true, {NULL}, {"anchors, aliases and tags"}},
		{"services: {a: b}\n", 0, true, {NULL}, {"services are a list"}},
		{"services: [", 0, true, {NULL}, {"error"}},
		{"", 0, true, {NULL}, {"one mapping"}},
		{"- a\n", 0, true, {NULL}, {"one mapping"}},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++)
		check_case(import_smokescreen, &cases[i]);
}

/* A naive judge of ordered lists, and lists at random. */

#define NAMES 12
static const char *const names[NAMES] = {"t.test", "a.t.test", "b.t.test", "a.a.t.test",
	"b.a.t.test", "a.b.t.test", "b.b.t.test", "a.a.a.t.test", "b.a.a.t.test", "a.b.a.t.test",
	"u.test", "a.u.test"};

static bool fits(const struct import_host *h, const char *name)
{
	size_t own = strlen(h->name), len = strlen(name);
	if (strcmp(h->name, name) == 0)
		return h->reach != IMPORT_BELOW;
	return h->reach != IMPORT_EXACT && len > own + 1 && name[len - own - 1] == '.' &&
		strcmp(name + len - own, h->name) == 0;
}

static bool first_match(const struct import_host *hosts, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (fits(&hosts[i], name))
			return hosts[i].allow;
	}
	return false;
}

/** @return whether the list could be said; then every name has to get its verdict. */
static bool try_list(struct import_host *hosts, size_t count)
{
	struct import im = {.profile = "p"};
	struct import_list l = {.count = 0};
	import_profile(&im, "p");
	for (size_t i = 0; i < count; i++)
		import_list_add(&im, &l, &hosts[i], slice_of(hosts[i].name));
	import_list_write(&im, &l);
	bool said = !im.refused;
	struct policy *p = said ? import_compile(&im) : NULL;
	for (size_t i = 0; i < NAMES && said; i++) {
		char url[128];
		(void)snprintf(url, sizeof(url), "https://%s/", names[i]);
		if (import_allows(p, "p", url) != first_match(hosts, count, names[i]))
			fail_msg("%s in\n%.*s", names[i], (int)buf_len(&im.text),
				buf_slice(&im.text).ptr);
	}
	policy_free(p);
	import_list_fini(&l);
	import_fini(&im);
	return said;
}

static void what_is_imported_decides_as_the_list_did(void **state)
{
	unsigned seed = (unsigned)time(NULL), said = 0;
	const char *fixed = getenv("SEED");
	(void)state;
	if (fixed != NULL)
		seed = (unsigned)strtoul(fixed, NULL, 10);
	print_message("SEED=%u\n", seed);
	for (int round = 0; round < 2000; round++) {
		struct import_host hosts[6];
		size_t count = 1 + (size_t)rand_r(&seed) % array_size(hosts);
		for (size_t i = 0; i < count; i++)
			hosts[i] = (struct import_host){.allow = rand_r(&seed) % 2 == 0,
				.reach = (enum import_reach)(rand_r(&seed) % 3),
				.name = names[rand_r(&seed) % NAMES],
				.place = "f:1",
				.written = SLICE("x")};
		said += try_list(hosts, count);
	}
	assert_true(said > 1000 && said < 2000); /* neither nothing nor everything */
}

static void more_names_than_rules_are_refused(void **state)
{
	struct buf text = {.limit = 0};
	(void)state;
	for (int i = 0; i < IMPORT_HOSTS_MAX; i++)
		(void)buf_printf(&text, "h%d.test\n", i);
	for (int more = 0; more < 2; more++) {
		struct import im = {.profile = "p"};
		import_squid(&im, "f", buf_slice(&text));
		assert_int_equal(im.refused, more == 1);
		assert_int_equal(more == 1 ? IMPORT_HOSTS_MAX : im.rules, IMPORT_HOSTS_MAX);
		import_fini(&im);
		(void)buf_append_text(&text, "one.test\n");
	}
	buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_squid_list_is_names),
		cmocka_unit_test(a_squid_configuration_is_taken_where_it_can_be_said),
		cmocka_unit_test(a_hosts_file_only_denies),
		cmocka_unit_test(settings_of_srt_are_names_with_ports),
		cmocka_unit_test(services_of_smokescreen_are_profiles),
		cmocka_unit_test(what_is_imported_decides_as_the_list_did),
		cmocka_unit_test(more_names_than_rules_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
