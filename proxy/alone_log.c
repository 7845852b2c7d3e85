/* The log of the proxy alone: one chain a life, which begins and ends as a sandbox does. See alone_state.h. */
#include "proxy/alone_state.h"

#include "audit/index.h"
#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <limits.h>
#include <stdio.h>

enum { ACTIVITY_LAUNCH = 1, ACTIVITY_TERMINATE = 2 }; /* OCSF activity_id of the class */

/** An event by this process, while no recorder writes, then its hash into the folder's index. */
static int log_put(struct alone *a, enum audit_index_kind kind, const struct audit_event *e,
	struct failure *why)
{
	struct audit_segment *segment = NULL;
	int r = audit_segment_attach(a->segment_fd, a->id, &segment, why);
	if (r < 0)
		return r;
	r = audit_segment_append_event(segment, e);
	if (r == 0 && kind == AUDIT_INDEX_CLOSED)
		audit_segment_release(segment);
	if (r == 0) {
		const struct audit_index_entry entry = {.kind = kind,
			.segment = a->segment_name,
			.at = audit_segment_chain(segment)};
		r = audit_index_append(a->audit_folder, &entry, why);
	}
	audit_segment_free(segment);
	return r < 0 ? failure_errno(why, r, "the audit log can't be written") : 0;
}

static int log_open_folder(struct alone *a, struct failure *why)
{
	char path[PATH_MAX];
	const char *folder = a->options->audit_dir;
	if (folder == NULL) {
		int r = audit_folder_default(geteuid() == 0, path, sizeof(path), why);
		if (r < 0)
			return r;
		folder = path;
	}
	a->audit_folder = audit_folder_open(folder, why);
	if (a->audit_folder < 0)
		return a->audit_folder;
	(void)audit_folder_recover(
		a->audit_folder, NULL); /* what is not completed now is the next start's */
	return 0;
}

/** A new sandbox of its own for each life: "alone-" or "serve-", and nine random digits. */
static void log_name(struct alone *a)
{
	char id[SANDBOX_ID_BYTES];
	(void)sandbox_id_new(id); /* sb-... */
	(void)snprintf(a->id, sizeof(a->id), "%s-%.9s", a->options->serve ? "serve" : "alone",
		id + 3); /* it fits */
}

int alone_begin_log(struct alone *a, struct failure *why)
{
	int r = log_open_folder(a, why);
	if (r < 0)
		return r;
	log_name(a);
	a->segment_fd = audit_segment_create(
		a->audit_folder, a->id, a->segment_name, sizeof(a->segment_name), why);
	if (a->segment_fd < 0)
		return a->segment_fd;
	a->start_ms = clock_wall_ms();
	struct chain index;
	r = audit_index_head(a->audit_folder, &index);
	if (r < 0)
		return failure_errno(why, r, "the audit folder's index can't be read");
	const struct audit_event start = {.index = &index,
		.class = AUDIT_PROCESS,
		.activity = ACTIVITY_LAUNCH,
		.reason = REASON_SANDBOX_START,
		.sandbox_id = a->id,
		.profile = a->policy.source.profile,
		.argv = a->options->argv,
		.pid = getpid(),
		.has_user = true,
		.user_uid = getuid(),
		.start_ms = a->start_ms,
		.end_ms = a->start_ms};
	return log_put(a, AUDIT_INDEX_OPENED, &start, why);
}

int alone_open_rings(
	struct alone *a, int ret_fds[static MESSAGE_WORKERS_MAX + 1], struct failure *why)
{
	unsigned workers = a->options->workers;
	for (unsigned i = 0; i <= workers; i++) {
		bool own = i == workers;
		char *id = a->ring_ids[i];
		if (own)
			(void)snprintf(id, sizeof(a->ring_ids[i]), "%s.super", a->id);
		else if (i == 0)
			(void)snprintf(id, sizeof(a->ring_ids[i]), "%s", a->id);
		else
			(void)snprintf(id, sizeof(a->ring_ids[i]), "%s.%u", a->id, i);
		ret_fds[i] = audit_ring_create(a->audit_folder, id,
			own ? AUDIT_RING_SLOTS_MIN : a->options->decisions, why);
		if (ret_fds[i] < 0)
			return ret_fds[i];
		a->rings++;
	}
	return 0;
}

/** What the recorder did not get to. */
static int log_complete_rings(struct alone *a)
{
	struct audit_segment *segment;
	if (a->rings == 0)
		return 0;
	int r = audit_segment_attach(a->segment_fd, NULL, &segment, NULL);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < a->rings && r >= 0; i++)
		r = audit_ring_complete(a->audit_folder, a->ring_ids[i], segment);
	audit_segment_free(segment);
	return r < 0 ? r : 0;
}

void alone_end_log(struct alone *a)
{
	bool well = a->status == ALONE_EXIT_ENDED;
	struct failure why = {0};
	if (a->segment_fd < 0)
		return;
	alone_settle_file(a);
	const struct audit_event end = {.class = AUDIT_PROCESS,
		.activity = ACTIVITY_TERMINATE,
		.reason = REASON_SANDBOX_EXIT,
		.sandbox_id = a->id,
		.profile = a->policy.source.profile,
		.argv = a->options->argv,
		.pid = getpid(),
		.verdict = well ? "ok" : "supervisor",
		.exit_code = a->status,
		.start_ms = a->start_ms,
		.end_ms = clock_wall_ms(),
		.wall_ms = clock_wall_ms() - a->start_ms};
	int r = log_complete_rings(a);
	serve_end_log(a->serve);
	if (r == 0)
		r = log_put(a, AUDIT_INDEX_CLOSED, &end, &why);
	if (r == 0)
		audit_segment_close(a->audit_folder, a->segment_name);
	else
		log_event(LOG_LEVEL_ERROR, "log-not-ended", "error=%s; the next start completes it",
			strerror(-r));
}
