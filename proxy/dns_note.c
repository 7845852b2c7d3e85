/* See dns_note.h. */
#include "proxy/dns_note.h"

#include "audit/packed.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "proxy/worker_state.h"

#include <stdio.h>

#define ACTIVITY_RESPONSE 2 /* OCSF 1.8 DNS Activity */
#define PLACE_BYTES       320
#define UUID_TAIL_BYTES   12 /* the random end of a UUIDv7 */
#define OTHERS_MAX                                                                                 \
	6 /* as many reasons as there are for them: denied; type, rate, limit, log, form */

struct note {
	enum reason reason, would;
	unsigned rcode;
	uint16_t type, class;
	char name[HOST_NAME_BYTES]; /* cut */
	bool is_host;
	char detail[POLICY_DETAIL_BYTES];
	struct address answer;
	struct address source, proxy;
	uint16_t source_port, proxy_port;
	bool udp;
	uint64_t count;
	uint64_t first_ms, last_ms; /* wall clock */
	char uid[UUID_TEXT_BYTES];
	char request_id[SYNTHETIC_REQUEST_BYTES];
	struct snapshot *policy; /* that decided; its own reference */
	const struct profile *profile;
	const struct rule *rule;
};

struct dns_notes {
	unsigned count;
	struct note notes[DNS_NOTES_MAX];
	struct note others
		[OTHERS_MAX]; /* all that have none of their own, by reason; count 0: unused */
};

struct dns_notes *dns_notes_new(void)
{
	return calloc(1, sizeof(struct dns_notes));
}

bool dns_notes_have_room(const struct dns_notes *notes)
{
	return notes->count < DNS_NOTES_MAX;
}

/** Of a host its one form, else as the asker wrote it; what is longer than a host's may be is cut. */
static struct slice name_of(const struct dns_reply *r)
{
	const char *name = r->host.name[0] != '\0' ? r->host.name : r->name;
	return slice_part(slice_of(name), 0, HOST_NAME_BYTES - 1);
}

static struct slice detail_of(const struct dns_reply *r)
{
	return slice_part(slice_of(r->detail), 0, POLICY_DETAIL_BYTES - 1);
}

/** Whatever records of a host were asked for: a client asks for several at once. */
static bool note_is_of(const struct note *n, const struct dns_asked *asked)
{
	const struct dns_reply *r = asked->reply;
	return n->reason == r->reason && n->rcode == r->answer.rcode &&
		slice_equal(slice_of(n->detail), detail_of(r)) && n->rule == r->verdict.rule &&
		slice_equal(slice_of(n->name), name_of(r)) &&
		(n->is_host || n->type == asked->question->type);
}

static void note_begin(
	struct note *n, struct worker *w, struct sandbox *s, const struct dns_asked *asked)
{
	const struct dns_reply *r = asked->reply;
	bool observed = r->reason == REASON_OBSERVE_WOULD_DENY;
	*n = (struct note){.reason = r->reason,
		.would = observed ? r->verdict.would : REASON_ALLOW_RULE,
		.rcode = r->answer.rcode,
		.type = asked->question->type,
		.class = asked->question->class,
		.is_host = r->host.name[0] != '\0',
		.answer = r->answer.address,
		.source = asked->source,
		.proxy = asked->proxy,
		.source_port = asked->source_port,
		.proxy_port = asked->proxy_port,
		.udp = asked->udp,
		.first_ms = clock_wall_ms(),
		.policy = snapshot_get(w->policy),
		.profile = s->profile,
		.rule = r->verdict.rule};
	(void)slice_copy(name_of(r), n->name, sizeof(n->name));       /* fits */
	(void)slice_copy(detail_of(r), n->detail, sizeof(n->detail)); /* likewise */
	(void)uuid_make(&w->ids, n->first_ms, n->uid);
	(void)snprintf(n->request_id, sizeof(n->request_id), "req-%s",
		n->uid + UUID_TEXT_BYTES - 1 - UUID_TAIL_BYTES);
	if (n->answer.family != 0) /* the connection that follows has the same id */
		synthetic_set_request(w->context->synthetic, s->budget, &n->answer, n->request_id);
}

/** Of names that nothing may be reached by each may have another reason; what is refused for anything else is told apart. */
static enum reason others_reason(const struct dns_reply *r)
{
	return r->answer.extended == DNS_EXTENDED_BLOCKED ? REASON_DENY_DNS_NAME : r->reason;
}

static void others_begin(
	struct note *n, struct worker *w, struct sandbox *s, const struct dns_asked *asked)
{
	note_begin(n, w, s, asked);
	if (n->name[0] != '\0')
		(void)snprintf(n->detail, sizeof(n->detail),
			"more names than are told one by one; the first of them is %.160s",
			n->name);
	n->reason = others_reason(asked->reply);
	n->rule = NULL;
	n->is_host = false;
	n->name[0] = '\0';
}

static struct note *others_get(
	struct dns_notes *notes, struct worker *w, struct sandbox *s, const struct dns_asked *asked)
{
	enum reason reason = others_reason(asked->reply);
	struct note *n = notes->others;
	while (n->count > 0 && n->reason != reason && n < &notes->others[OTHERS_MAX - 1])
		n++;
	if (n->count == 0)
		others_begin(n, w, s, asked);
	return n;
}

static struct note *note_get(
	struct dns_notes *notes, struct worker *w, struct sandbox *s, const struct dns_asked *asked)
{
	for (unsigned i = 0; i < notes->count; i++) {
		if (note_is_of(&notes->notes[i], asked))
			return &notes->notes[i];
	}
	if (dns_notes_have_room(notes)) {
		struct note *n = &notes->notes[notes->count++];
		note_begin(n, w, s, asked);
		return n;
	}
	return others_get(notes, w, s, asked);
}

void dns_note(
	struct dns_notes *notes, struct worker *w, struct sandbox *s, const struct dns_asked *asked)
{
	struct note *n = note_get(notes, w, s, asked);
	n->count++;
	n->last_ms = clock_wall_ms();
}

static void fill_rule(const struct rule *rule, struct audit_event *e, char *place, size_t capacity)
{
	if (rule == NULL)
		return;
	(void)snprintf(place, capacity, "%s:%u", rule->file, rule->line); /* long ones are cut */
	e->rule_id = rule->id;
	e->rule_place = place;
	e->rule_text = rule->text;
	e->rule_owner = rule->owner;
	e->rule_ticket = rule->ticket;
	e->rule_allows = rule->allow;
	e->observe = rule->observe;
}

/** A rule that names the host would let it through; what the rule should say beyond that only a request tells. */
static bool rule_helps(const struct note *n)
{
	return n->is_host && (n->reason == REASON_DENY_DEFAULT || n->reason == REASON_DENY_EXPIRED);
}

static const char *class_name(uint16_t class, char to[static 12])
{
	(void)snprintf(to, 12, "CLASS%u", class); /* RFC 3597; fits */
	return class == DNS_CLASS_IN ? "IN" : to;
}

static void enter(struct worker *w, struct audit_event *e)
{
	struct buf *packed = &w->line;
	buf_clear(packed);
	int r = audit_event_pack(e, AUDIT_PACKED_BYTES_MAX, packed);
	if (r == 0)
		r = audit_ring_finish(w->context->ring, -1, buf_slice(packed));
	if (r < 0)
		log_event(
			LOG_LEVEL_ERROR, "audit-full", "worker=%u error=%d", w->context->index, -r);
	else if (audit_ring_wants_wake(w->context->ring))
		(void)!write(
			w->context->recorder_fd, "", 1); /* one that restarts looks by itself */
}

static void note_write(const struct note *n, struct worker *w, const struct sandbox *s)
{
	char place[PLACE_BYTES], type[12], class[12];
	const struct audit_dns dns = {.name = slice_of(n->name),
		.type = dns_type_name(n->type, type),
		.class = class_name(n->class, class),
		.rcode = n->rcode,
		.answer = n->answer,
		.ttl_s = DNS_TTL_SECONDS,
		.udp = n->udp};
	struct audit_event e = {.class = AUDIT_DNS,
		.activity = ACTIVITY_RESPONSE,
		.reason = n->reason,
		.would = n->would,
		.uid = n->uid,
		.correlation = n->request_id,
		.detail = n->detail[0] != '\0' ? n->detail : NULL,
		.start_ms = n->first_ms,
		.end_ms = n->last_ms,
		.sandbox_id = s->id,
		.profile = profile_name(n->profile),
		.policy_version = profile_digest(n->profile),
		.policy_stale = n->policy->origin != MESSAGE_POLICY_NEWEST,
		.door = "dns",
		.source = n->source,
		.source_port = n->source_port,
		.proxy = n->proxy,
		.proxy_port = n->proxy_port,
		.host = slice_of(n->name),
		.dns = &dns,
		.suggestion = rule_helps(n) ? n->name : NULL,
		.count = n->count > 1 ? n->count : 0};
	fill_rule(n->rule, &e, place, sizeof(place));
	enter(w, &e);
}

void dns_notes_write(struct dns_notes *notes, struct worker *w, struct sandbox *s)
{
	if (notes == NULL)
		return;
	for (unsigned i = 0; i < notes->count; i++) {
		note_write(&notes->notes[i], w, s);
		snapshot_put(notes->notes[i].policy);
	}
	for (size_t i = 0; i < OTHERS_MAX && notes->others[i].count > 0; i++) {
		note_write(&notes->others[i], w, s);
		snapshot_put(notes->others[i].policy);
	}
	free(notes);
}
