/* What the proxy alone tells who asks for metrics: the worker's counts, the log's ring, the policy. See alone_state.h. */
#include "proxy/alone_state.h"

#include "audit/ring.h"
#include "common/cleanup.h"
#include "common/exposition.h"
#include "common/log.h"

#include <stdio.h>

int alone_open_metrics(
	struct alone *a, int ret_fds[static MESSAGE_WORKERS_MAX], struct failure *why)
{
	if (a->options->metrics == NULL)
		return 0;
	int r = scrape_open(a->options->metrics, &a->scrape, why);
	if (r < 0)
		return r;
	if (scrape_port(a->scrape) != 0)
		log_event(LOG_LEVEL_INFO, "metrics", "port=%u", scrape_port(a->scrape));
	for (unsigned i = 0; i < a->options->workers; i++) {
		ret_fds[i] = metrics_create();
		a->metrics[i] = ret_fds[i] < 0 ? NULL : metrics_open(ret_fds[i]);
		if (a->metrics[i] == NULL)
			return failure_errno(why, ret_fds[i] < 0 ? ret_fds[i] : -ENOMEM, "metrics");
	}
	return 0;
}

/* Errors of all appends are sticky in the buf. */

static void write_gauge(struct buf *to, const char *name, const char *help, uint64_t value)
{
	exposition_family(to, name, EXPOSITION_GAUGE, help);
	exposition_sample(to, name, NULL, value);
}

/** Nothing while it can't be looked at: a gauge that is missing is better than one that lies. */
static void write_ring(const struct alone *a, struct buf *to)
{
	struct audit_ring_gauge ring = {0}, one;
	unsigned workers = a->options->workers;
	for (unsigned i = 0; i < workers; i++) {
		if (audit_ring_look(a->audit_folder, a->ring_ids[i], &one) < 0)
			return;
		ring.waiting_bytes += one.waiting_bytes;
		ring.open += one.open;
		ring.slots += one.slots;
		ring.lost += one.lost;
		ring.stalled |= one.stalled;
	}
	write_gauge(to, "eclusa_proxy_audit_ring_bytes",
		"Finished events that are not written yet.", ring.waiting_bytes);
	write_gauge(to, "eclusa_proxy_audit_ring_size_bytes", "Room for them.",
		workers * AUDIT_RING_BYTES);
	write_gauge(to, "eclusa_proxy_audit_open_decisions",
		"Requests and tunnels that were decided and are not over.", ring.open);
	write_gauge(to, "eclusa_proxy_audit_open_decisions_limit", "Room for them.", ring.slots);
	write_gauge(to, "eclusa_proxy_audit_stalled",
		"1 while the log can't be written and requests are denied.", ring.stalled);
	write_gauge(to, "eclusa_proxy_audit_lost_events",
		"Events that found no room, and are not on record as lost yet.", ring.lost);
}

static void write_policy(const struct alone *a, struct buf *to)
{
	const struct alone_policy *p = &a->policy;
	static const char loaded[] = "eclusa_proxy_policy_loaded_timestamp_seconds";
	exposition_family(to, loaded, EXPOSITION_GAUGE,
		"When the policy that is in force came into force; its age is time() minus this.");
	exposition_thousandths(to, loaded, NULL, p->since_ms);
	write_gauge(to, "eclusa_proxy_policy_stale",
		"1 while the files say something that is not in force.",
		p->origin != MESSAGE_POLICY_NEWEST || p->fault.text[0] != '\0');
	write_gauge(to, "eclusa_proxy_policy_absent",
		"1 while there is no policy, and everything is denied.",
		p->origin == MESSAGE_POLICY_ABSENT);
}

/** All workers' counts together. */
static void write_workers(const struct alone *a, struct buf *to)
{
	struct metrics sum = {0};
	for (unsigned i = 0; i < a->options->workers; i++)
		metrics_sum(&sum, a->metrics[i]);
	metrics_write(&sum, to);
}

static void fill(void *arg, struct buf *to)
{
	const struct alone *a = arg;
	const struct exposition_label version[EXPOSITION_LABELS_MAX] = {
		{"version", ECLUSA_VERSION}};
	exposition_family(to, "eclusa_proxy_info", EXPOSITION_GAUGE, "Always 1.");
	exposition_sample(to, "eclusa_proxy_info", version, 1);
	exposition_family(to, "eclusa_proxy_start_time_seconds", EXPOSITION_GAUGE,
		"When this proxy started.");
	exposition_thousandths(to, "eclusa_proxy_start_time_seconds", NULL, a->start_ms);
	write_workers(a, to);
	write_ring(a, to);
	write_policy(a, to);
}

void alone_turn_metrics(struct alone *a)
{
	scrape_turn(a->scrape, fill, a);
}
