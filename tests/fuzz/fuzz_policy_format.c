/* Any bytes as policy text: what has a layout keeps it, and keeps what it means. */
#include "policy/bundle.h"
#include "policy/format.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Digests of all profiles, one after the other; empty when the text does not load. */
static void digest(struct slice text, struct buf *to)
{
	static struct policy_report report;
	struct policy *p = NULL;
	struct bundle_text file = {BUNDLE_FILE, SLICE("x.allow"), text};
	struct buf bundle = {.limit = 0};
	assert(bundle_open(&bundle) == 0 && bundle_append(&bundle, &file) == 0);
	if (policy_compile(buf_slice(&bundle), &p, &report) == 0) {
		for (size_t i = 0; policy_profile_at(p, i) != NULL; i++)
			assert(buf_append_text(to, profile_digest(policy_profile_at(p, i))) == 0);
		assert(buf_append_text(to, ".") == 0);
	}
	policy_free(p);
	buf_fini(&bundle);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy_report report;
	struct slice text = {(const char *)data, size};
	struct buf once = {.limit = 0};
	struct buf twice = {.limit = 0};
	struct buf before = {.limit = 0};
	struct buf after = {.limit = 0};
	/* A rule without id= is named by its line, which a layout may move. */
	bool by_line = memmem(data, size, "by=", 3) != NULL;
	int r = policy_format("x.allow", text, &once, &report);
	assert(r == 0 || (r == -EINVAL && report.errors > 0));
	if (r == 0) {
		assert(policy_format("x.allow", buf_slice(&once), &twice, &report) == 0);
		assert(slice_equal(buf_slice(&once), buf_slice(&twice)));
		digest(text, &before);
		digest(buf_slice(&once), &after);
		assert(by_line || slice_equal(buf_slice(&before), buf_slice(&after)));
	}
	buf_fini(&once);
	buf_fini(&twice);
	buf_fini(&before);
	buf_fini(&after);
	return 0;
}
