/* See java_store.h. Elements are written inside out: each is wrapped once its content is there. */
#include "sandbox-launcher/java_store.h"

#include "common/cleanup.h"
#include "sandbox-launcher/der.h"

#define BAGS_BYTES_MAX ((size_t)15 << 20) /* so that all around it is below 2^24 */

#define VERSION      SLICE("\x02\x01\x03")
#define OID_DATA     SLICE("\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01")         /* PKCS#7 data */
#define OID_CERT_BAG SLICE("\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x0a\x01\x03") /* RFC 7292 */
#define OID_CERTIFICATE                                                                            \
	SLICE("\x06\x0a\x2a\x86\x48\x86\xf7\x0d\x01\x09\x16\x01") /* X.509, RFC 2985 */
/* The attribute by which Java tells a root that is trusted from one of a chain (sun.security.pkcs12.PKCS12KeyStore):
 * 2.16.840.1.113894.746875.1.1, a set of purposes, here any (2.5.29.37.0). */
#define TRUSTED                                                                                    \
	SLICE("\x30\x16\x06\x0c\x60\x86\x48\x01\x86\xf9\x66\xad\xca\x7b\x01\x01\x31\x06\x06\x04"   \
	      "\x55\x1d\x25\x00")

/* Errors are sticky. */
static void wrap_all(struct buf *to, size_t start, const unsigned char *tags, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void)der_wrap(to, start, tags[i]);
}

void java_store_add(struct buf *to, struct slice der)
{
	static const unsigned char value[] = {DER_OCTETS, DER_CONTEXT_EXPLICIT};
	size_t bag = buf_len(to), at;
	(void)buf_append(to, OID_CERT_BAG);
	at = buf_len(to);
	(void)buf_append(to, OID_CERTIFICATE);
	size_t content = buf_len(to);
	(void)buf_append(to, der);
	wrap_all(to, content, value, array_size(value));
	(void)der_wrap(to, at, DER_SEQUENCE); /* CertBag */
	(void)der_wrap(to, at, DER_CONTEXT_EXPLICIT);
	at = buf_len(to);
	(void)buf_append(to, TRUSTED);
	(void)der_wrap(to, at, DER_SET); /* bagAttributes */
	(void)der_wrap(to, bag, DER_SEQUENCE);
}

/* Likewise in front. */
static void wrap_front(struct der_front *f, const unsigned char *tags, size_t count)
{
	for (size_t i = 0; i < count; i++)
		der_front_wrap(f, tags[i]);
}

void java_store_write(struct slice bags, struct buf *to)
{
	static const unsigned char data[] = {DER_SEQUENCE, DER_OCTETS, DER_CONTEXT_EXPLICIT};
	struct der_front front;
	if (bags.len >= BAGS_BYTES_MAX) {
		to->failed = true;
		return;
	}
	der_front_init(&front, bags.len);
	wrap_front(&front, data, array_size(data)); /* SafeContents */
	der_front_add(&front, OID_DATA);
	der_front_wrap(&front, DER_SEQUENCE);
	wrap_front(&front, data, array_size(data)); /* AuthenticatedSafe */
	der_front_add(&front, OID_DATA);
	der_front_wrap(&front, DER_SEQUENCE);
	der_front_add(&front, VERSION);
	der_front_wrap(&front, DER_SEQUENCE);          /* PFX */
	(void)buf_append(to, der_front_slice(&front)); /* sticky */
	(void)buf_append(to, bags);
}
