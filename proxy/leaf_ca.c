/*
 * A CA that the operator brings, instead of one that is made for this run. See leaf.h. Its files are the operator's own: trusted to be
 * secret, not to be right, so everything that strict clients would refuse later is refused here.
 */
#include "proxy/leaf_openssl.h"

#include <errno.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define RSA_BITS_MIN 2048

/** Of a key that needs one: there is nobody to ask. */
static int no_password(char *to, int capacity, int writing, void *arg)
{
	(void)to;
	(void)capacity;
	(void)writing;
	(void)arg;
	return -1;
}

static bool read_files(const struct ca_files *files, struct ca *ca)
{
	BIO *certificate = BIO_new_mem_buf(files->certificate.ptr, (int)files->certificate.len);
	BIO *key = BIO_new_mem_buf(files->key.ptr, (int)files->key.len);
	if (certificate != NULL)
		ca->certificate = PEM_read_bio_X509(certificate, NULL, no_password, NULL);
	ca->library = OSSL_LIB_CTX_new(); /* this process's own reads no keys: tls_provider.c */
	if (key != NULL && ca->library != NULL)
		ca->key =
			PEM_read_bio_PrivateKey_ex(key, NULL, no_password, NULL, ca->library, NULL);
	BIO_free(certificate);
	BIO_free(key);
	return ca->certificate != NULL && ca->key != NULL;
}

/** Seconds since 1970 of a certificate's end. */
static bool certificate_end(const X509 *x, int64_t *ret_s)
{
	struct tm utc = {0};
	if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &utc) != 1)
		return false;
	*ret_s = (int64_t)timegm(&utc);
	return true;
}

static bool key_strong(const EVP_PKEY *key)
{
	int kind = EVP_PKEY_get_base_id(key);
	return kind == EVP_PKEY_EC ||
		(kind == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) >= RSA_BITS_MIN);
}

/** @return what is wrong with it, for people, or NULL. */
static const char *ca_wrong(struct ca *ca, int64_t now_s)
{
	X509 *x = ca->certificate;
	time_t now = (time_t)now_s;
	if (X509_check_ca(x) != 1 || (X509_get_key_usage(x) & KU_KEY_CERT_SIGN) == 0)
		return "the certificate may not sign others: it needs basicConstraints CA:TRUE and "
		       "keyUsage keyCertSign";
	if (X509_check_private_key(x, ca->key) != 1)
		return "the key is not the certificate's";
	if (!key_strong(ca->key))
		return "the key is neither an elliptic one nor RSA of 2048 bits or more";
	if (X509_get0_subject_key_id(x) == NULL)
		return "the certificate has no subjectKeyIdentifier, which leaves must name";
	if (X509_cmp_time(X509_get0_notBefore(x), &now) >= 0)
		return "the certificate is not valid yet";
	if (!certificate_end(x, &ca->expires_s) || ca->expires_s <= now_s)
		return "the certificate has expired";
	return NULL;
}

int ca_load(const struct ca_files *files, int64_t now_s, struct ca **ret, struct failure *why)
{
	struct ca *ca = calloc(1, sizeof(*ca));
	if (ca == NULL)
		return failure_set(why, -ENOMEM, "the CA: out of memory");
	const char *wrong = NULL;
	if (!read_files(files, ca))
		wrong = ca->certificate == NULL ? "there is no certificate in PEM in --ca"
						: "there is no private key without password in "
						  "PEM in --ca-key";
	else
		wrong = ca_wrong(ca, now_s);
	ERR_clear_error();
	int r = 0;
	if (wrong != NULL)
		r = failure_set(why, -EINVAL, "the CA: %s", wrong);
	else if (!ca_write_pem(ca))
		r = leaf_failure(why, -EIO, "the CA");
	if (r == 0)
		*ret = ca;
	else
		ca_free(ca);
	return r;
}
