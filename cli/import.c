/* See import.h. Foreign text ends up in comments and in rules that the compiler judged, nowhere else. */
#include "cli/import.h"

#include "common/cleanup.h"
#include "policy/bundle.h"
#include "policy/policy.h"

#include <stdarg.h>
#include <stdio.h>

#define COMMENT_BYTES 1024

void import_fini(struct import *im)
{
	arena_fini(&im->arena);
	buf_fini(&im->text);
	buf_fini(&im->said);
}

/** Callers escape what people should see; whatever else is not printable can't end a line. @return line */
static char *clean(char *line)
{
	for (char *c = line; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			*c = '?';
	}
	return line;
}

void import_comment(struct import *im, const char *format, ...)
{
	char line[COMMENT_BYTES];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(line, sizeof(line), format, args); /* long ones are cut */
	va_end(args);
	(void)buf_printf(&im->text, "# %s\n", clean(line));
}

/** A line on standard error, in the form of findings. */
static void say(struct import *im, const char *place, const char *what, const char *why)
{
	char line[COMMENT_BYTES];
	(void)snprintf(line, sizeof(line), "%s: %s: %s", place, what, why); /* long ones are cut */
	(void)buf_printf(&im->said, "%s\n", clean(line));
}

void import_left_out(struct import *im, const char *place, struct slice what, const char *why)
{
	char shown[200], text[256];
	(void)slice_escape(what, shown, sizeof(shown));
	(void)snprintf(text, sizeof(text), "warning: not imported: %s", shown);
	say(im, place, text, why);
	import_comment(im, "not imported: %s: %s: %s", place, shown, why);
	im->left_out++;
}

void import_refuse(struct import *im, const char *place, const char *why)
{
	if (!im->refused)
		say(im, place, "error: nothing was imported", why);
	im->refused = true;
}

const char *import_place(struct import *im, const char *file, unsigned line)
{
	char shown[IMPORT_PLACE_BYTES - 16], text[IMPORT_PLACE_BYTES];
	(void)snprintf(text, sizeof(text), "%s:%u",
		slice_escape(slice_of(file), shown, sizeof(shown)), line);
	const char *kept = arena_dup(&im->arena, slice_of(text));
	return kept == NULL ? "" : kept;
}

void import_profile(struct import *im, const char *name)
{
	(void)buf_printf(&im->text, "[profile %s]\n", name);
}

const char *import_judge(struct import *im, const char *statement)
{
	struct buf text = {.limit = 0}, bundle = {.limit = 0};
	struct policy *policy = NULL;
	const char *why = NULL;
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	if (report == NULL)
		return "out of memory";
	(void)buf_printf(&text, "policy 1\n[profile p]\n%s\n", statement);
	struct bundle_text file = {BUNDLE_FILE, SLICE("import"), buf_slice(&text)};
	int r = text.failed ? -ENOMEM : bundle_open(&bundle);
	if (r == 0)
		r = bundle_append(&bundle, &file);
	if (r == 0)
		r = policy_compile(buf_slice(&bundle), &policy, report);
	policy_free(policy);
	if (r < 0) {
		why = report->count == 0 ? NULL
					 : arena_dup(&im->arena, slice_of(report->items[0].text));
		if (why == NULL)
			why = "out of memory";
	}
	buf_fini(&text);
	buf_fini(&bundle);
	return why;
}

bool import_rule(struct import *im, const char *place, const char *statement)
{
	const char *why = import_judge(im, statement);
	if (why != NULL) {
		import_left_out(im, place, slice_of(statement), why);
		return false;
	}
	import_comment(im, "%s", place);
	(void)buf_printf(&im->text, "%s\n", statement);
	im->rules++;
	return true;
}

void import_expect(struct import *im, const char *format, ...)
{
	char line[COMMENT_BYTES];
	va_list args;
	if (im->expects++ == IMPORT_EXPECTS_MAX)
		import_comment(im, "from here on rules have no expect line");
	if (im->expects > IMPORT_EXPECTS_MAX)
		return;
	va_start(args, format);
	int len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (len > 0 && (size_t)len < sizeof(line))
		(void)buf_printf(&im->text, "expect %s\n", line);
}
