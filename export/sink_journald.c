/*
 * A sink that writes to systemd's journal in its native protocol: a datagram of fields, or, when that is too large, a sealed
 * memory file. A line that is in the journal's socket counts as delivered: systemd keeps that socket when the journal restarts.
 */
#include "export/kinds.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "export/datagram.h"
#include "export/syslog.h"

#include <inttypes.h>

struct sink {
	const char *path;
	unsigned timeout_ms;
	int fd; /* -1: not connected */
	struct buf out;
};

static const struct sink_setting settings[] = {
	{.name = "socket", .type = SETTING_SOCKET, .otherwise = "/run/systemd/journal/socket"},
};

static int journald_open(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	struct sink *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "sink %s", c->name);
	*s = (struct sink){.path = sink_config_value(c, "socket")->text,
		.timeout_ms = c->timeout_ms,
		.fd = -1};
	*ret = s;
	return 0;
}

/** A field whose value has no newline: it stands in one line. */
static void write_field(struct buf *to, struct slice name, struct slice value)
{
	if (value.len == 0)
		return;
	(void)buf_append(to, name); /* errors show in to->failed */
	(void)buf_append(to, SLICE("="));
	(void)buf_append(to, value);
	(void)buf_append(to, SLICE("\n"));
}

static int compose(const struct sink_line *line, struct buf *to)
{
	const struct facts *f = &line->facts;
	buf_clear(to);
	to->failed = false;
	write_field(to, SLICE("MESSAGE"), line->text);
	(void)buf_printf(to, "PRIORITY=%u\nSYSLOG_IDENTIFIER=eclusa\n", syslog_severity(f));
	write_field(to, SLICE("ECLUSA_UID"), f->uid);
	write_field(to, SLICE("ECLUSA_CODE"), f->code);
	write_field(to, SLICE("ECLUSA_SANDBOX"), f->sandbox);
	write_field(to, SLICE("ECLUSA_RULE"), f->rule);
	write_field(to, SLICE("ECLUSA_ACTION"), f->action);
	if (f->sequence > 0)
		(void)buf_printf(to, "ECLUSA_SEQUENCE=%" PRIu64 "\n", f->sequence);
	return to->failed ? -ENOBUFS : 0;
}

static int send_entry(const struct sink *s)
{
	int r = datagram_send(s->fd, buf_slice(&s->out), s->timeout_ms);
	if (r != -EMSGSIZE && r != -ENOBUFS)
		return r;
	auto_fd file = file_memory("eclusa-journal", buf_slice(&s->out));
	return file < 0 ? file : datagram_send_fd(s->fd, file, s->timeout_ms);
}

static int journald_deliver(struct sink *s, struct sink_batch *batch, struct failure *why)
{
	int r = s->fd >= 0 ? 0 : datagram_connect_unix(s->path, &s->fd, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < batch->count; i++) {
		struct sink_line *line = &batch->lines[i];
		if (line->fate != SINK_WAITING)
			continue;
		r = compose(line, &s->out);
		if (r == 0)
			r = send_entry(s);
		if (r < 0)
			return failure_errno(why, r, "%s", s->path);
		line->fate = SINK_DELIVERED;
	}
	return 0;
}

static void journald_reset(struct sink *s)
{
	fd_close(&s->fd);
}

static void journald_free(struct sink *s)
{
	if (s == NULL)
		return;
	fd_close(&s->fd);
	buf_fini(&s->out);
	free(s);
}

const struct sink_kind sink_journald = {
	.name = "journald",
	.text = "systemd's journal on this host",
	.settings = settings,
	.setting_count = array_size(settings),
	.needs = SINK_NEEDS_UNIX,
	.formats = 1U << AUDIT_FORMAT_OCSF | 1U << AUDIT_FORMAT_OCSF_BARE | 1U << AUDIT_FORMAT_ECS |
		1U << AUDIT_FORMAT_CEF | 1U << AUDIT_FORMAT_LEEF,
	.format = AUDIT_FORMAT_OCSF,
	.window = 1,
	.open = journald_open,
	.deliver = journald_deliver,
	.reset = journald_reset,
	.free = journald_free,
};
