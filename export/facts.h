/*
 * What sinks say about a line beside the line: facts found in one pass over its bytes, with no tree and no allocation, since
 * every event of a busy host comes by here. The line was written by Eclusa, but is judged as if it were hostile: what is
 * no JSON object is refused.
 */
#ifndef ECLUSA_EXPORT_FACTS_H
#define ECLUSA_EXPORT_FACTS_H

#include "common/slice.h"

/** Texts are as they stand in the line, escapes included; ptr NULL: not there, or no text. */
struct facts {
	struct slice uid;     /* metadata.uid: what receivers drop duplicates by */
	struct slice code;    /* status_code: the kind of event, such as deny.path */
	struct slice sandbox; /* container.uid */
	struct slice rule;    /* firewall_rule.uid */
	struct slice action;  /* Allowed, Denied */
	struct slice host;    /* device.hostname: where it was recorded */
	uint64_t time_ms;     /* UTC; 0: not there */
	uint64_t sequence;    /* in its chain; 0: not there */
	uint64_t severity;    /* severity_id: 1 information to 5 critical; 0: not there */
};

/** @line without newline. @return 0; -EBADMSG: not a JSON object, or one that is nested too deeply. */
int facts_find(struct slice line, struct facts *ret);

#endif
