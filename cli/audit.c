/* `eclusa audit`: the table of its tools, and their options. */
#include "cli/audit.h"
#include "cli/command.h"
#include "cli/tool.h"

#include "audit/segment.h"
#include "cli/audit_time.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#define PROGRESS_NS (NS_PER_SEC / 5)

struct audit_tool {
	struct tool tool; /* options: bits of enum audit_option */
	audit_tool_run *run;
};

static const struct audit_tool tools[] = {
	{{"verify",
		 "[--json] [--audit-dir DIR] [--pub KEY] [--signed] [--from SEQ] [FILE...]\n"
		 "      whether the log is as it was written: each line, each chain, no file missing",
		 AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER | AUDIT_OPTION_PUBLIC |
			 AUDIT_OPTION_SIGNED | AUDIT_OPTION_FROM,
		 0, SIZE_MAX},
		audit_tool_verify},
	{{"keygen",
		 "[--key FILE]\n"
		 "      make the key that signs checkpoints if there is none; print its public half",
		 AUDIT_OPTION_KEY, 0, 0},
		audit_tool_keygen},
	{{"report",
		 "[--audit-dir DIR] [--from TIME] [--to TIME] -o FILE\n"
		 "      one HTML file that shows what left and what did not",
		 AUDIT_OPTION_FOLDER | AUDIT_OPTION_SINCE | AUDIT_OPTION_UNTIL |
			 AUDIT_OPTION_OUTPUT,
		 0, 0},
		audit_tool_report},
	{{"tail",
		 "[-f] [-n N] [--json] [--audit-dir DIR] [FILTER...]\n"
		 "      the last events, a line each; with -f those that follow, too",
		 AUDIT_OPTION_FOLLOW | AUDIT_OPTION_COUNT | AUDIT_OPTION_JSON |
			 AUDIT_OPTION_FOLDER | AUDIT_OPTION_FILTER,
		 0, 0},
		audit_tool_tail},
	{{"grep",
		 "[--json] [--audit-dir DIR] [FILTER...] [TEXT]\n"
		 "      the events that hold a text",
		 AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER | AUDIT_OPTION_FILTER, 0, 1},
		audit_tool_grep},
	{{"stats",
		 "[-n N] [--json] [--audit-dir DIR] [FILTER...]\n"
		 "      verdicts by reason, hosts, denied hosts with rules that would allow them, bytes",
		 AUDIT_OPTION_COUNT | AUDIT_OPTION_JSON | AUDIT_OPTION_FOLDER | AUDIT_OPTION_FILTER,
		 0, 0},
		audit_tool_stats},
	{{"export",
		 "--format NAME [-o FILE] [--audit-dir DIR] [FILTER...]\n"
		 "      the events as other systems read them: ocsf, ocsf-bare, ecs, cef, leef or csv",
		 AUDIT_OPTION_FORMAT | AUDIT_OPTION_OUTPUT | AUDIT_OPTION_FOLDER |
			 AUDIT_OPTION_FILTER,
		 0, 0},
		audit_tool_export},
	{{"prune",
		 "--before TIME [--audit-dir DIR]\n"
		 "      delete files that ended before, and write into the index that this was done",
		 AUDIT_OPTION_BEFORE | AUDIT_OPTION_FOLDER, 0, 0},
		audit_tool_prune},
};

/** Where a line's values go in struct audit_words. */
static const struct tool_option options[] = {
	{"--json", AUDIT_OPTION_JSON, TOOL_FLAG, offsetof(struct audit_words, json), 0},
	{"--signed", AUDIT_OPTION_SIGNED, TOOL_FLAG, offsetof(struct audit_words, signed_only), 0},
	{"-f", AUDIT_OPTION_FOLLOW, TOOL_FLAG, offsetof(struct audit_words, follow), 0},
	{"--audit-dir", AUDIT_OPTION_FOLDER, TOOL_TEXT, offsetof(struct audit_words, folder), 0},
	{"--pub", AUDIT_OPTION_PUBLIC, TOOL_TEXT, offsetof(struct audit_words, public_key), 0},
	{"--from", AUDIT_OPTION_FROM, TOOL_TEXT, offsetof(struct audit_words, from), 0},
	{"--key", AUDIT_OPTION_KEY, TOOL_TEXT, offsetof(struct audit_words, key), 0},
	{"--from", AUDIT_OPTION_SINCE | AUDIT_OPTION_FILTER, TOOL_TEXT,
		offsetof(struct audit_words, since), 0},
	{"--to", AUDIT_OPTION_UNTIL | AUDIT_OPTION_FILTER, TOOL_TEXT,
		offsetof(struct audit_words, until), 0},
	{"--before", AUDIT_OPTION_BEFORE, TOOL_TEXT, offsetof(struct audit_words, before), 0},
	{"-o", AUDIT_OPTION_OUTPUT, TOOL_TEXT, offsetof(struct audit_words, output), 0},
	{"--format", AUDIT_OPTION_FORMAT, TOOL_TEXT, offsetof(struct audit_words, format), 0},
	{"-n", AUDIT_OPTION_COUNT, TOOL_TEXT, offsetof(struct audit_words, count), 0},
	{"--since", AUDIT_OPTION_SINCE | AUDIT_OPTION_FILTER, TOOL_TEXT,
		offsetof(struct audit_words, since), 0},
	{"--until", AUDIT_OPTION_UNTIL | AUDIT_OPTION_FILTER, TOOL_TEXT,
		offsetof(struct audit_words, until), 0},
	{"--sandbox", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, sandbox), 0},
	{"--host", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, host), 0},
	{"--verdict", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, verdict), 0},
	{"--reason", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, reason), 0},
	{"--rule", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, rule), 0},
	{"--profile", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, profile), 0},
	{"--class", AUDIT_OPTION_FILTER, TOOL_TEXT, offsetof(struct audit_words, class), 0},
};

static const struct tool_family family = {
	.name = "eclusa audit",
	.tools = tools,
	.tool_count = array_size(tools),
	.tool_bytes = sizeof(tools[0]),
	.options = options,
	.option_count = array_size(options),
	.help = "\n"
		"  --audit-dir DIR  the log, if it is not where runs leave it by default\n"
		"  --pub KEY        the public half of the key that must have signed it\n"
		"  --signed         with --pub: lines that no signature covers are findings, too\n"
		"  --from SEQ       look at lines from this number on, and miss none before\n"
		"  --from TIME, --to TIME\n"
		"                   only events of this time, its end left out, also written as\n"
		"                   --since and --until; TIME is one of\n"
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
		"                   of this time, its end left out; also --from and --to\n"
		"\n"
		"Exit status: 0 sound, 1 findings (grep: nothing found), 2 unreadable or wrong usage.\n",
};

int audit_usage(const char *what, const char *arg)
{
	return tool_usage(&family, what, arg);
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

int command_audit(int argc, char **argv)
{
	struct audit_words words = {0};
	struct tool_line line = {.argc = argc, .argv = argv, .to = &words};
	int status = tool_take(&family, &line);
	if (line.tool == NULL)
		return status;
	words.words = line.words;
	words.word_count = line.word_count;
	return ((const struct audit_tool *)line.tool)->run(&words);
}
