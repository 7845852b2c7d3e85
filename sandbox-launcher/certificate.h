/* The parts of a certificate (RFC 5280 4.1) that a trust store is looked through by. Nothing is verified. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_CERTIFICATE_H
#define ECLUSA_SANDBOX_LAUNCHER_CERTIFICATE_H

#include "common/slice.h"

/** Whole elements within the certificate that they were read from. Borrowed. */
struct certificate_names {
	struct slice serial, issuer, subject;
};

/** @return 0 or -EBADMSG. */
int certificate_read(struct slice der, struct certificate_names *ret);

#endif
