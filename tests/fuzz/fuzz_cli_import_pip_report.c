/* The report of pip from any bytes. */
#include "tests/fuzz/import_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	import_fuzz(import_pip_report, data, size, true, false);
	return 0;
}
