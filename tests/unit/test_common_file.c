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

static void a_short_file_has_room_to_spare_or_is_none(void **state)
{
	(void)state;
	char key[8];
	auto_fd fd = file_memory("t", SLICE("1234567"));
	assert_int_equal(file_read_short(fd, key, sizeof(key)), 7);
	assert_memory_equal(key, "1234567", 7);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(file_read_short(fd, key, 7), -EFBIG);
	assert_int_equal(file_read_short(-1, key, sizeof(key)), -EBADF);
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

static void a_file_is_replaced_as_a_whole(void **state)
{
	(void)state;
	char base[] = "/tmp/eclusa-test-XXXXXX", path[64], gone[96];
	struct stat st;
	struct buf b = {.limit = 1 << 20};
	assert_non_null(mkdtemp(base));
	(void)snprintf(path, sizeof(path), "%s/f", base);
	(void)snprintf(gone, sizeof(gone), "%s/none/f", base);
	assert_int_equal(file_replace(path, SLICE("longer than the next"), 0600), 0);
	assert_int_equal(file_replace(path, SLICE("second"), 0644), 0);
	assert_int_equal(file_read(AT_FDCWD, path, 100, &b), 0);
	assert_true(slice_equal(buf_slice(&b), SLICE("second")));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(file_replace(gone, SLICE("x"), 0644), -ENOENT);
	assert_int_equal(
		file_replace(base, SLICE("x"), 0644), -EISDIR); /* nothing is left beside it */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(base), 0);
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_stops_one_past_the_limit),
		cmocka_unit_test(a_short_file_has_room_to_spare_or_is_none),
		cmocka_unit_test(sealed_memory_can_not_change),
		cmocka_unit_test(folders_are_made_with_their_parents),
		cmocka_unit_test(a_file_is_replaced_as_a_whole),
		cmocka_unit_test(digests_match_the_standard),
		cmocka_unit_test(identifiers_have_their_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
