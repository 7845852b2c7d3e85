/* `eclusa run`: options or --spec into a spec, the run, and its result on the right stream. */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "sandbox-launcher/run.h"

#include <fcntl.h>
#include <stdio.h>

#define STATUS_FAILED     125
#define RESULT_TEXT_BYTES ((size_t)1 << 20)
/* a captured byte is at most six in JSON, and there are two streams */
#define RESULT_JSON_BYTES(output_limit) ((size_t)(output_limit)*12 + ((size_t)32 << 20))

struct arguments {
	int count;
	char **words;
	int at; /* next word */
	const char *spec_path;
	bool help;
};

static void print_help(void)
{
	size_t count;
	const struct spec_option *o = spec_options(&count);
	(void)puts(
		"usage: eclusa run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
		"       eclusa run --spec - [OPTION]...\n\n"
		"Runs PROGRAM in a sandbox, without network unless --allow or --policy gives it one.\n");
	for (size_t i = 0; i < count; i++) {
		char name[64], letter[8] = "    ";
		if (o[i].letter != 0)
			(void)snprintf(letter, sizeof(letter), "-%c, ", o[i].letter);
		(void)snprintf(name, sizeof(name), "--%s%s%s", o[i].name,
			o[i].argument == NULL ? "" : " ",
			o[i].argument == NULL ? "" : o[i].argument);
		(void)printf("  %s%-24s %s\n", letter, name, o[i].help);
	}
	(void)puts(
		"      --spec FILE              read the run from a JSON document; - is standard input\n"
		"      --help                   print this\n\n"
		"Exit status: the program's; 124 wall limit, 137 memory, 152 processor time, 125 a failure of\n"
		"eclusa, 126 and 127 as shells, 128+n signal n.");
}

static int take_option(struct arguments *a, struct spec *spec, const struct spec_option *o,
	const char *value, struct failure *why)
{
	if (o->kind == SPEC_FLAG) {
		if (value != NULL)
			return failure_set(why, -EINVAL, "--%s takes no value", o->name);
	} else if (value == NULL) {
		if (a->at >= a->count)
			return failure_set(why, -EINVAL, "--%s needs %s", o->name, o->argument);
		value = a->words[a->at++];
	}
	return spec_set(spec, o, value, why);
}

static int take_long(struct arguments *a, struct spec *spec, const char *word, struct failure *why)
{
	struct slice name = slice_of(word), rest = {0};
	const char *value = slice_split(name, '=', &name, &rest) ? rest.ptr : NULL;
	if (slice_equal(name, SLICE("help"))) {
		a->help = true;
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
	char shown[64];
	if (o == NULL)
		return failure_set(why, -EINVAL, "unknown option: --%s (eclusa run --help)",
			slice_escape(name, shown, sizeof(shown)));
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
	while (a->at < a->count && r == 0 && !a->help) {
		const char *word = a->words[a->at];
		if (word[0] != '-' || word[1] == '\0')
			break;
		a->at++;
		if (strcmp(word, "--") == 0)
			break;
		r = word[1] == '-' ? take_long(a, spec, word + 2, why)
				   : take_short(a, spec, word + 1, why);
	}
	while (a->at < a->count && r == 0 && !a->help)
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

/* Every descriptor of the caller beyond the three would live as long as we do; none of them is ours to hold. */
static int close_inherited(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return -EBADF;
	return close_range(3, ~0U, 0) < 0 ? -errno : 0;
}

static int report_json(const struct result *result, const struct spec *spec)
{
	struct buf out;
	buf_init(&out, RESULT_JSON_BYTES(spec->output_limit_bytes));
	int r = result_json(result, spec, &out);
	if (r == 0)
		r = out.failed ? -ENOBUFS : file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
	return r;
}

/* Lines for people; with JSON only what went wrong on our side, as the result has the rest. */
static void report_text(const struct result *result, const struct spec *spec, bool failed)
{
	struct buf out;
	buf_init(&out, RESULT_TEXT_BYTES);
	if (failed)
		for (size_t i = 0; i < result->error_count; i++)
			(void)buf_printf(&out, "eclusa: %s\n", result->errors[i]);
	else if (!spec->json && !spec->quiet)
		result_text(result, spec, &out);
	if (!failed && !spec->quiet && result->cgroup == CGROUP_NONE && isatty(STDERR_FILENO))
		(void)buf_printf(&out,
			"eclusa: no control group here: limits are per process (--require cgroup "
			"refuses to run so)\n");
	(void)file_write_all(STDERR_FILENO, buf_slice(&out)); /* nowhere left to complain */
	buf_fini(&out);
}

static int run_spec(struct spec *spec)
{
	struct failure why = {0};
	struct result result;
	int r = sandbox_run(spec, &result, &why);
	bool failed = r < 0 || result.verdict == VERDICT_SETUP;
	int status = result_status(&result);
	report_text(&result, spec, failed);
	if (spec->json && report_json(&result, spec) < 0)
		status = STATUS_FAILED;
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
	if (r == 0 && a.help) {
		print_help();
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
		(void)fprintf(stderr, "eclusa: %s\n", why.text);
	else
		status = run_spec(&spec);
	spec_fini(&spec);
	return status;
}
