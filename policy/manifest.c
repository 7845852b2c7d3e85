/* See manifest.h. Input of the parser: a file beside the policy, anybody's until its signature was verified. */
#include "policy/manifest.h"

#include <errno.h>
#include <stdlib.h>

#define HEAD         "# eclusa policy manifest 1\n"
#define DIGEST_CHARS (DIGEST_TEXT_BYTES - 1)

static int compare_paths(struct slice a, struct slice b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int r = len == 0 ? 0 : memcmp(a.ptr, b.ptr, len);
	return r != 0 ? r : a.len < b.len ? -1 : a.len > b.len;
}

static int by_path(const void *a, const void *b)
{
	return compare_paths(
		((const struct manifest_entry *)a)->path, ((const struct manifest_entry *)b)->path);
}

int manifest_of_bundle(struct slice bundle, size_t prefix_len, struct manifest *ret)
{
	struct bundle_text text;
	ret->count = 0;
	int r = bundle_start(bundle, &bundle);
	while (r == 0 && (r = bundle_next(&bundle, &text)) > 0) {
		if (ret->count == BUNDLE_FILES_MAX || text.name.len <= prefix_len)
			return -EINVAL;
		struct manifest_entry *e = &ret->items[ret->count++];
		e->path = slice_part(text.name, prefix_len, text.name.len);
		r = digest_of(text.content, e->digest);
	}
	if (r == 0)
		qsort(ret->items, ret->count, sizeof(ret->items[0]), by_path);
	return r;
}

/** Bytes that a path may have: those that the loader takes, and no line break. */
static bool path_good(struct slice path)
{
	for (size_t i = 0; i < path.len; i++) {
		if ((unsigned char)path.ptr[i] < 0x20 || path.ptr[i] == 0x7f)
			return false;
	}
	return path.len > 0 && path.len <= BUNDLE_NAME_BYTES_MAX;
}

static bool parse_line(struct slice line, struct manifest_entry *ret)
{
	struct slice digest = slice_part(line, 0, DIGEST_CHARS);
	struct slice rest = slice_part(line, DIGEST_CHARS, line.len);
	for (size_t i = 0; i < digest.len; i++) {
		char c = digest.ptr[i];
		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
	}
	ret->path = slice_part(rest, 2, rest.len);
	return slice_copy(digest, ret->digest, sizeof(ret->digest)) == 0 &&
		slice_starts(rest, SLICE("  ")) && path_good(ret->path);
}

int manifest_parse(struct slice text, struct manifest *ret, unsigned *ret_line)
{
	unsigned number = 1;
	struct slice line;
	ret->count = 0;
	bool good = slice_starts(text, SLICE(HEAD));
	if (good)
		text = slice_part(text, sizeof(HEAD) - 1, text.len);
	while (good && text.len > 0) {
		struct manifest_entry *e = &ret->items[ret->count];
		number++;
		good = ret->count < BUNDLE_FILES_MAX && slice_split(text, '\n', &line, &text) &&
			parse_line(line, e) && (ret->count == 0 || by_path(e - 1, e) < 0);
		ret->count += good;
	}
	if (!good)
		*ret_line = number;
	return good ? 0 : -EINVAL;
}

int manifest_write(const struct manifest *m, struct buf *to)
{
	(void)buf_append(to, SLICE(HEAD));
	for (size_t i = 0; i < m->count; i++) {
		(void)buf_append(to, slice_of(m->items[i].digest));
		(void)buf_append(to, SLICE("  "));
		(void)buf_append(to, m->items[i].path);
		(void)buf_append(to, SLICE("\n"));
	}
	return buf_append(to, SLICE("")); /* earlier failures are sticky and end up here */
}

enum manifest_difference manifest_compare(
	const struct manifest *listed, const struct manifest *present, struct slice *ret_path)
{
	for (size_t i = 0; i < listed->count || i < present->count; i++) {
		const struct manifest_entry *l = i < listed->count ? &listed->items[i] : NULL;
		const struct manifest_entry *p = i < present->count ? &present->items[i] : NULL;
		int order = l == NULL ? 1 : p == NULL ? -1 : compare_paths(l->path, p->path);
		if (order == 0 && strcmp(l->digest, p->digest) == 0)
			continue;
		*ret_path = order > 0 ? p->path : l->path;
		return order > 0    ? MANIFEST_UNLISTED
			: order < 0 ? MANIFEST_MISSING
				    : MANIFEST_CHANGED;
	}
	return MANIFEST_SAME;
}
