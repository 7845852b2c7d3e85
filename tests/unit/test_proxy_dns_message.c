/* Questions as bytes, valid and hostile, and answers as bytes. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "policy/host.h"
#include "proxy/dns_message.h"

#define HEADER "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
/* With one additional record. */
#define HEADER_EDNS "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define A_TEST                                                                                     \
	"\x01"                                                                                     \
	"a\x04test\x00\x00\x01\x00\x01"
/* Largest answer 1232, version 0, no flags, no options. */
#define EDNS "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"
#define L62  "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij"
#define L63  L62 "k"

struct question_case {
	const char *what;
	struct slice message;
	int parsed;
};

static const struct question_case malformed[] = {
	{"nothing", SLICE(""), -EBADMSG},
	{"half a header", SLICE("\x12\x34\x01\x00\x00\x01"), -EBADMSG},
	{"an answer", SLICE("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" A_TEST), -EBADMSG},
	{"an answer of another kind", SLICE("\x12\x34\xa8\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		-EBADMSG},
	{"inverse query", SLICE("\x12\x34\x09\x00\x00\x01\x00\x00\x00\x00\x00\x00" A_TEST),
		DNS_NOTIMP},
	{"status", SLICE("\x12\x34\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00"), DNS_NOTIMP},
	{"notify", SLICE("\x12\x34\x20\x00\x00\x01\x00\x00\x00\x00\x00\x00" A_TEST), DNS_NOTIMP},
	{"update", SLICE("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" A_TEST), DNS_NOTIMP},
	{"no question", SLICE("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), DNS_FORMERR},
	{"no question, and a name",
		SLICE("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" A_TEST), DNS_FORMERR},
	{"two questions", SLICE("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" A_TEST A_TEST),
		DNS_FORMERR},
	{"65535 questions", SLICE("\x12\x34\x01\x00\xff\xff\x00\x00\x00\x00\x00\x00" A_TEST),
		DNS_FORMERR},
	{"one question said, none there", SLICE(HEADER), DNS_FORMERR},
	{"an answer record", SLICE("\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" A_TEST),
		DNS_FORMERR},
	{"an authority record", SLICE("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x01\x00\x00" A_TEST),
		DNS_FORMERR},
	{"two additional records",
		SLICE("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02" A_TEST EDNS EDNS),
		DNS_FORMERR},
	{"trailing byte", SLICE(HEADER A_TEST "x"), DNS_FORMERR},
	{"trailing EDNS that is not counted", SLICE(HEADER A_TEST EDNS), DNS_FORMERR},
	{"trailing byte behind EDNS", SLICE(HEADER_EDNS A_TEST EDNS "\x00"), DNS_FORMERR},
	{"EDNS that is not there", SLICE(HEADER_EDNS A_TEST), DNS_FORMERR},
	{"half of EDNS", SLICE(HEADER_EDNS A_TEST "\x00\x00\x29\x04\xd0\x00"), DNS_FORMERR},
	{"EDNS with a name",
		SLICE(HEADER_EDNS A_TEST "\x01"
					 "x\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"),
		DNS_FORMERR},
	{"another record where EDNS is",
		SLICE(HEADER_EDNS A_TEST "\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00"),
		DNS_FORMERR},
	{"a signature", SLICE(HEADER_EDNS A_TEST "\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x00"),
		DNS_FORMERR},
	{"options that end too soon",
		SLICE(HEADER_EDNS A_TEST "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x04\x00\x0a"),
		DNS_FORMERR},
	{"an option longer than all of them",
		SLICE(HEADER_EDNS A_TEST
			"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x06\x00\x0a\x00\x09xx"),
		DNS_FORMERR},
	{"EDNS of version 1",
		SLICE(HEADER_EDNS A_TEST "\x00\x00\x29\x04\xd0\x00\x01\x00\x00\x00\x00"),
		DNS_BADVERS},
	{"a name without an end",
		SLICE(HEADER "\x01"
			     "a\x04test"),
		DNS_FORMERR},
	{"a label without an end",
		SLICE(HEADER "\x3f"
			     "ab"),
		DNS_FORMERR},
	{"a name and no type",
		SLICE(HEADER "\x01"
			     "a\x04test\x00\x00\x01"),
		DNS_FORMERR},
	{"a pointer to itself", SLICE(HEADER "\xc0\x0c\x00\x01\x00\x01"), DNS_FORMERR},
	{"a pointer into the header", SLICE(HEADER "\xc0\x00\x00\x01\x00\x01"), DNS_FORMERR},
	{"a pointer forward", SLICE(HEADER "\xc0\x12\x00\x01\x00\x01" A_TEST), DNS_FORMERR},
	{"a pointer behind a label",
		SLICE(HEADER "\x01"
			     "a\xc0\x0c\x00\x01\x00\x01"),
		DNS_FORMERR},
	{"a label of kind 01",
		SLICE(HEADER "\x41"
			     "a\x00\x00\x01\x00\x01"),
		DNS_FORMERR},
	{"a label of kind 10",
		SLICE(HEADER "\x81"
			     "a\x00\x00\x01\x00\x01"),
		DNS_FORMERR},
	{"a label of 64", SLICE(HEADER "\x40" L63 "l\x00\x00\x01\x00\x01"), DNS_FORMERR},
	{"a name of 256",
		SLICE(HEADER "\x3f" L63 "\x3f" L63 "\x3f" L63 "\x3e" L62 "\x00\x00\x01\x00\x01"),
		DNS_FORMERR},
};

static void what_is_no_question_is_told_so(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(malformed); i++) {
		/* Of its exact size, so that one byte too far is seen. */
		char *copy = malloc(malformed[i].message.len + 1);
		struct dns_question q = {0};
		assert_non_null(copy);
		memcpy(copy, malformed[i].message.ptr, malformed[i].message.len);
		int parsed = dns_question_parse((struct slice){copy, malformed[i].message.len}, &q);
		if (parsed != malformed[i].parsed)
			fail_msg("%s: %d", malformed[i].what, parsed);
		assert_true(parsed == DNS_BADVERS || q.asked.len == 0);
		free(copy);
	}
}

static void a_question_is_read(void **state)
{
	(void)state;
	struct dns_question q;
	char name[DNS_NAME_TEXT_BYTES];
	assert_int_equal(dns_question_parse(SLICE(HEADER A_TEST), &q), DNS_NOERROR);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.type, 1);
	assert_int_equal(q.class, DNS_CLASS_IN);
	assert_false(q.edns);
	assert_int_equal(dns_answer_room(&q), 512);
	assert_true(dns_name_plain(q.name, name));
	assert_string_equal(name, "a.test");
	/* with options that say nothing to us: a cookie, padding */
	assert_int_equal(
		dns_question_parse(
			SLICE(HEADER_EDNS A_TEST
				"\x00\x00\x29\x02\x58\x00\x00\x80\x00\x00\x10\x00\x0a\x00\x08"
				"12345678\x00\x0c\x00\x00"),
			&q),
		DNS_NOERROR);
	assert_true(q.edns && q.dnssec_ok);
	assert_int_equal(dns_answer_room(&q), 600);
}

static void an_answer_is_as_large_as_the_asker_takes(void **state)
{
	(void)state;
	static const struct {
		uint16_t takes;
		size_t room;
	} sizes[] = {{0, 512}, {511, 512}, {512, 512}, {513, 513}, {1232, 1232}, {1233, 1232},
		{65535, 1232}};
	for (size_t i = 0; i < array_size(sizes); i++) {
		const struct dns_question q = {.edns = true, .edns_bytes = sizes[i].takes};
		assert_int_equal(dns_answer_room(&q), sizes[i].room);
	}
}

struct name_case {
	struct slice wire;
	const char *shown; /* NULL: as plain */
	const char *plain; /* NULL: it has none */
};

static const struct name_case names[] = {
	{SLICE("\x00"), NULL, ""},
	{SLICE("\x01"
	       "a\x00"),
		NULL, "a"},
	{SLICE("\x01"
	       "A\x04TeSt\x00"),
		NULL, "A.TeSt"},
	{SLICE("\x05_http\x04_tcp\x04test\x00"), NULL, "_http._tcp.test"},
	{SLICE("\x04"
	       "a.b.\x04test\x00"),
		"a\\046b\\046.test", NULL},
	{SLICE("\x06"
	       "denied\x0b.allowed.ex\x00"),
		"denied.\\046allowed\\046ex", NULL},
	{SLICE("\x02"
	       "a\x00\x04test\x00"),
		"a\\000.test", NULL},
	{SLICE("\x02\\a\x04test\x00"), "\\092a.test", NULL},
	{SLICE("\x03"
	       "a b\x00"),
		"a\\032b", NULL},
	{SLICE("\x03\x1b\r\n\x00"), "\\027\\013\\010", NULL},
	{SLICE("\x03\x7f\x80\xff\x00"), "\\127\\128\\255", NULL},
};

static void names_are_shown_without_a_second_meaning(void **state)
{
	(void)state;
	char to[DNS_NAME_TEXT_BYTES];
	for (size_t i = 0; i < array_size(names); i++) {
		const char *shown = names[i].shown != NULL ? names[i].shown : names[i].plain;
		assert_string_equal(dns_name_show(names[i].wire, to), shown);
		assert_int_equal(dns_name_plain(names[i].wire, to), names[i].plain != NULL);
		assert_string_equal(to, names[i].plain != NULL ? names[i].plain : "");
	}
}

/** A question for a name of @octets (with its lengths and the root's) out of labels of up to @label bytes. @return its length. */
static size_t long_question(char *to, size_t octets, size_t label, char fill)
{
	size_t len = 12;
	memcpy(to, HEADER, len);
	for (size_t left = octets - 1; left > 0;) {
		size_t n = left - 1 < label ? left - 1 : label;
		if (left - 1 - n == 1) /* no room for another label behind it */
			n--;
		to[len] = (char)n;
		memset(to + len + 1, fill, n);
		len += 1 + n;
		left -= 1 + n;
	}
	memcpy(to + len, "\x00\x00\x01\x00\x01", 5);
	return len + 5;
}

static void the_longest_names_fit(void **state)
{
	(void)state;
	char message[600], shown[DNS_NAME_TEXT_BYTES], answer[DNS_MESSAGE_BYTES_MAX];
	struct dns_question q;
	for (size_t label = 1; label <= 63; label++) {
		size_t len = long_question(message, 255, label, '\xff');
		struct slice all = {message, len};
		assert_int_equal(dns_question_parse(all, &q), DNS_NOERROR);
		assert_int_equal(q.name.len, 255);
		assert_true(strlen(dns_name_show(q.name, shown)) < DNS_NAME_TEXT_BYTES);
		const struct dns_answer a = {.rcode = DNS_NXDOMAIN, .extended = DNS_EXTENDED_NONE};
		assert_int_equal(dns_answer_write(&q, &a, answer, DNS_ANSWER_BYTES_MIN), 12 + 259);
		len = long_question(message, 256, label, 'a');
		assert_int_equal(dns_question_parse((struct slice){message, len}, &q), DNS_FORMERR);
	}
}

static void reverse_names_tell_their_address(void **state)
{
	(void)state;
	static const struct {
		const char *name, *address;
	} cases[] = {
		{"1.0.18.198.in-addr.arpa", "198.18.0.1"},
		{"1.0.18.198.IN-ADDR.arpa", "198.18.0.1"},
		{"255.255.255.255.in-addr.arpa", "255.255.255.255"},
		{"0.18.198.in-addr.arpa", NULL},
		{"9.1.0.18.198.in-addr.arpa", NULL},
		{"01.0.18.198.in-addr.arpa", NULL},
		{"256.0.18.198.in-addr.arpa", NULL},
		{"1.0.18.198.in-addr.arpa.test", NULL},
		{"1.0.18.198in-addr.arpa", NULL},
		{"in-addr.arpa", NULL},
		{"", NULL},
	};
	char text[ADDRESS_TEXT_BYTES];
	struct address a;
	for (size_t i = 0; i < array_size(cases); i++) {
		assert_int_equal(dns_name_reverse(cases[i].name, &a), cases[i].address != NULL);
		if (cases[i].address != NULL)
			assert_string_equal(address_format(&a, text), cases[i].address);
	}
}

#define GIVEN                                                                                      \
	{                                                                                          \
		.family = 4, .bytes = { 198, 18, 0, 7 }                                            \
	}

struct answer_case {
	struct slice question;
	struct dns_answer answer;
	struct slice bytes;
};

#define RD(low) "\x12\x34\x81" low
/* TTL 5: the root's SOA, as RFC 2308 wants it. */
#define SOA                                                                                        \
	"\x00\x00\x06\x00\x01\x00\x00\x00\x05\x00\x16\x00\x00\x00\x00\x00\x01\x00\x00\x0e\x10"     \
	"\x00\x00\x02\x58\x00\x01\x51\x80\x00\x00\x00\x05"

static const struct answer_case answers[] = {
	{SLICE(HEADER A_TEST), {.address = GIVEN, .ttl_s = 30, .extended = DNS_EXTENDED_NONE},
		SLICE(RD(
			"\x80") "\x00\x01\x00\x01\x00\x00\x00\x00" A_TEST
				"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x1e\x00\x04\xc6\x12\x00\x07")},
	{SLICE(HEADER A_TEST), {.pointer = "a.test", .ttl_s = 30, .extended = DNS_EXTENDED_NONE},
		SLICE(RD("\x80") "\x00\x01\x00\x01\x00\x00\x00\x00" A_TEST
				 "\xc0\x0c\x00\x0c\x00\x01\x00\x00\x00\x1e\x00\x08\x01"
				 "a\x04test\x00")},
	/* no record of the type; without EDNS nobody would understand why */
	{SLICE(HEADER A_TEST),
		{.negative = true, .ttl_s = 5, .extended = DNS_EXTENDED_BLOCKED, .text = "unsaid"},
		SLICE(RD("\x80") "\x00\x01\x00\x00\x00\x01\x00\x00" A_TEST SOA)},
	{SLICE(HEADER_EDNS A_TEST EDNS),
		{.rcode = DNS_NXDOMAIN,
			.negative = true,
			.ttl_s = 5,
			.extended = DNS_EXTENDED_BLOCKED,
			.text = "why"},
		SLICE(RD("\x83") "\x00\x01\x00\x00\x00\x01\x00\x01" A_TEST SOA
				 "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x09"
				 "\x00\x0f\x00\x05\x00\x0fwhy")},
	{SLICE(HEADER_EDNS A_TEST "\x00\x00\x29\x04\xd0\x00\x05\x80\x00\x00\x00"),
		{.rcode = DNS_BADVERS, .extended = DNS_EXTENDED_NONE},
		SLICE(RD("\x80") "\x00\x01\x00\x00\x00\x00\x00\x01" A_TEST
				 "\x00\x00\x29\x04\xd0\x01\x00\x80\x00\x00\x00")},
	/* what was no question comes back without it */
	{SLICE("\x12\x34\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00"),
		{.rcode = DNS_FORMERR, .extended = DNS_EXTENDED_NONE},
		SLICE("\x12\x34\x80\x81\x00\x00\x00\x00\x00\x00\x00\x00")},
	{SLICE("\x12\x34\x28\x10\x00\x01\x00\x00\x00\x00\x00\x00"),
		{.rcode = DNS_NOTIMP, .extended = DNS_EXTENDED_NONE},
		SLICE("\x12\x34\xa8\x94\x00\x00\x00\x00\x00\x00\x00\x00")},
};

static void answers_are_these_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(answers); i++) {
		struct dns_question q;
		char to[DNS_MESSAGE_BYTES_MAX];
		(void)dns_question_parse(answers[i].question, &q);
		size_t len = dns_answer_write(&q, &answers[i].answer, to, sizeof(to));
		assert_int_equal(len, answers[i].bytes.len);
		assert_memory_equal(to, answers[i].bytes.ptr, len);
	}
}

/** Whoever mixes letters to know its answers (draft-vixie-dnsext-dns0x20) finds them as they were. */
static void letters_of_the_question_come_back_as_they_were(void **state)
{
	(void)state;
	static const struct slice asked = SLICE(HEADER "\x05"
						       "aBcDe\x04TeSt\x00\x00\x01\x00\x01");
	struct dns_question q;
	char to[DNS_MESSAGE_BYTES_MAX];
	const struct dns_answer a = {.address = GIVEN, .extended = DNS_EXTENDED_NONE};
	assert_int_equal(dns_question_parse(asked, &q), DNS_NOERROR);
	size_t len = dns_answer_write(&q, &a, to, sizeof(to));
	assert_int_equal(len, asked.len + 16);
	assert_memory_equal(to + 12, asked.ptr + 12, asked.len - 12);
}

static void what_does_not_fit_is_left_out(void **state)
{
	(void)state;
	char message[600], name[HOST_NAME_BYTES], to[DNS_MESSAGE_BYTES_MAX];
	struct dns_question q;
	size_t len = long_question(message, 255, 63, 'a');
	message[11] = 1;
	memcpy(message + len, EDNS, sizeof(EDNS) - 1);
	len += sizeof(EDNS) - 1;
	assert_int_equal(dns_question_parse((struct slice){message, len}, &q), DNS_NOERROR);
	/* the text first, and the answer is whole all the same */
	struct dns_answer a = {.rcode = DNS_NXDOMAIN,
		.negative = true,
		.extended = DNS_EXTENDED_BLOCKED,
		.text = "a sentence that takes more room than there is"};
	size_t without_text = 12 + 259 + (sizeof(SOA) - 1) + (sizeof(EDNS) - 1) + 6;
	assert_int_equal(dns_answer_write(&q, &a, to, without_text + 10), without_text);
	assert_int_equal(to[2] & 2, 0);
	/* then the code */
	assert_int_equal(dns_answer_write(&q, &a, to, without_text - 1), without_text - 6);
	/* then what was asked for, which the asker is told */
	memset(name, 'b', sizeof(name));
	for (size_t i = 63; i < 253; i += 64)
		name[i] = '.';
	name[253] = '\0';
	a = (struct dns_answer){.pointer = name, .extended = DNS_EXTENDED_NONE};
	len = dns_answer_write(&q, &a, to, 512);
	assert_int_equal(len, 12 + 259 + sizeof(EDNS) - 1);
	assert_int_equal(to[2] & 2, 2);
	assert_int_equal(to[7], 0);  /* answers */
	assert_int_equal(to[11], 1); /* EDNS is there */
	len = dns_answer_write(&q, &a, to, sizeof(to));
	assert_int_equal(len, 12 + 259 + 12 + 255 + sizeof(EDNS) - 1);
	assert_int_equal(to[2] & 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_question_is_told_so),
		cmocka_unit_test(a_question_is_read),
		cmocka_unit_test(an_answer_is_as_large_as_the_asker_takes),
		cmocka_unit_test(names_are_shown_without_a_second_meaning),
		cmocka_unit_test(the_longest_names_fit),
		cmocka_unit_test(reverse_names_tell_their_address),
		cmocka_unit_test(answers_are_these_bytes),
		cmocka_unit_test(letters_of_the_question_come_back_as_they_were),
		cmocka_unit_test(what_does_not_fit_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
