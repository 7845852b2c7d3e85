/*
 * Every size that a peer can grow in the proxy's codecs, and its number. A peer is at worst the
 * agent's own code or a hostile origin: what is over a limit is refused, never cut short and passed
 * on.
 */
#ifndef ECLUSA_PROXY_LIMITS_H
#define ECLUSA_PROXY_LIMITS_H

/* HTTP/1.1 heads, requests and responses alike */
#define HTTP1_LINE_BYTES_MAX         16384 /* request line or status line; 414 */
#define HTTP1_HEAD_BYTES_MAX         65536 /* the whole head, line and blank line included; 431 */
#define HTTP1_FIELDS_MAX             256   /* field lines of one head; 431 */
#define HTTP1_METHOD_BYTES_MAX       32    /* 501 */
#define HTTP1_CONNECTION_OPTIONS_MAX 32    /* options of all Connection fields; 431 */
#define HTTP1_REASON_BYTES_MAX       128 /* reason phrase that is passed on; longer ones are cut */

/* HTTP/1.1 bodies */
#define BODY_CHUNK_DIGITS_MAX   16   /* hex digits of one chunk size: what 64 bits hold */
#define BODY_CHUNK_LINE_BYTES   4096 /* a chunk-size line with its extensions */
#define BODY_TRAILER_BYTES_MAX  8192 /* the whole trailer section */
#define BODY_TRAILER_FIELDS_MAX 64
#define BODY_LENGTH_MAX         INT64_MAX /* largest Content-Length */

/* TLS and leaves */
#define TLS_ROOTS_BYTES_MAX   ((size_t)16 << 20) /* one PEM bundle of roots */
#define LEAF_CACHE_MAX        1024               /* leaves that one worker keeps */
#define LEAF_DER_BYTES_MAX    2048
#define LEAF_LIFETIME_SECONDS (24 * 3600)
#define LEAF_BACKDATE_SECONDS 300  /* clients whose clock is a little slow */
#define LEAF_RENEW_SECONDS    3600 /* a cached leaf with less left is minted anew */
#define CA_LIFETIME_SECONDS   (25 * 3600)

#endif
