/*
 * A new policy, or a rule that has expired, and the flows that were allowed before: each is asked about again, with the question that it keeps, and
 * with the addresses that it reached or may dial yet. What the new one allows finishes under the old verdict; only bytes that pass unread get the
 * new one's limits, since nothing else ends them. See flow_state.h.
 */
#include "proxy/flow_state.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <stdio.h>

/** What the flow is about: one request, or all that its tunnel may carry. */
static struct policy_question question_of(const struct flow *f)
{
	const struct record *r = &f->request_record;
	struct policy_question q = {
		.host = &f->host, .port = f->port, .scheme = f->scheme, .now_ms = clock_wall_ms()};
	if (r->live) {
		q.method = r->method;
		q.path = r->path;
		q.has_query = r->has_query;
		q.encoded_slash = r->encoded_slash;
	}
	return q;
}

/** Whether there is something that policy allowed and that goes on. */
static bool is_allowed_so_far(const struct flow *f)
{
	if (f->state == FLOW_REFUSE || f->state == FLOW_LINGER || f->state == FLOW_OVER)
		return false;
	return f->tunnel || f->request_record.live;
}

static enum policy_transport transport_of(const struct flow *f)
{
	return f->tunnel && f->rule != NULL ? f->rule->transport : POLICY_INSPECT;
}

static bool opens(struct flow *f, const struct rule *rule, const struct address *a)
{
	struct guard_target target = {.address = a, .port = f->port};
	struct admitted_address admitted;
	enum reason reason;
	return rule != NULL &&
		guard_admit(&f->worker->guard, rule, &target, &admitted, &reason) == GUARD_ADMITTED;
}

/** Whether an address may be kept: by this rule, or by any other that the tunnel may use. */
static bool may_keep(struct flow *f, const struct policy_question *q, const struct rule *rule,
	const struct address *a)
{
	return opens(f, rule, a) ||
		(!f->request_record.live &&
			opens(f, policy_rule_opening(f->sandbox->profile, q, a), a));
}

/** Those that were admitted and may not be kept are not dialled anymore: what tries them begins anew. @return whether any is left. */
static bool keep_admitted(struct flow *f, const struct policy_question *q, const struct rule *rule)
{
	size_t kept = 0;
	for (size_t i = 0; i < f->admitted_count; i++) {
		if (may_keep(f, q, rule, &f->admitted[i].checked.address))
			f->admitted[kept++] = f->admitted[i];
	}
	if (kept < f->admitted_count) {
		f->via_turn = 0;
		if (!flow_has_via(f))
			dial_free(ptr_take(f->dial));
	}
	f->admitted_count = kept;
	return kept > 0;
}

/** Of the address that is connected, and of those that may be. */
static bool address_allowed(
	struct flow *f, const struct policy_question *q, const struct rule *rule)
{
	if (f->admitted != NULL && !keep_admitted(f, q, rule))
		return false;
	return f->upstream == NULL || may_keep(f, q, rule, &f->destination);
}

/** @return whether it may go on; if not, why, in @ret. */
static bool judge(struct flow *f, struct policy_verdict *ret)
{
	const struct policy_question q = question_of(f);
	bool request = f->request_record.live;
	if (request)
		policy_decide(f->sandbox->profile, &q, ret);
	else
		policy_decide_host(f->sandbox->profile, &q, ret);
	if (!reason_allows(ret->reason))
		return false;
	const char *wrong = NULL;
	if (!request && ret->rule->transport != transport_of(f))
		wrong = "its rule treats connections in another way now";
	else if (!address_allowed(f, &q, ret->rule))
		wrong = "the rule does not open the host's address anymore";
	else if (request && f->state == FLOW_PASSAGE && !ret->rule->websocket)
		wrong = "the rule does not allow WebSocket anymore";
	if (wrong != NULL)
		(void)snprintf(ret->detail, sizeof(ret->detail), "%s", wrong);
	return wrong == NULL;
}

/** Whether the client can be told, in words: it waits for an answer, and has got nothing of it. */
static bool can_answer(const struct flow *f)
{
	bool answering = f->state == FLOW_EXCHANGE || f->state == FLOW_PASSAGE;
	if (f->request_record.live)
		return !answering || !f->x.answered;
	/* to CONNECT */
	return f->state == FLOW_COMMIT || f->state == FLOW_RESOLVE ||
		(f->state == FLOW_DIAL && f->transport == POLICY_TCP);
}

/** What was allowed goes on. @return whether a next step is due: bytes pass within other limits, or others are dialled. */
static bool keep(struct flow *f, const struct rule *rule)
{
	bool passes = f->state == FLOW_PASSAGE || f->state == FLOW_SPLICE_ANSWER;
	if (passes || (f->tunnel && f->transport != POLICY_INSPECT))
		flow_use_renew(f, rule);
	if (f->state == FLOW_RESOLVE ||
		f->state == FLOW_COMMIT) { /* the address is not chosen yet: by the new rule */
		flow_adopt(f);
		f->rule = rule;
	}
	return passes || (f->state == FLOW_DIAL && f->dial == NULL && f->admitted != NULL);
}

bool flow_revoke(struct flow *f)
{
	struct policy_verdict v;
	char detail[FLOW_DETAIL_BYTES];
	if (!is_allowed_so_far(f))
		return false;
	if (judge(f, &v))
		return keep(f, v.rule);
	bool expired = v.reason == REASON_DENY_EXPIRED && f->policy == f->worker->policy;
	enum reason reason = expired ? REASON_DENY_EXPIRED : REASON_DENY_REVOKED;
	(void)snprintf(detail, sizeof(detail), "%s%.200s",
		expired ? "" : "the policy has changed: ",
		v.detail[0] != '\0' ? v.detail : reason_sentence(v.reason));
	resolve_drop(ptr_take(f->query));
	dial_free(ptr_take(f->dial)); /* not one more SYN */
	struct refusal r = {.reason = reason, .message = detail};
	if (can_answer(f))
		(void)flow_refuse(f, &r); /* the state says where it went */
	else
		(void)flow_reset(f, reason, detail);
	return true;
}
