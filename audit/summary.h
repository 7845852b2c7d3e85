/*
 * What a segment says about one sandbox, for people and for the result of a run: how much was allowed and denied,
 * how many bytes went, and which distinct denials and failures there were. Reads event lines back; a line that is not one is
 * skipped, since a crash may have torn it. An event that stands there twice (same metadata.uid) counts once.
 */
#ifndef ECLUSA_AUDIT_SUMMARY_H
#define ECLUSA_AUDIT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Distinct denials that a summary keeps, and distinct failures; further ones only count. */
#define AUDIT_SUMMARY_DENIALS_MAX 100

/** One distinct denial or failure. Owned strings as the audit log has them (redacted, cut, valid UTF-8); NULL = not known. */
struct audit_denial {
	char *reason; /* code, such as deny.path */
	char *detail; /* one sentence */
	char *method;
	char *host;
	char *path;
	char *url;
	char *rule;          /* rule id, "default" when no rule decided */
	char *rule_place;    /* file:line */
	char *suggestion;    /* the text that --allow takes */
	char *address_class; /* of packets that the gateway refused: udp, private, ... */
	uint16_t port;       /* 0 = not known */
	uint64_t count;
};

/** Zero-initialise; release with audit_summary_fini(). */
struct audit_summary {
	uint64_t allowed;
	uint64_t denied;              /* refused packets included */
	uint64_t failed;              /* of the allowed: those that failed upstream (error.*) */
	uint64_t observed;            /* of the allowed: those that observe mode alone let pass */
	uint64_t bytes_in, bytes_out; /* in = towards the sandbox */
	struct audit_denial *denials; /* in order of first appearance */
	size_t denial_count;
	uint64_t denials_left_out;     /* events whose denial found no room in denials */
	struct audit_denial *failures; /* of what failed upstream, likewise: reason is error.* */
	size_t failure_count;
	uint64_t failures_left_out;
};

/**
 * Read the whole segment with pread (the descriptor's position does not matter) and sum up the events of
 * @sandbox_id; NULL: of every sandbox. @return 0 or negative errno; then *ret is untouched.
 */
int audit_summary_read(int segment_fd, const char *sandbox_id, struct audit_summary *ret);
struct audit_line;
/**
 * Whether a line tells of a denial, or of a failure of what was allowed: what is said of it, count 0, borrowed from the line. One
 * line, whatever came before.
 */
bool audit_summary_denial(const struct audit_line *line, const char *sandbox_id,
	struct audit_denial *ret, bool *ret_failed);
void audit_summary_fini(struct audit_summary *s);

#endif
