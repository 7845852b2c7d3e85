/*
 * `eclusa env`: the variables that tell clients of a proxy and of the roots they are to trust, as a shell, a program or a
 * container's runtime reads them. As they are in a sandbox, or for a proxy that was started alone.
 */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "sandbox-launcher/trust_places.h"
#include "sandbox-launcher/variables.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum env_exit { ENV_EXIT_PRINTED = 0, ENV_EXIT_FAILED = 1, ENV_EXIT_USAGE = 2 };
enum env_format { ENV_SHELL, ENV_JSON, ENV_DOTENV };

#define OUTPUT_BYTES ((size_t)1 << 20)

/* A command line, taken apart. */
struct env_words {
	enum env_format format;
	const char *proxy, *ca, *proxy_env;
	bool help;
};

/* Where the variables go. */
struct env_output {
	enum env_format format;
	struct buf text;
	struct json json;
};

static void print_help(void)
{
	(void)puts(
		"usage: eclusa env [--shell | --json | --dotenv] [--proxy-env on|off]\n"
		"       eclusa env [--shell | --json | --dotenv] [--proxy URL] [--ca FILE]\n"
		"\n"
		"Prints the variables that tell clients of the proxy, and of the roots that they are to trust:\n"
		"those of a sandbox, or those for a proxy that runs alone.\n"
		"\n"
		"  --shell             export NAME='VALUE', for eval \"$(eclusa env)\" (default)\n"
		"  --json              one JSON object\n"
		"  --dotenv            NAME=VALUE as it is, for files that containers' runtimes read\n"
		"  --proxy-env on|off  off: only those about roots, as eclusa run --proxy-env off\n"
		"  --proxy URL         of a proxy that runs alone\n"
		"  --ca FILE           its certificate, or a bundle of roots with it, in PEM\n"
		"  --help              this text\n"
		"\n"
		"exit 0: printed; 1: it can't be; 2: wrong usage");
}

static int usage(const char *what, const char *word)
{
	char shown[128];
	(void)fprintf(stderr, "eclusa env: %s%s (eclusa env --help)\n", what,
		slice_escape(slice_of(word), shown, sizeof(shown)));
	return ENV_EXIT_USAGE;
}

/* One option and its value. @return 0 or ENV_EXIT_USAGE. */
static int take_value(struct env_words *w, const char *name, const char *value)
{
	const struct {
		const char *name;
		const char **where;
	} values[] = {{"--proxy", &w->proxy}, {"--ca", &w->ca}, {"--proxy-env", &w->proxy_env}};
	for (size_t i = 0; i < array_size(values); i++) {
		if (strcmp(name, values[i].name) != 0)
			continue;
		if (value == NULL)
			return usage("a value is missing after ", name);
		if (*values[i].where != NULL)
			return usage("an option stands twice: ", name);
		*values[i].where = value;
		return 0;
	}
	return usage("not an option: ", name);
}

static bool take_format(struct env_words *w, const char *word)
{
	static const char *const names[] = {
		[ENV_SHELL] = "--shell", [ENV_JSON] = "--json", [ENV_DOTENV] = "--dotenv"};
	for (size_t i = 0; i < array_size(names); i++) {
		if (strcmp(word, names[i]) != 0)
			continue;
		w->format = (enum env_format)i;
		return true;
	}
	return false;
}

/* @return 0 or ENV_EXIT_USAGE. */
static int check_words(const struct env_words *w)
{
	struct failure why = {0};
	if (w->proxy_env != NULL && strcmp(w->proxy_env, "on") != 0 &&
		strcmp(w->proxy_env, "off") != 0)
		return usage("--proxy-env: neither on nor off: ", w->proxy_env);
	if (w->proxy_env != NULL && (w->proxy != NULL || w->ca != NULL))
		return usage("--proxy-env is about a sandbox: leave out --proxy instead", "");
	if (w->proxy != NULL && variables_check_proxy(w->proxy, &why) < 0)
		return usage("--proxy: ", why.text);
	return 0;
}

/* @return 0 or ENV_EXIT_USAGE. */
static int take_words(struct env_words *w, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int status = 0;
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			w->help = true;
		else if (!take_format(w, argv[i])) {
			status = take_value(w, argv[i], argv[i + 1]); /* NULL-terminated */
			i++;
		}
		if (status != 0 || w->help)
			return status;
	}
	return check_words(w);
}

/* Each quote ends the text, stands by itself, and begins it again. */
static int write_shell(struct buf *to, const char *name, const char *value)
{
	struct slice rest = slice_of(value), part;
	int r = buf_printf(to, "export %s='", name);
	while (r == 0 && slice_split(rest, '\'', &part, &rest)) {
		r = buf_append(to, part);
		if (r == 0)
			r = buf_append(to, SLICE("'\\''"));
	}
	if (r == 0)
		r = buf_append(to, rest);
	return r < 0 ? r : buf_append(to, SLICE("'\n"));
}

/*
 * Readers of such files do not agree on quotes, so there are none; what some of them would take for something else can't be
 * written.
 */
static int write_dotenv(struct buf *to, const char *name, const char *value)
{
	size_t len = strlen(value);
	bool plain = len > 0 && value[0] != ' ' && value[len - 1] != ' ';
	for (size_t i = 0; i < len; i++)
		plain = plain && value[i] >= ' ' && strchr("\"'#$`\\", value[i]) == NULL;
	return plain ? buf_printf(to, "%s=%s\n", name, value) : -EILSEQ;
}

static int write_variable(const char *name, const char *value, void *arg)
{
	struct env_output *o = arg;
	switch (o->format) {
	case ENV_SHELL:
		return write_shell(&o->text, name, value);
	case ENV_JSON:
		json_text(&o->json, name, value);
		return 0; /* sticky */
	case ENV_DOTENV:
		break;
	}
	return write_dotenv(&o->text, name, value);
}

static int write_all(
	const struct variables_places *places, enum env_format format, struct failure *why)
{
	struct env_output o = {.format = format};
	buf_init(&o.text, OUTPUT_BYTES);
	if (format == ENV_JSON) {
		json_open(&o.json, &o.text);
		json_object(&o.json, NULL);
	}
	int r = variables_each(places, write_variable, &o);
	if (format == ENV_JSON) {
		json_object_end(&o.json);
		(void)buf_append(&o.text, SLICE("\n")); /* sticky */
	}
	if (r == -EILSEQ)
		(void)failure_set(why, r,
			"--dotenv: a path has a character that readers of such files do not agree on");
	else if (r == 0 && o.text.failed)
		r = failure_errno(why, -ENOMEM, "standard output");
	else if (r == 0) {
		r = file_write_all(STDOUT_FILENO, buf_slice(&o.text));
		if (r < 0)
			(void)failure_errno(why, r, "standard output");
	}
	buf_fini(&o.text);
	return r;
}

/* The absolute path of a file with certificates. @return NULL: it is none, @why says so. */
static char *find_bundle(const char *path, struct failure *why)
{
	static const char mark[] = "-----BEGIN CERTIFICATE-----";
	struct buf text;
	buf_init(&text, 2 * TRUST_BUNDLE_MAX);
	int r = file_read(AT_FDCWD, path, TRUST_BUNDLE_MAX, &text);
	struct slice read = buf_slice(&text);
	bool found = r == 0 && read.len > 0 &&
		memmem(read.ptr, read.len, mark, sizeof(mark) - 1) != NULL;
	buf_fini(&text);
	char *absolute = r < 0 ? NULL : realpath(path, NULL);
	if (r == 0 && absolute == NULL)
		r = -errno;
	if (r < 0) {
		(void)failure_errno(why, r, "--ca %s", path);
		return NULL;
	}
	if (!found) {
		(void)failure_set(why, -EINVAL, "--ca %s: no certificate in PEM", path);
		free(absolute);
		return NULL;
	}
	return absolute;
}

static int print_variables(const struct env_words *w, struct failure *why)
{
	auto_free char *bundle = NULL;
	struct variables_places places = {0};
	if (w->proxy == NULL && w->ca == NULL) {
		bool off = w->proxy_env != NULL && strcmp(w->proxy_env, "off") == 0;
		places.proxy = off ? NULL : VARIABLES_SANDBOX_PROXY;
		places.bundle = TRUST_BUNDLE_PATH;
		places.java_store = TRUST_JAVA_PATH;
		return write_all(&places, w->format, why);
	}
	if (w->ca != NULL) {
		bundle = find_bundle(w->ca, why);
		if (bundle == NULL)
			return -EINVAL;
	}
	places.proxy = w->proxy;
	places.bundle = bundle;
	return write_all(&places, w->format, why);
}

int command_env(int argc, char **argv)
{
	struct env_words words = {0};
	struct failure why = {0};
	int status = take_words(&words, argc, argv);
	if (status != 0)
		return status;
	if (words.help) {
		print_help();
		return fflush(stdout) == 0 ? ENV_EXIT_PRINTED : ENV_EXIT_FAILED;
	}
	if (print_variables(&words, &why) == 0)
		return ENV_EXIT_PRINTED;
	char shown[FAILURE_TEXT_BYTES];
	(void)fprintf(
		stderr, "eclusa env: %s\n", slice_escape(slice_of(why.text), shown, sizeof(shown)));
	return ENV_EXIT_FAILED;
}
