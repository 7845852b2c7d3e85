/* See snapshot.h. */
#include "proxy/snapshot.h"

#include <stdlib.h>

struct snapshot *snapshot_new(struct policy *policy, enum message_policy_origin origin)
{
	struct snapshot *s = malloc(sizeof(*s));
	if (s == NULL) {
		policy_free(policy);
		return NULL;
	}
	*s = (struct snapshot){.policy = policy, .origin = origin, .references = 1};
	return s;
}

struct snapshot *snapshot_get(struct snapshot *s)
{
	s->references++;
	return s;
}

void snapshot_put(struct snapshot *s)
{
	if (s == NULL || --s->references > 0)
		return;
	policy_free(s->policy);
	free(s);
}
