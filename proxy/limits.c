/* See limits.h. */
#include "proxy/limits.h"

#include "common/cleanup.h"

#include <errno.h>

#define LIMIT_VALUE_MAX 86400000 /* of what is not among the largest: a day, or as many */

struct limit_key {
	struct slice name;
	size_t offset;
};

#define LIMIT(member)                                                                              \
	{                                                                                          \
		SLICE(#member), offsetof(struct limits, member)                                    \
	}

static const struct limit_key keys[] = {
	LIMIT(connections),
	LIMIT(handshakes),
	LIMIT(buffer_bytes),
	LIMIT(header_ms),
	LIMIT(handshake_ms),
	LIMIT(dial_ms),
	LIMIT(dial_delay_ms),
	LIMIT(dns_ms),
	LIMIT(dns_grace_ms),
	LIMIT(keeper_ms),
	LIMIT(idle_ms),
	LIMIT(commit_ms),
	LIMIT(open_ms),
	LIMIT(open_bytes),
	LIMIT(pool_connections),
	LIMIT(pool_lend_ms),
	LIMIT(pool_idle_ms),
	LIMIT(pool_fresh_ms),
	LIMIT(ticket_ms),
	LIMIT(leave_ms),
	LIMIT(lease_ask_ms),
	LIMIT(lease_made_ms),
	LIMIT(lease_record_ms),
	LIMIT(lease_tell_ms),
	LIMIT(linger_ms),
	LIMIT(questions),
	LIMIT(question_ms),
	LIMIT(note_ms),
	LIMIT(line_bytes),
	LIMIT(head_bytes),
	LIMIT(head_fields),
	LIMIT(method_bytes),
	LIMIT(connection_options),
	LIMIT(chunk_line_bytes),
	LIMIT(trailer_bytes),
	LIMIT(trailer_fields),
	LIMIT(interims),
};

/** What buffers and arrays were made for. */
static const struct limits largest = {
	.line_bytes = HTTP1_LINE_BYTES_MAX,
	.head_bytes = HTTP1_HEAD_BYTES_MAX,
	.head_fields = HTTP1_FIELDS_MAX,
	.method_bytes = HTTP1_METHOD_BYTES_MAX,
	.connection_options = HTTP1_CONNECTION_OPTIONS_MAX,
	.chunk_line_bytes = BODY_CHUNK_LINE_BYTES,
	.trailer_bytes = BODY_TRAILER_BYTES_MAX,
	.trailer_fields = BODY_TRAILER_FIELDS_MAX,
	.interims = INTERIMS_MAX,
};

const struct limits *limits_or_largest(const struct limits *limits)
{
	return limits != NULL ? limits : &largest;
}

struct limits limits_default(void)
{
	return (struct limits){
		.connections = 512,
		.handshakes = 400,
		.buffer_bytes = 64 << 20,
		.header_ms = 10000,
		.handshake_ms = 10000,
		.dial_ms = 10000,
		.dial_delay_ms = 250,
		.dns_ms = 5000,
		.dns_grace_ms = 250,
		.keeper_ms = 5000,
		.idle_ms = 60000,
		.commit_ms = 5000,
		.open_ms = 10000,
		.open_bytes = 1 << 20,
		.pool_connections = 128,
		.pool_lend_ms = 100,
		.pool_idle_ms = 15000,
		.pool_fresh_ms = 1000,
		.ticket_ms = 600000,
		.leave_ms = 10000,
		.lease_ask_ms = 5000,
		.lease_made_ms = 10000,
		.lease_record_ms = 5000,
		.lease_tell_ms = 10000,
		.linger_ms = 2000,
		.questions = 1000,
		.question_ms = 10000,
		.note_ms = 1000,
		.line_bytes = 16384,
		.head_bytes = 65536,
		.head_fields = 256,
		.method_bytes = 32,
		.connection_options = 32,
		.chunk_line_bytes = 4096,
		.trailer_bytes = 8192,
		.trailer_fields = 64,
		.interims = 16,
	};
}

static uint32_t limit_get(const struct limits *limits, const struct limit_key *key)
{
	uint32_t value;
	memcpy(&value, (const char *)limits + key->offset, sizeof(value));
	return value;
}

static int limit_set(struct slice item, struct limits *limits)
{
	struct slice name;
	struct slice number;
	uint64_t value;
	if (!slice_split(item, '=', &name, &number) ||
		slice_decimal(number, LIMIT_VALUE_MAX, false, &value) < 0 || value == 0)
		return -EINVAL;
	for (size_t i = 0; i < array_size(keys); i++) {
		if (slice_equal(name, keys[i].name)) {
			uint32_t number32 = (uint32_t)value;
			uint32_t most = limit_get(&largest, &keys[i]);
			if (most != 0 && number32 > most)
				return -EINVAL;
			memcpy((char *)limits + keys[i].offset, &number32, sizeof(number32));
			return 0;
		}
	}
	return -EINVAL;
}

int limits_parse(struct slice text, struct limits *limits)
{
	struct limits parsed = *limits;
	while (text.len > 0) {
		struct slice item = text;
		struct slice rest = {0};
		(void)slice_split(text, ',', &item, &rest); /* false: the last one */
		if (limit_set(item, &parsed) < 0)
			return -EINVAL;
		text = rest;
	}
	*limits = parsed;
	return 0;
}

int limits_of_environment(struct limits *limits, struct failure *why)
{
	const char *text = getenv("ECLUSA_LIMITS");
	if (text != NULL && limits_parse(slice_of(text), limits) < 0)
		return failure_set(why, -EINVAL,
			"ECLUSA_LIMITS is not key=number,... with keys and numbers that docs/limits.md has");
	return 0;
}
