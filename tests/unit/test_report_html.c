/* Text into HTML: what a log says stays text. */
#include "report/html.h"
#include "report/template.h"
#include "tests/unit/cmocka_setup.h"

#define CTL(number) "<span class=\"ctl\">U+" number "</span>"

static void check(struct buf *made, const char *wanted)
{
	assert_false(made->failed);
	assert_int_equal(buf_append(made, (struct slice){"", 1}), 0);
	assert_string_equal(buf_slice(made).ptr, wanted);
	buf_fini(made);
}

static void nothing_ends_an_element_or_an_attribute(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *html;
	} cases[] = {
		{"plain.example", "plain.example"},
		{"<script>", "&lt;script&gt;"},
		{"\"'&", "&quot;&#39;&amp;"},
		{"&lt;", "&amp;lt;"},
		{"\033[31m", CTL("001B") "[31m"},
		{"a\nb\rc\td", "a" CTL("000A") "b" CTL("000D") "c" CTL("0009") "d"},
		{"\xe2\x80\xae"
		 "x",
			CTL("202E") "x"},
		{"\xe2\x81\xa6", CTL("2066")},
		{"\xd8\x9c", CTL("061C")},
		{"\xe2\x80\xa8", CTL("2028")},
		{"a\xe2\x80\x8b"
		 "b",
			"a" CTL("200B") "b"},
		{"\xef\xbb\xbf", CTL("FEFF")},
		{"\xc2\xad", CTL("00AD")},
		{"\xf3\xa0\x81\x81", CTL("E0041")},
		{"\xc2\x9b"
		 "31m",
			CTL("009B") "31m"},
		{"\xff\xfe", CTL("FFFD") CTL("FFFD")},
		{"\xc3\xa9\xe6\xbc\xa2", "\xc3\xa9\xe6\xbc\xa2"},
		{"", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf made = {0};
		html_text(&made, slice_of(cases[i].text));
		check(&made, cases[i].html);
	}
	struct buf made = {0};
	html_text(&made, (struct slice){"a\0b", 3});
	check(&made, "a" CTL("0000") "b");
}

static void numbers_are_for_people(void **state)
{
	(void)state;
	static const struct {
		uint64_t value;
		const char *number, *bytes;
	} cases[] = {
		{0, "0", "0 B"},
		{999, "999", "999 B"},
		{1000, "1,000", "1000 B"},
		{1023, "1,023", "1023 B"},
		{1024, "1,024", "1.0 KiB"},
		{102399, "102,399", "99.9 KiB"},
		{102400, "102,400", "100 KiB"},
		{1048576, "1,048,576", "1.0 MiB"},
		{UINT64_MAX, "18,446,744,073,709,551,615", "15.9 EiB"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf number = {0}, bytes = {0};
		html_number(&number, cases[i].value);
		check(&number, cases[i].number);
		html_bytes(&bytes, cases[i].value);
		check(&bytes, cases[i].bytes);
	}
}

static void times_are_utc(void **state)
{
	(void)state;
	static const struct {
		uint64_t ms;
		const char *text;
	} cases[] = {{0, ""}, {1795961863123, "2026-11-29 14:17:43"},
		{253402300799999, "9999-12-31 23:59:59"}, {253402300800000, "after 9999"},
		{UINT64_MAX, "after 9999"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf made = {0};
		html_time(&made, cases[i].ms);
		check(&made, cases[i].text);
	}
	struct buf day = {0}, minute = {0};
	html_moment(&day, 1795961863, 86400);
	check(&day, "2026-11-29");
	html_moment(&minute, 1795961863, 300);
	check(&minute, "2026-11-29 14:17");
}

/** What stands in a place is not looked at for places. */
static void fill(void *arg, struct slice name, struct buf *to)
{
	unsigned *count = arg;
	(*count)++;
	assert_true(name.len > 0);
	(void)buf_append_text(to, "{{script}}");
}

static void places_are_filled_once(void **state)
{
	(void)state;
	struct buf made = {0};
	unsigned count = 0;
	template_write(fill, &count, &made);
	assert_false(made.failed);
	assert_true(count > 10);
	struct slice page = buf_slice(&made);
	assert_true(slice_starts(page, SLICE("<!doctype html>")));
	assert_null(memmem(page.ptr, page.len, "{{style}}", 9));
	assert_non_null(memmem(page.ptr, page.len, "{{script}}", 10));
	buf_fini(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_ends_an_element_or_an_attribute),
		cmocka_unit_test(numbers_are_for_people),
		cmocka_unit_test(times_are_utc),
		cmocka_unit_test(places_are_filled_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
