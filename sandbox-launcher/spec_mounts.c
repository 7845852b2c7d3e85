/* --bind and --tmpfs of spec.h: where in the sandbox, what of the host, how large. Opens nothing. */
#include "sandbox-launcher/spec.h"

#include "common/cleanup.h"
#include "sandbox-launcher/trust_places.h"

#include <stdio.h>

/* Ours to the last entry: nothing of the caller's goes there or below, nor over what holds them. */
static const char *const RESERVED[] = {"/proc", "/dev", "/out", "/sys"};

static bool is_at_or_below(struct slice path, struct slice folder)
{
	struct slice rest = slice_part(path, folder.len, path.len);
	return slice_starts(path, folder) && (rest.len == 0 || slice_starts(rest, SLICE("/")));
}

/* Normal form: "/a/b". A name in the root that begins with a dot is what the launcher works with. */
static bool is_normal(struct slice path)
{
	struct slice rest = path, name;
	if (path.len < 2 || path.ptr[0] != '/' || path.ptr[1] == '.')
		return false;
	rest = slice_part(path, 1, path.len);
	for (bool more = true; more;) {
		more = slice_split(rest, '/', &name, &rest);
		if (!more)
			name = rest;
		if (name.len == 0 || name.len > 255 || slice_equal(name, SLICE(".")) ||
			slice_equal(name, SLICE("..")))
			return false;
	}
	return true;
}

static int take_path(struct slice path, const char *option, char ret[static SPEC_PATH_BYTES],
	struct failure *why)
{
	char shown[128];
	(void)slice_escape(path, shown, sizeof(shown));
	if (!is_normal(path) || path.len >= SPEC_PATH_BYTES)
		return failure_set(why, -EINVAL,
			"--%s: %s: not an absolute path without ., .. and //, of at most %d bytes",
			option, shown, SPEC_PATH_BYTES - 1);
	for (size_t i = 0; i < array_size(RESERVED); i++) {
		if (is_at_or_below(path, slice_of(RESERVED[i])) ||
			is_at_or_below(slice_of(RESERVED[i]), path))
			return failure_set(
				why, -EINVAL, "--%s: %s is the sandbox's own", option, shown);
	}
	if (is_at_or_below(SLICE("/home/sandbox"), path) &&
		!slice_equal(path, SLICE("/home/sandbox")))
		return failure_set(why, -EINVAL, "--%s: %s is the sandbox's own", option, shown);
	(void)slice_copy(path, ret, SPEC_PATH_BYTES); /* its length was checked */
	return 0;
}

int spec_bind(const char *text, struct spec_bind *ret, struct failure *why)
{
	struct slice whole = slice_of(text);
	struct spec_bind b = {.writable = slice_ends(whole, SLICE(":rw"))};
	char shown[128];
	if (b.writable || slice_ends(whole, SLICE(":ro")))
		whole.len -= 3;
	size_t colon = whole.len;
	while (colon > 0 && whole.ptr[colon - 1] != ':')
		colon--;
	if (colon < 2)
		return failure_set(why, -EINVAL,
			"--bind: %s: needs SRC:DST or SRC:DST:rw, DST an absolute path in the sandbox",
			slice_escape(slice_of(text), shown, sizeof(shown)));
	int r = take_path(slice_part(whole, colon, whole.len), "bind", b.path, why);
	if (r < 0)
		return r;
	b.source = slice_dup(slice_part(whole, 0, colon - 1));
	if (b.source == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	*ret = b;
	return 0;
}

int spec_tmpfs(const char *text, struct spec_tmpfs *ret, struct failure *why)
{
	struct slice whole = slice_of(text), path = whole, size = {0};
	struct spec_tmpfs t = {.bytes = 0};
	char shown[128];
	bool sized = slice_split(whole, ':', &path, &size);
	if (sized &&
		(spec_parse_size(size, &t.bytes) < 0 || t.bytes < 4096 ||
			t.bytes > SPEC_MEMORY_MAX))
		return failure_set(why, -EINVAL, "--tmpfs: not a size from 4K: %s (such as 64M)",
			slice_escape(size, shown, sizeof(shown)));
	int r = take_path(path, "tmpfs", t.path, why);
	if (r == 0)
		*ret = t;
	return r;
}

/* Where the items of both options go, in one list; the callers' texts were checked before. */
static void path_of(const struct spec *s, size_t i, char to[static SPEC_PATH_BYTES])
{
	struct spec_tmpfs t = {0};
	struct spec_bind b = {0};
	if (i < s->tmpfs.count) {
		(void)spec_tmpfs(s->tmpfs.items[i], &t, NULL); /* it was good once */
		memcpy(to, t.path, SPEC_PATH_BYTES);
		return;
	}
	(void)spec_bind(s->bind.items[i - s->tmpfs.count], &b, NULL); /* as before */
	memcpy(to, b.path, SPEC_PATH_BYTES);
	free(b.source);
}

/* Variables name files there: without them every client fails, and says something else about it. */
static bool hides_trust(const char *path)
{
	struct slice trust = SLICE(TRUST_FOLDER_PATH), one = slice_of(path);
	return is_at_or_below(trust, one) || is_at_or_below(one, trust);
}

int spec_check_mounts(const struct spec *s, struct failure *why)
{
	size_t count = s->tmpfs.count + s->bind.count;
	char one[SPEC_PATH_BYTES], other[SPEC_PATH_BYTES], shown[2][128];
	for (size_t i = 0; i < count; i++) {
		path_of(s, i, one);
		if (s->in.count > 0 && strcmp(one, "/work") == 0)
			return failure_set(why, -EINVAL,
				"--in shows files in /work, and something else is to be mounted there: "
				"use --bind SRC:/work/NAME for them");
		if (spec_has_network(s) && hides_trust(one))
			return failure_set(why, -EINVAL,
				"what is mounted at %s would hide " TRUST_FOLDER_PATH
				", by which clients trust the proxy: mount it at another place, such as "
				"/run/NAME",
				slice_escape(slice_of(one), shown[0], sizeof(shown[0])));
		for (size_t k = 0; k < i; k++) {
			path_of(s, k, other);
			if (is_at_or_below(slice_of(other), slice_of(one)))
				return failure_set(why, -EINVAL,
					"%s would be hidden by what is mounted at %s: put the outer one "
					"first, and --tmpfs comes before --bind",
					slice_escape(slice_of(other), shown[0], sizeof(shown[0])),
					slice_escape(slice_of(one), shown[1], sizeof(shown[1])));
		}
	}
	return 0;
}
