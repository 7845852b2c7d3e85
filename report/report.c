/* See report.h. From events to counts. */
#include "report/report_state.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdio.h>

enum { CLASS_PROCESS = 1007, CLASS_ENTITY = 3004, CLASS_LIFECYCLE = 6002 };
enum { ACTION_ALLOWED = 1, ACTION_DENIED = 2, DISPOSITION_ERROR = 27 };

#define ENDPOINT_BYTES 512
#define VERDICT_BYTES  160

/** A decision, as the tables take it. */
struct decision {
	struct slice host, reason, would, suggestion, sandbox, profile, rule, place, policy;
	enum spread_kind kind;
	struct tally_add add; /* counts and time */
};

struct report *report_new(const struct report_options *options)
{
	struct report *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return NULL;
	r->options = *options;
	for (size_t i = 0; i < REPORT_TABLE_COUNT; i++)
		r->tables[i].limit = REPORT_KEYS_MAX;
	return r;
}

void report_free(struct report *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < REPORT_TABLE_COUNT; i++)
		tally_fini(&r->tables[i]);
	audit_seen_fini(&r->seen);
	free(r->file);
	free(r);
}

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/** An event stands twice in its own file, if at all: written, and then completed after a crash. @return 1, 0 or -ENOMEM. */
static int is_new(struct report *r, const struct audit_line *line)
{
	const char *file = audit_line_file(line);
	if (r->file == NULL || strcmp(r->file, file) != 0) {
		char *name = slice_dup(slice_of(file));
		if (name == NULL)
			return -ENOMEM;
		free(r->file);
		r->file = name;
		audit_seen_fini(&r->seen);
	}
	int seen = audit_seen_add(&r->seen, audit_line_text(line, "metadata.uid"));
	return seen == -EINVAL ? 1 : seen;
}

static enum spread_kind kind_of(const struct audit_line *line, bool would)
{
	if (audit_line_number_at(line, "action_id") == ACTION_DENIED)
		return SPREAD_DENIED;
	if (audit_line_number_at(line, "disposition_id") == DISPOSITION_ERROR)
		return SPREAD_FAILED;
	return would ? SPREAD_WOULD : SPREAD_ALLOWED;
}

/** A tunnel that is looked into has its requests judged one by one: what only observing let pass counts there. */
static bool only_observed(const struct audit_line *line, struct slice would)
{
	bool tunnel =
		slice_equal(audit_line_text(line, "http_request.http_method"), SLICE("CONNECT")) &&
		slice_equal(audit_line_text(line, "unmapped.eclusa.tls_mode"), SLICE("inspect"));
	return !tunnel && would.len > 0;
}

/** A name, else an address, else what is said of packets that were refused. */
static struct slice host_of(const struct audit_line *line, char text[static ENDPOINT_BYTES])
{
	struct slice name = audit_line_text(line, "dst_endpoint.hostname");
	struct slice address = audit_line_text(line, "dst_endpoint.ip");
	struct slice class = audit_line_text(line, "unmapped.eclusa.address_class");
	if (name.len > 0)
		return name;
	if (address.len > 0)
		return address;
	if (class.len == 0)
		return SLICE("(no host)");
	int len = snprintf(text, ENDPOINT_BYTES, "(packets: %.*s)",
		(int)(class.len < 64 ? class.len : 64), class.ptr);
	return (struct slice){text, (size_t)len};
}

static void decision_take(
	const struct audit_line *line, char host[static ENDPOINT_BYTES], struct decision *d)
{
	uint64_t count = audit_line_number_at(line, "unmapped.eclusa.count");
	*d = (struct decision){.host = host_of(line, host),
		.reason = audit_line_text(line, "status_code"),
		.would = audit_line_text(line, "unmapped.eclusa.would"),
		.suggestion = audit_line_text(line, "unmapped.eclusa.allow"),
		.sandbox = audit_line_text(line, "src_endpoint.uid"),
		.profile = audit_line_text(line, "policy.uid"),
		.rule = audit_line_text(line, "firewall_rule.uid"),
		.place = audit_line_text(line, "firewall_rule.desc"),
		.policy = audit_line_text(line, "policy.version")};
	bool would = only_observed(line, d->would);
	uint64_t *counts = d->add.counts;
	d->kind = kind_of(line, would);
	count = count == 0 ? 1 : count;
	counts[d->kind == SPREAD_DENIED ? TALLY_DENIED : TALLY_ALLOWED] = count;
	counts[TALLY_FAILED] = d->kind == SPREAD_FAILED ? count : 0;
	counts[TALLY_WOULD] = would ? count : 0;
	counts[TALLY_OUT] = audit_line_number_at(line, "traffic.bytes_out");
	counts[TALLY_IN] = audit_line_number_at(line, "traffic.bytes_in");
	d->add.time_ms = audit_line_number_at(line, "time");
}

static int count_in(struct report *r, enum report_table table, const struct tally_add *what)
{
	return tally_add(&r->tables[table], what);
}

/** Into every table that it belongs to. */
static int decision_count(struct report *r, const struct decision *d)
{
	struct tally_add a = d->add;
	a.parts[0] = d->host;
	int e = count_in(r, REPORT_HOSTS, &a);
	a.parts[0] = d->reason;
	if (e == 0)
		e = count_in(r, REPORT_REASONS, &a);
	a.parts[0] = d->sandbox;
	a.notes[0] = d->profile;
	if (e == 0 && d->sandbox.len > 0)
		e = count_in(r, REPORT_SANDBOXES, &a);
	a.notes[0] = (struct slice){0};
	a.parts[1] = d->rule;
	a.parts[2] = d->place;
	if (e == 0 && d->sandbox.len > 0)
		e = count_in(r, REPORT_RULES, &a);
	a = d->add;
	a.parts[0] = d->policy;
	a.parts[1] = d->profile;
	if (e == 0 && d->policy.len > 0)
		e = count_in(r, REPORT_POLICIES, &a);
	a = d->add;
	a.parts[0] = d->host;
	a.parts[1] = d->kind == SPREAD_DENIED ? d->reason : d->would;
	a.parts[2] = d->suggestion;
	a.notes[0] = d->sandbox;
	a.notes[1] = d->place.len > 0 ? d->place : d->rule;
	if (e == 0 && d->kind == SPREAD_DENIED)
		e = count_in(r, REPORT_DENIED, &a);
	else if (e == 0 && d->add.counts[TALLY_WOULD] > 0)
		e = count_in(r, REPORT_WOULD, &a);
	return e;
}

static int take_decision(struct report *r, const struct audit_line *line)
{
	char host[ENDPOINT_BYTES];
	struct decision d;
	decision_take(line, host, &d);
	for (size_t i = 0; i < TALLY_COUNTS; i++)
		r->counts[i] = add_clamped(r->counts[i], d.add.counts[i]);
	spread_add(&r->spread, d.add.time_ms, d.kind,
		d.add.counts[TALLY_ALLOWED] + d.add.counts[TALLY_DENIED]);
	return decision_count(r, &d);
}

/** A sandbox began, ended, or tried what it may not. */
static int take_process(struct report *r, const struct audit_line *line)
{
	struct slice code = audit_line_text(line, "status_code");
	struct slice verdict = audit_line_text(line, "unmapped.eclusa.verdict");
	char text[VERDICT_BYTES];
	uint64_t status;
	struct tally_add a = {.parts = {audit_line_text(line, "container.uid")},
		.notes = {[2] = audit_line_text(line, "process.cmd_line")},
		.time_ms = audit_line_number_at(line, "time")};
	r->starts += slice_equal(code, SLICE("sandbox.start"));
	r->violations += slice_equal(code, SLICE("sandbox.violation"));
	if (a.parts[0].len == 0)
		return 0;
	if (verdict.len > 0 && audit_line_find_number(line, "exit_code", &status) && status != 0) {
		int len = snprintf(text, sizeof(text), "%.*s, status %" PRIu64,
			(int)(verdict.len < 100 ? verdict.len : 100), verdict.ptr, status);
		verdict = (struct slice){text, (size_t)len};
	}
	a.notes[1] = verdict;
	struct slice label = audit_line_text(line, "metadata.labels.0");
	if (slice_starts(label, SLICE("profile:")))
		a.notes[0] = slice_part(label, sizeof("profile:") - 1, label.len);
	return count_in(r, REPORT_SANDBOXES, &a);
}

/** A policy came into force, or did not. */
static int take_policy(struct report *r, const struct audit_line *line)
{
	bool rejected = slice_equal(audit_line_text(line, "status_code"), SLICE("policy.rejected"));
	struct slice after = audit_line_text(line, "entity_result.uid");
	struct slice detail = audit_line_text(line, "status_detail");
	struct tally_add a = {.parts = {after.len > 0 ? after : audit_line_text(line, "entity.uid"),
				      audit_line_text(line, "entity.name")},
		.notes = {rejected ? (struct slice){0} : SLICE("loaded"),
			rejected ? detail : (struct slice){0}},
		.time_ms = audit_line_number_at(line, "time")};
	return count_in(r, REPORT_POLICIES, &a);
}

static void take_lifecycle(struct report *r, const struct audit_line *line)
{
	struct slice code = audit_line_text(line, "status_code");
	uint64_t count = audit_line_number_at(line, "unmapped.eclusa.count");
	r->checkpoints += slice_equal(code, SLICE("audit.checkpoint"));
	if (slice_equal(code, SLICE("audit.lost")))
		r->lost = add_clamped(r->lost, count == 0 ? 1 : count);
}

int report_take(void *report, const struct audit_line *line)
{
	struct report *r = report;
	uint64_t time_ms = audit_line_number_at(line, "time"), class, action;
	if (!audit_line_find_number(line, "class_uid", &class) || !audit_line_counts(line))
		return 0; /* of the index, or counted in another event */
	if (time_ms < r->options.from_ms || time_ms >= r->options.to_ms) {
		r->left_out++;
		return 0;
	}
	int fresh = is_new(r, line);
	if (fresh <= 0)
		return fresh;
	r->events++;
	r->first_ms = r->first_ms == 0 || time_ms < r->first_ms ? time_ms : r->first_ms;
	r->last_ms = time_ms > r->last_ms ? time_ms : r->last_ms;
	r->recovered += audit_line_true(line, "unmapped.eclusa.recovered");
	if (audit_line_is_answer(line))
		return 0;
	if (audit_line_find_number(line, "action_id", &action) &&
		(action == ACTION_ALLOWED || action == ACTION_DENIED))
		return take_decision(r, line);
	if (class == CLASS_PROCESS)
		return take_process(r, line);
	if (class == CLASS_ENTITY)
		return take_policy(r, line);
	if (class == CLASS_LIFECYCLE)
		take_lifecycle(r, line);
	return 0;
}

void report_skipped(struct report *r, uint64_t lines)
{
	r->skipped = add_clamped(r->skipped, lines);
}

int report_write(struct report *r, struct buf *to)
{
	report_rows_close(r);
	report_page(r, to);
	return to->failed ? -ENOBUFS : 0;
}
