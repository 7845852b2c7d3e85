/* See id.h. */
#include "common/id.h"

#include "common/clock.h"
#include "common/file.h"

char *uuid_new(char to[static UUID_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t raw[16];
	random_bytes(raw, sizeof(raw));
	uint64_t ms = clock_wall_ms();
	for (int i = 0; i < 6; i++)
		raw[i] = (uint8_t)(ms >> (40 - 8 * i));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x70);
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
	char *at = to;
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[raw[i] >> 4];
		*at++ = digits[raw[i] & 15];
	}
	*at = '\0';
	return to;
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
