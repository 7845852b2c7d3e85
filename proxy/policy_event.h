/* Events about the policy itself (OCSF Entity Management), by super: into its own ring, from which the recorder writes them. */
#ifndef ECLUSA_PROXY_POLICY_EVENT_H
#define ECLUSA_PROXY_POLICY_EVENT_H

#include "proxy/crew.h"

struct policy_event {
	enum reason reason; /* REASON_POLICY_LOADED or REASON_POLICY_REJECTED */
	uint32_t origin;    /* enum message_policy_origin: what is in force now */
	const char *profile;
	const char *before; /* digests; "": there was none */
	const char *after;
	const char *signer; /* of what is in force; "": no signature was asked for */
	const char *text;   /* "": nothing more is known */
	uint32_t errors;
};

/** Nothing where super has no ring, as in a run whose policy can't change. What can't be recorded is logged. */
void policy_event_write(struct crew *crew, const struct policy_event *e);

#endif
