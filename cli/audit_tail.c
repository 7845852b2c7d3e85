/* `eclusa audit tail`: the last events that fit, found from the end of the log, and with -f those that come. */
#include "cli/audit_follow.h"
#include "cli/audit_output.h"
#include "cli/audit_query.h"
#include "cli/audit_show.h"
#include "common/cleanup.h"

#define TAIL_LINES     10
#define TAIL_LINES_MAX UINT64_C(10000)

/** The last lines, the last one first. */
struct kept {
	char **lines;
	uint64_t count, most;
};

struct tail {
	struct audit_output output;
	struct kept kept;
	bool raw, coloured;
};

static int keep(void *arg, const struct audit_line *line)
{
	struct tail *t = arg;
	char *copy = slice_dup(audit_line_bytes(line));
	if (copy == NULL)
		return -ENOMEM;
	t->kept.lines[t->kept.count++] = copy;
	return t->kept.count == t->kept.most ? -ECANCELED : 0;
}

static int print(void *arg, const struct audit_line *line)
{
	struct tail *t = arg;
	if (t->raw)
		return audit_output_raw(&t->output, audit_line_bytes(line));
	audit_show(line, t->coloured, &t->output.lines);
	return audit_output_line(&t->output);
}

static int print_kept(struct tail *t)
{
	int r = 0;
	struct audit_read read = {.visit = print, .arg = t};
	for (uint64_t i = t->kept.count; r == 0 && i > 0; i--)
		r = audit_read_line(&read, slice_of(t->kept.lines[i - 1]));
	return r < 0 ? r : audit_output_flush(&t->output);
}

static void kept_fini(struct kept *k)
{
	for (uint64_t i = 0; i < k->count; i++)
		free(k->lines[i]);
	free(k->lines);
	*k = (struct kept){0};
}

static int find_last(struct tail *t, struct audit_query *q)
{
	int r = t->kept.most == 0 ? 0 : audit_query_run(q);
	audit_query_tell(q);
	if (r == 0)
		r = print_kept(t);
	kept_fini(&t->kept);
	return r;
}

static int follow(struct tail *t, struct audit_query *q, struct audit_follow *f)
{
	q->visit = print;
	return audit_follow_run(f, q, &t->output);
}

/** @f is listening already, if its descriptor is one: so nothing falls between the picture and what comes. */
static int run(struct tail *t, struct audit_query *q, int folder_fd, struct audit_follow *f)
{
	int r = audit_query_open(q, folder_fd);
	if (r == 0)
		r = audit_output_open(&t->output, NULL);
	if (r == 0)
		r = find_last(t, q);
	if (r == 0 && f != NULL)
		r = follow(t, q, f);
	if (r < 0)
		kept_fini(&t->kept);
	r = audit_output_close(&t->output, r);
	audit_query_fini(q);
	return r;
}

int audit_tool_tail(const struct audit_words *words)
{
	struct audit_filter filter;
	struct audit_follow f = {.inotify_fd = -1};
	struct tail t = {.kept = {.most = TAIL_LINES},
		.raw = words->json,
		.coloured = audit_show_coloured(STDOUT_FILENO)};
	if (audit_filter_read(words, &filter) != 0 ||
		(words->count != NULL &&
			audit_number(words->count, "-n takes a number up to 10000, not ",
				TAIL_LINES_MAX, &t.kept.most) != 0))
		return AUDIT_EXIT_UNREADABLE;
	struct audit_query q = {.filter = &filter, .visit = keep, .arg = &t, .backwards = true};
	auto_fd folder = audit_open_folder(words);
	if (folder < 0 || (words->follow && audit_follow_open(&f, folder) < 0))
		return AUDIT_EXIT_UNREADABLE;
	t.kept.lines = calloc(t.kept.most + 1, sizeof(*t.kept.lines));
	int r = t.kept.lines == NULL ? -ENOMEM : run(&t, &q, folder, words->follow ? &f : NULL);
	audit_follow_fini(&f);
	return r < 0 ? AUDIT_EXIT_UNREADABLE : AUDIT_EXIT_SOUND;
}
