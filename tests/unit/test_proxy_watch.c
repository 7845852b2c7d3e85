/* Folders of policy files: what happens in them is noticed, through links and includes too. */
#include "tests/unit/cmocka_setup.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "policy/source.h"
#include "proxy/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

struct lab {
	char folder[64];
	int fd;
	struct watch watch;
};

static void put(const struct lab *l, const char *name, const char *text)
{
	auto_fd fd = openat(l->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
}

static char *path_of(const struct lab *l, const char *name)
{
	static char path[128];
	(void)snprintf(path, sizeof(path), "%s/%s", l->folder, name);
	return path;
}

static int setup(void **state)
{
	static struct lab l;
	(void)snprintf(l.folder, sizeof(l.folder), "/tmp/eclusa-watch-XXXXXX");
	assert_non_null(mkdtemp(l.folder));
	l.fd = open(l.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(l.fd >= 0);
	for (int i = 0; i < 3; i++) {
		static const char *const folders[] = {"main", "main/more", "elsewhere"};
		assert_int_equal(mkdirat(l.fd, folders[i], 0700), 0);
	}
	put(&l, "main/a.allow", "policy 1\ninclude more/b.allow\n[profile p]\n");
	put(&l, "main/more/b.allow", "policy 1\n[group g]\nallow a.test\n");
	put(&l, "elsewhere/c.allow", "policy 1\n[profile p]\n");
	assert_int_equal(symlinkat("../elsewhere/c.allow", l.fd, "main/link.txt"), 0);
	assert_int_equal(watch_open(&l.watch, NULL), 0);
	*state = &l;
	return 0;
}

static int teardown(void **state)
{
	struct lab *l = *state;
	const char *const files[] = {"main/a.allow", "main/b.new", "main/more/b.allow",
		"main/link.txt", "elsewhere/c.allow", "elsewhere/d"};
	for (size_t i = 0; i < array_size(files); i++)
		(void)unlinkat(l->fd, files[i], 0); /* not every test makes all */
	const char *const folders[] = {"main/more", "main", "elsewhere"};
	for (size_t i = 0; i < array_size(folders); i++)
		assert_int_equal(unlinkat(l->fd, folders[i], AT_REMOVEDIR), 0);
	watch_close(&l->watch);
	fd_close(&l->fd);
	return rmdir(l->folder);
}

/** Events are there when the call that makes them returns. */
static bool noticed(struct lab *l)
{
	struct pollfd wait = {.fd = l->watch.fd, .events = POLLIN};
	bool ready = poll(&wait, 1, 0) == 1;
	assert_int_equal(watch_drain(&l->watch), ready);
	return ready;
}

static void watch_policy(struct lab *l, const char *name)
{
	struct buf bundle = {.limit = POLICY_BUNDLE_BYTES_MAX};
	char *path = path_of(l, name);
	assert_int_equal(policy_source_read(path, &bundle, NULL), 0);
	assert_int_equal(watch_add(&l->watch, path, buf_slice(&bundle)), 0);
	buf_fini(&bundle);
	assert_false(noticed(l));
}

static void changes_of_a_file_and_of_what_it_includes(void **state)
{
	struct lab *l = *state;
	watch_policy(l, "main/a.allow");
	put(l, "main/a.allow", "policy 1\n");
	assert_true(noticed(l));
	put(l, "main/more/b.allow", "policy 1\n");
	assert_true(noticed(l));
	put(l, "main/b.new", "policy 1\n");
	assert_true(noticed(l));
	assert_int_equal(renameat(l->fd, "main/b.new", l->fd, "main/a.allow"), 0);
	assert_true(noticed(l));
	assert_int_equal(unlinkat(l->fd, "main/more/b.allow", 0), 0);
	assert_true(noticed(l));
	put(l, "elsewhere/c.allow", "policy 1\n");
	assert_false(noticed(l));
}

static void a_new_file_in_a_folder(void **state)
{
	struct lab *l = *state;
	watch_policy(l, "main");
	put(l, "main/b.new", "policy 1\n");
	assert_true(noticed(l));
}

static void what_a_link_means(void **state)
{
	struct lab *l = *state;
	watch_policy(l, "main/link.txt");
	put(l, "elsewhere/c.allow", "policy 1\n[profile q]\n");
	assert_true(noticed(l));
	put(l, "elsewhere/d", "x");
	assert_true(noticed(l));
}

static void what_is_not_there_yet(void **state)
{
	struct lab *l = *state;
	assert_int_equal(unlinkat(l->fd, "main/a.allow", 0), 0);
	assert_int_equal(watch_add(&l->watch, path_of(l, "main/a.allow"), (struct slice){0}), 0);
	put(l, "main/a.allow", "policy 1\n");
	assert_true(noticed(l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			changes_of_a_file_and_of_what_it_includes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_file_in_a_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_link_means, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_there_yet, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
