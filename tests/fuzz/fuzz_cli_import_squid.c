/* Squid's lists and configurations from any bytes. */
#include "tests/fuzz/import_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_fuzz(import_squid, data, size, false, false);
	return 0;
}
