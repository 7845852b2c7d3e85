/* Run documents and option values: whatever the bytes, a spec is filled or a line says why not. */
#include "common/cleanup.h"
#include "sandbox-launcher/spec.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};
	struct failure why = {0};
	struct spec spec;
	spec_init(&spec);
	if (spec_json_read(&spec, text, &why) < 0)
		assert(why.text[0] != '\0' && strchr(why.text, '\n') == NULL);
	else if (spec_check(&spec, &why) < 0)
		assert(why.text[0] != '\0');
	spec_fini(&spec);

	uint64_t number;
	unsigned milli;
	(void)spec_parse_size(text, &number); /* only that they come back */
	(void)spec_parse_milli(text, &milli);
	(void)spec_parse_time(text, &number);
	char *copy = slice_dup(text);
	if (copy == NULL)
		return 0;
	char *source = NULL;
	char name[SPEC_NAME_BYTES];
	struct failure input = {0};
	if (spec_input(copy, &source, name, &input) == 0)
		assert(strchr(name, '/') == NULL && name[0] != '\0');
	free(source);
	struct spec_bind bind = {0};
	struct spec_tmpfs tmpfs;
	if (spec_bind(copy, &bind, &input) == 0)
		assert(bind.path[0] == '/' && strstr(bind.path, "/../") == NULL);
	free(bind.source);
	(void)spec_tmpfs(copy, &tmpfs, &input);
	free(copy);
	return 0;
}
