/* `eclusa audit`: the table of its tools, and their options. */
#include "cli/audit.h"
#include "cli/command.h"

#include "audit/segment.h"
#include "cli/audit_time.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

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
		"  -o FILE          where the report goes; - is standard output\n"
		"  --json           one JSON object instead of lines\n"
		"  --help           this text\n"
		"\n"
		"Exit status: 0 sound, 1 findings, 2 unreadable or wrong usage.\n",
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

/** An option without a value. False: it is none, or not this tool's. */
static bool take_flag(const struct audit_tool *tool, const char *word, struct audit_words *to)
{
	bool *flag = NULL;
	if (strcmp(word, "--json") == 0 && (tool->options & AUDIT_OPTION_JSON) != 0)
		flag = &to->json;
	else if (strcmp(word, "--signed") == 0 && (tool->options & AUDIT_OPTION_SIGNED) != 0)
		flag = &to->signed_only;
	if (flag != NULL)
		*flag = true;
	return flag != NULL;
}

/** The option that takes a value, or 0. */
static unsigned valued_option(const struct audit_tool *tool, const char *word)
{
	static const struct {
		const char *word;
		enum audit_option option;
	} options[] = {
		{"--audit-dir", AUDIT_OPTION_FOLDER},
		{"--pub", AUDIT_OPTION_PUBLIC},
		{"--from", AUDIT_OPTION_FROM},
		{"--from", AUDIT_OPTION_SINCE}, /* no tool takes both */
		{"--to", AUDIT_OPTION_UNTIL},
		{"-o", AUDIT_OPTION_OUTPUT},
		{"--key", AUDIT_OPTION_KEY},
	};
	for (size_t i = 0; i < array_size(options); i++) {
		if (strcmp(word, options[i].word) == 0 && (tool->options & options[i].option) != 0)
			return options[i].option;
	}
	return 0;
}

/** Where the value of an option goes that is a text. */
static const char **place_of(unsigned option, struct audit_words *to)
{
	switch (option) {
	case AUDIT_OPTION_FOLDER:
		return &to->folder;
	case AUDIT_OPTION_PUBLIC:
		return &to->public_key;
	case AUDIT_OPTION_SINCE:
		return &to->since;
	case AUDIT_OPTION_UNTIL:
		return &to->until;
	case AUDIT_OPTION_OUTPUT:
		return &to->output;
	}
	return &to->key;
}

/** @return 0, or AUDIT_EXIT_UNREADABLE after saying why. */
static int take_value(unsigned option, const char *value, struct audit_words *to)
{
	const char **text = place_of(option, to);
	if (option == AUDIT_OPTION_FROM)
		return slice_decimal(slice_of(value), INT64_MAX, false, &to->from) == 0
			? 0
			: audit_usage("--from takes the number of a line, not ", value);
	if (*text != NULL)
		return audit_usage("an option stands twice, with ", value);
	*text = value;
	return 0;
}

/** Words that are no options move to the front of argv. @return 0 or AUDIT_EXIT_UNREADABLE. */
static int take_words(const struct audit_tool *tool, int argc, char **argv, struct audit_words *to)
{
	bool options = true;
	to->words = argv;
	for (int i = 1; i < argc; i++) {
		unsigned option = options ? valued_option(tool, argv[i]) : 0;
		if (options && strcmp(argv[i], "--") == 0)
			options = false;
		else if (option != 0 && i + 1 == argc)
			return audit_usage("a value is missing after ", argv[i]);
		else if (option != 0 && take_value(option, argv[++i], to) != 0)
			return AUDIT_EXIT_UNREADABLE;
		else if (option == 0 && options && argv[i][0] == '-' &&
			!take_flag(tool, argv[i], to))
			return audit_usage("unknown option ", argv[i]);
		else if (option == 0 && !(options && argv[i][0] == '-'))
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
