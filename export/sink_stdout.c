/* A sink that writes lines to standard output, for a sidecar or a pipe. What was written counts as delivered. */
#include "export/kinds.h"

#include "common/cleanup.h"
#include "export/lines.h"

struct sink {
	struct buf out;
	bool torn; /* a line was begun and not ended */
	bool headed;
	enum audit_format format;
};

static int stdout_open(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	struct sink *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "sink %s", c->name);
	s->format = c->format;
	*ret = s;
	return 0;
}

static int stdout_deliver(struct sink *s, struct sink_batch *batch, struct failure *why)
{
	buf_clear(&s->out);
	if (s->torn)
		(void)buf_append(&s->out, SLICE("\n")); /* errors show below */
	if (!s->headed)
		lines_head(s->format, &s->out);
	int r = lines_join(batch, &s->out);
	if (r == 0)
		r = lines_write(STDOUT_FILENO, buf_slice(&s->out), &s->torn);
	if (r < 0)
		return failure_errno(why, r, "standard output");
	s->headed = true;
	lines_delivered(batch);
	return 0;
}

static void stdout_reset(struct sink *s)
{
	buf_clear(&s->out);
}

static void stdout_free(struct sink *s)
{
	if (s != NULL)
		buf_fini(&s->out);
	free(s);
}

const struct sink_kind sink_stdout = {
	.name = "stdout",
	.text = "standard output, a line each",
	.formats = LINES_FORMATS,
	.format = AUDIT_FORMAT_OCSF,
	.window = 1,
	.open = stdout_open,
	.deliver = stdout_deliver,
	.reset = stdout_reset,
	.free = stdout_free,
};
