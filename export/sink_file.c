/*
 * A sink that appends lines to a file. Whoever rotates it renames it: before each batch the path is looked at, and when
 * another file or none is there, it is opened anew. Delivered means on the disk, unless `sync no`.
 */
#include "export/kinds.h"

#include "common/cleanup.h"
#include "export/lines.h"

#include <fcntl.h>
#include <sys/stat.h>

#define FILE_MODE 0640

struct sink {
	const char *path;
	int fd;
	bool sync, torn;
	enum audit_format format;
	struct buf out;
};

static const struct sink_setting settings[] = {
	{.name = "path", .type = SETTING_OUTPUT, .required = true},
	{.name = "sync", .type = SETTING_FLAG, .otherwise = "yes"},
};

static int file_open(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	struct sink *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "sink %s", c->name);
	s->path = sink_config_value(c, "path")->text;
	s->sync = sink_config_value(c, "sync")->number != 0;
	s->format = c->format;
	s->fd = -1;
	*ret = s;
	return 0;
}

static void file_reset(struct sink *s)
{
	fd_close(&s->fd);
	buf_clear(&s->out);
}

/** Whether the path still leads to the file that is open. */
static bool file_is_same(const struct sink *s)
{
	struct stat open_file, named;
	return s->fd >= 0 && fstat(s->fd, &open_file) == 0 && stat(s->path, &named) == 0 &&
		open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/** Open what the path names now; a last line that was torn is ended first, so that it stays one line. */
static int file_reopen(struct sink *s)
{
	struct stat st;
	char last;
	auto_fd fd = open(s->path,
		O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK,
		FILE_MODE);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	s->torn = st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
	if (st.st_size == 0)
		lines_head(s->format, &s->out);
	fd_close(&s->fd);
	s->fd = fd_take(&fd);
	return 0;
}

static int file_deliver(struct sink *s, struct sink_batch *batch, struct failure *why)
{
	int r = 0;
	buf_clear(&s->out);
	if (!file_is_same(s))
		r = file_reopen(s);
	if (r == 0 && s->torn)
		r = buf_append(&s->out, SLICE("\n"));
	if (r == 0)
		r = lines_join(batch, &s->out);
	if (r == 0)
		r = lines_write(s->fd, buf_slice(&s->out), &s->torn);
	if (r == 0 && s->sync && fdatasync(s->fd) < 0)
		r = -errno;
	if (r < 0)
		return failure_errno(why, r, "%s", s->path);
	lines_delivered(batch);
	return 0;
}

static void file_free(struct sink *s)
{
	if (s == NULL)
		return;
	fd_close(&s->fd);
	buf_fini(&s->out);
	free(s);
}

const struct sink_kind sink_file = {
	.name = "file",
	.text = "a file that others rotate",
	.settings = settings,
	.setting_count = array_size(settings),
	.needs = SINK_NEEDS_OUTPUT,
	.formats = LINES_FORMATS,
	.format = AUDIT_FORMAT_OCSF,
	.window = 1,
	.open = file_open,
	.deliver = file_deliver,
	.reset = file_reset,
	.free = file_free,
};
