/*
 * Uids that nobody has: claimed one by one, freed with their descriptor, refused where somebody has
 * them. Needs root.
 */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/uids.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

static bool prepared;

/** A mount namespace in which /run and /etc are ours. */
static int hide_the_host(void **state)
{
	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		return 0;
	prepared = mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("tmpfs", "/run", "tmpfs", 0, NULL) == 0 &&
		mount("tmpfs", "/etc", "tmpfs", 0, NULL) == 0;
	return 0;
}

static void write_file(const char *path, const char *text)
{
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
}

static void write_databases(const char *passwd, const char *subuid)
{
	if (!prepared)
		skip();
	write_file("/etc/passwd", passwd);
	write_file("/etc/subuid", subuid);
}

static void claims_are_distinct_and_end_with_their_descriptor(void **state)
{
	(void)state;
	enum { CLAIMS = 50 };
	uid_t uids[CLAIMS];
	int locks[CLAIMS];
	struct failure why = {0};
	write_databases("root:x:0:0::/root:/bin/sh\n", "user:100000:65536\n");
	for (size_t i = 0; i < CLAIMS; i++) {
		locks[i] = uids_claim(&uids[i], &why);
		assert_true(locks[i] >= 0);
		assert_true(
			uids[i] >= ECLUSA_UID_BASE && uids[i] < ECLUSA_UID_BASE + ECLUSA_UID_COUNT);
		assert_true((fcntl(locks[i], F_GETFD) & FD_CLOEXEC) != 0);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(uids[i], uids[k]);
	}
	/*
	 * with every byte but one locked, only that one is left to claim; freed, it can be had
	 * again
	 */
	auto_fd file = open(UIDS_FOLDER "/" UIDS_FILE, O_RDWR | O_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	for (size_t i = 0; i < CLAIMS; i++)
		fd_close(&locks[i]);
	lock.l_len = ECLUSA_UID_COUNT - 1;
	assert_int_equal(fcntl(file, F_OFD_SETLK, &lock), 0);
	for (int i = 0; i < 3; i++) {
		uid_t uid;
		int held = uids_claim(&uid, &why);
		assert_true(held >= 0);
		assert_int_equal(uid, ECLUSA_UID_BASE + ECLUSA_UID_COUNT - 1);
		assert_int_equal(uids_claim(&uid, NULL), -EUSERS);
		fd_close(&held);
	}
}

static void an_id_that_somebody_has_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *passwd;
		const char *subuid;
		const char *place; /* NULL: no conflict */
	} cases[] = {
		{"", "", NULL},
		{"nonsense\n::\na:b:c:d\n", "nonsense\nx:y:z\n", NULL},
		{"nobody:x:65534:65534::/:/\n", "user:100000:65536", NULL},
		{"a:x:1894514686:1::/:/\n", "", NULL}, /* one below the proxy's */
		{"a:x:1894514687:1::/:/\n", "", "/etc/passwd:1"},
		{"root:x:0:0::/:/\na:x:1894531071:1::/:/", "", "/etc/passwd:2"},
		{"a:x:1894531072:1::/:/\n", "", NULL}, /* one above the last */
		{"", "user:1894514000:687\n", NULL},
		{"", "user:1894514000:688\n", "/etc/subuid:1"},
		{"", "user:1894531072:65536\n", NULL},
		{"", "a:100000:65536\nuser:1894520000:1\n", "/etc/subuid:2"},
		{"", "user:0:4294967295\n", "/etc/subuid:1"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct failure why = {0};
		uid_t uid = 0;
		write_databases(cases[i].passwd, cases[i].subuid);
		int r = uids_claim(&uid, &why);
		if (cases[i].place == NULL) {
			assert_true(r >= 0);
			fd_close(&r);
			continue;
		}
		assert_int_equal(r, -EADDRINUSE);
		assert_int_equal(uid, 0);
		assert_non_null(strstr(why.text, cases[i].place));
	}
}

static void missing_databases_claim_nothing(void **state)
{
	(void)state;
	uid_t uid;
	write_databases("", "");
	assert_int_equal(unlink("/etc/passwd"), 0);
	assert_int_equal(unlink("/etc/subuid"), 0);
	int r = uids_claim(&uid, NULL);
	assert_true(r >= 0);
	fd_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_are_distinct_and_end_with_their_descriptor),
		cmocka_unit_test(an_id_that_somebody_has_is_refused),
		cmocka_unit_test(missing_databases_claim_nothing),
	};
	return cmocka_run_group_tests(tests, hide_the_host, NULL);
}
