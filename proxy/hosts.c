/* See hosts.h. A sorted list of the names' hashes says which lines to read. */
#include "proxy/hosts.h"

#include <stdlib.h>

/** A name, and the line that it stands in. */
struct entry {
	uint64_t hash;
	size_t line; /* offset */
};

struct hosts {
	struct slice text;
	size_t count;
	struct entry entries[];
};

/** What is left of a line: addresses, names, notes. Takes the line off @rest. */
static struct slice line_take(struct slice *rest)
{
	struct slice line = *rest;
	struct slice behind = {0};
	struct slice comment;
	(void)slice_split(*rest, '\n', &line, &behind); /* false: the last line */
	*rest = behind;
	(void)slice_split(line, '#', &line, &comment); /* false: no comment */
	return line;
}

/** @return an empty one at the end. */
static struct slice word_take(struct slice *rest)
{
	struct slice text = slice_trim(*rest);
	size_t len = 0;
	while (len < text.len && text.ptr[len] != ' ' && text.ptr[len] != '\t')
		len++;
	*rest = slice_part(text, len, text.len);
	return slice_part(text, 0, len);
}

/** FNV-1a over the form that host_parse() gives it: it says where to look, and the name itself is compared. */
static uint64_t hash_name(struct slice name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	if (name.len > 1 && name.ptr[name.len - 1] == '.')
		name.len--;
	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (uint8_t)ascii_lower(name.ptr[i])) * UINT64_C(0x100000001b3);
	return hash;
}

/** Write down every name. @to NULL: only count them. */
static size_t enter_all(struct slice text, struct entry *to)
{
	size_t count = 0;
	for (struct slice rest = text; rest.len > 0;) {
		size_t at = (size_t)(rest.ptr - text.ptr);
		struct slice words = line_take(&rest);
		(void)word_take(&words); /* the address */
		for (struct slice name; (name = word_take(&words)).len > 0; count++) {
			if (to != NULL)
				to[count] = (struct entry){hash_name(name), at};
		}
	}
	return count;
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

struct hosts *hosts_new(struct slice text)
{
	size_t count = enter_all(text, NULL);
	struct hosts *h = malloc(sizeof(*h) + count * sizeof(h->entries[0]));
	if (h == NULL)
		return NULL;
	h->text = text;
	h->count = enter_all(text, h->entries);
	qsort(h->entries, count, sizeof(h->entries[0]), compare);
	return h;
}

void hosts_free(struct hosts *h)
{
	free(h);
}

static bool names(struct slice words, const struct host *host)
{
	for (struct slice name; (name = word_take(&words)).len > 0;) {
		struct host here;
		if (host_parse(name, &here) == 0 && host_equal(&here, host))
			return true;
	}
	return false;
}

size_t hosts_find(
	const struct hosts *h, const struct host *host, struct address *to, size_t capacity)
{
	uint64_t hash = hash_name(slice_of(host->name));
	size_t count = 0, first = 0;
	for (size_t end = h->count; first < end;) {
		size_t middle = first + (end - first) / 2;
		if (h->entries[middle].hash < hash)
			first = middle + 1;
		else
			end = middle;
	}
	size_t last = SIZE_MAX; /* a line that has the name twice counts once */
	for (size_t i = first; i < h->count && h->entries[i].hash == hash && count < capacity;
		i++) {
		struct slice rest = slice_part(h->text, h->entries[i].line, h->text.len);
		struct slice words = line_take(&rest);
		struct slice address = word_take(&words);
		if (h->entries[i].line != last && names(words, host) &&
			address_parse(address, &to[count]) == 0)
			count++;
		last = h->entries[i].line;
	}
	return count;
}
