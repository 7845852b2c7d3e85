/*
 * How the requests of two rules lie to each other. Answers are safe on one side each: covers never says yes
 * wrongly, meets never says no wrongly for patterns of one spelling.
 */
#ifndef ECLUSA_POLICY_COVER_H
#define ECLUSA_POLICY_COVER_H

#include "policy/rule.h"

/** Whether @wide's host, ports, scheme, methods and paths take in all requests that @narrow's do. */
bool cover_rule(const struct rule_entry *wide, const struct rule_entry *narrow);

/**
 * Whether some request belongs to both rules, and both are equally specific for it: same rank and length of
 * host, same number of methods, same literal bytes of the path.
 */
bool cover_ties(const struct rule_entry *a, const struct rule_entry *b);

/** Whether the hosts of two rules are equally specific: the same name or prefix, the same rank. */
bool cover_hosts_tie(const struct rule_entry *a, const struct rule_entry *b);

/** Whether some host belongs to both rules. */
bool cover_hosts_meet(const struct rule_entry *a, const struct rule_entry *b);
/** Whether some connection (name, port, scheme) belongs to both rules; likewise some request on it. */
bool cover_connections_meet(const struct rule_entry *a, const struct rule_entry *b);
bool cover_requests_meet(const struct rule_entry *a, const struct rule_entry *b);

/** Whether every path of @narrow, a checked pattern, matches @wide. May miss unusual globs. */
bool cover_path(struct slice wide, struct slice narrow);
/** Whether some path matches both checked patterns. */
bool cover_paths_meet(struct slice a, struct slice b);

#endif
