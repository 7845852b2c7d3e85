/* See format_word.h. Unknown words are left as they are: lint says what is wrong with them. */
#include "policy/format_word.h"

#include "policy/syntax.h"
#include "policy/value.h"

#include "common/cleanup.h"

/** First what names a rule, then what it allows, then what is for people. */
static const char *const key_order[] = {"id", "scheme", "tls", "mode", "addr", "enc-slash", "query",
	"header-deny", "upgrade", "req-body", "resp-body", "rate", "conns", "time", "max-uses",
	"up", "down", "requests", "window", "by", "code", "at", "expires", "owner", "ticket",
	"note"};

static bool verb_is(const struct statement_line *l, const char *verb)
{
	return slice_equal(l->tokens[0].text, slice_of(verb));
}

static bool is_rule(const struct statement_line *l)
{
	return verb_is(l, "allow") || verb_is(l, "deny");
}

/** Where the target of a rule stands. */
static size_t target_index(const struct statement_line *l)
{
	return l->count > 2 && slice_equal(l->tokens[1].text, SLICE("tcp")) ? 2 : 1;
}

/** Where attributes may begin. A URL holds '=', too. */
static size_t attributes_from(const struct statement_line *l)
{
	if (is_rule(l))
		return target_index(l) + 1;
	if (verb_is(l, "use"))
		return 2;
	if (verb_is(l, "expect"))
		return 4;
	return verb_is(l, "defaults") ? 1 : l->count;
}

static size_t key_rank(struct slice word)
{
	struct slice key;
	struct slice value;
	attribute_split(word, &key, &value);
	size_t rank = 0;
	while (rank < array_size(key_order) && !slice_equal(key, slice_of(key_order[rank])))
		rank++;
	return rank;
}

void format_sort(struct statement_line *line)
{
	size_t from = attributes_from(line);
	while (from < line->count && !attribute_looks_like(line->tokens[from].text))
		from++;
	for (size_t i = from; i < line->count; i++) {
		if (!attribute_looks_like(line->tokens[i].text))
			return; /* a stray word: nothing is moved around it */
	}
	/* Insertion: stable, and LEXER_TOKENS_MAX words at most. */
	for (size_t i = from + 1; i < line->count; i++) {
		struct token moved = line->tokens[i];
		size_t at = i;
		for (; at > from && key_rank(line->tokens[at - 1].text) > key_rank(moved.text);
			at--)
			line->tokens[at] = line->tokens[at - 1];
		line->tokens[at] = moved;
	}
}

/** Whether a name ends in the root's dot, and not in what no name ends in. */
static bool ends_in_root(struct slice name)
{
	if (name.len < 2 || name.ptr[name.len - 1] != '.')
		return false;
	char c = ascii_lower(name.ptr[name.len - 2]);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static void write_lower(struct slice text, struct buf *to)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = ascii_lower(text.ptr[i]);
		(void)buf_append(to, (struct slice){&c, 1});
	}
}

/** Lower case, without the root's dot. A word without dots may become another one: tcp, any. */
static void write_target(struct slice word, struct buf *to)
{
	struct slice name = word;
	struct slice ports;
	bool has_ports = slice_split(word, ':', &name, &ports);
	if (slice_starts(word, SLICE("ip:"))) {
		write_lower(word, to);
		return;
	}
	if (slice_find(name, '.') < 0) {
		(void)buf_append(to, word);
		return;
	}
	write_lower(slice_part(name, 0, name.len - (ends_in_root(name) ? 1 : 0)), to);
	if (has_ports)
		(void)buf_printf(to, ":%.*s", (int)ports.len, ports.ptr);
}

static void write_methods(struct slice word, struct buf *to)
{
	struct slice methods[VALUE_LIST_MAX];
	struct slice rest = word;
	size_t count = 0;
	for (bool more = true; more && count < VALUE_LIST_MAX; count++) {
		methods[count] = rest;
		more = slice_split(rest, ',', &methods[count], &rest);
	}
	if (count == VALUE_LIST_MAX) { /* more than a rule may have */
		(void)buf_append(to, word);
		return;
	}
	qsort(methods, count, sizeof(methods[0]), value_compare_slices);
	for (size_t i = 0; i < count; i++) {
		(void)buf_append_text(to, i == 0 ? "" : ",");
		(void)buf_append(to, methods[i]);
	}
}

static void write_plain(struct slice text, struct buf *to)
{
	(void)buf_append(to, text);
}

/** Quotes stay where a blank or a backslash needs them. Names of fields become lower case, as they are compared. */
static void write_attribute(struct slice word, struct buf *to)
{
	struct slice key;
	struct slice value;
	attribute_split(word, &key, &value);
	bool fields = slice_equal(key, SLICE("header-deny"));
	void (*write)(struct slice, struct buf *) = fields ? write_lower : write_plain;
	bool whole = word.len > key.len + 1 && word.ptr[key.len + 1] == '"';
	if (!whole || value.len == 0 || slice_find(value, ' ') >= 0 ||
		slice_find(value, '\\') >= 0) {
		write(word, to);
		return;
	}
	(void)buf_printf(to, "%.*s=", (int)key.len, key.ptr);
	write(value, to);
}

void format_word(const struct statement_line *line, size_t index, struct buf *to)
{
	struct slice word = line->tokens[index].text;
	size_t from = attributes_from(line);
	if (is_rule(line) && index == target_index(line))
		write_target(word, to);
	else if (index >= from && attribute_looks_like(word))
		write_attribute(word, to);
	else if (is_rule(line) && index == from && word.ptr[0] != '/')
		write_methods(word, to);
	else
		(void)buf_append(to, word);
}
