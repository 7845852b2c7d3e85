/*
 * `eclusa env`: the variables that tell clients of a proxy and of the roots they are to trust, as a shell, a program or a
 * container's runtime reads them. As they are in a sandbox, or for a proxy that was started alone.
 */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "common/upstream.h"
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
	const char *proxy, *ca, *dir, *upstream_ca, *proxy_env;
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
		"       eclusa env [--shell | --json | --dotenv] [--proxy URL]\n"
		"                  [--ca FILE [--dir DIR [--upstream-ca FILE]]]\n"
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
		"  --dir DIR           make the files there that clients need: bundle, Java's store, Chromium's database\n"
		"  --upstream-ca FILE  with roots of FILE in them, as the proxy has them by its option of that name\n"
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
	} values[] = {{"--proxy", &w->proxy}, {"--ca", &w->ca}, {"--dir", &w->dir},
		{"--upstream-ca", &w->upstream_ca}, {"--proxy-env", &w->proxy_env}};
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
	if (w->dir != NULL && w->ca == NULL)
		return usage("--dir needs --ca: ", w->dir);
	if (w->upstream_ca != NULL && w->dir == NULL)
		return usage("--upstream-ca needs --dir: ", w->upstream_ca);
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

/* Paths of what clients read, absolute. Owned. */
struct env_files {
	char *bundle, *java_store;
};

static int read_authority(const char *path, struct buf *to, struct failure *why)
{
	int r = file_read(AT_FDCWD, path, TRUST_BUNDLE_MAX, to);
	if (r < 0)
		return failure_errno(why, r, "--ca %s", path);
	return upstream_has_certificate(buf_slice(to))
		? 0
		: failure_set(why, -EINVAL, "--ca %s: no certificate in PEM", path);
}

/* @name in the folder @dir, which is made if need be. @ret: its absolute path if not NULL. */
static int write_one(
	const char *dir, const char *name, struct slice content, char **ret, struct failure *why)
{
	auto_free char *path = NULL;
	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return failure_set(why, -ENOMEM, "out of memory");
	}
	int r = file_make_dirs(dir, 0755);
	if (r == 0)
		r = file_replace(path, content, 0644);
	if (r == 0 && ret != NULL) {
		*ret = realpath(path, NULL);
		r = *ret == NULL ? -errno : 0;
	}
	return r < 0 ? failure_errno(why, r, "--dir: %s", path) : 0;
}

static int write_files(
	const struct env_words *w, struct slice ca_pem, struct env_files *ret, struct failure *why)
{
	const char *dir = w->dir;
	struct trust_files files;
	auto_free char *database = NULL;
	trust_files_init(&files);
	int r = trust_files_begin(&files, w->upstream_ca, why);
	if (r == 0)
		r = trust_files_finish(&files, ca_pem, why);
	if (r == 0)
		r = write_one(dir, "ca-bundle.pem", buf_slice(&files.bundle), &ret->bundle, why);
	if (r == 0)
		r = write_one(dir, "java.p12", buf_slice(&files.java), &ret->java_store, why);
	if (r == 0 && asprintf(&database, "%s/nssdb", dir) < 0) {
		database = NULL;
		r = failure_set(why, -ENOMEM, "out of memory");
	}
	if (r == 0)
		r = write_one(database, "cert9.db", buf_slice(&files.nss), NULL, why);
	trust_files_fini(&files);
	return r;
}

/* The file that was named, or files made of it. */
static int find_files(const struct env_words *w, struct env_files *ret, struct failure *why)
{
	struct buf ca;
	if (w->ca == NULL)
		return 0;
	buf_init(&ca, 2 * TRUST_BUNDLE_MAX);
	int r = read_authority(w->ca, &ca, why);
	if (r == 0 && w->dir != NULL) {
		r = write_files(w, buf_slice(&ca), ret, why);
	} else if (r == 0) {
		ret->bundle = realpath(w->ca, NULL);
		r = ret->bundle == NULL ? failure_errno(why, -errno, "--ca %s", w->ca) : 0;
	}
	buf_fini(&ca);
	return r;
}

static int print_variables(const struct env_words *w, struct failure *why)
{
	struct env_files files = {0};
	struct variables_places places = {w->proxy, NULL, NULL};
	if (w->proxy == NULL && w->ca == NULL) {
		bool off = w->proxy_env != NULL && strcmp(w->proxy_env, "off") == 0;
		places.proxy = off ? NULL : VARIABLES_SANDBOX_PROXY;
		places.bundle = TRUST_BUNDLE_PATH;
		places.java_store = TRUST_JAVA_PATH;
		return write_all(&places, w->format, why);
	}
	int r = find_files(w, &files, why);
	places.bundle = files.bundle;
	places.java_store = files.java_store;
	if (r == 0)
		r = write_all(&places, w->format, why);
	free(files.bundle);
	free(files.java_store);
	return r;
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
