/* Manifests: one text for a set of files, every other text refused, and the first difference told. */
#include "policy/manifest.h"

#include "tests/unit/cmocka_setup.h"

#include <errno.h>
#include <stdio.h>

#define HEAD "# eclusa policy manifest 1\n"
/* sha256 of "a" and of "b" */
#define A "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
#define B "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"

#define LITERAL(text)                                                                              \
	{                                                                                          \
		(text), sizeof(text) - 1                                                           \
	}

static struct manifest first, second; /* large */

static void pack(struct buf *to, const char *const *names, const char *const *contents)
{
	assert_int_equal(bundle_open(to), 0);
	for (size_t i = 0; names[i] != NULL; i++) {
		struct bundle_text text = {BUNDLE_FILE, slice_of(names[i]), slice_of(contents[i])};
		assert_int_equal(bundle_append(to, &text), 0);
	}
}

static void files_come_in_order_of_their_paths(void **state)
{
	struct buf bundle = {.limit = 0}, text = {.limit = 0};
	(void)state;
	pack(&bundle, (const char *const[]){"d/b.allow", "d/sub/x", "d/a.allow", "d/sub-y", NULL},
		(const char *const[]){"b", "a", "a", "b"});
	assert_int_equal(manifest_of_bundle(buf_slice(&bundle), 2, &first), 0);
	assert_int_equal(manifest_write(&first, &text), 0);
	assert_true(slice_equal(buf_slice(&text),
		SLICE(HEAD A "  a.allow\n" B "  b.allow\n" B "  sub-y\n" A "  sub/x\n")));
	assert_int_equal(manifest_of_bundle(buf_slice(&bundle), 9, &first), -EINVAL);
	assert_int_equal(manifest_of_bundle(SLICE("no bundle"), 0, &first), -EINVAL);
	buf_fini(&bundle);
	buf_fini(&text);
}

static void what_is_written_is_read(void **state)
{
	unsigned line = 0;
	struct buf text = {.limit = 0};
	struct slice from = SLICE(HEAD A "  a b.allow\n" B "  b\\x.allow\n");
	(void)state;
	assert_int_equal(manifest_parse(from, &first, &line), 0);
	assert_int_equal(first.count, 2);
	assert_int_equal(manifest_write(&first, &text), 0);
	assert_true(slice_equal(buf_slice(&text), from));
	buf_fini(&text);
	assert_int_equal(manifest_parse(SLICE(HEAD), &first, &line), 0);
	assert_int_equal(first.count, 0);
}

static void every_other_text_is_refused_with_its_line(void **state)
{
	static const struct {
		struct slice text;
		unsigned line;
	} cases[] = {
		{{"", 0}, 1},
		{{"# eclusa policy manifest 1", 26}, 1},
		{LITERAL("# eclusa policy manifest 2\n"), 1},
		{LITERAL(" " HEAD), 1},
		{LITERAL(HEAD A "  a"), 2},               /* no end of line */
		{LITERAL(HEAD A " a\n"), 2},              /* one blank */
		{LITERAL(HEAD A " *a\n"), 2},             /* binary mode of sha256sum */
		{LITERAL(HEAD A "  \n"), 2},              /* no path */
		{LITERAL(HEAD "\n"), 2},                  /* an empty line */
		{LITERAL(HEAD "# x\n"), 2},               /* a comment */
		{LITERAL(HEAD "X" A "  a\n"), 2},         /* no hex */
		{LITERAL(HEAD A "0  a\n"), 2},            /* too long */
		{LITERAL(HEAD A "  a\r\n"), 2},           /* a control byte */
		{LITERAL(HEAD A "  a\n" B "  a\n"), 3},   /* twice */
		{LITERAL(HEAD A "  b\n" B "  a\n"), 3},   /* out of order */
		{LITERAL(HEAD A "  ab\n" B "  a\n"), 3},  /* a prefix after the longer one */
		{LITERAL(HEAD A "  a\n" A "  \0b\n"), 3}, /* NUL */
		{LITERAL(HEAD A "  a\n\n"), 3},           /* an empty line at the end */
		{LITERAL(HEAD
			 "CA978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n"),
			2},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned line = 0;
		if (manifest_parse(cases[i].text, &first, &line) != -EINVAL ||
			line != cases[i].line)
			fail_msg("case %zu: line %u", i, line);
	}
}

static void more_files_than_a_policy_has_are_refused(void **state)
{
	unsigned line = 0;
	struct buf text = {.limit = 0};
	(void)state;
	(void)buf_append_text(&text, HEAD);
	for (unsigned i = 0; i < BUNDLE_FILES_MAX; i++)
		(void)buf_printf(&text, A "  %04u\n", i);
	assert_true(buf_len(&text) < MANIFEST_BYTES_MAX);
	assert_int_equal(manifest_parse(buf_slice(&text), &first, &line), 0);
	(void)buf_printf(&text, A "  %04u\n", BUNDLE_FILES_MAX);
	assert_int_equal(manifest_parse(buf_slice(&text), &first, &line), -EINVAL);
	assert_int_equal(line, BUNDLE_FILES_MAX + 2);
	buf_fini(&text);
}

static void the_first_difference_is_told(void **state)
{
	static const struct {
		const char *listed, *present;
		enum manifest_difference difference;
		const char *path;
	} cases[] = {
		{A "  a\n" B "  b\n", A "  a\n" B "  b\n", MANIFEST_SAME, ""},
		{A "  a\n" B "  b\n", A "  a\n" A "  b\n", MANIFEST_CHANGED, "b"},
		{A "  a\n", A "  a\n" B "  b\n", MANIFEST_UNLISTED, "b"},
		{B "  b\n", A "  a\n" B "  b\n", MANIFEST_UNLISTED, "a"},
		{A "  a\n" B "  b\n", A "  a\n", MANIFEST_MISSING, "b"},
		{A "  a\n" B "  b\n", B "  b\n", MANIFEST_MISSING, "a"},
		{"", A "  a\n", MANIFEST_UNLISTED, "a"},
		{A "  a\n", "", MANIFEST_MISSING, "a"},
		{"", "", MANIFEST_SAME, ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned line;
		char texts[2][256];
		struct slice path = {0};
		(void)snprintf(texts[0], sizeof(texts[0]), HEAD "%s", cases[i].listed);
		(void)snprintf(texts[1], sizeof(texts[1]), HEAD "%s", cases[i].present);
		assert_int_equal(manifest_parse(slice_of(texts[0]), &first, &line), 0);
		assert_int_equal(manifest_parse(slice_of(texts[1]), &second, &line), 0);
		assert_int_equal(manifest_compare(&first, &second, &path), cases[i].difference);
		assert_true(slice_equal(path, slice_of(cases[i].path)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_come_in_order_of_their_paths),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(every_other_text_is_refused_with_its_line),
		cmocka_unit_test(more_files_than_a_policy_has_are_refused),
		cmocka_unit_test(the_first_difference_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
