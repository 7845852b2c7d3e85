/* The operator's log on stderr: `eclusa[program] level event key=value ...`. Audit is not logging. */
#ifndef ECLUSA_COMMON_LOG_H
#define ECLUSA_COMMON_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/** Name this program in every line and drop lines above @level. The name must outlive the process. */
void log_open(const char *program, enum log_level level);

/**
 * Write one line. @event a constant word. @format gives `key=value` pairs; peer text in it must
 * have been escaped by the caller (slice_escape()). Every control byte is replaced all the same.
 */
void log_event(enum log_level level, const char *event, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
