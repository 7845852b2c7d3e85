/* What a use line makes narrower of the rules that it takes from a group. Nothing gets wider. */
#ifndef ECLUSA_POLICY_NARROW_H
#define ECLUSA_POLICY_NARROW_H

#include "policy/resolve.h"

/** Narrow the rules from @from on. What would widen is an error of the tree's report. */
void narrow_rules(struct resolver *r, size_t from, const struct use *use);

#endif
