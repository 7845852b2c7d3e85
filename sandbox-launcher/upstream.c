/* See upstream.h. */
#include "sandbox-launcher/upstream.h"

#include "common/address.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#define UPSTREAM_FILE_BYTES_MAX ((size_t)32 << 20)

static bool next_line(struct slice *rest, struct slice *ret_line)
{
	if (rest->len == 0)
		return false;
	*ret_line = *rest;
	struct slice behind = {0};
	(void)slice_split(*rest, '\n', ret_line, &behind); /* false: the last line */
	*rest = behind;
	return true;
}

bool upstream_has_certificate(struct slice text)
{
	struct slice line;
	while (next_line(&text, &line))
		if (slice_starts(line, SLICE("-----BEGIN CERTIFICATE-----")) ||
			slice_starts(line, SLICE("-----BEGIN TRUSTED CERTIFICATE-----")) ||
			slice_starts(line, SLICE("-----BEGIN X509 CERTIFICATE-----")))
			return true;
	return false;
}

bool upstream_has_host(struct slice text)
{
	struct slice line;
	while (next_line(&text, &line)) {
		struct slice comment;
		struct address address;
		(void)slice_split(line, '#', &line, &comment); /* false: no comment */
		line = slice_trim(line);
		size_t len = 0;
		while (len < line.len && line.ptr[len] != ' ' && line.ptr[len] != '\t')
			len++;
		if (len < line.len && address_parse(slice_part(line, 0, len), &address) == 0)
			return true;
	}
	return false;
}

/* Only a regular file can be looked at and be read by the proxy afterwards. */
static int check(const char *option, const char *path, bool has(struct slice), const char *needs,
	struct failure *why)
{
	struct stat st;
	if (path == NULL || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0; /* whoever opens it says why it can't */
	char shown[256];
	struct buf text;
	buf_init(&text, UPSTREAM_FILE_BYTES_MAX);
	(void)slice_escape(slice_of(path), shown, sizeof(shown));
	int r = file_read(AT_FDCWD, path, UPSTREAM_FILE_BYTES_MAX, &text);
	if (r < 0)
		(void)failure_errno(why, r, "%s: %s", option, shown);
	else if (!has(buf_slice(&text)))
		r = failure_set(why, -EINVAL, "%s: %s: %s", option, shown, needs);
	buf_fini(&text);
	return r;
}

int upstream_check(const struct spec *spec, struct failure *why)
{
	int r = check("--upstream-ca", spec->upstream_ca, upstream_has_certificate,
		"there is no PEM certificate in it", why);
	return r < 0 ? r
		     : check("--hosts", spec->hosts, upstream_has_host,
			       "there is no line ADDRESS NAME in it", why);
}
