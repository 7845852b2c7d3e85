/* What the world's lists of names say: public suffixes, A-labels, scripts. */
#include "tests/unit/cmocka_setup.h"

#include "policy/alabel.h"
#include "policy/suffix.h"

static void test_a_suffix_has_its_kind(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum suffix_kind kind;
	} cases[] = {
		{"com", SUFFIX_PUBLIC},
		{"co.uk", SUFFIX_PUBLIC},
		{"gov.br", SUFFIX_PUBLIC},
		{"ck", SUFFIX_PUBLIC},
		{"kawasaki.jp", SUFFIX_PUBLIC},
		{"x.kawasaki.jp", SUFFIX_PUBLIC},
		{"city.kawasaki.jp", SUFFIX_NONE},
		{"xn--p1ai", SUFFIX_PUBLIC},
		{"github.io", SUFFIX_HOSTING},
		{"githubusercontent.com", SUFFIX_HOSTING},
		{"corp", SUFFIX_UNKNOWN},
		{"internal", SUFFIX_UNKNOWN},
		{"example.com", SUFFIX_NONE},
		{"example.co.uk", SUFFIX_NONE},
		{"pkg.example", SUFFIX_NONE},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (suffix_classify(cases[i].name) != cases[i].kind)
			fail_msg("%s: %d", cases[i].name, (int)suffix_classify(cases[i].name));
	}
}

static void test_the_longest_name_fits(void **state)
{
	(void)state;
	char name[HOST_NAME_BYTES];
	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 2 == 0 ? 'a' : '.';
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(suffix_classify(name), SUFFIX_NONE);
	assert_false(alabel_mixes_scripts(name));
}

static void test_a_name_in_other_letters_has_an_a_label(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *name; /* NULL: none */
	} cases[] = {
		{"b\xc3\xbc"
		 "cher.example",
			"xn--bcher-kva.example"},
		{"B\xc3\x9c"
		 "CHER.example",
			"xn--bcher-kva.example"},
		{"stra\xc3\x9f"
		 "e.example",
			"xn--strae-oqa.example"},
		{"\xd1\x80\xd1\x84", "xn--p1ai"},
		{"\xff.example", NULL},
		{"a\xe2\x80\xae.example", NULL},
		{"\xc3\xbc..example", NULL},
		{"", NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[HOST_NAME_BYTES];
		int r = alabel_from_text(slice_of(cases[i].text), name);
		if ((r == 0) != (cases[i].name != NULL) ||
			(r == 0 && strcmp(name, cases[i].name) != 0))
			fail_msg("case %zu: %d, %s", i, r, r == 0 ? name : "-");
	}
}

static void test_a_label_of_two_scripts_is_found(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool mixes;
	} cases[] = {
		{"example.com", false},
		{"xn--bcher-kva.example", false},
		{"xn--p1ai", false},
		{"www.xn--p1ai", false}, /* each label for itself */
		{"xn--pple-43d.example", true},
		{"a.b.xn--pple-43d.example", true},
		{"xn--x-gbuxiq23rzlb.example", false}, /* Latin with Japanese */
		{"xn--.example", false},
		{"xn--zzzzzzzzzzzz.example", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (alabel_mixes_scripts(cases[i].name) != cases[i].mixes)
			fail_msg("%s", cases[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_suffix_has_its_kind),
		cmocka_unit_test(test_the_longest_name_fits),
		cmocka_unit_test(test_a_name_in_other_letters_has_an_a_label),
		cmocka_unit_test(test_a_label_of_two_scripts_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
