/* Findings in policy text, with their place. Collects; judges nothing. */
#ifndef ECLUSA_POLICY_REPORT_H
#define ECLUSA_POLICY_REPORT_H

#include "policy/policy.h"

/** Where something stands. Line and column count from 1; columns count bytes. */
struct place {
	const char *file;
	unsigned line;
	unsigned column;
};

/** Add an error. The same code at the same place is counted once. */
void report_error(struct policy_report *report, struct place at, const char *code,
	const char *format, ...) __attribute__((format(printf, 4, 5)));
/** Add a finding that does not stop a policy from loading. */
void report_warning(struct policy_report *report, struct place at, const char *code,
	const char *format, ...) __attribute__((format(printf, 4, 5)));
/** Add what is only to know. Takes no room that findings may need later: comes last. */
void report_note(struct policy_report *report, struct place at, const char *code,
	const char *format, ...) __attribute__((format(printf, 4, 5)));
/** Put items in order of place; files in the order of @files, others last. */
void report_sort(struct policy_report *report, const char *const *files, size_t file_count);

/** The one of @words (NULL-terminated) that @text was probably meant to be, or NULL. */
const char *report_nearest(struct slice text, const char *const *words);

#endif
