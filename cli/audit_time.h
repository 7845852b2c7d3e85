/* Moments as the tools of `eclusa audit` take them on the command line. */
#ifndef ECLUSA_CLI_AUDIT_TIME_H
#define ECLUSA_CLI_AUDIT_TIME_H

#include "common/slice.h"

#define AUDIT_TIME_FORMS                                                                           \
	"2026-11-29, 2026-11-29T20:30, 2026-11-29T20:30:15+01:00, 2h (ago), today or yesterday"

/**
 * One of AUDIT_TIME_FORMS, as RFC 3339 has them, with a fraction or not; UTC where no zone is said. A duration is before @now_ms; a
 * day is its beginning. @return whether it is one.
 */
bool audit_time_parse(struct slice text, uint64_t now_ms, uint64_t *ret_ms);

#endif
