/* Samples: whom a packet is meant for, and how they add up. */
#include "tests/unit/cmocka_setup.h"

#include "netd/sample.h"

#include <errno.h>
#include <netinet/in.h>

static void a_packet_tells_whom_it_is_meant_for(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		int result;
		uint8_t protocol;
		uint16_t port;
	} cases[] = {
#define HEAD(first, fragment, protocol)                                                            \
	first "\0\0\x1c\0\1" fragment "\x40" protocol "\0\0\x0a\0\0\3\x0a\1\2\3"
#define CASE(text, ...) {text, sizeof(text) - 1, __VA_ARGS__}
		CASE(HEAD("\x45", "\0\0", "\x06") "\x12\x34\x01\xbb", 0, IPPROTO_TCP, 443),
		CASE(HEAD("\x45", "\x40\0", "\x11") "\x12\x34\0\x35", 0, IPPROTO_UDP, 53),
		CASE(HEAD("\x46", "\0\0", "\x06") "opts\x12\x34\0\x50", 0, IPPROTO_TCP, 80),
		CASE(HEAD("\x45", "\0\0", "\x01") "\x08\0\0\0", 0, IPPROTO_ICMP, 0),
		CASE(HEAD("\x45", "\0\1", "\x11") "\x12\x34\0\x35", 0, IPPROTO_UDP, 0),
		CASE(HEAD("\x45", "\0\0", "\x06") "\x12\x34\x01", 0, IPPROTO_TCP, 0),
		CASE(HEAD("\x4f", "\0\0", "\x06") "\x12\x34\x01\xbb", 0, IPPROTO_TCP, 0),
		CASE(HEAD("\x44", "\0\0", "\x06") "\x12\x34\x01\xbb", -EINVAL, 0, 0),
		CASE(HEAD("\x65", "\0\0", "\x06") "\x12\x34\x01\xbb", -EINVAL, 0, 0),
		{"", 0, -EINVAL, 0, 0},
		{"\x45", 1, -EINVAL, 0, 0},
	};
	static const uint8_t destination[] = {10, 1, 2, 3};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct message_sample sample = {.class = PACKET_UDP};
		assert_int_equal(
			sample_parse((struct slice){cases[i].bytes, cases[i].len}, &sample),
			cases[i].result);
		if (cases[i].result < 0)
			continue;
		assert_int_equal(sample.protocol, cases[i].protocol);
		assert_int_equal(sample.port, cases[i].port);
		assert_memory_equal(sample.destination, destination, sizeof(destination));
		assert_int_equal(sample.class, PACKET_UDP);
	}
}

static void samples_of_one_place_are_one_and_places_are_bounded(void **state)
{
	(void)state;
	struct message_samples samples = {0};
	for (uint16_t port = 1; port <= MESSAGE_SAMPLES_MAX + 5; port++) {
		for (int i = 0; i < 3; i++)
			sample_add(&samples,
				&(struct message_sample){.class = PACKET_PUBLIC,
					.protocol = IPPROTO_TCP,
					.port = port});
	}
	assert_int_equal(samples.count, MESSAGE_SAMPLES_MAX);
	for (size_t i = 0; i < MESSAGE_SAMPLES_MAX; i++) {
		assert_int_equal(samples.items[i].port, i + 1);
		assert_int_equal(samples.items[i].count, 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_tells_whom_it_is_meant_for),
		cmocka_unit_test(samples_of_one_place_are_one_and_places_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
