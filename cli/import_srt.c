/*
 * The network part of srt's settings (JSON): allowedDomains and deniedDomains. Denied names win, and "*.h" is every name
 * below h, at any depth. A place is a path of keys: the reader of JSON knows no lines of what it read.
 */
#include "cli/import.h"
#include "cli/import_list.h"

#include <jansson.h>
#include <stdio.h>

static const char *place_of(struct import *im, const char *file, const char *key, size_t index)
{
	char shown[IMPORT_PLACE_BYTES - 64], text[IMPORT_PLACE_BYTES];
	(void)snprintf(text, sizeof(text), "%s: network.%s[%zu]",
		slice_escape(slice_of(file), shown, sizeof(shown)), key, index);
	const char *kept = arena_dup(&im->arena, slice_of(text));
	return kept == NULL ? "" : kept;
}

/** "h", "*.h", each with or without ":port". */
static void take_name(struct import *im, struct import_list *l, bool allow, const char *place,
	struct slice written)
{
	struct slice name = written, port_text = {0};
	uint64_t port = 0;
	bool below = slice_starts(name, SLICE("*."));
	name = slice_part(name, below ? 2 : 0, name.len);
	if (slice_split(name, ':', &name, &port_text) &&
		(slice_decimal(port_text, 65535, false, &port) < 0 || port == 0)) {
		import_left_out(im, place, written, "what follows ':' is no port");
		return;
	}
	struct import_host h = {.allow = allow,
		.reach = below ? IMPORT_BELOW : IMPORT_EXACT,
		.port = (uint16_t)port,
		.place = place,
		.written = written};
	import_list_add(im, l, &h, name);
}

static void take_names(struct import *im, struct import_list *l, const char *file,
	const json_t *network, bool allow)
{
	const char *key = allow ? "allowedDomains" : "deniedDomains";
	const json_t *names = json_object_get(network, key);
	if (names != NULL && !json_is_array(names))
		import_refuse(im, file, "allowedDomains and deniedDomains are lists of texts");
	for (size_t i = 0; i < json_array_size(names) && !im->refused; i++) {
		const json_t *name = json_array_get(names, i);
		const char *place = place_of(im, file, key, i);
		struct slice text = {json_string_value(name), json_string_length(name)};
		char *kept = json_is_string(name) ? arena_dup(&im->arena, text) : NULL;
		if (kept == NULL)
			import_refuse(im, place, "a name is a text");
		else
			take_name(im, l, allow, place, (struct slice){kept, text.len});
	}
}

/** What else the settings say, once for each key. */
static void tell_others(struct import *im, const char *file, json_t *root, json_t *network)
{
	const char *key;
	json_t *value;
	json_object_foreach(root, key, value)
	{
		if (value != network)
			import_comment(im, "not about hosts: %s: %s", file, key);
	}
	json_object_foreach(network, key, value)
	{
		if (strcmp(key, "allowedDomains") != 0 && strcmp(key, "deniedDomains") != 0)
			import_left_out(im, file, slice_of(key),
				"a setting of the network that is no list of hosts");
	}
}

void import_srt(struct import *im, const char *file, struct slice text)
{
	struct import_list l = {.count = 0};
	json_error_t error;
	json_t *root = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(root)) {
		import_refuse(im,
			root == NULL && error.line > 0
				? import_place(im, file, (unsigned)error.line)
				: file,
			root == NULL ? "this is no JSON, or a key stands twice"
				     : "the settings are one JSON object");
		json_decref(root);
		return;
	}
	json_t *network = json_object_get(root, "network");
	if (!json_is_object(network)) {
		import_refuse(im, file, "there is no object 'network' in it");
	} else {
		import_profile(im, im->profile);
		take_names(im, &l, file, network, false); /* a denied name wins */
		take_names(im, &l, file, network, true);
		tell_others(im, file, root, network);
		import_list_write(im, &l);
	}
	import_list_fini(&l);
	json_decref(root);
}
