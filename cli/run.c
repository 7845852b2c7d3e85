/* `eclusa run`: options or --spec into a spec, the run, and its result on the right stream. */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "policy/report.h"
#include "sandbox-launcher/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define STATUS_FAILED     125
#define OPTION_NAMES_MAX  64
#define HELP_COLUMNS      24 /* of an option with its argument */
#define RESULT_TEXT_BYTES ((size_t)1 << 20)
/* a captured byte is at most six in JSON, and there are two streams */
#define RESULT_JSON_BYTES(output_limit) ((size_t)(output_limit)*12 + ((size_t)32 << 20))

struct arguments {
	int count;
	char **words;
	int at; /* next word */
	const char *spec_path;
	bool help, version;
};

static void print_help(void)
{
	size_t count;
	const struct spec_option *o = spec_options(&count);
	(void)puts(
		"usage: eclusa run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
		"       eclusa run --spec - [OPTION]...\n\n"
		"Runs PROGRAM in a sandbox, without network unless --allow, --policy or --service gives it one.\n");
	for (size_t i = 0; i < count; i++) {
		char name[64], letter[8] = "    ";
		if (o[i].letter != 0)
			(void)snprintf(letter, sizeof(letter), "-%c, ", o[i].letter);
		(void)snprintf(name, sizeof(name), "--%s%s%s", o[i].name,
			o[i].argument == NULL || o[i].kind == SPEC_OPTIONAL ? "" : " ",
			o[i].argument == NULL ? "" : o[i].argument);
		if (strlen(name) > HELP_COLUMNS) /* too wide for its column: a line of its own */
			(void)printf(
				"  %s%s\n%*s%s\n", letter, name, HELP_COLUMNS + 7, "", o[i].help);
		else
			(void)printf("  %s%-*s %s\n", letter, HELP_COLUMNS, name, o[i].help);
	}
	(void)puts(
		"      --spec FILE              read the run from a JSON document; - is standard input\n"
		"      --help, --version        print this, or the version\n\n"
		"Exit status: the program's; 124 wall limit, 137 memory, 152 processor time, 125 a failure of\n"
		"eclusa, 126 and 127 as shells, 128+n signal n.");
}

static int take_option(struct arguments *a, struct spec *spec, const struct spec_option *o,
	const char *value, struct failure *why)
{
	if (o->kind == SPEC_FLAG) {
		if (value != NULL)
			return failure_set(why, -EINVAL, "--%s takes no value", o->name);
	} else if (value == NULL && o->kind != SPEC_OPTIONAL) {
		if (a->at >= a->count)
			return failure_set(why, -EINVAL, "--%s needs %s", o->name, o->argument);
		value = a->words[a->at++];
		if (strcmp(value, "--") == 0) /* whoever means it writes --option=-- */
			return failure_set(why, -EINVAL, "--%s needs %s, and -- follows it",
				o->name, o->argument);
	}
	return spec_set(spec, o, value, why);
}

static int unknown_long(struct slice name, struct failure *why)
{
	size_t count;
	const struct spec_option *o = spec_options(&count);
	const char *names[OPTION_NAMES_MAX + 1] = {NULL};
	char shown[64];
	for (size_t i = 0; i < count && i < OPTION_NAMES_MAX; i++)
		names[i] = o[i].name;
	const char *nearest = report_nearest(name, names);
	(void)slice_escape(name, shown, sizeof(shown));
	if (nearest == NULL)
		return failure_set(why, -EINVAL, "unknown option: --%s (eclusa run --help)", shown);
	return failure_set(
		why, -EINVAL, "unknown option: --%s; did you mean --%s?", shown, nearest);
}

static int take_long(struct arguments *a, struct spec *spec, const char *word, struct failure *why)
{
	struct slice name = slice_of(word), rest = {0};
	const char *value = slice_split(name, '=', &name, &rest) ? rest.ptr : NULL;
	if (slice_equal(name, SLICE("help"))) {
		a->help = true;
		return 0;
	}
	if (slice_equal(name, SLICE("version"))) {
		a->version = true;
		return 0;
	}
	if (slice_equal(name, SLICE("spec"))) {
		if (value == NULL)
			value = a->at < a->count ? a->words[a->at++] : NULL;
		if (value == NULL || a->spec_path != NULL)
			return failure_set(
				why, -EINVAL, "--spec needs one FILE, or - for standard input");
		a->spec_path = value;
		return 0;
	}
	const struct spec_option *o = spec_option_named(name);
	if (o == NULL)
		return unknown_long(name, why);
	return take_option(a, spec, o, value, why);
}

static int take_short(
	struct arguments *a, struct spec *spec, const char *letters, struct failure *why)
{
	while (*letters != '\0') {
		const struct spec_option *o = spec_option_lettered(*letters);
		char shown[16];
		if (*letters == 'h') {
			a->help = true;
			return 0;
		}
		if (o == NULL)
			return failure_set(why, -EINVAL, "unknown option: -%s (eclusa run --help)",
				slice_escape((struct slice){letters, 1}, shown, sizeof(shown)));
		letters++;
		bool takes_rest = o->kind != SPEC_FLAG && *letters != '\0';
		int r = take_option(a, spec, o, takes_rest ? letters : NULL, why);
		if (r < 0 || takes_rest)
			return r;
	}
	return 0;
}

/* Options end at "--" or at the first word that is none. */
static int parse(struct arguments *a, struct spec *spec, struct failure *why)
{
	int r = 0;
	while (a->at < a->count && r == 0 && !a->help && !a->version) {
		const char *word = a->words[a->at];
		if (word[0] != '-' || word[1] == '\0')
			break;
		a->at++;
		if (strcmp(word, "--") == 0)
			break;
		r = word[1] == '-' ? take_long(a, spec, word + 2, why)
				   : take_short(a, spec, word + 1, why);
	}
	while (a->at < a->count && r == 0 && !a->help && !a->version)
		r = spec_add_argument(spec, a->words[a->at++], why);
	return r;
}

static int read_spec(const char *path, struct spec *spec, struct failure *why)
{
	char shown[256];
	struct buf text;
	buf_init(&text, 2 * SPEC_BYTES_MAX);
	bool standard = strcmp(path, "-") == 0;
	int r = standard ? file_read_fd(STDIN_FILENO, SPEC_BYTES_MAX, &text)
			 : file_read(AT_FDCWD, path, SPEC_BYTES_MAX, &text);
	if (r < 0)
		(void)failure_errno(
			why, r, "--spec: %s", slice_escape(slice_of(path), shown, sizeof(shown)));
	else
		r = spec_json_read(spec, buf_slice(&text), why);
	buf_fini(&text);
	if (r == 0 && standard && spec->interactive)
		r = failure_set(
			why, -EINVAL, "--spec - reads standard input: give the program's as stdin");
	spec->json = true;
	return r;
}

/*
 * Every descriptor of the caller beyond the three would live as long as we do; none of them is ours to hold. Where
 * standard output is closed its place is taken by what can't be written to, so that output is not lost in silence.
 */
static int close_inherited(void)
{
	for (int fd = 0; fd < 3; fd++) {
		int mode = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode) != fd)
			return -EBADF;
	}
	return close_range(3, ~0U, 0) < 0 ? -errno : 0;
}

static int report_json(const struct result *result, const struct spec *spec)
{
	struct buf out;
	if (spec->stream && result->write_error[0] != 0)
		return -result->write_error
				[0]; /* behind a line that is not whole it would be none */
	buf_init(&out, RESULT_JSON_BYTES(spec->output_limit_bytes));
	int r = result_json(result, spec, &out);
	if (r == 0)
		r = out.failed ? -ENOBUFS : file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
	return r;
}

/* What limits and what guards less than a run of root with a control group has; a person is told on the terminal. */
static void text_lacks(const struct result *result, struct buf *out)
{
	if (result->cgroup == CGROUP_NONE)
		(void)buf_printf(out,
			"eclusa: no control group here: limits are per process (--require cgroup "
			"refuses to run so)\n");
	if (!result->root && result->has_network)
		(void)buf_printf(out,
			"eclusa: as an ordinary user: no packet filter around the proxy, and no user "
			"id of the sandbox's own\n");
}

/*
 * Lines for people; with JSON only what went wrong on our side, as the result has the rest. Being quiet is about hints: that
 * eclusa failed is always said.
 */
static void report_text(const struct result *result, const struct spec *spec, bool failed)
{
	struct buf out;
	buf_init(&out, RESULT_TEXT_BYTES);
	if (failed || (spec->quiet && !spec->json && result_status(result) == STATUS_FAILED))
		result_errors_text(result, &out);
	else if (!spec->json && !spec->quiet)
		result_text(result, spec, &out);
	if (!failed && !spec->quiet && isatty(STDERR_FILENO))
		text_lacks(result, &out);
	(void)file_write_all(STDERR_FILENO, buf_slice(&out)); /* nowhere left to complain */
	buf_fini(&out);
}

static int report(const struct result *result, const struct spec *spec, bool failed)
{
	report_text(result, spec, failed);
	int r = spec->json ? report_json(result, spec) : 0;
	if (r == 0)
		return result_status(result);
	(void)fprintf(stderr, "eclusa: the result can't be written to standard output: %s\n",
		strerror(-r));
	return STATUS_FAILED;
}

static int run_spec(struct spec *spec)
{
	struct failure why = {0};
	struct result result;
	int r = sandbox_run(spec, &result, &why);
	int status = report(&result, spec, r < 0 || result.verdict == VERDICT_SETUP);
	result_fini(&result);
	return status;
}

/* Whoever asked for a result gets one for a wrong call, too: also if the word that asks stands behind what is wrong. */
static bool wants_json(const struct arguments *a, const struct spec *spec)
{
	bool wants = spec->json || a->spec_path != NULL;
	for (int i = a->at; i < a->count && strcmp(a->words[i], "--") != 0; i++)
		wants |= strcmp(a->words[i], "--json") == 0 ||
			strcmp(a->words[i], "--stream") == 0 ||
			slice_starts(slice_of(a->words[i]), SLICE("--spec"));
	return wants;
}

static int report_usage(const struct arguments *a, struct spec *spec, const struct failure *why)
{
	struct result result = {.exit_code = -1,
		.cpu_ns = UINT64_MAX,
		.memory_peak_bytes = UINT64_MAX,
		.verdict = VERDICT_SETUP};
	(void)sandbox_id_new(result.id);
	result_error(&result, "%s", why->text);
	spec->json = wants_json(a, spec);
	int status = report(&result, spec, true);
	result_fini(&result);
	return status;
}

int command_run(int argc, char **argv)
{
	struct arguments a = {.count = argc, .words = argv, .at = 1};
	struct failure why = {0};
	struct spec spec;
	spec_init(&spec);
	int status = STATUS_FAILED;
	int r = close_inherited();
	if (r < 0)
		(void)failure_errno(&why, r, "can't close inherited descriptors");
	if (r == 0)
		r = parse(&a, &spec, &why);
	if (r == 0 && (a.help || a.version)) {
		if (a.help)
			print_help();
		else
			(void)puts("eclusa " ECLUSA_VERSION);
		status = fflush(stdout) == 0 ? 0 : STATUS_FAILED;
		spec_fini(&spec);
		return status;
	}
	log_open("eclusa", LOG_LEVEL_WARN);
	if (r == 0)
		r = sandbox_enter(&why);
	if (r == 0 && a.spec_path != NULL)
		r = read_spec(a.spec_path, &spec, &why);
	if (r == 0)
		r = spec_check(&spec, &why);
	if (r < 0)
		status = report_usage(&a, &spec, &why);
	else
		status = run_spec(&spec);
	spec_fini(&spec);
	return status;
}
