/*
 * Deny lists: hosts files, where a name is sent to an address that is nowhere, lists of names, and the part of the
 * AdGuard and Adblock syntax that names hosts. They only deny, so the rules stand before any profile and are for `include`.
 */
#include "cli/import.h"
#include "cli/import_list.h"

#include "policy/host.h"

#include "common/cleanup.h"

/** Names of the machine itself, and of no host elsewhere: they are in every hosts file. */
static const char *const own_names[] = {"localhost", "localhost.localdomain", "local",
	"broadcasthost", "ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix",
	"ip6-allnodes", "ip6-allrouters", "ip6-allhosts", "0.0.0.0"};

static bool is_own(struct slice name)
{
	for (size_t i = 0; i < array_size(own_names); i++) {
		if (slice_equal_nocase(name, slice_of(own_names[i])))
			return true;
	}
	return false;
}

/** Words end at blanks and tabs. @return false at the end of the line. */
static bool next_word(struct slice *line, struct slice *ret)
{
	*line = slice_trim(*line);
	size_t len = 0;
	while (len < line->len && line->ptr[len] != ' ' && line->ptr[len] != '\t')
		len++;
	*ret = slice_part(*line, 0, len);
	*line = slice_part(*line, len, line->len);
	return len > 0;
}

static void deny(struct import *im, struct import_list *l, const char *place,
	enum import_reach reach, struct slice name)
{
	struct import_host h = {.reach = reach, .place = place, .written = name};
	import_list_add(im, l, &h, name);
}

/** "0.0.0.0 a.test b.test" */
static void take_hosts_line(struct import *im, struct import_list *l, const char *place,
	struct slice address, struct slice names)
{
	static const char *const nowhere[] = {"0.0.0.0", "127.0.0.1", "::", "::1"};
	struct slice name;
	bool blocks = false;
	for (size_t i = 0; i < array_size(nowhere); i++)
		blocks |= slice_equal(address, slice_of(nowhere[i]));
	while (next_word(&names, &name)) {
		if (is_own(name))
			continue;
		if (blocks)
			deny(im, l, place, IMPORT_EXACT, name);
		else
			import_left_out(im, place, name,
				"it is given an address, and not blocked; see --hosts of eclusa run");
	}
}

/** "||a.test^": the name and all below. "@@||a.test^": an exception. */
static void take_adblock_line(
	struct import *im, struct import_list *l, const char *place, struct slice line)
{
	struct slice rest = line;
	bool allow = slice_starts(rest, SLICE("@@"));
	rest = slice_part(rest, allow ? 2 : 0, rest.len);
	bool anchored = slice_starts(rest, SLICE("||")) && slice_ends(rest, SLICE("^"));
	struct slice name = anchored ? slice_part(rest, 2, rest.len - 1) : rest;
	struct host host;
	if (!anchored || host_parse(name, &host) < 0) {
		import_left_out(im, place, line,
			"of this syntax only ||name^ and @@||name^ speak of a host alone");
		return;
	}
	struct import_host h = {
		.allow = allow, .reach = IMPORT_APEX, .place = place, .written = line};
	import_list_add(im, l, &h, name);
}

static bool is_address(struct slice word)
{
	struct address a;
	return address_parse(word, &a) == 0;
}

static void take_line(
	struct import *im, struct import_list *l, const char *place, struct slice line)
{
	struct slice word, comment;
	line = slice_trim(line);
	if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == '!')
		return;
	if (line.ptr[0] == '[' && slice_ends(line, SLICE("]")))
		return; /* "[Adblock Plus 2.0]" */
	if (line.ptr[0] == '|' || line.ptr[0] == '@' || line.ptr[0] == '/' ||
		slice_find(line, '^') >= 0 || slice_find(line, '$') >= 0 ||
		slice_find(line, '*') >= 0) {
		take_adblock_line(im, l, place, line);
		return;
	}
	if (slice_split(line, '#', &word, &comment))
		line = slice_trim(word);
	struct slice rest = line;
	(void)next_word(&rest, &word);
	if (is_address(word) && slice_trim(rest).len > 0)
		take_hosts_line(im, l, place, word, rest);
	else if (slice_trim(rest).len == 0 && !is_own(word))
		deny(im, l, place, IMPORT_EXACT, word);
	else if (slice_trim(rest).len > 0)
		import_left_out(im, place, line, "neither 'ADDRESS NAME...' nor one name");
}

/** Exceptions are allows that come first; without denies they would say nothing. */
static void settle_exceptions(struct import *im, struct import_list *l)
{
	struct import_list ordered = {.count = 0};
	for (int allow = 1; allow >= 0; allow--) {
		for (size_t i = 0; i < l->count; i++) {
			if (l->hosts[i].allow == (allow == 1))
				import_list_add(
					im, &ordered, &l->hosts[i], slice_of(l->hosts[i].name));
		}
	}
	import_list_fini(l);
	*l = ordered;
}

void import_hosts(struct import *im, const char *file, struct slice text)
{
	struct import_list l = {.count = 0};
	struct slice line = text;
	im->profile = NULL;
	for (unsigned number = 1; text.len > 0 && !im->refused; number++) {
		line = text;
		if (!slice_split(text, '\n', &line, &text))
			text = (struct slice){0};
		if (slice_ends(line, SLICE("\r")))
			line = slice_part(line, 0, line.len - 1);
		if (slice_trim(line).len > 0)
			take_line(im, &l, import_place(im, file, number), line);
	}
	settle_exceptions(im, &l);
	import_list_write(im, &l);
	import_list_fini(&l);
}
