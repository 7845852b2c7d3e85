/* See canonical.h. Reads compiled rules; what it writes was text of the policy's owner before. */
#include "policy/canonical.h"

#include "policy/limit.h"
#include "policy/profile.h"
#include "policy/value.h"

#include <errno.h>
#include <stdlib.h>

#define MS_PER_DAY UINT64_C(86400000)

int canonical_size(uint64_t bytes, struct buf *to)
{
	static const char units[] = "kmg";
	size_t unit = 0;
	while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	return buf_printf(to, "%llu%.*s", (unsigned long long)bytes, unit == 0 ? 0 : 1,
		unit == 0 ? "" : &units[unit - 1]);
}

/** Civil date of a day since 1970-01-01: eras of 400 years that start in March. */
int canonical_date(uint64_t expires_ms, struct buf *to)
{
	uint64_t days = expires_ms / MS_PER_DAY - 1 + 719468;
	uint64_t era = days / 146097;
	uint64_t day_of_era = days % 146097;
	uint64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	uint64_t day_of_year =
		day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t month_from_march = (5 * day_of_year + 2) / 153;
	uint64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
	uint64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
	return buf_printf(to, "%04llu-%02llu-%02llu",
		(unsigned long long)(year_of_era + era * 400 + (month <= 2)),
		(unsigned long long)month, (unsigned long long)day);
}

/** In quotes where the lexer needs them. A value with quotes of its own came without any. */
static void write_value(const char *key, const char *value, struct buf *to)
{
	bool quoted = strpbrk(value, " \\") != NULL && strchr(value, '"') == NULL;
	if (value[0] != '\0')
		(void)buf_printf(to, quoted ? " %s=\"%s\"" : " %s=%s", key, value);
}

void canonical_addresses(const struct rule *rule, struct buf *to)
{
	char text[ADDRESS_TEXT_BYTES];
	for (size_t i = 0; i < rule->address_count; i++)
		(void)buf_printf(to, "%s%s/%u", i == 0 ? " addr=" : ",",
			address_format(&rule->addresses[i].base, text), rule->addresses[i].bits);
}

static void write_fields(const struct rule *rule, struct buf *to)
{
	for (size_t i = 0; i < rule->header_deny_count; i++) {
		(void)buf_append_text(to, i == 0 ? " header-deny=" : ",");
		(void)buf_append(to, rule->header_deny[i]);
	}
}

/** Numbers: those that limit something. A use's rate stands where the longer-lived ones begin. */
static void write_limits(const struct rule_entry *r, struct buf *to)
{
	for (enum limit l = 0; l < LIMIT_COUNT; l++) {
		uint64_t value = limit_get(r, l);
		if (l == LIMIT_CONNS && r->rule.budget.rate_ms != 0) {
			(void)buf_append_text(to, " rate=");
			limit_write_rate(&r->rule.budget, to);
		}
		if (value == POLICY_UNLIMITED || (l == LIMIT_WINDOW && value == 0))
			continue;
		(void)buf_printf(to, " %s=", limit_name(l));
		limit_write(l, value, to);
	}
}

static void write_allowance(const struct rule_entry *r, struct buf *to)
{
	if (r->rule.transport == POLICY_SPLICE)
		(void)buf_append_text(to, " tls=splice");
	if (r->rule.observe)
		(void)buf_append_text(to, " mode=observe");
	if (r->kind != PATTERN_ADDRESS)
		canonical_addresses(&r->rule, to);
	if (r->rule.encoded_slash)
		(void)buf_append_text(to, " enc-slash=literal");
	if (r->rule.query_denied)
		(void)buf_append_text(to, " query=deny");
	write_fields(&r->rule, to);
	if (r->rule.websocket)
		(void)buf_append_text(to, " upgrade=websocket");
	write_limits(r, to);
}

int canonical_effect(const struct rule *rule, struct buf *to)
{
	const struct rule_entry *r = rule_entry_of(rule);
	bool scheme = rule->transport == POLICY_INSPECT &&
		(r->scheme == RULE_SCHEME_HTTP || r->scheme == RULE_SCHEME_HTTPS);
	(void)buf_printf(to, "%s %s%s%s", rule->allow ? "allow" : "deny", r->target,
		r->admits[0] == '\0' ? "" : " ", r->admits);
	if (scheme)
		(void)buf_printf(
			to, " scheme=%s", r->scheme == RULE_SCHEME_HTTP ? "http" : "https");
	if (rule->allow)
		write_allowance(r, to);
	return to->failed ? -ENOMEM : 0;
}

int canonical_rule(const struct rule *rule, struct buf *to)
{
	(void)canonical_effect(rule, to);           /* its failure is sticky */
	if (value_name(slice_of(rule->id)) == NULL) /* else it is file:line */
		write_value("id", rule->id, to);
	if (rule->owner != NULL)
		write_value("owner", rule->owner, to);
	if (rule->ticket != NULL)
		write_value("ticket", rule->ticket, to);
	return to->failed ? -ENOMEM : 0;
}

static int compare_lines(const void *a, const void *b)
{
	const struct canonical_line *left = a;
	const struct canonical_line *right = b;
	return strcmp(left->text, right->text);
}

/** Sort, and leave out what stands twice: a group that is used again. */
static void list_sort(struct canonical_list *list)
{
	size_t kept = 0;
	qsort(list->lines, list->count, sizeof(*list->lines), compare_lines);
	for (size_t i = 0; i < list->count; i++) {
		if (kept > 0 && strcmp(list->lines[kept - 1].text, list->lines[i].text) == 0)
			free(list->lines[i].text);
		else
			list->lines[kept++] = list->lines[i];
	}
	list->count = kept;
}

static int list_add(struct canonical_list *list, const struct rule *rule, struct slice text)
{
	char *copy = slice_dup(text);
	if (copy == NULL)
		return -ENOMEM;
	list->lines[list->count++] = (struct canonical_line){rule, copy};
	return 0;
}

int canonical_list(const struct profile *p, struct canonical_list *ret)
{
	struct canonical_list list = {.count = 0};
	struct buf text = {.limit = 0};
	list.lines = calloc(p->rule_count + 2, sizeof(*list.lines));
	int r = list.lines == NULL ? -ENOMEM : 0;
	for (size_t i = 0; i < p->rule_count && r == 0; i++) {
		buf_clear(&text);
		r = canonical_rule(&p->rules[i]->rule, &text);
		if (r == 0)
			r = list_add(&list, &p->rules[i]->rule, buf_slice(&text));
	}
	if (r == 0 && p->observer != NULL)
		r = list_add(&list, &p->observer->rule, slice_of(p->observer->rule.text));
	buf_fini(&text);
	if (r < 0) {
		canonical_list_free(&list);
		return r;
	}
	list_sort(&list);
	*ret = list;
	return 0;
}

void canonical_list_free(struct canonical_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->lines[i].text);
	free(list->lines);
	*list = (struct canonical_list){.count = 0};
}

const struct profile *policy_profile_at(const struct policy *p, size_t index)
{
	return index < p->profile_count ? &p->profiles[index] : NULL;
}
