/* Results: regular files with one name, nothing followed, sizes limited, names never overwritten unasked. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/collect.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct folders {
	char root[64];
	int from, to;
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static int set_up(void **state)
{
	struct folders *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	memcpy(f->root, "/tmp/eclusa-collect-XXXXXX", 27);
	assert_non_null(mkdtemp(f->root));
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/from", f->root);
	assert_int_equal(mkdir(path, 0755), 0);
	f->from = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC); /* as the mount's descriptor is */
	(void)snprintf(path, sizeof(path), "%s/to", f->root);
	assert_int_equal(mkdir(path, 0755), 0);
	f->to = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->from >= 0 && f->to >= 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct folders *f = *state;
	fd_close(&f->from);
	fd_close(&f->to);
	(void)nftw(f->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

static void put(int folder, const char *name, const char *text)
{
	auto_fd fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
}

static void check_text(int folder, const char *name, const char *text)
{
	struct buf got;
	buf_init(&got, 1 << 20);
	assert_int_equal(file_read(folder, name, 65536, &got), 0);
	assert_true(slice_equal(buf_slice(&got), slice_of(text)));
	buf_fini(&got);
}

static void run(struct folders *f, uint64_t limit, bool overwrite, struct collected *ret)
{
	struct collect_options options = {f->from, "sb-test", limit, UINT64_MAX, 4096, overwrite};
	struct collect_target target = {.folder = f->to, .parent = -1};
	struct failure why = {0};
	*ret = (struct collected){0};
	assert_int_equal(collect_run(&options, &target, ret, &why), 0);
}

static bool skipped(const struct collected *c, const char *line)
{
	struct slice text = buf_slice(&c->skipped);
	return text.len > 0 && memmem(text.ptr, text.len, line, strlen(line)) != NULL;
}

static void files_and_folders_arrive_with_size_digest_and_type(void **state)
{
	struct folders *f = *state;
	struct collected c;
	assert_int_equal(mkdirat(f->from, "deep", 0755), 0);
	put(f->from, "deep/a.csv", "abc");
	run(f, 1000, false, &c);
	assert_int_equal(c.count, 1);
	assert_string_equal(c.items[0].path, "deep/a.csv");
	assert_int_equal(c.items[0].size, 3);
	assert_string_equal(c.items[0].media_type, "text/csv");
	assert_string_equal(c.items[0].sha256,
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	check_text(f->to, "deep/a.csv", "abc");
	assert_int_equal(c.failed, 0);
	collected_fini(&c);
}

static void nothing_but_regular_files_with_one_name_is_taken(void **state)
{
	struct folders *f = *state;
	struct collected c;
	put(f->from, "one", "x");
	assert_int_equal(linkat(f->from, "one", f->from, "two", 0), 0);
	assert_int_equal(symlinkat("/etc/hostname", f->from, "link"), 0);
	assert_int_equal(symlinkat("/proc/self", f->from, "hop"), 0);
	assert_int_equal(mknodat(f->from, "fifo", S_IFIFO | 0644, 0), 0);
	run(f, 1000, false, &c);
	assert_int_equal(c.count, 0);
	static const char *const names[] = {"one: ", "two: ", "link: ", "hop: ", "fifo: "};
	for (size_t i = 0; i < array_size(names); i++)
		assert_true(skipped(&c, names[i]));
	assert_int_equal(faccessat(f->to, "link", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	collected_fini(&c);
}

static void links_in_the_target_are_not_followed(void **state)
{
	struct folders *f = *state;
	struct collected c;
	assert_int_equal(mkdirat(f->from, "d", 0755), 0);
	put(f->from, "d/x", "x");
	put(f->from, "y", "y");
	char outside[128];
	(void)snprintf(outside, sizeof(outside), "%s/outside", f->root);
	assert_int_equal(mkdir(outside, 0755), 0);
	assert_int_equal(symlinkat(outside, f->to, "d"), 0);
	put(f->to, "z", "z");
	assert_int_equal(symlinkat("z", f->to, "y"), 0);
	run(f, 1000, true, &c);
	assert_true(skipped(&c, "d: "));
	check_text(f->to, "z", "z"); /* y was replaced, not followed */
	check_text(f->to, "y", "y");
	(void)snprintf(outside, sizeof(outside), "%s/outside/x", f->root);
	assert_int_equal(access(outside, F_OK), -1);
	collected_fini(&c);
}

static void equal_names_stay_unless_asked(void **state)
{
	struct folders *f = *state;
	struct collected c;
	put(f->from, "a", "new");
	put(f->to, "a", "old");
	run(f, 1000, false, &c);
	assert_int_equal(c.failed, 1);
	assert_true(skipped(&c, "--overwrite"));
	check_text(f->to, "a", "old");
	collected_fini(&c);
	run(f, 1000, true, &c);
	assert_int_equal(c.failed, 0);
	check_text(f->to, "a", "new");
	collected_fini(&c);
}

static void sizes_at_the_limit_pass_and_one_more_does_not(void **state)
{
	struct folders *f = *state;
	struct collected c;
	put(f->from, "a", "12345");
	run(f, 5, true, &c);
	assert_int_equal(c.count, 1);
	collected_fini(&c);
	run(f, 4, true, &c);
	assert_int_equal(c.count, 0);
	assert_int_equal(c.failed, 1);
	collected_fini(&c);
}

static void a_sparse_file_counts_with_its_apparent_size(void **state)
{
	struct folders *f = *state;
	struct collected c;
	put(f->from, "a", "");
	auto_fd fd = openat(f->from, "a", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)1 << 33), 0);
	run(f, 1 << 20, false, &c);
	assert_int_equal(c.count, 0);
	assert_true(skipped(&c, "--out-limit"));
	collected_fini(&c);
}

static void folders_nested_too_deeply_are_told(void **state)
{
	struct folders *f = *state;
	struct collected c;
	auto_fd at = openat(f->from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < COLLECT_DEPTH_MAX + 2; i++) {
		assert_int_equal(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd_close(&at);
		at = next;
	}
	put(at, "x", "x");
	run(f, 1000, false, &c);
	assert_int_equal(c.count, 0);
	assert_true(skipped(&c, "too deeply"));
	collected_fini(&c);
}

static void a_target_is_checked_without_making_it(void **state)
{
	struct folders *f = *state;
	char path[128];
	struct failure why = {0};
	struct collect_target t;
	(void)snprintf(path, sizeof(path), "%s/new/", f->root);
	assert_int_equal(collect_check(path, &t, &why), 0);
	assert_int_equal(access(path, F_OK), -1);
	collect_target_fini(&t);
	(void)snprintf(path, sizeof(path), "%s/no/new", f->root);
	assert_int_equal(collect_check(path, &t, &why), -ENOENT);
	put(f->to, "file", "");
	(void)snprintf(path, sizeof(path), "%s/to/file", f->root);
	assert_int_equal(collect_check(path, &t, NULL), -ENOTDIR);
	assert_int_equal(symlinkat("nowhere", f->to, "dangling"), 0);
	(void)snprintf(path, sizeof(path), "%s/to/dangling", f->root);
	assert_true(collect_check(path, &t, NULL) < 0);
}

/* As on a file system that has no files without a name. */
static void refuse_unnamed_files(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {array_size(code), code};
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Last: what it loads stays. */
static void without_unnamed_files_results_arrive_as_well(void **state)
{
	struct folders *f = *state;
	refuse_unnamed_files();
	assert_true(openat(f->to, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) < 0);
	equal_names_stay_unless_asked(state);
	assert_int_equal(faccessat(f->to, ".eclusa-sb-test-0", F_OK, 0), -1);
	assert_int_equal(faccessat(f->to, ".eclusa-sb-test-1", F_OK, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			files_and_folders_arrive_with_size_digest_and_type, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			nothing_but_regular_files_with_one_name_is_taken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			links_in_the_target_are_not_followed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(equal_names_stay_unless_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			sizes_at_the_limit_pass_and_one_more_does_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_sparse_file_counts_with_its_apparent_size, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			folders_nested_too_deeply_are_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_target_is_checked_without_making_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			without_unnamed_files_results_arrive_as_well, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
