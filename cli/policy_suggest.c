/* `eclusa policy suggest`: the rules that a log of observe mode asks for, as a policy that loads. */
#include "cli/policy.h"
#include "cli/suggest.h"

#include "common/cleanup.h"
#include "policy/bundle.h"

#include <stdio.h>

#define SUGGESTED_NAME "suggested"

static int visit(void *suggest, const struct audit_line *line)
{
	struct recorded r;
	recorded_take(line, &r);
	return suggest_add(suggest, &r);
}

/** Compile the text; @report says what is wrong. @return 0 or negative errno. */
static int compile(struct slice text, struct policy **ret, struct policy_report *report)
{
	struct buf bundle;
	const struct bundle_text file = {BUNDLE_FILE, SLICE(SUGGESTED_NAME), text};
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	int r = bundle_open(&bundle);
	if (r == 0)
		r = bundle_append(&bundle, &file);
	if (r == 0)
		r = policy_compile(buf_slice(&bundle), ret, report);
	buf_fini(&bundle);
	return r;
}

/**
 * First the rules alone, then again with what the compiled ones answer. @return 0; -EINVAL with errors in the report;
 * another negative errno.
 */
static int write_text(const struct suggest *s, bool uniform, struct buf *to, size_t *ret_rules,
	struct policy_report *report)
{
	struct suggest_style style = {.uniform = uniform};
	struct policy *rules = NULL;
	struct policy *whole = NULL;
	buf_clear(to);
	int r = suggest_text(s, &style, to, ret_rules);
	if (r == 0)
		r = compile(buf_slice(to), &rules, report);
	if (r == 0) {
		style.probe = rules;
		buf_clear(to);
		r = suggest_text(s, &style, to, ret_rules);
	}
	if (r == 0)
		r = compile(buf_slice(to), &whole, report);
	policy_free(rules);
	policy_free(whole);
	return r;
}

static void json_left(const struct suggest *s, struct json *j)
{
	json_array(j, "left_out");
	for (size_t i = 0; i < s->count; i++) {
		const struct suggest_request *r = s->requests[i];
		if (r->left == SUGGEST_LEFT_NOT)
			continue;
		json_object(j, NULL);
		json_text(j, "profile", r->profile);
		json_text(j, "host", r->host.name);
		json_uint(j, "port", r->port);
		json_text(j, "method", r->method);
		json_text(j, "path", r->path);
		json_text(j, "why", suggest_left_name(r->left));
		if (suggest_left_option(r->left) != NULL)
			json_text(j, "option", suggest_left_option(r->left));
		json_uint(j, "requests", r->count);
		json_object_end(j);
	}
	json_array_end(j);
}

static void write_json(const struct suggest *s, size_t rules, struct buf *text)
{
	struct buf out;
	struct json j;
	buf_init(&out, POLICY_OUTPUT_BYTES_MAX);
	json_open(&j, &out);
	json_object(&j, NULL);
	json_slice(&j, "policy", buf_slice(text));
	json_uint(&j, "rules", rules);
	json_uint(&j, "requests", s->events);
	json_left(s, &j);
	json_uint(&j, "not_valid", s->kinds[RECORDED_INVALID]);
	json_uint(&j, "too_many", s->too_many);
	json_object_end(&j);
	(void)buf_append_text(&out, "\n"); /* sticky */
	buf_fini(text);
	*text = out;
}

/** One line a reason on stderr. @return how many requests are not in the text. */
static uint64_t tell(const struct suggest *s)
{
	uint64_t left[SUGGEST_LEFT_COUNT] = {0};
	uint64_t all = s->kinds[RECORDED_INVALID] + s->too_many;
	for (size_t i = 0; i < s->count; i++)
		left[s->requests[i]->left] += s->requests[i]->count;
	for (unsigned i = SUGGEST_LEFT_NOT + 1; i < SUGGEST_LEFT_COUNT; i++) {
		const char *option = suggest_left_option((enum suggest_left)i);
		all += left[i];
		if (left[i] > 0)
			(void)fprintf(stderr, "eclusa policy: left out: %llu requests: %s%s%s\n",
				(unsigned long long)left[i],
				suggest_left_name((enum suggest_left)i),
				option == NULL ? "" : "; taken in by ",
				option == NULL ? "" : option);
	}
	if (s->kinds[RECORDED_INVALID] > 0)
		(void)fprintf(stderr,
			"eclusa policy: left out: %llu events that are no valid request\n",
			(unsigned long long)s->kinds[RECORDED_INVALID]);
	if (s->too_many > 0)
		(void)fprintf(stderr,
			"eclusa policy: left out: %llu requests beyond %d different ones: --profile "
			"takes one profile's\n",
			(unsigned long long)s->too_many, SUGGEST_REQUESTS_MAX);
	if (s->foldable > 0)
		(void)fprintf(stderr,
			"eclusa policy: %zu times, %d or more hosts differ in their first label alone: "
			"--fold makes a wildcard of them\n",
			s->foldable, SUGGEST_HOSTS);
	if (s->events == 0)
		(void)fprintf(stderr,
			"eclusa policy: no request in this log was let pass by observe mode alone\n");
	return all;
}

static int finish(const struct policy_words *words, struct suggest *s)
{
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	struct buf text;
	size_t rules = 0;
	int r = report == NULL ? -ENOMEM : suggest_fold(s);
	buf_init(&text, SUGGEST_TEXT_BYTES_MAX);
	if (r == 0)
		r = write_text(s, false, &text, &rules, report);
	if (r == -EINVAL) /* two of them may be equally specific and differ */
		r = write_text(s, true, &text, &rules, report);
	if (r == 0) {
		uint64_t left = tell(s);
		if (words->json)
			write_json(s, rules, &text);
		return policy_finish(&text, left > 0 ? POLICY_EXIT_FINDINGS : POLICY_EXIT_CLEAN);
	}
	if (r == -EINVAL && report->count > 0)
		(void)fprintf(stderr, "eclusa policy: the rules contradict one another: %s\n",
			report->items[0].text);
	else if (r == -EFBIG || r == -ENOBUFS)
		(void)fprintf(stderr,
			"eclusa policy: the rules do not fit into one file: --profile "
			"takes one profile's requests\n");
	else
		(void)policy_usage(strerror(-r), "");
	buf_fini(&text);
	return POLICY_EXIT_UNREADABLE;
}

int policy_suggest_rules(const struct policy_words *words)
{
	struct suggest s = {.options = {.profile = words->profile,
				    .fold = words->fold,
				    .allow_write = words->allow_write,
				    .allow_private = words->allow_private}};
	struct audit_read read = {.visit = visit, .arg = &s};
	struct failure why = {0};
	int r = 0;
	for (size_t i = 0; i < words->word_count && r == 0; i++)
		r = audit_read_path(&read, words->words[i], &why);
	if (r < 0)
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
	int status = r < 0 ? POLICY_EXIT_UNREADABLE : finish(words, &s);
	suggest_fini(&s);
	return status;
}
