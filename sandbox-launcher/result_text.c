/* The lines for people of result.h. Texts of the sandbox are escaped. */
#include "sandbox-launcher/result.h"

#include "common/address.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <stdio.h>

#define REQUESTS_SHOWN 10 /* of denials, of failures and of refused system calls, each */

static void text_time(uint64_t ns, char *to, size_t capacity)
{
	if (ns % NS_PER_SEC == 0)
		(void)snprintf(to, capacity, "%llu s", (unsigned long long)(ns / NS_PER_SEC));
	else
		(void)snprintf(to, capacity, "%llu ms", (unsigned long long)(ns / NS_PER_MS));
}

/* A value four times the present one, as the option takes it. */
static void text_more_time(uint64_t ns, char *to, size_t capacity)
{
	if (ns * 4 % NS_PER_SEC == 0)
		(void)snprintf(to, capacity, "%llus", (unsigned long long)(ns * 4 / NS_PER_SEC));
	else
		(void)snprintf(to, capacity, "%llums", (unsigned long long)(ns * 4 / NS_PER_MS));
}

static void text_limit(const struct result *r, const struct spec *spec, struct buf *out)
{
	char now[32], more[32];
	switch (r->verdict) {
	case VERDICT_WALL:
	case VERDICT_CPU: {
		bool wall = r->verdict == VERDICT_WALL;
		uint64_t ns = wall ? spec->timeout_ns : spec->cpu_time_ns;
		text_time(ns, now, sizeof(now));
		text_more_time(ns, more, sizeof(more));
		(void)buf_printf(out,
			"eclusa: ended by the %s limit %s: %s %s gives it more time\n",
			wall ? "wall" : "cpu", now, wall ? "--timeout" : "--cpu-time", more);
		return;
	}
	case VERDICT_OOM:
		spec_format_size(spec->memory_bytes, now, sizeof(now));
		spec_format_size(spec->memory_bytes * 4, more, sizeof(more));
		(void)buf_printf(out,
			"eclusa: ended by the memory limit %s: --memory %s gives it more\n", now,
			more);
		return;
	case VERDICT_PIDS:
		(void)buf_printf(out,
			"eclusa: it hit the process limit %u: --pids-limit %u gives it more\n",
			spec->pids_limit, spec->pids_limit * 4);
		return;
	case VERDICT_DISK: /* which folder, and the flag, is among the errors */
	case VERDICT_OK:
	case VERDICT_EXIT:
	case VERDICT_SIGNAL:
	case VERDICT_OUTPUT:
	case VERDICT_SETUP:
	case VERDICT_SUPERVISOR:
	case VERDICT_COUNT:
		return;
	}
}

bool result_rule_file(const struct result *r, const struct spec *spec, const struct audit_denial *d,
	char *ret_file, size_t capacity)
{
	struct slice file = slice_of(spec->policy == NULL ? "" : spec->policy);
	const char *colon = d->rule_place == NULL ? NULL : strrchr(d->rule_place, ':');
	if (spec->policy == NULL && spec->service == NULL)
		return false;
	if (spec->service != NULL)
		file = SLICE("the service's policy");
	if ((r->policy_folder || spec->service != NULL) && colon != NULL)
		file = (struct slice){d->rule_place, (size_t)(colon - d->rule_place)};
	(void)slice_escape(file, ret_file, capacity);
	return true;
}

/* What would have admitted it, beyond the rule that the log suggests. */
static const char *remedy(const struct audit_denial *d)
{
	static const char *const remedies[][2] = {
		{"deny.address-private", "addr=PREFIX in the host's rule admits its address"},
		{"deny.budget", "a larger up=, down= or requests= on its rule lets more through"},
		{"deny.quota", "a larger max-uses= on its rule lets more through"},
		{"deny.rate", "a higher rate= on its rule lets it go faster"},
		{"deny.not-tls", "a tcp rule passes what is neither TLS nor HTTP, unread"},
		{"deny.size", "req-body=SIZE or resp-body=SIZE in its rule admits more"},
		{"deny.upstream-cert", "--upstream-ca FILE trusts an authority of your own"},
	};
	struct address literal;
	if (d->reason == NULL || d->host == NULL || address_parse(slice_of(d->host), &literal) == 0)
		return NULL; /* rules name hosts */
	for (size_t i = 0; i < array_size(remedies); i++)
		if (strcmp(d->reason, remedies[i][0]) == 0)
			return remedies[i][1];
	return NULL;
}

static void text_escaped(struct buf *out, const char *before, const char *text)
{
	char shown[512];
	if (text != NULL)
		(void)buf_printf(
			out, "%s%s", before, slice_escape(slice_of(text), shown, sizeof(shown)));
}

/* What was asked for: "GET host:443/path", or packets of a class. */
static void text_request(const struct audit_denial *d, struct buf *out)
{
	text_escaped(out, " ", d->method);
	text_escaped(out, " ", d->host);
	if (d->port != 0)
		(void)buf_printf(out, ":%u", d->port);
	text_escaped(out, "", d->path);
	if (d->address_class != NULL)
		(void)buf_printf(out, " packets (%s)", d->address_class);
}

void result_denial_hint(const struct audit_denial *d, const struct result *r,
	const struct spec *spec, struct buf *out)
{
	char file[RESULT_FILE_BYTES];
	const char *other = remedy(d);
	if (other != NULL)
		(void)buf_printf(out, "%s", other);
	if (d->suggestion == NULL)
		return;
	(void)buf_printf(out, "%s", other != NULL ? "; " : "");
	if (!result_rule_file(r, spec, d, file, sizeof(file)))
		(void)buf_printf(out, "--allow '%s' admits it", d->suggestion);
	else
		(void)buf_printf(out, "in %s, [profile %s]: allow %s", file,
			r->profile == NULL ? "?" : r->profile, d->suggestion);
}

static void text_admit(const struct audit_denial *d, const struct result *r,
	const struct spec *spec, struct buf *out)
{
	if (remedy(d) != NULL || d->suggestion != NULL)
		(void)buf_printf(out, "; ");
	result_denial_hint(d, r, spec, out);
}

static void text_denial(const struct audit_denial *d, const char *what, const struct result *r,
	const struct spec *spec, struct buf *out)
{
	(void)buf_printf(out, "eclusa: %s", what);
	text_request(d, out);
	(void)buf_printf(out, ": %s", d->reason == NULL ? "deny" : d->reason);
	text_escaped(out, ": ", d->detail);
	if (d->rule_place != NULL &&
		(d->detail == NULL || strstr(d->detail, d->rule_place) == NULL))
		(void)buf_printf(out, " (%s)", d->rule_place);
	if (d->count > 1)
		(void)buf_printf(out, ", %llu times", (unsigned long long)d->count);
	text_admit(d, r, spec, out);
	(void)buf_append(out, SLICE("\n"));
}

static void text_network(const struct result *r, const struct spec *spec, struct buf *out)
{
	const struct audit_summary *n = &r->network;
	for (size_t i = 0; i < n->denial_count && i < REQUESTS_SHOWN; i++)
		text_denial(&n->denials[i], "denied", r, spec, out);
	for (size_t i = 0; i < n->failure_count && i < REQUESTS_SHOWN; i++)
		text_denial(&n->failures[i], "failed", r, spec, out);
	if (n->denial_count > REQUESTS_SHOWN || n->failure_count > REQUESTS_SHOWN ||
		n->denials_left_out > 0 || n->failures_left_out > 0)
		(void)buf_printf(out, "eclusa: more of them are in the audit log\n");
	if (r->audit_path != NULL && n->denied + n->failed > 0)
		text_escaped(out, "eclusa: audit log: ", r->audit_path);
	if (r->audit_path != NULL && n->denied + n->failed > 0)
		(void)buf_append(out, SLICE("\n"));
}

/* A denial of the filter: what was called, by whom, and what to do instead. */
static void text_violation(const struct violation *v, struct buf *out)
{
	char call[VIOLATION_CALL_BYTES];
	(void)buf_printf(out, "eclusa: denied %s", violation_call(v, call, sizeof(call)));
	text_escaped(out, " by ", v->executable);
	(void)buf_printf(out, ": %s: %s", strerrorname_np(v->row->error), filter_row_why(v->row));
	if (v->count > 1)
		(void)buf_printf(out, ", %llu times", (unsigned long long)v->count);
	(void)buf_append(out, SLICE("\n"));
}

static void text_violations(const struct violations *list, struct buf *out)
{
	uint64_t shown = 0;
	for (size_t i = 0; i < list->count && i < REQUESTS_SHOWN; i++) {
		text_violation(&list->items[i], out);
		shown += list->items[i].count;
	}
	if (list->total > shown)
		(void)buf_printf(out, "eclusa: and %llu more refused system calls\n",
			(unsigned long long)(list->total - shown));
}

void result_errors_text(const struct result *r, struct buf *out)
{
	for (size_t i = 0; i < r->error_count; i++)
		(void)buf_printf(out, "eclusa: %s\n", r->errors[i]);
	if (r->errors_left_out > 0)
		(void)buf_printf(out, "eclusa: and %zu more of these\n", r->errors_left_out);
}

void result_text(const struct result *r, const struct spec *spec, struct buf *out)
{
	text_network(r, spec, out);
	text_violations(&r->violations, out);
	text_limit(r, spec, out);
	result_errors_text(r, out);
	for (size_t i = 0; i < r->hint_count; i++)
		(void)buf_printf(out, "eclusa: %s\n", r->hints[i]);
}
