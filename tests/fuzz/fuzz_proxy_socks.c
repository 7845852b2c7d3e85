/*
 * SOCKS5 messages, and the first bytes of connections. Byte 0: bit 0 greeting or request, the rest the size of steps. Holds: bytes that come in
 * pieces get the verdict that they get at once; a message has its length; the host is what the same text is to the parser of hosts.
 */
#include "proxy/first_bytes.h"
#include "proxy/socks.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	enum socks_result result;
	size_t len;
	bool is_open;
	struct socks_request request;
};

static struct outcome read_once(struct slice in, bool greeting)
{
	struct outcome o = {0};
	if (greeting)
		o.result = socks_parse_greeting(in, &o.len, &o.is_open);
	else
		o.result = socks_parse_request(in, &o.request);
	if (!greeting && o.result == SOCKS_DONE)
		o.len = o.request.len;
	return o;
}

/** In steps, each call with a copy of its exact size, so that one byte too far is seen. */
static struct outcome read_all(struct slice in, size_t step, bool greeting)
{
	struct outcome o = {.result = SOCKS_MORE};
	for (size_t end = 0; o.result == SOCKS_MORE;
		end = in.len - end > step ? end + step : in.len) {
		char *copy = malloc(end);
		assert(copy != NULL || end == 0);
		if (end > 0)
			memcpy(copy, in.ptr, end);
		o = read_once((struct slice){copy, end}, greeting);
		free(copy);
		if (end == in.len)
			break;
	}
	return o;
}

static void check_request(const struct socks_request *r)
{
	struct host host;
	struct slice text = {r->text, r->text_len};
	assert(r->text_len < SOCKS_TEXT_BYTES && r->len <= SOCKS_REQUEST_BYTES_MAX);
	bool valid = host_parse(text, &host) == 0 && r->port != 0;
	assert(valid == r->has_host);
	assert(!valid || host_equal(&host, &r->host));
}

static void check_first_bytes(struct slice in)
{
	enum first_bytes whole = first_bytes_of(in);
	for (size_t len = 0; len < in.len && len < 40; len++) {
		enum first_bytes part = first_bytes_of(slice_part(in, 0, len));
		assert(part == FIRST_BYTES_MORE || part == whole);
	}
	assert(whole != FIRST_BYTES_MORE || in.len <= 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct slice in = {(const char *)data + 1, size - 1};
	bool greeting = (data[0] & 1) != 0;
	struct outcome whole = read_all(in, in.len, greeting);
	struct outcome parts = read_all(in, (data[0] >> 1) + 1u, greeting);
	assert(whole.result == parts.result);
	assert(whole.result != SOCKS_MORE || in.len < SOCKS_REQUEST_BYTES_MAX);
	if (whole.result == SOCKS_DONE) {
		assert(whole.len == parts.len && whole.len <= in.len &&
			whole.is_open == parts.is_open);
		assert(!greeting || whole.len <= SOCKS_GREETING_BYTES_MAX);
	}
	if (whole.result == SOCKS_DONE && !greeting)
		check_request(&whole.request);
	check_first_bytes(in);
	return 0;
}
