/* See exposition.h. */
#include "common/exposition.h"

#include <inttypes.h>

/* Errors of all appends are sticky in the buf. */

void exposition_family(
	struct buf *to, const char *name, enum exposition_kind kind, const char *help)
{
	static const char *const kinds[] = {[EXPOSITION_COUNTER] = "counter",
		[EXPOSITION_GAUGE] = "gauge",
		[EXPOSITION_HISTOGRAM] = "histogram"};
	(void)buf_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kinds[kind]);
}

static void write_value_text(struct buf *to, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '\\' || *text == '"')
			(void)buf_printf(to, "\\%c", *text);
		else if (*text == '\n')
			(void)buf_append_text(to, "\\n");
		else
			(void)buf_append(to, (struct slice){text, 1});
	}
}

static void write_labels(struct buf *to, const struct exposition_label *labels)
{
	const char *before = "{";
	for (size_t i = 0; labels != NULL && i < EXPOSITION_LABELS_MAX; i++) {
		if (labels[i].key == NULL)
			continue;
		(void)buf_printf(to, "%s%s=\"", before, labels[i].key);
		write_value_text(to, labels[i].value);
		(void)buf_append_text(to, "\"");
		before = ",";
	}
	if (before[0] == ',')
		(void)buf_append_text(to, "}");
}

void exposition_sample(
	struct buf *to, const char *name, const struct exposition_label *labels, uint64_t value)
{
	(void)buf_append_text(to, name);
	write_labels(to, labels);
	(void)buf_printf(to, " %" PRIu64 "\n", value);
}

void exposition_thousandths(struct buf *to, const char *name, const struct exposition_label *labels,
	uint64_t thousandths)
{
	(void)buf_append_text(to, name);
	write_labels(to, labels);
	(void)buf_printf(
		to, " %" PRIu64 ".%03" PRIu64 "\n", thousandths / 1000, thousandths % 1000);
}

void exposition_seconds(
	struct buf *to, const char *name, const struct exposition_histogram *histogram)
{
	uint64_t sum = 0;
	for (size_t i = 0; i <= histogram->bounds; i++) {
		sum += histogram->counts[i];
		if (i == histogram->bounds)
			(void)buf_printf(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
		else
			(void)buf_printf(to,
				"%s_bucket{le=\"%" PRIu64 ".%06" PRIu64 "\"} %" PRIu64 "\n", name,
				histogram->bounds_us[i] / 1000000,
				histogram->bounds_us[i] % 1000000, sum);
	}
	(void)buf_printf(to, "%s_sum %" PRIu64 ".%06" PRIu64 "\n", name,
		histogram->sum_us / 1000000, histogram->sum_us % 1000000);
	(void)buf_printf(to, "%s_count %" PRIu64 "\n", name, sum);
}
