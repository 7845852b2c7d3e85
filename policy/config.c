/* See config.h. Strict: a word that is not known stops whatever reads it, since it may have been meant to protect. */
#include "policy/config.h"

#include "policy/lexer.h"

#include "common/cleanup.h"

#include <stdio.h>

/** Reading one file. */
struct reader {
	struct config *to;
	struct policy_report *report;
	bool allow_rules_said;
};

/** @return NULL, or what is wrong with the value. */
static const char *take_trust(struct reader *r, const struct token *value)
{
	struct config *c = r->to;
	if (c->trust_count == CONFIG_TRUST_MAX)
		return "more than 16 keys are trusted";
	struct config_trust *t = &c->trust[c->trust_count];
	if (value->text.ptr[0] != '/')
		return "write the key file as an absolute path";
	if (slice_copy(value->text, t->path, sizeof(t->path)) < 0)
		return "the path is longer than 255 bytes";
	t->line = value->line;
	c->trust_count++;
	return NULL;
}

static const char *take_allow_rules(struct reader *r, const struct token *value)
{
	bool yes = slice_equal(value->text, SLICE("yes"));
	if (r->allow_rules_said)
		return "allow-rules stands twice";
	if (!yes && !slice_equal(value->text, SLICE("no")))
		return "allow-rules is yes or no";
	r->allow_rules_said = true;
	r->to->allow_rules = yes;
	return NULL;
}

static const struct setting {
	struct slice name;
	const char *usage;
	const char *(*take)(struct reader *r, const struct token *value);
} settings[] = {
	{{"trust", 5}, "write: trust FILE, with the public key of whom you trust to sign policies",
		take_trust},
	{{"allow-rules", 11}, "write: allow-rules yes|no", take_allow_rules},
};

static void take_line(struct reader *r, const char *file, const struct statement_line *line)
{
	const struct token *word = &line->tokens[0];
	char shown[64];
	for (size_t i = 0; i < array_size(settings); i++) {
		if (!slice_equal(word->text, settings[i].name))
			continue;
		const char *wrong = line->count != 2 ? settings[i].usage
						     : settings[i].take(r, &line->tokens[1]);
		if (wrong != NULL)
			report_error(r->report,
				(struct place){file, word->line,
					line->count == 2 ? line->tokens[1].column : word->column},
				"config", "%s", wrong);
		return;
	}
	report_error(r->report, (struct place){file, word->line, word->column}, "config",
		"unknown setting '%s'; there are trust and allow-rules",
		slice_escape(word->text, shown, sizeof(shown)));
}

int config_parse(const char *file, struct slice text, struct config *ret, struct failure *why)
{
	char said[1024];
	struct lexer lexer;
	struct config made = {.trust_count = 0};
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	auto_free struct statement_line *line = malloc(sizeof(*line));
	if (report == NULL || line == NULL)
		return failure_errno(why, -ENOMEM, "%s", file);
	struct reader r = {.to = &made, .report = report};
	lexer_init(&lexer, file, text, report);
	lexer.line_only = true;
	while (lexer_next(&lexer, line))
		take_line(&r, file, line);
	if (report->errors > 0)
		return failure_set(why, -EINVAL, "%s",
			policy_diagnostic_format(&report->items[0], said, sizeof(said)));
	*ret = made;
	return 0;
}
