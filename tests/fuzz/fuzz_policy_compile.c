/* Policy text from any bytes. A text that compiles must decide; one that does not must say where it is wrong. */
#include "policy/bundle.h"
#include "policy/lint.h"
#include "policy/policy.h"
#include "policy/source.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const hosts[] = {"a.test", "b.a.test", "c.b.a.test", "files.pkg.example",
	"github.com", "[2001:db8::1]", "169.254.169.254"};
static const char *const paths[] = {"/", "/v1/x", "/o/r/info/refs?x", "/@s%2fn"};

static void visit_opened(const struct cidr *prefix, uint16_t first, uint16_t last, void *arg)
{
	(void)arg;
	assert(prefix->bits > 0 && first > 0 && first <= last);
}

static void decide_some(const struct profile *p)
{
	static struct target target;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]) * 4; i++) {
		struct host host;
		struct policy_verdict v;
		struct policy_verdict early;
		char rule[512];
		assert(host_parse(slice_of(hosts[i / 4]), &host) == 0);
		assert(target_normalise(slice_of(paths[i % 4]), &target) == 0);
		struct policy_question q = {.host = &host,
			.port = i % 2 == 0 ? 443 : 80,
			.scheme = i % 2 == 0 ? POLICY_SCHEME_HTTPS : POLICY_SCHEME_HTTP,
			.method = SLICE("GET"),
			.path = target.path,
			.has_query = target.has_query,
			.encoded_slash = target.encoded_slash};
		policy_decide(p, &q, &v);
		policy_decide_host(p, &q, &early);
		/* What a request may do, its connection may do. */
		assert(!reason_allows(v.reason) || reason_allows(early.reason));
		assert(!reason_allows(v.reason) || v.rule->allow);
		(void)policy_suggest(&q, NULL, rule, sizeof(rule));
	}
}

static void try_bundle(struct slice bundle)
{
	static struct policy_report report;
	struct policy *p = NULL;
	const struct profile *profile;
	int r = policy_compile(bundle, &p, &report);
	assert((r == 0) == (report.errors == 0) || r == -ENOMEM);
	for (size_t i = 0; i < report.count; i++) {
		char line[1024];
		assert(report.items[i].line > 0 && report.items[i].column > 0);
		(void)policy_diagnostic_format(&report.items[i], line, sizeof(line));
	}
	if (r < 0)
		return;
	if (policy_profile(p, NULL, &profile, NULL) == 0)
		decide_some(profile);
	policy_opened(p, visit_opened, NULL);
	lint_policy(p, &(struct lint_options){.now_ms = 0, .strict = true}, &report);
	for (size_t i = 0; i < report.count; i++)
		assert(report.items[i].line > 0 && report.items[i].file[0] != '\0');
	policy_free(p);
}

/** The first byte says how the rest is taken: as a bundle, as rules of the command line, as a file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct slice rest = {(const char *)data + 1, size - 1};
	struct bundle_text text = {BUNDLE_FILE, SLICE("x.allow"), rest};
	struct buf bundle = {.limit = POLICY_BUNDLE_BYTES_MAX};
	if (data[0] == 'B') {
		try_bundle(rest);
		return 0;
	}
	if (data[0] == 'R')
		text.kind = BUNDLE_RULES;
	if (bundle_open(&bundle) == 0 && bundle_append(&bundle, &text) == 0)
		try_bundle(buf_slice(&bundle));
	buf_fini(&bundle);
	return 0;
}
