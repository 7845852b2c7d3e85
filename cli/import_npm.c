/*
 * npm's registries, from what `npm config list --json` says: the one for everything and those of single scopes. Packages
 * are read by GET; a scoped one is asked for as /@scope%2fname.
 */
#include "cli/import.h"
#include "cli/import_url.h"

#include <jansson.h>
#include <stdio.h>

static void take_registry(struct import *im, const char *place, struct slice value)
{
	struct import_url u;
	char url[1024], attributes[128];
	const char *wrong = import_url_parse(value, &u);
	if (wrong != NULL) {
		import_left_out(im, place, SLICE("a registry"), wrong);
		return;
	}
	if (!import_url_is_new(im, &u)) {
		import_comment(im, "%s: the same registry as one before", place);
		return;
	}
	(void)snprintf(attributes, sizeof(attributes), "enc-slash=literal query=deny id=npm-%zu",
		im->seen_count);
	if (!import_url_rule(im, place, &u, attributes))
		return;
	(void)import_url_format(&u, url, sizeof(url));
	import_comment(im,
		"npm audit is not imported: it sends the names of all that is installed. To allow it: "
		"allow %s POST %s/-/npm/v1/security/** req-body=8m",
		u.host.name, u.path);
	import_expect(im, "allow GET %s/left-pad", url);
	import_expect(im, "allow GET %s/@scope%%2fname", url);
	import_expect(im, "deny PUT %s/left-pad code=deny.method", url);
}

void import_npm(struct import *im, const char *file, struct slice text)
{
	json_t *root = json_loadb(text.ptr, text.len, 0, NULL);
	const char *key;
	json_t *value;
	char place[IMPORT_PLACE_BYTES];
	if (!json_is_object(root)) {
		import_refuse(im, file, "npm did not answer with one JSON object");
	} else {
		import_profile(im, im->profile);
		import_comment(im,
			"A registry may name tarballs on another host: npm's error says which, if so.");
		json_object_foreach(root, key, value)
		{
			struct slice name = slice_of(key);
			if (!json_is_string(value) ||
				(!slice_equal(name, SLICE("registry")) &&
					!slice_ends(name, SLICE(":registry"))))
				continue;
			(void)snprintf(place, sizeof(place), "%s: %.100s", file, key);
			take_registry(im, place,
				(struct slice){
					json_string_value(value), json_string_length(value)});
		}
	}
	json_decref(root);
}
