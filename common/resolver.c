/* See resolver.h. The host's resolver file is trusted to name servers, not to be well-formed. */
#include "common/resolver.h"

#include "common/buf.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>

#define RESOLVER_FILE           "/etc/resolv.conf"
#define RESOLVER_FILE_BYTES_MAX ((size_t)256 << 10)

/** "nameserver", blanks, an address, then blanks or nothing. */
static bool resolver_parse_line(struct slice line, struct resolver *ret)
{
	const struct slice keyword = SLICE("nameserver");
	if (!slice_starts(line, keyword) || line.len == keyword.len)
		return false;
	char after = line.ptr[keyword.len];
	if (after != ' ' && after != '\t')
		return false;
	struct slice value = slice_trim(slice_part(line, keyword.len, line.len));
	size_t end = 0;
	while (end < value.len && value.ptr[end] != ' ' && value.ptr[end] != '\t' &&
		value.ptr[end] != '\r')
		end++;
	if (address_parse(slice_part(value, 0, end), &ret->address) < 0)
		return false;
	ret->port = RESOLVER_PORT;
	return true;
}

size_t resolver_parse(struct slice text, struct resolver *ret, size_t max)
{
	size_t count = 0;
	while (text.len > 0 && count < max) {
		struct slice line = text;
		struct slice rest = {0};
		(void)slice_split(text, '\n', &line, &rest); /* the last line may lack its end */
		text = rest;
		struct resolver found;
		if (resolver_parse_line(line, &found))
			ret[count++] = found;
	}
	return count;
}

int resolver_find(const char *given, struct resolver *ret, size_t max, struct failure *why)
{
	if (given != NULL) {
		int r = address_parse_endpoint(
			slice_of(given), RESOLVER_PORT, &ret->address, &ret->port);
		return r < 0 ? failure_set(why, r, "--resolver %s: not ADDR[:PORT]", given) : 1;
	}
	struct buf text;
	buf_init(&text, RESOLVER_FILE_BYTES_MAX);
	int r = file_read(AT_FDCWD, RESOLVER_FILE, RESOLVER_FILE_BYTES_MAX, &text);
	size_t count = r == 0 ? resolver_parse(buf_slice(&text), ret, max) : 0;
	buf_fini(&text);
	if (r < 0 && r != -ENOENT)
		return failure_errno(why, r, "can't read %s", RESOLVER_FILE);
	if (count > 0)
		return (int)count;
	*ret = (struct resolver){{.family = 4, .bytes = {127, 0, 0, 1}}, RESOLVER_PORT};
	return 1;
}
