/* Folders of policy files: what happens in them is noticed, through links and includes, and when another one takes their place. */
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
	l.watch = (struct watch)WATCH_NONE;
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
	bool counted = watch_drain(&l->watch);
	assert_int_equal(poll(&wait, 1, 0), 0); /* all of it was taken */
	return counted;
}

/** As a load does. @return what watch_renew() does. */
static int renew(struct lab *l, const char *name)
{
	struct buf bundle = {.limit = POLICY_BUNDLE_BYTES_MAX};
	char *path = path_of(l, name);
	int read = policy_source_read(path, &bundle, NULL);
	int r = watch_renew(&l->watch, path, buf_slice(&bundle), read == 0);
	buf_fini(&bundle);
	return r;
}

static void watch_policy(struct lab *l, const char *name)
{
	assert_int_equal(renew(l, name), 1);
	assert_int_equal(renew(l, name), 0); /* all of it is watched already */
	assert_false(noticed(l));
}

static void move(const struct lab *l, const char *from, const char *to)
{
	assert_int_equal(renameat(l->fd, from, l->fd, to), 0);
}

/** A policy that is what @folder is, in its place. */
static void put_folder(const struct lab *l, const char *folder)
{
	char name[64];
	assert_int_equal(mkdirat(l->fd, folder, 0700), 0);
	(void)snprintf(name, sizeof(name), "%s/a.allow", folder);
	put(l, name, "policy 1\n[profile p]\n");
}

static void remove_folder(const struct lab *l, const char *folder)
{
	char name[64];
	(void)snprintf(name, sizeof(name), "%s/a.allow", folder);
	assert_int_equal(unlinkat(l->fd, name, 0), 0);
	assert_int_equal(unlinkat(l->fd, folder, AT_REMOVEDIR), 0);
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
	assert_int_equal(renew(l, "main/a.allow"), 1);
	put(l, "main/a.allow", "policy 1\n");
	assert_true(noticed(l));
}

static void a_folder_that_is_not_there_yet(void **state)
{
	struct lab *l = *state;
	assert_int_equal(renew(l, "elsewhere/one/two/a.allow"), 1);
	assert_int_equal(mkdirat(l->fd, "elsewhere/other", 0700), 0);
	assert_int_equal(unlinkat(l->fd, "elsewhere/other", AT_REMOVEDIR), 0);
	assert_false(noticed(l)); /* not what leads there */
	assert_int_equal(mkdirat(l->fd, "elsewhere/one", 0700), 0);
	assert_true(noticed(l));
	assert_int_equal(mkdirat(l->fd, "elsewhere/one/two", 0700), 0); /* nobody looked yet */
	assert_int_equal(renew(l, "elsewhere/one/two/a.allow"), 1);
	put(l, "elsewhere/one/two/a.allow", "policy 1\n");
	assert_true(noticed(l));
	remove_folder(l, "elsewhere/one/two");
	assert_int_equal(unlinkat(l->fd, "elsewhere/one", AT_REMOVEDIR), 0);
}

static void an_included_file_that_is_not_there_yet(void **state)
{
	struct lab *l = *state;
	assert_int_equal(unlinkat(l->fd, "main/more/b.allow", 0), 0);
	assert_int_equal(unlinkat(l->fd, "main/more", AT_REMOVEDIR), 0);
	assert_int_equal(renew(l, "main/a.allow"), 1);
	assert_int_equal(mkdirat(l->fd, "main/more", 0700), 0);
	assert_true(noticed(l));
	assert_int_equal(renew(l, "main/a.allow"), 1);
	put(l, "main/more/b.allow", "policy 1\n");
	assert_true(noticed(l));
}

static void a_folder_that_another_one_replaces(void **state)
{
	struct lab *l = *state;
	put_folder(l, "elsewhere/now");
	watch_policy(l, "elsewhere/now");
	put_folder(l, "elsewhere/next");
	assert_false(noticed(l));
	move(l, "elsewhere/now", "elsewhere/old");
	move(l, "elsewhere/next", "elsewhere/now");
	assert_true(noticed(l));
	watch_policy(l, "elsewhere/now");
	put(l, "elsewhere/now/a.allow", "policy 1\n");
	assert_true(noticed(l));
	put(l, "elsewhere/old/a.allow", "policy 1\n");
	assert_false(noticed(l)); /* it is let go */
	remove_folder(l, "elsewhere/old");
	remove_folder(l, "elsewhere/now");
	assert_true(noticed(l));
}

static void a_folder_above_that_is_renamed(void **state)
{
	struct lab *l = *state;
	assert_int_equal(mkdirat(l->fd, "elsewhere/top", 0700), 0);
	put_folder(l, "elsewhere/top/rules");
	watch_policy(l, "elsewhere/top/rules/a.allow");
	move(l, "elsewhere/top", "elsewhere/gone");
	assert_true(noticed(l));
	assert_int_equal(
		renew(l, "elsewhere/top/rules/a.allow"), 0); /* not complete: all is kept */
	move(l, "elsewhere/gone", "elsewhere/top");
	assert_true(noticed(l));
	remove_folder(l, "elsewhere/top/rules");
	assert_int_equal(unlinkat(l->fd, "elsewhere/top", AT_REMOVEDIR), 0);
}

/** Each link on the way, in whichever folder it is; the folder of one is in the middle of the path. */
static void a_link_on_the_way_that_is_replaced(void **state)
{
	struct lab *l = *state;
	char target[128];
	put_folder(l, "elsewhere/v1");
	put_folder(l, "elsewhere/v2");
	assert_int_equal(mkdirat(l->fd, "main/hop", 0700), 0);
	(void)snprintf(target, sizeof(target), "%s/elsewhere/v1", l->folder);
	assert_int_equal(symlinkat(target, l->fd, "main/hop/current"), 0);
	assert_int_equal(symlinkat("main/hop/./current", l->fd, "start"), 0);
	watch_policy(l, "start/a.allow");
	put(l, "elsewhere/v2/a.allow", "policy 1\n");
	put(l, "elsewhere/d", "x");
	assert_false(noticed(l));
	assert_int_equal(symlinkat("../../elsewhere/v2", l->fd, "main/hop/new"), 0);
	assert_false(noticed(l));
	move(l, "main/hop/new", "main/hop/current");
	assert_true(noticed(l));
	assert_int_equal(renew(l, "start/a.allow"), 1);
	put(l, "elsewhere/v1/a.allow", "policy 1\n");
	assert_false(noticed(l));
	put(l, "elsewhere/v2/a.allow", "policy 1\n# changed\n");
	assert_true(noticed(l));
	assert_int_equal(unlinkat(l->fd, "start", 0), 0);
	assert_true(noticed(l));
	assert_int_equal(unlinkat(l->fd, "main/hop/current", 0), 0);
	assert_int_equal(unlinkat(l->fd, "main/hop", AT_REMOVEDIR), 0);
	remove_folder(l, "elsewhere/v1");
	remove_folder(l, "elsewhere/v2");
}

static void links_in_a_circle_end(void **state)
{
	struct lab *l = *state;
	assert_int_equal(symlinkat("other", l->fd, "one"), 0);
	assert_int_equal(symlinkat("one", l->fd, "other"), 0);
	assert_int_equal(renew(l, "one/a.allow"), 1);
	assert_int_equal(unlinkat(l->fd, "one", 0), 0);
	assert_true(noticed(l));
	assert_int_equal(unlinkat(l->fd, "other", 0), 0);
}

/** One name more than can be told apart: whatever happens counts, and nothing is missed. */
static void more_names_than_are_told_apart(void **state)
{
	struct lab *l = *state;
	char name[64];
	for (int i = 0; i < WATCH_NAMES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "elsewhere/n%d/a.allow", i);
		assert_true(renew(l, name) >= 0); /* none is there, so all are kept */
	}
	assert_int_equal(l->watch.count, WATCH_NAMES_MAX);
	assert_true(l->watch.any);
	put(l, "elsewhere/d", "x");
	assert_true(noticed(l));
	watch_policy(l, "main");
	assert_false(l->watch.any);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			changes_of_a_file_and_of_what_it_includes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_file_in_a_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_link_means, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_there_yet, setup, teardown),
		cmocka_unit_test_setup_teardown(a_folder_that_is_not_there_yet, setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_included_file_that_is_not_there_yet, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_folder_that_another_one_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(a_folder_above_that_is_renamed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_link_on_the_way_that_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(links_in_a_circle_end, setup, teardown),
		cmocka_unit_test_setup_teardown(more_names_than_are_told_apart, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
