/*
 * What a receiver's answer means for the events that were sent: the same words for all receivers, so that what is tried again and
 * what is given up is decided in one place (http_sink.c). Answers are not trusted: they are parsed as if hostile.
 */
#ifndef ECLUSA_EXPORT_VERDICT_H
#define ECLUSA_EXPORT_VERDICT_H

#include "export/http.h"
#include "export/sink.h"

enum verdict {
	VERDICT_TAKEN,    /* all of it */
	VERDICT_SORTED,   /* each event has its fate; what waits is to be sent again */
	VERDICT_PARSED,   /* all of it, and an acknowledgement comes later */
	VERDICT_LATER,    /* none of it now */
	VERDICT_REFUSED,  /* none of it: there is an event in it that the receiver does not take */
	VERDICT_SETTINGS, /* none of it, whatever the events: credentials, address, receiver */
};

/** Events that travel in one request, in order. */
struct parcel {
	struct sink_line **lines;
	size_t count;
};

/** Going by the status alone (RFC 9110). 401, 403 and 404 say nothing about events. */
enum verdict verdict_of_status(unsigned status);
/** "HTTP 503: text of the answer", printable and cut. @return to */
char *verdict_say(const struct http_answer *answer, char to[static SINK_WHY_BYTES]);

#endif
