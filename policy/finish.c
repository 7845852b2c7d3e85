/* What a rule gets once its whole file was read: defaults, an id, a key. What `require` asks is checked here. See syntax.h. */
#include "policy/syntax.h"

#include <stdio.h>

#define RESP_BODY_BYTES_DEFAULT        (UINT64_C(1) << 30)
#define REQ_BODY_BYTES_DEFAULT_WRITING (UINT64_C(1) << 20)

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

/** Keys that defaults have for every rule, those that deny and those that pass bytes unread. */
static bool default_taken(const struct rule_entry *r, enum attribute_key key)
{
	switch (key) {
	case ATTRIBUTE_OWNER:
	case ATTRIBUTE_TICKET:
		return true;
	case ATTRIBUTE_SCHEME:
	case ATTRIBUTE_QUERY:
	case ATTRIBUTE_REQ_BODY:
	case ATTRIBUTE_RESP_BODY:
	case ATTRIBUTE_HEADER_DENY:
		return r->rule.allow && r->rule.transport == POLICY_INSPECT;
	default: /* on a deny rule the rest would make it narrower than it reads */
		return r->rule.allow;
	}
}

static void apply_default(struct rule_entry *r, enum attribute_key key, const struct attributes *d)
{
	if (key == ATTRIBUTE_OWNER)
		r->rule.owner = d->owner;
	else if (key == ATTRIBUTE_TICKET)
		r->rule.ticket = d->ticket;
	else if (key == ATTRIBUTE_SCHEME)
		r->scheme = d->scheme;
	else if (key == ATTRIBUTE_QUERY)
		r->rule.query_denied = d->query_denied;
	else if (key == ATTRIBUTE_MODE)
		r->rule.observe = d->observe;
	else if (key == ATTRIBUTE_RATE) {
		r->rule.budget.rate_uses = d->rate_uses;
		r->rule.budget.rate_ms = d->rate_ms;
	} else if (key == ATTRIBUTE_HEADER_DENY) {
		r->rule.header_deny = d->header_deny;
		r->rule.header_deny_count = d->header_deny_count;
	}
}

/** What neither the rule nor `defaults` says. */
static void apply_built_in(struct rule_entry *r, uint32_t known)
{
	bool inspected = r->rule.transport == POLICY_INSPECT;
	if (inspected && !attribute_given(known, ATTRIBUTE_REQ_BODY))
		r->rule.req_body_bytes = rule_writes(r) ? REQ_BODY_BYTES_DEFAULT_WRITING : 0;
	if (inspected && !attribute_given(known, ATTRIBUTE_RESP_BODY))
		r->rule.resp_body_bytes = RESP_BODY_BYTES_DEFAULT;
	if (attribute_given(known, ATTRIBUTE_UP))
		return;
	r->rule.budget.up_bytes = POLICY_UP_DEFAULT;
	if (inspected && r->rule.req_body_bytes > POLICY_UP_DEFAULT)
		r->rule.budget.up_bytes = r->rule.req_body_bytes;
}

static void apply_defaults(struct rule_entry *r, const struct attributes *d)
{
	uint32_t taken = 0;
	for (enum attribute_key key = 0; key < ATTRIBUTE_COUNT; key++) {
		if (!attribute_given(d->given, key) || attribute_given(r->given, key) ||
			!default_taken(r, key))
			continue;
		taken |= UINT32_C(1) << key;
		apply_default(r, key, d);
	}
	for (enum limit l = 0; l < LIMIT_COUNT; l++) {
		if (attribute_given(taken, attribute_of_limit(l)))
			limit_set(r, l, d->limits[l]);
	}
	if (r->rule.allow)
		apply_built_in(r, r->given | taken);
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

/** What can be seen only now that defaults are known. */
static void check_whole(struct syntax *tree, const struct rule_entry *r)
{
	const struct rule_budget *b = &r->rule.budget;
	if (!r->rule.allow)
		return;
	if (r->kind == PATTERN_ANY && r->rule.ticket == NULL)
		report_error(tree->report, r->place, "any",
			"any allows every host: say in ticket= who decided that");
	if (attribute_given(r->given, ATTRIBUTE_WINDOW) &&
		!attribute_given(r->given, ATTRIBUTE_UP) && b->down_bytes == POLICY_UNLIMITED &&
		b->requests == POLICY_UNLIMITED)
		report_error(tree->report, r->place, "window",
			"window= is of a budget: up=, down= or requests= goes with it");
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return (hash ^ 0xff) * UINT64_C(1099511628211); /* "ab" "c" is not "a" "bc" */
}

/** By what the rule is called or says, not by where it stands: a line above it changes nothing. */
static uint64_t rule_key(const struct rule_entry *r, const struct section *section)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	hash = hash_text(hash, section == NULL ? "" : section->is_profile ? "profile" : "group");
	hash = hash_text(hash, section == NULL ? "" : section->name);
	if (attribute_given(r->given, ATTRIBUTE_ID)) {
		hash = hash_text(hash, "id");
		return hash_text(hash, r->rule.id);
	}
	static const char *const transports[] = {
		[POLICY_INSPECT] = "inspect", [POLICY_SPLICE] = "splice", [POLICY_TCP] = "tcp"};
	hash = hash_text(hash, transports[r->rule.transport]);
	hash = hash_text(hash, r->target);
	return hash_text(hash, r->admits);
}

void statement_finish_file(struct syntax *tree, const struct source_file *file,
	const struct section *section, struct statement_list *list)
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
		check_whole(tree, r);
		if (rule_describe(r, tree->arena) < 0)
			tree->arena->failed = true;
		else
			r->rule.key = rule_key(r, section);
	}
}
