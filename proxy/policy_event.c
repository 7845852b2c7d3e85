/* See policy_event.h. */
#include "proxy/policy_event.h"

#include "audit/packed.h"
#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <unistd.h>

enum { ACTIVITY_UPDATE = 3 }; /* OCSF activity_id of the class */

static const char *origin_name(uint32_t origin)
{
	switch ((enum message_policy_origin)origin) {
	case MESSAGE_POLICY_NEWEST:
		return "newest";
	case MESSAGE_POLICY_LAST_GOOD:
		return "last-good";
	case MESSAGE_POLICY_ABSENT:
		return "absent";
	}
	return "absent";
}

void policy_event_write(struct crew *crew, const struct policy_event *e)
{
	char uid[UUID_TEXT_BYTES];
	struct audit_event event = {.class = AUDIT_ENTITY,
		.uid = uuid_new(uid),
		.activity = ACTIVITY_UPDATE,
		.reason = e->reason,
		.end_ms = clock_wall_ms(),
		.detail = e->text[0] != '\0' ? e->text : NULL,
		.profile = e->profile,
		.policy_version = e->after,
		.policy_before = e->before,
		.policy_origin = origin_name(e->origin),
		.policy_signer = e->signer,
		.policy_stale = e->origin != MESSAGE_POLICY_NEWEST,
		.count = e->errors};
	struct buf packed = {.limit = AUDIT_PACKED_BYTES_MAX};
	if (crew->own_ring == NULL)
		return;
	int r = audit_event_pack(&event, AUDIT_PACKED_BYTES_MAX, &packed);
	if (r == 0)
		r = audit_ring_finish(crew->own_ring, -1, buf_slice(&packed));
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "policy-event-lost", "event=%s error=%s",
			reason_code(e->reason), strerror(-r));
	else if (audit_ring_wants_wake(crew->own_ring))
		(void)!write(crew->wake[1], "",
			1); /* a recorder that is being restarted looks by itself */
	buf_fini(&packed);
}
