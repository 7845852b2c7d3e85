/* Hosts and authorities from any bytes: what is accepted is canonical and parses to itself. */
#include "policy/host.h"

#include <assert.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct host *h)
{
	char text[HOST_NAME_BYTES + 2];
	struct host again;
	size_t len = strlen(h->name);
	bool v6 = h->kind == HOST_ADDRESS && h->address.family == 6;
	assert(len > 0 && len < HOST_NAME_BYTES && h->name[len - 1] != '.');
	for (size_t i = 0; i < len; i++)
		assert(h->name[i] > ' ' && h->name[i] < 0x7f && h->name[i] != '%' &&
			h->name[i] == ascii_lower(h->name[i]));
	(void)snprintf(text, sizeof(text), v6 ? "[%s]" : "%s", h->name);
	assert(host_parse(slice_of(text), &again) == 0 && host_equal(h, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};
	struct host h;
	uint16_t port;
	if (host_parse(text, &h) == 0)
		check_host(&h);
	if (authority_parse(text, 0, &h, &port) == 0) {
		check_host(&h);
		assert(port > 0);
	}
	if (authority_parse(text, 443, &h, &port) == 0)
		assert(port > 0);
	return 0;
}
