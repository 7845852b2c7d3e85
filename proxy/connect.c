/* A tunnel is asked for, by CONNECT or SOCKS: judged by host and port, and by what its first bytes are. See flow_state.h. */
#include "proxy/flow_state.h"

#include "common/clock.h"
#include "ipc/fault.h"

#include <assert.h>

void flow_aim(struct flow *f, const struct host *host, uint16_t port)
{
	f->host = *host;
	f->port = port;
	f->scheme = POLICY_SCHEME_HTTPS; /* until more is known */
	f->refused[0] = '\0';
	f->destination = host->kind == HOST_ADDRESS ? host->address : (struct address){0};
}

struct policy_question flow_question(const struct flow *f)
{
	return (struct policy_question){
		.host = &f->host, .port = f->port, .scheme = f->scheme, .now_ms = clock_wall_ms()};
}

/** Nobody denied this: there are no rules. */
static enum flow_progress refuse_stale(struct flow *f, const struct http1_request *request)
{
	struct refusal r = {.reason = REASON_DENY_POLICY_STALE,
		.message = "no policy can be read, and no copy of the last good one",
		.hint = "the log of the proxy says what is wrong with the policy's files",
		.request = request};
	return flow_refuse(f, &r);
}

enum flow_progress flow_refuse_verdict(struct flow *f, const struct policy_verdict *v,
	const struct policy_question *q, const struct http1_request *request)
{
	if (f->worker->policy->origin == MESSAGE_POLICY_ABSENT)
		return refuse_stale(f, request);
	struct refusal r = {.reason = v->reason,
		.message = v->detail,
		.rule = v->rule,
		.question = v->reason == REASON_DENY_RULE ? NULL : q,
		.request = request};
	return flow_refuse(f, &r);
}

enum flow_progress flow_judge_tunnel(struct flow *f, const struct http1_request *r, size_t len)
{
	struct policy_question q = flow_question(f);
	struct policy_verdict v;
	f->scheme = policy_decide_tunnel(f->sandbox->profile, &q, &v);
	if (!reason_allows(v.reason))
		return flow_refuse_verdict(f, &v, &q, r);
	assert(v.rule != NULL); /* an allow names its rule */
	f->rule = v.rule;
	record_verdict(&f->connect_record, &v);
	struct budget_denial denial;
	if (!flow_tunnel_allowed(f, &denial))
		return flow_refuse_use(f, &denial, r);
	if (record_open(f, &f->connect_record) < 0) {
		struct refusal full = {.reason = REASON_DENY_AUDIT_FULL,
			.rule = f->connect_record.rule,
			.request = r};
		return flow_refuse(f, &full);
	}
	fault_point("worker-decision");
	f->tunnel = true;
	buf_consume(&f->client->in, len);
	f->scan = (struct http1_scan){.limits = &f->worker->limits};
	f->head_begun = false;
	if (f->door == FLOW_DOOR_TRANSPARENT)
		return flow_capture_judged(f);
	return flow_commit(f, &f->connect_record);
}

bool flow_take_scheme(struct flow *f, enum policy_scheme scheme, struct policy_verdict *ret)
{
	struct policy_question q = flow_question(f);
	if (f->scheme == scheme)
		return true;
	q.scheme = scheme;
	flow_adopt(f); /* the verdict's rule is of the policy in force */
	policy_decide_host(f->sandbox->profile, &q, ret);
	if (!reason_allows(ret->reason) || ret->rule->transport != POLICY_INSPECT)
		return false;
	budget_end(&f->use); /* of a rule that passes bytes, if that was the other scheme's */
	if (f->connect_record.reason == REASON_ALLOW_SPLICE)
		f->connect_record.reason = REASON_ALLOW_RULE;
	f->transport = POLICY_INSPECT;
	f->scheme = scheme;
	f->rule = ret->rule;
	return true;
}
