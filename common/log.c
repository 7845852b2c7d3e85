/* See log.h. One write() a line, so that lines of several processes never mix. */
#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *log_program = "eclusa";
static enum log_level log_threshold = LOG_LEVEL_WARN;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_open(const char *program, enum log_level level)
{
	log_program = program;
	log_threshold = level;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
	if (level > log_threshold)
		return;
	char line[2048];
	int used = snprintf(
		line, sizeof(line) - 1, "%s: %s: %s ", log_program, level_names[level], event);
	if (used < 0 || (size_t)used >= sizeof(line) - 1)
		return;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(line + used, sizeof(line) - 1 - (size_t)used, format, args);
	va_end(args);
	size_t len = strlen(line);
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	}
	line[len++] = '\n';
	(void)!write(STDERR_FILENO, line, len); /* a closed stderr is no reason to stop */
}
