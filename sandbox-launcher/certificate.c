/* See certificate.h. */
#include "sandbox-launcher/certificate.h"

#include "sandbox-launcher/der.h"

#include <errno.h>

static bool is_read(int r)
{
	return r == 0;
}

int certificate_read(struct slice der, struct certificate_names *ret)
{
	struct certificate_names names;
	struct slice certificate, fields;
	bool good = is_read(der_take(&der, DER_SEQUENCE, NULL, &certificate)) && der.len == 0 &&
		is_read(der_take(&certificate, DER_SEQUENCE, NULL, &fields));
	if (!good)
		return -EBADMSG;
	int version = der_take(&fields, DER_CONTEXT_EXPLICIT, NULL, NULL); /* absent in version 1 */
	good = (version == 0 || version == -ENOENT) &&
		is_read(der_take(&fields, DER_INTEGER, &names.serial, NULL)) &&
		is_read(der_take(&fields, DER_SEQUENCE, NULL, NULL)) && /* signature */
		is_read(der_take(&fields, DER_SEQUENCE, &names.issuer, NULL)) &&
		is_read(der_take(&fields, DER_SEQUENCE, NULL, NULL)) && /* validity */
		is_read(der_take(&fields, DER_SEQUENCE, &names.subject, NULL));
	if (!good)
		return -EBADMSG;
	*ret = names;
	return 0;
}
