/* Targets from any bytes: normalising twice changes nothing, and no dot segment survives. */
#include "policy/target.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct target once;
static struct target twice;

static void check_path(struct slice path)
{
	struct slice rest = slice_part(path, 1, path.len);
	assert(path.len > 0 && path.ptr[0] == '/');
	for (bool more = true; more;) {
		struct slice segment = rest;
		more = slice_split(rest, '/', &segment, &rest);
		assert(!slice_equal(segment, SLICE(".")) && !slice_equal(segment, SLICE("..")));
		assert(slice_find(segment, '\\') < 0 && slice_find(segment, '#') < 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[4 * TARGET_PATH_BYTES];
	struct slice input = {(const char *)data, size};
	if (target_normalise(input, &once) < 0)
		return 0;
	check_path(once.path);
	memcpy(text, once.path.ptr, once.path.len);
	size_t len = once.path.len;
	if (once.has_query) {
		text[len++] = '?';
		if (once.query.len > 0)
			memcpy(text + len, once.query.ptr, once.query.len);
		len += once.query.len;
	}
	assert(len <= size); /* never longer than what was asked */
	assert(target_normalise((struct slice){text, len}, &twice) == 0);
	assert(slice_equal(once.path, twice.path) && slice_equal(once.query, twice.query));
	assert(once.has_query == twice.has_query && once.encoded_slash == twice.encoded_slash);
	return 0;
}
