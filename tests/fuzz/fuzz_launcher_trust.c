/*
 * A PEM text that somebody calls a certificate authority's. Holds: whatever it is, files of it are made or it is refused, and a store
 * that was made is one element that holds what was decoded.
 */
#include "sandbox-launcher/der.h"
#include "sandbox-launcher/trust_files.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trust_files t;
	struct failure why = {0};
	struct slice rest;
	trust_files_init(&t);
	int r = trust_files_finish(&t, (struct slice){(const char *)data, size}, &why);
	assert(r == 0 || (r < 0 && why.text[0] != '\0'));
	if (r == 0) {
		rest = buf_slice(&t.java);
		assert(der_take(&rest, DER_SEQUENCE, NULL, NULL) == 0 && rest.len == 0);
		assert(buf_len(&t.nss) > 0 && buf_len(&t.bundle) == size + 1);
	}
	trust_files_fini(&t);
	return 0;
}
