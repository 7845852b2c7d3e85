/* `eclusa policy fmt`: the one layout of allowlists. The only tool here that writes a file, and only with --write. */
#include "cli/policy.h"

#include "policy/format.h"
#include "policy/source.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct fmt_run {
	const struct policy_words *words;
	bool unreadable;
	size_t findings;
	size_t changed;
	struct buf out;
	struct json json;
	struct policy_report report;
};

static void complain(struct fmt_run *run, const char *path, int error)
{
	char shown[512];
	(void)fprintf(stderr, "eclusa policy: %s: %s\n",
		slice_escape(slice_of(path), shown, sizeof(shown)), strerror(-error));
	run->unreadable = true;
}

/** The file's owner and mode stay: an include line asks who owns it. */
static int write_beside(const char *temporary, int fd, const struct stat *st, struct slice text)
{
	int r = file_write_all(fd, text);
	if (r == 0 && fchown(fd, st->st_uid, st->st_gid) < 0)
		r = -errno;
	if (r == 0 && (fchmod(fd, st->st_mode & 07777) < 0 || fsync(fd) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(temporary); /* the first failure is the one to tell */
	return r;
}

/** Replace a file as a whole, or not at all. */
static int replace(const char *path, struct slice text)
{
	struct stat st;
	auto_free char *real = realpath(path, NULL);
	auto_free char *temporary = NULL;
	if (real == NULL || stat(real, &st) < 0)
		return -errno;
	if (asprintf(&temporary, "%s.XXXXXX", real) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	auto_fd fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = write_beside(temporary, fd, &st, text);
	if (r == 0 && rename(temporary, real) < 0) {
		r = -errno;
		(void)unlink(temporary);
	}
	return r;
}

static void add_file(struct fmt_run *run, const char *path, bool changed)
{
	if (run->words->json) {
		json_object(&run->json, NULL);
		json_text(&run->json, "file", path);
		json_bool(&run->json, "changed", changed);
		json_array(&run->json, "findings");
		for (size_t i = 0; i < run->report.count; i++)
			policy_print_finding(&run->report.items[i], &run->out, &run->json);
		json_array_end(&run->json);
		json_object_end(&run->json);
		return;
	}
	for (size_t i = 0; i < run->report.count; i++)
		policy_print_finding(&run->report.items[i], &run->out, NULL);
	if (changed && (run->words->check || run->words->write))
		(void)buf_printf(&run->out, "%s\n", path);
}

/** A text in its layout: printed, counted, or written back. */
static void finish_file(
	struct fmt_run *run, const char *path, struct slice before, struct slice after)
{
	bool changed = !slice_equal(before, after);
	int r = changed && run->words->write ? replace(path, after) : 0;
	if (r < 0) {
		complain(run, path, r);
		return;
	}
	run->changed += changed;
	add_file(run, path, changed);
	if (!run->words->json && !run->words->check && !run->words->write)
		(void)buf_append(&run->out, after);
}

static void format_file(struct fmt_run *run, const char *path)
{
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX + 65536};
	struct buf done = {.limit = 0};
	int r = file_read(AT_FDCWD, path, POLICY_FILE_BYTES_MAX, &text);
	if (r == 0)
		r = policy_format(path, buf_slice(&text), &done, &run->report);
	if (r == -EINVAL && run->report.errors > 0) {
		run->findings += run->report.errors;
		add_file(run, path, false);
	} else if (r < 0) {
		complain(run, path, r);
	} else {
		finish_file(run, path, buf_slice(&text), buf_slice(&done));
	}
	buf_fini(&text);
	buf_fini(&done);
}

static int is_allow_file(const struct dirent *entry)
{
	struct slice name = slice_of(entry->d_name);
	return name.len > 6 && name.ptr[0] != '.' && slice_ends(name, SLICE(".allow"));
}

/** The folder's own files; those that they include are named on their own. */
static void format_folder(struct fmt_run *run, const char *folder)
{
	struct dirent **entries = NULL;
	int count = scandir(folder, &entries, is_allow_file, alphasort);
	if (count < 0)
		complain(run, folder, -errno);
	for (int i = 0; i < count; i++) {
		auto_free char *path = NULL;
		if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0) {
			path = NULL;
			complain(run, folder, -ENOMEM);
		} else {
			format_file(run, path);
		}
		free(entries[i]);
	}
	free(entries);
}

static void format_path(struct fmt_run *run, const char *path)
{
	struct stat st;
	bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	if (!folder)
		format_file(run, path);
	else if (run->words->check || run->words->write || run->words->json)
		format_folder(run, path);
	else
		complain(run, path, -EISDIR);
}

int policy_fmt(const struct policy_words *words)
{
	auto_free struct fmt_run *run = calloc(1, sizeof(*run));
	if (run == NULL || (words->check && words->write))
		return policy_usage("fmt takes either --check or --write", "");
	run->words = words;
	buf_init(&run->out, POLICY_OUTPUT_BYTES_MAX);
	if (words->json) {
		json_open(&run->json, &run->out);
		json_object(&run->json, NULL);
		json_array(&run->json, "files");
	}
	for (size_t i = 0; i < words->word_count; i++)
		format_path(run, words->words[i]);
	if (words->json) {
		json_array_end(&run->json);
		json_object_end(&run->json);
		(void)buf_append_text(&run->out, "\n");
	}
	bool findings = run->findings > 0 || (words->check && run->changed > 0);
	int status = run->unreadable ? POLICY_EXIT_UNREADABLE
		: findings           ? POLICY_EXIT_FINDINGS
				     : POLICY_EXIT_CLEAN;
	return policy_finish(&run->out, status);
}
