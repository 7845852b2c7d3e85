/* See record.h. */
#include "sandbox-launcher/record.h"

#include "audit/index.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define PASSWD_BYTES_MAX ((size_t)1 << 20)
#define USER_NAME_BYTES  64
#define RECORD_LEASED_NS                                                                           \
	(20 * NS_PER_SEC) /* for a service to record the end, and to give its lines */

enum {
	ACTIVITY_LAUNCH = 1,
	ACTIVITY_TERMINATE = 2,
	ACTIVITY_REFUSE = 5,
	ACTIVITY_OTHER = 99
}; /* OCSF activity_id of the classes used */

void record_init(struct record *r)
{
	*r = (struct record){.folder = -1, .segment = -1};
}

void record_fini(struct record *r)
{
	audit_segment_free(r->log);
	r->log = NULL;
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

/**
 * Events, then the hash of the last one into the folder's index. The chain is named for the sandbox. @shared: a recorder wrote to it,
 * too, and reserved room on the disk.
 */
static int record_events(struct record *r, enum audit_index_kind kind,
	const struct audit_event *events, size_t count, bool shared, struct failure *why)
{
	int e = r->log != NULL
		? 0
		: audit_segment_attach(r->segment, events[0].sandbox_id, &r->log, why);
	for (size_t i = 0; i < count && e == 0; i++)
		e = audit_segment_append_event(r->log, &events[i]);
	if (e == 0 && kind == AUDIT_INDEX_CLOSED && shared)
		audit_segment_release(r->log);
	if (e == 0) {
		const struct audit_index_entry entry = {
			.kind = kind, .segment = r->name, .at = audit_segment_chain(r->log)};
		e = audit_index_append(r->folder, &entry, why);
	}
	return e < 0 ? failure_errno(why, e, "the audit log can't be written") : 0;
}

/** The number after the first one of a text, such as that of "0 1000 1". */
static int second_number(struct slice text, uint32_t *ret)
{
	struct slice words[2] = {{0}};
	uint64_t value;
	size_t at = 0;
	for (size_t i = 0; i < array_size(words); i++) {
		while (at < text.len && text.ptr[at] == ' ')
			at++;
		size_t from = at;
		while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9')
			at++;
		words[i] = slice_part(text, from, at);
	}
	int e = slice_decimal(words[1], UINT32_MAX, false, &value);
	if (e == 0)
		*ret = (uint32_t)value;
	return e;
}

/**
 * Who ran this. An ordinary user is uid 0 of an own namespace by now, whose map of one line, "0 <uid> 1", says who that is
 * outside (user_namespaces(7)).
 */
static int caller_uid(const struct plan *p, uint32_t *ret)
{
	char text[64];
	if (p->root) {
		*ret = getuid();
		return 0;
	}
	auto_fd fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (got < 0)
		return -errno;
	return second_number((struct slice){text, (size_t)got}, ret);
}

/** The name of a uid in this host's own file; "" when it has none, as where names come from a directory service. */
static void user_name(uint32_t uid, char to[static USER_NAME_BYTES])
{
	struct buf users;
	buf_init(&users, 2 * PASSWD_BYTES_MAX);
	int e = file_read(AT_FDCWD, "/etc/passwd", PASSWD_BYTES_MAX, &users);
	struct slice rest = e < 0 ? (struct slice){0} : buf_slice(&users), line;
	to[0] = '\0';
	while (to[0] == '\0' && slice_split(rest, '\n', &line, &rest)) {
		struct slice name, password, number;
		uint64_t value;
		if (slice_split(line, ':', &name, &line) &&
			slice_split(line, ':', &password, &line) &&
			slice_split(line, ':', &number, &line) &&
			slice_decimal(number, UINT32_MAX, true, &value) == 0 && value == uid)
			(void)slice_copy(name, to, USER_NAME_BYTES); /* a cut name is one */
	}
	buf_fini(&users);
}

/** sandbox.start, and what it points to. */
struct record_beginning {
	struct audit_event event;
	char uid[UUID_TEXT_BYTES], name[USER_NAME_BYTES];
	struct audit_file files[AUDIT_FILES_MAX];
};

static void describe_start(
	struct record *r, const struct plan *p, const char *id, struct record_beginning *to)
{
	struct audit_event *event = &to->event;
	*event = event_of_run(p, id, uuid_new(to->uid));
	r->start_ms = clock_wall_ms();
	event->class = AUDIT_PROCESS;
	event->activity = ACTIVITY_LAUNCH;
	event->reason = REASON_SANDBOX_START;
	event->start_ms = event->end_ms = r->start_ms;
	event->argv = p->spec->argv.items;
	event->policy_signer = p->signer.key_id;
	event->has_user = caller_uid(p, &event->user_uid) == 0;
	if (event->has_user) {
		user_name(event->user_uid, to->name);
		event->user_name = to->name;
	}
	event->files = to->files;
	event->file_count = p->input_count;
	for (size_t i = 0; i < p->input_count && i < array_size(to->files); i++) {
		const struct input *in = &p->inputs[i];
		bool regular = S_ISREG(in->st.st_mode);
		to->files[i] = (struct audit_file){
			.name = in->name, .size = regular ? (uint64_t)in->st.st_size : UINT64_MAX};
	}
}

int record_start(struct record *r, const struct plan *p, const char *id, struct failure *why)
{
	int e = record_open(r, p, id, why);
	if (e < 0)
		return e;
	struct record_beginning start;
	struct chain index;
	e = audit_index_head(r->folder, &index);
	if (e < 0)
		return failure_errno(why, e, "the audit folder's index can't be read");
	describe_start(r, p, id, &start);
	start.event.index = &index;
	return record_events(r, AUDIT_INDEX_OPENED, &start.event, 1, false, why);
}

int record_lease(struct record *r, const struct plan *p, struct leased **ret, struct failure *why)
{
	struct record_beginning start;
	describe_start(r, p, "", &start);
	int e = leased_open(p->spec->service, p->spec->profile, &start.event, ret, why);
	if (e == 0)
		r->leased = *ret;
	return e;
}

/** What left through --out. @return how many there are, also beyond what is filled in. */
static size_t results_of(const struct collected *c, struct audit_file files[static AUDIT_FILES_MAX])
{
	for (size_t i = 0; i < c->count && i < AUDIT_FILES_MAX; i++)
		files[i] =
			(struct audit_file){c->items[i].path, c->items[i].size, c->items[i].sha256};
	return c->count;
}

#define COUNTED_BYTES     128
#define PACKET_EVENTS_MAX (PACKET_CLASS_COUNT + MESSAGE_SAMPLES_MAX)

/** The last events of a run, and the texts that they point to. */
struct record_end {
	struct audit_event events[PACKET_EVENTS_MAX + VIOLATIONS_MAX + 2];
	size_t count;
	char uids[PACKET_EVENTS_MAX + VIOLATIONS_MAX + 2][UUID_TEXT_BYTES];
	struct {
		char call[VIOLATION_CALL_BYTES];
		char row[VIOLATION_ROW_BYTES];
		char *argv[2];
	} violations[VIOLATIONS_MAX];
	struct audit_file files[AUDIT_FILES_MAX];
	char counted[PACKET_CLASS_COUNT][COUNTED_BYTES];
};

static struct audit_event *next_event(struct record_end *end, const struct record *r,
	const struct plan *p, const struct result *result)
{
	struct audit_event *e = &end->events[end->count];
	*e = event_of_run(p, result->id, uuid_new(end->uids[end->count]));
	end->count++;
	e->start_ms = r->start_ms;
	e->end_ms = clock_wall_ms();
	return e;
}

static struct audit_event *next_packets(struct record_end *end, const struct record *r,
	const struct plan *p, const struct result *result, enum packet_class class)
{
	const struct packet_words *said = packet_class_words(class);
	struct audit_event *e = next_event(end, r, p, result);
	e->class = AUDIT_NETWORK;
	e->activity = ACTIVITY_REFUSE;
	e->reason = said->reason;
	e->detail = said->detail;
	e->door = "packet";
	e->address_class = packet_class_name(class);
	e->subject = said->words;
	return e;
}

/** Those that were looked at, an event a place. @return how many packets they are. */
static uint64_t add_samples(struct record_end *end, const struct record *r, const struct plan *p,
	const struct result *result, const struct message_counters_read *counters,
	enum packet_class class)
{
	const struct message_samples *samples = &counters->samples;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < samples->count && i < MESSAGE_SAMPLES_MAX; i++) {
		const struct message_sample *sample = &samples->items[i];
		if (sample->class != (uint32_t) class)
			continue;
		struct audit_event *e = next_packets(end, r, p, result, class);
		e->destination.family = 4;
		memcpy(e->destination.bytes, sample->destination, sizeof(sample->destination));
		e->destination_port = sample->port;
		e->count = sample->count;
		sum += sample->count;
	}
	return sum;
}

/** The counts of all events of a class are the gateway's own; the last one says how many were only counted. */
static void add_packets(struct record_end *end, const struct record *r, const struct plan *p,
	const struct result *result, const struct message_counters_read *counters)
{
	for (size_t i = 0; i < PACKET_CLASS_COUNT; i++) {
		enum packet_class class = (enum packet_class)i;
		uint64_t all = counters->packets[i];
		uint64_t seen = add_samples(end, r, p, result, counters, class);
		if (all <= seen)
			continue;
		struct audit_event *e = next_packets(end, r, p, result, class);
		e->count = all - seen;
		(void)snprintf(end->counted[i], COUNTED_BYTES,
			"of %" PRIu64 " packets of this class %" PRIu64
			" were looked at one by one; these are the others",
			all, seen);
		e->detail = end->counted[i];
	}
}

/** One event a distinct refusal of a system call; those that found no room there share the last. */
static void add_violations(struct record_end *end, const struct record *r, const struct plan *p,
	const struct result *result)
{
	const struct violations *list = &result->violations;
	for (size_t i = 0; i < list->count + (list->left_out > 0); i++) {
		struct audit_event *e = next_event(end, r, p, result);
		e->class = AUDIT_PROCESS;
		e->activity = ACTIVITY_OTHER;
		e->reason = REASON_SANDBOX_VIOLATION;
		e->subject = "other system calls";
		e->count = list->left_out;
		if (i == list->count)
			break;
		const struct violation *v = &list->items[i];
		e->subject = violation_call(v, end->violations[i].call, VIOLATION_CALL_BYTES);
		e->rule_text = filter_row_name(v->row, end->violations[i].row, VIOLATION_ROW_BYTES);
		e->detail = filter_row_why(v->row);
		e->count = v->count;
		end->violations[i].argv[0] = v->executable;
		end->violations[i].argv[1] = NULL;
		e->argv = end->violations[i].argv;
	}
}

static void add_exit(struct record_end *all, const struct record *r, const struct plan *p,
	const struct result *result)
{
	struct audit_event *end = next_event(all, r, p, result);
	end->class = AUDIT_PROCESS;
	end->activity = ACTIVITY_TERMINATE;
	end->reason = REASON_SANDBOX_EXIT;
	end->argv = p->spec->argv.items;
	end->verdict = verdict_name(result->verdict);
	end->detail = result->error_count > 0 ? result->errors[0] : NULL;
	end->exit_code = result->exit_code;
	end->signal = result->signal;
	end->files = all->files;
	end->file_count = results_of(&result->collected, all->files);
	end->wall_ms = result->wall_ns / NS_PER_MS;
	end->cpu_ms = result->cpu_ns == UINT64_MAX ? 0 : result->cpu_ns / NS_PER_MS;
	end->memory_peak_bytes =
		result->memory_peak_bytes == UINT64_MAX ? 0 : result->memory_peak_bytes;
}

int record_finish(struct record *r, const struct plan *p, const struct result *result,
	const struct message_counters_read *counters, struct failure *why)
{
	auto_free struct record_end *end = malloc(sizeof(*end)); /* most of it is never used */
	if (end == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	end->count = 0;
	if (counters != NULL)
		add_packets(end, r, p, result, counters);
	add_violations(end, r, p, result);
	add_exit(end, r, p, result);
	if (r->leased != NULL) {
		int lines = leased_record(r->leased, end->events, end->count,
			clock_monotonic_ns() + RECORD_LEASED_NS, &r->segment);
		return lines < 0
			? failure_errno(why, lines, "the service has not recorded all of it")
			: 0;
	}
	int e = record_events(
		r, AUDIT_INDEX_CLOSED, end->events, end->count, p->profile != NULL, why);
	if (e == 0)
		audit_segment_close(r->folder, r->name);
	return e;
}
