/* See check.h. */
#include "export/check.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "export/sink.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/** @return 0; -EINVAL: findings; another negative errno after a line on stderr. */
static int load(const char *path, struct export_config *config, struct policy_report *report)
{
	struct buf text = {.limit = 2 * EXPORT_CONFIG_BYTES_MAX};
	char shown[512];
	int r = file_read(AT_FDCWD, path, EXPORT_CONFIG_BYTES_MAX, &text);
	if (r < 0)
		(void)fprintf(stderr, "eclusa-export: %s: %s\n",
			slice_escape(slice_of(path), shown, sizeof(shown)), strerror(-r));
	bool read = r == 0;
	if (read)
		r = export_config_parse(path, buf_slice(&text), config, report);
	buf_fini(&text);
	if (read && r == -ENOMEM)
		(void)fprintf(stderr, "eclusa-export: %s\n", strerror(ENOMEM));
	if (r == 0)
		export_config_inspect(config, report);
	return r < 0 && !(read && r == -EINVAL) ? (r == -EINVAL ? -EIO : r)
		: report->errors > 0            ? -EINVAL
						: 0;
}

static void print_report(const struct policy_report *report, FILE *to)
{
	char said[1024];
	for (size_t i = 0; i < report->count; i++)
		(void)fprintf(to, "%s\n",
			policy_diagnostic_format(&report->items[i], said, sizeof(said)));
}

static void print_json(const struct policy_report *report)
{
	struct buf out = {.limit = 0};
	struct json j;
	json_open(&j, &out);
	json_object(&j, NULL);
	json_array(&j, "findings");
	for (size_t i = 0; i < report->count; i++) {
		const struct policy_diagnostic *d = &report->items[i];
		json_object(&j, NULL);
		json_text(&j, "file", d->file);
		json_uint(&j, "line", d->line);
		json_uint(&j, "column", d->column);
		json_text(&j, "severity", policy_severity_name(d->severity));
		json_text(&j, "code", d->code);
		json_text(&j, "text", d->text);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_uint(&j, "errors", report->errors);
	json_object_end(&j);
	(void)buf_append(&out, SLICE("\n")); /* errors show in the end of the text */
	(void)file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
}

enum export_exit export_load(const char *path, struct export_config **ret)
{
	struct export_config *config = calloc(1, sizeof(*config));
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	if (config == NULL || report == NULL) {
		free(config);
		return EXPORT_EXIT_FAILED;
	}
	int r = load(path, config, report);
	print_report(report, stderr);
	if (r < 0) {
		free(config);
		return EXPORT_EXIT_UNREADABLE;
	}
	*ret = config;
	return EXPORT_EXIT_FINE;
}

/** Certificates that are none show only when they are used. */
static void try_sinks(const struct export_config *config, struct policy_report *report)
{
	for (size_t i = 0; i < config->sink_count; i++) {
		const struct sink_config *c = &config->sinks[i];
		struct failure why = {0};
		struct sink *sink = NULL;
		if (c->kind->open(c, &sink, &why) < 0)
			report_error(report, c->place, "open", "%s", why.text);
		c->kind->free(sink);
	}
}

enum export_exit export_check(const char *path, bool as_json)
{
	auto_free struct export_config *config = calloc(1, sizeof(*config));
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	if (config == NULL || report == NULL)
		return EXPORT_EXIT_UNREADABLE;
	int r = load(path, config, report);
	if (r < 0 && r != -EINVAL)
		return EXPORT_EXIT_UNREADABLE;
	if (r == 0)
		try_sinks(config, report);
	if (r == 0 && geteuid() == 0 && config->user[0] == '\0') /* who starts it may not be root */
		(void)fputs(
			"eclusa-export: started as root it will want a line 'user NAME'\n", stderr);
	report_sort(report, &path, 1);
	if (as_json)
		print_json(report);
	else
		print_report(report, stdout);
	return report->count > 0 ? EXPORT_EXIT_FAILED : EXPORT_EXIT_FINE;
}
