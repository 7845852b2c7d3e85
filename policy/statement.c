/* Statements inside a section: rules, use, set, expect. See syntax.h. */
#include "policy/alabel.h"
#include "policy/suffix.h"
#include "policy/syntax.h"
#include "policy/value.h"

#include "common/buf.h"

#include <stdio.h>
#include <stdlib.h>

#define RESP_BODY_BYTES_DEFAULT        (UINT64_C(1) << 30)
#define REQ_BODY_BYTES_DEFAULT_WRITING (UINT64_C(1) << 20)

static const struct port_range default_ports[] = {{443, 443}};
static const struct slice default_methods[] = {{"GET", 3}, {"HEAD", 4}};

static void report_at(
	struct parser *p, const struct token *t, size_t offset, const char *code, const char *text)
{
	report_error(p->tree->report, token_place(p, t, offset), code, "%s", text);
}

static struct statement *statement_add(
	struct parser *p, enum statement_kind kind, const struct token *at)
{
	struct statement_list *list =
		p->section == NULL ? &p->tree->globals : &p->section->statements;
	struct statement *s = arena_alloc(p->tree->arena, 1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->kind = kind;
	s->place = token_place(p, at, 0);
	if (list->last == NULL)
		list->first = s;
	else
		list->last->next = s;
	list->last = s;
	return s;
}

/** Room for one more use or expect line. */
static bool count_other(struct parser *p, const struct token *at)
{
	if (p->tree->other_count++ < SYNTAX_STATEMENTS_MAX)
		return true;
	if (p->tree->other_count == SYNTAX_STATEMENTS_MAX + 1)
		report_at(p, at, 0, "too-many", "more than 20000 use and expect lines");
	return false;
}

/** The words of a statement with one blank between them. */
static const char *statement_text(struct parser *p, const struct statement_line *l, size_t from)
{
	struct buf text = {.limit = 0};
	if (from == 0)
		(void)buf_append_text(&text, "allow");
	for (size_t i = 0; i < l->count; i++) {
		if (buf_len(&text) > 0)
			(void)buf_append_text(&text, " ");
		(void)buf_append(&text, l->tokens[i].text);
	}
	const char *copy = text.failed ? NULL : arena_dup(p->tree->arena, buf_slice(&text));
	p->tree->arena->failed = p->tree->arena->failed || text.failed;
	buf_fini(&text);
	return copy;
}

static bool unsupported_target(struct parser *p, const struct token *t)
{
	const char *what = NULL;
	if (slice_equal(t->text, SLICE("tcp")))
		what = "tcp targets are not supported by this version";
	else if (slice_equal(t->text, SLICE("any")) || slice_starts(t->text, SLICE("any:")))
		what = "any is not supported by this version; name the hosts";
	else if (slice_starts(t->text, SLICE("ip:")))
		what = "ip: targets are not supported by this version";
	if (what != NULL)
		report_at(p, t, 0, "unsupported", what);
	return what != NULL;
}

/** A wildcard in front of @host. False: it covers names of strangers. */
static bool check_suffix(struct parser *p, struct place at, const char *host)
{
	struct policy_report *report = p->tree->report;
	enum suffix_kind kind = suffix_classify(host);
	if (kind == SUFFIX_UNKNOWN)
		report_error(report, at, "host",
			"the wildcard covers a whole public suffix; name at least two labels (the "
			"public suffix list does not know '%.63s'; by its default rule it is one)",
			host);
	else if (kind == SUFFIX_PUBLIC)
		report_error(report, at, "host",
			"the wildcard covers a whole public suffix; name at least one label in "
			"front of '%.100s', where anybody may register names",
			host);
	return kind != SUFFIX_UNKNOWN && kind != SUFFIX_PUBLIC;
}

/** What pattern_parse_host() refused; with more to say of names in other letters and of suffixes. */
static void report_host(struct parser *p, const struct token *t, size_t offset, struct slice name,
	const char *wrong)
{
	char found[HOST_NAME_BYTES];
	struct host host;
	size_t prefix = 0;
	while (prefix < name.len && (name.ptr[prefix] == '*' || name.ptr[prefix] == '.'))
		prefix++;
	struct slice bare = slice_part(name, prefix, name.len);
	bool ascii = offset >= name.len || (unsigned char)name.ptr[offset] < 0x80;
	if (!ascii && alabel_from_text(bare, found) == 0)
		report_error(p->tree->report, token_place(p, t, offset), "host",
			"the host is not ASCII; write the A-label (xn--...): %.*s%.180s",
			(int)prefix, name.ptr, found);
	else if (!ascii || prefix == 0 || slice_find(bare, '.') >= 0 ||
		host_parse(bare, &host) < 0 || host.kind != HOST_NAME ||
		check_suffix(p, token_place(p, t, offset), host.name))
		report_at(p, t, offset, "host", wrong);
}

/** What only lists of the world's names know: suffixes, scripts. */
static bool check_host(struct parser *p, const struct token *t, const struct rule_entry *r,
	const struct host *host)
{
	if (alabel_mixes_scripts(host->name)) {
		report_at(p, t, 0, "mixed-script",
			"a label of this name mixes scripts, so that people read another name");
		return false;
	}
	return r->kind == PATTERN_EXACT || check_suffix(p, token_place(p, t, 0), host->name);
}

static bool parse_target(struct parser *p, const struct token *t, struct rule_entry *r)
{
	struct slice name = t->text;
	struct slice ports = {NULL, 0};
	struct host host;
	size_t offset = 0;
	if (unsupported_target(p, t))
		return false;
	if (slice_starts(t->text, SLICE("["))) {
		report_at(p, t, 0, "host",
			"this is an address, not a host name; ip: targets are not supported by "
			"this version");
		return false;
	}
	bool has_ports = slice_split(t->text, ':', &name, &ports);
	const char *wrong = pattern_parse_host(name, &r->kind, &host, &offset);
	if (wrong != NULL) {
		report_host(p, t, offset, name, wrong);
		return false;
	}
	if (!check_host(p, t, r, &host))
		return false;
	r->name = (struct slice){arena_dup(p->tree->arena, slice_of(host.name)), strlen(host.name)};
	wrong = has_ports ? value_ports(ports, p->tree->arena, &r->ports, &r->port_count) : NULL;
	if (wrong != NULL)
		report_at(p, t, name.len + 1, "port", wrong);
	return wrong == NULL && r->name.ptr != NULL;
}

static bool parse_methods(struct parser *p, const struct token *t, struct rule_entry *r)
{
	const char *wrong = value_methods(t->text, p->tree->arena, &r->methods, &r->method_count);
	if (wrong != NULL)
		report_at(p, t, 0, "method", wrong);
	return wrong == NULL;
}

/** Paths from @from on; *ret_next: the token after them. */
static bool parse_paths(struct parser *p, const struct statement_line *l, size_t from,
	struct rule_entry *r, size_t *ret_next)
{
	bool fine = true;
	bool everything = false;
	size_t count = 0;
	struct slice *paths = arena_alloc(p->tree->arena, l->count, sizeof(*paths));
	if (paths == NULL)
		return false;
	size_t at = from;
	for (; at < l->count && l->tokens[at].text.ptr[0] == '/'; at++) {
		const struct token *t = &l->tokens[at];
		size_t offset;
		const char *wrong = pattern_check_path(t->text, &offset);
		if (wrong != NULL) {
			report_at(p, t, offset, "path", wrong);
			fine = false;
			continue;
		}
		everything = everything || slice_equal(t->text, SLICE("/**"));
		paths[count].ptr = arena_dup(p->tree->arena, t->text);
		paths[count].len = t->text.len;
		fine = fine && paths[count].ptr != NULL;
		count++;
	}
	*ret_next = at;
	if (!fine)
		return false;
	qsort(paths, count, sizeof(*paths), value_compare_slices);
	r->paths = paths;
	r->path_count = count == 1 && everything ? 0 : count;
	return true;
}

/** Why a word stands where an attribute belongs, or NULL. */
static const char *stray_word(struct slice text)
{
	if (text.ptr[0] == '/')
		return "paths stand before attributes";
	if (!attribute_looks_like(text))
		return "after the host come one list of methods (GET,POST), paths (/...), then "
		       "attributes (key=value)";
	return NULL;
}

static void apply_attributes(struct rule_entry *r, const struct attributes *a)
{
	r->given = a->given;
	r->rule.id = a->id;
	r->rule.owner = a->owner;
	r->rule.ticket = a->ticket;
	r->rule.encoded_slash = a->encoded_slash;
	r->rule.query_denied = a->query_denied;
	r->rule.req_body_bytes = a->req_body_bytes;
	r->rule.resp_body_bytes = a->resp_body_bytes;
	r->rule.addresses = a->addresses;
	r->rule.address_count = a->address_count;
	r->expires_ms =
		attribute_given(a->given, ATTRIBUTE_EXPIRES) ? a->expires_ms : RULE_NEVER_MS;
	if (attribute_given(a->given, ATTRIBUTE_SCHEME))
		r->scheme = a->scheme;
}

static void warn_public_addresses(struct parser *p, const struct attributes *a)
{
	for (size_t i = 0; i < a->address_count; i++) {
		if (address_classify(&a->addresses[i].base) != ADDRESS_PUBLIC)
			continue;
		report_warning(p->tree->report, a->places[ATTRIBUTE_ADDR], "addr",
			"addr= opens addresses beyond public ones; it does not restrict, and "
			"public ones are open anyway");
		return;
	}
}

/** What follows the target: methods, paths, attributes. */
static bool parse_rest(
	struct parser *p, const struct statement_line *l, size_t at, struct rule_entry *r)
{
	struct attributes attributes = {.given = 0};
	bool fine = true;
	if (at < l->count && l->tokens[at].text.ptr[0] != '/' &&
		!attribute_looks_like(l->tokens[at].text))
		fine = parse_methods(p, &l->tokens[at++], r);
	fine = parse_paths(p, l, at, r, &at) && fine;
	for (size_t i = at; i < l->count; i++) {
		const char *wrong = stray_word(l->tokens[i].text);
		if (wrong != NULL) {
			report_at(p, &l->tokens[i], 0, "syntax", wrong);
			return false;
		}
	}
	enum attribute_place where = r->rule.allow ? ATTRIBUTE_ON_ALLOW : ATTRIBUTE_ON_DENY;
	fine = attribute_parse(p, l, at, where, &attributes) && fine;
	apply_attributes(r, &attributes);
	warn_public_addresses(p, &attributes);
	return fine;
}

/** What an omitted word means. A deny rule covers everything that it does not restrict. */
static void rule_start(struct rule_entry *r, bool allow)
{
	r->rule.allow = allow;
	r->scheme = allow ? RULE_SCHEME_BY_PORT : RULE_SCHEME_ANY;
	if (!allow)
		return;
	r->ports = default_ports;
	r->port_count = 1;
	r->methods = default_methods;
	r->method_count = 2;
}

void statement_rule(struct parser *p, const struct statement_line *l, bool allow, size_t from)
{
	const struct token *start = &l->tokens[0];
	struct syntax *tree = p->tree;
	if (l->count == from) {
		report_at(p, start, 0, "syntax", "a host is missing");
		return;
	}
	if (tree->rule_count++ >= SYNTAX_RULES_MAX) {
		if (tree->rule_count == SYNTAX_RULES_MAX + 1)
			report_at(p, start, 0, "too-many", "more than 20000 rules");
		return;
	}
	struct rule_entry *r = arena_alloc(tree->arena, 1, sizeof(*r));
	if (r == NULL)
		return;
	r->source = r;
	r->place = token_place(p, start, 0);
	r->rule.file = p->file->name;
	r->rule.line = start->line;
	rule_start(r, allow);
	size_t rest = from + (slice_equal(l->tokens[from].text, SLICE("tcp")) ? 2 : 1);
	bool fine = parse_target(p, &l->tokens[from], r);
	fine = parse_rest(p, l, rest, r) && fine;
	r->rule.text = fine ? statement_text(p, l, from) : NULL;
	if (r->rule.text == NULL)
		return;
	struct statement *s = statement_add(p, STATEMENT_RULE, start);
	if (s != NULL)
		s->rule = r;
}

void statement_use(struct parser *p, const struct statement_line *l)
{
	if (!count_other(p, &l->tokens[0]))
		return;
	if (l->count == 1) {
		report_at(p, &l->tokens[0], 0, "syntax", "write: use GROUP [expires=DATE ...]");
		return;
	}
	const char *wrong = value_name(l->tokens[1].text);
	if (wrong != NULL) {
		report_at(p, &l->tokens[1], 0, "name", wrong);
		return;
	}
	struct use *use = arena_alloc(p->tree->arena, 1, sizeof(*use));
	if (use == NULL || !attribute_parse(p, l, 2, ATTRIBUTE_ON_USE, &use->narrow))
		return;
	use->group = arena_dup(p->tree->arena, l->tokens[1].text);
	struct statement *s =
		use->group == NULL ? NULL : statement_add(p, STATEMENT_USE, &l->tokens[1]);
	if (s != NULL)
		s->use = use;
}

struct setting {
	const char *key;
	const char *value; /* the one that is in force; others need a later version */
};

void statement_set(struct parser *p, const struct statement_line *l)
{
	static const struct setting settings[] = {{"mode", "enforce"}, {"on-full", "deny"},
		{"dns", "proxy-only"}, {"commit", "after"}, {"tls-min", "1.2"}};
	if (l->count != 3) {
		report_at(p, &l->tokens[0], 0, "syntax", "write: set KEY VALUE");
		return;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (!slice_equal(l->tokens[1].text, slice_of(settings[i].key)))
			continue;
		if (!slice_equal(l->tokens[2].text, slice_of(settings[i].value)))
			report_error(p->tree->report, token_place(p, &l->tokens[2], 0),
				"unsupported", "set %s takes only %s in this version",
				settings[i].key, settings[i].value);
		return;
	}
	report_at(p, &l->tokens[1], 0, "unknown-setting",
		"unknown setting; there are mode, on-full, dns, commit and tls-min");
}

static bool known_code(struct slice code)
{
	for (int i = 0; i < REASON_COUNT; i++) {
		if (slice_equal(code, slice_of(reason_code((enum reason)i))))
			return true;
	}
	return false;
}

/** by=, code=, at= of an expect line. @return NULL or what is wrong. */
static const char *expect_attribute(struct parser *p, struct slice text, struct expect *e)
{
	struct slice key;
	struct slice value;
	if (!attribute_looks_like(text))
		return "write: expect allow|deny METHOD URL [by=ID] [code=REASON] [at=DATE]";
	attribute_split(text, &key, &value);
	if (slice_equal(key, SLICE("by"))) {
		e->by = arena_dup(p->tree->arena, value);
		return NULL;
	}
	if (slice_equal(key, SLICE("code"))) {
		e->code = arena_dup(p->tree->arena, value);
		return known_code(value) ? NULL : "there is no such reason code";
	}
	if (slice_equal(key, SLICE("at"))) {
		const char *wrong = value_date(value, &e->at_ms);
		e->at_ms -= wrong == NULL; /* the last moment of that day */
		return wrong;
	}
	return "an expect line takes by=, code= and at=";
}

void statement_expect(struct parser *p, const struct statement_line *l)
{
	if (!count_other(p, &l->tokens[0]))
		return;
	bool allow = l->count > 1 && slice_equal(l->tokens[1].text, SLICE("allow"));
	bool deny = l->count > 1 && slice_equal(l->tokens[1].text, SLICE("deny"));
	if (l->count < 4 || !(allow || deny)) {
		report_at(p, &l->tokens[0], 0, "syntax",
			"write: expect allow|deny METHOD URL [by=ID] [code=REASON] [at=DATE]");
		return;
	}
	struct expect *e = arena_alloc(p->tree->arena, 1, sizeof(*e));
	if (e == NULL)
		return;
	e->allow = allow;
	e->method = l->tokens[2].text;
	e->url = l->tokens[3].text;
	e->url_place = token_place(p, &l->tokens[3], 0);
	for (size_t i = 4; i < l->count; i++) {
		const char *wrong = expect_attribute(p, l->tokens[i].text, e);
		if (wrong != NULL) {
			report_at(p, &l->tokens[i], 0, "value", wrong);
			return;
		}
	}
	struct statement *s = statement_add(p, STATEMENT_EXPECT, &l->tokens[0]);
	if (s != NULL)
		s->expect = e;
}

/** Whether a rule takes a method that usually carries a body. */
static bool rule_writes(const struct rule_entry *r)
{
	static const char *const reading[] = {"GET", "HEAD", "OPTIONS", "TRACE"};
	for (size_t i = 0; i < r->method_count; i++) {
		bool reads = false;
		for (size_t j = 0; j < sizeof(reading) / sizeof(reading[0]); j++)
			reads = reads || slice_equal(r->methods[i], slice_of(reading[j]));
		if (!reads)
			return true;
	}
	return r->method_count == 0;
}

/** What neither the rule nor `defaults` says. */
static void apply_defaults(struct rule_entry *r, const struct attributes *d)
{
	uint32_t taken = d->given & ~r->given;
	if (attribute_given(taken, ATTRIBUTE_OWNER))
		r->rule.owner = d->owner;
	if (attribute_given(taken, ATTRIBUTE_TICKET))
		r->rule.ticket = d->ticket;
	if (!r->rule.allow) /* the rest would make a deny rule narrower than it reads */
		return;
	if (attribute_given(taken, ATTRIBUTE_EXPIRES))
		r->expires_ms = d->expires_ms;
	if (attribute_given(taken, ATTRIBUTE_SCHEME))
		r->scheme = d->scheme;
	if (attribute_given(taken, ATTRIBUTE_QUERY))
		r->rule.query_denied = d->query_denied;
	uint32_t known = d->given | r->given;
	if (attribute_given(taken, ATTRIBUTE_REQ_BODY))
		r->rule.req_body_bytes = d->req_body_bytes;
	else if (!attribute_given(known, ATTRIBUTE_REQ_BODY))
		r->rule.req_body_bytes = rule_writes(r) ? REQ_BODY_BYTES_DEFAULT_WRITING : 0;
	if (attribute_given(taken, ATTRIBUTE_RESP_BODY))
		r->rule.resp_body_bytes = d->resp_body_bytes;
	else if (!attribute_given(known, ATTRIBUTE_RESP_BODY))
		r->rule.resp_body_bytes = RESP_BODY_BYTES_DEFAULT;
}

static void check_required(
	struct syntax *tree, const struct source_file *file, const struct rule_entry *r)
{
	const char *missing = NULL;
	if ((file->required & REQUIRE_OWNER) != 0 && r->rule.owner == NULL)
		missing = "owner";
	else if ((file->required & REQUIRE_TICKET) != 0 && r->rule.ticket == NULL)
		missing = "ticket";
	else if ((file->required & REQUIRE_EXPIRES) != 0 && r->rule.allow &&
		r->expires_ms == RULE_NEVER_MS)
		missing = "expires";
	if (missing != NULL)
		report_error(tree->report, r->place, "required",
			"this file requires %s= on every rule", missing);
}

void statement_finish_file(
	struct syntax *tree, const struct source_file *file, struct statement_list *list)
{
	for (struct statement *s = list->first; s != NULL; s = s->next) {
		if (s->kind != STATEMENT_RULE || s->rule->rule.file != file->name)
			continue;
		struct rule_entry *r = s->rule;
		apply_defaults(r, &file->defaults);
		check_required(tree, file, r);
		r->wants_test = (file->required & REQUIRE_TESTS) != 0;
		if (r->rule.id == NULL) {
			char id[BUNDLE_NAME_BYTES_MAX + 16];
			(void)snprintf(id, sizeof(id), "%s:%u", r->rule.file, r->rule.line);
			r->rule.id = arena_dup(tree->arena, slice_of(id));
		}
		if (rule_describe(r, tree->arena) < 0)
			tree->arena->failed = true;
	}
}
