/* What the caller names for the proxy is looked at before anything starts. */
#include "tests/unit/cmocka_setup.h"

#include "common/upstream.h"

#include <errno.h>

static void a_certificate_is_known_by_its_first_line(void **state)
{
	(void)state;
	assert_true(upstream_has_certificate(SLICE("-----BEGIN CERTIFICATE-----\nxx")));
	assert_true(upstream_has_certificate(SLICE("# Lab\n\n-----BEGIN CERTIFICATE-----")));
	assert_false(upstream_has_certificate(SLICE("")));
	assert_false(upstream_has_certificate(SLICE("import os\n")));
	assert_false(upstream_has_certificate(SLICE("-----BEGIN PRIVATE KEY-----\n")));
}

static void a_line_of_hosts_has_an_address_and_a_name(void **state)
{
	(void)state;
	assert_true(upstream_has_host(SLICE("203.0.113.5 data.example.com\n")));
	assert_true(upstream_has_host(SLICE("# lab\n\n 2001:db8::1\ta.test b.test # x")));
	assert_false(upstream_has_host(SLICE("")));
	assert_false(upstream_has_host(SLICE("203.0.113.5\n")));
	assert_false(upstream_has_host(SLICE("203.0.113.5 # data.example.com\n")));
	assert_false(upstream_has_host(SLICE("data.example.com 203.0.113.5\nimport os\n")));
}

static void a_folder_is_no_file_of_either(void **state)
{
	(void)state;
	struct failure why = {0};
	const struct upstream_options ca = {.upstream_ca = "/"};
	const struct upstream_options hosts = {.hosts = "/"};
	assert_int_equal(upstream_check(&ca, &why), -EISDIR);
	assert_non_null(strstr(why.text, "--upstream-ca: /: "));
	why = (struct failure){0};
	assert_int_equal(upstream_check(&hosts, &why), -EISDIR);
	assert_non_null(strstr(why.text, "--hosts: /: "));
	const struct upstream_options absent = {.hosts = "/nonexistent"};
	why = (struct failure){0};
	assert_int_equal(upstream_check(&absent, &why), -ENOENT);
	assert_string_equal(why.text, "--hosts: /nonexistent: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_is_known_by_its_first_line),
		cmocka_unit_test(a_line_of_hosts_has_an_address_and_a_name),
		cmocka_unit_test(a_folder_is_no_file_of_either),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
