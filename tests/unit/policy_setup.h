/* Policies from text, for the tests of the policy folder. */
#ifndef ECLUSA_TESTS_UNIT_POLICY_SETUP_H
#define ECLUSA_TESTS_UNIT_POLICY_SETUP_H

#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "policy/bundle.h"
#include "policy/policy.h"
#include "policy/source.h"

#include <stdio.h>

static struct policy_report policy_setup_report;

/** Compile one text named "x.allow". @return what policy_compile() returns; findings in policy_setup_report. */
static inline int policy_setup_compile(struct slice text, struct policy **ret)
{
	struct buf bundle;
	struct bundle_text file = {BUNDLE_FILE, SLICE("x.allow"), text};
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	assert_int_equal(bundle_open(&bundle), 0);
	assert_int_equal(bundle_append(&bundle, &file), 0);
	int r = policy_compile(buf_slice(&bundle), ret, &policy_setup_report);
	buf_fini(&bundle);
	return r;
}

/** Compile a text that must be right. */
static inline struct policy *policy_setup(const char *text)
{
	struct policy *p = NULL;
	if (policy_setup_compile(slice_of(text), &p) != 0) {
		char line[1024];
		fail_msg("%s",
			policy_diagnostic_format(
				&policy_setup_report.items[0], line, sizeof(line)));
	}
	return p;
}

/** A profile that must be there. */
static inline const struct profile *policy_setup_profile(const struct policy *p, const char *name)
{
	const struct profile *profile = NULL;
	struct failure why = {0};
	if (policy_profile(p, name, &profile, &why) != 0)
		fail_msg("%s", why.text);
	return profile;
}

/** A question in one line: "GET https://host:port/path?query". */
struct policy_setup_question {
	struct policy_question q;
	struct host host;
	struct target target;
};

static inline void policy_setup_ask(const char *text, struct policy_setup_question *ret)
{
	struct slice rest = slice_of(text);
	struct slice path = SLICE("/");
	ret->q = (struct policy_question){.host = &ret->host};
	assert_true(slice_split(rest, ' ', &ret->q.method, &rest));
	bool tls = slice_starts(rest, SLICE("https://"));
	rest = slice_part(rest, tls ? 8 : 7, rest.len);
	struct slice authority = rest;
	ptrdiff_t slash = slice_find(rest, '/');
	if (slash >= 0) {
		authority = slice_part(rest, 0, (size_t)slash);
		path = slice_part(rest, (size_t)slash, rest.len);
	}
	ret->q.scheme = tls ? POLICY_SCHEME_HTTPS : POLICY_SCHEME_HTTP;
	assert_int_equal(authority_parse(authority, tls ? 443 : 80, &ret->host, &ret->q.port), 0);
	assert_int_equal(target_normalise(path, &ret->target), 0);
	ret->q.path = ret->target.path;
	ret->q.has_query = ret->target.has_query;
	ret->q.encoded_slash = ret->target.encoded_slash;
}

#endif
