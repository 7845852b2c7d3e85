/* See id.h. */
#include "common/id.h"

#include "common/clock.h"
#include "common/file.h"

#define UUID_BYTES 16

/** Of random bytes, which the time and the version replace in part. */
static char *uuid_text(uint8_t raw[static UUID_BYTES], uint64_t ms, char to[static UUID_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	for (int i = 0; i < 6; i++)
		raw[i] = (uint8_t)(ms >> (40 - 8 * i));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x70);
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
	char *at = to;
	for (int i = 0; i < UUID_BYTES; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[raw[i] >> 4];
		*at++ = digits[raw[i] & 15];
	}
	*at = '\0';
	return to;
}

char *uuid_new(char to[static UUID_TEXT_BYTES])
{
	uint8_t raw[UUID_BYTES];
	random_bytes(raw, sizeof(raw));
	return uuid_text(raw, clock_wall_ms(), to);
}

char *uuid_make(struct id_pool *pool, uint64_t now_ms, char to[static UUID_TEXT_BYTES])
{
	uint8_t raw[UUID_BYTES];
	if (pool->left < sizeof(raw)) {
		random_bytes(pool->bytes, sizeof(pool->bytes));
		pool->left = sizeof(pool->bytes);
	}
	pool->left -= sizeof(raw);
	memcpy(raw, pool->bytes + pool->left, sizeof(raw));
	return uuid_text(raw, now_ms, to);
}

char *sandbox_id_new(char to[static SANDBOX_ID_BYTES])
{
	static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
	uint8_t raw[10];
	random_bytes(raw, sizeof(raw));
	memcpy(to, "sb-", 3);
	for (int i = 0; i < 10; i++)
		to[3 + i] = alphabet[raw[i] & 31];
	to[13] = '\0';
	return to;
}
