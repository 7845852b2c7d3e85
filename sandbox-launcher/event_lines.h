/*
 * `--stream`: what happens in a run, told as it comes, a JSON object a line on standard output: start, stdout, stderr, denial,
 * failure; the result is the last, and not written here. Never blocks while the run goes on: lines wait in memory, and while
 * many wait nothing more is read from the program.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_EVENT_LINES_H
#define ECLUSA_SANDBOX_LAUNCHER_EVENT_LINES_H

#include "sandbox-launcher/result.h"
#include "sandbox-launcher/stream.h"

#define EVENT_LINES_DENIALS_MAX                                                                    \
	100 /* told as they come, and as many failures; the result counts all */

/** event_lines_open(), event_lines_fini(). */
struct event_lines {
	const struct spec *spec; /* borrowed */
	const struct result *result;
	struct stream sink; /* lines on their way out */
	int segment;        /* borrowed: of the audit log; -1: no network */
	int changes;        /* inotify of it; -1: none */
	uint64_t read_to;   /* how far the segment was read */
	struct buf line;    /* the beginning of one that is not whole */
	unsigned denials, failures;
	size_t violations; /* of the result's, told */
};

/** The first line. @return 0 or negative errno. */
int event_lines_open(
	struct event_lines *e, const struct spec *spec, const struct result *result, int segment);
void event_lines_fini(struct event_lines *e);
/** Whether more can be taken. */
bool event_lines_have_room(const struct event_lines *e);
/** Bytes of stream 0 (stdout) or 1 (stderr), from @from's capture, which is emptied but for a character that is not whole. */
void event_lines_take(struct event_lines *e, int which, struct stream *from);
/** Refused system calls that the result has by now. */
void event_lines_violations(struct event_lines *e);
/** Denials and failures that the log has by now. */
void event_lines_follow(struct event_lines *e);
/** Write what waits, and wait for it. @return 0 or negative errno. */
int event_lines_flush(struct event_lines *e);

#endif
