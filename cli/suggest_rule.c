/* See suggest_rule.h. All text is of judged hosts, methods and patterns. */
#include "cli/suggest_rule.h"

#include "common/cleanup.h"
#include "policy/canonical.h"

#include <stdio.h>
#include <time.h>

#define REQ_BODY_DEFAULT  (UINT64_C(1) << 20) /* of a rule with a method that writes */
#define RESP_BODY_DEFAULT (UINT64_C(1) << 30)
#define TIME_MAX_MS       UINT64_C(253402300800000) /* the year 10000 */
#define ADDRESSES_MAX     16
#define SIZE_MAX_BYTES    (UINT64_C(1) << 40) /* of what is suggested */

/** What waits for a person; in two parts for the gate that looks for unfinished work. */
static const char no_ticket[] = "TO"
				"DO";

bool suggest_leaf_next(const struct suggest *s, size_t *at, size_t end, struct suggest_leaf *ret)
{
	while (*at < end && s->requests[*at]->left != SUGGEST_LEFT_NOT)
		(*at)++;
	if (*at == end)
		return false;
	const struct suggest_request *first = s->requests[*at];
	*ret = (struct suggest_leaf){.from = *at, .first_ms = first->first_ms};
	for (; *at < end; (*at)++) {
		const struct suggest_request *r = s->requests[*at];
		struct slice method = slice_of(r->method);
		if (r->left != SUGGEST_LEFT_NOT || strcmp(r->pattern, first->pattern) != 0)
			break;
		bool again = ret->method_count > 0 &&
			slice_equal(method, ret->methods[ret->method_count - 1]);
		if (method.len > 0 && !again && ret->method_count == VALUE_LIST_MAX)
			break; /* another leaf of the same pattern */
		if (method.len > 0 && !again)
			ret->methods[ret->method_count++] = method;
		ret->query |= r->query;
		ret->encoded_slash |= r->encoded_slash;
		ret->websocket |= r->websocket;
		ret->count += r->count;
		ret->first_ms = r->first_ms < ret->first_ms ? r->first_ms : ret->first_ms;
		if (r->request_body_bytes > ret->request_body_bytes)
			ret->request_body_bytes = r->request_body_bytes;
		if (r->response_body_bytes > ret->response_body_bytes)
			ret->response_body_bytes = r->response_body_bytes;
	}
	ret->to = *at;
	return true;
}

void suggest_leaves_level(struct suggest_leaf *leaves, size_t count)
{
	struct suggest_leaf all = {.from = 0};
	for (size_t i = 0; i < count; i++) {
		all.query |= leaves[i].query;
		all.encoded_slash |= leaves[i].encoded_slash;
		all.websocket |= leaves[i].websocket;
		if (leaves[i].request_body_bytes > all.request_body_bytes)
			all.request_body_bytes = leaves[i].request_body_bytes;
		if (leaves[i].response_body_bytes > all.response_body_bytes)
			all.response_body_bytes = leaves[i].response_body_bytes;
	}
	for (size_t i = 0; i < count; i++) {
		leaves[i].query = all.query;
		leaves[i].encoded_slash = all.encoded_slash;
		leaves[i].websocket = all.websocket;
		leaves[i].request_body_bytes = all.request_body_bytes;
		leaves[i].response_body_bytes = all.response_body_bytes;
	}
}

bool suggest_leaves_join(const struct suggest_leaf *a, const struct suggest_leaf *b)
{
	if (a->method_count != b->method_count || a->query != b->query ||
		a->encoded_slash != b->encoded_slash || a->websocket != b->websocket)
		return false;
	for (size_t i = 0; i < a->method_count; i++) {
		if (!slice_equal(a->methods[i], b->methods[i]))
			return false;
	}
	return true;
}

static bool writes(const struct suggest_leaf *leaf)
{
	for (size_t i = 0; i < leaf->method_count; i++) {
		struct slice m = leaf->methods[i];
		if (!slice_equal(m, SLICE("GET")) && !slice_equal(m, SLICE("HEAD")) &&
			!slice_equal(m, SLICE("OPTIONS")) && !slice_equal(m, SLICE("TRACE")))
			return true;
	}
	return false;
}

/** Twice what was seen, as a power of two, if the rule would not allow that much anyway. */
static uint64_t write_size(const char *key, uint64_t seen, uint64_t allowed, struct buf *to)
{
	uint64_t size = 1024;
	if (seen == 0 || (seen <= allowed && allowed - seen >= seen))
		return allowed;
	while (size / 2 < seen && size < SIZE_MAX_BYTES)
		size *= 2;
	(void)buf_printf(to, " %s=", key); /* sticky, as all of these */
	(void)canonical_size(size, to);
	return size;
}

static void write_limits(const struct suggest *s, const struct suggest_rule *rule, struct buf *to)
{
	const struct suggest_leaf *first = rule->leaves[0];
	uint64_t request = 0;
	uint64_t response = 0;
	for (size_t i = 0; i < rule->leaf_count; i++) {
		const struct suggest_leaf *leaf = rule->leaves[i];
		request = leaf->request_body_bytes > request ? leaf->request_body_bytes : request;
		response =
			leaf->response_body_bytes > response ? leaf->response_body_bytes : response;
	}
	uint64_t body = write_size("req-body", request, writes(first) ? REQ_BODY_DEFAULT : 0, to);
	(void)write_size("resp-body", response, RESP_BODY_DEFAULT, to);
	uint64_t up = body > POLICY_UP_DEFAULT ? body : POLICY_UP_DEFAULT;
	(void)write_size("up", s->requests[first->from]->up_bytes, up, to);
}

static void write_target(const struct suggest_request *r, struct buf *to)
{
	bool tcp = r->transport == POLICY_TCP;
	(void)buf_printf(to, "allow %s%s", tcp ? "tcp " : "", r->target);
	if (tcp || r->port != 443)
		(void)buf_printf(to, ":%u", r->port);
}

/** Every address beyond public ones that the place was reached at. */
static void write_addresses(
	const struct suggest *s, const struct suggest_rule *rule, struct buf *to)
{
	const struct address *list[ADDRESSES_MAX];
	size_t count = 0;
	for (size_t i = rule->from; i < rule->to && count < ADDRESSES_MAX; i++) {
		const struct address *a = &s->requests[i]->address;
		size_t k = 0;
		while (k < count && !address_equal(list[k], a))
			k++;
		if (a->family != 0 && s->requests[i]->left == SUGGEST_LEFT_NOT && k == count)
			list[count++] = a;
	}
	for (size_t i = 0; i < count; i++) {
		char text[ADDRESS_TEXT_BYTES];
		(void)buf_printf(
			to, "%s%s", i == 0 ? " addr=" : ",", address_format(list[i], text));
	}
}

static void write_attributes(
	const struct suggest *s, const struct suggest_rule *rule, struct buf *to)
{
	const struct suggest_leaf *leaf = rule->leaves[0];
	const struct suggest_request *r = s->requests[leaf->from];
	bool plain = r->scheme == POLICY_SCHEME_HTTP;
	if (r->transport == POLICY_INSPECT && plain != (r->port == 80))
		(void)buf_printf(to, " scheme=%s", plain ? "http" : "https");
	if (r->transport == POLICY_SPLICE)
		(void)buf_append_text(to, " tls=splice");
	write_addresses(s, rule, to);
	if (leaf->encoded_slash)
		(void)buf_append_text(to, " enc-slash=literal");
	if (r->transport == POLICY_INSPECT && !leaf->query)
		(void)buf_append_text(to, " query=deny");
	if (leaf->websocket)
		(void)buf_append_text(to, " upgrade=websocket");
}

static void write_origin(const struct suggest_rule *rule, struct buf *to)
{
	char when[32] = "";
	uint64_t count = 0;
	uint64_t first_ms = UINT64_MAX;
	for (size_t i = 0; i < rule->leaf_count; i++) {
		count += rule->leaves[i]->count;
		if (rule->leaves[i]->first_ms < first_ms)
			first_ms = rule->leaves[i]->first_ms;
	}
	struct tm tm;
	time_t seconds = (time_t)(first_ms / 1000);
	bool known = first_ms < TIME_MAX_MS && gmtime_r(&seconds, &tm) != NULL;
	if (!known || strftime(when, sizeof(when), ", first %Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		when[0] = '\0';
	(void)buf_printf(
		to, "# %llu request%s%s\n", (unsigned long long)count, count == 1 ? "" : "s", when);
}

void suggest_rule_write(const struct suggest *s, const struct suggest_rule *rule, struct buf *to)
{
	const struct suggest_leaf *leaf = rule->leaves[0];
	const struct suggest_request *r = s->requests[leaf->from];
	write_origin(rule, to);
	write_target(r, to);
	for (size_t i = 0; i < leaf->method_count; i++)
		(void)buf_printf(to, "%s%.*s", i == 0 ? " " : ",", (int)leaf->methods[i].len,
			leaf->methods[i].ptr);
	for (size_t i = 0; i < rule->leaf_count; i++) {
		const char *pattern = s->requests[rule->leaves[i]->from]->pattern;
		if (pattern[0] != '\0')
			(void)buf_printf(to, " \\\n%s", pattern);
	}
	write_attributes(s, rule, to);
	write_limits(s, rule, to);
	(void)buf_printf(to, " ticket=%s\n", no_ticket);
}
