/* Manifests from any bytes: what is taken is written again as the same bytes, and equals itself. */
#include "policy/manifest.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct manifest m;
	struct slice text = {(const char *)data, size};
	struct buf again = {.limit = 0};
	struct slice path;
	unsigned line = 0;
	int r = manifest_parse(text, &m, &line);
	assert((r == 0 && line == 0) || (r == -EINVAL && line > 0));
	if (r < 0)
		return 0;
	assert(manifest_write(&m, &again) == 0);
	assert(slice_equal(text, buf_slice(&again)));
	assert(manifest_compare(&m, &m, &path) == MANIFEST_SAME);
	buf_fini(&again);
	return 0;
}
