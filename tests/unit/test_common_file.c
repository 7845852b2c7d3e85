/* Files: whole reads with a limit, sealed memory, folders that are made once. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/digest.h"
#include "common/file.h"
#include "common/id.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static void a_read_stops_one_past_the_limit(void **state)
{
	(void)state;
	auto_fd fd = file_memory("t", SLICE("12345678"));
	assert_true(fd >= 0);
	struct buf b;
	buf_init(&b, 1 << 20);
	assert_int_equal(file_read_fd(fd, 8, &b), 0);
	assert_int_equal(buf_len(&b), 8);
	buf_clear(&b);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(file_read_fd(fd, 7, &b), -EFBIG);
	buf_fini(&b);
}

static void sealed_memory_can_not_change(void **state)
{
	(void)state;
	auto_fd fd = file_memory("t", SLICE("policy"));
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
}

static void folders_are_made_with_their_parents(void **state)
{
	(void)state;
	char base[] = "/tmp/eclusa-test-XXXXXX";
	assert_non_null(mkdtemp(base));
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/a/b", base);
	assert_int_equal(file_make_dirs(path, 0700), 0);
	assert_int_equal(file_make_dirs(path, 0700), 0);
	char file[160];
	(void)snprintf(file, sizeof(file), "%s/f", path);
	auto_fd fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_make_dirs(file, 0700), -ENOTDIR);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(path), 0);
	(void)snprintf(path, sizeof(path), "%s/a", base);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(base), 0);
}

static void digests_match_the_standard(void **state)
{
	(void)state;
	char text[DIGEST_TEXT_BYTES];
	assert_int_equal(digest_of(SLICE("abc"), text), 0);
	assert_string_equal(
		text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void identifiers_have_their_form(void **state)
{
	(void)state;
	char uuid[UUID_TEXT_BYTES];
	char other[UUID_TEXT_BYTES];
	assert_int_equal(strlen(uuid_new(uuid)), 36);
	assert_int_equal(uuid[14], '7');
	assert_non_null(strchr("89ab", uuid[19]));
	assert_string_not_equal(uuid, uuid_new(other));
	char sandbox[SANDBOX_ID_BYTES];
	assert_int_equal(strlen(sandbox_id_new(sandbox)), 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_stops_one_past_the_limit),
		cmocka_unit_test(sealed_memory_can_not_change),
		cmocka_unit_test(folders_are_made_with_their_parents),
		cmocka_unit_test(digests_match_the_standard),
		cmocka_unit_test(identifiers_have_their_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
