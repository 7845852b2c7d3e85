/*
 * apt's repositories, from what `apt-get indextargets` says: a line a target, with the address of its repository, whether apt
 * trusts it, and the line of the sources that names it. What apt verifies by signature may come over plain HTTP.
 */
#include "cli/import.h"
#include "cli/import_url.h"

#include <stdio.h>
#include <stdlib.h>

#define REPOSITORIES_MAX 256
#define SIGNED           "note=\"apt verifies what it reads by signature, so plain HTTP is enough\""

struct repositories {
	struct import_url seen[REPOSITORIES_MAX];
	struct slice others[REPOSITORIES_MAX]; /* schemes that were left out */
	size_t count, other_count;
};

static bool is_seen(const struct repositories *r, const struct import_url *u)
{
	for (size_t i = 0; i < r->count; i++) {
		if (import_url_equal(&r->seen[i], u))
			return true;
	}
	return false;
}

static void leave_out(struct import *im, struct repositories *r, const char *place,
	struct slice scheme, const char *why)
{
	for (size_t i = 0; i < r->other_count; i++) {
		if (slice_equal(r->others[i], scheme))
			return;
	}
	if (r->other_count < REPOSITORIES_MAX)
		r->others[r->other_count++] = scheme;
	import_left_out(im, place, scheme, why);
}

static void take_repository(struct import *im, struct repositories *r, const char *place,
	struct slice address, bool verified)
{
	struct import_url u;
	char url[1024], attributes[192];
	const char *wrong = import_url_parse(address, &u);
	if (wrong == NULL && is_seen(r, &u))
		return;
	if (wrong == NULL && r->count == REPOSITORIES_MAX)
		wrong = "more than 256 repositories";
	if (wrong != NULL) {
		struct slice scheme = address; /* what follows it may hold a password */
		(void)slice_split(address, ':', &scheme, &address);
		leave_out(im, r, place, scheme, wrong);
		return;
	}
	r->seen[r->count++] = u;
	(void)snprintf(attributes, sizeof(attributes), "query=deny id=apt-%zu %s", r->count,
		!u.tls && verified ? SIGNED : "");
	if (!import_url_rule(im, place, &u, attributes))
		return;
	(void)import_url_format(&u, url, sizeof(url));
	import_expect(im, "allow GET %s/dists/stable/InRelease by=apt-%zu", url, r->count);
	import_expect(im, "deny POST %s/dists/stable/InRelease code=deny.method", url);
}

void import_apt(struct import *im, const char *file, struct slice text)
{
	struct repositories *r = calloc(1, sizeof(*r));
	struct slice line, address, trusted, entry;
	char place[IMPORT_PLACE_BYTES], shown[IMPORT_PLACE_BYTES - 64];
	if (r == NULL) {
		import_refuse(im, file, "out of memory");
		return;
	}
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
		take_repository(im, r, place, address, slice_equal(trusted, SLICE("yes")));
	}
	free(r);
}
