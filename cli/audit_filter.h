/* Which events a tool was asked for: what `audit tail`, `grep`, `stats` and `export` share. */
#ifndef ECLUSA_CLI_AUDIT_FILTER_H
#define ECLUSA_CLI_AUDIT_FILTER_H

#include "audit/reader.h"
#include "cli/audit.h"

/** What became of a request. An event that decides nothing has none. */
enum audit_verdict {
	AUDIT_VERDICT_NONE,
	AUDIT_VERDICT_ALLOW,
	AUDIT_VERDICT_DENY,
	AUDIT_VERDICT_ERROR, /* policy let it pass, then it failed; or it failed here and was refused */
	AUDIT_VERDICT_OBSERVE, /* it passed only because nothing is enforced */
	AUDIT_VERDICT_COUNT
};

/** Zeros and NULLs ask for everything. Text is the words'. */
struct audit_filter {
	const char *sandbox; /* id or name */
	const char *host;    /* as it is, or ".suffix" for all names below it */
	const char *reason, *rule, *profile;
	const char *text; /* stands in the line, as the log has it */
	enum audit_verdict verdict;
	uint64_t since_ms, until_ms; /* [since, until) */
	uint64_t class_uid;
};

/** @return 0, or AUDIT_EXIT_UNREADABLE after a line on stderr. */
int audit_filter_read(const struct audit_words *words, struct audit_filter *ret);
/** Whether a line can be one of them, by what is cheap to see. Never false for one that is. */
bool audit_filter_may_take(const struct audit_filter *f, struct slice bytes, uint64_t time_ms);
bool audit_filter_takes(const struct audit_filter *f, const struct audit_line *line);

enum audit_verdict audit_verdict_of(const struct audit_line *line);
/** "allow", "deny", "error", "observe", "-". */
const char *audit_verdict_name(enum audit_verdict verdict);

#endif
