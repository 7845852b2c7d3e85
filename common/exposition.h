/*
 * Writing metrics in Prometheus' text format (version 0.0.4). Families, then their samples; label values are escaped, but
 * what comes here is fixed codes: whatever a peer may choose is no label.
 */
#ifndef ECLUSA_COMMON_EXPOSITION_H
#define ECLUSA_COMMON_EXPOSITION_H

#include "common/buf.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_kind { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

/** A label, or none where the key is NULL. */
struct exposition_label {
	const char *key;
	const char *value;
};
#define EXPOSITION_LABELS_MAX 2

/* Errors are sticky in the buf. */

/** The head of a family; its samples follow, and those of no other. @help without newline. */
void exposition_family(
	struct buf *to, const char *name, enum exposition_kind kind, const char *help);
/** One sample. @labels NULL: none; else EXPOSITION_LABELS_MAX of them. */
void exposition_sample(
	struct buf *to, const char *name, const struct exposition_label *labels, uint64_t value);
/** The same with a fraction: thousandths. */
void exposition_thousandths(struct buf *to, const char *name, const struct exposition_label *labels,
	uint64_t thousandths);

/** Durations counted by upper bounds in microseconds, the last without one. */
struct exposition_histogram {
	const uint64_t *bounds_us;
	const uint64_t *counts; /* @bounds + 1 of them, each of its own interval */
	size_t bounds;
	uint64_t sum_us;
};
/** Its samples, in seconds. */
void exposition_seconds(
	struct buf *to, const char *name, const struct exposition_histogram *histogram);

#endif
