/* What a run was asked to be: the same meaning from options and from JSON, and one line for each mistake. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/service.h"
#include "sandbox-launcher/layer.h"
#include "sandbox-launcher/spec.h"

#include <stdio.h>
#include <string.h>

static int set(struct spec *s, const char *name, const char *value, struct failure *why)
{
	const struct spec_option *o = spec_option_named(slice_of(name));
	assert_non_null(o);
	return spec_set(s, o, value, why);
}

static void defaults_are_those_of_the_manual(void **state)
{
	(void)state;
	struct spec s;
	spec_init(&s);
	assert_true(s.memory_bytes == 512u << 20 && s.out_limit_bytes == 64u << 20);
	assert_true(s.output_limit_bytes == 1u << 20 && s.timeout_ns == 15 * NS_PER_SEC);
	assert_true(s.cpu_time_ns == 15 * NS_PER_SEC);
	assert_int_equal(s.cpu_milli, 1000);
	assert_int_equal(s.pids_limit, 64);
	assert_false(s.json || s.interactive || s.quiet || s.overwrite);
	spec_fini(&s);
}

static void sizes_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int result;
		uint64_t bytes;
	} cases[] = {{"0", 0, 0}, {"512", 0, 512}, {"1K", 0, 1024}, {"64M", 0, 64u << 20},
		{"2g", 0, 2ull << 30}, {"1T", 0, 1ull << 40}, {"", -EINVAL, 0}, {"M", -EINVAL, 0},
		{"1MB", -EINVAL, 0}, {"-1", -EINVAL, 0}, {"1.5M", -EINVAL, 0},
		{"18446744073709551615", 0, UINT64_MAX}, {"18446744073709551616", -EINVAL, 0},
		{"18014398509481984K", -EINVAL, 0}, {" 1", -EINVAL, 0}, {"0x10", -EINVAL, 0}};
	for (size_t i = 0; i < array_size(cases); i++) {
		uint64_t bytes = 77;
		assert_int_equal(spec_parse_size(slice_of(cases[i].text), &bytes), cases[i].result);
		assert_true(bytes == (cases[i].result == 0 ? cases[i].bytes : 77));
	}
}

static void times_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int result;
		uint64_t ms;
	} cases[] = {{"15s", 0, 15000}, {"15", 0, 15000}, {"200ms", 0, 200}, {"2m", 0, 120000},
		{"1h", 0, 3600000}, {"1.5s", 0, 1500}, {"0.25", 0, 250}, {"1.5ms", -EINVAL, 0},
		{"", -EINVAL, 0}, {"s", -EINVAL, 0}, {"-1s", -EINVAL, 0}, {"1d", -EINVAL, 0},
		{"8000h", -EINVAL, 0}, {"1e3", -EINVAL, 0}};
	for (size_t i = 0; i < array_size(cases); i++) {
		uint64_t ns = 0;
		assert_int_equal(spec_parse_time(slice_of(cases[i].text), &ns), cases[i].result);
		assert_true(ns == cases[i].ms * NS_PER_MS);
	}
}

static void inputs_are_named(void **state)
{
	(void)state;
	static const struct {
		const char *text, *source, *name;
	} cases[] = {{"a.py", "a.py", "a.py"}, {"/x/a.py", "/x/a.py", "a.py"},
		{"dir/", "dir", "dir"}, {"a:b", "a", "b"}, {"/x/a:b.csv", "/x/a", "b.csv"},
		{"a:b:c", "a:b", "c"}, {"a:", NULL, NULL}, {":b", NULL, NULL},
		{"a:b/c", NULL, NULL}, {"a:..", NULL, NULL}, {"a:.", NULL, NULL}, {"/", NULL, NULL},
		{"..", NULL, NULL}, {"", NULL, NULL}};
	for (size_t i = 0; i < array_size(cases); i++) {
		auto_free char *source = NULL;
		char name[SPEC_NAME_BYTES];
		struct failure why = {0};
		int r = spec_input(cases[i].text, &source, name, &why);
		if (cases[i].source == NULL) {
			assert_int_equal(r, -EINVAL);
			assert_non_null(strstr(why.text, "--in"));
			continue;
		}
		assert_int_equal(r, 0);
		assert_string_equal(source, cases[i].source);
		assert_string_equal(name, cases[i].name);
	}
}

static void a_name_of_the_longest_length_fits_and_one_more_does_not(void **state)
{
	(void)state;
	char text[SPEC_NAME_BYTES + 8];
	memset(text, 'x', sizeof(text));
	for (size_t len = SPEC_NAME_BYTES - 1; len <= SPEC_NAME_BYTES; len++) {
		auto_free char *source = NULL;
		char name[SPEC_NAME_BYTES];
		text[len] = '\0';
		assert_int_equal(
			spec_input(text, &source, name, NULL), len < SPEC_NAME_BYTES ? 0 : -EINVAL);
		text[len] = 'x';
	}
}

static void wrong_values_name_their_option(void **state)
{
	(void)state;
	static const char *const cases[][2] = {{"memory", "x"}, {"memory", "1M"}, {"cpus", "0"},
		{"cpus", "one"}, {"pids-limit", "0"}, {"pids-limit", "32769"}, {"timeout", "0"},
		{"timeout", "soon"}, {"cpu-time", ""}, {"output-limit", "2G"}, {"out-limit", "1"},
		{"require", "luck"}, {"env", "1A=2"}, {"env", "A B"}, {"env", "=x"}, {"in", ":x"},
		{"out", ""}, {"policy", ""}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct spec s;
		struct failure why = {0};
		spec_init(&s);
		assert_true(set(&s, cases[i][0], cases[i][1], &why) < 0);
		assert_non_null(strstr(why.text, cases[i][0]));
		assert_null(strchr(why.text, '\n'));
		spec_fini(&s);
	}
}

static void a_value_is_set_once(void **state)
{
	(void)state;
	static const char *const cases[][2] = {{"policy", "p"}, {"out", "o"}, {"audit-dir", "a"},
		{"memory", "64M"}, {"timeout", "1s"}, {"require", "cgroup"}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct spec s;
		struct failure why = {0};
		spec_init(&s);
		assert_int_equal(set(&s, cases[i][0], cases[i][1], &why), 0);
		assert_int_equal(set(&s, cases[i][0], cases[i][1], &why), -EINVAL);
		assert_non_null(strstr(why.text, "given twice"));
		spec_fini(&s);
	}
	struct spec s;
	spec_init(&s);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(set(&s, "quiet", NULL, NULL), 0);
		assert_int_equal(set(&s, "allow", "a.test", NULL), 0);
	}
	spec_fini(&s);
}

static void a_wrong_value_is_answered_with_what_is_right(void **state)
{
	(void)state;
	static const char *const cases[][3] = {{"memory", "1M", "outside 4M to 64T"},
		{"timeout", "200h", "from 1ms to 168h"}, {"cpus", "2000", "from 0.01 to 1024"},
		{"pids-limit", "0", "from 1 to 32768"}, {"in", ".", "--in .:src"},
		{"in", "..", "--in ..:src"}, {"in", "f.py:", "'f.py:'"}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct spec s;
		struct failure why = {0};
		spec_init(&s);
		assert_int_equal(set(&s, cases[i][0], cases[i][1], &why), -EINVAL);
		assert_non_null(strstr(why.text, cases[i][2]));
		spec_fini(&s);
	}
}

static void two_inputs_of_one_name_are_refused(void **state)
{
	(void)state;
	struct spec s;
	struct failure why = {0};
	spec_init(&s);
	assert_int_equal(set(&s, "in", "/a/x", &why), 0);
	assert_int_equal(set(&s, "in", "/b/y:x", &why), -EEXIST);
	spec_fini(&s);
}

static void the_whole_is_checked(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"{}", "no program"},
		{"{\"argv\":[\"\"]}", "empty"},
		{"{\"argv\":[\"a\"],\"policy\":\"p\",\"allow\":[\"h\"]}", "together"},
		{"{\"argv\":[\"a\"],\"profile\":\"p\"}", "--policy"},
		{"{\"argv\":[\"a\"],\"overwrite\":true}", "--out"},
		{"{\"argv\":[\"a\"],\"resolver\":\"127.0.0.1:53\"}", "--allow"},
		{"{\"argv\":[\"a\"],\"stdin\":\"x\",\"interactive\":true}", "stdin"},
		{"{\"argv\":[\"a\"]}", NULL},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct spec s;
		struct failure why = {0};
		spec_init(&s);
		assert_int_equal(spec_json_read(&s, slice_of(cases[i][0]), &why), 0);
		int r = spec_check(&s, &why);
		assert_int_equal(r, cases[i][1] == NULL ? 0 : -EINVAL);
		if (cases[i][1] != NULL)
			assert_non_null(strstr(why.text, cases[i][1]));
		spec_fini(&s);
	}
}

/** Each refusal has a twin: the same option beside another one, or the service beside what is not its own. */
static void what_a_service_decides_is_not_said_beside_it(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"\"policy\":\"p\"", "--policy"},
		{"\"allow\":[\"a.test\"]", "--allow"},
		{"\"policy\":\"p\",\"trust\":[\"k.pem\"]", "--policy"},
		{"\"audit_dir\":\"/a\"", "--audit-dir"},
		{"\"upstream_ca\":\"/c\"", "--upstream-ca"},
		{"\"upstream_proxy\":\"http://a.test:1\"", "--upstream-proxy"},
		{"\"upstream_proxy_auth\":\"/f\"", "--upstream-proxy-auth"},
		{"\"upstream_proxy_by_name\":true", "--upstream-proxy-by-name"},
		{"\"resolver\":\"127.0.0.1:53\"", "--resolver"},
		{"\"hosts\":\"/h\"", "--hosts"},
		{"\"profile\":\"p\"", NULL},
		{"\"memory\":\"64M\",\"out\":\"o\"", NULL},
	};
	static const char *const services[] = {"true", "\"/run/s\"", "false"};
	for (size_t i = 0; i < array_size(cases); i++) {
		for (size_t k = 0; k < array_size(services); k++) {
			struct spec s;
			struct failure why = {0};
			char document[256];
			spec_init(&s);
			(void)snprintf(document, sizeof(document),
				"{\"argv\":[\"a\"],\"service\":%s,%s}", services[k], cases[i][0]);
			assert_int_equal(spec_json_read(&s, slice_of(document), &why), 0);
			int r = spec_check(&s, &why);
			bool given = k < 2, ours = given && cases[i][1] != NULL;
			if (ours && (r != -EINVAL || strstr(why.text, cases[i][1]) == NULL))
				fail_msg("%s: %d %s", document, r, why.text);
			if (given && !ours && r != 0)
				fail_msg("%s: %d %s", document, r, why.text);
			if (!given && strstr(why.text, "the service decides that") != NULL)
				fail_msg("%s: %s", document, why.text);
			spec_fini(&s);
		}
	}
}

static void a_service_has_one_socket(void **state)
{
	(void)state;
	struct spec s;
	struct failure why = {0};
	spec_init(&s);
	assert_int_equal(set(&s, "service", NULL, &why), 0);
	assert_string_equal(s.service, SERVICE_SOCKET);
	assert_int_equal(set(&s, "service", "/run/s", &why), -EINVAL);
	assert_non_null(strstr(why.text, "given twice"));
	spec_fini(&s);
	spec_init(&s);
	assert_int_equal(set(&s, "service", "/run/s", &why), 0);
	assert_string_equal(s.service, "/run/s");
	spec_fini(&s);
	spec_init(&s);
	assert_true(set(&s, "service", "", &why) < 0);
	assert_non_null(strstr(why.text, "--service"));
	spec_fini(&s);
}

static void json_means_what_options_mean(void **state)
{
	(void)state;
	static const char document[] =
		"{\"argv\":[\"python3\",\"-\"],\"stdin\":\"a\\u0000b\",\"in\":[\"x.csv\"],\"env\":{\"A\":\"1\"},"
		"\"allow\":[\"data.example.com\"],\"memory\":\"64M\",\"cpus\":1.5,\"timeout\":2,\"cpu_time\":\"200ms\","
		"\"pids_limit\":7,\"out\":\"o\",\"overwrite\":true,\"quiet\":false}";
	struct spec s;
	struct failure why = {0};
	spec_init(&s);
	assert_int_equal(spec_json_read(&s, SLICE(document), &why), 0);
	assert_int_equal(s.argv.count, 2);
	assert_string_equal(s.argv.items[1], "-");
	assert_int_equal(s.stdin_len, 3);
	assert_memory_equal(s.stdin_text, "a\0b", 3);
	assert_string_equal(s.env.items[0], "A=1");
	assert_string_equal(s.allow.items[0], "data.example.com");
	assert_true(s.memory_bytes == 64u << 20 && s.timeout_ns == 2 * NS_PER_SEC);
	assert_true(s.cpu_time_ns == 200 * NS_PER_MS);
	assert_int_equal(s.cpu_milli, 1500);
	assert_int_equal(s.pids_limit, 7);
	assert_true(s.overwrite && !s.quiet);
	assert_int_equal(spec_check(&s, &why), 0);
	spec_fini(&s);
}

static void json_is_refused_rather_than_guessed(void **state)
{
	(void)state;
	static const char *const cases[] = {"", "[]", "1", "{", "{\"argv\":\"a\"}", "{\"argv\":[]}",
		"{\"argv\":[1]}", "{\"argv\":[\"a\\u0000b\"]}",
		"{\"argv\":[\"a\"],\"argv\":[\"b\"]}", "{\"argv\":[\"a\"],\"unknown\":1}",
		"{\"pids-limit\":1}", "{\"memory\":true}", "{\"memory\":[\"1G\"]}",
		"{\"memory\":\"64M\\u0000\"}", "{\"json\":1}", "{\"in\":\"x\"}", "{\"in\":[1]}",
		"{\"env\":{\"A=B\":\"1\"}}", "{\"env\":{\"A\":1}}", "{\"stdin\":1}",
		"{\"argv\":[\"a\"]} x", "{\"cpus\":1e300}", "{\"timeout\":-1}", "{\"spec\":\"-\"}"};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct spec s;
		struct failure why = {0};
		spec_init(&s);
		assert_true(spec_json_read(&s, slice_of(cases[i]), &why) < 0);
		assert_non_null(strstr(why.text, "--"));
		assert_null(strchr(why.text, '\n'));
		spec_fini(&s);
	}
}

static void json_does_not_override_the_command_line(void **state)
{
	(void)state;
	struct spec s;
	struct failure why = {0};
	spec_init(&s);
	assert_int_equal(set(&s, "memory", "64M", &why), 0);
	assert_int_equal(spec_json_read(&s, SLICE("{\"memory\":\"1G\"}"), &why), -EINVAL);
	assert_true(s.memory_bytes == 64u << 20);
	spec_fini(&s);
}

static void places_are_absolute_and_in_normal_form(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int result;
		const char *source, *path;
		bool writable;
	} cases[] = {{"/a:/b", 0, "/a", "/b", false}, {"a:/b/c:rw", 0, "a", "/b/c", true},
		{"a:b:/c:ro", 0, "a:b", "/c", false}, {"a:/rw", 0, "a", "/rw", false},
		{"a:/b:rx", -EINVAL, NULL, NULL, false}, {"a", -EINVAL, NULL, NULL, false},
		{":/b", -EINVAL, NULL, NULL, false}, {"a:", -EINVAL, NULL, NULL, false},
		{"a:/", -EINVAL, NULL, NULL, false}, {"a:/b/", -EINVAL, NULL, NULL, false},
		{"a:/b//c", -EINVAL, NULL, NULL, false}, {"a:/b/./c", -EINVAL, NULL, NULL, false},
		{"a:/b/../c", -EINVAL, NULL, NULL, false}, {"a:/..b", -EINVAL, NULL, NULL, false},
		{"a:/proc/x", -EINVAL, NULL, NULL, false}, {"a:/procs", 0, "a", "/procs", false},
		{"a:/out", -EINVAL, NULL, NULL, false}, {"a:/home", -EINVAL, NULL, NULL, false},
		{"a:/home/sandbox", 0, "a", "/home/sandbox", false}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct spec_bind bind = {0};
		struct failure why = {0};
		int r = spec_bind(cases[i].text, &bind, &why);
		if (r != cases[i].result)
			fail_msg("%s: %d %s", cases[i].text, r, why.text);
		if (r == 0) {
			assert_string_equal(bind.source, cases[i].source);
			assert_string_equal(bind.path, cases[i].path);
			assert_int_equal(bind.writable, cases[i].writable);
		}
		free(bind.source);
	}
}

static void layers_are_named(void **state)
{
	(void)state;
	struct slice unknown;
	uint32_t set = 7;
	char text[256];
	assert_int_equal(layers_parse(SLICE("cgroup,uid"), &set, &unknown), 0);
	assert_int_equal(set, LAYER_BIT(LAYER_CGROUP) | LAYER_BIT(LAYER_UID));
	assert_string_equal(layers_text(set, text, sizeof(text)), "cgroup, uid");
	assert_int_equal(layers_parse(SLICE("all"), &set, &unknown), 0);
	assert_int_equal(set, LAYERS_ALL);
	static const char *const wrong[] = {"", "cgroup,", ",uid", "cgroups", "all,none"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		set = 7;
		assert_int_equal(layers_parse(slice_of(wrong[i]), &set, &unknown), -EINVAL);
		assert_int_equal(set, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_manual),
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(inputs_are_named),
		cmocka_unit_test(places_are_absolute_and_in_normal_form),
		cmocka_unit_test(layers_are_named),
		cmocka_unit_test(a_name_of_the_longest_length_fits_and_one_more_does_not),
		cmocka_unit_test(wrong_values_name_their_option),
		cmocka_unit_test(a_value_is_set_once),
		cmocka_unit_test(a_wrong_value_is_answered_with_what_is_right),
		cmocka_unit_test(two_inputs_of_one_name_are_refused),
		cmocka_unit_test(the_whole_is_checked),
		cmocka_unit_test(what_a_service_decides_is_not_said_beside_it),
		cmocka_unit_test(a_service_has_one_socket),
		cmocka_unit_test(json_means_what_options_mean),
		cmocka_unit_test(json_is_refused_rather_than_guessed),
		cmocka_unit_test(json_does_not_override_the_command_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
