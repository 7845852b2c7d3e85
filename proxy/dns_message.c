/* See dns_message.h. */
#include "proxy/dns_message.h"

#include "common/cleanup.h"

#include <assert.h>
#include <stdio.h>

#define HEADER_BYTES    12
#define LABEL_BYTES_MAX 63
#define NAME_BYTES_MAX  255
#define UDP_BYTES_MIN   512    /* RFC 1035 4.2.1: what every asker takes */
#define NAME_POINTER    0xc00c /* to the question's name, behind the header */
#define OPTION_EXTENDED 15
#define OPTION_HEAD     4

enum { TYPE_SOA = 6 };
enum { EDNS_DNSSEC_OK = 0x8000 };

enum flag {
	FLAG_RESPONSE = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_TRUNCATED = 0x0200,
	FLAG_RECURSION_DESIRED = 0x0100,
	FLAG_RECURSION_AVAILABLE = 0x0080,
	FLAG_CHECKING_DISABLED = 0x0010,
};

static uint16_t take_u16(struct slice_cursor *c)
{
	return (uint16_t)slice_take_number(c, 2);
}

static uint8_t take_u8(struct slice_cursor *c)
{
	return (uint8_t)slice_take_number(c, 1);
}

/** Labels up to the root's. A length above 63 is a pointer or of no known kind. */
static struct slice take_name(struct slice_cursor *c)
{
	struct slice from = c->rest;
	size_t len = 1;
	for (uint8_t label = take_u8(c); label != 0 && !c->failed; label = take_u8(c)) {
		len += label + 1u;
		c->failed |= label > LABEL_BYTES_MAX || len > NAME_BYTES_MAX;
		(void)slice_take(c, label);
	}
	return c->failed ? (struct slice){NULL, 0} : slice_part(from, 0, len);
}

/** Options, of which none has a meaning here: only their lengths have to be right. */
static void skip_options(struct slice_cursor *c, size_t len)
{
	struct slice_cursor options = {.rest = slice_take(c, len)};
	while (!options.failed && options.rest.len > 0) {
		(void)take_u16(&options);
		size_t option_len = take_u16(&options);
		(void)slice_take(&options, option_len);
	}
	c->failed |= options.failed;
}

/** The one record that may follow a question (RFC 6891 6.1.1). */
static void take_edns(struct slice_cursor *c, struct dns_question *q)
{
	c->failed |= take_u8(c) != 0; /* the root's name */
	c->failed |= take_u16(c) != DNS_TYPE_OPT;
	uint16_t bytes = take_u16(c);
	(void)take_u8(c); /* the upper bits of an rcode */
	uint8_t version = take_u8(c);
	uint16_t flags = take_u16(c);
	skip_options(c, take_u16(c));
	if (c->failed)
		return;
	q->edns = true;
	q->edns_bytes = bytes;
	q->edns_version = version;
	q->dnssec_ok = (flags & EDNS_DNSSEC_OK) != 0;
}

static void take_question(struct slice_cursor *c, struct dns_question *q)
{
	struct slice from = c->rest;
	struct slice name = take_name(c);
	uint16_t type = take_u16(c);
	uint16_t class = take_u16(c);
	if (c->failed)
		return;
	q->name = name;
	q->asked = slice_part(from, 0, name.len + 4);
	q->type = type;
	q->class = class;
}

int dns_question_parse(struct slice message, struct dns_question *ret)
{
	struct slice_cursor c = {.rest = message};
	struct dns_question q = {.id = take_u16(&c), .flags = take_u16(&c)};
	if (message.len < HEADER_BYTES || (q.flags & FLAG_RESPONSE) != 0)
		return -EBADMSG; /* an answer to an answer would have no end */
	uint16_t questions = take_u16(&c), answers = take_u16(&c), authorities = take_u16(&c),
		 additional = take_u16(&c);
	*ret = q;
	if ((q.flags & FLAG_OPCODE) != 0)
		return DNS_NOTIMP;
	if (questions != 1 || answers != 0 || authorities != 0 || additional > 1)
		return DNS_FORMERR; /* RFC 9619 */
	take_question(&c, &q);
	if (additional == 1)
		take_edns(&c, &q);
	if (c.failed || c.rest.len > 0)
		return DNS_FORMERR;
	*ret = q;
	return q.edns_version > 0 ? DNS_BADVERS : DNS_NOERROR;
}

/** The next label of a name that was parsed. @return false after the last one. */
static bool next_label(struct slice *name, struct slice *ret_label)
{
	size_t len = name->len > 0 ? (uint8_t)name->ptr[0] : 0;
	*ret_label = slice_part(*name, 1, 1 + len);
	*name = slice_part(*name, 1 + len, name->len);
	return len > 0;
}

static bool is_plain(char c)
{
	return c > ' ' && c < 0x7f && c != '.' && c != '\\';
}

char *dns_name_show(struct slice name, char to[static DNS_NAME_TEXT_BYTES])
{
	struct slice label;
	size_t len = 0;
	while (next_label(&name, &label)) {
		if (len > 0)
			to[len++] = '.';
		for (size_t i = 0; i < label.len; i++) {
			if (is_plain(label.ptr[i]))
				to[len++] = label.ptr[i];
			else
				len += (size_t)snprintf(to + len, DNS_NAME_TEXT_BYTES - len,
					"\\%03u", (uint8_t)label.ptr[i]); /* fits */
		}
	}
	to[len] = '\0';
	return to;
}

bool dns_name_plain(struct slice name, char to[static DNS_NAME_TEXT_BYTES])
{
	if (strchr(dns_name_show(name, to), '\\') == NULL)
		return true;
	to[0] = '\0';
	return false;
}

bool dns_name_reverse(const char *plain, struct address *ret)
{
	static const struct slice zone = {".in-addr.arpa", sizeof(".in-addr.arpa") - 1};
	struct slice text = slice_of(plain);
	if (text.len < zone.len ||
		!slice_equal_nocase(slice_part(text, text.len - zone.len, text.len), zone))
		return false;
	struct address turned;
	if (address_parse_v4(slice_part(text, 0, text.len - zone.len), &turned) < 0)
		return false;
	*ret = (struct address){.family = 4};
	for (size_t i = 0; i < 4; i++)
		ret->bytes[i] = turned.bytes[3 - i];
	return true;
}

const char *dns_type_name(uint16_t type, char to[static 12])
{
	static const struct {
		uint16_t type;
		const char *name;
	} names[] = {{1, "A"}, {2, "NS"}, {5, "CNAME"}, {6, "SOA"}, {10, "NULL"}, {12, "PTR"},
		{13, "HINFO"}, {15, "MX"}, {16, "TXT"}, {28, "AAAA"}, {33, "SRV"}, {35, "NAPTR"},
		{43, "DS"}, {46, "RRSIG"}, {48, "DNSKEY"}, {64, "SVCB"}, {65, "HTTPS"},
		{251, "IXFR"}, {252, "AXFR"}, {255, "ANY"}, {257, "CAA"}};
	for (size_t i = 0; i < array_size(names); i++) {
		if (names[i].type == type)
			return names[i].name;
	}
	(void)snprintf(to, 12, "TYPE%u", type); /* fits */
	return to;
}

const char *dns_rcode_name(enum dns_rcode rcode)
{
	switch (rcode) {
	case DNS_NOERROR:
		return "NOERROR";
	case DNS_FORMERR:
		return "FORMERR";
	case DNS_SERVFAIL:
		return "SERVFAIL";
	case DNS_NXDOMAIN:
		return "NXDOMAIN";
	case DNS_NOTIMP:
		return "NOTIMP";
	case DNS_REFUSED:
		return "REFUSED";
	case DNS_BADVERS:
		return "BADVERS";
	}
	return "";
}

/** What is written, with a sticky error. */
struct writer {
	char *to;
	size_t len, capacity;
	bool full;
};

static void put(struct writer *w, struct slice bytes)
{
	w->full |= bytes.len > w->capacity - w->len;
	if (w->full)
		return;
	if (bytes.len > 0)
		memcpy(w->to + w->len, bytes.ptr, bytes.len);
	w->len += bytes.len;
}

static void put_u8(struct writer *w, unsigned value)
{
	char byte = (char)value;
	put(w, (struct slice){&byte, 1});
}

static void put_u16(struct writer *w, unsigned value)
{
	put_u8(w, value >> 8);
	put_u8(w, value & 0xff);
}

static void put_u32(struct writer *w, uint32_t value)
{
	put_u16(w, value >> 16);
	put_u16(w, value & 0xffff);
}

/** A canonical name: labels of 1 to 63 bytes. */
static void put_name(struct writer *w, const char *name)
{
	struct slice rest = slice_of(name), label;
	while (slice_split(rest, '.', &label, &rest)) {
		put_u8(w, (unsigned)label.len);
		put(w, label);
	}
	put_u8(w, (unsigned)rest.len);
	put(w, rest);
	put_u8(w, 0);
}

static void put_record(struct writer *w, uint16_t type, uint32_t ttl_s, size_t data_len)
{
	put_u16(w, type);
	put_u16(w, DNS_CLASS_IN);
	put_u32(w, ttl_s);
	put_u16(w, (unsigned)data_len);
}

/** @return how many records. */
static unsigned put_answers(struct writer *w, const struct dns_answer *a)
{
	if (a->address.family == 4) {
		put_u16(w, NAME_POINTER);
		put_record(w, DNS_TYPE_A, a->ttl_s, 4);
		put(w, (struct slice){(const char *)a->address.bytes, 4});
		return 1;
	}
	if (a->pointer != NULL) {
		put_u16(w, NAME_POINTER);
		put_record(w, DNS_TYPE_PTR, a->ttl_s, strlen(a->pointer) + 2);
		put_name(w, a->pointer);
		return 1;
	}
	return 0;
}

/** The root's: there is no zone but the whole. What counts in it is the last number, and the record's own time to live. */
static unsigned put_soa(struct writer *w, const struct dns_answer *a)
{
	static const uint32_t numbers[] = {1, 3600, 600, 86400};
	if (!a->negative)
		return 0;
	put_u8(w, 0);
	put_record(w, TYPE_SOA, a->ttl_s, 2 + 4 * (array_size(numbers) + 1));
	put_u8(w, 0);
	put_u8(w, 0);
	for (size_t i = 0; i < array_size(numbers); i++)
		put_u32(w, numbers[i]);
	put_u32(w, a->ttl_s);
	return 1;
}

/** The options: an extended error, whose text is cut where there is no room (RFC 8914 2: it is for people). */
static void put_options(struct writer *w, const struct dns_answer *a)
{
	struct slice text = slice_of(a->text != NULL ? a->text : "");
	size_t room = w->capacity - w->len;
	size_t rest = 2 + OPTION_HEAD + 2;
	if (a->extended == DNS_EXTENDED_NONE || room < rest) {
		put_u16(w, 0);
		return;
	}
	if (text.len > room - rest)
		text.len = 0;
	put_u16(w, (unsigned)(OPTION_HEAD + 2 + text.len));
	put_u16(w, OPTION_EXTENDED);
	put_u16(w, (unsigned)(2 + text.len));
	put_u16(w, (unsigned)a->extended);
	put(w, text);
}

static unsigned put_edns(struct writer *w, const struct dns_question *q, const struct dns_answer *a)
{
	if (!q->edns)
		return 0;
	put_u8(w, 0);
	put_u16(w, DNS_TYPE_OPT);
	put_u16(w, DNS_MESSAGE_BYTES_MAX);
	put_u8(w, (unsigned)a->rcode >> 4);
	put_u8(w, 0); /* version */
	put_u16(w, q->dnssec_ok ? EDNS_DNSSEC_OK : 0);
	put_options(w, a);
	return 1;
}

static void put_header(struct writer *w, const struct dns_question *q, const struct dns_answer *a,
	const unsigned counts[static 3], bool truncated)
{
	unsigned kept = q->flags & (FLAG_OPCODE | FLAG_RECURSION_DESIRED | FLAG_CHECKING_DISABLED);
	put_u16(w, q->id);
	put_u16(w,
		FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE | kept | (a->rcode & 0xf) |
			(truncated ? FLAG_TRUNCATED : 0u));
	put_u16(w, q->asked.len > 0);
	for (size_t i = 0; i < 3; i++)
		put_u16(w, counts[i]);
}

/** Everything, or without the records that are the answer. */
static void put_message(
	struct writer *w, const struct dns_question *q, const struct dns_answer *a, bool truncated)
{
	unsigned counts[3] = {0};
	w->len = HEADER_BYTES;
	w->full = false;
	put(w, q->asked);
	if (!truncated) {
		counts[0] = put_answers(w, a);
		counts[1] = put_soa(w, a);
	}
	counts[2] = put_edns(w, q, a);
	size_t len = w->len;
	w->len = 0;
	put_header(w, q, a, counts, truncated);
	w->len = len;
}

size_t dns_answer_write(
	const struct dns_question *q, const struct dns_answer *a, char *to, size_t capacity)
{
	struct writer w = {.to = to, .capacity = capacity};
	assert(capacity >= DNS_ANSWER_BYTES_MIN);
	put_message(&w, q, a, false);
	if (w.full)
		put_message(&w, q, a, true);
	assert(!w.full); /* a question and the fixed part of EDNS always fit */
	return w.len;
}

size_t dns_answer_room(const struct dns_question *q)
{
	if (!q->edns || q->edns_bytes < UDP_BYTES_MIN)
		return UDP_BYTES_MIN;
	return q->edns_bytes < DNS_MESSAGE_BYTES_MAX ? q->edns_bytes : DNS_MESSAGE_BYTES_MAX;
}
