/* One rule, looked at by itself. See lint.h. Input: rules that the compiler checked. */
#include "policy/lint_pass.h"
#include "policy/suffix.h"
#include "policy/syntax.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define DAY_MS           UINT64_C(86400000)
#define BODY_BYTES_LARGE (UINT64_C(1) << 20)
#define DATE_BYTES       16

/** The last day on which the rule holds. */
static char *format_day(uint64_t expires_ms, char to[static DATE_BYTES])
{
	time_t seconds = (time_t)((expires_ms - 1) / 1000);
	struct tm day;
	if (expires_ms == 0 || gmtime_r(&seconds, &day) == NULL ||
		strftime(to, DATE_BYTES, "%Y-%m-%d", &day) == 0)
		to[0] = '\0';
	return to;
}

static void check_expiry(struct lint *l, const struct rule_entry *r)
{
	char day[DATE_BYTES];
	uint64_t now_ms = l->options->now_ms;
	if (!r->rule.allow || r->expires_ms == RULE_NEVER_MS)
		return;
	(void)format_day(r->expires_ms, day);
	if (now_ms >= r->expires_ms && l->options->strict)
		report_error(l->report, r->place, "expired",
			"this rule ended with %s in profile %s and matches nothing", day,
			l->profile->name);
	else if (now_ms >= r->expires_ms)
		report_warning(l->report, r->place, "expired",
			"this rule ended with %s in profile %s and matches nothing", day,
			l->profile->name);
	else if (r->expires_ms - now_ms < LINT_SOON_DAYS * DAY_MS)
		report_warning(l->report, r->place, "expires-soon",
			"this rule ends with %s in profile %s, in less than %d days", day,
			l->profile->name, LINT_SOON_DAYS);
}

/** The shared host at or above the name, or NULL. */
static const char *shared_host(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		/* names end in the NUL that arena_dup() put there */
		if ((i == 0 || name.ptr[i - 1] == '.') &&
			suffix_classify(name.ptr + i) == SUFFIX_HOSTING)
			return name.ptr + i;
	}
	return NULL;
}

static bool writes(const struct rule_entry *r)
{
	return rule_has_method(r, SLICE("POST")) || rule_has_method(r, SLICE("PUT")) ||
		rule_has_method(r, SLICE("PATCH"));
}

static void check_hosting(struct lint *l, const struct rule_entry *r)
{
	const char *shared = r->rule.allow ? shared_host(r->name) : NULL;
	if (shared == NULL)
		return;
	if (r->kind != PATTERN_EXACT && shared == r->name.ptr)
		report_warning(l->report, r->place, "shared-hosting",
			"names below '%.100s' belong to customers of one company (private part of "
			"the public suffix list); better name the hosts",
			shared);
	if (r->rule.transport == POLICY_SPLICE)
		report_warning(l->report, r->place, "splice-hosting",
			"tls=splice at '%.100s': servers there share addresses and certificates, and "
			"inside of TLS a request may name another customer's",
			shared);
	uint64_t bytes = r->rule.transport == POLICY_INSPECT ? r->rule.req_body_bytes
							     : r->rule.budget.up_bytes;
	if (writes(r) && bytes > BODY_BYTES_LARGE)
		report_warning(l->report, r->place, "exfiltration",
			"up to %" PRIu64
			" bytes may be sent at once to a host of '%.100s', where anybody may rent "
			"one",
			bytes, shared);
}

/** A note= counts as an answer: whoever wrote it saw the question. */
static void check_plain(struct lint *l, const struct rule_entry *r)
{
	bool plain = false;
	for (size_t i = 0; i < r->port_count && !plain; i++)
		plain = rule_has_scheme(r, r->ports[i].first, POLICY_SCHEME_HTTP) ||
			(r->ports[i].first <= 80 && r->ports[i].last >= 80 &&
				rule_has_scheme(r, 80, POLICY_SCHEME_HTTP));
	if (plain && r->rule.allow && r->rule.transport == POLICY_INSPECT &&
		!attribute_given(r->given, ATTRIBUTE_NOTE))
		report_warning(l->report, r->place, "plain-http",
			"plain HTTP: who sits on the way reads it and changes what is received; say in "
			"note= why that does no harm (signed content), or allow only TLS");
}

/** Both defaults are the same, and silent: most bodies are far from it. */
static void check_up(struct lint *l, const struct rule_entry *r)
{
	uint64_t up = r->rule.budget.up_bytes;
	uint64_t body = r->rule.req_body_bytes;
	bool unsaid = up == POLICY_UP_DEFAULT && !attribute_given(r->given, ATTRIBUTE_UP);
	if (!r->rule.allow || r->rule.transport != POLICY_INSPECT || up > body || unsaid)
		return;
	report_warning(l->report, r->place, "up-budget",
		"one request body of req-body=%" PRIu64 " may use the whole budget of up=%" PRIu64
		"; after it, nothing more is sent by this rule",
		body, up);
}

static void check_tested(struct lint *l, const struct rule_entry *r)
{
	if (r->source == NULL || r->source->tested)
		return;
	if (l->options->observed)
		report_warning(l->report, r->place, "untested",
			"no expect line and no request that was observed is decided by this rule");
	else if (r->source->wants_test)
		report_warning(l->report, r->place, "untested",
			"this file requires tests, and no expect line is decided by this rule");
}

/** Addresses that mean something else between a sandbox and the proxy (netd/address_plan.c). */
static const struct gateway_address {
	struct cidr prefix;
	const char *text;
	const char *meaning;
} gateway_addresses[] = {
	{{{.family = 4, .bytes = {198, 18}}, 15}, "198.18.0.0/15", "stands for names"},
	{{{.family = 4, .bytes = {10, 255, 255, 254}}, 32}, "10.255.255.254", "is the proxy"},
};

static bool lies_in(const struct cidr *inner, const struct cidr *outer)
{
	return inner->bits >= outer->bits && cidr_contains(outer, &inner->base);
}

/** A rule that is for nothing else is a mistake (warning); one that covers such addresses among others has them left out (note). */
static void check_gateway_addresses(struct lint *l, const struct rule_entry *r, bool notes)
{
	for (size_t i = 0; i < array_size(gateway_addresses) && r->rule.allow; i++) {
		const struct gateway_address *a = &gateway_addresses[i];
		if (r->kind != PATTERN_ADDRESS)
			return;
		if (!notes && lies_in(&r->prefix, &a->prefix))
			report_warning(l->report, r->place, "gateway-address",
				"%s %s in a sandbox: no client that knows no proxy reaches such an "
				"address by this rule",
				a->text, a->meaning);
		else if (notes && !lies_in(&r->prefix, &a->prefix) &&
			lies_in(&a->prefix, &r->prefix))
			report_note(l->report, r->place, "gateway-address",
				"without %s, which %s in a sandbox, for clients that know no proxy",
				a->text, a->meaning);
	}
}

void lint_rule(struct lint *l, const struct rule_entry *r)
{
	check_gateway_addresses(l, r, false);
	check_expiry(l, r);
	check_hosting(l, r);
	check_plain(l, r);
	check_up(l, r);
	check_tested(l, r);
}

/** Of a deny rule only what it does not cover may surprise. */
static void note_wildcard(struct lint *l, const struct rule_entry *r)
{
	int len = r->name.len > 60 ? 60 : (int)r->name.len;
	const char *name = r->name.ptr;
	if (r->kind == PATTERN_LABEL)
		report_note(l->report, r->place, "wildcard",
			"*.%.*s covers one label (a.%.*s), not %.*s and not b.a.%.*s", len, name,
			len, name, len, name, len, name);
	else if (r->kind == PATTERN_BELOW)
		report_note(l->report, r->place, "wildcard",
			"**.%.*s covers every name below, of any depth (a.%.*s, b.a.%.*s), not %.*s",
			len, name, len, name, len, name, len, name);
	else if (r->kind == PATTERN_ANY && r->rule.allow)
		report_note(
			l->report, r->place, "wildcard", "any covers every name, never an address");
	else if (r->kind == PATTERN_TREE && r->rule.allow)
		report_note(l->report, r->place, "wildcard",
			".%.*s covers %.*s and every name below it, of any depth (a.%.*s, b.a.%.*s)",
			len, name, len, name, len, name, len, name);
}

void lint_rule_notes(struct lint *l, const struct rule_entry *r)
{
	note_wildcard(l, r);
	check_gateway_addresses(l, r, true);
	if (r->rule.observe)
		report_note(l->report, r->place, "observe",
			"mode=observe: what this rule would refuse passes, and is recorded");
}
