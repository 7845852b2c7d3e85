/*
 * Counting by key in bounded memory. A full table gives up the lighter half of its keys, whose counts go into "others": so
 * what weighs much stays, whoever makes up names to push it out.
 */
#ifndef ECLUSA_REPORT_TALLY_H
#define ECLUSA_REPORT_TALLY_H

#include "common/slice.h"

enum tally_count {
	TALLY_ALLOWED,
	TALLY_DENIED,
	TALLY_FAILED,
	TALLY_WOULD, /* of the allowed: only since a rule observes */
	TALLY_OUT,   /* bytes that left the sandbox */
	TALLY_IN,
	TALLY_COUNTS
};

#define TALLY_PARTS_MAX  4
#define TALLY_NOTES      3
#define TALLY_TEXT_BYTES ((size_t)1024) /* of a part or a note; longer ones are cut */

/** What one event adds. */
struct tally_add {
	struct slice parts[TALLY_PARTS_MAX]; /* the key */
	struct slice notes[TALLY_NOTES];     /* kept as they were last; empty: as before */
	uint64_t counts[TALLY_COUNTS];
	uint64_t time_ms;
};

/** Owned texts, NUL-terminated behind their length. */
struct tally_text {
	char *ptr;
	size_t len;
};

struct tally_row {
	struct tally_text parts[TALLY_PARTS_MAX];
	struct tally_text notes[TALLY_NOTES];
	uint64_t counts[TALLY_COUNTS];
	uint64_t first_ms, last_ms;
	uint64_t hash;
};

/** Zero-initialise with a limit of at least 2. */
struct tally {
	size_t limit; /* keys at once */
	struct tally_row *rows;
	size_t count, capacity;
	uint32_t *slots; /* index + 1 into rows; 0: free */
	size_t slot_count;
	struct tally_row others; /* counts of keys that were given up */
	uint64_t given_up;       /* how often; a key may have come back */
};

/** @return 0 or -ENOMEM. */
int tally_add(struct tally *t, const struct tally_add *what);
enum tally_order { TALLY_BY_EVENTS, TALLY_BY_OUT, TALLY_BY_LAST };
/**
 * Keep the heaviest, at most @keep rows, the first of an order first; the others are added to t->others. Only reading is
 * possible afterwards.
 */
void tally_close(struct tally *t, size_t keep, enum tally_order order);
void tally_fini(struct tally *t);

static inline struct slice tally_slice(const struct tally_text *text)
{
	return (struct slice){text->ptr, text->len};
}
/** Events of a row: allowed, failed and denied. */
uint64_t tally_events(const struct tally_row *row);

#endif
