/* See record.h. */
#include "sandbox-launcher/record.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <assert.h>
#include <limits.h>

enum {
	ACTIVITY_LAUNCH = 1,
	ACTIVITY_TERMINATE = 2,
	ACTIVITY_REFUSE = 5
}; /* OCSF activity_id of the classes used */

void record_init(struct record *r)
{
	*r = (struct record){.folder = -1, .segment = -1};
}

void record_fini(struct record *r)
{
	fd_close(&r->segment);
	fd_close(&r->folder);
}

static int record_open(struct record *r, const struct plan *p, const char *id, struct failure *why)
{
	char path[PATH_MAX];
	const char *folder = p->spec->audit_dir;
	if (folder == NULL) {
		int e = audit_folder_default(p->root, path, sizeof(path), why);
		if (e < 0)
			return e;
		folder = path;
	}
	r->folder = audit_folder_open(folder, why);
	if (r->folder < 0)
		return r->folder;
	(void)audit_folder_recover(
		r->folder, NULL); /* what is not completed now is the next start's */
	r->segment = audit_segment_create(r->folder, id, r->name, sizeof(r->name), why);
	return r->segment < 0 ? r->segment : 0;
}

static struct audit_event event_of_run(const struct plan *p, const char *id, const char *uid)
{
	struct audit_event e = {.uid = uid, .sandbox_id = id};
	if (p->profile != NULL) {
		e.profile = profile_name(p->profile);
		e.policy_version = profile_digest(p->profile);
	}
	return e;
}

static int record_events(
	struct record *r, const struct audit_event *events, size_t count, struct failure *why)
{
	struct audit_segment *segment = NULL;
	int e = audit_segment_attach(r->segment, &segment, why);
	for (size_t i = 0; i < count && e == 0; i++)
		e = audit_segment_append_event(segment, &events[i]);
	audit_segment_free(segment);
	return e < 0 ? failure_errno(why, e, "the audit log can't be written") : 0;
}

int record_start(struct record *r, const struct plan *p, const char *id, struct failure *why)
{
	int e = record_open(r, p, id, why);
	if (e < 0)
		return e;
	char uid[UUID_TEXT_BYTES];
	struct audit_event event = event_of_run(p, id, uuid_new(uid));
	r->start_ms = clock_wall_ms();
	event.class = AUDIT_PROCESS;
	event.activity = ACTIVITY_LAUNCH;
	event.reason = REASON_SANDBOX_START;
	event.start_ms = event.end_ms = r->start_ms;
	event.argv = p->spec->argv.items;
	return record_events(r, &event, 1, why);
}

static const enum reason PACKET_REASONS[] = {
	[PACKET_PRIVATE] = REASON_DENY_ADDRESS_PRIVATE,
	[PACKET_LINK_LOCAL] = REASON_DENY_ADDRESS_PRIVATE,
	[PACKET_METADATA] = REASON_DENY_ADDRESS_METADATA,
	[PACKET_SPECIAL] = REASON_DENY_ADDRESS_PRIVATE,
	[PACKET_PUBLIC] = REASON_DENY_PACKET,
	[PACKET_SERVICE] = REASON_DENY_PACKET,
	[PACKET_UDP] = REASON_DENY_PACKET,
};
static_assert(array_size(PACKET_REASONS) == PACKET_CLASS_COUNT, "one reason a class");

int record_finish(struct record *r, const struct plan *p, const struct result *result,
	const struct message_counters_read *counters, struct failure *why)
{
	struct audit_event events[PACKET_CLASS_COUNT + 1];
	char uids[PACKET_CLASS_COUNT + 1][UUID_TEXT_BYTES];
	size_t count = 0;
	uint64_t now = clock_wall_ms();
	for (int i = 0; counters != NULL && i < PACKET_CLASS_COUNT; i++) {
		if (counters->packets[i] == 0)
			continue;
		events[count] = event_of_run(p, result->id, uuid_new(uids[count]));
		events[count].class = AUDIT_NETWORK;
		events[count].activity = ACTIVITY_REFUSE;
		events[count].reason = PACKET_REASONS[i];
		events[count].door = "packet";
		events[count].address_class = packet_class_name((enum packet_class)i);
		events[count].count = counters->packets[i];
		events[count].start_ms = r->start_ms;
		events[count++].end_ms = now;
	}
	struct audit_event *end = &events[count];
	*end = event_of_run(p, result->id, uuid_new(uids[count]));
	end->class = AUDIT_PROCESS;
	end->activity = ACTIVITY_TERMINATE;
	end->reason = REASON_SANDBOX_EXIT;
	end->argv = p->spec->argv.items;
	end->verdict = verdict_name(result->verdict);
	end->detail = result->error_count > 0 ? result->errors[0] : NULL;
	end->exit_code = result->exit_code;
	end->signal = result->signal;
	end->start_ms = r->start_ms;
	end->end_ms = now;
	end->wall_ms = result->wall_ns / NS_PER_MS;
	end->cpu_ms = result->cpu_ns == UINT64_MAX ? 0 : result->cpu_ns / NS_PER_MS;
	end->memory_peak_bytes =
		result->memory_peak_bytes == UINT64_MAX ? 0 : result->memory_peak_bytes;
	int e = record_events(r, events, count + 1, why);
	if (e == 0)
		audit_segment_close(r->folder, r->name);
	return e;
}
