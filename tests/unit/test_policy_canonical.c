#include "tests/unit/policy_setup.h"

#include "policy/canonical.h"

static const char text[] =
	"policy 1\n"
	"defaults owner=\"a team\" ticket=T-1 resp-body=1500\n"
	"deny .paste.test\n"
	"[group g]\n"
	"allow **.G.test.:80,443 HEAD,GET /b /a/* query=deny enc-slash=literal id=g\n"
	"allow w.test POST req-body=2m addr=10.0.0.0/8,fd00::/8 expires=2028-02-29 owner=x=\"y\"\n"
	"[profile p]\n"
	"use g resp-body=1k\n"
	"use g resp-body=1k\n"
	"deny a.test ANY /x scheme=http\n"
	"allow a.test scheme=http\n"
	"allow old.test expires=1970-01-01\n"
	"allow late.test expires=9999-12-31\n";

static const char *const lines[] = {
	"allow **.g.test:80,443 GET,HEAD /a/* /b enc-slash=literal query=deny req-body=0 "
	"resp-body=1k up=1m id=g owner=\"a team\" ticket=T-1",
	"allow a.test:443 GET,HEAD /** scheme=http req-body=0 resp-body=1500 up=1m owner=\"a team\" "
	"ticket=T-1",
	"allow late.test:443 GET,HEAD /** req-body=0 resp-body=1500 up=1m expires=9999-12-31 "
	"owner=\"a team\" ticket=T-1",
	"allow old.test:443 GET,HEAD /** req-body=0 resp-body=1500 up=1m expires=1970-01-01 owner=\"a "
	"team\" ticket=T-1",
	"allow w.test:443 POST /** addr=10.0.0.0/8,fd00::/8 req-body=2m resp-body=1k up=2m "
	"expires=2028-02-29 owner=x=\"y\" ticket=T-1",
	"deny .paste.test ANY /** owner=\"a team\" ticket=T-1",
	"deny a.test ANY /x scheme=http owner=\"a team\" ticket=T-1",
};

static void a_profile_is_shown_in_one_spelling(void **state)
{
	(void)state;
	struct policy *policy = policy_setup(text);
	struct canonical_list list;
	assert_int_equal(canonical_list(policy_setup_profile(policy, "p"), &list), 0);
	assert_int_equal(list.count, array_size(lines));
	for (size_t i = 0; i < list.count; i++)
		assert_string_equal(list.lines[i].text, lines[i]);
	canonical_list_free(&list);
	policy_free(policy);
}

static void the_spelling_loads_again_to_the_same_digest(void **state)
{
	(void)state;
	struct policy *policy = policy_setup(text);
	char shown[4096] = "policy 1\n[profile p]\n";
	size_t at = strlen(shown);
	for (size_t i = 0; i < array_size(lines); i++)
		at += (size_t)snprintf(shown + at, sizeof(shown) - at, "%s\n", lines[i]);
	struct policy *again = policy_setup(shown);
	assert_string_equal(profile_digest(policy_setup_profile(policy, "p")),
		profile_digest(policy_setup_profile(again, "p")));
	policy_free(again);
	policy_free(policy);
}

static void what_a_profile_waits_for_is_inherited_and_in_its_digest(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool before;
	} cases[] = {
		{"policy 1\n[profile p]\nallow a.test\n", false},
		{"policy 1\n[profile p]\nset commit after\nallow a.test\n", false},
		{"policy 1\n[profile p]\nset commit before\nallow a.test\n", true},
		{"policy 1\n[profile p extends q]\nallow a.test\n[profile q]\nset commit before\n",
			true},
		{"policy 1\n[profile p extends q]\nset commit after\nallow a.test\n"
		 "[profile q]\nset commit before\n",
			false},
	};
	char digests[2][DIGEST_TEXT_BYTES] = {"", ""};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct policy *policy = policy_setup(cases[i].text);
		const struct profile *p = policy_setup_profile(policy, "p");
		char *digest = digests[cases[i].before];
		assert_int_equal(profile_commits_before(p), cases[i].before);
		if (digest[0] != '\0')
			assert_string_equal(profile_digest(p), digest);
		memcpy(digest, profile_digest(p), DIGEST_TEXT_BYTES);
		policy_free(policy);
	}
	assert_string_not_equal(digests[0], digests[1]);
}

static void sizes_and_dates_come_back(void **state)
{
	(void)state;
	static const struct {
		uint64_t bytes;
		const char *text;
	} sizes[] = {{0, "0"}, {1023, "1023"}, {1024, "1k"}, {1025, "1025"}, {3 << 20, "3m"},
		{UINT64_C(5) << 30, "5g"}, {UINT64_C(5) << 40, "5120g"}};
	for (size_t i = 0; i < array_size(sizes); i++) {
		struct buf to = {.limit = 0};
		assert_int_equal(canonical_size(sizes[i].bytes, &to), 0);
		assert_true(slice_equal(buf_slice(&to), slice_of(sizes[i].text)));
		buf_fini(&to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_profile_is_shown_in_one_spelling),
		cmocka_unit_test(the_spelling_loads_again_to_the_same_digest),
		cmocka_unit_test(what_a_profile_waits_for_is_inherited_and_in_its_digest),
		cmocka_unit_test(sizes_and_dates_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
