/* The copy of the policy that a start falls back on: it is whole, or it is none. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "proxy/last_good.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static const struct policy_signer by = {.key_id = "deb2ded39dc26fce"};

struct folder {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	static struct folder f;
	struct failure why = {0};
	(void)snprintf(f.path, sizeof(f.path), "/tmp/eclusa-last-good-XXXXXX");
	assert_non_null(mkdtemp(f.path));
	f.fd = last_good_open(f.path, &why);
	assert_true(f.fd >= 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct folder *f = *state;
	(void)unlinkat(f->fd, "policy.last-good", 0); /* not every test makes them */
	(void)unlinkat(f->fd, "policy.loaded", 0);
	fd_close(&f->fd);
	return rmdir(f->path);
}

static int read_back(const struct folder *f, struct slice wanted)
{
	struct buf got = {0};
	struct policy_signer signer;
	int r = last_good_read(f->fd, &got, &signer);
	if (r == 0)
		assert_string_equal(signer.key_id, by.key_id);
	assert_true(r < 0 ? buf_len(&got) == 0 : slice_equal(buf_slice(&got), wanted));
	buf_fini(&got);
	return r;
}

static void there_is_none_at_first(void **state)
{
	assert_int_equal(read_back(*state, SLICE("")), -ENOENT);
}

static void what_was_saved_last_is_read(void **state)
{
	struct folder *f = *state;
	assert_int_equal(last_good_save(f->fd, &by, SLICE("first")), 0);
	assert_int_equal(read_back(f, SLICE("first")), 0);
	assert_int_equal(last_good_save(f->fd, &by, SLICE("second, and longer\n")), 0);
	assert_int_equal(read_back(f, SLICE("second, and longer\n")), 0);
	assert_int_equal(faccessat(f->fd, "policy.last-good.new", F_OK, 0), -1);
}

/** Cut to @len, or where @at is not negative another byte there. */
static void damage(const struct folder *f, off_t len, off_t at)
{
	auto_fd fd = openat(f->fd, "policy.last-good", O_RDWR | O_CLOEXEC);
	char byte;
	assert_true(fd >= 0);
	if (at < 0) {
		assert_int_equal(ftruncate(fd, len), 0);
		return;
	}
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

static void every_damage_is_found(void **state)
{
	struct folder *f = *state;
	struct stat st;
	assert_int_equal(last_good_save(f->fd, &by, SLICE("policy 1\n")), 0);
	assert_int_equal(fstatat(f->fd, "policy.last-good", &st, 0), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		assert_int_equal(last_good_save(f->fd, &by, SLICE("policy 1\n")), 0);
		damage(f, 0, at);
		assert_int_equal(read_back(f, SLICE("")), -EBADMSG);
		assert_int_equal(last_good_save(f->fd, &by, SLICE("policy 1\n")), 0);
		damage(f, at, -1);
		assert_int_equal(read_back(f, SLICE("")), -EBADMSG);
	}
}

static void one_that_was_there_and_is_gone_is_lost(void **state)
{
	struct folder *f = *state;
	assert_int_equal(last_good_save(f->fd, &by, SLICE("policy 1\n")), 0);
	assert_int_equal(unlinkat(f->fd, "policy.last-good", 0), 0);
	assert_int_equal(read_back(f, SLICE("")), -EBADMSG);
}

static void a_link_is_not_followed(void **state)
{
	struct folder *f = *state;
	assert_int_equal(symlinkat("/etc/passwd", f->fd, "policy.last-good"), 0);
	assert_int_equal(read_back(f, SLICE("")), -ELOOP);
}

static void a_folder_has_one_owner_at_a_time(void **state)
{
	struct folder *f = *state;
	struct failure why = {0};
	assert_int_equal(last_good_open(f->path, &why), -EBUSY);
	assert_non_null(strstr(why.text, "another proxy uses"));
}

static void a_folder_that_others_may_write_is_refused(void **state)
{
	struct folder *f = *state;
	struct failure why = {0};
	fd_close(&f->fd);
	assert_int_equal(chmod(f->path, 0770), 0);
	assert_int_equal(last_good_open(f->path, &why), -EPERM);
	assert_int_equal(chmod(f->path, 0700), 0);
	f->fd = last_good_open(f->path, &why);
	assert_true(f->fd >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(there_is_none_at_first, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_saved_last_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(every_damage_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(
			one_that_was_there_and_is_gone_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(a_link_is_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_folder_has_one_owner_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_folder_that_others_may_write_is_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
