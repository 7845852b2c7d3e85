/*
 * Squid: a file of names for a dstdomain ACL, or a configuration of which acl and http_access lines are read. The first
 * http_access line that fits decides there. A line that allows by what can't be said here is left out: less is allowed.
 * A line that denies by it stops the import: left out, it would allow more.
 */
#include "cli/import.h"
#include "cli/import_list.h"

#include "common/cleanup.h"

#include <stdio.h>

#define ACLS_MAX  256
#define WORDS_MAX 64

enum acl_kind {
	ACL_DOMAINS, /* names that are listed */
	ACL_PORTS,
	ACL_ALWAYS,
	ACL_NEVER, /* what no request of a sandbox can be: private destinations, Squid's own pages */
	ACL_OTHER,
};

struct acl {
	struct slice name;
	enum acl_kind kind;
	bool has_443;
	struct import_list names; /* not yet in order of any rule */
};

/** A configuration being read. */
struct squid {
	struct import *im;
	const char *file;
	struct acl acls[ACLS_MAX];
	size_t acl_count;
	struct import_list list;
	bool ended;       /* by `allow all` or `deny all` */
	bool last_denies; /* of http_access */
	const char *last_place;
};

static size_t split_words(struct slice line, struct slice words[static WORDS_MAX])
{
	size_t count = 0;
	for (line = slice_trim(line); line.len > 0; line = slice_trim(line)) {
		size_t len = 0;
		while (len < line.len && line.ptr[len] != ' ' && line.ptr[len] != '\t')
			len++;
		if (line.ptr[0] == '#')
			break;
		if (count == WORDS_MAX)
			return WORDS_MAX + 1;
		words[count++] = slice_part(line, 0, len);
		line = slice_part(line, len, line.len);
	}
	return count;
}

static bool next_line(struct slice *text, struct slice *ret)
{
	if (text->len == 0)
		return false;
	*ret = *text;
	if (!slice_split(*text, '\n', ret, text))
		*text = (struct slice){0};
	if (slice_ends(*ret, SLICE("\r")))
		*ret = slice_part(*ret, 0, ret->len - 1);
	return true;
}

/** ".a.test" is the name and all below, "a.test" itself. */
static void add_name(
	struct import *im, struct import_list *to, const char *place, struct slice word)
{
	bool apex = slice_starts(word, SLICE("."));
	struct import_host h = {.allow = true,
		.reach = apex ? IMPORT_APEX : IMPORT_EXACT,
		.place = place,
		.written = word};
	import_list_add(im, to, &h, slice_part(word, apex, word.len));
}

static void read_names(
	struct import *im, struct import_list *to, const char *file, struct slice text)
{
	struct slice line, words[WORDS_MAX];
	for (unsigned number = 1; next_line(&text, &line) && !im->refused; number++) {
		size_t count = split_words(line, words);
		const char *place = count == 0 ? "" : import_place(im, file, number);
		for (size_t i = 0; i < count && count <= WORDS_MAX; i++)
			add_name(im, to, place, words[i]);
		if (count > WORDS_MAX)
			import_left_out(im, place, line, "more than 64 words in a line");
	}
}

/** "file" of an acl line: its names are those of the file. */
static void read_named(struct squid *q, struct acl *a, const char *place, struct slice quoted)
{
	char path[512], why[600];
	struct buf text = {.limit = IMPORT_BYTES_MAX + 65536};
	struct slice name = slice_part(quoted, 1, quoted.len - 1);
	int r = slice_copy(name, path, sizeof(path));
	if (r == 0)
		r = q->im->read == NULL ? -EPERM : q->im->read(path, &text);
	struct slice kept = {0};
	if (r == 0) {
		kept.ptr = arena_dup(&q->im->arena, buf_slice(&text)); /* names point into it */
		kept.len = kept.ptr == NULL ? 0 : buf_len(&text);
		read_names(q->im, &a->names, path, kept);
	} else {
		(void)snprintf(why, sizeof(why), "%.500s: %s", path, strerror(-r));
		import_refuse(q->im, place, why);
	}
	buf_fini(&text);
}

static struct acl *find_acl(struct squid *q, struct slice name)
{
	for (size_t i = 0; i < q->acl_count; i++) {
		if (slice_equal(q->acls[i].name, name))
			return &q->acls[i];
	}
	return NULL;
}

static void add_ports(struct acl *a, const struct slice *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t first, last;
		struct slice low = words[i], high = words[i];
		(void)slice_split(words[i], '-', &low, &high);
		if (slice_decimal(low, 65535, true, &first) == 0 &&
			slice_decimal(high, 65535, true, &last) == 0)
			a->has_443 |= first <= 443 && 443 <= last;
	}
}

static void add_domains(
	struct squid *q, struct acl *a, const char *place, const struct slice *words, size_t count)
{
	for (size_t i = 0; i < count && !q->im->refused; i++) {
		if (slice_equal(words[i], SLICE("-n")) || slice_equal(words[i], SLICE("--")))
			continue; /* -n: no look-up of addresses; here none is made either */
		if (words[i].len > 2 && words[i].ptr[0] == '"' &&
			words[i].ptr[words[i].len - 1] == '"')
			read_named(q, a, place, words[i]);
		else
			add_name(q->im, &a->names, place, words[i]);
	}
}

/** acl NAME TYPE VALUE... */
static void take_acl(struct squid *q, const char *place, const struct slice *words, size_t count)
{
	if (count < 3) {
		import_refuse(q->im, place, "an acl line has a name and a type");
		return;
	}
	bool domains = slice_equal(words[2], SLICE("dstdomain"));
	bool ports = slice_equal(words[2], SLICE("port"));
	enum acl_kind kind = domains ? ACL_DOMAINS : ports ? ACL_PORTS : ACL_OTHER;
	struct acl *a = find_acl(q, words[1]);
	if (a == NULL && q->acl_count == ACLS_MAX) {
		import_refuse(q->im, place, "more than 256 acls");
		return;
	}
	if (a == NULL) {
		a = &q->acls[q->acl_count++];
		*a = (struct acl){.name = words[1], .kind = kind};
	}
	if (a->kind != kind)
		a->kind = ACL_OTHER;
	if (kind == ACL_DOMAINS)
		add_domains(q, a, place, words + 3, count - 3);
	if (kind == ACL_PORTS)
		add_ports(a, words + 3, count - 3);
}

/** What a word of an http_access line is for a request to port 443 of a public host. *ret: the acl, unless it is predefined. */
static enum acl_kind judge_word(struct squid *q, struct slice word, struct acl **ret)
{
	static const char *const never[] = {"manager", "to_localhost", "to_linklocal"};
	bool not = slice_starts(word, SLICE("!"));
	struct slice name = slice_part(word, not, word.len);
	struct acl *a = find_acl(q, name);
	enum acl_kind kind = a != NULL ? a->kind : ACL_OTHER;
	for (size_t i = 0; a == NULL && i < array_size(never); i++) {
		if (slice_equal(name, slice_of(never[i])))
			kind = ACL_NEVER;
	}
	if (a == NULL && slice_equal(name, SLICE("all")))
		kind = ACL_ALWAYS;
	if (kind == ACL_PORTS)
		kind = a->has_443 ? ACL_ALWAYS : ACL_OTHER;
	*ret = a;
	if (not )
		return kind == ACL_ALWAYS ? ACL_NEVER : kind == ACL_NEVER ? ACL_ALWAYS : ACL_OTHER;
	return kind;
}

static void take_names(struct squid *q, const char *place, bool allow, const struct acl *a)
{
	for (size_t i = 0; i < a->names.count; i++) {
		struct import_host h = a->names.hosts[i];
		h.allow = allow;
		import_list_add(q->im, &q->list, &h, slice_of(h.name));
	}
	import_comment(q->im, "%s: %s %.*s", place, allow ? "allow" : "deny", (int)a->name.len,
		a->name.ptr);
}

/** A line that does not speak of one list of names. */
static void take_other(
	struct squid *q, const char *place, bool allow, bool everything, struct slice line)
{
	if (everything && !allow) {
		q->ended = true;
		import_comment(q->im, "the end: %s: %.*s", place, (int)line.len, line.ptr);
	} else if (everything) {
		import_refuse(q->im, place,
			"it allows everything that no line before denies; write allow any with a ticket "
			"if that is meant");
	} else if (allow) {
		import_left_out(q->im, place, line,
			"it allows by more than one list of names, or by what is no name");
	} else {
		import_refuse(q->im, place,
			"it denies by more than one list of names, or by what is no name; without it more "
			"would be allowed");
	}
}

/** http_access allow|deny ACL... */
static void take_access(struct squid *q, const char *place, const struct slice *words, size_t count,
	struct slice line)
{
	bool allow = count > 1 && slice_equal(words[1], SLICE("allow"));
	struct acl *domains = NULL, *a;
	size_t listed = 0, other = 0;
	if (count < 3 || (!allow && !slice_equal(words[1], SLICE("deny")))) {
		import_refuse(q->im, place, "write: http_access allow|deny ACL...");
		return;
	}
	q->last_denies = !allow;
	q->last_place = place;
	for (size_t i = 2; i < count; i++) {
		switch (judge_word(q, words[i], &a)) {
		case ACL_NEVER:
			if (allow && a != NULL)
				import_left_out(
					q->im, place, line, "it allows other ports than 443");
			else
				import_comment(
					q->im, "never: %s: %.*s", place, (int)line.len, line.ptr);
			return;
		case ACL_ALWAYS:
			break;
		case ACL_DOMAINS:
			domains = a;
			listed++;
			break;
		case ACL_PORTS:
		case ACL_OTHER:
			other++;
			break;
		}
	}
	if (q->ended)
		import_comment(q->im, "never: %s: %.*s", place, (int)line.len, line.ptr);
	else if (listed == 1 && other == 0)
		take_names(q, place, allow, domains);
	else
		take_other(q, place, allow, listed + other == 0, line);
}

/** Directives that decide about access and that are not read. */
static bool decides(struct slice word)
{
	static const char *const words[] = {"include", "http_access2", "adapted_http_access",
		"http_reply_access", "external_acl_type", "url_rewrite_program", "if"};
	for (size_t i = 0; i < array_size(words); i++) {
		if (slice_equal(word, slice_of(words[i])))
			return true;
	}
	return false;
}

static void read_config(struct squid *q, struct slice text)
{
	struct slice line, words[WORDS_MAX];
	for (unsigned number = 1; next_line(&text, &line) && !q->im->refused; number++) {
		size_t count = split_words(line, words);
		if (count == 0)
			continue;
		const char *place = import_place(q->im, q->file, number);
		line = slice_trim(line);
		if (count > WORDS_MAX || slice_ends(line, SLICE("\\")))
			import_refuse(q->im, place,
				"a line with more than 64 words, or one that goes on in the next, is "
				"not read");
		else if (slice_equal(words[0], SLICE("acl")))
			take_acl(q, place, words, count);
		else if (slice_equal(words[0], SLICE("http_access")))
			take_access(q, place, words, count, line);
		else if (decides(words[0]))
			import_refuse(q->im, place,
				"this line decides about access, too, and is not read");
		else
			import_comment(q->im, "not about access: %s: %.*s", place, (int)line.len,
				line.ptr);
	}
}

static void finish_config(struct squid *q)
{
	if (q->im->refused)
		return;
	if (q->last_place == NULL)
		import_left_out(q->im, q->file, SLICE("http_access"), "there is no such line");
	else if (q->last_denies && !q->ended)
		import_refuse(q->im, q->last_place,
			"the last http_access line denies, so Squid allows whatever no line names; end with "
			"http_access deny all");
	import_list_write(q->im, &q->list);
}

/** A configuration has acl or http_access lines; a list has one name a line. */
static bool is_config(struct slice text)
{
	struct slice line, words[WORDS_MAX];
	while (next_line(&text, &line)) {
		size_t count = split_words(line, words);
		if (count > 0 &&
			(slice_equal(words[0], SLICE("acl")) ||
				slice_equal(words[0], SLICE("http_access"))))
			return true;
	}
	return false;
}

void import_squid(struct import *im, const char *file, struct slice text)
{
	struct squid *q = calloc(1, sizeof(*q));
	if (q == NULL) {
		import_refuse(im, file, "out of memory");
		return;
	}
	q->im = im;
	q->file = file;
	import_profile(im, im->profile);
	if (is_config(text)) {
		read_config(q, text);
		finish_config(q);
	} else {
		read_names(im, &q->list, file, text);
		import_list_write(im, &q->list);
	}
	for (size_t i = 0; i < q->acl_count; i++)
		import_list_fini(&q->acls[i].names);
	import_list_fini(&q->list);
	free(q);
}
