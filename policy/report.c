/* See report.h. */
#include "policy/report.h"

#include "common/cleanup.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define WORD_BYTES_MAX 24

static bool same_finding(
	const struct policy_diagnostic *d, const struct place *at, const char *code)
{
	return d->line == at->line && d->column == at->column && strcmp(d->code, code) == 0 &&
		strcmp(d->file, at->file) == 0;
}

/** A free item that holds place and code, or NULL: known already, or no room. */
static struct policy_diagnostic *report_add(struct policy_report *report, const struct place *at,
	const char *code, enum policy_severity severity)
{
	for (size_t i = 0; i < report->count; i++) {
		if (same_finding(&report->items[i], at, code))
			return NULL;
	}
	if (severity == POLICY_ERROR)
		report->errors++;
	if (report->count == POLICY_DIAGNOSTICS_MAX)
		return NULL;
	struct policy_diagnostic *d = &report->items[report->count++];
	*d = (struct policy_diagnostic){
		.line = at->line, .column = at->column, .severity = severity};
	(void)snprintf(d->file, sizeof(d->file), "%s", at->file); /* BUNDLE_NAME_BYTES_MAX fits */
	(void)snprintf(d->code, sizeof(d->code), "%s", code);
	return d;
}

__attribute__((format(printf, 2, 0))) static void report_text(
	struct policy_diagnostic *d, const char *format, va_list args)
{
	if (d != NULL)
		(void)vsnprintf(d->text, sizeof(d->text), format, args); /* cut, on purpose */
}

void report_error(
	struct policy_report *report, struct place at, const char *code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	report_text(report_add(report, &at, code, POLICY_ERROR), format, args);
	va_end(args);
}

void report_warning(
	struct policy_report *report, struct place at, const char *code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	report_text(report_add(report, &at, code, POLICY_WARNING), format, args);
	va_end(args);
}

void report_note(
	struct policy_report *report, struct place at, const char *code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	report_text(report_add(report, &at, code, POLICY_NOTE), format, args);
	va_end(args);
}

static size_t file_rank(const char *file, const char *const *files, size_t file_count)
{
	size_t rank = 0;
	while (rank < file_count && strcmp(file, files[rank]) != 0)
		rank++;
	return rank;
}

void report_sort(struct policy_report *report, const char *const *files, size_t file_count)
{
	/* Insertion: stable, and POLICY_DIAGNOSTICS_MAX items at most. */
	for (size_t i = 1; i < report->count; i++) {
		struct policy_diagnostic moved = report->items[i];
		size_t rank = file_rank(moved.file, files, file_count);
		size_t at = i;
		for (; at > 0; at--) {
			const struct policy_diagnostic *before = &report->items[at - 1];
			size_t before_rank = file_rank(before->file, files, file_count);
			if (before_rank < rank ||
				(before_rank == rank &&
					(before->line < moved.line ||
						(before->line == moved.line &&
							before->column <= moved.column))))
				break;
			report->items[at] = *before;
		}
		report->items[at] = moved;
	}
}

const char *policy_severity_name(enum policy_severity severity)
{
	static const char *const names[] = {
		[POLICY_ERROR] = "error",
		[POLICY_WARNING] = "warning",
		[POLICY_NOTE] = "note",
	};
	static_assert(array_size(names) == POLICY_SEVERITY_COUNT, "a name for every severity");
	return names[severity];
}

char *policy_diagnostic_format(const struct policy_diagnostic *d, char *to, size_t capacity)
{
	(void)snprintf(to, capacity, "%s:%u:%u: %s: %s: %s", d->file, d->line, d->column,
		policy_severity_name(d->severity), d->code, d->text); /* cut to the caller's room */
	return to;
}

/** Levenshtein's distance between two short words. */
static size_t distance(struct slice a, struct slice b)
{
	size_t row[WORD_BYTES_MAX + 1];
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t change = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);
			size_t gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			diagonal = row[j];
			row[j] = change < gap ? change : gap;
		}
	}
	return row[b.len];
}

const char *report_nearest(struct slice text, const char *const *words)
{
	const char *best = NULL;
	size_t best_distance = 3; /* more than two slips is another word */
	if (text.len == 0 || text.len > WORD_BYTES_MAX)
		return NULL;
	for (; *words != NULL; words++) {
		struct slice word = slice_of(*words);
		size_t d = word.len > WORD_BYTES_MAX ? best_distance : distance(text, word);
		if (d < best_distance && d < word.len) {
			best_distance = d;
			best = *words;
		}
	}
	return best;
}
