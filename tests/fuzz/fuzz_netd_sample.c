/* Packets of sandboxes, as nflog hands them over. Holds: what is parsed depends on the first SAMPLE_BYTES alone. */
#include "netd/sample.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message_sample whole = {0}, part = {0};
	size_t len = size < SAMPLE_BYTES ? size : SAMPLE_BYTES;
	char *copy = malloc(len + 1); /* of its exact size but for an empty one */
	assert(copy != NULL);
	if (len > 0)
		memcpy(copy, data, len);
	int r = sample_parse((struct slice){(const char *)data, size}, &whole);
	assert(sample_parse((struct slice){copy, len}, &part) == r);
	assert(r < 0 || memcmp(&whole, &part, sizeof(whole)) == 0);
	assert(r == 0 || size < 20 || data[0] >> 4 != 4 || (data[0] & 15) < 5);
	free(copy);
	return 0;
}
