/* What a worker put into its ring: refused, or an event that makes one bounded line and is the same once more when packed again. */
#include "audit/ring.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct audit_unpacked u;
	struct buf line = {0}, again = {0};
	size_t end = 0;
	if (audit_event_unpack((struct slice){(const char *)data, size}, &u) < 0)
		return 0;
	require(audit_event_write(&u.event, &line, &end) == 0);
	struct slice text = buf_slice(&line);
	require(text.len <= AUDIT_LINE_BYTES_MAX && text.ptr[end] == '}');
	for (size_t i = 0; i < text.len; i++)
		require((unsigned char)text.ptr[i] >= 0x20);
	require(audit_event_pack(&u.event, AUDIT_SLOT_BYTES_MAX, &again) == 0);
	require(buf_len(&again) <= AUDIT_SLOT_BYTES_MAX);
	require(audit_event_unpack(buf_slice(&again), &u) == 0);
	buf_fini(&line);
	buf_fini(&again);
	return 0;
}
