/*
 * A run described in JSON (`eclusa run --spec -`). The document is the caller's; jansson parses it, this file turns
 * keys into options. It rejects what it does not know and never guesses.
 */
#include "sandbox-launcher/spec.h"

#include "common/cleanup.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

static void json_release(json_t **value)
{
	json_decref(*value);
	*value = NULL;
}

#define auto_json __attribute__((cleanup(json_release))) json_t

/* Numbers may be JSON numbers; the option's own parser judges their text. */
static int scalar_text(const json_t *value, char *storage, size_t capacity, const char **ret)
{
	if (json_is_string(value)) {
		if (strlen(json_string_value(value)) != json_string_length(value))
			return -EINVAL;
		*ret = json_string_value(value);
		return 0;
	}
	if (json_is_integer(value)) {
		(void)snprintf(storage, capacity, "%lld", (long long)json_integer_value(value));
		*ret = storage;
		return 0;
	}
	if (json_is_real(value) && fabs(json_real_value(value)) < 1e9) {
		(void)snprintf(storage, capacity, "%.3f", json_real_value(value));
		*ret = storage;
		return 0;
	}
	return -EINVAL;
}

static int read_scalar(
	struct spec *s, const struct spec_option *o, const json_t *value, struct failure *why)
{
	char storage[64];
	const char *text;
	if (scalar_text(value, storage, sizeof(storage), &text) < 0)
		return failure_set(why, -EINVAL, "--spec: %s: a text or number is needed", o->name);
	return spec_set(s, o, text, why);
}

static int read_list(
	struct spec *s, const struct spec_option *o, const json_t *value, struct failure *why)
{
	if (!json_is_array(value))
		return failure_set(why, -EINVAL, "--spec: %s: a list of texts is needed", o->name);
	size_t i;
	const json_t *item;
	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item) ||
			strlen(json_string_value(item)) != json_string_length(item))
			return failure_set(
				why, -EINVAL, "--spec: %s: a list of texts is needed", o->name);
		int r = spec_set(s, o, json_string_value(item), why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* env may also be an object; null passes the caller's value. */
static int read_environment(
	struct spec *s, const struct spec_option *o, json_t *value, struct failure *why)
{
	const char *key;
	json_t *item;
	json_object_foreach(value, key, item)
	{
		auto_free char *pair = NULL;
		if (strchr(key, '=') != NULL ||
			(!json_is_null(item) &&
				(!json_is_string(item) ||
					strlen(json_string_value(item)) !=
						json_string_length(item))))
			return failure_set(why, -EINVAL,
				"--spec: env: %.64s: a name with a text is needed", key);
		if (!json_is_null(item) &&
			asprintf(&pair, "%s=%s", key, json_string_value(item)) < 0)
			return failure_set(why, -ENOMEM, "out of memory");
		int r = spec_set(s, o, pair == NULL ? key : pair, why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_option(
	struct spec *s, const struct spec_option *o, json_t *value, struct failure *why)
{
	size_t count;
	const struct spec_option *first = spec_options(&count);
	if (s->given >> (o - first) & 1)
		return failure_set(
			why, -EINVAL, "--spec: %s: given on the command line too", o->name);
	if (o->letter == 'e' && json_is_object(value))
		return read_environment(s, o, value, why);
	switch (o->kind) {
	case SPEC_FLAG:
		if (!json_is_boolean(value))
			return failure_set(
				why, -EINVAL, "--spec: %s: true or false is needed", o->name);
		return json_is_true(value) ? spec_set(s, o, NULL, why) : 0;
	case SPEC_OPTIONAL:
		if (json_is_boolean(value))
			return json_is_true(value) ? spec_set(s, o, NULL, why) : 0;
		return read_scalar(s, o, value, why);
	case SPEC_VALUE:
		return read_scalar(s, o, value, why);
	case SPEC_LIST:
		break;
	}
	return read_list(s, o, value, why);
}

static int read_argv(struct spec *s, const json_t *value, struct failure *why)
{
	if (s->argv.count > 0)
		return failure_set(
			why, -EINVAL, "--spec: argv: a program is given on the command line too");
	if (!json_is_array(value) || json_array_size(value) == 0)
		return failure_set(why, -EINVAL, "--spec: argv: a list of texts is needed");
	size_t i;
	const json_t *item;
	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item) ||
			strlen(json_string_value(item)) != json_string_length(item))
			return failure_set(why, -EINVAL,
				"--spec: argv: a list of texts without NUL is needed");
		int r = spec_add_argument(s, json_string_value(item), why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_stdin(struct spec *s, const json_t *value, struct failure *why)
{
	if (!json_is_string(value))
		return failure_set(why, -EINVAL, "--spec: stdin: a text is needed");
	s->stdin_len = json_string_length(value);
	s->stdin_text = slice_dup((struct slice){json_string_value(value), s->stdin_len});
	return s->stdin_text == NULL ? failure_set(why, -ENOMEM, "out of memory") : 0;
}

/* A key is an option's long name with '_' for '-'; "-" itself is not accepted, so that a key has one spelling. */
static const struct spec_option *option_of_key(const char *key)
{
	char name[32];
	size_t len = strlen(key);
	if (len >= sizeof(name) || strchr(key, '-') != NULL)
		return NULL;
	for (size_t i = 0; i <= len; i++)
		name[i] = key[i] == '_' ? '-' : key[i];
	return spec_option_named(slice_of(name));
}

static int read_key(struct spec *s, const char *key, json_t *value, struct failure *why)
{
	if (strcmp(key, "argv") == 0)
		return read_argv(s, value, why);
	if (strcmp(key, "stdin") == 0)
		return read_stdin(s, value, why);
	const struct spec_option *o = option_of_key(key);
	char shown[64];
	if (o == NULL)
		return failure_set(why, -EINVAL, "--spec: unknown key: %s",
			slice_escape(slice_of(key), shown, sizeof(shown)));
	return read_option(s, o, value, why);
}

int spec_json_read(struct spec *s, struct slice document, struct failure *why)
{
	json_error_t error;
	auto_json *root = json_loadb(document.ptr == NULL ? "" : document.ptr, document.len,
		JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	char shown[200];
	if (root == NULL)
		return failure_set(why, -EINVAL, "--spec: line %d, column %d: %s", error.line,
			error.column, slice_escape(slice_of(error.text), shown, sizeof(shown)));
	if (!json_is_object(root))
		return failure_set(why, -EINVAL, "--spec: an object is needed");
	const char *key;
	json_t *value;
	json_object_foreach(root, key, value)
	{
		int r = read_key(s, key, value, why);
		if (r < 0)
			return r;
	}
	return 0;
}
