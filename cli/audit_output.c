/* See audit_output.h. */
#include "cli/audit_output.h"

#include "audit/visible.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define FLUSH_BYTES ((size_t)256 << 10)
#define LIMIT_BYTES ((size_t)4 << 20)

static int complain(const struct audit_output *o, int error)
{
	char shown[256];
	if (error != -EPIPE)
		(void)fprintf(stderr, "eclusa audit: %s: %s\n",
			o->path == NULL ? "standard output"
					: slice_escape(slice_of(o->path), shown, sizeof(shown)),
			strerror(-error));
	return error;
}

/** A file that is there is replaced when the new one is whole; what is no file (a pipe, a device) is written to. */
static int open_path(struct audit_output *o)
{
	struct stat st;
	if (stat(o->path, &st) == 0 && !S_ISREG(st.st_mode)) {
		o->fd = open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		return o->fd < 0 ? -errno : 0;
	}
	int len = snprintf(o->temporary, sizeof(o->temporary), "%s.XXXXXX", o->path);
	if (len < 0 || (size_t)len >= sizeof(o->temporary)) {
		o->temporary[0] = '\0';
		return -ENAMETOOLONG;
	}
	o->fd = mkostemp(o->temporary, O_CLOEXEC);
	int r = o->fd < 0 ? -errno : 0;
	if (r < 0)
		o->temporary[0] = '\0';
	return r;
}

int audit_output_open(struct audit_output *o, const char *path)
{
	*o = (struct audit_output){.fd = STDOUT_FILENO, .lines = {.limit = LIMIT_BYTES}};
	if (path == NULL || strcmp(path, "-") == 0) {
		o->terminal = isatty(STDOUT_FILENO);
		return 0;
	}
	o->path = path;
	int r = open_path(o);
	return r < 0 ? complain(o, r) : 0;
}

int audit_output_flush(struct audit_output *o)
{
	int r = o->lines.failed ? -ENOMEM : file_write_all(o->fd, buf_slice(&o->lines));
	buf_clear(&o->lines);
	return r < 0 ? complain(o, r) : 0;
}

int audit_output_line(struct audit_output *o)
{
	(void)buf_append(&o->lines, SLICE("\n")); /* errors show in failed */
	return buf_len(&o->lines) >= FLUSH_BYTES || o->lines.failed ? audit_output_flush(o) : 0;
}

int audit_output_raw(struct audit_output *o, struct slice line)
{
	if (o->terminal)
		visible_append(&o->lines, line, NULL);
	else
		(void)buf_append(&o->lines, line); /* errors show in failed */
	return audit_output_line(o);
}

/** The temporary file takes its name, durably. */
static int put_in_place(struct audit_output *o)
{
	if (fsync(o->fd) < 0 || rename(o->temporary, o->path) < 0)
		return complain(o, -errno);
	o->temporary[0] = '\0';
	return 0;
}

int audit_output_close(struct audit_output *o, int status)
{
	int r = status < 0 ? status : audit_output_flush(o);
	if (r == 0 && o->temporary[0] != '\0')
		r = put_in_place(o);
	if (o->temporary[0] != '\0')
		(void)unlink(o->temporary); /* as well as can be */
	if (o->path != NULL)
		fd_close(&o->fd);
	buf_fini(&o->lines);
	return r < 0 ? r : status;
}
