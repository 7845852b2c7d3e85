/* Configurations from any bytes: taken, or refused with file, line and column. */
#include "policy/config.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c;
	struct failure why = {0};
	int r = config_parse("f", (struct slice){(const char *)data, size}, &c, &why);
	assert(r == 0 || r == -EINVAL);
	assert(r == 0 || (why.code == -EINVAL && strncmp(why.text, "f:", 2) == 0));
	for (size_t i = 0; r == 0 && i < c.trust_count; i++)
		assert(c.trust[i].path[0] == '/' && c.trust[i].line > 0);
	return 0;
}
