/*
 * From a log of any content `policy suggest` makes text that loads, laid out as fmt does, in which every rule waits for its
 * ticket: nothing of a line becomes policy that is not a host, a method, a path or a profile's name.
 */
#include "cli/suggest.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "policy/bundle.h"
#include "policy/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit(void *suggest, const struct audit_line *line)
{
	struct recorded r;
	recorded_take(line, &r);
	return suggest_add(suggest, &r);
}

/** NULL: it does not load, which two rules of one host may be to blame for. */
static struct policy *compile(struct slice text)
{
	static struct policy_report report;
	struct policy *policy = NULL;
	struct buf bundle;
	const struct bundle_text file = {BUNDLE_FILE, SLICE("suggested"), text};
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	if (bundle_open(&bundle) < 0 || bundle_append(&bundle, &file) < 0 ||
		policy_compile(buf_slice(&bundle), &policy, &report) < 0)
		policy = NULL;
	buf_fini(&bundle);
	return policy;
}

static bool known_start(struct slice line)
{
	static const char *const starts[] = {
		"policy 1", "#", "[profile ", "allow ", "expect ", "        "};
	for (size_t i = 0; i < array_size(starts); i++) {
		if (slice_starts(line, slice_of(starts[i])))
			return true;
	}
	return line.len == 0;
}

static size_t count_of(struct slice text, struct slice what)
{
	size_t count = 0;
	for (size_t i = 0; i + what.len <= text.len; i++)
		count += slice_equal(slice_part(text, i, i + what.len), what);
	return count;
}

static void check_text(struct slice text, size_t rules)
{
	static struct policy_report report;
	struct buf again;
	struct slice line;
	struct slice rest = text;
	size_t allows = 0;
	buf_init(&again, SUGGEST_TEXT_BYTES_MAX);
	while (slice_split(rest, '\n', &line, &rest)) {
		if (!known_start(line) || slice_starts(line, SLICE("allow any ")) ||
			slice_starts(line, SLICE("allow any:")))
			abort();
		allows += slice_starts(line, SLICE("allow "));
	}
	if (allows != rules ||
		count_of(text,
			SLICE(" ticket="
			      "TO"
			      "DO")) != rules)
		abort();
	if (policy_format("suggested", text, &again, &report) < 0 ||
		!slice_equal(buf_slice(&again), text))
		abort();
	buf_fini(&again);
}

static void write_and_check(const struct suggest *s, bool uniform)
{
	struct suggest_style style = {.uniform = uniform};
	struct buf text;
	size_t rules;
	buf_init(&text, SUGGEST_TEXT_BYTES_MAX);
	if (suggest_text(s, &style, &text, &rules) == 0) {
		check_text(buf_slice(&text), rules);
		struct policy *policy = compile(buf_slice(&text));
		if (policy == NULL && uniform)
			abort();
		style.probe = policy;
		buf_clear(&text);
		if (policy != NULL && suggest_text(s, &style, &text, &rules) == 0) {
			struct policy *whole = compile(buf_slice(&text));
			if (whole == NULL)
				abort();
			check_text(buf_slice(&text), rules);
			policy_free(whole);
		}
		policy_free(policy);
	}
	buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool all = size > 0 && (data[size - 1] & 1) != 0;
	struct suggest s = {.options = {.fold = all, .allow_write = all, .allow_private = all}};
	struct audit_read read = {.visit = visit, .arg = &s};
	auto_fd fd = file_memory("segment", (struct slice){(const char *)data, size});
	if (fd >= 0 && audit_read_fd(&read, fd) == 0 && suggest_fold(&s) == 0) {
		write_and_check(&s, false);
		write_and_check(&s, true);
	}
	suggest_fini(&s);
	return 0;
}
