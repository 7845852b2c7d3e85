/*
 * pip's index, from the help text of `pip install`, where pip prints the address that holds for this user, its own default
 * included; other indexes from `pip config list`. An index is pages of links: where the files are only its pages tell.
 */
#include "cli/import.h"
#include "cli/import_url.h"

#include <jansson.h>
#include <stdio.h>

#define URL_BYTES 2048

static void take_index(struct import *im, const char *place, struct slice text, const char *id)
{
	struct import_url u;
	char url[1024], attributes[128];
	const char *wrong = import_url_parse(text, &u);
	if (wrong != NULL) {
		import_left_out(im, place, SLICE("an index"), wrong);
		return;
	}
	if (!import_url_is_new(im, &u)) {
		import_comment(im, "%s: the same index as one before", place);
		return;
	}
	(void)snprintf(attributes, sizeof(attributes), "query=deny id=%s", id);
	if (!import_url_rule(im, place, &u, attributes))
		return;
	(void)import_url_format(&u, url, sizeof(url));
	import_expect(im, "allow GET %s/requests/", url);
	import_expect(im, "deny POST %s/requests/ code=deny.method", url);
}

/** The text after @mark up to @end without blanks and line ends: the help text is wrapped. */
static bool find_unwrapped(
	struct slice text, struct slice mark, char end, char to[static URL_BYTES])
{
	size_t used = 0;
	while (text.len > 0 && !slice_starts(text, mark))
		text = slice_part(text, 1, text.len);
	text = slice_part(text, mark.len, text.len);
	for (size_t i = 0; i < text.len && used + 1 < URL_BYTES; i++) {
		char c = text.ptr[i];
		if (c == end) {
			to[used] = '\0';
			return used > 0;
		}
		if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
			to[used++] = c;
	}
	return false;
}

void import_pip_help(struct import *im, const char *file, struct slice text)
{
	char url[URL_BYTES];
	struct slice option = SLICE("--index-url <url>");
	while (text.len > 0 && !slice_starts(text, option))
		text = slice_part(text, 1, text.len);
	import_profile(im, im->profile);
	if (!find_unwrapped(text, SLICE("(default"), ')', url)) {
		import_refuse(im, file, "pip's help does not say which index holds");
		return;
	}
	import_comment(im,
		"The files themselves may be on another host, which only the pages of the index tell: "
		"import with --online, or observe one install and ask eclusa policy suggest.");
	take_index(im, file, slice_of(url), "pip-index");
}

/** Several addresses in one setting: blanks between them, or the two characters \n as pip prints a line end. */
static void take_indexes(struct import *im, const char *place, struct slice value, unsigned *number)
{
	while (value.len > 0) {
		size_t len = 0;
		while (len < value.len && value.ptr[len] != ' ' && value.ptr[len] != '\\')
			len++;
		char id[32];
		(void)snprintf(id, sizeof(id), "pip-index-%u", *number);
		if (len > 0) {
			(*number)++;
			take_index(im, place, slice_part(value, 0, len), id);
		}
		bool line_end = len < value.len && value.ptr[len] == '\\';
		value = slice_part(value, len + (line_end ? 2 : 1), value.len);
	}
}

void import_pip_config(struct import *im, const char *file, struct slice text)
{
	struct slice line, key, value;
	char place[IMPORT_PLACE_BYTES];
	unsigned number = 2;
	while (text.len > 0) {
		line = text;
		if (!slice_split(text, '\n', &line, &text))
			text = (struct slice){0};
		if (!slice_split(line, '=', &key, &value))
			continue;
		(void)snprintf(place, sizeof(place), "%s: %.*s", file,
			(int)(key.len < 100 ? key.len : 100), key.ptr);
		value = slice_trim(value);
		if (value.len >= 2) /* quotes of either kind */
			value = slice_part(value, 1, value.len - 1);
		if (slice_ends(key, SLICE(".extra-index-url")))
			take_indexes(im, place, value, &number);
		else if (slice_ends(key, SLICE(".find-links")) && slice_find(value, ':') >= 0)
			import_left_out(im, place, SLICE("find-links"),
				"a page of links that is no index; write a rule for it");
		else if (slice_ends(key, SLICE(".no-index")))
			import_comment(im, "%s is set: pip asks no index at all", place);
	}
}

void import_pip_report(struct import *im, const char *file, struct slice text)
{
	struct import_url u;
	char url[1024];
	json_t *root = json_loadb(text.ptr, text.len, 0, NULL);
	const json_t *item = json_array_get(json_object_get(root, "install"), 0);
	const json_t *found = json_object_get(json_object_get(item, "download_info"), "url");
	const char *wrong = !json_is_string(found)
		? "pip did not say where it would take a file from"
		: import_url_parse(
			  (struct slice){json_string_value(found), json_string_length(found)}, &u);
	if (wrong != NULL) {
		import_left_out(im, file, SLICE("the host of the files"), wrong);
	} else {
		/* as /packages/ab/cd/x.whl: the first part is the same for all files */
		char *second = u.path[0] == '\0' ? NULL : strchr(u.path + 1, '/');
		if (second != NULL)
			*second = '\0';
		else
			u.path[0] = '\0';
		if (import_url_is_new(im, &u) &&
			import_url_rule(im, file, &u, "query=deny id=pip-files")) {
			(void)import_url_format(&u, url, sizeof(url));
			import_expect(im, "allow GET %s/a/b/x-1.0-py3-none-any.whl", url);
			import_expect(
				im, "deny PUT %s/a/b/x-1.0-py3-none-any.whl code=deny.method", url);
		}
	}
	json_decref(root);
}
