/* `eclusa audit`: the table of its tools, and their options. */
#include "cli/audit.h"
#include "cli/command.h"

#include "audit/segment.h"
#include "cli/audit_time.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define PROGRESS_NS (NS_PER_SEC / 5)

struct audit_tool {
	const char *name;
	const char *usage; /* words after the name, and what it does */
	unsigned options;  /* bits of enum audit_option */
	size_t words_max;
	audit_tool_run *run;
};

static const struct audit_tool tools[] = {
	{"verify",
		"[--json] [--audit-dir DIR] [--pub KEY] [--signed] [--from SEQ] [FILE...]\n"
		"      whether the log is as it was written: each line, each chain, no file missing",
		AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER | AUDIT_OPTION_PUBLIC |
			AUDIT_OPTION_SIGNED | AUDIT_OPTION_FROM,
		SIZE_MAX, audit_tool_verify},
	{"keygen",
		"[--key FILE]\n"
		"      make the key that signs checkpoints if there is none; print its public half",
		AUDIT_OPTION_KEY, 0, audit_tool_keygen},
	{"report",
		"[--audit-dir DIR] [--from TIME] [--to TIME] -o FILE\n"
		"      one HTML file that shows what left and what did not",
		AUDIT_OPTION_FOLDER | AUDIT_OPTION_SINCE | AUDIT_OPTION_UNTIL | AUDIT_OPTION_OUTPUT,
		0, audit_tool_report},
	{"tail",
		"[-f] [-n N] [--json] [--audit-dir DIR] [FILTER...]\n"
		"      the last events, a line each; with -f those that follow, too",
		AUDIT_OPTION_FOLLOW | AUDIT_OPTION_COUNT | AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER |
			AUDIT_OPTION_FILTER,
		0, audit_tool_tail},
	{"grep",
		"[--json] [--audit-dir DIR] [FILTER...] [TEXT]\n"
		"      the events that hold a text",
		AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER | AUDIT_OPTION_FILTER, 1, audit_tool_grep},
	{"stats",
		"[-n N] [--json] [--audit-dir DIR] [FILTER...]\n"
		"      verdicts by reason, hosts, denied hosts with rules that would allow them, bytes",
		AUDIT_OPTION_COUNT | AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER | AUDIT_OPTION_FILTER,
		0, audit_tool_stats},
	{"export",
		"--format NAME [-o FILE] [--audit-dir DIR] [FILTER...]\n"
		"      the events as other systems read them: ocsf, ocsf-bare, ecs, cef, leef or csv",
		AUDIT_OPTION_FORMAT | AUDIT_OPTION_OUTPUT | AUDIT_OPTION_FOLDER |
			AUDIT_OPTION_FILTER,
		0, audit_tool_export},
	{"prune",
		"--before TIME [--audit-dir DIR]\n"
		"      delete files that ended before, and write into the index that this was done",
		AUDIT_OPTION_BEFORE | AUDIT_OPTION_FOLDER, 0, audit_tool_prune},
};

static int print_help(void)
{
	(void)fputs("usage:\n", stdout);
	for (size_t i = 0; i < array_size(tools); i++)
		(void)printf("  eclusa audit %s %s\n", tools[i].name, tools[i].usage);
	(void)fputs(
		"\n"
		"  --audit-dir DIR  the log, if it is not where runs leave it by default\n"
		"  --pub KEY        the public half of the key that must have signed it\n"
		"  --signed         with --pub: lines that no signature covers are findings, too\n"
		"  --from SEQ       look at lines from this number on, and miss none before\n"
		"  --from TIME, --to TIME\n"
		"                   only events of this time; TIME is one of\n"
		"                   " AUDIT_TIME_FORMS "\n"
		"  --before TIME    what ended before is deleted\n"
		"  -o FILE          where the report or the export goes; - is standard output\n"
		"  --format NAME    of an export\n"
		"  -n N             so many events, or rows of a table: 10 if it is not said\n"
		"  -f               go on with what is being written\n"
		"  --json           verify, stats: one JSON object; tail, grep: the lines of the log\n"
		"  --help           this text\n"
		"\n"
		"Each FILTER that is given has to fit:\n"
		"  --sandbox ID     its id or name\n"
		"  --host NAME      a host, or .NAME for all below it\n"
		"  --verdict WORD   allow, deny, error or observe\n"
		"  --reason CODE    such as deny.path\n"
		"  --rule ID        that decided\n"
		"  --profile NAME   in force\n"
		"  --class WORD     http, network, dns, process, entity or lifecycle\n"
		"  --since TIME, --until TIME\n"
		"                   of this time, its end left out\n"
		"\n"
		"Exit status: 0 sound, 1 findings (grep: nothing found), 2 unreadable or wrong usage.\n",
		stdout);
	return fflush(stdout) != 0 ? AUDIT_EXIT_UNREADABLE : AUDIT_EXIT_SOUND;
}

int audit_usage(const char *what, const char *arg)
{
	char shown[128];
	(void)fprintf(stderr, "eclusa audit: %s%s; see eclusa audit --help\n", what,
		slice_escape(slice_of(arg), shown, sizeof(shown)));
	return AUDIT_EXIT_UNREADABLE;
}

int audit_open_folder(const struct audit_words *words)
{
	char path[PATH_MAX], shown[PATH_MAX];
	struct failure why = {0};
	const char *folder = words->folder;
	if (folder == NULL) {
		int r = audit_folder_default(geteuid() == 0, path, sizeof(path), &why);
		if (r < 0) {
			(void)fprintf(stderr, "eclusa audit: %s\n", why.text);
			return r;
		}
		folder = path;
	}
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	int error = errno;
	(void)fprintf(stderr, "eclusa audit: %s: %s\n",
		slice_escape(slice_of(folder), shown, sizeof(shown)), strerror(error));
	return -error;
}

int audit_finish(struct buf *out, int status)
{
	int r = out->failed ? -ENOMEM : file_write_all(STDOUT_FILENO, buf_slice(out));
	buf_fini(out);
	if (r < 0 && r != -EPIPE)
		(void)fprintf(stderr, "eclusa audit: standard output: %s\n", strerror(-r));
	return r < 0 ? AUDIT_EXIT_UNREADABLE : status;
}

int audit_number(const char *text, const char *what, uint64_t max, uint64_t *ret)
{
	return slice_decimal(slice_of(text), max, false, ret) == 0 ? 0 : audit_usage(what, text);
}

void audit_progress_show(struct audit_progress *p, uint64_t done_bytes, uint64_t all_bytes)
{
	uint64_t now = clock_monotonic_ns();
	if (p->last_ns == 0)
		p->last_ns = now;
	if (!p->on || now - p->last_ns < PROGRESS_NS)
		return;
	p->last_ns = now;
	p->shown = true;
	(void)fprintf(stderr, "\r%3" PRIu64 " %% of %" PRIu64 " MiB",
		all_bytes == 0 ? 100 : done_bytes * 100 / all_bytes, all_bytes >> 20);
}

void audit_progress_end(struct audit_progress *p)
{
	if (p->shown)
		(void)fputs("\r\033[K", stderr);
}

/** An option without a value. False: it is none, or not this tool's. */
static bool take_flag(const struct audit_tool *tool, const char *word, struct audit_words *to)
{
	const struct {
		const char *word;
		enum audit_option option;
		bool *flag;
	} flags[] = {
		{"--json", AUDIT_OPTION_JSON, &to->json},
		{"--signed", AUDIT_OPTION_SIGNED, &to->signed_only},
		{"-f", AUDIT_OPTION_FOLLOW, &to->follow},
	};
	for (size_t i = 0; i < array_size(flags); i++) {
		if (strcmp(word, flags[i].word) == 0 && (tool->options & flags[i].option) != 0) {
			*flags[i].flag = true;
			return true;
		}
	}
	return false;
}

/** Where the value goes that stands behind this word; NULL: it is no option of the tool's that takes one. */
static const char **valued_option(
	const struct audit_tool *tool, const char *word, struct audit_words *to)
{
	const struct {
		const char *word;
		enum audit_option option;
		const char **value;
	} options[] = {
		{"--audit-dir", AUDIT_OPTION_FOLDER, &to->folder},
		{"--pub", AUDIT_OPTION_PUBLIC, &to->public_key},
		{"--from", AUDIT_OPTION_FROM, &to->from},
		{"--key", AUDIT_OPTION_KEY, &to->key},
		{"--from", AUDIT_OPTION_SINCE, &to->since}, /* no tool takes both */
		{"--to", AUDIT_OPTION_UNTIL, &to->until},
		{"--before", AUDIT_OPTION_BEFORE, &to->before},
		{"-o", AUDIT_OPTION_OUTPUT, &to->output},
		{"--format", AUDIT_OPTION_FORMAT, &to->format},
		{"-n", AUDIT_OPTION_COUNT, &to->count},
		{"--since", AUDIT_OPTION_FILTER, &to->since},
		{"--until", AUDIT_OPTION_FILTER, &to->until},
		{"--sandbox", AUDIT_OPTION_FILTER, &to->sandbox},
		{"--host", AUDIT_OPTION_FILTER, &to->host},
		{"--verdict", AUDIT_OPTION_FILTER, &to->verdict},
		{"--reason", AUDIT_OPTION_FILTER, &to->reason},
		{"--rule", AUDIT_OPTION_FILTER, &to->rule},
		{"--profile", AUDIT_OPTION_FILTER, &to->profile},
		{"--class", AUDIT_OPTION_FILTER, &to->class},
	};
	for (size_t i = 0; i < array_size(options); i++) {
		if (strcmp(word, options[i].word) == 0 && (tool->options & options[i].option) != 0)
			return options[i].value;
	}
	return NULL;
}

/** Words that are no options move to the front of argv. @return 0 or AUDIT_EXIT_UNREADABLE. */
static int take_words(const struct audit_tool *tool, int argc, char **argv, struct audit_words *to)
{
	bool options = true;
	to->words = argv;
	for (int i = 1; i < argc; i++) {
		const char **value = options ? valued_option(tool, argv[i], to) : NULL;
		if (options && strcmp(argv[i], "--") == 0)
			options = false;
		else if (value != NULL && i + 1 == argc)
			return audit_usage("a value is missing after ", argv[i]);
		else if (value != NULL && *value != NULL)
			return audit_usage("an option stands twice: ", argv[i]);
		else if (value != NULL)
			*value = argv[++i];
		else if (options && argv[i][0] == '-' && !take_flag(tool, argv[i], to))
			return audit_usage("unknown option ", argv[i]);
		else if (!(options && argv[i][0] == '-'))
			argv[to->word_count++] = argv[i]; /* word_count < i */
	}
	if (to->word_count > tool->words_max)
		return audit_usage("too many words after ", tool->name);
	return 0;
}

static int run_tool(const struct audit_tool *tool, int argc, char **argv)
{
	struct audit_words words = {0};
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return print_help();
	}
	int status = take_words(tool, argc, argv, &words);
	return status != 0 ? status : tool->run(&words);
}

int command_audit(int argc, char **argv)
{
	if (argc < 2)
		return audit_usage("a subcommand is missing", "");
	for (size_t i = 0; i < array_size(tools); i++) {
		if (strcmp(argv[1], tools[i].name) == 0)
			return run_tool(&tools[i], argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	return audit_usage("unknown subcommand ", argv[1]);
}
