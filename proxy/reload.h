/*
 * A change of policy while the proxy runs: super's part, from the launcher's message to the answer. Two steps, so that all
 * have it or none: everybody compiles it; when the last one has, it is in force. One at a time.
 */
#ifndef ECLUSA_PROXY_RELOAD_H
#define ECLUSA_PROXY_RELOAD_H

#include "proxy/crew.h"

#define RELOAD_KEEPER MESSAGE_WORKERS_MAX /* the keeper's number beside the workers' */

struct reload {
	int launcher_fd;
	uint32_t version; /* of the last one that was begun */
	bool active;
	bool waits[MESSAGE_WORKERS_MAX + 1]; /* for whose answer */
	uint64_t deadline_ns;
	int bundle_fd;
	struct policy *policy;
	struct message_policy asked;
	struct message_policy_answer answer;
};

void reload_init(struct reload *r, int launcher_fd);
void reload_fini(struct reload *r);

/** MESSAGE_POLICY: takes @bundle_fd over. Is answered at once if it can't be, else by a later call. */
void reload_begin(
	struct reload *r, struct crew *crew, const struct message_policy *m, int bundle_fd);
/** MESSAGE_POLICY_REJECTED. */
void reload_note_rejected(struct crew *crew, const struct message_policy *m);
/** The first policy of all is in force. */
void reload_note_start(struct crew *crew);
/** MESSAGE_POLICY_PREPARED from a worker or RELOAD_KEEPER. */
void reload_heard(
	struct reload *r, struct crew *crew, unsigned member, const struct message_policy_step *m);
/** A worker began with the policy in force: it has to prepare as well. */
void reload_member_started(struct reload *r, struct crew *crew, unsigned member);
/** A worker died: its successor begins with whatever is in force then. */
void reload_member_died(struct reload *r, struct crew *crew, unsigned member);
/** UINT64_MAX: nothing is waited for. */
uint64_t reload_deadline_ns(const struct reload *r);
/** The deadline has passed: it is dropped; who did not answer is killed. */
void reload_expired(struct reload *r, struct crew *crew);

#endif
