/* The examples of docs/policy-language.md: what the page says loads, loads, and what it says is refused, is. */
#include "tests/unit/policy_setup.h"

#include "common/file.h"

#include <fcntl.h>

#define PAGE       "docs/policy-language.md"
#define PAGE_BYTES ((size_t)1 << 20)
#define INCLUDED   "common/deny-always.allow"

static int compile(const char *head, struct slice text, struct policy **ret)
{
	struct buf bundle = {.limit = POLICY_BUNDLE_BYTES_MAX};
	struct buf whole = {.limit = PAGE_BYTES};
	struct bundle_text other = {BUNDLE_INCLUDED, SLICE(INCLUDED),
		SLICE("policy 1\ndeny .paste.example id=paste owner=x ticket=y\n")};
	assert_int_equal(buf_append_text(&whole, head), 0);
	assert_int_equal(buf_append(&whole, text), 0);
	struct bundle_text file = {BUNDLE_FILE, SLICE("x.allow"), buf_slice(&whole)};
	assert_int_equal(bundle_open(&bundle), 0);
	assert_int_equal(bundle_append(&bundle, &file), 0);
	assert_int_equal(bundle_append(&bundle, &other), 0);
	*ret = NULL;
	int r = policy_compile(buf_slice(&bundle), ret, &policy_setup_report);
	buf_fini(&whole);
	buf_fini(&bundle);
	return r;
}

static void loads(const char *head, struct slice block)
{
	struct policy *p;
	if (compile(head, block, &p) != 0) {
		char line[1024];
		fail_msg("%s\nof\n%.*s",
			policy_diagnostic_format(&policy_setup_report.items[0], line, sizeof(line)),
			(int)block.len, block.ptr);
	}
	policy_free(p);
}

static void refused(struct slice block)
{
	struct slice line;
	while (slice_split(block, '\n', &line, &block)) {
		struct policy *p;
		if (compile("policy 1\n[profile p]\n", line, &p) == 0)
			fail_msg("this loads: %.*s", (int)line.len, line.ptr);
	}
}

/** Take the next fenced block off the text: its word and its lines. */
static bool next_block(struct slice *rest, struct slice *ret_word, struct slice *ret_block)
{
	struct slice line;
	while (slice_split(*rest, '\n', &line, rest)) {
		if (!slice_starts(line, SLICE("```")))
			continue;
		*ret_word = slice_part(line, 3, line.len);
		*ret_block = (struct slice){rest->ptr, 0};
		while (slice_split(*rest, '\n', &line, rest) && !slice_starts(line, SLICE("```")))
			ret_block->len += line.len + 1;
		return true;
	}
	return false;
}

static void the_page_says_what_the_compiler_does(void **state)
{
	(void)state;
	struct buf text = {.limit = PAGE_BYTES};
	size_t counts[3] = {0};
	struct slice word;
	struct slice block;
	auto_fd fd = open(PAGE, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(file_read_fd(fd, PAGE_BYTES, &text), 0);
	struct slice rest = buf_slice(&text);
	while (next_block(&rest, &word, &block)) {
		if (slice_equal(word, SLICE("allow"))) {
			loads("", block);
			counts[0]++;
		} else if (slice_equal(word, SLICE("rules"))) {
			loads("policy 1\n[profile p]\n", block);
			counts[1]++;
		} else if (slice_equal(word, SLICE("refused"))) {
			refused(block);
			counts[2]++;
		}
	}
	assert_true(counts[0] >= 3 && counts[1] >= 2 && counts[2] >= 3);
	buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_page_says_what_the_compiler_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
