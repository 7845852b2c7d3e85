/*
 * What the exporter's configuration names on disk: whether it is there, and secrets. A secret that others may
 * read is refused, here and when it is read.
 */
#include "export/config.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "export/sink.h"

#include <fcntl.h>
#include <sys/stat.h>

/** @return descriptor of a regular file that its owner alone may touch, or negative errno with a line. */
static int secret_open(const char *path, struct failure *why)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "%s: not a regular file", path);
	if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return failure_set(why, -EPERM,
			"%s: a secret that others than its owner may open: chmod 600", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return failure_set(why, -EPERM, "%s: a secret that belongs to somebody else", path);
	if (st.st_size == 0)
		return failure_set(why, -EINVAL, "%s: empty", path);
	return fd_take(&fd);
}

int secret_read(const char *path, struct secret *ret, struct failure *why)
{
	struct secret made;
	auto_fd fd = secret_open(path, why);
	if (fd < 0)
		return fd;
	/* One piece, with the room that reading asks for: memory that grows would leave copies behind. */
	char *room;
	buf_init(&made.bytes, 2 * EXPORT_SECRET_BYTES_MAX);
	int r = buf_reserve(&made.bytes, made.bytes.limit, &room);
	if (r == 0)
		r = file_read_fd(fd, EXPORT_SECRET_BYTES_MAX, &made.bytes);
	if (r < 0) {
		secret_fini(&made);
		return failure_errno(why, r, "%s", path);
	}
	if (slice_ends(buf_slice(&made.bytes), SLICE("\n")))
		buf_drop_end(&made.bytes, 1);
	*ret = made;
	return 0;
}

void secret_fini(struct secret *s)
{
	if (s->bytes.data != NULL)
		explicit_bzero(s->bytes.data, s->bytes.capacity);
	buf_fini(&s->bytes);
}

/** The folder in which a file would be made. */
static bool folder_is_there(const char *path)
{
	struct stat st;
	char folder[EXPORT_VALUE_BYTES];
	const char *slash = strrchr(path, '/');
	size_t len = slash == path ? 1 : (size_t)(slash - path);
	(void)slice_copy((struct slice){path, len}, folder, sizeof(folder)); /* it fits */
	return stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
}

static void inspect_value(const struct sink_setting *setting, const struct sink_value *v,
	struct policy_report *report)
{
	struct failure why = {0};
	struct stat st;
	if (!sink_value_is(v))
		return;
	if (setting->type == SETTING_SECRET) {
		auto_fd fd = secret_open(v->text, &why);
		if (fd < 0)
			report_error(report, v->place, "secret", "%s: %s", setting->name, why.text);
	} else if (setting->type == SETTING_FILE && stat(v->text, &st) < 0) {
		report_error(report, v->place, "file", "%s: %s: %s", setting->name, v->text,
			strerror(errno));
	} else if (setting->type == SETTING_OUTPUT && !folder_is_there(v->text)) {
		report_error(report, v->place, "file", "%s: there is no folder for %s",
			setting->name, v->text);
	} else if (setting->type == SETTING_SOCKET && stat(v->text, &st) < 0) {
		report_warning(report, v->place, "file", "%s: %s: %s", setting->name, v->text,
			strerror(errno));
	}
}

void export_config_inspect(const struct export_config *config, struct policy_report *report)
{
	for (size_t i = 0; i < config->sink_count; i++) {
		const struct sink_config *c = &config->sinks[i];
		for (size_t k = 0; k < c->kind->setting_count; k++)
			inspect_value(&c->kind->settings[k], &c->values[k], report);
	}
}
