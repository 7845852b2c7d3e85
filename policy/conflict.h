/* Rules of one profile that can't both hold: what a connection carries is decided before anything of it is read. */
#ifndef ECLUSA_POLICY_CONFLICT_H
#define ECLUSA_POLICY_CONFLICT_H

#include "policy/profile.h"

/** Report each rule that passes bytes unread beside one that means to read them. Expiry is not asked: it changes nothing here. */
void conflict_check(const struct profile *p, struct policy_report *report);

#endif
