/* A cursor file of any bytes: refused, or written again as it was read. */
#include "export/cursor.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor cursor = {.count = 0};
	struct buf text = {.limit = 2 * CURSOR_BYTES_MAX};
	struct slice given = {(const char *)data, size};
	int r = cursor_parse(given, &cursor);
	assert(r == 0 || r == -EBADMSG);
	if (r == 0) {
		assert(cursor_write(&cursor, &text) == 0);
		assert(slice_equal(buf_slice(&text), given));
	}
	cursor_fini(&cursor);
	buf_fini(&text);
	return 0;
}
