/*
 * See packed.h. A table names the fields; one that is zero or empty is left out. In front of each stands its number in the table, and they only
 * grow. A text has two bytes of length, and a NUL behind it, so that the reader need not copy.
 */
#include "audit/packed.h"

#include "audit/cut.h"
#include "audit/event_state.h"
#include "audit/redact.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <assert.h>
#include <errno.h>

enum field_kind {
	FIELD_U64,
	FIELD_UINT, /* unsigned, or an enum */
	FIELD_U16,
	FIELD_BOOL,
	FIELD_ADDRESS,
	FIELD_OWN,  /* const char *: ours or the operator's */
	FIELD_TEXT, /* const char *: with words of a peer in it */
	FIELD_PEER, /* slice */
	FIELD_PATH, /* slice */
	FIELD_HOST  /* slice */
};

struct field {
	uint8_t kind;
	uint16_t offset;
	uint16_t limit; /* of a text, in bytes of the line */
	uint64_t most;  /* of a number */
};

#define AT(kind_, member)                                                                          \
	.kind = FIELD_##kind_, .offset = (uint16_t)offsetof(struct audit_unpacked, member)
#define NUMBER(kind, member, most_)                                                                \
	{                                                                                          \
		AT(kind, member), .most = (most_)                                                  \
	}
#define TEXT(kind, member, limit_)                                                                 \
	{                                                                                          \
		AT(kind, member), .limit = (limit_)                                                \
	}
#define COUNT(member) NUMBER(U64, member, UINT64_MAX)
#define FLAG(member)  NUMBER(BOOL, member, 1)

static const struct field fields[] = {
	NUMBER(UINT, event.class, AUDIT_LIFECYCLE),
	NUMBER(UINT, event.activity, 99),
	NUMBER(UINT, event.reason, REASON_COUNT - 1),
	NUMBER(UINT, event.would, REASON_COUNT - 1),
	NUMBER(UINT, event.status, 999),
	NUMBER(U16, event.source_port, UINT16_MAX),
	NUMBER(U16, event.destination_port, UINT16_MAX),
	NUMBER(U16, event.proxy_port, UINT16_MAX),
	FLAG(event.open),
	FLAG(event.policy_stale),
	FLAG(event.observe),
	FLAG(event.rule_allows),
	FLAG(event.has_query),
	FLAG(event.encoded_slash),
	FLAG(event.upstream_reused),
	FLAG(event.address_unchecked),
	FLAG(dns.udp),
	NUMBER(UINT, dns.rcode, UINT16_MAX),
	NUMBER(UINT, dns.ttl_s, UINT32_MAX),
	COUNT(event.start_ms),
	COUNT(event.end_ms),
	COUNT(event.mono_ns),
	COUNT(event.query_bytes),
	COUNT(event.request_body_bytes),
	COUNT(event.response_body_bytes),
	COUNT(event.bytes_in),
	COUNT(event.bytes_out),
	COUNT(event.count),
	COUNT(event.rule_line),
	{AT(ADDRESS, event.source)},
	{AT(ADDRESS, event.destination)},
	{AT(ADDRESS, event.proxy)},
	{AT(ADDRESS, dns.answer)},
	TEXT(OWN, event.uid, NAME_BYTES),
	TEXT(OWN, event.correlation, NAME_BYTES),
	TEXT(TEXT, event.detail, MESSAGE_BYTES),
	TEXT(OWN, event.sandbox_id, NAME_BYTES),
	TEXT(OWN, event.sandbox_name, NAME_BYTES),
	TEXT(OWN, event.profile, NAME_BYTES),
	TEXT(OWN, event.policy_version, NAME_BYTES),
	TEXT(OWN, event.policy_before, NAME_BYTES),
	TEXT(OWN, event.policy_origin, METHOD_BYTES),
	TEXT(OWN, event.policy_signer, NAME_BYTES),
	TEXT(OWN, event.rule_id, NAME_BYTES),
	TEXT(OWN, event.rule_place, HOST_BYTES),
	TEXT(OWN, event.rule_text, MESSAGE_BYTES),
	TEXT(OWN, event.rule_owner, NAME_BYTES),
	TEXT(OWN, event.rule_ticket, NAME_BYTES),
	TEXT(OWN, event.door, METHOD_BYTES),
	TEXT(OWN, event.tls_mode, METHOD_BYTES),
	TEXT(OWN, event.connection, NAME_BYTES),
	TEXT(HOST, event.host, HOST_BYTES),
	TEXT(HOST, event.connect_host, HOST_BYTES),
	TEXT(HOST, event.sni, HOST_BYTES),
	TEXT(HOST, event.host_header, HOST_BYTES),
	TEXT(PEER, event.method, METHOD_BYTES),
	TEXT(PEER, event.scheme, METHOD_BYTES),
	TEXT(PATH, event.path, URL_BYTES),
	TEXT(PEER, event.user_agent, USER_AGENT_BYTES),
	TEXT(PEER, event.content_type, NAME_BYTES),
	TEXT(HOST, dns.name, HOST_BYTES),
	TEXT(OWN, dns.type, METHOD_BYTES),
	TEXT(OWN, dns.class, METHOD_BYTES),
	TEXT(OWN, event.tls_version, NAME_BYTES),
	TEXT(OWN, event.tls_cipher, NAME_BYTES),
	TEXT(OWN, event.tls_certificate_subject, HOST_BYTES),
	TEXT(OWN, event.tls_certificate_issuer, HOST_BYTES),
	TEXT(OWN, event.tls_certificate_serial, NAME_BYTES),
	TEXT(TEXT, event.suggestion, SUGGESTION_BYTES),
	TEXT(OWN, event.address_class, METHOD_BYTES),
	TEXT(TEXT, event.subject, MESSAGE_BYTES),
	/* last: known when the texts are packed */
	NUMBER(UINT, event.redactions, UINT32_MAX),
	NUMBER(UINT, event.cuts, UINT32_MAX),
};

/* A new field of struct audit_event goes into the table above, or is one that no worker sets; then into this number. */
static_assert(sizeof(struct audit_unpacked) == AUDIT_EVENT_BYTES, "every field is packed");
static_assert(array_size(fields) < UINT8_MAX, "a field has one byte for its number");

/** What is in front of a text. */
#define TEXT_HEAD_BYTES 3

struct packer {
	struct audit_event *e; /* with the counts of this pass */
	const struct audit_dns *dns;
	struct buf *to;
	unsigned pass; /* limits are shifted right by it */
};

/** Where a field stands: the two parts need not lie beside one another. */
static const char *field_at(const struct packer *p, const struct field *f)
{
	size_t dns = offsetof(struct audit_unpacked, dns);
	return f->offset < dns ? (const char *)p->e + f->offset
			       : (const char *)p->dns + (f->offset - dns);
}

/** A number as it stands in the struct. */
static uint64_t field_number(const struct field *f, const char *at)
{
	uint64_t u64;
	unsigned uint;
	uint16_t u16;
	switch (f->kind) {
	case FIELD_U64:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	case FIELD_UINT:
		memcpy(&uint, at, sizeof(uint));
		return uint;
	case FIELD_U16:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	default:
		return *(const bool *)at;
	}
}

static void field_set_number(const struct field *f, struct audit_unpacked *e, uint64_t value)
{
	char *at = (char *)e + f->offset;
	unsigned uint = (unsigned)value;
	uint16_t u16 = (uint16_t)value;
	bool flag = value != 0;
	if (f->kind == FIELD_U64)
		memcpy(at, &value, sizeof(value));
	else if (f->kind == FIELD_UINT)
		memcpy(at, &uint, sizeof(uint));
	else if (f->kind == FIELD_U16)
		memcpy(at, &u16, sizeof(u16));
	else
		memcpy(at, &flag, sizeof(flag));
}

static struct slice field_text(const struct field *f, const char *at)
{
	struct slice text;
	if (f->kind == FIELD_OWN || f->kind == FIELD_TEXT) {
		const char *words;
		memcpy(&words, at, sizeof(words));
		return words == NULL ? (struct slice){0} : slice_of(words);
	}
	memcpy(&text, at, sizeof(text));
	return text;
}

static void pack_bytes(struct packer *p, uint8_t number, const void *value, size_t len)
{
	char *room;
	if (buf_reserve(p->to, len + 1, &room) < 0)
		return; /* sticky in the buf */
	room[0] = (char)number;
	memcpy(room + 1, value, len);
	buf_grew(p->to, len + 1);
}

static unsigned pack_words(const struct field *f, struct slice text, struct buf *to)
{
	switch (f->kind) {
	case FIELD_TEXT:
	case FIELD_PEER:
		return redact_text(text, to);
	case FIELD_PATH:
		return redact_path(text, to);
	case FIELD_HOST:
		return redact_host(text, to);
	default:
		(void)buf_append(to, text); /* errors are sticky in the buf */
		return 0;
	}
}

/** Whether it is soon seen that nothing is redacted of a text. */
static bool pack_is_clean(enum field_kind kind, struct slice text)
{
	return kind == FIELD_OWN || (kind == FIELD_HOST && slice_find(text, '@') < 0) ||
		redact_is_needless(text);
}

/** A text that is as it should be: in one go. @return false: it has to be looked at. */
static bool pack_plainly(struct packer *p, uint8_t number, struct slice text)
{
	const struct field *f = &fields[number];
	char *room;
	size_t limit = (size_t)f->limit >> p->pass;
	if (text.len > limit || !pack_is_clean(f->kind, text) ||
		(text.len > limit / 6 && !json_is_plain(text)))
		return false; /* no byte takes more than six in the line */
	if (buf_reserve(p->to, TEXT_HEAD_BYTES + text.len + 1, &room) < 0)
		return true; /* sticky in the buf */
	uint16_t len = (uint16_t)text.len;
	room[0] = (char)number;
	memcpy(room + 1, &len, sizeof(len));
	memcpy(room + TEXT_HEAD_BYTES, text.ptr, text.len);
	room[TEXT_HEAD_BYTES + text.len] = '\0';
	buf_grew(p->to, TEXT_HEAD_BYTES + text.len + 1);
	return true;
}

static void pack_text(struct packer *p, uint8_t number, struct slice text)
{
	const struct field *f = &fields[number];
	size_t head = buf_len(p->to);
	char *room;
	if (text.len == 0 || pack_plainly(p, number, text))
		return;
	pack_bytes(p, number, "\0", TEXT_HEAD_BYTES - 1);
	p->e->cuts += text.len > RAW_BYTES_MAX;
	p->e->redactions += pack_words(f, slice_part(text, 0, RAW_BYTES_MAX), p->to);
	p->e->cuts += cut_tail(p->to, head + TEXT_HEAD_BYTES, (size_t)f->limit >> p->pass);
	size_t len = buf_len(p->to) - head - TEXT_HEAD_BYTES;
	if (len ==
		0) { /* all of it was redacted, without a mark: a host that is only user information */
		buf_drop_end(p->to, TEXT_HEAD_BYTES);
		return;
	}
	if (buf_reserve(p->to, 1, &room) < 0)
		return; /* sticky in the buf */
	*room = '\0';
	uint16_t short_len = (uint16_t)len;
	memcpy(room - len - sizeof(short_len), &short_len, sizeof(short_len));
	buf_grew(p->to, 1);
}

static void pack_field(struct packer *p, uint8_t number)
{
	const struct field *f = &fields[number];
	const char *at = field_at(p, f);
	if (f->kind == FIELD_ADDRESS) {
		const struct address *a = (const void *)at; /* it stands there */
		if (a->family != 0)
			pack_bytes(p, number, a, sizeof(*a));
	} else if (f->kind < FIELD_ADDRESS) {
		uint64_t value = field_number(f, at);
		if (value != 0)
			pack_bytes(p, number, &value, sizeof(value));
	} else {
		pack_text(p, number, field_text(f, at));
	}
}

/** One try with the limits of a pass. @return 0, -ENOBUFS: too large. */
static int pack_pass(struct packer *p, size_t limit)
{
	size_t from = buf_len(p->to);
	p->e->redactions = 0;
	p->e->cuts = p->pass > 0;
	for (uint8_t i = 0; i < array_size(fields); i++)
		pack_field(p, i);
	size_t len = buf_len(p->to) - from;
	if (!p->to->failed && len <= limit)
		return 0;
	buf_drop_end(p->to, len);
	p->to->failed = false;
	return -ENOBUFS;
}

/** What a worker tells of; the rest is the launcher's and the recorder's own. */
static bool class_is_packed(enum audit_class class)
{
	return class == AUDIT_HTTP || class == AUDIT_NETWORK || class == AUDIT_DNS ||
		class == AUDIT_ENTITY;
}

int audit_event_pack(struct audit_event *e, size_t limit, struct buf *to)
{
	static const struct audit_dns none;
	struct packer p = {.e = e, .dns = e->dns != NULL ? e->dns : &none, .to = to};
	int r = -ENOBUFS;
	if (!class_is_packed(e->class))
		return -EINVAL;
	if (e->mono_ns == 0)
		e->mono_ns = clock_monotonic_ns();
	for (p.pass = 0; p.pass < CUT_PASSES && r < 0; p.pass++)
		r = pack_pass(&p, limit);
	return r;
}

static void unpack_text(const struct field *f, struct slice text, struct audit_unpacked *e)
{
	char *at = (char *)e + f->offset;
	if (f->kind == FIELD_OWN || f->kind == FIELD_TEXT)
		memcpy(at, &text.ptr, sizeof(text.ptr));
	else
		memcpy(at, &text, sizeof(text));
}

/** Take bytes off the front. False: there are not so many. */
static bool take(struct slice *rest, void *to, size_t len)
{
	if (rest->len < len)
		return false;
	memcpy(to, rest->ptr, len);
	*rest = slice_part(*rest, len, rest->len);
	return true;
}

static bool take_text(struct slice *rest, const struct field *f, struct audit_unpacked *e)
{
	uint16_t len;
	if (!take(rest, &len, sizeof(len)) || len == 0 || rest->len <= len)
		return false;
	struct slice text = slice_part(*rest, 0, len);
	bool words = f->kind == FIELD_OWN || f->kind == FIELD_TEXT;
	if (rest->ptr[len] != '\0' || (words && slice_find(text, '\0') >= 0))
		return false;
	unpack_text(f, text, e);
	*rest = slice_part(*rest, (size_t)len + 1, rest->len);
	return true;
}

static bool take_field(struct slice *rest, const struct field *f, struct audit_unpacked *e)
{
	struct address a;
	uint64_t value;
	if (f->kind > FIELD_ADDRESS)
		return take_text(rest, f, e);
	if (f->kind == FIELD_ADDRESS) {
		if (!take(rest, &a, sizeof(a)) || (a.family != 4 && a.family != 6))
			return false;
		memcpy((char *)e + f->offset, &a, sizeof(a));
		return true;
	}
	if (!take(rest, &value, sizeof(value)) || value > f->most)
		return false;
	field_set_number(f, e, value);
	return true;
}

int audit_event_unpack(struct slice packed, struct audit_unpacked *ret)
{
	unsigned next = 0;
	*ret = (struct audit_unpacked){.event.packed = true};
	while (packed.len > 0) {
		uint8_t number;
		(void)take(&packed, &number, sizeof(number)); /* there is one */
		if (number < next || number >= array_size(fields) ||
			!take_field(&packed, &fields[number], ret))
			return -EBADMSG;
		next = number + 1U;
	}
	if (ret->event.uid == NULL || !class_is_packed(ret->event.class))
		return -EBADMSG;
	ret->event.dns = ret->event.class == AUDIT_DNS ? &ret->dns : NULL;
	return 0;
}
