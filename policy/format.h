/* The one layout of policy text. Works on words, not on meaning: what does not load keeps its faults, and comments stay. */
#ifndef ECLUSA_POLICY_FORMAT_H
#define ECLUSA_POLICY_FORMAT_H

#include "common/buf.h"
#include "policy/policy.h"

#define FORMAT_COLUMNS 100 /* longer statements are continued on the next line */

/**
 * Append @text in its layout: one blank between words; hosts in lower case; methods in order; attributes in
 * the order of the manual, quoted only where they must be; one empty line at most, and one before each
 * section. The result formatted again is the same. @report (may not be NULL) gets what the lexer refuses.
 * @return 0; -EINVAL with errors in the report and @to in any state; -ENOBUFS, -ENOMEM.
 */
int policy_format(
	const char *file, struct slice text, struct buf *to, struct policy_report *report);

#endif
