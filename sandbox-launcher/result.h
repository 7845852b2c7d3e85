/* What a run came to, as data, as one JSON object, and as lines for people. Texts of the sandbox are escaped here. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_RESULT_H
#define ECLUSA_SANDBOX_LAUNCHER_RESULT_H

#include "audit/summary.h"
#include "common/id.h"
#include "sandbox-launcher/cgroup.h"
#include "sandbox-launcher/collect.h"
#include "sandbox-launcher/receipt.h"
#include "sandbox-launcher/spec.h"
#include "sandbox-launcher/violation.h"

enum verdict {
	VERDICT_OK,         /* exit 0 */
	VERDICT_EXIT,       /* another exit code */
	VERDICT_SIGNAL,     /* ended by a signal of its own or the caller's */
	VERDICT_WALL,       /* --timeout */
	VERDICT_CPU,        /* --cpu-time */
	VERDICT_OOM,        /* --memory */
	VERDICT_PIDS,       /* --pids-limit was hit and the program failed */
	VERDICT_DISK,       /* a writable folder was full and the program failed */
	VERDICT_OUTPUT,     /* the program is done, but results could not be delivered */
	VERDICT_SETUP,      /* nothing ran */
	VERDICT_SUPERVISOR, /* something of ours died, the run was ended */
	VERDICT_COUNT
};

#define RESULT_ERRORS_MAX 64
#define RESULT_HINTS_MAX  16
#define RESULT_FILE_BYTES 512

/** Zero-initialise; result_fini(). UINT64_MAX = not known. */
struct result {
	char id[SANDBOX_ID_BYTES];
	enum verdict verdict;
	uint64_t decided; /* the number that decided: exit code, signal, ns, bytes, processes */
	int exit_code;    /* -1: none */
	int signal;       /* 0: none */
	bool captured;
	struct buf output[2];
	uint64_t cut[2];
	uint64_t wall_ns, cpu_ns, memory_peak_bytes;
	bool io_known;
	uint64_t io_read_bytes, io_written_bytes; /* of disks, when known */
	struct collected collected;
	bool has_network;
	struct audit_summary network;
	struct violations violations; /* refused system calls */
	struct receipt receipt;
	enum cgroup_kind cgroup;
	bool root;          /* else no dial guard, no separate uid */
	int write_error[2]; /* errno of writing to the caller's stdout, stderr; 0 = none */
	char *profile;      /* of the policy; NULL = no network */
	bool policy_folder; /* --policy names a folder: several files */
	char *audit_path;   /* NULL: there is no log */
	char *errors[RESULT_ERRORS_MAX];
	size_t error_count;
	size_t errors_left_out;
	char *hints[RESULT_HINTS_MAX]; /* what to try next; no errors of the run */
	size_t hint_count;
};

const char *verdict_name(enum verdict v);
/** The process exit status for this result. */
int result_status(const struct result *r);
/** Add a line (cut when there are too many). */
void result_error(struct result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Add a line of advice (cut when there are too many). */
void result_hint(struct result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void result_fini(struct result *r);

/** Append the JSON object, with a newline. @return 0 or negative errno. */
int result_json(const struct result *r, const struct spec *spec, struct buf *out);
/**
 * Where a rule that admits a denied request has to go when the rules come from --policy.
 * @return false: on the command line. @ret_file what --policy names; of a folder the file of the rule that came
 * nearest, if there is one
 */
bool result_rule_file(const struct result *r, const struct spec *spec, const struct audit_denial *d,
	char *ret_file, size_t capacity);
/** The members of an object of the result's `denials` and `failures`: one request, where the rule goes that would admit it, and what to do. */
void result_denial_members(const struct audit_denial *d, const struct result *r,
	const struct spec *spec, struct json *j);
/** Append what would admit the request, one sentence; nothing when nothing would. */
void result_denial_hint(const struct audit_denial *d, const struct result *r,
	const struct spec *spec, struct buf *out);
/** Bytes as a text, else in base 64, and then @flag is true. @return 0 or negative errno. */
int result_json_bytes(struct json *j, const char *key, const char *flag, struct slice bytes);
/** Append what a person needs to know: denials with the rule that admits them, failures, the limit that fired, errors, hints. */
void result_text(const struct result *r, const struct spec *spec, struct buf *out);
/** Append the errors alone. */
void result_errors_text(const struct result *r, struct buf *out);

#endif
