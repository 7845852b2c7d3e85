/*
 * What a flow's rule grants it, from the decision to the last byte: a use begins before anything leaves, every byte that passes is
 * counted, and where the grant ends the flow is refused, or cut if an answer has begun. See flow_state.h, and budget.h for
 * the counting.
 */
#include "proxy/flow_state.h"

#include "common/cleanup.h"

#include <assert.h>

static uint64_t now_ms(const struct flow *f)
{
	return uv_now(&f->worker->loop);
}

bool flow_use_begin(struct flow *f, struct record *r, uint64_t up_bytes, struct budget_denial *ret)
{
	const struct budget_ask ask = {.sandbox = f->sandbox->budget,
		.rule = r->rule,
		.now_ms = now_ms(f),
		.up_bytes = up_bytes};
	switch ((int)budget_begin(f->worker->context->budget, &ask, &f->use, ret)) {
	case REASON_ALLOW_RULE:
		return true;
	case REASON_OBSERVE_WOULD_DENY:
		(void)record_observe(r, ret->reason); /* the rule observes */
		return true;
	default:
		return false;
	}
}

bool flow_spend_up(struct flow *f, uint64_t bytes)
{
	if (bytes > budget_up_room(&f->use, now_ms(f)))
		return false;
	budget_spend(&f->use, bytes, 0);
	return true;
}

bool flow_spend_down(struct flow *f, uint64_t bytes)
{
	if (bytes > budget_down_room(&f->use, now_ms(f)))
		return false;
	budget_spend(&f->use, 0, bytes);
	return true;
}

enum flow_progress flow_refuse_use(
	struct flow *f, const struct budget_denial *d, const struct http1_request *request)
{
	const struct record *record = flow_record(f);
	assert(record != NULL); /* a use has a decision */
	struct refusal r = {.reason = d->reason,
		.message = d->detail,
		.hint = budget_kind_hint(d->kind),
		.rule = record->rule,
		.request = request,
		.budget = d};
	if (d->kind == BUDGET_TIME) {
		r.status = 504;
		r.error = "http_response_timeout";
	}
	return flow_give_up(f, &r);
}

enum flow_progress flow_use_spent(struct flow *f, enum budget_kind kind)
{
	struct budget_denial d;
	budget_explain(&f->use, kind, now_ms(f), &d);
	resolve_drop(ptr_take(f->query)); /* of a time= that ends before there is an upstream */
	dial_free(ptr_take(f->dial));
	return flow_refuse_use(f, &d, NULL);
}

bool flow_use_expired(const struct flow *f)
{
	return f->use.deadline_ms != 0 && now_ms(f) >= f->use.deadline_ms;
}

void flow_use_renew(struct flow *f, const struct rule *rule)
{
	budget_renew(&f->use, rule);
	if (f->use.deadline_ms != 0 && f->use.deadline_ms < f->deadline_ms)
		f->deadline_ms = f->use.deadline_ms;
}

void flow_use_end(struct flow *f, struct record *r)
{
	enum reason would = budget_would(&f->use, now_ms(f));
	if (!reason_allows(would) && reason_allows(r->reason))
		(void)record_observe(r, would); /* the rule observes */
	budget_end(&f->use);
}
