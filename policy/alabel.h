/*
 * Names in other scripts than ASCII: the form in which DNS and policies spell them (RFC 5890), for messages,
 * and whether such a form hides a mixture that people misread. Never used to compare or to resolve.
 */
#ifndef ECLUSA_POLICY_ALABEL_H
#define ECLUSA_POLICY_ALABEL_H

#include "policy/host.h"

/** The name with A-labels that UTF-8 @text means. @return 0; -EINVAL: none; -ENOMEM. */
int alabel_from_text(struct slice text, char ret_name[static HOST_NAME_BYTES]);

/**
 * Whether some label of @name, decoded, mixes scripts beyond what Chinese, Japanese and Korean write with
 * Latin (UTS 39, "highly restrictive"). False also for what does not decode.
 */
bool alabel_mixes_scripts(const char *name);

#endif
