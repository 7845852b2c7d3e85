/* See summary.h. */
#include "audit/summary.h"

#include "audit/reader.h"
#include "audit/seen.h"
#include "common/cleanup.h"

#define DISPOSITION_ERROR 27 /* OCSF: allowed, and failed */

/** A reading in progress. */
struct summing {
	const char *sandbox_id;
	struct audit_summary sum;
	struct audit_seen seen;
};

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/** Borrowed from the line; NULL when it is not there. Not const, since copies of it are freed. */
static char *text_at(const struct audit_line *line, const char *path)
{
	return (char *)(uintptr_t)audit_line_text(line, path).ptr;
}

/** The texts of a denial, borrowed from the event. */
static struct audit_denial denial_of(const struct audit_line *line)
{
	uint64_t port = audit_line_number_at(line, "dst_endpoint.port");
	char *class = text_at(line, "unmapped.eclusa.address_class");
	bool packet =
		class != NULL; /* a refused one: told by its class, whatever it was meant for */
	return (struct audit_denial){
		.reason = text_at(line, "status_code"),
		.detail = text_at(line, "status_detail"),
		.method = text_at(line, "http_request.http_method"),
		.host = text_at(line, "dst_endpoint.hostname"),
		.path = text_at(line, "http_request.url.path"),
		.url = text_at(line, "http_request.url.url_string"),
		.rule = text_at(line, "firewall_rule.uid"),
		.rule_place = text_at(line, "firewall_rule.desc"),
		.suggestion = text_at(line, "unmapped.eclusa.allow"),
		.address_class = class,
		.port = packet || port > UINT16_MAX ? 0 : (uint16_t)port,
	};
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/** The same thing tried again, for a person who reads the list. */
static bool denial_same(const struct audit_denial *a, const struct audit_denial *b)
{
	return a->port == b->port && text_same(a->reason, b->reason) &&
		text_same(a->method, b->method) && text_same(a->host, b->host) &&
		text_same(a->path, b->path) && text_same(a->rule_place, b->rule_place) &&
		text_same(a->address_class, b->address_class);
}

static void denial_fini(struct audit_denial *d)
{
	char **texts[] = {&d->reason, &d->detail, &d->method, &d->host, &d->path, &d->url, &d->rule,
		&d->rule_place, &d->suggestion, &d->address_class};
	for (size_t i = 0; i < array_size(texts); i++) {
		free(*texts[i]);
		*texts[i] = NULL;
	}
}

/** From borrowed to owned texts. @return 0 or -ENOMEM, then nothing is owned. */
static int denial_own(struct audit_denial *d)
{
	char **texts[] = {&d->reason, &d->detail, &d->method, &d->host, &d->path, &d->url, &d->rule,
		&d->rule_place, &d->suggestion, &d->address_class};
	bool failed = false;
	for (size_t i = 0; i < array_size(texts); i++) {
		if (*texts[i] == NULL)
			continue;
		*texts[i] = failed ? NULL : strdup(*texts[i]);
		failed |= *texts[i] == NULL;
	}
	if (failed)
		denial_fini(d);
	return failed ? -ENOMEM : 0;
}

/** Into a list of at most AUDIT_SUMMARY_DENIALS_MAX distinct ones; what finds no room counts in @left_out. */
static int add_denial(struct audit_denial **list, size_t *length, uint64_t *left_out,
	const struct audit_line *line, uint64_t count)
{
	struct audit_denial denial = denial_of(line);
	for (size_t i = 0; i < *length; i++) {
		if (denial_same(&(*list)[i], &denial)) {
			(*list)[i].count = add_clamped((*list)[i].count, count);
			return 0;
		}
	}
	if (*length == AUDIT_SUMMARY_DENIALS_MAX) {
		*left_out = add_clamped(*left_out, count);
		return 0;
	}
	if (*list == NULL) {
		*list = calloc(AUDIT_SUMMARY_DENIALS_MAX, sizeof(**list));
		if (*list == NULL)
			return -ENOMEM;
	}
	denial.count = count;
	int r = denial_own(&denial);
	if (r == 0)
		(*list)[(*length)++] = denial;
	return r;
}

/** A decision, of this sandbox (NULL: of any), whole. */
static bool is_decision(const struct audit_line *line, const char *sandbox_id)
{
	uint64_t class_uid = audit_line_number_at(line, "class_uid");
	/* What the proxy's DNS refuses is all there is of the attempt. */
	bool decides = class_uid == 4001 || class_uid == 4002 || class_uid == 4003;
	if (!decides || audit_line_is_answer(line) || !audit_line_counts(line))
		return false;
	return sandbox_id == NULL || text_same(text_at(line, "src_endpoint.uid"), sandbox_id);
}

bool audit_summary_denial(const struct audit_line *line, const char *sandbox_id,
	struct audit_denial *ret, bool *ret_failed)
{
	if (!is_decision(line, sandbox_id))
		return false;
	bool allowed = audit_line_number_at(line, "action_id") == 1;
	if (allowed && audit_line_number_at(line, "disposition_id") != DISPOSITION_ERROR)
		return false;
	*ret = denial_of(line);
	*ret_failed = allowed;
	return true;
}

/** Whether this event is to be counted, and was not seen before. */
static int event_counts(struct summing *s, const struct audit_line *line)
{
	if (!is_decision(line, s->sandbox_id))
		return 0;
	int r = audit_seen_add(&s->seen, audit_line_text(line, "metadata.uid"));
	return r == -EINVAL ? 0 : r;
}

/** Requests, and connections where no requests are seen, that nothing but observe mode let pass. */
static bool only_observed(const struct audit_line *line)
{
	bool tunnel =
		slice_equal(audit_line_text(line, "http_request.http_method"), SLICE("CONNECT")) &&
		slice_equal(audit_line_text(line, "unmapped.eclusa.tls_mode"), SLICE("inspect"));
	return !tunnel && audit_line_text(line, "unmapped.eclusa.would").ptr != NULL;
}

static int read_event(void *arg, const struct audit_line *line)
{
	struct summing *s = arg;
	struct audit_summary *sum = &s->sum;
	int r = event_counts(s, line);
	if (r <= 0)
		return r;
	uint64_t aggregated = audit_line_number_at(line, "unmapped.eclusa.count");
	uint64_t count = aggregated > 0 ? aggregated : 1;
	sum->bytes_in = add_clamped(sum->bytes_in, audit_line_number_at(line, "traffic.bytes_in"));
	sum->bytes_out =
		add_clamped(sum->bytes_out, audit_line_number_at(line, "traffic.bytes_out"));
	if (audit_line_number_at(line, "action_id") == 1) {
		sum->allowed = add_clamped(sum->allowed, count);
		if (only_observed(line))
			sum->observed = add_clamped(sum->observed, count);
		if (audit_line_number_at(line, "disposition_id") != DISPOSITION_ERROR)
			return 0;
		sum->failed = add_clamped(sum->failed, count);
		return add_denial(
			&sum->failures, &sum->failure_count, &sum->failures_left_out, line, count);
	}
	sum->denied = add_clamped(sum->denied, count);
	return add_denial(&sum->denials, &sum->denial_count, &sum->denials_left_out, line, count);
}

int audit_summary_read(int segment_fd, const char *sandbox_id, struct audit_summary *ret)
{
	struct summing s = {.sandbox_id = sandbox_id};
	struct audit_read read = {.visit = read_event, .arg = &s};
	int r = audit_read_fd(&read, segment_fd);
	audit_seen_fini(&s.seen);
	if (r < 0) {
		audit_summary_fini(&s.sum);
		return r;
	}
	*ret = s.sum;
	return 0;
}

void audit_summary_fini(struct audit_summary *s)
{
	for (size_t i = 0; i < s->denial_count; i++)
		denial_fini(&s->denials[i]);
	free(s->denials);
	for (size_t i = 0; i < s->failure_count; i++)
		denial_fini(&s->failures[i]);
	free(s->failures);
	*s = (struct audit_summary){0};
}
