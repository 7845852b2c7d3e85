/* The statement that allows or denies: its target, methods, paths and attributes. See syntax.h. */
#include "policy/alabel.h"
#include "policy/suffix.h"
#include "policy/syntax.h"
#include "policy/value.h"

#include "common/buf.h"
#include "common/cleanup.h"

#include <stdlib.h>

static const struct port_range default_ports[] = {{443, 443}};
static const struct slice default_methods[] = {{"GET", 3}, {"HEAD", 4}};

static void report_at(
	struct parser *p, const struct token *t, size_t offset, const char *code, const char *text)
{
	report_error(p->tree->report, token_place(p, t, offset), code, "%s", text);
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

/** A host by one of the spellings for names. */
static bool parse_host(
	struct parser *p, const struct token *t, struct slice name, struct rule_entry *r)
{
	struct host host;
	size_t offset = 0;
	const char *wrong = pattern_parse_host(name, &r->kind, &host, &offset);
	if (wrong != NULL) {
		report_host(p, t, offset, name, wrong);
		return false;
	}
	if (!check_host(p, t, r, &host))
		return false;
	r->name = (struct slice){arena_dup(p->tree->arena, slice_of(host.name)), strlen(host.name)};
	return r->name.ptr != NULL;
}

/** What follows "ip:". The rule opens its own addresses, as addr= would. */
static bool parse_address(
	struct parser *p, const struct token *t, struct slice text, struct rule_entry *r)
{
	char written[ADDRESS_TEXT_BYTES];
	struct buf name = {.limit = 0};
	const char *wrong = pattern_parse_address(text, &r->prefix);
	if (wrong != NULL) {
		report_at(p, t, 3, "address", wrong);
		return false;
	}
	bool six = r->prefix.base.family == 6;
	bool whole = r->prefix.bits == (six ? 128 : 32);
	(void)buf_printf(&name, "%s%s", six ? "[" : "", address_format(&r->prefix.base, written));
	if (!whole)
		(void)buf_printf(&name, "/%u", r->prefix.bits);
	(void)buf_append_text(&name, six ? "]" : "");
	r->kind = PATTERN_ADDRESS;
	r->name.len = buf_len(&name);
	r->name.ptr = name.failed ? NULL : arena_dup(p->tree->arena, buf_slice(&name));
	buf_fini(&name);
	p->tree->arena->failed = p->tree->arena->failed || r->name.ptr == NULL;
	return r->name.ptr != NULL;
}

/** Where the ports begin, behind their colon; 0: there are none. */
static size_t ports_start(struct slice text)
{
	size_t from = slice_starts(text, SLICE("ip:")) ? 3 : 0;
	ptrdiff_t bracket = slice_find(text, ']');
	if (bracket >= 0)
		from = (size_t)bracket;
	ptrdiff_t colon = slice_find(slice_part(text, from, text.len), ':');
	return colon < 0 ? 0 : from + (size_t)colon + 1;
}

/** What people write who think of a URL, of an address or of a list, or NULL. @text the whole word, @name without ports. */
static const char *foreign_target(struct slice text, struct slice name)
{
	struct cidr prefix;
	if (slice_starts(text, SLICE("https://")) || slice_starts(text, SLICE("http://")))
		return "a rule is no URL: write HOST[:PORTS] METHODS /PATH (:80 is plain HTTP)";
	if (slice_starts(text, SLICE("[")) || cidr_parse(text, &prefix) == 0)
		return "this is an address, not a host name; ip: in front of it names an address";
	if (slice_find(text, '/') >= 0 && !slice_starts(text, SLICE("ip:")))
		return "a blank stands before the path: write HOST[:PORTS] METHODS /PATH";
	if (slice_find(name, ',') >= 0)
		return "a rule names one host: write a rule for each";
	return NULL;
}

static bool parse_target(struct parser *p, const struct token *t, struct rule_entry *r)
{
	struct slice text = t->text;
	size_t start = ports_start(text);
	struct slice name = slice_part(text, 0, start > 0 ? start - 1 : text.len);
	const char *wrong = foreign_target(text, name);
	bool fine = true;
	if (wrong != NULL) {
		report_at(p, t, 0, "host", wrong);
		return false;
	}
	if (slice_equal(name, SLICE("any"))) {
		r->kind = PATTERN_ANY;
		r->name = SLICE("");
	} else if (slice_starts(name, SLICE("ip:"))) {
		fine = parse_address(p, t, slice_part(name, 3, name.len), r);
	} else {
		fine = parse_host(p, t, name, r);
	}
	if (fine && start > 0)
		wrong = value_ports(slice_part(text, start, text.len), p->tree->arena, &r->ports,
			&r->port_count);
	if (wrong != NULL)
		report_at(p, t, start, "port", wrong);
	return fine && wrong == NULL;
}

static bool parse_methods(struct parser *p, const struct token *t, struct rule_entry *r)
{
	const char *wrong = value_methods(t->text, p->tree->arena, &r->methods, &r->method_count);
	if (wrong != NULL && slice_find(t->text, '/') >= 0)
		wrong = "a path begins with /";
	else if (wrong != NULL && slice_find(t->text, '.') >= 0)
		wrong = "a rule names one host, and it first: HOST[:PORTS] METHODS /PATH";
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
	r->rule.observe = a->observe;
	r->rule.websocket = a->websocket;
	r->rule.addresses = r->kind == PATTERN_ADDRESS ? &r->prefix : a->addresses;
	r->rule.address_count = r->kind == PATTERN_ADDRESS ? 1 : a->address_count;
	r->rule.header_deny = a->header_deny;
	r->rule.header_deny_count = a->header_deny_count;
	r->rule.budget.rate_uses = a->rate_uses;
	r->rule.budget.rate_ms = a->rate_ms;
	for (enum limit l = 0; l < LIMIT_COUNT; l++) {
		if (attribute_given(a->given, attribute_of_limit(l)))
			limit_set(r, l, a->limits[l]);
	}
	if (a->splice && r->rule.transport == POLICY_INSPECT)
		r->rule.transport = POLICY_SPLICE;
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

/** What a rule whose bytes nobody reads can't say. */
static bool check_unread(struct parser *p, const struct rule_entry *r, const struct attributes *a)
{
	static const enum attribute_key requests_only[] = {ATTRIBUTE_SCHEME, ATTRIBUTE_ENC_SLASH,
		ATTRIBUTE_REQ_BODY, ATTRIBUTE_RESP_BODY, ATTRIBUTE_QUERY, ATTRIBUTE_HEADER_DENY,
		ATTRIBUTE_UPGRADE};
	const char *what = r->rule.transport == POLICY_TCP ? "a tcp target" : "tls=splice";
	bool fine = true;
	for (size_t i = 0; i < array_size(requests_only); i++) {
		if (!attribute_given(a->given, requests_only[i]))
			continue;
		report_error(p->tree->report, a->places[requests_only[i]], "unread",
			"%s passes bytes unread: this attribute of requests could not hold", what);
		fine = false;
	}
	if (r->rule.transport == POLICY_TCP && attribute_given(a->given, ATTRIBUTE_TLS)) {
		report_error(p->tree->report, a->places[ATTRIBUTE_TLS], "unread",
			"a tcp target carries no TLS; a host without tcp in front of it does");
		fine = false;
	}
	return fine;
}

/** Words that only requests have, on a rule that sees none. @requests: the first of them, or NULL. */
static bool check_transport(struct parser *p, struct rule_entry *r, const struct attributes *a,
	const struct token *requests)
{
	if (r->rule.transport == POLICY_INSPECT)
		return true;
	bool tcp = r->rule.transport == POLICY_TCP;
	bool fine = check_unread(p, r, a);
	if (requests != NULL) {
		report_error(p->tree->report, token_place(p, requests, 0), "unread",
			"%s passes bytes unread: methods and paths could not hold",
			tcp ? "a tcp target" : "tls=splice");
		fine = false;
	}
	if (!tcp && r->kind == PATTERN_ADDRESS) {
		report_error(p->tree->report, a->places[ATTRIBUTE_TLS], "unread",
			"TLS to an address has no server name that splice could check; use tcp, or "
			"inspect it");
		fine = false;
	}
	r->scheme = tcp ? RULE_SCHEME_ANY : RULE_SCHEME_HTTPS;
	r->methods = NULL;
	r->method_count = 0;
	return fine;
}

static bool check_address(struct parser *p, const struct rule_entry *r, const struct attributes *a)
{
	if (r->kind != PATTERN_ADDRESS || !attribute_given(a->given, ATTRIBUTE_ADDR))
		return true;
	report_error(p->tree->report, a->places[ATTRIBUTE_ADDR], "addr",
		"an ip: target opens its own addresses, and has no others");
	return false;
}

/** What follows the target: methods, paths, attributes. */
static bool parse_rest(
	struct parser *p, const struct statement_line *l, size_t at, struct rule_entry *r)
{
	struct attributes attributes = {.given = 0};
	bool fine = true;
	size_t first = at;
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
	fine = check_transport(p, r, &attributes, at > first ? &l->tokens[first] : NULL) && fine;
	return check_address(p, r, &attributes) && fine;
}

/** What an omitted word means. A deny rule covers everything that it does not restrict. */
static void rule_start(struct rule_entry *r, bool allow)
{
	r->rule.allow = allow;
	for (enum limit l = 0; l < LIMIT_COUNT; l++)
		limit_set(r, l, l == LIMIT_WINDOW ? 0 : POLICY_UNLIMITED);
	r->scheme = allow ? RULE_SCHEME_BY_PORT : RULE_SCHEME_ANY;
	if (!allow)
		return;
	r->ports = default_ports;
	r->port_count = 1;
	r->methods = default_methods;
	r->method_count = 2;
}

/** tcp in front of a target that was parsed. */
static bool start_tcp(struct parser *p, const struct token *t, struct rule_entry *r)
{
	const char *wrong = NULL;
	if (!r->rule.allow)
		wrong = "a deny rule covers every kind of connection; leave out tcp";
	else if (r->ports == NULL || r->ports == default_ports)
		wrong = "a tcp target names its ports: tcp HOST:PORT";
	if (wrong != NULL)
		report_at(p, t, 0, "tcp", wrong);
	r->rule.transport = POLICY_TCP;
	return wrong == NULL;
}

void statement_rule(struct parser *p, const struct statement_line *l, bool allow, size_t from)
{
	const struct token *start = &l->tokens[0];
	struct syntax *tree = p->tree;
	bool tcp = l->count > from && slice_equal(l->tokens[from].text, SLICE("tcp"));
	size_t target = from + tcp;
	if (l->count <= target) {
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
	bool fine = parse_target(p, &l->tokens[target], r);
	if (tcp)
		fine = start_tcp(p, &l->tokens[from], r) && fine;
	fine = parse_rest(p, l, target + 1, r) && fine;
	r->rule.text = fine ? statement_text(p, l, from) : NULL;
	if (r->rule.text == NULL)
		return;
	struct statement *s = statement_add(p, STATEMENT_RULE, start);
	if (s != NULL)
		s->rule = r;
}
