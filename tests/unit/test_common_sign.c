/* Ed25519 keys and signatures: known answers of RFC 8032, key files of openssl(1), and everything that must not verify. */
#include "common/sign.h"

#include "tests/unit/cmocka_setup.h"

#include <errno.h>

/* RFC 8032, section 7.1, test 2, in the forms that openssl(1) writes; an encrypted key; keys of another kind. */
static const char private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
	"-----END PRIVATE KEY-----\n";
static const char public_pem[] = "-----BEGIN PUBLIC KEY-----\n"
				 "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
				 "-----END PUBLIC KEY-----\n";
static const char encrypted_pem[] =
	"-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
	"MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhAeBOXvSE2YQICCAAw\n"
	"DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEAhNtcoDK66C2rAZPxg2PBAEQB3r\n"
	"Wf/FHo/eNkI+qcjzti6sLmZqwY783SMbeXqqzDZCNFD6r+Bl2XzIMDCdzNBZYwcR\n"
	"rnYhPThxD01zvgzKbRI=\n"
	"-----END ENCRYPTED PRIVATE KEY-----\n";
static const char other_private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VuBCIEIEiBv9xEmFyigZ7Q7nF2YtkpolrfjAFr6PRfwl12rrJO\n"
	"-----END PRIVATE KEY-----\n";
static const char other_public_pem[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MCowBQYDK2VuAyEALVNVeIPA6zStgK7ZyARiiQDHS4tLzrbaNhlq3ZMjjTM=\n"
	"-----END PUBLIC KEY-----\n";
static const unsigned char known_signature[] = {0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8,
	0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40, 0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f,
	0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda, 0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15,
	0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c, 0x38, 0x7b, 0x2e, 0xae, 0xb4,
	0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00};

static struct slice signature_slice(const unsigned char *raw)
{
	return (struct slice){(const char *)raw, SIGN_SIGNATURE_BYTES};
}

static void the_known_answer_comes_out(void **state)
{
	struct sign_key *key;
	struct sign_public from_private, from_file;
	unsigned char made[SIGN_SIGNATURE_BYTES];
	(void)state;
	assert_int_equal(sign_key_read(slice_of(private_pem), &key), 0);
	assert_int_equal(sign_make(key, SLICE("r"), made), 0); /* its message is one byte, 0x72 */
	assert_memory_equal(made, known_signature, sizeof(made));
	assert_int_equal(sign_key_public(key, &from_private), 0);
	assert_int_equal(sign_public_read(slice_of(public_pem), &from_file), 0);
	assert_memory_equal(&from_private, &from_file, sizeof(from_file));
	assert_string_equal(from_file.id, "deb2ded39dc26fce");
	assert_int_equal(sign_verify(&from_file, SLICE("r"), signature_slice(made)), 0);
	sign_key_free(key);
}

static void nothing_else_verifies(void **state)
{
	struct sign_public public;
	unsigned char bent[SIGN_SIGNATURE_BYTES];
	(void)state;
	assert_int_equal(sign_public_read(slice_of(public_pem), &public), 0);
	struct slice good = signature_slice(known_signature);
	assert_int_equal(sign_verify(&public, SLICE("s"), good), -EKEYREJECTED);
	assert_int_equal(sign_verify(&public, SLICE(""), good), -EKEYREJECTED);
	assert_int_equal(sign_verify(&public, SLICE("r\n"), good), -EKEYREJECTED);
	for (size_t i = 0; i < sizeof(bent); i++) {
		memcpy(bent, known_signature, sizeof(bent));
		bent[i] ^= 1;
		assert_int_equal(
			sign_verify(&public, SLICE("r"), signature_slice(bent)), -EKEYREJECTED);
	}
	for (size_t len = 0; len < SIGN_SIGNATURE_BYTES; len++)
		assert_int_equal(
			sign_verify(&public, SLICE("r"), slice_part(good, 0, len)), -EKEYREJECTED);
	struct sign_key *other;
	assert_int_equal(sign_key_new(&other), 0);
	assert_int_equal(sign_make(other, SLICE("r"), bent), 0);
	assert_int_equal(sign_verify(&public, SLICE("r"), signature_slice(bent)), -EKEYREJECTED);
	assert_int_equal(sign_key_public(other, &public), 0);
	assert_int_equal(sign_verify(&public, SLICE("r"), signature_slice(bent)), 0);
	sign_key_free(other);
}

static void files_that_hold_no_such_key_are_refused(void **state)
{
	struct sign_key *key = NULL;
	struct sign_public public;
	(void)state;
	const char *const not_private[] = {"", "x", public_pem, other_private_pem,
		"-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n-----END PRIVATE KEY-----\n"};
	for (size_t i = 0; i < sizeof(not_private) / sizeof(not_private[0]); i++)
		assert_int_equal(sign_key_read(slice_of(not_private[i]), &key), -EINVAL);
	assert_int_equal(sign_key_read(slice_of(encrypted_pem), &key), -EACCES);
	assert_null(key);
	const char *const not_public[] = {"", "x", private_pem, other_public_pem, encrypted_pem,
		"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"};
	for (size_t i = 0; i < sizeof(not_public) / sizeof(not_public[0]); i++)
		assert_int_equal(sign_public_read(slice_of(not_public[i]), &public), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_known_answer_comes_out),
		cmocka_unit_test(nothing_else_verifies),
		cmocka_unit_test(files_that_hold_no_such_key_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
