/*
 * docs/seccomp.md shows the table of system calls as it is: everything after its mark is made here. On a difference the
 * page as it should be is left beside it, as docs/seccomp.md.new.
 */
#include "tests/unit/cmocka_setup.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/filter_table.h"

#include <fcntl.h>
#include <stdio.h>

#define PAGE       "docs/seccomp.md"
#define PAGE_BYTES ((size_t)1 << 20)
#define MARK                                                                                       \
	"<!-- Made from sandbox-launcher/filter_table.c; tests/unit/test_launcher_filter_page.c checks it. -->\n"

static bool plain(const struct filter_row *row)
{
	return row->verdict == FILTER_ALLOW && row->why == NULL;
}

static bool ends_section(size_t i)
{
	return i == FILTER_ROW_COUNT || FILTER_ROWS[i].number < 0;
}

static void write_allowed(struct buf *to, size_t first)
{
	const char *before = "\nAllowed: ";
	for (size_t i = first; !ends_section(i); i++) {
		char name[128];
		if (!plain(&FILTER_ROWS[i]))
			continue;
		(void)buf_printf(
			to, "%s`%s`", before, filter_row_name(&FILTER_ROWS[i], name, sizeof(name)));
		before = ", ";
	}
	if (before[0] == ',')
		(void)buf_append_text(to, ".\n");
}

static void write_refused(struct buf *to, size_t first)
{
	bool any = false;
	for (size_t i = first; !ends_section(i); i++) {
		const struct filter_row *row = &FILTER_ROWS[i];
		char name[128];
		if (plain(row))
			continue;
		if (!any)
			(void)buf_append_text(
				to, "\n| refused | answer | told | why |\n|---|---|---|---|\n");
		any = true;
		(void)buf_printf(to, "| `%s` | %s | %s | %s |\n",
			filter_row_name(row, name, sizeof(name)),
			row->verdict == FILTER_ANSWER ? "made up"
				: row->error == 0     ? "done"
						      : strerrorname_np(row->error),
			row->verdict == FILTER_TELL ? "yes" : "",
			row->why == NULL ? "as above" : row->why);
	}
}

static void write_page(struct buf *to)
{
	for (size_t i = 0; i < FILTER_ROW_COUNT; i++) {
		if (FILTER_ROWS[i].number >= 0)
			continue;
		(void)buf_printf(to, "\n### %s\n\n%c%s.\n", FILTER_ROWS[i].name,
			FILTER_ROWS[i].why[0] - ('a' <= FILTER_ROWS[i].why[0] ? 'a' - 'A' : 0),
			FILTER_ROWS[i].why + 1);
		write_allowed(to, i + 1);
		write_refused(to, i + 1);
	}
}

static void the_page_shows_the_table(void **state)
{
	(void)state;
#ifndef __x86_64__
	skip(); /* the page has the older forms of x86-64 */
#endif
	struct buf page = {.limit = PAGE_BYTES}, wanted = {.limit = PAGE_BYTES};
	assert_int_equal(file_read(AT_FDCWD, PAGE, PAGE_BYTES, &page), 0);
	const char *mark = memmem(page.data, buf_len(&page), MARK, strlen(MARK));
	assert_non_null(mark);
	size_t head = (size_t)(mark - page.data) + strlen(MARK);
	assert_int_equal(buf_append(&wanted, slice_part(buf_slice(&page), 0, head)), 0);
	write_page(&wanted);
	assert_false(wanted.failed);
	if (!slice_equal(buf_slice(&page), buf_slice(&wanted))) {
		auto_fd fd = open(PAGE ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		assert_true(write(fd, wanted.data, buf_len(&wanted)) == (ssize_t)buf_len(&wanted));
		fail_msg("%s is not of the table: it should be %s.new", PAGE, PAGE);
	}
	buf_fini(&page);
	buf_fini(&wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_shows_the_table)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
