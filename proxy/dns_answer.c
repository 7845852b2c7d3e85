/* See dns_answer.h. */
#include "proxy/dns_answer.h"

#include <stdio.h>

#define LOCAL_TTL_S 86400

/** How a name is answered if it is one that there is. */
enum dns_kind {
	KIND_ADDRESS,
	KIND_NOTHING, /* there is no such record, as other ways to reach a host would be */
	KIND_DATA,    /* likewise; a record that is no way to reach it, so no rule would give one */
	KIND_POINTER,
	KIND_REFUSED,
};

/** What asks for no record of one type: 0, EDNS itself, and what RFC 6895 3.1 keeps for questions and transfers. */
static bool is_meta(uint16_t type)
{
	return type == 0 || type == DNS_TYPE_OPT ||
		(type >= DNS_TYPE_META_FIRST && type <= DNS_TYPE_META_LAST);
}

static enum dns_kind kind_of(const struct dns_question *q)
{
	if (q->class != DNS_CLASS_IN || is_meta(q->type))
		return KIND_REFUSED;
	switch (q->type) {
	case DNS_TYPE_A:
		return KIND_ADDRESS;
	case DNS_TYPE_AAAA: /* there is no IPv6 to go by */
	case DNS_TYPE_HTTPS:
	case DNS_TYPE_SVCB: /* so nobody learns keys for encrypted_client_hello */
		return KIND_NOTHING;
	case DNS_TYPE_PTR:
		return KIND_POINTER;
	default:
		return KIND_DATA;
	}
}

/** Why, as the asker gets it and as the log has it. */
static void say(struct dns_reply *r, enum reason reason, const char *detail)
{
	r->reason = reason;
	r->recorded = true;
	r->detail = detail;
	(void)snprintf(r->text, sizeof(r->text), "%s: %s", reason_code(reason), detail);
	r->answer.text = r->text;
}

static void deny(struct dns_reply *r, enum reason reason, const char *detail)
{
	say(r, reason, detail);
	r->answer.rcode = DNS_NXDOMAIN;
	r->answer.negative = true;
	r->answer.ttl_s = DNS_NEGATIVE_TTL_SECONDS;
	r->answer.extended = DNS_EXTENDED_BLOCKED;
}

/**
 * A name that nothing may be reached by. Above one that may it exists nevertheless: who believes that it does not takes all below it for missing as well
 * (RFC 8020). Records that nobody would be given are no fault of the name.
 */
static void deny_host(
	const struct dns_asker *asker, const struct dns_question *q, struct dns_reply *r)
{
	if (kind_of(q) == KIND_DATA) {
		deny(r, REASON_DENY_DNS_TYPE, "only questions for addresses of hosts have answers");
		r->answer.extended = DNS_EXTENDED_NOT_SUPPORTED;
	} else {
		deny(r, r->verdict.reason, r->verdict.detail);
	}
	if (policy_has_below(asker->profile, &r->host))
		r->answer.rcode = DNS_NOERROR;
}

/** Not for what the name is. */
static void refuse(struct dns_reply *r, enum reason reason, const char *detail)
{
	say(r, reason, detail);
	r->answer.rcode = DNS_REFUSED;
	r->answer.extended =
		reason == REASON_DENY_DNS_TYPE ? DNS_EXTENDED_NOT_SUPPORTED : DNS_EXTENDED_OTHER;
}

static void answer_address(struct dns_reply *r, const struct dns_question *q,
	const struct address *address, uint32_t ttl_s)
{
	r->answer.negative = kind_of(q) != KIND_ADDRESS;
	r->answer.ttl_s = r->answer.negative ? DNS_NEGATIVE_TTL_SECONDS : ttl_s;
	if (!r->answer.negative)
		r->answer.address = *address;
}

/** RFC 6761 6.3. */
static bool is_local(struct slice name)
{
	return slice_equal(name, SLICE("localhost")) || slice_ends(name, SLICE(".localhost"));
}

/** The name behind an address that was given to this sandbox; of others nothing is known. */
static void point(const struct dns_asker *asker, const char *name, struct dns_reply *r)
{
	struct address address;
	const struct host *host = NULL;
	if (dns_name_reverse(name, &address))
		host = synthetic_find(asker->synthetic, asker->sandbox, &address);
	if (host == NULL) {
		deny(r, REASON_DENY_DNS_NAME,
			"names are known of addresses only that were answered here");
		return;
	}
	(void)slice_copy(slice_of(host->name), r->text, sizeof(r->text)); /* fits */
	r->answer.pointer = r->text;
	r->answer.ttl_s = DNS_TTL_SECONDS;
}

static void judge(const struct dns_asker *asker, const struct dns_question *q, struct dns_reply *r)
{
	struct address address = {0};
	policy_admits_host(asker->profile, &r->host, asker->now_ms, &r->verdict);
	if (!reason_allows(r->verdict.reason)) {
		deny_host(asker, q, r);
		return;
	}
	if (kind_of(q) == KIND_ADDRESS && !reason_allows(asker->full) &&
		!synthetic_has(asker->synthetic, asker->sandbox, &r->host)) {
		refuse(r, asker->full, reason_sentence(asker->full));
		return;
	}
	r->reason = r->verdict.reason;
	r->detail = r->verdict.detail;
	if (kind_of(q) == KIND_ADDRESS)
		r->recorded = synthetic_give(asker->synthetic, asker->sandbox, &r->host, &address);
	answer_address(r, q, &address, DNS_TTL_SECONDS);
}

static void answer_name(
	const struct dns_asker *asker, const struct dns_question *q, struct dns_reply *r)
{
	static const struct address loopback = {.family = 4, .bytes = {127, 0, 0, 1}};
	char plain[DNS_NAME_TEXT_BYTES];
	bool valid = dns_name_plain(q->name, plain) && host_parse(slice_of(plain), &r->host) == 0 &&
		r->host.kind == HOST_NAME;
	if (!valid) {
		r->host = (struct host){0};
		deny(r, REASON_DENY_NAME_INVALID, "this is no name of a host");
	} else if (is_local(slice_of(r->host.name))) {
		answer_address(r, q, &loopback, LOCAL_TTL_S);
	} else {
		judge(asker, q, r);
	}
}

static void answer_error(int parsed, struct dns_reply *r)
{
	refuse(r, REASON_DENY_PROTOCOL,
		parsed == DNS_NOTIMP            ? "only queries are answered"
			: parsed == DNS_BADVERS ? "only version 0 of EDNS is spoken"
						: "the question is malformed");
	r->answer.rcode = (enum dns_rcode)parsed;
	r->answer.extended = DNS_EXTENDED_NONE;
}

static void reply_begin(const struct dns_question *q, struct dns_reply *r)
{
	*r = (struct dns_reply){.answer = {.extended = DNS_EXTENDED_NONE}, .detail = ""};
	if (q->name.len > 0)
		(void)dns_name_show(q->name, r->name);
}

void dns_reply_make(const struct dns_asker *asker, const struct dns_question *q, int parsed,
	struct dns_reply *ret)
{
	char plain[DNS_NAME_TEXT_BYTES];
	reply_begin(q, ret);
	if (parsed != DNS_NOERROR) {
		answer_error(parsed, ret);
		return;
	}
	switch (kind_of(q)) {
	case KIND_ADDRESS:
	case KIND_NOTHING:
	case KIND_DATA:
		answer_name(asker, q, ret);
		return;
	case KIND_POINTER:
		(void)dns_name_plain(q->name, plain); /* else empty */
		point(asker, plain, ret);
		return;
	case KIND_REFUSED:
		refuse(ret, REASON_DENY_DNS_TYPE,
			"questions for all records of a name, for zones and in other classes have no answer");
		return;
	}
}

void dns_reply_refuse(enum reason reason, const char *text, struct dns_reply *ret)
{
	const struct dns_question nothing = {0};
	reply_begin(&nothing, ret);
	refuse(ret, reason, text);
}
