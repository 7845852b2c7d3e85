/* `eclusa policy replay`: a recorded log judged again by other policy files, and which of its verdicts flip. */
#include "cli/policy.h"
#include "cli/recorded.h"

#include "audit/seen.h"
#include "common/cleanup.h"
#include "policy/arena.h"

#include <assert.h>
#include <stdio.h>

#define FLIPS_MAX  10000 /* different ones that are told apart */
#define TABLE_SIZE ((size_t)4 * 8192)

static_assert(TABLE_SIZE > 2 * FLIPS_MAX, "half of the table stays empty");

/** Requests that flip alike. Text is the arena's. */
struct flip {
	const char *profile, *method, *url, *old_rule, *old_place;
	enum reason old_reason, old_would;
	struct policy_verdict verdict; /* rule: the new policy's */
	uint64_t count;
};

struct replay {
	const struct policy *policy;
	const char *profile; /* that judges all; NULL: the one of the event's name */
	uint64_t now_ms;
	struct audit_seen seen;
	struct arena arena;
	struct flip *flips[FLIPS_MAX]; /* in order of the log */
	size_t flip_count;
	struct flip *table[TABLE_SIZE];
	uint64_t judged, flipped, flips_left_out;
	uint64_t kinds[RECORDED_KIND_COUNT]; /* not judged, by why */
	uint64_t outside;    /* not judged: what refused them is no matter of policy text */
	uint64_t no_profile; /* not judged: NEW has no profile of the name */
};

/** What a request is refused for that the same rules would allow: messages, names in TLS, certificates, counters, clocks. */
static bool outside_policy(const struct recorded *r)
{
	switch (r->reason) {
	case REASON_ALLOW_RULE:
	case REASON_ALLOW_SPLICE:
	case REASON_OBSERVE_WOULD_DENY:
	case REASON_DENY_DEFAULT:
	case REASON_DENY_RULE:
	case REASON_DENY_EXPIRED:
	case REASON_DENY_NAME:
	case REASON_DENY_PATH:
	case REASON_DENY_METHOD:
	case REASON_DENY_QUERY:
	case REASON_DENY_PORT:
	case REASON_DENY_SCHEME:
	case REASON_DENY_ADDRESS_PRIVATE:
	case REASON_DENY_ADDRESS_METADATA:
		return false;
	default:
		return !r->passed; /* an error after it was let pass is none of policy's */
	}
}

/** Limits of one message, and what a connection turns into. */
static enum reason judge_limits(const struct recorded *r, const struct rule *rule)
{
	if (r->request_body_bytes > rule->req_body_bytes ||
		r->response_body_bytes > rule->resp_body_bytes)
		return REASON_DENY_SIZE;
	return r->websocket && !rule->websocket ? REASON_DENY_PROTOCOL : REASON_ALLOW_RULE;
}

/** As the proxy's dial guard: for a tunnel, whose requests are not known, any rule of the host may open it. */
static enum reason judge_address(
	const struct profile *p, const struct recorded *r, const struct rule *rule)
{
	if (r->destination.family == 0)
		return REASON_ALLOW_RULE;
	if (r->connect && policy_rule_opening(p, &r->question, &r->destination) != NULL)
		return REASON_ALLOW_RULE;
	return policy_admit_address(rule, &r->destination);
}

/** Again what the proxy asks, as far as the log tells: tunnel, request, address, sizes. */
static void judge(const struct profile *p, const struct recorded *r, struct policy_verdict *ret)
{
	const struct policy_question *q = &r->question;
	if (r->connect)
		(void)policy_decide_tunnel(p, q, ret); /* of either scheme */
	else
		policy_decide_host(p, q, ret);
	if (!reason_allows(ret->reason))
		return;
	enum policy_transport transport = ret->rule->transport;
	bool requests = transport == POLICY_INSPECT || q->scheme == POLICY_SCHEME_HTTP;
	if (!r->connect && requests)
		policy_decide(p, q, ret);
	if (!reason_allows(ret->reason))
		return;
	enum reason reason = REASON_ALLOW_RULE;
	if (r->connect && r->transport != POLICY_INSPECT && r->transport != transport)
		reason = REASON_DENY_PROTOCOL; /* bytes that the rule's connections do not carry */
	if (reason == REASON_ALLOW_RULE)
		reason = judge_address(p, r, ret->rule);
	if (reason == REASON_ALLOW_RULE && !r->connect && requests && !ret->rule->observe)
		reason = judge_limits(r, ret->rule);
	if (reason != REASON_ALLOW_RULE)
		ret->reason = reason;
}

static uint64_t digest(const struct flip *f)
{
	const char *const texts[] = {f->profile, f->method, f->url, f->old_rule, f->old_place};
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	for (size_t i = 0; i < array_size(texts); i++) {
		for (const char *c = texts[i]; *c != '\0'; c++)
			hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
		hash = (hash ^ 0xff) * UINT64_C(0x100000001b3);
	}
	return (hash ^ (uint64_t)f->verdict.reason) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool same(const struct flip *a, const struct flip *b)
{
	return strcmp(a->url, b->url) == 0 && strcmp(a->method, b->method) == 0 &&
		strcmp(a->profile, b->profile) == 0 && a->old_reason == b->old_reason &&
		a->old_would == b->old_would && a->verdict.reason == b->verdict.reason &&
		a->verdict.rule == b->verdict.rule && strcmp(a->old_rule, b->old_rule) == 0 &&
		strcmp(a->old_place, b->old_place) == 0;
}

static struct flip **place_of(struct replay *run, const struct flip *f)
{
	for (uint64_t at = digest(f) >> 16;; at++) {
		struct flip **place = &run->table[at & (TABLE_SIZE - 1)];
		if (*place == NULL || same(*place, f))
			return place;
	}
}

/** Texts into the arena. */
static struct flip *keep(struct arena *arena, const struct flip *from)
{
	struct flip *f = arena_alloc(arena, 1, sizeof(*f));
	if (f == NULL)
		return NULL;
	*f = *from;
	const char **texts[] = {&f->profile, &f->method, &f->url, &f->old_rule, &f->old_place};
	for (size_t i = 0; i < array_size(texts); i++)
		*texts[i] = arena_dup(arena, slice_of(*texts[i]));
	return arena->failed ? NULL : f;
}

static int add_flip(struct replay *run, const struct flip *f)
{
	struct flip **place = place_of(run, f);
	run->flipped++;
	if (*place == NULL && run->flip_count == FLIPS_MAX) {
		run->flips_left_out++;
		return 0;
	}
	if (*place == NULL) {
		*place = keep(&run->arena, f);
		if (*place == NULL)
			return -ENOMEM;
		run->flips[run->flip_count++] = *place;
	}
	(*place)->count++;
	return 0;
}

/** "https://host:port/path", or "host:port" of a tunnel: printable, since it was judged. */
static void url_of(const struct recorded *r, struct buf *to)
{
	bool plain = r->question.scheme == POLICY_SCHEME_HTTP;
	bool six = r->host.kind == HOST_ADDRESS && r->host.address.family == 6;
	if (!r->connect)
		(void)buf_append_text(
			to, plain ? "http://" : "https://"); /* sticky, as all of these */
	(void)buf_printf(to, "%s%s%s", six ? "[" : "", r->host.name, six ? "]" : "");
	if (r->connect || r->question.port != (plain ? 80 : 443))
		(void)buf_printf(to, ":%u", r->question.port);
	(void)buf_printf(to, "%.*s%s", (int)r->path.len, r->path.ptr == NULL ? "" : r->path.ptr,
		r->question.has_query ? "?..." : "");
}

static int flipped(struct replay *run, const struct recorded *r, const struct policy_verdict *v)
{
	struct buf url;
	buf_init(&url, 0);
	url_of(r, &url);
	(void)buf_append(&url, (struct slice){"", 1});
	struct flip f = {.profile = r->profile,
		.method = r->connect ? "CONNECT" : r->question.method.ptr,
		.url = buf_slice(&url).ptr,
		.old_rule = r->rule.ptr == NULL ? "" : r->rule.ptr,
		.old_place = r->place.ptr == NULL ? "" : r->place.ptr,
		.old_reason = r->reason,
		.old_would = r->would,
		.verdict = *v};
	int result = url.failed ? -ENOMEM : add_flip(run, &f);
	buf_fini(&url);
	return result;
}

static int replay_event(struct replay *run, struct recorded *r)
{
	const struct profile *p;
	struct policy_verdict v;
	const char *name = run->profile != NULL ? run->profile : r->profile;
	if (policy_profile(run->policy, name, &p, NULL) < 0) {
		run->no_profile++;
		return 0;
	}
	if (outside_policy(r)) {
		run->outside++;
		return 0;
	}
	r->question.now_ms = run->now_ms;
	judge(p, r, &v);
	run->judged++;
	return reason_allows(v.reason) == r->passed ? 0 : flipped(run, r, &v);
}

static int visit(void *arg, const struct audit_line *line)
{
	struct replay *run = arg;
	struct recorded r;
	recorded_take(line, &r);
	if (r.kind == RECORDED_OTHER)
		return 0;
	int new = audit_seen_add(&run->seen, r.uid);
	if (new == 0 || new == -ENOMEM)
		return new;
	if (r.kind == RECORDED_REQUEST && new == 1)
		return replay_event(run, &r);
	run->kinds[r.kind == RECORDED_REQUEST ? RECORDED_INVALID : r.kind]++;
	return 0;
}

static void print_flip(const struct flip *f, struct buf *out)
{
	char rule[128];
	char place[256];
	(void)buf_printf(out, "%s: %s %s  %s -> %s",
		reason_allows(f->verdict.reason) ? "allowed" : "denied", f->method, f->url,
		reason_code(f->old_reason), reason_code(f->verdict.reason));
	if (f->count > 1)
		(void)buf_printf(out, "  (%llu times)", (unsigned long long)f->count);
	(void)buf_printf(out, "  [%s]\n", f->profile);
	/* A rule without id= is called by its place. */
	bool placed = f->old_place[0] != '\0' && strcmp(f->old_rule, f->old_place) != 0;
	(void)buf_printf(out, "      was by %s%s%s\n",
		slice_escape(slice_of(f->old_rule), rule, sizeof(rule)), placed ? " " : "",
		placed ? slice_escape(slice_of(f->old_place), place, sizeof(place)) : "");
	if (f->verdict.rule == NULL)
		(void)buf_printf(out, "      is  by default\n");
	else
		(void)buf_printf(out, "      is  by %s:%u: %s\n", f->verdict.rule->file,
			f->verdict.rule->line, f->verdict.rule->text);
}

static void print_lines(const struct replay *run, struct buf *out)
{
	const char *separator = "; not judged: ";
	for (size_t i = 0; i < run->flip_count; i++)
		print_flip(run->flips[i], out);
	if (run->flips_left_out > 0)
		(void)buf_printf(out, "and %llu more\n", (unsigned long long)run->flips_left_out);
	(void)buf_printf(out, "%llu judged, %llu flip", (unsigned long long)run->judged,
		(unsigned long long)run->flipped);
	for (unsigned i = 0; i < RECORDED_KIND_COUNT; i++) {
		if (run->kinds[i] == 0)
			continue;
		(void)buf_printf(out, "%s%llu %s", separator, (unsigned long long)run->kinds[i],
			recorded_kind_name((enum recorded_kind)i));
		separator = ", ";
	}
	if (run->outside > 0)
		(void)buf_printf(out, "%s%llu refused for another reason than rules", separator,
			(unsigned long long)run->outside);
	if (run->outside > 0)
		separator = ", ";
	if (run->no_profile > 0)
		(void)buf_printf(out, "%s%llu of a profile that is not there", separator,
			(unsigned long long)run->no_profile);
	(void)buf_append_text(out, "\n");
}

static void json_flip(const struct flip *f, struct json *j)
{
	json_object(j, NULL);
	json_text(j, "verdict", reason_allows(f->verdict.reason) ? "allowed" : "denied");
	json_text(j, "profile", f->profile);
	json_text(j, "method", f->method);
	json_text(j, "url", f->url);
	json_uint(j, "count", f->count);
	json_object(j, "old");
	json_text(j, "reason", reason_code(f->old_reason));
	if (!reason_allows(f->old_would))
		json_text(j, "would", reason_code(f->old_would));
	json_text(j, "rule", f->old_rule);
	json_text(j, "place", f->old_place);
	json_object_end(j);
	json_object(j, "new");
	json_text(j, "reason", reason_code(f->verdict.reason));
	json_text(j, "detail", f->verdict.detail);
	if (f->verdict.rule != NULL) {
		json_text(j, "rule", f->verdict.rule->id);
		json_text(j, "file", f->verdict.rule->file);
		json_uint(j, "line", f->verdict.rule->line);
		json_text(j, "text", f->verdict.rule->text);
	}
	json_object_end(j);
	json_object_end(j);
}

static void print_json(const struct replay *run, struct buf *out)
{
	struct json j;
	json_open(&j, out);
	json_object(&j, NULL);
	json_array(&j, "flips");
	for (size_t i = 0; i < run->flip_count; i++)
		json_flip(run->flips[i], &j);
	json_array_end(&j);
	json_uint(&j, "flips_left_out", run->flips_left_out);
	json_uint(&j, "judged", run->judged);
	json_uint(&j, "flipped", run->flipped);
	json_object(&j, "not_judged");
	json_uint(&j, "redacted", run->kinds[RECORDED_REDACTED] + run->kinds[RECORDED_CUT]);
	json_uint(&j, "invalid", run->kinds[RECORDED_INVALID]);
	json_uint(&j, "packets", run->kinds[RECORDED_PACKETS]);
	json_uint(&j, "other_reason", run->outside);
	json_uint(&j, "no_profile", run->no_profile);
	json_object_end(&j);
	json_object_end(&j);
	(void)buf_append_text(out, "\n"); /* sticky */
}

static int replay(const struct policy_words *words, struct replay *run)
{
	struct audit_read read = {.visit = visit, .arg = run};
	struct failure why = {0};
	struct buf out;
	const struct profile *p;
	int r = 0;
	if (run->profile != NULL)
		r = policy_profile(run->policy, run->profile, &p, &why);
	for (size_t i = 0; i + 1 < words->word_count && r == 0; i++)
		r = audit_read_path(&read, words->words[i], &why);
	if (r < 0) {
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
		return POLICY_EXIT_UNREADABLE;
	}
	buf_init(&out, POLICY_OUTPUT_BYTES_MAX);
	if (words->json)
		print_json(run, &out);
	else
		print_lines(run, &out);
	return policy_finish(&out, run->flipped > 0 ? POLICY_EXIT_FINDINGS : POLICY_EXIT_CLEAN);
}

int policy_replay(const struct policy_words *words)
{
	struct policy *policy = policy_load_good(words, words->words[words->word_count - 1]);
	auto_free struct replay *run = calloc(1, sizeof(*run));
	int status = POLICY_EXIT_UNREADABLE;
	if (policy != NULL && run != NULL) {
		run->policy = policy;
		run->profile = words->profile;
		run->now_ms = words->at_ms;
		status = replay(words, run);
		audit_seen_fini(&run->seen);
		arena_fini(&run->arena);
	}
	policy_free(policy);
	return status;
}
