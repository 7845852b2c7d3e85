/* See metrics.h. Labels are codes of ours: nothing that a peer says becomes one, and their number is fixed. */
#include "proxy/metrics.h"

#include "common/cleanup.h"
#include "common/exposition.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const uint64_t bounds_us[METRICS_BOUNDS] = {100, 250, 500, 1000, 2500, 5000, 10000, 25000,
	50000, 100000, 250000, 500000, 1000000, 5000000, 30000000, 300000000};

int metrics_create(void)
{
	auto_fd fd = memfd_create("eclusa-metrics", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* Of fixed size: otherwise a shorter one would kill who reads it. */
	if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct metrics)) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return fd_take(&fd);
}

struct metrics *metrics_open(int fd)
{
	struct stat st;
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(struct metrics)))
		return NULL;
	void *m = mmap(NULL, sizeof(struct metrics), PROT_READ | PROT_WRITE, flags, fd, 0);
	return m == MAP_FAILED ? NULL : m;
}

void metrics_close(struct metrics *m)
{
	if (m != NULL)
		(void)munmap(m, sizeof(*m)); /* can't fail on what was mapped */
}

static uint64_t load(const _Atomic uint64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

void metrics_begin(struct metrics *m)
{
	atomic_store_explicit(&m->counts[METRICS_ENDED], load(&m->counts[METRICS_ACCEPTED]),
		memory_order_relaxed);
	metrics_set(m, METRICS_POOLED, 0);
}

void metrics_took(struct metrics *m, enum metrics_time what, uint64_t duration_ns)
{
	struct metrics_histogram *h = &m->times[what];
	uint64_t us = duration_ns / 1000;
	size_t i = 0;
	while (i < METRICS_BOUNDS && us > bounds_us[i])
		i++;
	metrics_add_to(&h->counts[i], 1);
	metrics_add_to(&h->sum_us, us);
}

void metrics_sum(struct metrics *to, const struct metrics *from)
{
	static_assert(
		sizeof(struct metrics) % sizeof(uint64_t) == 0, "numbers, one like the other");
	_Atomic uint64_t *sum = (void *)to;
	const _Atomic uint64_t *one = (const void *)from;
	for (size_t i = 0; i < sizeof(*to) / sizeof(*sum); i++)
		metrics_add_to(&sum[i], load(&one[i]));
}

/* --- text --- */

/** What a metric of one number is called, or the label it has where others are called the same. */
struct family {
	enum metrics_count count;
	const char *name;
	const char *help; /* NULL: of the family before */
	struct exposition_label labels[EXPOSITION_LABELS_MAX];
};

static const struct family families[] = {
	{METRICS_WOULD_DENY, "eclusa_proxy_would_deny_total",
		"Decisions that only observe mode let pass.", {{NULL, NULL}}},
	{METRICS_BYTES_OUT, "eclusa_proxy_bytes_total",
		"Bytes of finished events; out is what left the clients.", {{"direction", "out"}}},
	{METRICS_BYTES_IN, "eclusa_proxy_bytes_total", NULL, {{"direction", "in"}}},
	{METRICS_ACCEPTED, "eclusa_proxy_connections_total", "Connections of clients.",
		{{NULL, NULL}}},
	{METRICS_DIALLED, "eclusa_proxy_upstream_connections_total",
		"Connections to hosts that were made.", {{NULL, NULL}}},
	{METRICS_REUSED, "eclusa_proxy_upstream_reused_total",
		"Requests that found a connection to their host open.", {{NULL, NULL}}},
	{METRICS_CLIENT_TLS, "eclusa_proxy_handshakes_total", "TLS handshakes.",
		{{"side", "client"}, {"result", "ok"}}},
	{METRICS_CLIENT_TLS_FAILED, "eclusa_proxy_handshakes_total", NULL,
		{{"side", "client"}, {"result", "failed"}}},
	{METRICS_UPSTREAM_TLS, "eclusa_proxy_handshakes_total", NULL,
		{{"side", "upstream"}, {"result", "ok"}}},
	{METRICS_UPSTREAM_TLS_FAILED, "eclusa_proxy_handshakes_total", NULL,
		{{"side", "upstream"}, {"result", "failed"}}},
};

static const struct {
	const char *name;
	const char *help;
} times[] = {
	[METRICS_FIRST_BYTE] = {"eclusa_proxy_first_byte_seconds",
		"From the decision to the first byte of the host's answer."},
	[METRICS_WHOLE] = {"eclusa_proxy_request_seconds",
		"From a request's head, or a tunnel's, to the end of its event."},
};

static_assert(array_size(times) == METRICS_TIMES, "a name for every histogram");

static const char *verdict_of(enum reason reason)
{
	if (reason_allows(reason))
		return "allowed";
	return reason == REASON_ERROR_UPSTREAM || reason == REASON_ERROR_TIMEOUT ? "failed"
										 : "denied";
}

/** Codes from the first up to the last that a decision can have: all of them, so that rates have a zero to begin at. */
static void write_decisions(const struct metrics *m, struct buf *to)
{
	static const char name[] = "eclusa_proxy_decisions_total";
	exposition_family(to, name, EXPOSITION_COUNTER,
		"Finished events of requests and tunnels, by verdict and reason.");
	for (unsigned i = 0; i <= REASON_ERROR_INTERNAL; i++) {
		enum reason reason = (enum reason)i;
		const struct exposition_label labels[EXPOSITION_LABELS_MAX] = {
			{"verdict", verdict_of(reason)}, {"reason", reason_code(reason)}};
		exposition_sample(to, name, labels, load(&m->decisions[i]));
	}
}

/** What goes up and down. */
static void write_gauges(const struct metrics *m, struct buf *to)
{
	uint64_t ended = load(&m->counts[METRICS_ENDED]);
	uint64_t accepted = load(&m->counts[METRICS_ACCEPTED]);
	exposition_family(to, "eclusa_proxy_connections_open", EXPOSITION_GAUGE,
		"Connections of clients that stand.");
	exposition_sample(
		to, "eclusa_proxy_connections_open", NULL, accepted > ended ? accepted - ended : 0);
	exposition_family(to, "eclusa_proxy_upstream_waiting", EXPOSITION_GAUGE,
		"Connections to hosts that wait for another request.");
	exposition_sample(
		to, "eclusa_proxy_upstream_waiting", NULL, load(&m->counts[METRICS_POOLED]));
}

void metrics_write(const struct metrics *m, struct buf *to)
{
	write_decisions(m, to);
	for (size_t i = 0; i < array_size(families); i++) {
		const struct family *f = &families[i];
		if (f->help != NULL)
			exposition_family(to, f->name, EXPOSITION_COUNTER, f->help);
		exposition_sample(to, f->name, f->labels, load(&m->counts[f->count]));
	}
	write_gauges(m, to);
	for (size_t i = 0; i < array_size(times); i++) {
		uint64_t counts[METRICS_BOUNDS + 1];
		for (size_t k = 0; k <= METRICS_BOUNDS; k++)
			counts[k] = load(&m->times[i].counts[k]);
		const struct exposition_histogram h = {.bounds_us = bounds_us,
			.counts = counts,
			.bounds = METRICS_BOUNDS,
			.sum_us = load(&m->times[i].sum_us)};
		exposition_family(to, times[i].name, EXPOSITION_HISTOGRAM, times[i].help);
		exposition_seconds(to, times[i].name, &h);
	}
}
