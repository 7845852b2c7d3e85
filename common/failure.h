/* What went wrong, in the one line a person will read. Not a log and not an audit event. */
#ifndef ECLUSA_COMMON_FAILURE_H
#define ECLUSA_COMMON_FAILURE_H

#include <stdarg.h>
#include <stdbool.h>

#define FAILURE_TEXT_BYTES 1024

/** One failure: a negative errno and one line naming the place and, where known, the remedy. */
struct failure {
	int code;
	char text[FAILURE_TEXT_BYTES];
};

/**
 * Record a failure. The first record wins: context is added once, where the caller knows what
 * was being tried. @code negative errno. @return code, so that `return failure_set(...)` reads well.
 * @f may be NULL: then only the code is returned.
 */
int failure_set(struct failure *f, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** As failure_set(), with ": <text of errno>" appended. */
int failure_errno(struct failure *f, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
