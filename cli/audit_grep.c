/* `eclusa audit grep`: the events that fit, and hold a text. */
#include "cli/audit_output.h"
#include "cli/audit_query.h"
#include "cli/audit_show.h"
#include "common/cleanup.h"

struct printing {
	struct audit_output output;
	bool raw, coloured;
};

static int print(void *arg, const struct audit_line *line)
{
	struct printing *p = arg;
	if (p->raw)
		return audit_output_raw(&p->output, audit_line_bytes(line));
	audit_show(line, p->coloured, &p->output.lines);
	return audit_output_line(&p->output);
}

int audit_tool_grep(const struct audit_words *words)
{
	struct audit_filter filter;
	struct printing p = {.raw = words->json, .coloured = audit_show_coloured(STDOUT_FILENO)};
	if (audit_filter_read(words, &filter) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (words->word_count > 0)
		filter.text = words->words[0];
	struct audit_query q = {
		.filter = &filter, .visit = print, .arg = &p, .progress = !isatty(STDOUT_FILENO)};
	auto_fd folder = audit_open_folder(words);
	if (folder < 0 || audit_query_open(&q, folder) < 0)
		return AUDIT_EXIT_UNREADABLE;
	int r = audit_output_open(&p.output, NULL);
	if (r == 0)
		r = audit_query_run(&q);
	r = audit_output_close(&p.output, r);
	audit_query_tell(&q);
	audit_query_fini(&q);
	if (r < 0)
		return AUDIT_EXIT_UNREADABLE;
	return q.taken > 0 ? AUDIT_EXIT_SOUND : AUDIT_EXIT_FINDINGS;
}
