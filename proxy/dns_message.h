/*
 * DNS messages as bytes (RFC 1035, RFC 6891): one question is read, one answer is written. Knows no policy and no sockets. Input: a
 * sandbox's bytes; what two readers could read in two ways is malformed. A question names nothing by a compression pointer, since there
 * is nothing before it to point at, so none is ever followed; answers have one, to the question's name.
 */
#ifndef ECLUSA_PROXY_DNS_MESSAGE_H
#define ECLUSA_PROXY_DNS_MESSAGE_H

#include "common/address.h"
#include "proxy/limits.h"

#define DNS_NAME_TEXT_BYTES 1024 /* of 255 octets, each escaped, NUL included */

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16, /* RFC 6891 */
};

enum dns_type {
	DNS_TYPE_A = 1,
	DNS_TYPE_PTR = 12,
	DNS_TYPE_AAAA = 28,
	DNS_TYPE_OPT = 41,
	DNS_TYPE_SVCB = 64, /* RFC 9460 */
	DNS_TYPE_HTTPS = 65,
	DNS_TYPE_META_FIRST = 128, /* RFC 6895 3.1 */
	DNS_TYPE_META_LAST = 255,
};

enum { DNS_CLASS_IN = 1 };

/** Extended errors (RFC 8914). */
enum dns_extended {
	DNS_EXTENDED_NONE = -1,
	DNS_EXTENDED_OTHER = 0,
	DNS_EXTENDED_BLOCKED = 15,
	DNS_EXTENDED_NOT_SUPPORTED = 21
};

/** A question; slices are the message's. */
struct dns_question {
	uint16_t id;
	uint16_t flags; /* as they came */
	struct slice
		asked; /* name, type and class as they came: all letters of the name as the asker wrote them */
	struct slice name; /* of them the name: labels, each after its length, and the root's */
	uint16_t type, class;
	bool edns;
	bool dnssec_ok;
	uint8_t edns_version;
	uint16_t edns_bytes; /* largest UDP answer that the asker takes */
};

/**
 * Read. @return DNS_NOERROR; another enum dns_rcode: *ret has what can be said in the answer, and @asked is empty where there is no
 * one question; -EBADMSG: nothing that may be answered.
 */
int dns_question_parse(struct slice message, struct dns_question *ret);

/** The name with dots and without the root's, "" being the root. @return false: a label has bytes that such a text can't show, and *to has nothing. */
bool dns_name_plain(struct slice name, char to[static DNS_NAME_TEXT_BYTES]);
/** The same for people: such bytes as \DDD (RFC 1035 5.1). @return to */
char *dns_name_show(struct slice name, char to[static DNS_NAME_TEXT_BYTES]);
/** The address of a name of in-addr.arpa (RFC 1035 3.5). @return whether it is one. */
bool dns_name_reverse(const char *plain, struct address *ret);
/** "A", "HTTPS", "TYPE1234" (RFC 3597); "NOERROR". */
const char *dns_type_name(uint16_t type, char to[static 12]);
const char *dns_rcode_name(enum dns_rcode rcode);

/** What is answered. */
struct dns_answer {
	enum dns_rcode rcode;
	struct address address; /* an A record; family 0: none */
	const char *pointer;    /* a PTR record to this canonical name; NULL: none */
	uint32_t ttl_s;
	bool negative; /* with the SOA by which caches know how long it holds (RFC 2308) */
	enum dns_extended extended;
	const char *text; /* why, for people; NULL: nothing. Left out where there is no room. */
};

/**
 * Write. What does not fit @capacity, of DNS_ANSWER_BYTES_MIN or more, is left out and the answer marked as truncated, so that the asker comes
 * again by TCP. @return bytes written.
 */
size_t dns_answer_write(
	const struct dns_question *q, const struct dns_answer *a, char *to, size_t capacity);
/** How large an answer by UDP may be. */
size_t dns_answer_room(const struct dns_question *q);

#endif
