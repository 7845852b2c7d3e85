/* Attributes: the key=value words of a statement, where each may stand, what it may be. See syntax.h. */
#include "common/cleanup.h"
#include "policy/syntax.h"
#include "policy/value.h"

#include <assert.h>
#include <stdio.h>

#define ON_RULES (ATTRIBUTE_ON_ALLOW | ATTRIBUTE_ON_DENY)

/** @return NULL, or what is wrong. */
typedef const char *attribute_set(struct slice value, struct attributes *to, struct arena *arena);

struct attribute_entry {
	const char *key;
	unsigned places; /* bits of enum attribute_place */
	attribute_set *set;
};

static const char *dup_text(struct slice value, struct arena *arena, const char **ret)
{
	if (value.len > VALUE_TEXT_BYTES_MAX)
		return "the value is longer than 256 bytes";
	*ret = arena_dup(arena, value);
	return *ret == NULL ? "out of memory" : NULL;
}

static const char *set_id(struct slice value, struct attributes *to, struct arena *arena)
{
	const char *wrong = value_name(value);
	return wrong != NULL ? wrong : dup_text(value, arena, &to->id);
}

static const char *set_owner(struct slice value, struct attributes *to, struct arena *arena)
{
	return dup_text(value, arena, &to->owner);
}

static const char *set_ticket(struct slice value, struct attributes *to, struct arena *arena)
{
	return dup_text(value, arena, &to->ticket);
}

static const char *set_expires(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_date(value, &to->limits[LIMIT_EXPIRES]);
}

static const char *set_note(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)to; /* for the readers of the file */
	(void)arena;
	return value.len > VALUE_TEXT_BYTES_MAX ? "the value is longer than 256 bytes" : NULL;
}

static const char *set_mode(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	to->observe = slice_equal(value, SLICE("observe"));
	return to->observe || slice_equal(value, SLICE("enforce")) ? NULL
								   : "mode= is enforce or observe";
}

static const char *set_scheme(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	if (slice_equal(value, SLICE("http")))
		to->scheme = RULE_SCHEME_HTTP;
	else if (slice_equal(value, SLICE("https")))
		to->scheme = RULE_SCHEME_HTTPS;
	else
		return "scheme= is http or https";
	return NULL;
}

static const char *set_tls(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	to->splice = slice_equal(value, SLICE("splice"));
	return to->splice || slice_equal(value, SLICE("inspect")) ? NULL
								  : "tls= is inspect or splice";
}

static const char *set_addr(struct slice value, struct attributes *to, struct arena *arena)
{
	return value_addresses(value, arena, &to->addresses, &to->address_count);
}

static const char *set_enc_slash(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	to->encoded_slash = true;
	return slice_equal(value, SLICE("literal")) ? NULL : "enc-slash= is literal";
}

static const char *set_req_body(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_size(value, &to->limits[LIMIT_REQ_BODY]);
}

static const char *set_resp_body(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_size(value, &to->limits[LIMIT_RESP_BODY]);
}

/** Bytes of a budget: some. */
static const char *set_budget(struct slice value, uint64_t *ret_bytes)
{
	const char *wrong = value_size(value, ret_bytes);
	if (wrong == NULL && *ret_bytes == 0)
		wrong = "a budget of 0 can never be used; leave out the rule instead";
	return wrong;
}

static const char *set_up(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return set_budget(value, &to->limits[LIMIT_UP]);
}

static const char *set_down(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return set_budget(value, &to->limits[LIMIT_DOWN]);
}

static const char *set_requests(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_count(value, &to->limits[LIMIT_REQUESTS]);
}

static const char *set_max_uses(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_count(value, &to->limits[LIMIT_MAX_USES]);
}

static const char *set_conns(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_count(value, &to->limits[LIMIT_CONNS]);
}

static const char *set_time(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_duration(value, &to->limits[LIMIT_TIME]);
}

static const char *set_window(struct slice value, struct attributes *to, struct arena *arena)
{
	uint64_t window_ms = 0;
	(void)arena;
	const char *wrong = value_duration(value, &window_ms);
	to->limits[LIMIT_WINDOW] = limit_of_window(window_ms);
	return wrong;
}

static const char *set_rate(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	return value_rate(value, &to->rate_uses, &to->rate_ms);
}

static const char *set_header_deny(struct slice value, struct attributes *to, struct arena *arena)
{
	return value_fields(value, arena, &to->header_deny, &to->header_deny_count);
}

static const char *set_upgrade(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	to->websocket = slice_equal(value, SLICE("websocket"));
	return to->websocket || slice_equal(value, SLICE("deny")) ? NULL
								  : "upgrade= is websocket or deny";
}

static const char *set_query(struct slice value, struct attributes *to, struct arena *arena)
{
	(void)arena;
	to->query_denied = slice_equal(value, SLICE("deny"));
	return to->query_denied || slice_equal(value, SLICE("allow")) ? NULL
								      : "query= is allow or deny";
}

#define ON_ALLOW_OR_BEFORE (ATTRIBUTE_ON_ALLOW | ATTRIBUTE_ON_DEFAULTS)
#define ON_LIMITS          (ON_ALLOW_OR_BEFORE | ATTRIBUTE_ON_USE)

static const struct attribute_entry entries[] = {
	[ATTRIBUTE_ID] = {"id", ON_RULES, set_id},
	[ATTRIBUTE_OWNER] = {"owner", ON_RULES | ATTRIBUTE_ON_DEFAULTS, set_owner},
	[ATTRIBUTE_TICKET] = {"ticket", ON_RULES | ATTRIBUTE_ON_DEFAULTS, set_ticket},
	[ATTRIBUTE_EXPIRES] = {"expires", ON_LIMITS, set_expires},
	[ATTRIBUTE_NOTE] = {"note", ON_RULES | ATTRIBUTE_ON_DEFAULTS, set_note},
	[ATTRIBUTE_MODE] = {"mode", ON_LIMITS, set_mode},
	[ATTRIBUTE_SCHEME] = {"scheme", ON_RULES | ATTRIBUTE_ON_DEFAULTS, set_scheme},
	[ATTRIBUTE_TLS] = {"tls", ATTRIBUTE_ON_ALLOW, set_tls},
	[ATTRIBUTE_ADDR] = {"addr", ATTRIBUTE_ON_ALLOW, set_addr},
	[ATTRIBUTE_ENC_SLASH] = {"enc-slash", ATTRIBUTE_ON_ALLOW, set_enc_slash},
	[ATTRIBUTE_REQ_BODY] = {"req-body", ON_LIMITS, set_req_body},
	[ATTRIBUTE_RESP_BODY] = {"resp-body", ON_LIMITS, set_resp_body},
	[ATTRIBUTE_QUERY] = {"query", ON_LIMITS, set_query},
	[ATTRIBUTE_HEADER_DENY] = {"header-deny", ON_LIMITS, set_header_deny},
	[ATTRIBUTE_UPGRADE] = {"upgrade", ATTRIBUTE_ON_ALLOW | ATTRIBUTE_ON_USE, set_upgrade},
	[ATTRIBUTE_RATE] = {"rate", ON_LIMITS, set_rate},
	[ATTRIBUTE_CONNS] = {"conns", ON_LIMITS, set_conns},
	[ATTRIBUTE_TIME] = {"time", ON_LIMITS, set_time},
	[ATTRIBUTE_MAX_USES] = {"max-uses", ON_LIMITS, set_max_uses},
	[ATTRIBUTE_UP] = {"up", ON_LIMITS, set_up},
	[ATTRIBUTE_DOWN] = {"down", ON_LIMITS, set_down},
	[ATTRIBUTE_REQUESTS] = {"requests", ON_LIMITS, set_requests},
	[ATTRIBUTE_WINDOW] = {"window", ON_LIMITS, set_window},
};

static_assert(array_size(entries) == ATTRIBUTE_COUNT, "an entry for every key");

enum attribute_key attribute_of_limit(enum limit limit)
{
	static const enum attribute_key keys[] = {
		[LIMIT_REQ_BODY] = ATTRIBUTE_REQ_BODY,
		[LIMIT_RESP_BODY] = ATTRIBUTE_RESP_BODY,
		[LIMIT_CONNS] = ATTRIBUTE_CONNS,
		[LIMIT_TIME] = ATTRIBUTE_TIME,
		[LIMIT_MAX_USES] = ATTRIBUTE_MAX_USES,
		[LIMIT_UP] = ATTRIBUTE_UP,
		[LIMIT_DOWN] = ATTRIBUTE_DOWN,
		[LIMIT_REQUESTS] = ATTRIBUTE_REQUESTS,
		[LIMIT_WINDOW] = ATTRIBUTE_WINDOW,
		[LIMIT_EXPIRES] = ATTRIBUTE_EXPIRES,
	};
	static_assert(array_size(keys) == LIMIT_COUNT, "a key for every limit");
	return keys[limit];
}

static const char *place_name(enum attribute_place where)
{
	switch (where) {
	case ATTRIBUTE_ON_ALLOW:
		return "an allow rule";
	case ATTRIBUTE_ON_DENY:
		return "a deny rule";
	case ATTRIBUTE_ON_USE:
		return "use, which only narrows";
	case ATTRIBUTE_ON_DEFAULTS:
		return "defaults";
	}
	return "this statement";
}

static void report_unknown(struct parser *p, struct place at, struct slice key)
{
	const char *words[ATTRIBUTE_COUNT + 1] = {NULL};
	char shown[64];
	for (size_t i = 0; i < ATTRIBUTE_COUNT; i++)
		words[i] = entries[i].key;
	const char *near = report_nearest(key, words);
	(void)slice_escape(key, shown, sizeof(shown));
	if (near != NULL)
		report_error(p->tree->report, at, "unknown-attribute",
			"unknown attribute '%s'; did you mean %s?", shown, near);
	else
		report_error(
			p->tree->report, at, "unknown-attribute", "unknown attribute '%s'", shown);
}

static void report_misplaced(
	struct parser *p, struct place at, size_t key, enum attribute_place where)
{
	if (where == ATTRIBUTE_ON_DENY && key == ATTRIBUTE_EXPIRES)
		report_error(p->tree->report, at, "attribute",
			"a deny rule does not expire; remove it when it is no longer wanted");
	else
		report_error(p->tree->report, at, "attribute", "%s= has no meaning on %s",
			entries[key].key, place_name(where));
}

bool attribute_looks_like(struct slice text)
{
	ptrdiff_t at = slice_find(text, '=');
	return at > 0 && text.ptr[0] != '/' && text.ptr[0] != '"';
}

void attribute_split(struct slice text, struct slice *ret_key, struct slice *ret_value)
{
	struct slice value = {NULL, 0};
	*ret_key = text;
	(void)slice_split(text, '=', ret_key, &value); /* the caller saw the '=' */
	if (value.len >= 2 && value.ptr[0] == '"')
		value = slice_part(value, 1, value.len - 1);
	*ret_value = value;
}

/** @return the key, or ATTRIBUTE_COUNT after reporting why there is none. */
static size_t find_key(
	struct parser *p, struct place at, struct slice key, enum attribute_place where)
{
	size_t found = 0;
	while (found < ATTRIBUTE_COUNT && !slice_equal(key, slice_of(entries[found].key)))
		found++;
	if (found == ATTRIBUTE_COUNT) {
		report_unknown(p, at, key);
	} else if ((entries[found].places & (unsigned)where) == 0) {
		report_misplaced(p, at, found, where);
		found = ATTRIBUTE_COUNT;
	}
	return found;
}

static bool parse_one(
	struct parser *p, const struct token *t, enum attribute_place where, struct attributes *to)
{
	struct policy_report *report = p->tree->report;
	struct place at = token_place(p, t, 0);
	struct slice key;
	struct slice value;
	if (!attribute_looks_like(t->text)) {
		char shown[64];
		report_error(report, at, "syntax", "'%s' is not an attribute (key=value)",
			slice_escape(t->text, shown, sizeof(shown)));
		return false;
	}
	attribute_split(t->text, &key, &value);
	size_t found = find_key(p, at, key, where);
	if (found == ATTRIBUTE_COUNT)
		return false;
	if (attribute_given(to->given, (enum attribute_key)found)) {
		report_error(
			report, at, "duplicate-attribute", "%s= stands twice", entries[found].key);
		return false;
	}
	const char *wrong = value.len == 0 ? "a value is missing after ="
					   : entries[found].set(value, to, p->tree->arena);
	if (wrong != NULL) {
		report_error(report, token_place(p, t, key.len + 1), "value", "%s", wrong);
		return false;
	}
	to->given |= UINT32_C(1) << found;
	to->places[found] = at;
	return true;
}

bool attribute_parse(struct parser *p, const struct statement_line *l, size_t from,
	enum attribute_place where, struct attributes *ret)
{
	bool fine = true;
	for (size_t i = from; i < l->count; i++)
		fine = parse_one(p, &l->tokens[i], where, ret) && fine;
	return fine;
}
