/* Answers of apt from any bytes. */
#include "tests/fuzz/import_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_fuzz(import_apt, data, size, false, false);
	return 0;
}
