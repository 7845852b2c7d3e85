/* What npm, pip and apt answer, into rules: as narrow as the client is, and without the passwords that addresses may hold. */
#include "tests/unit/cmocka_setup.h"

#include "cli/import_url.h"
#include "tests/unit/import_setup.h"

#include "common/cleanup.h"

#include <stdio.h>

static void check(import_from *from, const char *answer, size_t left_out, bool refused,
	const char *const *wanted)
{
	struct import im = {.profile = "p"};
	from(&im, "tool", slice_of(answer));
	if (from == import_pip_config ||
		from == import_pip_report) { /* they go on in an open profile */
		import_fini(&im);
		im = (struct import){.profile = "p"};
		import_profile(&im, "p");
		from(&im, "tool", slice_of(answer));
	}
	auto_free char *text = slice_dup(buf_slice(&im.text));
	if (im.left_out != left_out || im.refused != refused)
		fail_msg("%s: left out %zu: %.*s", answer, im.left_out, (int)buf_len(&im.said),
			buf_slice(&im.said).ptr);
	for (; *wanted != NULL; wanted++) {
		bool not = **wanted == '!';
		if ((strstr(text, *wanted + not ) != NULL) == not )
			fail_msg("%s in\n%s", *wanted, text);
	}
	if (!refused)
		policy_free(import_compile(&im)); /* its expect lines hold, too */
	assert_null(strstr(text, "secret"));
	import_fini(&im);
}

static void urls_are_taken_apart_strictly(void **state)
{
	static const struct {
		const char *text, *again; /* NULL: refused */
	} cases[] = {
		{"https://a.test/", "https://a.test"},
		{"https://A.test:443/x/y//", "https://a.test/x/y"},
		{"http://a.test:80", "http://a.test"},
		{"http://a.test:8080/x", "http://a.test:8080/x"},
		{"https://a.test:80/", "https://a.test:80"},
		{"https://user:secret@a.test/x", "https://a.test/x"},
		{"https://user:secret@with@a.test/x", "https://a.test/x"},
		{"https://[2001:db8::1]:8443/x", "https://2001:db8::1:8443/x"},
		{"ftp://a.test/", NULL},
		{"a.test", NULL},
		{"https://", NULL},
		{"https://a.test:0/", NULL},
		{"https://a..test/", NULL},
		{"https://a.test/x*", NULL},
		{"https://a.test/x?y", NULL},
		{"https://a.test/x y", NULL},
		{"https://a.test/x%2fy", NULL},
		{"https://a.test/x/../y", NULL},
		{"https://a.test/./x", NULL},
		{"https://a.test/x..y/.z", "https://a.test/x..y/.z"},
		{"https://a.test/\xc3\xa9", NULL},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		struct import_url u;
		char again[256];
		const char *wrong = import_url_parse(slice_of(cases[i].text), &u);
		if ((wrong == NULL) != (cases[i].again != NULL))
			fail_msg("%s: %s", cases[i].text, wrong);
		if (wrong == NULL)
			assert_string_equal(
				import_url_format(&u, again, sizeof(again)), cases[i].again);
	}
}

static void registries_of_npm(void **state)
{
	(void)state;
	check(import_npm,
		"{\"registry\":\"https://npm.test/\",\"@s:registry\":\"https://u:secret@own.test:8443/npm/\",\"x\":1}",
		0, false,
		(const char *const[]){
			"allow npm.test GET,HEAD /** enc-slash=literal query=deny id=npm-1",
			"allow own.test:8443 GET,HEAD /npm/** enc-slash=literal query=deny id=npm-2",
			"# tool: registry", "# tool: @s:registry",
			"expect allow GET https://npm.test/@scope%2fname",
			"expect deny PUT https://own.test:8443/npm/left-pad",
			"npm audit is not imported", NULL});
	check(import_npm,
		"{\"registry\":\"https://npm.test/\",\"@s:registry\":\"https://npm.test\"}", 0,
		false,
		(const char *const[]){"# tool: @s:registry: the same registry", "!npm-2", NULL});
	check(import_npm, "{\"registry\":\"http://npm.test:4873/\"}", 0, false,
		(const char *const[]){"allow npm.test:4873 GET,HEAD /** scheme=http ", NULL});
	check(import_npm, "{\"registry\":\"http://npm.test/\"}", 0, false,
		(const char *const[]){"allow npm.test:80 GET,HEAD /** enc", NULL});
	check(import_npm, "{\"registry\":\"https://192.0.2.1/\"}", 1, false,
		(const char *const[]){"!allow 192", NULL});
	check(import_npm, "{\"registry\":7}", 0, false, (const char *const[]){"!allow", NULL});
	check(import_npm, "npm ERR!", 0, true, (const char *const[]){NULL});
	check(import_npm, "{\"registry\":\"https://npm.test/x y\"}", 1, false,
		(const char *const[]){"!\nallow", NULL});
}

static void indexes_of_pip(void **state)
{
	(void)state;
	check(import_pip_help,
		"  -i, --index-url <url>       Base URL of the Package Index (default\n"
		"                              https://u:****@index.test/a/\n                              simple). This should\n"
		"  --extra-index-url <url>  x (default y)\n",
		0, false,
		(const char *const[]){
			"allow index.test GET,HEAD /a/simple/** query=deny id=pip-index",
			"expect allow GET https://index.test/a/simple/requests/", "--online",
			"!****", NULL});
	check(import_pip_help, "usage: pip\n", 0, true, (const char *const[]){NULL});
	check(import_pip_help, "--index-url <url> (default file:///x)", 1, false,
		(const char *const[]){"!\nallow", NULL});
	check(import_pip_config,
		"global.index-url='https://not.test/simple'\n"
		"global.extra-index-url='https://u:secret@b.test/simple https://c.test/s'\n"
		"install.extra-index-url='\\nhttps://d.test/simple\\nhttps://e.test/simple'\nglobal.no-index='true'\n"
		":env:.find-links='/opt/wheels'\n",
		0, false,
		(const char *const[]){"allow b.test GET,HEAD /simple/** query=deny id=pip-index-2",
			"allow c.test GET,HEAD /s/** query=deny id=pip-index-3", "allow d.test",
			"allow e.test", "id=pip-index-5", "pip asks no index", "!not.test", NULL});
	check(import_pip_config,
		"global.extra-index-url='https://b.test/simple'\n:env:.extra-index-url='https://b.test/simple/'\n",
		0, false,
		(const char *const[]){
			"# tool: :env:.extra-index-url: the same index", "!pip-index-3", NULL});
	check(import_pip_config, "global.find-links='https://links.test/x'\n", 1, false,
		(const char *const[]){"!\nallow", NULL});
	check(import_pip_report,
		"{\"install\":[{\"download_info\":{\"url\":\"https://files.test/packages/ab/cd/pip-1-py3-none-any.whl\"}}]}",
		0, false,
		(const char *const[]){
			"allow files.test GET,HEAD /packages/** query=deny id=pip-files", NULL});
	check(import_pip_report,
		"{\"install\":[{\"download_info\":{\"url\":\"https://files.test/pip.whl\"}}]}", 0,
		false, (const char *const[]){"allow files.test GET,HEAD /** ", NULL});
	check(import_pip_report, "{\"install\":[]}", 1, false,
		(const char *const[]){"!\nallow", NULL});
}

static void repositories_of_apt(void **state)
{
	(void)state;
	check(import_apt,
		"http://deb.test/debian/ yes /etc/apt/sources.list:1\nhttp://deb.test/debian/ yes /etc/apt/sources.list:1\n"
		"https://own.test/apt/ yes /etc/apt/own.list:3\nhttp://bad.test/ no /etc/apt/bad.list:1\n",
		0, false,
		(const char *const[]){
			"allow deb.test:80 GET,HEAD /debian/** query=deny id=apt-1 note=\"apt verifies",
			"allow own.test GET,HEAD /apt/** query=deny id=apt-2 \n",
			"allow bad.test:80 GET,HEAD /** query=deny id=apt-3 \n",
			"# tool: /etc/apt/own.list:3", "!apt-4", NULL});
	check(import_apt,
		"cdrom:[x]/ yes /etc/apt/sources.list:1\ncdrom:[y]/ yes s:2\nmirror+http://u:secret@m.test/ yes s:3\n",
		2, false,
		(const char *const[]){"not imported: tool: /etc/apt/sources.list:1: cdrom",
			"mirror+http: it is not", NULL});
	check(import_apt, "nonsense\n", 0, true, (const char *const[]){NULL});
	check(import_apt, "", 0, false, (const char *const[]){"!\nallow", NULL});
}

static size_t look_up(const char *name, struct address *to, size_t max)
{
	static const char *const addresses[] = {
		"10.1.2.3", "8.8.8.8", "169.254.169.254", "127.0.0.1", "fd00::1"};
	if (strcmp(name, "npm.test") != 0 || max < array_size(addresses))
		return 0;
	for (size_t i = 0; i < array_size(addresses); i++)
		assert_int_equal(address_parse(slice_of(addresses[i]), &to[i]), 0);
	return array_size(addresses);
}

static void a_mirror_inside_is_opened_and_nothing_worse(void **state)
{
	struct import im = {.profile = "p", .look_up = look_up};
	(void)state;
	import_npm(&im, "tool",
		SLICE("{\"registry\":\"https://npm.test/\",\"@s:registry\":\"https://gone.test\"}"));
	auto_free char *text = slice_dup(buf_slice(&im.text));
	assert_non_null(
		strstr(text, "allow npm.test GET,HEAD /** addr=10.1.2.3/32,fd00::1/128 enc-slash"));
	assert_non_null(strstr(
		text, "npm.test is at 169.254.169.254 (metadata), which an import does not open"));
	assert_non_null(strstr(text, "allow gone.test GET,HEAD /** enc-slash"));
	assert_non_null(strstr(text, "gone.test has no address here"));
	policy_free(import_compile(&im));
	import_fini(&im);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls_are_taken_apart_strictly),
		cmocka_unit_test(registries_of_npm),
		cmocka_unit_test(indexes_of_pip),
		cmocka_unit_test(repositories_of_apt),
		cmocka_unit_test(a_mirror_inside_is_opened_and_nothing_worse),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
