/*
 * The CA and the certificates it signs, in the form that strict verifiers ask for (RFC 5280; cases
 * D07, D08). See leaf.h. Its inputs are a canonical host and a worker's public key; whether the
 * name may be signed is the keeper's question.
 */
#include "proxy/leaf_openssl.h"
#include "common/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define SERIAL_BYTES         16
#define KEY_ID_BYTES         20 /* RFC 7093: leftmost 160 bits of the SHA-256 of the key */
#define KEY_USAGE_SIGNATURE  0  /* bit numbers of RFC 5280 4.2.1.3 */
#define KEY_USAGE_CERT_SIGN  5
#define CA_NAME_RANDOM_BYTES 4

/** Random, positive, 127 bits with the highest set, so that it has one length. */
static bool set_serial(X509 *x)
{
	unsigned char serial[SERIAL_BYTES];
	random_bytes(serial, sizeof(serial));
	serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40);
	return ASN1_STRING_set(X509_get_serialNumber(x), serial, sizeof(serial)) == 1;
}

static bool set_validity(X509 *x, int64_t now_s, int64_t lifetime_s)
{
	time_t from = (time_t)(now_s - LEAF_BACKDATE_SECONDS);
	time_t to = (time_t)(now_s - LEAF_BACKDATE_SECONDS + lifetime_s);
	return ASN1_TIME_set(X509_getm_notBefore(x), from) != NULL &&
		ASN1_TIME_set(X509_getm_notAfter(x), to) != NULL;
}

static bool add_key_usage(X509 *x, int bit)
{
	ASN1_BIT_STRING *usage = ASN1_BIT_STRING_new();
	bool ok = usage != NULL && ASN1_BIT_STRING_set_bit(usage, bit, 1) == 1 &&
		X509_add1_ext_i2d(x, NID_key_usage, usage, 1, X509V3_ADD_DEFAULT) == 1;
	ASN1_BIT_STRING_free(usage);
	return ok;
}

static bool add_ca_constraints(X509 *x)
{
	BASIC_CONSTRAINTS *constraints = BASIC_CONSTRAINTS_new();
	bool ok = constraints != NULL && (constraints->pathlen = ASN1_INTEGER_new()) != NULL &&
		ASN1_INTEGER_set(constraints->pathlen, 0) == 1;
	if (ok) {
		constraints->ca = 0xff; /* DER's TRUE */
		ok = X509_add1_ext_i2d(
			     x, NID_basic_constraints, constraints, 1, X509V3_ADD_DEFAULT) == 1;
	}
	BASIC_CONSTRAINTS_free(constraints);
	return ok;
}

static bool add_subject_key_id(X509 *x)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	ASN1_OCTET_STRING *id = ASN1_OCTET_STRING_new();
	bool ok = id != NULL && X509_pubkey_digest(x, EVP_sha256(), digest, &len) == 1 &&
		ASN1_OCTET_STRING_set(id, digest, KEY_ID_BYTES) == 1 &&
		X509_add1_ext_i2d(x, NID_subject_key_identifier, id, 0, X509V3_ADD_DEFAULT) == 1;
	ASN1_OCTET_STRING_free(id);
	return ok;
}

static bool add_authority_key_id(X509 *x, X509 *issuer)
{
	AUTHORITY_KEYID *id = AUTHORITY_KEYID_new();
	bool ok = id != NULL &&
		(id->keyid = ASN1_OCTET_STRING_dup(X509_get0_subject_key_id(issuer))) != NULL &&
		X509_add1_ext_i2d(x, NID_authority_key_identifier, id, 0, X509V3_ADD_DEFAULT) == 1;
	AUTHORITY_KEYID_free(id);
	return ok;
}

static bool add_server_auth(X509 *x)
{
	EXTENDED_KEY_USAGE *usage = EXTENDED_KEY_USAGE_new();
	bool ok = usage != NULL && sk_ASN1_OBJECT_push(usage, OBJ_nid2obj(NID_server_auth)) > 0 &&
		X509_add1_ext_i2d(x, NID_ext_key_usage, usage, 0, X509V3_ADD_DEFAULT) == 1;
	EXTENDED_KEY_USAGE_free(usage);
	return ok;
}

/** One general name: an address as octets, a name as IA5. */
static GENERAL_NAME *general_name(const struct host *host)
{
	bool address = host->kind == HOST_ADDRESS;
	ASN1_STRING *value = ASN1_STRING_type_new(address ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
	GENERAL_NAME *name = GENERAL_NAME_new();
	int r = 0;
	if (value != NULL && name != NULL && address)
		r = ASN1_STRING_set(value, host->address.bytes, host->address.family == 6 ? 16 : 4);
	else if (value != NULL && name != NULL)
		r = ASN1_STRING_set(value, host->name, -1);
	if (r != 1) {
		ASN1_STRING_free(value);
		GENERAL_NAME_free(name);
		return NULL;
	}
	GENERAL_NAME_set0_value(name, address ? GEN_IPADD : GEN_DNS, value);
	return name;
}

/** Critical, since the subject is empty (RFC 5280 4.2.1.6). */
static bool add_name(X509 *x, const struct host *host)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *name = general_name(host);
	bool owned = names != NULL && name != NULL && sk_GENERAL_NAME_push(names, name) > 0;
	if (!owned)
		GENERAL_NAME_free(name);
	bool ok = owned &&
		X509_add1_ext_i2d(x, NID_subject_alt_name, names, 1, X509V3_ADD_DEFAULT) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

static bool set_ca_name(X509 *x)
{
	unsigned char random[CA_NAME_RANDOM_BYTES];
	char text[64];
	random_bytes(random, sizeof(random));
	(void)snprintf(text, sizeof(text), "Eclusa sandbox CA %02x%02x%02x%02x", random[0],
		random[1], random[2], random[3]); /* fits */
	X509_NAME *name = X509_NAME_new();
	bool ok = name != NULL &&
		X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC,
			(const unsigned char *)text, -1, -1, 0) == 1 &&
		X509_set_subject_name(x, name) == 1 && X509_set_issuer_name(x, name) == 1;
	X509_NAME_free(name);
	return ok;
}

static bool ca_fill(struct ca *ca, int64_t now_s, int64_t lifetime_s)
{
	X509 *x = ca->certificate;
	ca->expires_s = now_s - LEAF_BACKDATE_SECONDS + lifetime_s;
	return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) && set_ca_name(x) &&
		set_validity(x, now_s, lifetime_s) && leaf_set_p256(x, ca->key) &&
		add_ca_constraints(x) && add_key_usage(x, KEY_USAGE_CERT_SIGN) &&
		add_subject_key_id(x) && X509_sign(x, ca->key, EVP_sha256()) > 0;
}

bool ca_write_pem(struct ca *ca)
{
	BIO *bio = BIO_new(BIO_s_mem());
	bool ok = bio != NULL && PEM_write_bio_X509(bio, ca->certificate) == 1 &&
		BIO_write(bio, "", 1) == 1 && BIO_get_mem_ptr(bio, &ca->pem) == 1 &&
		BIO_set_close(bio, BIO_NOCLOSE) == 1;
	BIO_free(bio);
	return ok;
}

int ca_new(int64_t now_s, int64_t lifetime_s, struct ca **ret, struct failure *why)
{
	struct ca *ca = calloc(1, sizeof(*ca));
	if (ca == NULL)
		return failure_set(why, -ENOMEM, "making the CA: out of memory");
	ca->key = leaf_new_p256();
	ca->certificate = X509_new();
	if (ca->key == NULL || ca->certificate == NULL || !ca_fill(ca, now_s, lifetime_s) ||
		!ca_write_pem(ca)) {
		ca_free(ca);
		return leaf_failure(why, -EIO, "making the CA");
	}
	*ret = ca;
	return 0;
}

void ca_free(struct ca *ca)
{
	if (ca == NULL)
		return;
	EVP_PKEY_free(ca->key); /* clears the private number */
	OSSL_LIB_CTX_free(ca->library);
	X509_free(ca->certificate);
	BUF_MEM_free(ca->pem);
	for (size_t i = 0; i < CA_KNOWN_KEYS; i++)
		EVP_PKEY_free(ca->known[i].key);
	free(ca);
}

struct slice ca_certificate_pem(const struct ca *ca)
{
	return (struct slice){ca->pem->data, ca->pem->length - 1};
}

int leaf_name_parse(struct slice name, struct host *ret)
{
	struct host host = {.kind = HOST_ADDRESS};
	if (address_parse(name, &host.address) == 0)
		(void)address_format(&host.address, host.name);
	else if (host_parse(name, &host) < 0)
		return -EINVAL;
	if (!slice_equal(slice_of(host.name), name))
		return -EINVAL;
	*ret = host;
	return 0;
}

static bool leaf_fill(
	X509 *x, const struct ca *ca, const struct leaf_request *request, EVP_PKEY *public_key)
{
	int64_t left_s = ca->expires_s - (request->now_s - LEAF_BACKDATE_SECONDS);
	int64_t lifetime_s = left_s < LEAF_LIFETIME_SECONDS ? left_s : LEAF_LIFETIME_SECONDS;
	return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
		X509_set_issuer_name(x, X509_get_subject_name(ca->certificate)) == 1 &&
		set_validity(x, request->now_s, lifetime_s) && leaf_set_p256(x, public_key) &&
		add_name(x, request->host) && add_key_usage(x, KEY_USAGE_SIGNATURE) &&
		add_server_auth(x) && add_subject_key_id(x) &&
		add_authority_key_id(x, ca->certificate) && X509_sign(x, ca->key, EVP_sha256()) > 0;
}

/** All of the bytes, P-256 only; NULL otherwise. */
static EVP_PKEY *public_key_parse(struct slice der)
{
	const unsigned char *at = (const unsigned char *)der.ptr;
	EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)der.len);
	if (key != NULL && ((const char *)at != der.ptr + der.len || !leaf_is_p256(key))) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

/** The key of these bytes, the CA's own; NULL when they are none. */
static EVP_PKEY *public_key_find(struct ca *ca, struct slice der)
{
	if (der.len == 0 || der.len > LEAF_PUBLIC_KEY_BYTES_MAX)
		return NULL;
	for (size_t i = 0; i < CA_KNOWN_KEYS; i++) {
		struct slice known = {(const char *)ca->known[i].der, ca->known[i].der_len};
		if (slice_equal(known, der))
			return ca->known[i].key;
	}
	EVP_PKEY *key = public_key_parse(der);
	if (key == NULL)
		return NULL;
	struct known_key *place = &ca->known[ca->known_next++ % CA_KNOWN_KEYS];
	EVP_PKEY_free(place->key);
	place->key = key;
	place->der_len = der.len;
	memcpy(place->der, der.ptr, der.len);
	return key;
}

int leaf_mint(struct ca *ca, const struct leaf_request *request,
	uint8_t ret_der[static LEAF_DER_BYTES_MAX])
{
	unsigned char *at = ret_der;
	EVP_PKEY *public_key = public_key_find(ca, request->public_key);
	X509 *x = X509_new();
	int len = -EIO;
	if (public_key == NULL)
		len = -EINVAL;
	else if (x != NULL && leaf_fill(x, ca, request, public_key))
		len = i2d_X509(x, NULL);
	if (len > LEAF_DER_BYTES_MAX)
		len = -ENOBUFS;
	else if (len > 0)
		len = i2d_X509(x, &at);
	else if (len == 0 || len == -1)
		len = -EIO;
	X509_free(x);
	ERR_clear_error();
	return len;
}
