/* Trust files: what is read of certificates, whatever is cut short, and what Java's store and NSS's database hold. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/certificate.h"
#include "sandbox-launcher/der.h"
#include "sandbox-launcher/java_store.h"
#include "sandbox-launcher/nss_store.h"
#include "sandbox-launcher/pem.h"
#include "sandbox-launcher/sqlite_page.h"
#include "sandbox-launcher/trust_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* CN=unit test CA, serial 4660, P-256. */
static const char CERTIFICATE[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBdDCCARqgAwIBAgICEjQwCgYIKoZIzj0EAwIwFzEVMBMGA1UEAwwMdW5pdCB0\n"
	"ZXN0IENBMB4XDTI2MTEyOTIzNDE1NloXDTM2MTEyNjIzNDE1NlowFzEVMBMGA1UE\n"
	"AwwMdW5pdCB0ZXN0IENBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEIyEPYngP\n"
	"JB5gos+TLQiG1+H4PcXhgqVxs/yvrC5382nA1bsKFtqXjz30WwkrT8c8qEKYk5Sc\n"
	"6EHGuK/OGlSZNaNWMFQwHQYDVR0OBBYEFO4X9NIbm8oZl+hdwmuR08bkH8I2MB8G\n"
	"A1UdIwQYMBaAFO4X9NIbm8oZl+hdwmuR08bkH8I2MBIGA1UdEwEB/wQIMAYBAf8C\n"
	"AQAwCgYIKoZIzj0EAwIDSAAwRQIgJYtN/mdco8CgBESFWzcv6LuSSy4G/RZTP0y2\n"
	"f76dXj0CIQDhc+Dy42xWQocgZBDmZ19IONxr8NbpHMiid+k+e4iO+g==\n"
	"-----END CERTIFICATE-----\n";

static int count_one(struct slice der, void *arg)
{
	struct buf *last = arg;
	buf_clear(last);
	return buf_append(last, der);
}

static struct buf decoded(void)
{
	struct buf der;
	buf_init(&der, 0);
	assert_int_equal(pem_each(SLICE(CERTIFICATE), count_one, &der), 0);
	assert_true(buf_len(&der) > 0);
	return der;
}

static int count_all(struct slice der, void *arg)
{
	(void)der;
	(*(int *)arg)++;
	return 0;
}

static void certificates_are_found_between_other_text(void **state)
{
	(void)state;
	struct buf text;
	int count = 0;
	buf_init(&text, 0);
	(void)buf_printf(&text, "# one\n%s\nbetween\n%s", CERTIFICATE, CERTIFICATE);
	assert_int_equal(pem_each(buf_slice(&text), count_all, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(pem_each(SLICE(""), count_all, &count), 0);
	assert_int_equal(pem_each(SLICE("-----BEGIN PRIVATE KEY-----\n"), count_all, &count), 0);
	assert_int_equal(count, 2);
	buf_fini(&text);
}

static void certificates_are_copied_and_nothing_else(void **state)
{
	(void)state;
	static const char key[] = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
	struct buf text, copy, wanted;
	buf_init(&text, 0);
	buf_init(&copy, 0);
	buf_init(&wanted, 0);
	(void)buf_printf(&wanted, "%s%s", CERTIFICATE, CERTIFICATE);
	(void)buf_printf(&text, "%s%s%s# end\n%s-----BEGIN CERTIFICATE-----\nAA", key, CERTIFICATE,
		key, CERTIFICATE);
	assert_int_equal(pem_copy(buf_slice(&text), &copy), 0);
	assert_true(slice_equal(buf_slice(&copy), buf_slice(&wanted)));
	buf_fini(&wanted);
	buf_fini(&text);
	buf_fini(&copy);
}

/** Bundle and store of the system's roots and those of a file with this text. */
static int begin_with(const char *content, struct trust_files *ret)
{
	char path[] = "/tmp/eclusa-roots-XXXXXX";
	struct failure why = {0};
	auto_fd fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, slice_of(content)), 0);
	trust_files_init(ret);
	int r = trust_files_begin(ret, path, &why);
	(void)unlink(path);
	if (r < 0)
		assert_non_null(strstr(why.text, "--upstream-ca"));
	return r;
}

static void more_roots_stand_beside_those_of_the_system(void **state)
{
	(void)state;
	static const char key[] = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
	static const char broken[] = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
	struct trust_files plain, more, wrong;
	struct failure why = {0};
	struct buf text, der = decoded();
	buf_init(&text, 0);
	(void)buf_printf(&text, "%s%s", key, CERTIFICATE);
	(void)buf_append(&text, (struct slice){"", 1});
	trust_files_init(&plain);
	assert_int_equal(trust_files_begin(&plain, NULL, &why), 0);
	assert_int_equal(begin_with(buf_slice(&text).ptr, &more), 0);
	assert_int_equal(buf_len(&more.bundle), buf_len(&plain.bundle) + 1 + strlen(CERTIFICATE));
	struct slice bags = buf_slice(&more.java_bags);
	assert_non_null(memmem(bags.ptr, bags.len, buf_slice(&der).ptr, buf_len(&der)));
	assert_int_equal(buf_len(&more.nss), 0);
	assert_int_equal(begin_with(broken, &wrong), -EBADMSG);
	trust_files_fini(&plain);
	trust_files_fini(&more);
	trust_files_fini(&wrong);
	buf_fini(&text);
	buf_fini(&der);
}

static void broken_base64_is_no_certificate(void **state)
{
	(void)state;
	static const char *const bodies[] = {"", "!", "AA=A", "A", "AAAA=\n===", "A\0AA"};
	int count = 0;
	for (size_t i = 0; i < array_size(bodies); i++) {
		char text[128];
		(void)snprintf(text, sizeof(text),
			"-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n", bodies[i]);
		assert_int_equal(pem_each(slice_of(text), count_all, &count), -EBADMSG);
	}
	assert_int_equal(pem_each(SLICE("-----BEGIN CERTIFICATE-----\nAAAA\n"), count_all, &count),
		-EBADMSG);
	assert_int_equal(count, 0);
}

static void a_visitors_word_ends_the_visit(void **state)
{
	(void)state;
	struct buf none = {.limit = 1}; /* no room */
	assert_int_equal(pem_each(SLICE(CERTIFICATE), count_one, &none), -ENOBUFS);
}

static void elements_are_wrapped_as_der_has_them(void **state)
{
	(void)state;
	static const struct {
		size_t content;
		const char *header;
		size_t len;
	} cases[] = {{0, "\x30\x00", 2}, {127, "\x30\x7f", 2}, {128, "\x30\x81\x80", 3},
		{255, "\x30\x81\xff", 3}, {256, "\x30\x82\x01\x00", 4},
		{65536, "\x30\x83\x01\x00\x00", 5}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct buf b;
		struct slice whole, content, rest;
		auto_free char *zeros = calloc(1, cases[i].content + 1);
		assert_non_null(zeros);
		buf_init(&b, 1 << 20);
		(void)buf_append(&b, SLICE("before"));
		(void)buf_append(&b, (struct slice){zeros, cases[i].content});
		assert_int_equal(der_wrap(&b, 6, DER_SEQUENCE), 0);
		rest = slice_part(buf_slice(&b), 6, buf_len(&b));
		assert_memory_equal(rest.ptr, cases[i].header, cases[i].len);
		assert_int_equal(der_take(&rest, DER_SEQUENCE, &whole, &content), 0);
		assert_int_equal(content.len, cases[i].content);
		assert_int_equal(whole.len, cases[i].content + cases[i].len);
		assert_int_equal(rest.len, 0);
		buf_fini(&b);
	}
}

static void what_is_no_element_is_not_taken(void **state)
{
	(void)state;
	static const struct {
		struct slice text;
		int result;
	} cases[] = {{{"", 0}, -ENOENT}, {{"\x02\x01\x00", 3}, -ENOENT}, {{"\x30", 1}, -EBADMSG},
		{{"\x30\x01", 2}, -EBADMSG}, {{"\x30\x80", 2}, -EBADMSG},
		{{"\x30\x81", 2}, -EBADMSG}, {{"\x30\x82\x01", 3}, -EBADMSG},
		{{"\x30\x84\xff\xff\xff\xff", 6}, -EBADMSG},
		{{"\x30\x83\xff\xff\xff", 5}, -EBADMSG}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct slice rest = cases[i].text;
		assert_int_equal(der_take(&rest, DER_SEQUENCE, NULL, NULL), cases[i].result);
		assert_int_equal(rest.len, cases[i].text.len);
	}
}

static void a_certificate_tells_its_names(void **state)
{
	(void)state;
	struct buf der = decoded();
	struct certificate_names names;
	assert_int_equal(certificate_read(buf_slice(&der), &names), 0);
	assert_true(slice_equal(names.serial, SLICE("\x02\x02\x12\x34")));
	assert_true(slice_equal(names.issuer, names.subject));
	assert_true(slice_ends(names.subject, SLICE("unit test CA")));
	buf_fini(&der);
}

/* Each length ends in memory of its own, so that one byte too far is seen. */
static void a_certificate_that_is_cut_short_is_refused(void **state)
{
	(void)state;
	struct buf der = decoded();
	struct certificate_names names;
	for (size_t len = 0; len < buf_len(&der); len++) {
		auto_free char *copy = malloc(len + 1);
		assert_non_null(copy);
		memcpy(copy, buf_slice(&der).ptr, len);
		assert_int_equal(certificate_read((struct slice){copy, len}, &names), -EBADMSG);
	}
	assert_int_equal(buf_append(&der, SLICE("x")), 0);
	assert_int_equal(certificate_read(buf_slice(&der), &names), -EBADMSG);
	buf_fini(&der);
}

static void javas_store_is_one_element(void **state)
{
	(void)state;
	struct buf der = decoded(), bags, store;
	struct slice rest, content, certificate;
	buf_init(&bags, 0);
	buf_init(&store, 0);
	java_store_add(&bags, buf_slice(&der));
	java_store_add(&bags, buf_slice(&der));
	java_store_write(buf_slice(&bags), &store);
	assert_false(store.failed);
	rest = buf_slice(&store);
	assert_int_equal(der_take(&rest, DER_SEQUENCE, NULL, &content), 0);
	assert_int_equal(rest.len, 0);
	assert_int_equal(der_take(&content, DER_INTEGER, NULL, NULL), 0);
	assert_int_equal(der_take(&content, DER_SEQUENCE, NULL, NULL), 0);
	assert_int_equal(content.len, 0); /* no MAC */
	certificate = buf_slice(&der);
	const char *at =
		memmem(buf_slice(&store).ptr, buf_len(&store), certificate.ptr, certificate.len);
	assert_non_null(at);
	at++;
	assert_non_null(memmem(at, (size_t)(buf_slice(&store).ptr + buf_len(&store) - at),
		certificate.ptr, certificate.len));
	buf_fini(&der);
	buf_fini(&bags);
	buf_fini(&store);
}

static void a_page_takes_what_fits(void **state)
{
	(void)state;
	static char memory[SQLITE_PAGE_BYTES], large[SQLITE_PAGE_BYTES];
	struct sqlite_page page;
	/* header 8, offset 2; the row: length 2, id 1, header 1 + 3 */
	struct sqlite_value value = {SQLITE_BLOB, {large, SQLITE_PAGE_BYTES - 8 - 2 - 2 - 1 - 4}};
	sqlite_page_init(&page, memory, false, 0);
	value.bytes.len++;
	assert_int_equal(sqlite_page_add(&page, 1, &value, 1), -E2BIG);
	assert_int_equal(page.rows, 0);
	value.bytes.len--;
	assert_int_equal(sqlite_page_add(&page, 1, &value, 1), 0);
	value.bytes.len = 0;
	assert_int_equal(sqlite_page_add(&page, 2, &value, 1), -E2BIG);
	assert_int_equal(sqlite_page_add(&page, 2, &value, SQLITE_COLUMNS_MAX + 1), -EINVAL);
}

static void nss_takes_no_more_than_a_page(void **state)
{
	(void)state;
	struct buf der = decoded(), to;
	buf_init(&to, NSS_STORE_BYTES);
	assert_int_equal(nss_store_write(buf_slice(&der), &to), 0);
	assert_int_equal(buf_len(&to), NSS_STORE_BYTES);
	assert_memory_equal(buf_slice(&to).ptr, "SQLite format 3", 16);
	buf_clear(&to);
	assert_int_equal(nss_store_write(SLICE("\x30\x00"), &to), -EBADMSG);
	/* a signature of any length is part of a certificate */
	char *room;
	size_t tail = 17000;
	struct slice whole = buf_slice(&der), content;
	assert_int_equal(der_take(&whole, DER_SEQUENCE, NULL, &content), 0);
	struct buf large;
	buf_init(&large, 0);
	(void)buf_append(&large, content);
	assert_int_equal(buf_reserve(&large, tail, &room), 0);
	memset(room, 0, tail);
	buf_grew(&large, tail);
	assert_int_equal(der_wrap(&large, 0, DER_SEQUENCE), 0);
	assert_int_equal(nss_store_write(buf_slice(&large), &to), -E2BIG);
	assert_int_equal(buf_len(&to), 0);
	buf_fini(&large);
	buf_fini(&der);
	buf_fini(&to);
}

static void files_need_an_authority(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "no certificate",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
	for (size_t i = 0; i < array_size(texts); i++) {
		struct trust_files t;
		struct failure why = {0};
		trust_files_init(&t);
		assert_int_equal(trust_files_finish(&t, slice_of(texts[i]), &why), -EBADMSG);
		trust_files_fini(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(certificates_are_found_between_other_text),
		cmocka_unit_test(certificates_are_copied_and_nothing_else),
		cmocka_unit_test(more_roots_stand_beside_those_of_the_system),
		cmocka_unit_test(broken_base64_is_no_certificate),
		cmocka_unit_test(a_visitors_word_ends_the_visit),
		cmocka_unit_test(elements_are_wrapped_as_der_has_them),
		cmocka_unit_test(what_is_no_element_is_not_taken),
		cmocka_unit_test(a_certificate_tells_its_names),
		cmocka_unit_test(a_certificate_that_is_cut_short_is_refused),
		cmocka_unit_test(javas_store_is_one_element),
		cmocka_unit_test(a_page_takes_what_fits),
		cmocka_unit_test(nss_takes_no_more_than_a_page),
		cmocka_unit_test(files_need_an_authority),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
