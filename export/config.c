/* See config.h. Values are config_value.c's, files config_file.c's. */
#include "export/config.h"

#include "common/cleanup.h"
#include "export/config_value.h"
#include "export/sink.h"
#include "policy/lexer.h"

#include <assert.h>
#include <stdio.h>

#define KIB UINT64_C(1024)

/** What every sink takes beside its kind's own. */
enum common_setting {
	COMMON_FORMAT,
	COMMON_BATCH_LINES,
	COMMON_BATCH_BYTES,
	COMMON_RETRY_LEAST,
	COMMON_RETRY_MOST,
	COMMON_TIMEOUT,
	COMMON_COUNT
};

static const struct sink_setting common[] = {
	[COMMON_FORMAT] = {.name = "format", .type = SETTING_TEXT},
	[COMMON_BATCH_LINES] = {.name = "batch-lines",
		.type = SETTING_COUNT,
		.least = 1,
		.most = 10000},
	[COMMON_BATCH_BYTES] = {.name = "batch-bytes",
		.type = SETTING_BYTES,
		.least = 16 * KIB,
		.most = 4 * KIB * KIB},
	[COMMON_RETRY_LEAST] = {.name = "retry-least",
		.type = SETTING_DURATION,
		.otherwise = "500ms",
		.least = 1,
		.most = 60000},
	[COMMON_RETRY_MOST] = {.name = "retry-most",
		.type = SETTING_DURATION,
		.otherwise = "1m",
		.least = 1,
		.most = 3600000},
	[COMMON_TIMEOUT] = {.name = "timeout",
		.type = SETTING_DURATION,
		.otherwise = "30s",
		.least = 10,
		.most = 600000},
};
static_assert(array_size(common) == COMMON_COUNT, "a row for every common setting");

/** Settings before the first sink. */
enum global_setting { GLOBAL_AUDIT_FOLDER, GLOBAL_STATE_FOLDER, GLOBAL_USER, GLOBAL_COUNT };

static const struct sink_setting globals[] = {
	[GLOBAL_AUDIT_FOLDER] = {.name = "audit-dir", .type = SETTING_FILE},
	[GLOBAL_STATE_FOLDER] = {.name = "state-dir", .type = SETTING_FILE, .required = true},
	[GLOBAL_USER] = {.name = "user", .type = SETTING_TEXT},
};
static_assert(array_size(globals) == GLOBAL_COUNT, "a row for every global setting");

/** Reading one file. */
struct reader {
	struct export_config *to;
	struct policy_report *report;
	const char *file;
	bool has_head;
	bool in_sink;             /* a "sink" line came, */
	struct sink_config *sink; /* and this is what it began; NULL: it was wrong */
	struct sink_value global[GLOBAL_COUNT];
};

static struct place place_of(const struct reader *r, const struct token *token)
{
	return (struct place){r->file, token->line, token->column};
}

static size_t settings_count(const struct sink_kind *kind)
{
	return kind->setting_count + COMMON_COUNT;
}

static const struct sink_setting *setting_at(const struct sink_kind *kind, size_t index)
{
	return index < kind->setting_count ? &kind->settings[index]
					   : &common[index - kind->setting_count];
}

static struct sink_value *common_value(struct sink_config *c, enum common_setting which)
{
	return &c->values[c->kind->setting_count + which];
}

/** A kind's own code names a setting that its table lacks. */
static _Noreturn void fatal_setting(const char *name)
{
	(void)fprintf(stderr, "eclusa-export: no setting %s\n", name);
	abort();
}

const struct sink_value *sink_config_value(const struct sink_config *c, const char *setting)
{
	for (size_t i = 0; i < settings_count(c->kind); i++) {
		if (strcmp(setting_at(c->kind, i)->name, setting) == 0)
			return &c->values[i];
	}
	fatal_setting(setting);
}

void sink_config_error(const struct sink_config *c, const char *setting,
	struct policy_report *report, const char *what)
{
	const struct sink_value *v = sink_config_value(c, setting);
	report_error(
		report, v->place.line > 0 ? v->place : c->place, "value", "%s: %s", setting, what);
}

/** A name that is not among those of a table: report it, with the nearest that is. */
static void report_unknown(struct reader *r, const struct token *name, const char *const *names)
{
	char shown[64];
	const char *nearest = report_nearest(name->text, names);
	(void)slice_escape(name->text, shown, sizeof(shown));
	if (nearest != NULL)
		report_error(r->report, place_of(r, name), "unknown",
			"unknown setting '%s'; did you mean '%s'?", shown, nearest);
	else
		report_error(r->report, place_of(r, name), "unknown", "unknown setting '%s' %s",
			shown, r->sink == NULL ? "before the first sink" : "of this kind of sink");
}

/** "NAME VALUE" into the value of a setting. */
static void take_value(struct reader *r, const struct sink_setting *setting,
	const struct statement_line *line, struct sink_value *to)
{
	char room[CONFIG_VALUE_SAYS_BYTES];
	const struct token *name = &line->tokens[0];
	if (line->count != 2) {
		report_error(
			r->report, place_of(r, name), "syntax", "write: %s VALUE", setting->name);
		return;
	}
	if (to->place.line > 0) {
		report_error(r->report, place_of(r, name), "twice",
			"%s stands twice, first in line %u", setting->name, to->place.line);
		return;
	}
	const char *wrong = config_value_take(setting, line->tokens[1].text, to, room);
	if (wrong != NULL)
		report_error(r->report, place_of(r, &line->tokens[1]), "value", "%s: %s",
			setting->name, wrong);
	to->place = place_of(r, &line->tokens[1]); /* said, even if it was wrong */
}

static void take_global(struct reader *r, const struct statement_line *line)
{
	const char *names[GLOBAL_COUNT + 2] = {"sink"};
	for (size_t i = 0; i < GLOBAL_COUNT; i++) {
		if (slice_equal(line->tokens[0].text, slice_of(globals[i].name))) {
			take_value(r, &globals[i], line, &r->global[i]);
			return;
		}
		names[i + 1] = globals[i].name;
	}
	report_unknown(r, &line->tokens[0], names);
}

static void take_setting(struct reader *r, const struct statement_line *line)
{
	const char *names[EXPORT_SETTINGS_MAX + 1] = {NULL};
	const struct sink_kind *kind = r->sink->kind;
	for (size_t i = 0; i < settings_count(kind); i++) {
		const struct sink_setting *setting = setting_at(kind, i);
		if (slice_equal(line->tokens[0].text, slice_of(setting->name))) {
			take_value(r, setting, line, &r->sink->values[i]);
			return;
		}
		names[i] = setting->name;
	}
	report_unknown(r, &line->tokens[0], names);
}

static bool is_sink_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0))
			return false;
	}
	return name.len > 0 && name.len < EXPORT_NAME_BYTES;
}

static const struct sink_kind *take_kind(struct reader *r, const struct token *token)
{
	char shown[64], names[256] = "";
	const struct sink_kind *kind = sink_kind_find(token->text);
	for (size_t i = 0; kind == NULL && sink_kind_at(i) != NULL; i++) {
		size_t used = strlen(names);
		(void)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
			sink_kind_at(i)->name);
	}
	if (kind == NULL)
		report_error(r->report, place_of(r, token), "unknown",
			"unknown kind of sink '%s'; there are %s",
			slice_escape(token->text, shown, sizeof(shown)), names);
	return kind;
}

static void begin_sink(struct reader *r, const struct statement_line *line)
{
	const struct token *words = line->tokens;
	r->in_sink = true;
	r->sink = NULL;
	if (line->count != 3) {
		report_error(r->report, place_of(r, &words[0]), "syntax", "write: sink NAME KIND");
		return;
	}
	if (!is_sink_name(words[1].text)) {
		report_error(r->report, place_of(r, &words[1]), "value",
			"a sink's name has a-z, 0-9 and '-', at most %d", EXPORT_NAME_BYTES - 1);
		return;
	}
	const struct sink_kind *kind = take_kind(r, &words[2]);
	if (kind == NULL)
		return;
	assert(settings_count(kind) <= EXPORT_SETTINGS_MAX);
	for (size_t i = 0; i < r->to->sink_count; i++) {
		if (slice_equal(words[1].text, slice_of(r->to->sinks[i].name))) {
			report_error(r->report, place_of(r, &words[1]), "twice",
				"a sink of this name stands in line %u",
				r->to->sinks[i].place.line);
			return;
		}
	}
	if (r->to->sink_count == EXPORT_SINKS_MAX) {
		report_error(r->report, place_of(r, &words[0]), "too-many", "more than %d sinks",
			EXPORT_SINKS_MAX);
		return;
	}
	r->sink = &r->to->sinks[r->to->sink_count++];
	r->sink->kind = kind;
	r->sink->place = place_of(r, &words[1]);
	(void)slice_copy(words[1].text, r->sink->name, sizeof(r->sink->name)); /* it fits */
}

/** The first statement says which language this is, so that a later one can't be taken for it. */
static void take_head(struct reader *r, const struct statement_line *line)
{
	r->has_head = true;
	if (line->count != 2 || !slice_equal(line->tokens[0].text, SLICE("export")) ||
		!slice_equal(line->tokens[1].text, SLICE("1")))
		report_error(r->report, place_of(r, &line->tokens[0]), "syntax",
			"the first line is: export 1");
}

static void take_line(struct reader *r, const struct statement_line *line)
{
	if (!r->has_head)
		take_head(r, line);
	else if (slice_equal(line->tokens[0].text, SLICE("sink")))
		begin_sink(r, line);
	else if (r->sink != NULL)
		take_setting(r, line);
	else if (!r->in_sink)
		take_global(r, line);
	/* else: the settings of a sink that was wrong itself */
}

/** What was not said. @return false after reporting what must be. */
static void fill_value(struct reader *r, const struct sink_setting *setting, struct place at,
	struct sink_value *value)
{
	char room[CONFIG_VALUE_SAYS_BYTES];
	if (value->place.line > 0)
		return;
	if (setting->required)
		report_error(r->report, at, "missing", "%s is missing", setting->name);
	else if (setting->otherwise != NULL &&
		config_value_take(setting, slice_of(setting->otherwise), value, room) != NULL)
		fatal_setting(setting->name); /* what stands in is a value of its type */
}

static void finish_format(struct reader *r, struct sink_config *c)
{
	const struct sink_value *v = common_value(c, COMMON_FORMAT);
	char names[128] = "";
	enum audit_format asked;
	c->format = c->kind->format;
	if (!sink_value_is(v))
		return;
	if (audit_format_find(slice_of(v->text), &asked) && (c->kind->formats & 1U << asked) != 0) {
		c->format = asked;
		return;
	}
	for (unsigned i = 0; i < AUDIT_FORMAT_COUNT; i++) {
		size_t used = strlen(names);
		if ((c->kind->formats & 1U << i) != 0)
			(void)snprintf(names + used, sizeof(names) - used, "%s%s",
				used == 0 ? "" : ", ", audit_format_name(i));
	}
	report_error(r->report, v->place, "value", "format: a sink of kind %s gives %s",
		c->kind->name, names);
}

static void finish_sink(struct reader *r, struct sink_config *c)
{
	for (size_t i = 0; i < settings_count(c->kind); i++)
		fill_value(r, setting_at(c->kind, i), c->place, &c->values[i]);
	finish_format(r, c);
	c->batch_lines = common_value(c, COMMON_BATCH_LINES)->number;
	c->batch_bytes = common_value(c, COMMON_BATCH_BYTES)->number;
	if (c->batch_lines == 0)
		c->batch_lines = c->kind->batch_lines != 0 ? c->kind->batch_lines : 512;
	if (c->batch_bytes == 0)
		c->batch_bytes = c->kind->batch_bytes != 0 ? c->kind->batch_bytes : 256 * KIB;
	c->retry_least_ms = (unsigned)common_value(c, COMMON_RETRY_LEAST)->number;
	c->retry_most_ms = (unsigned)common_value(c, COMMON_RETRY_MOST)->number;
	c->timeout_ms = (unsigned)common_value(c, COMMON_TIMEOUT)->number;
	if (c->retry_most_ms < c->retry_least_ms)
		sink_config_error(c, "retry-most", r->report, "less than retry-least");
	if (c->kind->check != NULL && r->report->errors == 0)
		c->kind->check(c, r->report);
}

static void finish(struct reader *r)
{
	struct place start = {r->file, 1, 1};
	struct export_config *to = r->to;
	if (!r->has_head)
		report_error(r->report, start, "syntax", "the first line is: export 1");
	for (size_t i = 0; i < GLOBAL_COUNT; i++)
		fill_value(r, &globals[i], start, &r->global[i]);
	memcpy(to->audit_folder, r->global[GLOBAL_AUDIT_FOLDER].text, sizeof(to->audit_folder));
	memcpy(to->state_folder, r->global[GLOBAL_STATE_FOLDER].text, sizeof(to->state_folder));
	if (slice_copy(slice_of(r->global[GLOBAL_USER].text), to->user, sizeof(to->user)) < 0)
		report_error(r->report, r->global[GLOBAL_USER].place, "value",
			"user: longer than %d bytes", EXPORT_NAME_BYTES - 1);
	if (to->sink_count == 0 && r->report->errors == 0)
		report_error(r->report, start, "missing", "there is no sink: write sink NAME KIND");
	size_t to_stdout = 0;
	for (size_t i = 0; i < to->sink_count; i++) {
		finish_sink(r, &to->sinks[i]);
		if (strcmp(to->sinks[i].kind->name, "stdout") == 0 && to_stdout++ == 1)
			report_error(r->report, to->sinks[i].place, "twice",
				"only one sink can have standard output");
	}
}

int export_config_parse(const char *file, struct slice text, struct export_config *ret,
	struct policy_report *report)
{
	struct lexer lexer;
	auto_free struct export_config *made = calloc(1, sizeof(*made));
	auto_free struct reader *r = calloc(1, sizeof(*r));
	auto_free struct statement_line *line = malloc(sizeof(*line));
	if (made == NULL || r == NULL || line == NULL)
		return -ENOMEM;
	*r = (struct reader){.to = made, .report = report, .file = file};
	lexer_init(&lexer, file, text, report);
	lexer.line_only = true;
	while (lexer_next(&lexer, line))
		take_line(r, line);
	finish(r);
	report_sort(report, &file, 1);
	if (report->errors > 0)
		return -EINVAL;
	*ret = *made;
	return 0;
}
