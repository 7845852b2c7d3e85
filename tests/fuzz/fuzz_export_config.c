/* The exporter's configuration, whatever its text: taken or refused with a place; a check never fails on what was taken. */
#include "export/config.h"
#include "export/sink.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct export_config *config = calloc(1, sizeof(*config));
	struct policy_report *report = calloc(1, sizeof(*report));
	if (config == NULL || report == NULL || size > EXPORT_CONFIG_BYTES_MAX)
		goto out;
	int r = export_config_parse("c", (struct slice){(const char *)data, size}, config, report);
	assert(r == 0 || r == -EINVAL);
	assert((r == 0) == (report->errors == 0));
	for (size_t i = 0; i < report->count; i++)
		assert(report->items[i].line > 0 && report->items[i].column > 0);
	for (size_t i = 0; r == 0 && i < config->sink_count; i++) {
		const struct sink_config *c = &config->sinks[i];
		assert(sink_kind_find(slice_of(c->kind->name)) == c->kind);
		assert((c->kind->formats & 1U << c->format) != 0);
		assert(c->batch_lines > 0 && c->batch_bytes > 0 &&
			c->retry_least_ms <= c->retry_most_ms);
		for (size_t k = 0; k < c->kind->setting_count; k++)
			assert(!c->kind->settings[k].required || sink_value_is(&c->values[k]));
	}
out:
	free(config);
	free(report);
	return 0;
}
