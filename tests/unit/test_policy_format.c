#include "tests/unit/policy_setup.h"

#include "policy/format.h"

#define LONG_WORD "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char *const layouts[][2] = {
	{"", ""},
	{"\n\n# only\n\n\n# comments", "# only\n\n# comments\n"},
	{"\n  policy   1  \n\n\n\nrequire\towner\n", "policy 1\n\nrequire owner\n"},
	{"policy 1 # first\n[group  g]#no\n", "policy 1  # first\n\n[group g]#no\n"},
	{"policy 1\n# about g\n[group g]\nallow A.Test.:80 POST,GET /B\n# about p\n\n[profile p]\n",
		"policy 1\n\n# about g\n[group g]\nallow a.test:80 GET,POST /B\n# about p\n\n"
		"[profile p]\n"},
	{"allow a.test note=\"two words\" owner=\"one\" expires=2030-01-01 id=x #  why \n",
		"allow a.test id=x expires=2030-01-01 owner=one note=\"two words\"  #  why\n"},
	{"deny a.test note=\"#1\" note=\"a\\b\" owner=\"\" ticket=x=\"y z\"\n",
		"deny a.test owner=\"\" ticket=x=\"y z\" note=#1 note=\"a\\b\"\n"},
	{"allow a.test \\\n  GET \\\n  /x # end\n", "allow a.test GET /x  # end\n"},
	{"allow a.test " LONG_WORD " " LONG_WORD "\n",
		"allow a.test " LONG_WORD " \\\n        " LONG_WORD "\n"},
	{"expect  deny GET https://A.test/?a=b=c at=2030-01-01 code=deny.path\n",
		"expect deny GET https://A.test/?a=b=c code=deny.path at=2030-01-01\n"},
	{"use g query=deny expires=2030-01-01 stray\n",
		"use g query=deny expires=2030-01-01 stray\n"},
	{"\\\nallow a.test\n", "allow a.test\n"},
	{"allow tCp X.test GET\nallow Any\n", "allow tCp X.test GET\nallow Any\n"},
	{"allow tcp Git.test.:22 window=1h up=1m conns=3 rate=1/s id=x\n",
		"allow tcp git.test:22 id=x rate=1/s conns=3 up=1m window=1h\n"},
	{"allow ip:[2001:DB8::/32]:443 POST,GET mode=observe tls=inspect\n",
		"allow ip:[2001:db8::/32]:443 GET,POST tls=inspect mode=observe\n"},
	{"allow any:80 POST,GET ticket=T upgrade=deny header-deny=x query=deny\n",
		"allow any:80 GET,POST query=deny header-deny=x upgrade=deny ticket=T\n"},
	{"allow a.test header-deny=X-Key,Cookie note=Why\nuse g header-deny=\"Cookie\"\n",
		"allow a.test header-deny=x-key,cookie note=Why\nuse g header-deny=cookie\n"},
	{"use g time=1s max-uses=2 down=1k requests=4 resp-body=1k req-body=0\n",
		"use g req-body=0 resp-body=1k time=1s max-uses=2 down=1k requests=4\n"},
	{"allow A.te..\nallow *.\n", "allow a.te..\nallow *.\n"},
};

static void format(struct slice text, struct buf *to, int wanted)
{
	static struct policy_report report;
	*to = (struct buf){.limit = 0};
	assert_int_equal(policy_format("x.allow", text, to, &report), wanted);
}

static void layouts_are_those_of_the_table_and_stay(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(layouts); i++) {
		struct buf once;
		struct buf twice;
		format(slice_of(layouts[i][0]), &once, 0);
		if (!slice_equal(buf_slice(&once), slice_of(layouts[i][1])))
			fail_msg("%s=>\n%.*s", layouts[i][0], (int)buf_len(&once),
				buf_slice(&once).ptr);
		format(buf_slice(&once), &twice, 0);
		assert_true(slice_equal(buf_slice(&once), buf_slice(&twice)));
		buf_fini(&once);
		buf_fini(&twice);
	}
}

static void a_text_that_the_lexer_refuses_has_no_layout(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"policy 1\r\n", "allow a.test note=\"x\n", "allow \"a\"\n", "a \\\n"};
	for (size_t i = 0; i < array_size(texts); i++) {
		struct buf to;
		format(slice_of(texts[i]), &to, -EINVAL);
		buf_fini(&to);
	}
}

static void the_meaning_stays(void **state)
{
	(void)state;
	static const char text[] =
		"policy 1\ndefaults owner=\"a b\" resp-body=2k\n[profile p]\n"
		"allow **.A.test.:443,80 POST,GET /b /a query=deny \\\n id=x note=\"q\"\n"
		"deny\tb.test\n";
	struct policy *before = policy_setup(text);
	struct policy *after = NULL;
	struct buf to;
	format(slice_of(text), &to, 0);
	assert_int_equal(policy_setup_compile(buf_slice(&to), &after), 0);
	assert_string_equal(profile_digest(policy_setup_profile(before, "p")),
		profile_digest(policy_setup_profile(after, "p")));
	policy_free(before);
	policy_free(after);
	buf_fini(&to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_are_those_of_the_table_and_stay),
		cmocka_unit_test(a_text_that_the_lexer_refuses_has_no_layout),
		cmocka_unit_test(the_meaning_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
