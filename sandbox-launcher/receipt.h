/*
 * What stood around a program while it ran: each layer and how it was seen from inside before the program started, hashes
 * of what was enforced, the kernel, peaks. A part of the result.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_RECEIPT_H
#define ECLUSA_SANDBOX_LAUNCHER_RECEIPT_H

#include "common/digest.h"
#include "common/json.h"
#include "sandbox-launcher/filter.h"
#include "sandbox-launcher/probe.h"

/** Zero: nothing was confined. UINT64_MAX: not known. */
struct receipt {
	bool confined;            /* facts came from inside */
	struct probe_facts facts; /* layers: those of the launcher's own knowledge are added */
	bool has_network;         /* else a dial guard has nothing to guard */
	const char *rung;         /* of the ladder of control groups */
	char filter_sha256[DIGEST_TEXT_BYTES];
	unsigned filter_instructions;
	char policy_sha256[DIGEST_TEXT_BYTES]; /* "": no network */
	uint64_t memory_peak_bytes, pids_peak, cpu_ns;
};

/** Hashes the filter; the policy's own hash is borrowed, NULL for none. @return 0 or -EIO. */
int receipt_programs(struct receipt *r, const struct filter_program *filter, const char *policy);
/** Append the members "receipt" has but its limits. */
void receipt_json(const struct receipt *r, struct json *j);

#endif
