/* eclusa-export: gives the audit log to other systems, as its configuration says. Options only. */
#include "common/cleanup.h"
#include "common/log.h"
#include "export/check.h"
#include "export/super.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
	"usage: eclusa-export --config FILE [--once] [--metrics WHERE]\n"
	"       eclusa-export --check FILE [--json]\n"
	"\n"
	"Gives the events of the audit log to the sinks of its configuration: syslog, HTTP, journal,\n"
	"files. Each event reaches each sink at least once, in the order of its run.\n"
	"\n"
	"  --config FILE   what to send where; see eclusa-export(8)\n"
	"  --once          end when every sink has everything that is in the log\n"
	"  --metrics WHERE answer Prometheus at ADDRESS:PORT of the loopback, or on the Unix\n"
	"                  socket /PATH\n"
	"  --check FILE    only say what is wrong with a configuration\n"
	"  --json          with --check: one JSON object instead of lines\n"
	"  --help, --version\n"
	"\n"
	"SIGTERM and SIGINT end it in order. What was not delivered then is delivered next time.\n"
	"Exit status: 0 ended in order, or nothing is wrong; 1 failed, or findings; 2 the configuration\n"
	"can't be read or used, or wrong usage.\n";

struct words {
	const char *config, *check, *metrics;
	bool once, json;
};

static int wrong_usage(const char *what, const char *arg)
{
	char shown[128];
	(void)fprintf(stderr, "eclusa-export: %s%s; see eclusa-export --help\n", what,
		slice_escape(slice_of(arg), shown, sizeof(shown)));
	return EXPORT_EXIT_UNREADABLE;
}

/** @return 0 or EXPORT_EXIT_UNREADABLE. */
static int take_words(int argc, char **argv, struct words *to)
{
	for (int i = 1; i < argc; i++) {
		const char **file = strcmp(argv[i], "--config") == 0 ? &to->config
			: strcmp(argv[i], "--check") == 0            ? &to->check
			: strcmp(argv[i], "--metrics") == 0          ? &to->metrics
								     : NULL;
		if (strcmp(argv[i], "--once") == 0)
			to->once = true;
		else if (strcmp(argv[i], "--json") == 0)
			to->json = true;
		else if (file == NULL)
			return wrong_usage("unknown word ", argv[i]);
		else if (*file != NULL)
			return wrong_usage("it stands twice: ", argv[i]);
		else if (i + 1 == argc)
			return wrong_usage("a value is missing after ", argv[i]);
		else
			*file = argv[++i];
	}
	if ((to->config == NULL) == (to->check == NULL))
		return wrong_usage("either --config or --check is needed", "");
	if (to->check != NULL && to->metrics != NULL)
		return wrong_usage("--metrics is for --config", "");
	if (to->config != NULL ? to->json : to->once)
		return wrong_usage(
			to->json ? "--json is for --check" : "--once is for --config", "");
	return 0;
}

static int run(const struct words *words)
{
	struct failure why = {0};
	struct export_config *loaded = NULL;
	enum export_exit status = export_load(words->config, &loaded);
	auto_free struct export_config *config = loaded;
	if (status != EXPORT_EXIT_FINE)
		return (int)status;
	const struct super_options options = {
		.config = config, .once = words->once, .metrics = words->metrics};
	if (super_run(&options, &why) == 0)
		return EXPORT_EXIT_FINE;
	char shown[FAILURE_TEXT_BYTES];
	(void)fprintf(stderr, "eclusa-export: %s\n",
		slice_escape(slice_of(why.text), shown, sizeof(shown)));
	return EXPORT_EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct words words = {.config = NULL};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return fputs(usage, stdout) == EOF;
		if (strcmp(argv[i], "--version") == 0)
			return printf("eclusa-export %s\n", ECLUSA_VERSION) < 0;
	}
	log_open("eclusa-export", LOG_LEVEL_INFO);
	int status = take_words(argc, argv, &words);
	if (status != 0)
		return status;
	return words.check != NULL ? (int)export_check(words.check, words.json) : run(&words);
}
