/* Identifiers: UUIDv7 for events (RFC 9562) and short names for sandboxes. */
#ifndef ECLUSA_COMMON_ID_H
#define ECLUSA_COMMON_ID_H

#define UUID_TEXT_BYTES  37
#define SANDBOX_ID_BYTES 16 /* "sb-" and 10 base32 digits, NUL included, rounded up */

/** A new UUIDv7 in lower-case text. @return to */
char *uuid_new(char to[static UUID_TEXT_BYTES]);
/** A new sandbox id such as sb-7q2m4k0vtz: 50 random bits, Crockford's alphabet. @return to */
char *sandbox_id_new(char to[static SANDBOX_ID_BYTES]);

#endif
