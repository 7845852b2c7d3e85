/*
 * A sink: where lines of the log go. What a kind of sink does is in a table of functions; when it does it, what is read
 * next, what is tried again and what counts as delivered is the engine's business (courier.h).
 *
 * Each sink is a process of its own, so a function may block, for at most the configured timeout. open() runs before the
 * process is confined: it reads files and secrets; nothing else opens a path, but where needs says so. A process may be killed at any moment:
 * what was not said to be delivered is given again to the next one, so nothing needs to be kept.
 */
#ifndef ECLUSA_EXPORT_SINK_H
#define ECLUSA_EXPORT_SINK_H

#include "export/config.h"
#include "export/facts.h"

#define SINK_WHY_BYTES 160

enum sink_fate {
	SINK_WAITING,   /* not given to the receiver yet, or to be given again */
	SINK_SENT,      /* on its way: settle() will tell */
	SINK_DELIVERED, /* the receiver has it */
	SINK_POISON,    /* the receiver will never take it: it goes to the quarantine file */
};

/** One event. Everything lives as long as its batch. */
struct sink_line {
	struct slice bytes; /* as it stands in the log, without newline: a JSON object */
	struct slice text;  /* the same in the sink's format, without newline */
	struct facts facts;
	enum sink_fate fate;
	char why[SINK_WHY_BYTES]; /* of poison, for people; printable */
};

/** Lines of one or more chains, those of each in order. The engine's; the sink changes fates, whys, retry_after_ms, and tag. */
struct sink_batch {
	struct sink_line *lines;
	size_t count;
	unsigned retry_after_ms;  /* the receiver asked for a pause of this length; 0: it did not */
	char why[SINK_WHY_BYTES]; /* why lines wait; printable; "": it did not say */
	uint64_t tag;             /* the sink's own, such as an acknowledgement's id; 0 at first */
};

/** A sink's own state. */
struct sink;

/** What a confined process of this kind needs beside its log and its cursor. */
enum sink_need {
	SINK_NEEDS_NETWORK = 1 << 0, /* internet sockets, and the files that name look-ups read */
	SINK_NEEDS_UNIX = 1 << 1,    /* Unix sockets that it connects to */
	SINK_NEEDS_OUTPUT =
		1 << 2, /* to create and open files in the folder of its SETTING_OUTPUT */
	SINK_NEEDS_THREADS = 1 << 3, /* a library of it makes threads */
};

struct sink_kind {
	const char *name; /* "sink NAME KIND" */
	const char *text; /* what it is, for people: one line */
	const struct sink_setting *settings;
	size_t setting_count;
	unsigned needs;           /* bits of enum sink_need */
	unsigned formats;         /* bits 1 << enum audit_format that it can give */
	enum audit_format format; /* without a setting */
	unsigned window;          /* batches that may be on their way at once; 1 without settle() */
	size_t batch_lines, batch_bytes; /* of one batch, without settings; 0: the engine's own */

	/** What the types of settings can't say; NULL: nothing. Pure: adds to @report by sink_config_error(). */
	void (*check)(const struct sink_config *c, struct policy_report *report);
	/** Read what is needed; connect to nobody yet. @c outlives the sink. @return 0 or negative errno with a line in @why. */
	int (*open)(const struct sink_config *c, struct sink **ret, struct failure *why);
	/**
	 * Give all lines that wait to the receiver, connecting first where that is needed. On success no line waits but those that
	 * are to be tried again (after a pause, this batch before any other). @return 0; a negative errno with a line in
	 * @why: what has no fate yet waits, in this batch and in all that are on their way, and reset() is called.
	 */
	int (*deliver)(struct sink *s, struct sink_batch *batch, struct failure *why);
	/**
	 * Find out what became of lines that are on their way, in @batches, oldest first. Waits at most @wait_ms for news and changes fates;
	 * a line that must be given again waits. @return and effect of a failure as for deliver(). NULL: deliver() always knows.
	 */
	int (*settle)(struct sink *s, struct sink_batch *const *batches, size_t count,
		unsigned wait_ms, struct failure *why);
	/** Close what is connected; the next deliver() begins anew. */
	void (*reset)(struct sink *s);
	/** NULL is accepted. */
	void (*free)(struct sink *s);
};

/** The receiver will never take this line, for this reason; it may quote what the receiver said. */
void sink_poison(struct sink_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** The kinds there are, by name; NULL: none. */
const struct sink_kind *sink_kind_find(struct slice name);
/** In the order of the manual; NULL after the last one. */
const struct sink_kind *sink_kind_at(size_t index);

#endif
