/* What the tools of `eclusa audit` share: options, the folder, exit statuses. One file a tool. */
#ifndef ECLUSA_CLI_AUDIT_H
#define ECLUSA_CLI_AUDIT_H

#include "common/json.h"

enum audit_exit {
	AUDIT_EXIT_SOUND = 0,
	AUDIT_EXIT_FINDINGS = 1,   /* grep: nothing was found */
	AUDIT_EXIT_UNREADABLE = 2, /* wrong usage, too */
};

/** Bits: which options a tool takes, besides --help. */
enum audit_option {
	AUDIT_OPTION_JSON = 1,      /* --json */
	AUDIT_OPTION_FOLDER = 2,    /* --audit-dir DIR */
	AUDIT_OPTION_PUBLIC = 4,    /* --pub KEY */
	AUDIT_OPTION_FROM = 8,      /* --from SEQ */
	AUDIT_OPTION_SIGNED = 16,   /* --signed */
	AUDIT_OPTION_KEY = 32,      /* --key FILE */
	AUDIT_OPTION_SINCE = 64,    /* --from TIME, --since */
	AUDIT_OPTION_UNTIL = 128,   /* --to TIME, --until */
	AUDIT_OPTION_OUTPUT = 256,  /* -o FILE */
	AUDIT_OPTION_FILTER = 512,  /* --sandbox, --since, ...: audit_filter.h */
	AUDIT_OPTION_COUNT = 1024,  /* -n N */
	AUDIT_OPTION_FOLLOW = 2048, /* -f */
	AUDIT_OPTION_FORMAT = 4096, /* --format NAME */
	AUDIT_OPTION_BEFORE = 8192, /* --before TIME */
};

/** A command line taken apart. Words point into argv; NULL when not given. */
struct audit_words {
	bool json;
	bool signed_only; /* what is not signed is a finding */
	bool follow;
	const char *folder;
	const char *public_key;
	const char *key;
	const char *since, *until; /* moments: audit_time.h */
	const char *before;
	const char *output;
	const char *from;
	const char *count;
	const char *format;
	const char *sandbox, *host, *verdict, *reason, *rule, *profile, *class; /* of the filter */
	char **words; /* those that are no options */
	size_t word_count;
};

/** @return exit status. */
typedef int audit_tool_run(const struct audit_words *words);

audit_tool_run audit_tool_verify;
audit_tool_run audit_tool_keygen;
audit_tool_run audit_tool_report;
audit_tool_run audit_tool_tail;
audit_tool_run audit_tool_grep;
audit_tool_run audit_tool_stats;
audit_tool_run audit_tool_export;
audit_tool_run audit_tool_prune;

/** One line on stderr, with @arg escaped. @return AUDIT_EXIT_UNREADABLE */
int audit_usage(const char *what, const char *arg);
/** Open --audit-dir or the default folder, to read. @return descriptor, or negative errno after a line on stderr. */
int audit_open_folder(const struct audit_words *words);
/** A number of an option. @return 0, or AUDIT_EXIT_UNREADABLE after a line on stderr. */
int audit_number(const char *text, const char *what, uint64_t max, uint64_t *ret);
/** Write what a tool has to say, and free it. @return @status, or AUDIT_EXIT_UNREADABLE if that fails. */
int audit_finish(struct buf *out, int status);

/** The line on a terminal while something takes long. */
struct audit_progress {
	bool on;
	uint64_t last_ns;
	bool shown;
};

void audit_progress_show(struct audit_progress *p, uint64_t done_bytes, uint64_t all_bytes);
void audit_progress_end(struct audit_progress *p);

#endif
