/* From an allowed name to a connection that may be used: resolve, guard, dial, verify. See flow_state.h. */
#include "proxy/flow_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/fault.h"
#include "proxy/tls_tickets.h"

#include <assert.h>
#include <stdio.h>

static enum flow_progress fail(
	struct flow *f, enum reason reason, const char *error, const char *detail)
{
	struct flow_fault fault = {.reason = reason, .error = error};
	fault.status = (unsigned)reason_status(reason);
	(void)slice_copy(
		slice_of(detail), fault.detail, sizeof(fault.detail)); /* constants: they fit */
	return flow_upstream_failed(f, &fault);
}

/** Next, with the way open: a new tunnel for TLS is told so first, everything else connects. */
static enum flow_progress admitted(struct flow *f)
{
	bool first = f->tunnel && !f->open && f->transport != POLICY_TCP &&
		f->door != FLOW_DOOR_TRANSPARENT;
	return flow_move(f, first ? FLOW_ESTABLISH : FLOW_DIAL);
}

static void note_refused(struct flow *f, const struct address *a)
{
	char text[ADDRESS_TEXT_BYTES];
	size_t len = strlen(f->refused);
	(void)snprintf(f->refused + len, sizeof(f->refused) - len, "%s%s",
		len > 0 ? " " : "refused addresses: ", address_format(a, text)); /* cut when many */
}

static enum flow_progress all_refused(struct flow *f, enum reason reason)
{
	struct refusal r = {.reason = reason, .message = f->refused, .rule = f->rule};
	return flow_refuse(f, &r);
}

/** Worse reasons are told first. */
static bool worse(enum reason a, enum reason b)
{
	return a == REASON_DENY_ADDRESS_METADATA && b != REASON_DENY_ADDRESS_METADATA;
}

const struct rule *flow_rule_for(const struct flow *f, const struct address *a)
{
	if (!f->tunnel || f->open || f->transport != POLICY_INSPECT ||
		reason_allows(policy_admit_address(f->rule, a)))
		return f->rule;
	const struct policy_question q = {
		.host = &f->host, .port = f->port, .scheme = f->scheme, .now_ms = clock_wall_ms()};
	const struct rule *opening = policy_rule_opening(f->sandbox->profile, &q, a);
	return opening != NULL ? opening : f->rule;
}

static enum flow_progress guard_all(struct flow *f, const struct address *addresses, size_t count)
{
	enum reason reason = REASON_ALLOW_RULE;
	bool failed = false;
	if (f->policy != f->worker->policy && flow_revoke(f))
		return FLOW_AGAIN; /* the policy changed since this was allowed */
	free(f->admitted);
	f->admitted = calloc(count, sizeof(*f->admitted));
	f->admitted_count = 0;
	f->refused[0] = '\0';
	for (size_t i = 0; f->admitted != NULL && i < count; i++) {
		struct guard_target target = {.address = &addresses[i], .port = f->port};
		enum reason here = REASON_DENY_ADDRESS_PRIVATE;
		switch (guard_admit(&f->worker->guard, flow_rule_for(f, &addresses[i]), &target,
			&f->admitted[f->admitted_count], &here)) {
		case GUARD_ADMITTED:
			f->admitted_count++;
			break;
		case GUARD_REFUSED:
			note_refused(f, &addresses[i]);
			if (reason_allows(reason) || worse(here, reason)) {
				reason = here;
				f->destination = addresses[i];
			}
			break;
		case GUARD_FAILED:
			failed = true;
			break;
		case GUARD_UNREACHABLE:
			break;
		}
	}
	if (f->admitted_count > 0)
		return admitted(f);
	if (!reason_allows(reason))
		return all_refused(f, reason);
	if (failed || f->admitted == NULL)
		return fail(f, REASON_ERROR_INTERNAL, NULL,
			"the host's addresses could not be checked");
	return fail(f, REASON_ERROR_UPSTREAM, "destination_ip_unroutable",
		"there is no route to the host's addresses");
}

static enum flow_progress look_up(struct flow *f)
{
	f->query = resolve_ask(f->worker->resolve, &f->host, flow_run, f);
	if (f->query == NULL)
		return fail(f, REASON_ERROR_INTERNAL, NULL, "too many names are being looked up");
	return FLOW_AGAIN;
}

/** For the request that waits, or for those that a new tunnel carries in the clear. */
static enum flow_progress connected_plain(struct flow *f)
{
	if (!f->tunnel || f->open)
		return flow_exchange_begin(f);
	f->open = true;
	pool_park(f);
	return flow_move(f, FLOW_REQUEST);
}

/** A connection that waited is f's now, by f's rule. */
static enum flow_progress reuse(struct flow *f)
{
	if (f->policy != f->worker->policy && flow_revoke(f))
		return FLOW_AGAIN;   /* the policy changed since this was allowed */
	if (!f->request_record.live) /* a new tunnel */
		return f->scheme == POLICY_SCHEME_HTTP ? connected_plain(f)
						       : flow_move(f, FLOW_LEAF);
	f->x.reused = true;
	f->request_record.reused = f->served;
	metrics_add(f->worker->metrics, METRICS_REUSED, 1);
	return flow_exchange_begin(f);
}

/** The address of a connection that waits, judged for the new tunnel: nothing needs to be looked up for it. */
static bool know(struct flow *f)
{
	struct admitted_address one;
	enum reason reason;
	const struct address *a = pool_address(f);
	struct guard_target target = {.address = a, .port = f->port};
	if (a == NULL ||
		guard_admit(&f->worker->guard, flow_rule_for(f, a), &target, &one, &reason) !=
			GUARD_ADMITTED)
		return false;
	free(f->admitted);
	f->admitted = malloc(sizeof(one));
	f->admitted_count = f->admitted != NULL;
	if (f->admitted != NULL)
		*f->admitted = one;
	return f->admitted != NULL;
}

enum flow_progress flow_connect(struct flow *f)
{
	bool request = f->request_record.live;
	f->request_record.reused = false;
	free(ptr_take(f->admitted)); /* of a request before */
	if (f->policy != f->worker->policy && flow_revoke(f))
		return FLOW_AGAIN; /* the policy changed since this was allowed */
	if (request && !f->x.repeated && pool_take(f))
		return reuse(f);
	pool_leave(f);
	f->destination = (struct address){0};
	(void)flow_move(f, FLOW_RESOLVE);
	f->via_turn = 0;
	if (f->host.kind == HOST_ADDRESS)
		return guard_all(f, &f->host.address, 1);
	if (!request && f->transport == POLICY_INSPECT && know(f))
		return admitted(f);
	if (f->worker->guard.by_name) /* of no family: the upstream proxy finds one */
		return guard_all(f, &(struct address){0}, 1);
	return look_up(f);
}

enum flow_progress flow_step_resolve(struct flow *f)
{
	const struct address *addresses = NULL;
	size_t count = 0;
	enum resolve_status status = resolve_answer(f->query, &addresses, &count);
	if (status == RESOLVE_WAIT)
		return FLOW_WAIT;
	struct resolve_query *q = ptr_take(f->query);
	enum flow_progress progress = FLOW_AGAIN;
	switch (status) {
	case RESOLVE_FOUND:
		progress = guard_all(f, addresses, count);
		break;
	case RESOLVE_NONE:
		progress = fail(f, REASON_ERROR_UPSTREAM, "dns_error", "the name has no address");
		break;
	case RESOLVE_TIMEOUT:
		progress = fail(f, REASON_ERROR_TIMEOUT, "dns_timeout",
			"the name was not resolved in time");
		break;
	case RESOLVE_FAILED:
	case RESOLVE_WAIT:
		progress =
			fail(f, REASON_ERROR_UPSTREAM, "dns_error", "the name can't be resolved");
		break;
	}
	resolve_drop(q);
	return progress;
}

enum flow_progress flow_connected(struct flow *f)
{
	struct failure why = {0};
	struct tls_session *session = NULL;
	if (f->policy != f->worker->policy && flow_revoke(f))
		return FLOW_AGAIN; /* as above, while it was dialled */
	if (f->tunnel && f->transport == POLICY_SPLICE)
		return flow_splice_begin(f);
	if (f->tunnel && f->transport == POLICY_TCP)
		return flow_move(f, FLOW_ESTABLISH);
	if (f->scheme == POLICY_SCHEME_HTTP)
		return connected_plain(f);
	if (tls_session_new_upstream(
		    f->worker->tls_world, f->upstream->fd, &f->host, &session, &why) < 0) {
		struct flow_fault fault = {.reason = REASON_ERROR_INTERNAL, .status = 503};
		(void)slice_escape(slice_of(why.text), fault.detail, sizeof(fault.detail));
		return flow_upstream_failed(f, &fault);
	}
	tls_tickets_use(f->sandbox->tickets, session, f->port);
	stream_start_tls(f->upstream, session);
	return flow_move(f, FLOW_UPSTREAM_TLS);
}

static enum flow_progress dial_failed(struct flow *f, const struct address *address, int error)
{
	char text[ADDRESS_TEXT_BYTES];
	struct flow_fault fault = {.reason = REASON_ERROR_UPSTREAM, .status = 502};
	fault.error = error == ECONNREFUSED ? "connection_refused" : "destination_unavailable";
	if (error == ETIMEDOUT) {
		fault.reason = REASON_ERROR_TIMEOUT;
		fault.status = 504;
		fault.error = "connection_timeout";
	}
	(void)snprintf(fault.detail, sizeof(fault.detail), "connecting to %s%s failed: %s",
		flow_has_via(f) ? "the upstream proxy " : "", address_format(address, text),
		strerrordesc_np(error));
	return flow_upstream_failed(f, &fault);
}

enum flow_progress flow_step_dial(struct flow *f)
{
	struct address address;
	int error;
	if (f->dial == NULL && !f->x.repeated && f->transport == POLICY_INSPECT && pool_take(f)) {
		free(ptr_take(f->admitted));
		return reuse(f);
	}
	if (f->dial == NULL) {
		fault_point("worker-upstream");
		f->dial = flow_has_via(f) ? flow_via_dial(f)
					  : dial_start(&f->worker->loop, &f->worker->limits,
						    f->admitted, f->admitted_count);
		if (f->dial == NULL)
			return fail(f, REASON_ERROR_INTERNAL, NULL, "out of memory");
		dial_notify(f->dial, flow_run, f);
	}
	enum dial_status status = dial_result(f->dial, &address, &error);
	if (status == DIAL_WAIT)
		return FLOW_WAIT;
	if (!flow_has_via(f)) {
		f->destination = address;
		free(ptr_take(f->admitted));
	}
	f->destination_rule = NULL; /* asked again for the request */
	int fd = dial_take(f->dial);
	dial_free(ptr_take(f->dial));
	if (status != DIAL_CONNECTED)
		return dial_failed(f, &address, error);
	f->served = false;
	f->upstream = stream_new(&f->worker->poller, fd, flow_run, f);
	if (f->upstream == NULL)
		return fail(f, REASON_ERROR_INTERNAL, NULL, "out of memory");
	f->upstream->account = &f->sandbox->buffered;
	metrics_add(f->worker->metrics, METRICS_DIALLED, 1);
	return flow_has_via(f) ? flow_via_begin(f) : flow_connected(f);
}

static enum flow_progress verified(struct flow *f)
{
	tls_info_put(f->tls_info);
	f->tls_info = tls_info_new(f->upstream->tls); /* without memory the record says less */
	if (f->open)
		return flow_exchange_begin(f);
	return flow_move(f, FLOW_LEAF);
}

enum flow_progress flow_step_upstream_tls(struct flow *f)
{
	switch (stream_handshake(f->upstream)) {
	case TLS_DONE:
		metrics_add(f->worker->metrics, METRICS_UPSTREAM_TLS, 1);
		return verified(f);
	case TLS_WANT_READ:
	case TLS_WANT_WRITE:
		return FLOW_WAIT;
	case TLS_PARKED:
	case TLS_CLOSED:
	case TLS_ERROR:
		break;
	}
	metrics_add(f->worker->metrics, METRICS_UPSTREAM_TLS_FAILED, 1);
	struct flow_fault fault = {.reason = f->upstream->fault.reason,
		.status = 502,
		.error = f->upstream->fault.reason == REASON_DENY_UPSTREAM_CERT
			? "tls_certificate_error"
			: "tls_protocol_error"};
	(void)slice_copy(slice_of(f->upstream->fault.detail), fault.detail,
		sizeof(fault.detail)); /* same size */
	return flow_upstream_failed(f, &fault);
}
