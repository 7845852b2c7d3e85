/* SHA-256 (FIPS 180-4), by OpenSSL. */
#ifndef ECLUSA_COMMON_DIGEST_H
#define ECLUSA_COMMON_DIGEST_H

#include "common/slice.h"

#define DIGEST_BYTES      32
#define DIGEST_TEXT_BYTES 65
#define DIGEST_SHA1_BYTES 20

struct digest; /* a hash in progress */

/** @return NULL when out of memory. */
struct digest *digest_new(void);
void digest_free(struct digest *d);
/** @return 0 or -EIO. */
int digest_update(struct digest *d, struct slice text);
/** Lower-case hex of all that was added; the object can only be freed afterwards. @return 0 or -EIO. */
int digest_finish(struct digest *d, char ret_text[static DIGEST_TEXT_BYTES]);
/** SHA-1, for the one protocol that asks for it (RFC 6455): proves nothing. @return 0 or -EIO. */
int digest_sha1(struct slice text, uint8_t ret[static DIGEST_SHA1_BYTES]);
/** One-shot. */
int digest_of(struct slice text, char ret_text[static DIGEST_TEXT_BYTES]);

#endif
