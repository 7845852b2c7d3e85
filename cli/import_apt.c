/*
 * apt's repositories, from what `apt-get indextargets` says: a line a target, with the address of its repository, whether apt
 * trusts it, and the line of the sources that names it. What apt verifies by signature may come over plain HTTP.
 */
#include "cli/import.h"
#include "cli/import_url.h"

#include <stdio.h>

#define SCHEMES_MAX 32
#define SIGNED      "note=\"apt verifies what it reads by signature, so plain HTTP is enough\""

/** Schemes that were left out, each told once. */
struct schemes {
	struct slice items[SCHEMES_MAX];
	size_t count;
};

static void leave_out(struct import *im, struct schemes *s, const char *place, struct slice scheme,
	const char *why)
{
	for (size_t i = 0; i < s->count; i++) {
		if (slice_equal(s->items[i], scheme))
			return;
	}
	if (s->count < SCHEMES_MAX)
		s->items[s->count++] = scheme;
	import_left_out(im, place, scheme, why);
}

static void take_repository(struct import *im, struct schemes *s, const char *place,
	struct slice address, bool verified)
{
	struct import_url u;
	char url[1024], attributes[192];
	const char *wrong = import_url_parse(address, &u);
	if (wrong == NULL && !import_url_is_new(im, &u))
		return;
	if (wrong != NULL) {
		struct slice scheme = address; /* what follows it may hold a password */
		(void)slice_split(address, ':', &scheme, &address);
		leave_out(im, s, place, scheme, wrong);
		return;
	}
	(void)snprintf(attributes, sizeof(attributes), "query=deny id=apt-%zu %s", im->seen_count,
		!u.tls && verified ? SIGNED : "");
	if (!import_url_rule(im, place, &u, attributes))
		return;
	(void)import_url_format(&u, url, sizeof(url));
	import_expect(im, "allow GET %s/dists/stable/InRelease", url);
	import_expect(im, "deny POST %s/dists/stable/InRelease code=deny.method", url);
}

void import_apt(struct import *im, const char *file, struct slice text)
{
	struct schemes s = {.count = 0};
	struct slice line, address, trusted, entry;
	char place[IMPORT_PLACE_BYTES], shown[IMPORT_PLACE_BYTES - 64];
	import_profile(im, im->profile);
	import_comment(im,
		"A mirror may send apt to another host by a redirect: apt's error says which, if so.");
	while (text.len > 0 && !im->refused) {
		line = text;
		if (!slice_split(text, '\n', &line, &text))
			text = (struct slice){0};
		if (slice_trim(line).len == 0)
			continue;
		if (!slice_split(line, ' ', &address, &entry) ||
			!slice_split(entry, ' ', &trusted, &entry)) {
			import_refuse(im, file, "apt-get indextargets answered in another form");
			break;
		}
		(void)snprintf(place, sizeof(place), "%s: %s", file,
			slice_escape(entry, shown, sizeof(shown)));
		take_repository(im, &s, place, address, slice_equal(trusted, SLICE("yes")));
	}
}
