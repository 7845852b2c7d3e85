/* See failure.h. */
#include "common/failure.h"

#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void failure_format(
	struct failure *f, int code, const char *format, va_list args)
{
	f->code = code;
	(void)vsnprintf(
		f->text, sizeof(f->text), format, args); /* a long line is cut, on purpose */
}

int failure_set(struct failure *f, int code, const char *format, ...)
{
	if (f == NULL || f->code != 0)
		return code;
	va_list args;
	va_start(args, format);
	failure_format(f, code, format, args);
	va_end(args);
	return code;
}

int failure_errno(struct failure *f, int code, const char *format, ...)
{
	if (f == NULL || f->code != 0)
		return code;
	va_list args;
	va_start(args, format);
	failure_format(f, code, format, args);
	va_end(args);
	size_t used = strlen(f->text);
	(void)snprintf(f->text + used, sizeof(f->text) - used, ": %s", strerror(-code));
	return code;
}
