/* See import_url.h. */
#include "cli/import_url.h"

#include <stdio.h>

/** Parts that a client takes out before it asks. */
static bool has_dots(struct slice path)
{
	struct slice part, rest = path;
	for (bool more = rest.len > 0; more;) {
		part = rest;
		more = slice_split(rest, '/', &part, &rest);
		if (slice_equal(part, SLICE(".")) || slice_equal(part, SLICE("..")))
			return true;
	}
	return false;
}

/** Characters that a path pattern takes for themselves, and that mean one thing to every server. */
static bool path_plain(struct slice path)
{
	static const char more[] = "-._~/+@:";
	for (size_t i = 0; i < path.len; i++) {
		char c = ascii_lower(path.ptr[i]);
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
			    (c != '\0' && strchr(more, c) != NULL)))
			return false;
	}
	return !has_dots(path);
}

const char *import_url_parse(struct slice text, struct import_url *ret)
{
	struct import_url made = {.tls = slice_starts(text, SLICE("https://"))};
	if (!made.tls && !slice_starts(text, SLICE("http://")))
		return "it is not asked over HTTP";
	struct slice rest = slice_part(text, made.tls ? 8 : 7, text.len);
	struct slice authority = rest, path = {0}, user;
	ptrdiff_t slash = slice_find(rest, '/');
	if (slash >= 0) {
		authority = slice_part(rest, 0, (size_t)slash);
		path = slice_part(rest, (size_t)slash, rest.len);
	}
	while (slice_split(authority, '@', &user, &authority)) {
	}
	while (slice_ends(path, SLICE("/")))
		path = slice_part(path, 0, path.len - 1);
	if (authority_parse(authority, made.tls ? 443 : 80, &made.host, &made.port) < 0)
		return "its host is none";
	if (!path_plain(path) || slice_copy(path, made.path, sizeof(made.path)) < 0)
		return "its path is too long, or has dots or characters that a rule does not take as they are";
	*ret = made;
	return NULL;
}

struct import_seen {
	struct import_seen *next;
	struct import_url url;
};

static bool url_equal(const struct import_url *a, const struct import_url *b)
{
	return a->tls == b->tls && host_equal(&a->host, &b->host) && a->port == b->port &&
		strcmp(a->path, b->path) == 0;
}

bool import_url_is_new(struct import *im, const struct import_url *u)
{
	for (const struct import_seen *s = im->seen; s != NULL; s = s->next) {
		if (url_equal(&s->url, u))
			return false;
	}
	struct import_seen *s = arena_alloc(&im->arena, 1, sizeof(*s));
	if (s == NULL)
		return false; /* the arena's failure ends the import */
	*s = (struct import_seen){im->seen, *u};
	im->seen = s;
	im->seen_count++;
	return true;
}

const char *import_url_format(const struct import_url *u, char *to, size_t capacity)
{
	char port[16] = "";
	if (u->port != (u->tls ? 443 : 80))
		(void)snprintf(port, sizeof(port), ":%u", u->port);
	(void)snprintf(to, capacity, "%s://%s%s%s", u->tls ? "https" : "http", u->host.name, port,
		u->path);
	return to;
}

#define ADDRESSES_MAX 16

/** A mirror inside a company has addresses that are not public: " addr=" with those it has now, or nothing. */
static void open_addresses(
	struct import *im, const char *place, const struct import_url *u, char to[static 1024])
{
	struct address found[ADDRESSES_MAX];
	char text[ADDRESS_TEXT_BYTES];
	size_t used = 0;
	to[0] = '\0';
	size_t count = im->look_up == NULL ? 0 : im->look_up(u->host.name, found, ADDRESSES_MAX);
	if (im->look_up != NULL && count == 0)
		import_comment(im, "%s: %s has no address here", place, u->host.name);
	for (size_t i = 0; i < count; i++) {
		enum address_class class = address_classify(&found[i]);
		if (class == ADDRESS_PUBLIC)
			continue;
		bool opens = class == ADDRESS_PRIVATE || class == ADDRESS_SPECIAL;
		import_comment(im, "%s: %s is at %s (%s)%s", place, u->host.name,
			address_format(&found[i], text), address_class_name(class),
			opens ? "" : ", which an import does not open");
		if (!opens) /* no answer of a name server opens this machine or its provider's services */
			continue;
		used += (size_t)snprintf(to + used, 1024 - used, "%s%s/%d",
			used == 0 ? " addr=" : ",", text,
			found[i].family == 4 ? 32 : 128); /* 16 of at most 50 bytes */
	}
}

bool import_url_rule(
	struct import *im, const char *place, const struct import_url *u, const char *attributes)
{
	char statement[3072], addresses[1024], port[16] = "", scheme[16] = "";
	if (u->host.kind == HOST_ADDRESS) {
		import_left_out(
			im, place, slice_of(u->host.name), "an address; write an ip: rule for it");
		return false;
	}
	open_addresses(im, place, u, addresses);
	if (u->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", u->port);
	if (u->tls == (u->port == 80))
		(void)snprintf(scheme, sizeof(scheme), " scheme=%s", u->tls ? "https" : "http");
	(void)snprintf(statement, sizeof(statement), "allow %s%s GET,HEAD %s/**%s%s %s",
		u->host.name, port, u->path, scheme, addresses, attributes);
	return import_rule(im, place, statement);
}
