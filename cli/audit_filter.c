/* See audit_filter.h. */
#include "cli/audit_filter.h"

#include "cli/audit_time.h"
#include "cli/recorded.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <assert.h>

static const char *const verdicts[] = {
	[AUDIT_VERDICT_NONE] = "-",
	[AUDIT_VERDICT_ALLOW] = "allow",
	[AUDIT_VERDICT_DENY] = "deny",
	[AUDIT_VERDICT_ERROR] = "error",
	[AUDIT_VERDICT_OBSERVE] = "observe",
};
static_assert(array_size(verdicts) == AUDIT_VERDICT_COUNT, "a name for each verdict");

static const struct {
	const char *name;
	uint64_t uid;
} classes[] = {{"http", 4002}, {"network", 4001}, {"dns", 4003}, {"process", 1007},
	{"entity", 3004}, {"lifecycle", 6002}};

const char *audit_verdict_name(enum audit_verdict verdict)
{
	return verdicts[verdict];
}

static int read_verdict(const char *word, enum audit_verdict *ret)
{
	for (enum audit_verdict v = AUDIT_VERDICT_ALLOW; v < AUDIT_VERDICT_COUNT; v++) {
		if (strcmp(word, verdicts[v]) == 0) {
			*ret = v;
			return 0;
		}
	}
	return audit_usage("--verdict takes allow, deny, error or observe, not ", word);
}

static int read_class(const char *word, uint64_t *ret)
{
	for (size_t i = 0; i < array_size(classes); i++) {
		if (strcmp(word, classes[i].name) == 0) {
			*ret = classes[i].uid;
			return 0;
		}
	}
	return audit_usage(
		"--class takes http, network, dns, process, entity or lifecycle, not ", word);
}

static int read_time(const char *word, uint64_t *ret_ms)
{
	return audit_time_parse(slice_of(word), clock_wall_ms(), ret_ms)
		? 0
		: audit_usage("--since and --until take " AUDIT_TIME_FORMS ", not ", word);
}

int audit_filter_read(const struct audit_words *words, struct audit_filter *ret)
{
	enum reason known;
	struct audit_filter f = {.sandbox = words->sandbox,
		.host = words->host,
		.reason = words->reason,
		.rule = words->rule,
		.profile = words->profile};
	if (f.reason != NULL && !recorded_reason(slice_of(f.reason), &known))
		return audit_usage("--reason takes a code, such as deny.path, not ", f.reason);
	if (words->verdict != NULL && read_verdict(words->verdict, &f.verdict) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (words->class != NULL && read_class(words->class, &f.class_uid) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (words->since != NULL && read_time(words->since, &f.since_ms) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (words->until != NULL && read_time(words->until, &f.until_ms) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (f.until_ms != 0 && f.since_ms >= f.until_ms)
		return audit_usage("--until has to be after --since, not ", words->until);
	*ret = f;
	return 0;
}

/** Whether a text that stands in the line as it is can be found there. Case and escapes are left to the exact check. */
static bool holds(struct slice bytes, const char *text)
{
	if (text == NULL)
		return true;
	for (const char *c = text; *c != '\0'; c++) {
		if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\')
			return true;
	}
	return memmem(bytes.ptr, bytes.len, text, strlen(text)) != NULL;
}

static bool is_in_time(const struct audit_filter *f, uint64_t time_ms)
{
	return time_ms >= f->since_ms && (f->until_ms == 0 || time_ms < f->until_ms);
}

bool audit_filter_may_take(const struct audit_filter *f, struct slice bytes, uint64_t time_ms)
{
	if (f->text != NULL && memmem(bytes.ptr, bytes.len, f->text, strlen(f->text)) == NULL)
		return false;
	return is_in_time(f, time_ms) && holds(bytes, f->sandbox) && holds(bytes, f->reason) &&
		holds(bytes, f->rule) && holds(bytes, f->profile);
}

/** Whether a text of the line is what was asked for. */
static bool is(const struct audit_line *line, const char *path, const char *wanted)
{
	return slice_equal(audit_line_text(line, path), slice_of(wanted));
}

static bool takes_host(const struct audit_line *line, const char *wanted)
{
	struct slice host = audit_line_text(line, "dst_endpoint.hostname");
	struct slice name = slice_of(wanted);
	if (host.len == 0)
		host = audit_line_text(line, "query.hostname");
	if (host.len == 0)
		host = audit_line_text(line, "dst_endpoint.ip");
	if (name.len > 1 && name.ptr[0] == '.')
		host = slice_part(
			host, host.len > name.len ? host.len - name.len : host.len, host.len);
	return slice_equal_nocase(host, name);
}

static bool takes_profile(const struct audit_line *line, const char *wanted)
{
	char path[] = "metadata.labels.0";
	if (is(line, "policy.name", wanted))
		return true;
	for (; path[sizeof(path) - 2] <= '9'; path[sizeof(path) - 2]++) {
		struct slice label = audit_line_text(line, path);
		struct slice key, value;
		if (slice_split(label, ':', &key, &value) && slice_equal(key, SLICE("profile")))
			return slice_equal(value, slice_of(wanted));
	}
	return false;
}

bool audit_filter_takes(const struct audit_filter *f, const struct audit_line *line)
{
	if (!is_in_time(f, audit_line_number_at(line, "time")))
		return false;
	if (f->class_uid != 0 && audit_line_number_at(line, "class_uid") != f->class_uid)
		return false;
	if (f->verdict != AUDIT_VERDICT_NONE && audit_verdict_of(line) != f->verdict)
		return false;
	if (f->sandbox != NULL && !is(line, "container.uid", f->sandbox) &&
		!is(line, "container.name", f->sandbox))
		return false;
	return (f->reason == NULL || is(line, "status_code", f->reason)) &&
		(f->rule == NULL || is(line, "firewall_rule.uid", f->rule)) &&
		(f->host == NULL || takes_host(line, f->host)) &&
		(f->profile == NULL || takes_profile(line, f->profile));
}

enum audit_verdict audit_verdict_of(const struct audit_line *line)
{
	struct slice code = audit_line_text(line, "status_code");
	if (slice_starts(code, SLICE("deny.")))
		return AUDIT_VERDICT_DENY;
	if (slice_starts(code, SLICE("error.")))
		return AUDIT_VERDICT_ERROR;
	if (slice_starts(code, SLICE("observe.")) ||
		audit_line_text(line, "unmapped.eclusa.would").len > 0)
		return AUDIT_VERDICT_OBSERVE;
	return slice_starts(code, SLICE("allow.")) ? AUDIT_VERDICT_ALLOW : AUDIT_VERDICT_NONE;
}
