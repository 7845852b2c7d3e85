/* Findings as SARIF 2.1.0 (OASIS), which code review systems show beside the line. */
#ifndef ECLUSA_CLI_POLICY_SARIF_H
#define ECLUSA_CLI_POLICY_SARIF_H

#include "common/json.h"
#include "policy/policy.h"

/** Start the document: one run of one tool. */
void sarif_open(struct json *j, struct buf *out);
void sarif_finding(struct json *j, const struct policy_diagnostic *d);
void sarif_close(struct json *j);

#endif
