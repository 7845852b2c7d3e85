/* Moments as the tools of `eclusa audit` take them on the command line. */
#ifndef ECLUSA_CLI_AUDIT_TIME_H
#define ECLUSA_CLI_AUDIT_TIME_H

#include "common/slice.h"

#define AUDIT_TIME_FORMS "2026-11-29, 2026-11-29T20:30, 2026-11-29T20:30:15, all UTC, or 2h (ago)"

/** One of AUDIT_TIME_FORMS, a Z behind it or not; a duration is before @now_ms. @return whether it is one. */
bool audit_time_parse(struct slice text, uint64_t now_ms, uint64_t *ret_ms);

#endif
