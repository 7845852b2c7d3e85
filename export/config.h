/*
 * The configuration of the exporter: one file in the words of allowlists (comments, blanks, no control bytes), a setting a
 * line; "sink NAME KIND" begins a sink, and the settings behind it are that sink's. Strict: what is not known is an
 * error. export_config_parse() is pure; export_config_inspect() looks at the files that are named. The file is its
 * administrator's, and judged as if it were hostile.
 */
#ifndef ECLUSA_EXPORT_CONFIG_H
#define ECLUSA_EXPORT_CONFIG_H

#include "audit/format.h"
#include "common/failure.h"
#include "policy/report.h"

#define EXPORT_CONFIG_BYTES_MAX ((size_t)64 << 10)
#define EXPORT_SINKS_MAX        16
#define EXPORT_SETTINGS_MAX     32  /* of a kind of sink, the common ones included */
#define EXPORT_NAME_BYTES       32  /* of a sink: [a-z0-9-], NUL included */
#define EXPORT_VALUE_BYTES      512 /* of a value, NUL included */
#define EXPORT_SECRET_BYTES_MAX ((size_t)64 << 10)

struct sink_kind;

/** What a value may be, and how it is kept. */
enum setting_type {
	SETTING_TEXT,     /* printable ASCII without blanks */
	SETTING_FLAG,     /* yes or no: number 1 or 0 */
	SETTING_COUNT,    /* number, within least and most */
	SETTING_BYTES,    /* 64k, 1m: number, within least and most */
	SETTING_DURATION, /* 200ms, 10s, 5m: number of ms, within least and most */
	SETTING_WORD,     /* one of words: number is its index */
	SETTING_ENDPOINT, /* NAME:PORT, ADDRESS:PORT or [ADDRESS]:PORT: number is the port, text the host alone */
	SETTING_URL,    /* http:// or https://, without user, query and fragment */
	SETTING_FILE,   /* absolute path of a file that must be there */
	SETTING_SECRET, /* absolute path of a file that nobody but its owner may read */
	SETTING_OUTPUT, /* absolute path of a file that is made; its folder must be there */
	SETTING_SOCKET, /* absolute path of a Unix socket */
	SETTING_TYPE_COUNT
};

/** A row of a kind's table: a setting that it takes. Settings stand at most once. */
struct sink_setting {
	const char *name;
	enum setting_type type;
	bool required;
	const char *otherwise;    /* the text that stands in when it is not said; NULL: none */
	uint64_t least, most;     /* most 0: no limit */
	const char *const *words; /* NULL-terminated */
};

/** The value of a setting: of the file, or what stands in. */
struct sink_value {
	char text[EXPORT_VALUE_BYTES]; /* "" when there is none */
	uint64_t number;
	struct place place; /* of the value; line 0: nobody said it */
};

/** A sink as it is configured. Values are in the order of its kind's table; its own first, then the common ones. */
struct sink_config {
	char name[EXPORT_NAME_BYTES];
	const struct sink_kind *kind;
	struct place place; /* of its name */
	struct sink_value values[EXPORT_SETTINGS_MAX];

	/* the common settings */
	enum audit_format format;
	size_t batch_lines,
		batch_bytes; /* of one batch, at most; bytes: of lines as they are given */
	unsigned retry_least_ms, retry_most_ms; /* the span in which pauses grow */
	unsigned timeout_ms;                    /* of one step: connecting, an answer */
};

struct export_config {
	char audit_folder[EXPORT_VALUE_BYTES]; /* "" = the default */
	char state_folder[EXPORT_VALUE_BYTES];
	char user[EXPORT_NAME_BYTES]; /* "" = stay who we are */
	struct sink_config sinks[EXPORT_SINKS_MAX];
	size_t sink_count;
};

/**
 * @file names the text in places; borrowed as long as @ret is used. @report gets the findings. @return 0, -EINVAL (findings), -ENOMEM.
 * @ret is large: keep it on the heap.
 */
int export_config_parse(const char *file, struct slice text, struct export_config *ret,
	struct policy_report *report);
/** Look at the files that are named: there, and secrets readable by their owner alone. Adds to @report. */
void export_config_inspect(const struct export_config *config, struct policy_report *report);

/** The value of a setting of the sink's kind, which must have it. */
const struct sink_value *sink_config_value(const struct sink_config *c, const char *setting);
/** Say what is wrong with a value: for a kind's check(). */
void sink_config_error(const struct sink_config *c, const char *setting,
	struct policy_report *report, const char *what);
/** Whether the value was given, or something stands in for it. */
static inline bool sink_value_is(const struct sink_value *v)
{
	return v->text[0] != '\0';
}

/** What a secret file holds, without a newline at its end. The memory is wiped by secret_fini(). */
struct secret {
	struct buf bytes;
};

/**
 * Refuses a file that others than its owner may read or write, that is nobody's of us (its owner must be root or
 * this process's user), is empty, or is no regular file. @return 0 or negative errno, then @why is filled.
 */
int secret_read(const char *path, struct secret *ret, struct failure *why);
void secret_fini(struct secret *s);

#endif
