/* Identifiers: UUIDv7 for events (RFC 9562) and short names for sandboxes. */
#ifndef ECLUSA_COMMON_ID_H
#define ECLUSA_COMMON_ID_H

#include <stddef.h>
#include <stdint.h>

#define UUID_TEXT_BYTES  37
#define ID_POOL_BYTES    512
#define SANDBOX_ID_BYTES 16 /* "sb-" and 10 base32 digits, NUL included, rounded up */

/** A new UUIDv7 in lower-case text. @return to */
char *uuid_new(char to[static UUID_TEXT_BYTES]);
/** Random bytes fetched ahead, for who makes many. Zero-initialise; a child of fork() starts with one of its own. */
struct id_pool {
	uint8_t bytes[ID_POOL_BYTES];
	size_t left;
};

/** The same with bytes of a pool, and the time by the wall's clock. */
char *uuid_make(struct id_pool *pool, uint64_t now_ms, char to[static UUID_TEXT_BYTES]);
/** A new sandbox id such as sb-7q2m4k0vtz: 50 random bits, Crockford's alphabet. @return to */
char *sandbox_id_new(char to[static SANDBOX_ID_BYTES]);

#endif
