/* The small parts beneath the sinks over HTTP: answers, acknowledgements, values of OTLP, compressed bodies. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "export/acks.h"
#include "export/answer.h"
#include "export/gzip.h"
#include "export/otlp_value.h"

#include <zlib.h>

static void values_have_their_types(void **state)
{
	static const struct {
		const char *json, *otlp; /* NULL: refused */
	} cases[] = {
		{"\"a\\\"b\"", "{\"stringValue\":\"a\\\"b\"}"},
		{"\"a\\\\\"", "{\"stringValue\":\"a\\\\\"}"},
		{"7", "{\"intValue\":\"7\"}"},
		{"-7", "{\"intValue\":\"-7\"}"},
		{"999999999999999999", "{\"intValue\":\"999999999999999999\"}"},
		{"9999999999999999999", "{\"doubleValue\":9999999999999999999}"},
		{"1.5e3", "{\"doubleValue\":1.5e3}"},
		{" true ", "{\"boolValue\":true}"},
		{"false", "{\"boolValue\":false}"},
		{"null", "{}"},
		{"{}", "{\"kvlistValue\":{\"values\":[]}}"},
		{"[]", "{\"arrayValue\":{\"values\":[]}}"},
		{"[1,[2],\"x\"]",
			"{\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},"
			"{\"arrayValue\":{\"values\":[{\"intValue\":\"2\"}]}},{\"stringValue\":\"x\"}]}}"},
		{"{ \"a\" : { \"b\" : 1 } , \"c\":[{}]}",
			"{\"kvlistValue\":{\"values\":[{\"key\":\"a\",\"value\":{\"kvlistValue\":{\"values\":["
			"{\"key\":\"b\",\"value\":{\"intValue\":\"1\"}}]}}},{\"key\":\"c\",\"value\":"
			"{\"arrayValue\":{\"values\":[{\"kvlistValue\":{\"values\":[]}}]}}}]}}"},
		{"", NULL},
		{"{", NULL},
		{"{\"a\"}", NULL},
		{"{\"a\":}", NULL},
		{"{\"a\":1,}", NULL},
		{"{1:1}", NULL},
		{"[1,]", NULL},
		{"[1}", NULL},
		{"[1 2]", NULL},
		{"\"a", NULL},
		{"\"a\\", NULL},
		{"{}x", NULL},
		{"nul", NULL},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		struct buf to = {.limit = 0};
		int result = otlp_value_write(slice_of(cases[i].json), &to);
		if (result != (cases[i].otlp == NULL ? -EBADMSG : 0) ||
			(result == 0 && !slice_equal(buf_slice(&to), slice_of(cases[i].otlp))))
			fail_msg("%s: %d %.*s", cases[i].json, result, (int)buf_len(&to),
				buf_slice(&to).ptr);
		buf_fini(&to);
	}
}

static void values_have_a_greatest_depth(void **state)
{
	(void)state;
	for (size_t depth = OTLP_DEPTH_MAX; depth <= OTLP_DEPTH_MAX + 1; depth++) {
		struct buf text = {.limit = 0}, to = {.limit = 0};
		for (size_t i = 0; i < depth; i++)
			assert_int_equal(buf_append(&text, SLICE("[")), 0);
		for (size_t i = 0; i < depth; i++)
			assert_int_equal(buf_append(&text, SLICE("]")), 0);
		assert_int_equal(otlp_value_write(buf_slice(&text), &to),
			depth > OTLP_DEPTH_MAX ? -EBADMSG : 0);
		buf_fini(&text);
		buf_fini(&to);
	}
}

static void acknowledgements_are_asked_for_until_they_come(void **state)
{
	(void)state;
	struct acks acks = {.count = 0};
	struct buf question = {.limit = 0};
	struct ack ack;
	for (uint64_t id = 0; id < 3; id++)
		assert_int_equal(acks_add(&acks, &(const struct ack){.id = id, .tag = 9}), 0);
	acks_ask(&acks, &question);
	assert_true(slice_equal(buf_slice(&question), SLICE("{\"acks\":[0,1,2]}")));
	buf_fini(&question);
	assert_int_equal(
		acks_answer(&acks, SLICE("{\"acks\":{\"0\":false,\"1\":true,\"7\":true,\"2\":1}}")),
		0);
	assert_true(acks_take(&acks, &ack));
	assert_int_equal(ack.id, 1);
	assert_false(acks_take(&acks, &ack));
	assert_int_equal(acks.count, 2);
	assert_int_equal(acks_answer(&acks, SLICE("{\"acks\":[true]}")), -EBADMSG);
	assert_int_equal(acks_answer(&acks, SLICE("")), -EBADMSG);
	while (acks.count < ACKS_MAX)
		assert_int_equal(acks_add(&acks, &(const struct ack){.id = 99}), 0);
	assert_int_equal(acks_add(&acks, &(const struct ack){.id = 100}), -ENOSPC);
}

static void visit(void *arg, size_t index, const struct answer_item *item)
{
	unsigned *statuses = arg;
	statuses[index] = item->status;
}

static void items_are_visited_all_or_none(void **state)
{
	(void)state;
	unsigned statuses[2] = {0, 0};
	assert_int_equal(
		answer_bulk(SLICE("{\"items\":[{\"create\":{\"status\":201}},{\"create\":{}}]}"), 2,
			visit, statuses),
		-EBADMSG);
	assert_int_equal(answer_bulk(SLICE("{\"items\":[{\"create\":{\"status\":201}},"
					   "{\"create\":{\"status\":1000}}]}"),
				 2, visit, statuses),
		-EBADMSG);
	assert_int_equal(statuses[0], 0);
	assert_int_equal(answer_bulk(SLICE("{\"items\":[{\"create\":{\"status\":201}},"
					   "{\"create\":{\"status\":999}}]}"),
				 2, visit, statuses),
		0);
	assert_int_equal(statuses[0], 201);
	assert_int_equal(statuses[1], 999);
}

static void compressed_bodies_are_whole(void **state)
{
	static const size_t lengths[] = {0, 1, 100, 1 << 20};
	(void)state;
	for (size_t i = 0; i < array_size(lengths); i++) {
		struct buf zipped = {.limit = 0};
		auto_free char *text = calloc(1, lengths[i] + 1);
		auto_free char *back = calloc(1, lengths[i] + 1);
		for (size_t n = 0; n < lengths[i]; n++)
			text[n] = (char)('a' + n % 23);
		assert_int_equal(gzip_append((struct slice){text, lengths[i]}, &zipped), 0);
		z_stream z = {.next_in = (Bytef *)zipped.data,
			.avail_in = (uInt)buf_len(&zipped),
			.next_out = (Bytef *)back,
			.avail_out = (uInt)lengths[i] + 1};
		assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
		assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
		assert_int_equal(z.total_out, lengths[i]);
		assert_memory_equal(back, text, lengths[i]);
		assert_int_equal(inflateEnd(&z), Z_OK);
		buf_fini(&zipped);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_their_types),
		cmocka_unit_test(values_have_a_greatest_depth),
		cmocka_unit_test(acknowledgements_are_asked_for_until_they_come),
		cmocka_unit_test(items_are_visited_all_or_none),
		cmocka_unit_test(compressed_bodies_are_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
