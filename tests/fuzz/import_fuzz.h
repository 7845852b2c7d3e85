/* What holds for every importer and any bytes: what it writes is policy text that loads, unless it refused. */
#ifndef ECLUSA_TESTS_FUZZ_IMPORT_FUZZ_H
#define ECLUSA_TESTS_FUZZ_IMPORT_FUZZ_H

#include "cli/import.h"
#include "policy/bundle.h"
#include "policy/policy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** @open: the importer goes on in a profile. @twice: the source may name one profile twice, which does not load. */
static inline void import_fuzz(
	import_from *from, const uint8_t *data, size_t size, bool open, bool twice)
{
	struct import im = {.profile = "p"};
	struct buf bundle = {.limit = 0};
	struct policy *policy = NULL;
	struct policy_report *report = calloc(1, sizeof(*report));
	(void)buf_printf(&im.text, open ? "policy 1\n[profile p]\n" : "policy 1\n");
	from(&im, "f", (struct slice){(const char *)data, size});
	assert(!im.refused || buf_len(&im.said) > 0);
	assert(im.left_out == 0 || buf_len(&im.said) > 0);
	struct bundle_text file = {BUNDLE_FILE, SLICE("import"), buf_slice(&im.text)};
	if (report != NULL && !im.refused && !im.text.failed && bundle_open(&bundle) == 0 &&
		bundle_append(&bundle, &file) == 0)
		assert(policy_compile(buf_slice(&bundle), &policy, report) == 0 || twice);
	policy_free(policy);
	free(report);
	buf_fini(&bundle);
	import_fini(&im);
}

#endif
