/* See batch.h. */
#include "export/batch.h"

#include "audit/chain.h"
#include "common/cleanup.h"

#define LINES_FIRST 32

struct batch *batch_new(const struct sink_config *c, size_t raw_bytes)
{
	char *ignored;
	struct batch *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return NULL;
	b->format = c->format;
	b->lines_max = c->batch_lines;
	b->text_max = c->batch_bytes;
	buf_init(&b->raw, raw_bytes);
	buf_init(&b->text, b->text_max + AUDIT_FORMAT_BYTES_MAX);
	/* Reserved as a whole: lines point into it. */
	int r = buf_reserve(&b->raw, raw_bytes, &ignored);
	if (r == 0 && b->format != AUDIT_FORMAT_OCSF)
		r = buf_reserve(&b->text, b->text.limit, &ignored);
	if (r < 0) {
		batch_free(b);
		return NULL;
	}
	return b;
}

void batch_free(struct batch *b)
{
	if (b == NULL)
		return;
	buf_fini(&b->raw);
	buf_fini(&b->text);
	free(b->sink.lines);
	free(b);
}

size_t batch_room(const struct batch *b)
{
	return b->raw.limit - buf_len(&b->raw);
}

/** @return a zeroed line at the end, or NULL. */
static struct sink_line *add_line(struct batch *b)
{
	if (b->sink.count == b->capacity) {
		size_t capacity = b->capacity == 0 ? LINES_FIRST : 2 * b->capacity;
		struct sink_line *more =
			reallocarray(b->sink.lines, capacity, sizeof(b->sink.lines[0]));
		if (more == NULL)
			return NULL;
		b->sink.lines = more;
		b->capacity = capacity;
	}
	struct sink_line *line = &b->sink.lines[b->sink.count++];
	memset(line, 0, sizeof(*line));
	return line;
}

/** The line in the sink's format; one that has none there is poison. */
static void give_format(struct batch *b, struct sink_line *line)
{
	size_t before = buf_len(&b->text);
	if (b->format == AUDIT_FORMAT_OCSF) {
		line->text = line->bytes;
		return;
	}
	int r = audit_format_write(b->format, line->bytes, &b->text);
	line->text = slice_part(buf_slice(&b->text), before, buf_len(&b->text));
	if (r < 0) {
		buf_drop_end(&b->text, buf_len(&b->text) - before);
		b->text.failed = false;
		sink_poison(line, "no event in the format %s", audit_format_name(b->format));
	}
}

static int take_line(struct batch *b, struct slice bytes)
{
	struct sink_line *line = add_line(b);
	if (line == NULL)
		return -ENOMEM;
	line->bytes = bytes;
	if (facts_find(bytes, &line->facts) < 0)
		sink_poison(line, "no JSON object");
	else
		give_format(b, line);
	return 0;
}

int batch_take_poison(struct batch *b, struct slice beginning, const char *why)
{
	struct sink_line *line = add_line(b);
	if (line == NULL)
		return -ENOMEM;
	line->bytes = beginning;
	sink_poison(line, "%s", why);
	return 0;
}

static bool is_full(const struct batch *b)
{
	return b->sink.count >= b->lines_max || buf_len(&b->text) >= b->text_max;
}

int batch_take(struct batch *b, struct slice lines, uint64_t skip_through, size_t *ret_taken,
	uint64_t *ret_sequence)
{
	struct slice rest = lines, line;
	uint64_t sequence = 0;
	while (!is_full(b) && slice_split(rest, '\n', &line, &rest)) {
		if (line.len == 0)
			continue; /* the end of a line that a crash tore */
		if (skip_through > 0 && chain_sequence(line) <= skip_through)
			continue;
		int r = take_line(b, line);
		if (r < 0)
			return r;
		uint64_t number = b->sink.lines[b->sink.count - 1].facts.sequence;
		sequence = number > 0 ? number : sequence;
	}
	*ret_taken = lines.len - rest.len;
	*ret_sequence = sequence;
	return 0;
}

bool batch_has(const struct batch *b, enum sink_fate fate)
{
	for (size_t i = 0; i < b->sink.count; i++) {
		if (b->sink.lines[i].fate == fate)
			return true;
	}
	return false;
}

bool batch_is_done(const struct batch *b)
{
	return !batch_has(b, SINK_WAITING) && !batch_has(b, SINK_SENT);
}

void batch_recall(struct batch *b)
{
	b->sink.tag = 0;
	for (size_t i = 0; i < b->sink.count; i++) {
		if (b->sink.lines[i].fate == SINK_SENT)
			b->sink.lines[i].fate = SINK_WAITING;
	}
}
