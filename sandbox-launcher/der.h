/*
 * As much of DER (X.690) as trust stores need: wrapping what was written into an element, and walking over elements. Inputs are
 * certificates of the system, of our own keeper or of the caller's file; they are walked over within bounds all the same.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_DER_H
#define ECLUSA_SANDBOX_LAUNCHER_DER_H

#include "common/buf.h"

#define DER_INTEGER          0x02
#define DER_OCTETS           0x04
#define DER_SEQUENCE         0x30
#define DER_SET              0x31
#define DER_CONTEXT_EXPLICIT 0xa0 /* [0] */

/** Make all that @to holds from offset @start on the content of one element. @return 0, -ENOBUFS, -ENOMEM: sticky in @to. */
int der_wrap(struct buf *to, size_t start, unsigned char tag);

/** What stands in front of a content that is written once, behind it: made from the inside out, without moving the content. */
struct der_front {
	unsigned char bytes[128]; /* used from @at on */
	size_t at;
	size_t len; /* of all that is wrapped so far, with the content */
};
void der_front_init(struct der_front *f, size_t content_len);
void der_front_add(struct der_front *f, struct slice text);
/** All so far is the content of one element, shorter than 2^24. */
void der_front_wrap(struct der_front *f, unsigned char tag);
struct slice der_front_slice(const struct der_front *f);

/**
 * Take the element at the front of *rest, which must have this tag. @ret_whole: with its header; @ret_content: without; either may
 * be NULL. @return 0; -ENOENT: another element, or none, is there; -EBADMSG: what is there is no element.
 */
int der_take(
	struct slice *rest, unsigned char tag, struct slice *ret_whole, struct slice *ret_content);

#endif
