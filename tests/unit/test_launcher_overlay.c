/* What may be shown without an overlay: trees of files, folders and links, looked through to the end. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "sandbox-launcher/overlay.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
	(void)st;
	(void)kind;
	(void)walk;
	return remove(path);
}

static int check(const char *path)
{
	return overlay_check_tree(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	fd_close(&fd);
}

static void only_files_folders_and_links_pass(void **state)
{
	(void)state;
	char root[] = "/tmp/eclusa-overlay-XXXXXX", path[256];
	assert_non_null(mkdtemp(root));
	assert_int_equal(check(root), 0);
	(void)snprintf(path, sizeof(path), "%s/a", root);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/a/file", root);
	make_file(path);
	(void)snprintf(path, sizeof(path), "%s/a/link", root);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_int_equal(check(root), 0);

	(void)snprintf(path, sizeof(path), "%s/a/fifo", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(check(root), -EBADMSG);
	assert_int_equal(unlink(path), 0);

	struct sockaddr_un address = {.sun_family = AF_UNIX};
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/a/s", root);
	auto_fd s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(check(root), -EBADMSG);
	assert_int_equal(unlink(address.sun_path), 0);
	assert_int_equal(check(root), 0);
	assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void what_is_too_deep_to_be_looked_through_is_refused(void **state)
{
	(void)state;
	char root[] = "/tmp/eclusa-overlay-XXXXXX", path[1024];
	assert_non_null(mkdtemp(root));
	size_t len = (size_t)snprintf(path, sizeof(path), "%s", root);
	for (int depth = 0; depth < OVERLAY_DEPTH_MAX; depth++) {
		len += (size_t)snprintf(path + len, sizeof(path) - len, "/d");
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_int_equal(check(root), 0);
	(void)snprintf(path + len, sizeof(path) - len, "/file");
	make_file(path);
	assert_int_equal(check(root), -E2BIG);
	assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* An /etc of this process alone, with one of each kind of folder. @return 77 where it may not make mounts. */
static int cut_folders(void)
{
	static const struct {
		const char *path;
		bool none;
	} cases[] = {{"/etc/plain", true}, {"/etc/plain/deep", true}, {"/etc/mounted", false},
		{"/etc/mounted/deep", false}, {"/etc/link", false}, {"/etc/link/deep", false},
		{"/etc/plain/bound", false}, {"/etc/absent", false}, {"/etc/plain/../plain", true},
		{"/etc/../usr", false}, {"/usr", false}, {"/etcetera/x", false}};
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/etc", "tmpfs", 0, NULL) < 0)
		return 77;
	if (mkdir("/etc/plain", 0755) < 0 || mkdir("/etc/plain/deep", 0755) < 0 ||
		mkdir("/etc/plain/bound", 0755) < 0 || mkdir("/etc/mounted", 0755) < 0 ||
		symlink("plain", "/etc/link") < 0 ||
		mount("none", "/etc/mounted", "tmpfs", 0, NULL) < 0 ||
		mkdir("/etc/mounted/deep", 0755) < 0 ||
		mount("/etc/plain/deep", "/etc/plain/bound", NULL, MS_BIND, NULL) < 0)
		return 100;
	for (size_t i = 0; i < array_size(cases); i++)
		if (overlay_needs_no_tree(cases[i].path, false) != cases[i].none)
			return (int)i + 1;
	return overlay_needs_no_tree("/usr", true) ? 0 : 101; /* a folder elsewhere */
}

static void what_is_reached_by_a_link_or_a_mount_is_no_part_of_the_overlay_of_etc(void **state)
{
	(void)state;
	int status = 0;
	pid_t child = fork();
	if (child == 0)
		_exit(cut_folders());
	assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_files_folders_and_links_pass),
		cmocka_unit_test(what_is_too_deep_to_be_looked_through_is_refused),
		cmocka_unit_test(
			what_is_reached_by_a_link_or_a_mount_is_no_part_of_the_overlay_of_etc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
