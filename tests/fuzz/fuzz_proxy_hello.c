/*
 * ClientHellos, and what a host answers to them. Byte 0: bit 0 second hello, bit 1 a host's answer, the rest
 * the size of steps. Holds: bytes that come in pieces get the verdict that they get at once; the message in records of
 * another size is the same hello; what OpenSSL's server reads of the same bytes is the same name.
 */
#include "proxy/hello.h"

#include <assert.h>
#include <stdlib.h>

#include <openssl/ssl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	enum hello_result result;
	struct hello hello;
};

/** In steps, each call with a copy of its exact size, so that one byte too far is seen. */
static struct outcome read_all(struct slice in, size_t step, bool again)
{
	struct hello_scan scan = {.again = again};
	struct outcome o = {.result = HELLO_MORE};
	for (size_t end = 0; o.result == HELLO_MORE;
		end = in.len - end > step ? end + step : in.len) {
		char *copy = malloc(end);
		assert(copy != NULL || end == 0);
		if (end > 0)
			memcpy(copy, in.ptr, end);
		o.result = hello_parse(&scan, (struct slice){copy, end}, &o.hello);
		free(copy);
		if (end == in.len)
			break;
	}
	assert(o.result != HELLO_MORE || in.len < HELLO_FLIGHT_BYTES_MAX);
	assert(o.result != HELLO_ALERT || again);
	return o;
}

static bool hello_same(const struct hello *a, const struct hello *b)
{
	return a->has_name == b->has_name && a->ech == b->ech && a->tls13 == b->tls13 &&
		(!a->has_name || host_equal(&a->name, &b->name));
}

/** The message of a hello that has been read, in records of so many bytes. */
static size_t repack(struct slice in, size_t record, char *to)
{
	size_t len = 0;
	size_t fill = 0;
	char *head = NULL;
	for (size_t at = 0; at < in.len;) {
		size_t payload = (size_t)(uint8_t)in.ptr[at + 3] << 8 | (uint8_t)in.ptr[at + 4];
		for (size_t i = 0; i < payload; i++) {
			if (fill % record == 0) {
				head = to + len;
				memcpy(head, "\x16\x03\x01\0\0", 5);
				len += 5;
			}
			size_t in_record = fill++ % record + 1;
			head[3] = (char)(in_record >> 8);
			head[4] = (char)in_record;
			to[len++] = in.ptr[at + 5 + i];
		}
		at += 5 + payload;
	}
	return len;
}

struct seen {
	bool called, has_name, valid;
	struct host name;
};

static int on_hello(SSL *ssl, int *alert, void *arg)
{
	struct seen *seen = arg;
	const unsigned char *bytes;
	size_t len;
	(void)alert;
	seen->called = true;
	seen->has_name = SSL_client_hello_get0_ext(ssl, 0, &bytes, &len) == 1;
	if (seen->has_name && len > 5)
		seen->valid = host_parse((struct slice){(const char *)bytes + 5, len - 5},
				      &seen->name) == 0;
	return SSL_CLIENT_HELLO_RETRY;
}

static void compare_with_openssl(struct slice in, const struct hello *hello)
{
	static SSL_CTX *ctx;
	struct seen seen = {0};
	if (ctx == NULL)
		ctx = SSL_CTX_new(TLS_server_method());
	SSL_CTX_set_client_hello_cb(ctx, on_hello, &seen);
	SSL *ssl = SSL_new(ctx);
	BIO *from = BIO_new_mem_buf(in.ptr, (int)in.len);
	SSL_set_bio(ssl, from, BIO_new(BIO_s_mem()));
	SSL_set_accept_state(ssl);
	(void)SSL_do_handshake(ssl);
	if (seen.called) { /* else it refused what we took: that goes on to a server that does the same */
		assert(seen.has_name == hello->has_name);
		assert(!hello->has_name || (seen.valid && host_equal(&seen.name, &hello->name)));
	}
	SSL_free(ssl);
}

static void check_again(struct slice in, const struct hello *hello, size_t step)
{
	static char repacked[6 * HELLO_BYTES_MAX];
	struct slice whole = slice_part(in, 0, hello->len);
	size_t len = repack(whole, step, repacked);
	if (len >= HELLO_FLIGHT_BYTES_MAX)
		return;
	struct outcome o = read_all((struct slice){repacked, len}, len, false);
	assert(o.result == HELLO_DONE && o.hello.len == len && hello_same(&o.hello, hello));
	compare_with_openssl(whole, hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct slice in = {(const char *)data + 1, size - 1};
	size_t step = (data[0] >> 2) + 1u;
	bool again = (data[0] & 1) != 0;
	if ((data[0] & 2) != 0) {
		enum hello_answer last = HELLO_ANSWER_MORE;
		for (size_t end = 0; end < in.len && last == HELLO_ANSWER_MORE; end += step)
			last = hello_answer_of(slice_part(in, 0, end));
		assert(last == HELLO_ANSWER_MORE || last == hello_answer_of(in));
		return 0;
	}
	struct outcome at_once = read_all(in, in.len, again);
	struct outcome in_steps = read_all(in, step, again);
	assert(at_once.result == in_steps.result);
	if (at_once.result != HELLO_DONE)
		return 0;
	assert(at_once.hello.len <= in.len && at_once.hello.len == in_steps.hello.len);
	assert(hello_same(&at_once.hello, &in_steps.hello));
	if (!again)
		check_again(in, &at_once.hello, step);
	return 0;
}
