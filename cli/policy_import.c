/*
 * `eclusa policy import`: lists of other tools, or what the user's own npm, pip and apt are set to, into policy text that loads.
 * What is printed was compiled before; findings go to standard error, so that standard output is the policy alone.
 */
#include "cli/import.h"
#include "cli/policy.h"
#include "cli/user_tool.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "policy/bundle.h"
#include "policy/format.h"
#include "policy/source.h"
#include "policy/value.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>

#define PROFILE "imported"

/** A run of the tool. */
struct import_run {
	const struct policy_words *words;
	struct import import;
	struct buf sources[64]; /* kept to the end: entries point into them */
	size_t source_count;
};

/** Sources of a kind that the user's own program tells. */
struct import_source {
	const char *name;
	import_from *read; /* a file's text; NULL: the tools below are asked */
	const char *about; /* first comment */
	int (*ask)(struct import_run *run, struct failure *why);
};

static int read_file(const char *path, struct buf *to)
{
	return file_read(AT_FDCWD, path, IMPORT_BYTES_MAX, to);
}

/** As the user's own tools would find them; the resolver of the system waits as long as it is set to. */
static size_t look_up(const char *name, struct address *to, size_t max)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	size_t count = 0;
	uint16_t port;
	if (getaddrinfo(name, NULL, &hints, &found) != 0)
		return 0;
	for (const struct addrinfo *a = found; a != NULL && count < max; a = a->ai_next)
		count += address_from_sockaddr(a->ai_addr, &to[count], &port) == 0;
	freeaddrinfo(found);
	return count;
}

/** Room for one more source. */
static struct buf *add_source(struct import_run *run)
{
	if (run->source_count == array_size(run->sources))
		return NULL;
	struct buf *b = &run->sources[run->source_count++];
	b->limit = IMPORT_BYTES_MAX + 131072;
	return b;
}

/** Ask a program and hand its answer to an importer. */
static int ask(struct import_run *run, const struct user_tool *tool, const char *place,
	import_from *take, struct failure *why)
{
	struct buf *answer = add_source(run);
	int r = answer == NULL ? -ENOBUFS : user_tool_run(tool, answer, why);
	if (r == 0)
		take(&run->import, place, buf_slice(answer));
	return r;
}

static int ask_npm(struct import_run *run, struct failure *why)
{
	static const char *const argv[] = {"npm", "config", "list", "--json", NULL};
	const struct user_tool npm = {argv, {"npm_config_", "NPM_CONFIG_"}, false};
	return ask(run, &npm, "npm config list", import_npm, why);
}

static int ask_apt(struct import_run *run, struct failure *why)
{
	static const char *const argv[] = {
		"apt-get", "indextargets", "--format", IMPORT_APT_FORMAT, NULL};
	const struct user_tool apt = {argv, {"APT_CONFIG"}, false};
	return ask(run, &apt, "apt-get indextargets", import_apt, why);
}

/** What is set, and with --online where a file would come from: pip then asks its index for a package that every index has. */
static int ask_pip(struct import_run *run, struct failure *why)
{
	static const char *const help[] = {"pip", "install", "--help", NULL};
	static const char *const list[] = {"pip", "config", "list", NULL};
	static const char *const report[] = {"pip", "install", "--dry-run", "--quiet", "--no-input",
		"--disable-pip-version-check", "--no-deps", "--ignore-installed", "--only-binary",
		":all:", "--report", "-", "pip", NULL};
	const struct user_tool tools[] = {
		{help, {"PIP_"}, false}, {list, {"PIP_"}, false}, {report, {"PIP_"}, true}};
	int r = ask(run, &tools[0], "pip install --help", import_pip_help, why);
	if (r == 0)
		r = ask(run, &tools[1], "pip config list", import_pip_config, why);
	struct failure offline = {0}; /* what is set holds all the same */
	static const char place[] = "pip install --dry-run --report";
	if (r == 0 && run->words->online &&
		ask(run, &tools[2], place, import_pip_report, &offline) < 0)
		import_left_out(&run->import, place, SLICE("the host of the files"), offline.text);
	return r;
}

static const struct import_source sources[] = {
	{"squid", import_squid,
		"A list of names says nothing of methods and ports: imported is reading (GET, HEAD) on port 443.",
		NULL},
	{"smokescreen", import_smokescreen,
		"A list of names says nothing of methods and ports: imported is reading (GET, HEAD) on port 443.",
		NULL},
	{"srt", import_srt,
		"A list of names says nothing of methods: imported is reading (GET, HEAD), on port 443 unless one is named.",
		NULL},
	{"hosts", import_hosts, "For `include`: it only denies, in every profile.", NULL},
	{"npm", NULL, "The registries that npm uses here, to read packages.", ask_npm},
	{"pip", NULL, "The indexes that pip uses here, to read packages.", ask_pip},
	{"apt", NULL, "The repositories that apt uses here, to read packages.", ask_apt},
};

static const struct import_source *find_source(const char *name)
{
	for (size_t i = 0; name != NULL && i < array_size(sources); i++) {
		if (strcmp(name, sources[i].name) == 0)
			return &sources[i];
	}
	return NULL;
}

/** The files that are named, or standard input. */
static int read_files(
	struct import_run *run, const struct import_source *source, struct failure *why)
{
	static char dash[] = "-";
	static char *const standard[] = {dash};
	const struct policy_words *w = run->words;
	char *const *paths = w->word_count == 0 ? standard : w->words;
	size_t count = w->word_count == 0 ? 1 : w->word_count;
	for (size_t i = 0; i < count && !run->import.refused; i++) {
		bool is_standard = strcmp(paths[i], "-") == 0;
		struct buf *text = add_source(run);
		int r = text == NULL  ? -ENOBUFS
			: is_standard ? file_read_fd(STDIN_FILENO, IMPORT_BYTES_MAX, text)
				      : read_file(paths[i], text);
		if (r < 0)
			return failure_errno(why, r, "%s", paths[i]);
		source->read(&run->import, is_standard ? "stdin" : paths[i], buf_slice(text));
	}
	return 0;
}

/** Nothing is printed that would not load. */
static int check_loads(struct import_run *run, struct slice text)
{
	char line[1024];
	struct policy *policy = NULL;
	struct buf bundle = {.limit = POLICY_OUTPUT_BYTES_MAX};
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	struct bundle_text file = {BUNDLE_FILE, SLICE("import"), text};
	int r = report == NULL ? -ENOMEM : bundle_open(&bundle);
	if (r == 0)
		r = bundle_append(&bundle, &file);
	if (r == 0)
		r = policy_compile(buf_slice(&bundle), &policy, report);
	policy_free(policy);
	buf_fini(&bundle);
	for (size_t i = 0; r == -EINVAL && i < report->count; i++) {
		if (report->items[i].severity == POLICY_ERROR)
			(void)buf_printf(&run->import.said, "%s\n",
				policy_diagnostic_format(&report->items[i], line, sizeof(line)));
	}
	if (r < 0)
		import_refuse(&run->import, run->words->from, "what came out does not load");
	return r;
}

/** The whole text in its one layout. @return 0 or negative errno. */
static int lay_out(struct import_run *run, const struct import_source *source, struct buf *to)
{
	struct import *im = &run->import;
	struct buf text = {.limit = POLICY_OUTPUT_BYTES_MAX};
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	(void)buf_printf(&text, "policy 1\n# Made by eclusa policy import --from %s. %s\n",
		source->name, source->about);
	(void)buf_append(&text, buf_slice(&im->text));
	int r = report == NULL || text.failed || im->text.failed || im->arena.failed
		? -ENOMEM
		: policy_format("import", buf_slice(&text), to, report);
	buf_fini(&text);
	if (r == 0 && buf_len(to) > POLICY_FILE_BYTES_MAX) {
		import_refuse(im, source->name,
			"what came out is larger than the 1 MiB that a policy file may have: split the list");
		return -EFBIG;
	}
	return r == 0 ? check_loads(run, buf_slice(to)) : r;
}

static int put_out(struct import_run *run, struct buf *text, struct failure *why)
{
	const char *path = run->words->output;
	int r = path == NULL ? file_write_all(STDOUT_FILENO, buf_slice(text))
			     : file_replace(path, buf_slice(text), 0644);
	return r < 0 ? failure_errno(why, r, "%s", path == NULL ? "standard output" : path) : 0;
}

static int import_all(
	struct import_run *run, const struct import_source *source, struct failure *why)
{
	struct buf text = {.limit = POLICY_OUTPUT_BYTES_MAX};
	int r = source->read != NULL ? read_files(run, source, why) : source->ask(run, why);
	if (r == 0 && !run->import.refused) {
		r = lay_out(run, source, &text);
		if (r < 0 && run->import.refused)
			r = 0; /* that was told */
		else if (r < 0)
			(void)failure_errno(why, r, "%s", source->name);
	}
	if (r == 0 && !run->import.refused)
		r = put_out(run, &text, why);
	buf_fini(&text);
	return r;
}

static int usage_wrong(const struct policy_words *w, const struct import_source *source)
{
	if (source == NULL)
		return policy_usage(
			"import needs --from squid|smokescreen|hosts|srt|npm|pip|apt", "");
	if (w->json)
		return policy_usage("import writes a policy, which is no JSON", "");
	if (source->read == NULL && w->word_count > 0)
		return policy_usage(
			"this source is asked itself, and no file is read: ", source->name);
	if (source->read != NULL && w->word_count > 1 && source->read != import_hosts)
		return policy_usage("one file at a time of ", source->name);
	if (w->online && source->ask == NULL)
		return policy_usage("--online is for npm, pip and apt, not for ", source->name);
	if (w->profile != NULL && value_name(slice_of(w->profile)) != NULL)
		return policy_usage("no name of a profile: ", w->profile);
	return 0;
}

int policy_import(const struct policy_words *words)
{
	const struct import_source *source = find_source(words->from);
	int status = usage_wrong(words, source);
	if (status != 0)
		return status;
	struct failure why = {0};
	auto_free struct import_run *run = calloc(1, sizeof(*run));
	if (run == NULL)
		return policy_usage("out of memory", "");
	run->words = words;
	run->import = (struct import){
		.profile = words->profile != NULL ? words->profile : PROFILE,
		.text = {.limit = POLICY_OUTPUT_BYTES_MAX},
		.said = {.limit = POLICY_OUTPUT_BYTES_MAX},
		.read = read_file,
		.look_up = words->online ? look_up : NULL,
	};
	int r = import_all(run, source, &why);
	(void)file_write_all(
		STDERR_FILENO, buf_slice(&run->import.said)); /* nowhere left to complain */
	if (r < 0)
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
	status = r < 0                                            ? POLICY_EXIT_UNREADABLE
		: run->import.refused || run->import.left_out > 0 ? POLICY_EXIT_FINDINGS
								  : POLICY_EXIT_CLEAN;
	for (size_t i = 0; i < run->source_count; i++)
		buf_fini(&run->sources[i]);
	import_fini(&run->import);
	return status;
}
