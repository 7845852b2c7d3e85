/*
 * See nss_store.h. Sources: sqlite.org/fileformat2.html; NSS's lib/softoken/sdb.c. A row is an object of
 * PKCS#11, and each attribute that NSS knows is a column, called "a" and the attribute's number in hex. Values are blobs; numbers have
 * four bytes, the highest first. NSS keeps keys in a second file, which it makes when it misses it.
 */
#include "sandbox-launcher/nss_store.h"

#include "common/cleanup.h"
#include "common/digest.h"
#include "sandbox-launcher/certificate.h"
#include "sandbox-launcher/sqlite_page.h"

#include <errno.h>

/* The columns of NSS 3.87: those that a newer one misses it adds when it opens the file. */
#define COLUMNS                                                                                                  \
	"a0, a1, a2, a3, a10, a11, a12, a80, a81, a82, a83, a84, a85, a86, a87, a88, a89, a8a, a8b, a90, a100, " \
	"a101, a102, a103, a104, a105, a106, a107, a108, a109, a10a, a10b, a10c, a110, a111, a120, a121, a122, " \
	"a123, a124, a125, a126, a127, a128, a129, a130, a131, a132, a133, a134, a160, a161, a162, a163, a164, " \
	"a165, a166, a170, a180, a181, a200, a201, a202, a210, a300, a301, a302, a400, a401, a402, a403, a404, " \
	"a405, a406, a480, a481, a482, a500, a501, a502, a503, a40000211, a40000212, a80000001, ace534351, "     \
	"ace534352, ace534353, ace534354, ace534355, ace534356, ace534357, ace534358, ace534364, ace534365, "    \
	"ace534366, ace534367, ace534368, ace534369, ace534373, ace534374, ace536351, ace536352, ace536353, "    \
	"ace536354, ace536355, ace536356, ace536357, ace536358, ace536359, ace53635a, ace53635b, ace53635c, "    \
	"ace53635d, ace53635e, ace53635f, ace536360, ace5363b4, ace5363b5, ad5a0db00"

#define TABLE   "nssPublic"
#define LABEL   SLICE("Eclusa")
#define OBJECTS 2 /* the certificate, and that it is trusted */

/* Numbers of PKCS#11 and of NSS (lib/util/pkcs11n.h). */
#define CKO_CERTIFICATE           SLICE("\0\0\0\x01")
#define CKC_X_509                 SLICE("\0\0\0\0")
#define CKO_NSS_TRUST             SLICE("\xce\x53\x43\x53")
#define CKT_NSS_TRUSTED_DELEGATOR SLICE("\xce\x53\x43\x52")
#define CKT_NSS_MUST_VERIFY_TRUST SLICE("\xce\x53\x43\x53")
#define CK_TRUE                   SLICE("\x01")
#define CK_FALSE                  SLICE("\0")

/* An attribute of an object, by its column. */
struct attribute {
	const char *column;
	struct slice value;
};

static bool is_column(struct slice name, const char *column)
{
	return slice_equal(slice_trim(name), slice_of(column));
}

/* A row: every column in the table's order, most of them empty. */
static int add_object(
	struct sqlite_page *page, uint32_t id, const struct attribute *attributes, size_t count)
{
	struct sqlite_value values[SQLITE_COLUMNS_MAX] = {
		{SQLITE_NULL, {NULL, 0}}}; /* the id itself */
	struct slice rest = SLICE(COLUMNS), name;
	size_t columns = 1;
	while (rest.len > 0 && columns < array_size(values)) {
		if (!slice_split(rest, ',', &name, &rest)) {
			name = rest;
			rest.len = 0;
		}
		struct sqlite_value *value = &values[columns++];
		*value = (struct sqlite_value){SQLITE_NULL, {NULL, 0}};
		for (size_t i = 0; i < count; i++)
			if (is_column(name, attributes[i].column))
				*value = (struct sqlite_value){SQLITE_BLOB, attributes[i].value};
	}
	return sqlite_page_add(page, id, values, columns);
}

static int add_certificate(struct sqlite_page *page, struct slice der,
	const struct certificate_names *names, struct slice id)
{
	const struct attribute attributes[] = {
		{"a0", CKO_CERTIFICATE},  /* CKA_CLASS */
		{"a1", CK_TRUE},          /* CKA_TOKEN */
		{"a2", CK_FALSE},         /* CKA_PRIVATE */
		{"a3", LABEL},            /* CKA_LABEL */
		{"a11", der},             /* CKA_VALUE */
		{"a80", CKC_X_509},       /* CKA_CERTIFICATE_TYPE */
		{"a81", names->issuer},   /* CKA_ISSUER */
		{"a82", names->serial},   /* CKA_SERIAL_NUMBER */
		{"a101", names->subject}, /* CKA_SUBJECT */
		{"a102", id},             /* CKA_ID */
		{"a170", CK_TRUE},        /* CKA_MODIFIABLE */
	};
	return add_object(page, 1, attributes, array_size(attributes));
}

static int add_trust(
	struct sqlite_page *page, const struct certificate_names *names, struct slice hash)
{
	const struct attribute attributes[] = {
		{"a0", CKO_NSS_TRUST}, {"a1", CK_TRUE}, {"a2", CK_FALSE}, {"a3", LABEL},
		{"a81", names->issuer}, {"a82", names->serial}, {"a170", CK_TRUE},
		{"ace536358", CKT_NSS_TRUSTED_DELEGATOR}, /* CKA_TRUST_SERVER_AUTH */
		{"ace536359", CKT_NSS_MUST_VERIFY_TRUST}, /* CKA_TRUST_CLIENT_AUTH */
		{"ace53635a", CKT_NSS_MUST_VERIFY_TRUST}, /* CKA_TRUST_CODE_SIGNING */
		{"ace53635b", CKT_NSS_MUST_VERIFY_TRUST}, /* CKA_TRUST_EMAIL_PROTECTION */
		{"ace536360", CK_FALSE},                  /* CKA_TRUST_STEP_UP_APPROVED */
		{"ace5363b4", hash},                      /* CKA_CERT_SHA1_HASH */
	};
	return add_object(page, 2, attributes, array_size(attributes));
}

/* The row that says what the table is, and that it begins on the second page. */
static int add_table(struct sqlite_page *page)
{
	static const char definition[] =
		"CREATE TABLE " TABLE " (id INTEGER PRIMARY KEY, " COLUMNS ")";
	const struct sqlite_value values[] = {
		{SQLITE_TEXT, SLICE("table")},
		{SQLITE_TEXT, SLICE(TABLE)},
		{SQLITE_TEXT, SLICE(TABLE)},
		{SQLITE_BYTE, SLICE("\x02")},
		{SQLITE_TEXT, SLICE(definition)},
	};
	return sqlite_page_add(page, 1, values, array_size(values));
}

int nss_store_write(struct slice der, struct buf *to)
{
	struct certificate_names names;
	struct sqlite_page table, rows;
	uint8_t hash[DIGEST_SHA1_BYTES];
	char *room = NULL;
	int r = certificate_read(der, &names);
	if (r == 0)
		r = digest_sha1(der, hash);
	if (r == 0)
		r = buf_reserve(to, NSS_STORE_BYTES, &room);
	if (r < 0 || room == NULL)
		return r < 0 ? r : -ENOMEM;
	const struct slice id = {(const char *)hash, sizeof(hash)};
	sqlite_page_init(&table, room, true, NSS_STORE_BYTES / SQLITE_PAGE_BYTES);
	sqlite_page_init(&rows, room + SQLITE_PAGE_BYTES, false, 0);
	r = add_table(&table);
	if (r == 0)
		r = add_certificate(&rows, der, &names, id);
	if (r == 0)
		r = add_trust(&rows, &names, id);
	if (r == 0)
		buf_grew(to, NSS_STORE_BYTES);
	return r;
}
