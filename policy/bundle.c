/* See bundle.h. Input: bytes of a sibling process, checked all the same. */
#include "policy/bundle.h"

#include <errno.h>
#include <stdio.h>

#define HEAD "eclusa-bundle 1\n"

int bundle_open(struct buf *to)
{
	return buf_append(to, SLICE(HEAD));
}

int bundle_append(struct buf *to, const struct bundle_text *text)
{
	(void)buf_printf(to, "%c %zu %zu\n", (char)text->kind, text->name.len, text->content.len);
	(void)buf_append(to, text->name);
	(void)buf_append(to, SLICE("\n"));
	(void)buf_append(to, text->content);
	return buf_append(to, SLICE("\n")); /* earlier failures are sticky and end up here */
}

int bundle_start(struct slice bundle, struct slice *ret_rest)
{
	if (!slice_starts(bundle, SLICE(HEAD)))
		return -EINVAL;
	*ret_rest = slice_part(bundle, sizeof(HEAD) - 1, bundle.len);
	return 0;
}

/** Take @len bytes and the newline after them. */
static int take(struct slice *rest, size_t len, struct slice *ret)
{
	if (len >= rest->len || rest->ptr[len] != '\n')
		return -EINVAL;
	*ret = slice_part(*rest, 0, len);
	*rest = slice_part(*rest, len + 1, rest->len);
	return 0;
}

static bool kind_known(struct slice kind)
{
	return kind.len == 1 &&
		(kind.ptr[0] == BUNDLE_FILE || kind.ptr[0] == BUNDLE_INCLUDED ||
			kind.ptr[0] == BUNDLE_RULES);
}

int bundle_next(struct slice *rest, struct bundle_text *ret)
{
	struct slice left = *rest;
	struct slice head;
	struct slice kind;
	struct slice name_len;
	struct slice content_len;
	uint64_t name_bytes;
	uint64_t content_bytes;
	if (left.len == 0)
		return 0;
	if (!slice_split(left, '\n', &head, &left) || !slice_split(head, ' ', &kind, &head) ||
		!slice_split(head, ' ', &name_len, &content_len) || !kind_known(kind) ||
		slice_decimal(name_len, BUNDLE_NAME_BYTES_MAX, false, &name_bytes) < 0 ||
		slice_decimal(content_len, SIZE_MAX / 2, false, &content_bytes) < 0)
		return -EINVAL;
	struct bundle_text text = {.kind = (enum bundle_kind)kind.ptr[0]};
	if (take(&left, name_bytes, &text.name) < 0 ||
		take(&left, content_bytes, &text.content) < 0 || text.name.len == 0)
		return -EINVAL;
	*ret = text;
	*rest = left;
	return 1;
}

const char *bundle_include_check(struct slice path)
{
	struct slice rest = path;
	if (path.len == 0 || path.ptr[0] == '/')
		return "an included file is named by a path below this file's folder";
	for (bool more = true; more;) {
		struct slice part = rest;
		more = slice_split(rest, '/', &part, &rest);
		if (part.len == 0 || slice_equal(part, SLICE(".")) ||
			slice_equal(part, SLICE("..")))
			return "an included path has no '..', no '.' and no empty part";
	}
	return NULL;
}

int bundle_include_name(
	const char *from, struct slice path, char ret_name[static BUNDLE_NAME_BYTES_MAX + 1])
{
	const char *slash = strrchr(from, '/');
	size_t folder_len = slash == NULL ? 0 : (size_t)(slash - from) + 1;
	if (folder_len + path.len > BUNDLE_NAME_BYTES_MAX)
		return -ENAMETOOLONG;
	(void)snprintf(ret_name, BUNDLE_NAME_BYTES_MAX + 1, "%.*s%.*s", (int)folder_len, from,
		(int)path.len, path.ptr);
	return 0;
}
