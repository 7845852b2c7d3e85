/* What a result says of denied and failed requests: which rule, why, and what to write where. */
#include "tests/unit/cmocka_setup.h"

#include "sandbox-launcher/result.h"

#include <stdlib.h>
#include <string.h>

static char *text(const char *s)
{
	char *copy = strdup(s);
	assert_non_null(copy);
	return copy;
}

static struct audit_denial *one(struct audit_denial denial)
{
	struct audit_denial *d = calloc(1, sizeof(*d));
	assert_non_null(d);
	*d = denial;
	d->method = text("GET");
	d->host = text("data.example.com");
	d->path = text("/v2");
	d->port = 443;
	d->count = 1;
	return d;
}

static struct result network_result(void)
{
	struct result r = {.exit_code = 0, .has_network = true};
	r.profile = text("research");
	r.audit_path = text("/var/log/eclusa/x.jsonl");
	return r;
}

static struct result denied(const char *place)
{
	struct result r = network_result();
	r.network.denied = 1;
	r.network.denial_count = 1;
	r.network.denials = one((struct audit_denial){.reason = text("deny.path"),
		.detail = text("path /v2 is outside GET /v1/**"),
		.rule_place = place == NULL ? NULL : text(place),
		.suggestion = text("data.example.com /v2")});
	return r;
}

static void says(
	const struct result *r, const struct spec *spec, const char *const *parts, bool json)
{
	struct buf out;
	buf_init(&out, 1 << 20);
	if (json)
		assert_int_equal(result_json(r, spec, &out), 0);
	else
		result_text(r, spec, &out);
	assert_int_equal(buf_append(&out, (struct slice){"", 1}), 0);
	for (size_t i = 0; parts[i] != NULL; i++)
		if (strstr(buf_slice(&out).ptr, parts[i]) == NULL)
			fail_msg("no '%s' in: %s", parts[i], buf_slice(&out).ptr);
	buf_fini(&out);
}

static void a_denial_names_its_rule_and_the_option_that_admits_it(void **state)
{
	(void)state;
	static const char *const line[] = {
		"eclusa: denied GET data.example.com:443/v2: deny.path: path /v2 is outside GET "
		"/v1/** (--allow:1); --allow 'data.example.com /v2' admits it\n",
		"eclusa: audit log: /var/log/eclusa/x.jsonl\n", NULL};
	static const char *const json[] = {
		"\"allow\":\"data.example.com /v2\",\"hint\":\"--allow 'data.example.com /v2' admits it\",\"count\":1",
		"\"audit\":\"/var/log/eclusa/x.jsonl\"", NULL};
	struct spec spec = {0};
	struct result r = denied("--allow:1");
	says(&r, &spec, line, false);
	says(&r, &spec, json, true);
	result_fini(&r);
}

static void under_a_policy_the_rule_goes_into_its_file(void **state)
{
	(void)state;
	static const struct {
		const char *place;
		bool folder;
		const char *line[2], *json[4];
	} cases[] = {
		{NULL, true, {"; in lists, [profile research]: allow data.example.com /v2\n", NULL},
			{"\"allow\":\"data.example.com /v2\"", "\"allow_file\":\"lists\"",
				"\"allow_profile\":\"research\"", NULL}},
		{"lists/a.allow:7", true,
			{"(lists/a.allow:7); in lists/a.allow, [profile research]: allow ", NULL},
			{"\"allow_file\":\"lists/a.allow\"", NULL}},
		{"included.allow:7", false, {"(included.allow:7); in lists, [profile ", NULL},
			{"\"allow_file\":\"lists\"", NULL}}};
	struct spec spec = {.policy = (char *)"lists"};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct result r = denied(cases[i].place);
		r.policy_folder = cases[i].folder;
		says(&r, &spec, cases[i].line, false);
		says(&r, &spec, cases[i].json, true);
		result_fini(&r);
	}
}

static void a_failure_says_why(void **state)
{
	(void)state;
	static const char *const line[] = {
		"eclusa: failed GET data.example.com:443/v2: error.upstream: the name has no address\n",
		"eclusa: audit log: ", NULL};
	static const char *const json[] = {
		"\"failures\":[{\"reason\":\"error.upstream\",\"detail\":\"the name has no address\"",
		NULL};
	struct spec spec = {0};
	struct result r = network_result();
	r.network.allowed = r.network.failed = 1;
	r.network.failure_count = 1;
	r.network.failures = one((struct audit_denial){
		.reason = text("error.upstream"), .detail = text("the name has no address")});
	says(&r, &spec, line, false);
	says(&r, &spec, json, true);
	result_fini(&r);
}

static void errors_beyond_the_limit_are_counted(void **state)
{
	(void)state;
	static const char *const line[] = {"eclusa: error 63\neclusa: and 6 more of these\n", NULL};
	static const char *const json[] = {"\"errors_left_out\":6", NULL};
	struct spec spec = {0};
	struct result r = {0};
	for (int i = 0; i < RESULT_ERRORS_MAX + 6; i++)
		result_error(&r, "error %d", i);
	says(&r, &spec, line, false);
	says(&r, &spec, json, true);
	result_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_denial_names_its_rule_and_the_option_that_admits_it),
		cmocka_unit_test(under_a_policy_the_rule_goes_into_its_file),
		cmocka_unit_test(a_failure_says_why),
		cmocka_unit_test(errors_beyond_the_limit_are_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
