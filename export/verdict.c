/* See verdict.h. */
#include "export/verdict.h"

#include <stdio.h>

#define EXCERPT_BYTES 120

enum verdict verdict_of_status(unsigned status)
{
	switch (status) {
	case 200 ... 299:
		return VERDICT_TAKEN;
	case 408:
	case 429:
	case 500 ... 599:
		return VERDICT_LATER;
	case 400:
	case 413:
	case 422:
		return VERDICT_REFUSED;
	default:
		return VERDICT_SETTINGS;
	}
}

char *verdict_say(const struct http_answer *answer, char to[static SINK_WHY_BYTES])
{
	char excerpt[EXCERPT_BYTES];
	slice_escape(slice_trim(answer->body), excerpt, sizeof(excerpt));
	(void)snprintf(to, SINK_WHY_BYTES, "HTTP %u%s%s", answer->status,
		excerpt[0] == '\0' ? "" : ": ", excerpt); /* a cut is fine */
	return to;
}
