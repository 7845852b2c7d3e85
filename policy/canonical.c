/* See canonical.h. Reads compiled rules; what it writes was text of the policy's owner before. */
#include "policy/canonical.h"

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

static void write_addresses(const struct rule *rule, struct buf *to)
{
	char text[ADDRESS_TEXT_BYTES];
	for (size_t i = 0; i < rule->address_count; i++)
		(void)buf_printf(to, "%s%s/%u", i == 0 ? " addr=" : ",",
			address_format(&rule->addresses[i].base, text), rule->addresses[i].bits);
}

static void write_limits(const struct rule_entry *r, struct buf *to)
{
	if (r->rule.encoded_slash)
		(void)buf_append_text(to, " enc-slash=literal");
	if (r->rule.query_denied)
		(void)buf_append_text(to, " query=deny");
	write_addresses(&r->rule, to);
	(void)buf_append_text(to, " req-body=");
	(void)canonical_size(r->rule.req_body_bytes, to);
	(void)buf_append_text(to, " resp-body=");
	(void)canonical_size(r->rule.resp_body_bytes, to);
	if (r->expires_ms == RULE_NEVER_MS)
		return;
	(void)buf_append_text(to, " expires=");
	(void)canonical_date(r->expires_ms, to);
}

int canonical_effect(const struct rule *rule, struct buf *to)
{
	const struct rule_entry *r = rule_entry_of(rule);
	(void)buf_printf(to, "%s %s %s", rule->allow ? "allow" : "deny", r->target, r->admits);
	if (r->scheme == RULE_SCHEME_HTTP || r->scheme == RULE_SCHEME_HTTPS)
		(void)buf_printf(
			to, " scheme=%s", r->scheme == RULE_SCHEME_HTTP ? "http" : "https");
	if (rule->allow)
		write_limits(r, to);
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

int canonical_list(const struct profile *p, struct canonical_list *ret)
{
	struct canonical_list list = {.count = 0};
	struct buf text = {.limit = 0};
	list.lines = calloc(p->rule_count + 1, sizeof(*list.lines));
	int r = list.lines == NULL ? -ENOMEM : 0;
	for (size_t i = 0; i < p->rule_count && r == 0; i++) {
		buf_clear(&text);
		r = canonical_rule(&p->rules[i]->rule, &text);
		char *copy = r == 0 ? slice_dup(buf_slice(&text)) : NULL;
		if (copy == NULL)
			r = -ENOMEM;
		else
			list.lines[list.count++] =
				(struct canonical_line){&p->rules[i]->rule, copy};
	}
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
