/* Running an importer on a text, and asking the policy that comes out. */
#ifndef ECLUSA_TESTS_UNIT_IMPORT_SETUP_H
#define ECLUSA_TESTS_UNIT_IMPORT_SETUP_H

#include "cli/import.h"
#include "policy/ask.h"
#include "policy/bundle.h"
#include "policy/policy.h"
#include "tests/unit/cmocka_setup.h"

#include <stdlib.h>

/** The policy that the import made, which has to load. Free with policy_free(). */
static inline struct policy *import_compile(const struct import *im)
{
	struct buf text = {.limit = 0}, bundle = {.limit = 0};
	struct policy *policy = NULL;
	struct policy_report *report = calloc(1, sizeof(*report));
	(void)buf_printf(&text, "policy 1\n");
	(void)buf_append(&text, buf_slice(&im->text));
	struct bundle_text file = {BUNDLE_FILE, SLICE("import"), buf_slice(&text)};
	(void)bundle_open(&bundle);
	(void)bundle_append(&bundle, &file);
	int r = policy_compile(buf_slice(&bundle), &policy, report);
	if (r < 0)
		fail_msg("%s\nin\n%.*s", report->items[0].text, (int)buf_len(&text),
			buf_slice(&text).ptr);
	free(report);
	buf_fini(&text);
	buf_fini(&bundle);
	return policy;
}

static inline bool import_allows(const struct policy *p, const char *profile, const char *url)
{
	const struct profile *found;
	struct policy_ask ask;
	struct policy_verdict v;
	assert_int_equal(policy_profile(p, profile, &found, NULL), 0);
	policy_ask_init(&ask, SLICE("GET"), slice_of(url), 0);
	policy_ask_decide(found, &ask, &v);
	return v.reason == REASON_ALLOW_RULE;
}

#endif
