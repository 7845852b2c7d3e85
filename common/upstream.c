/* See upstream.h. */
#include "common/upstream.h"

#include "common/address.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#define UPSTREAM_FILE_BYTES_MAX  ((size_t)32 << 20)
#define UPSTREAM_HOSTS_BYTES_MAX ((size_t)1 << 20)

/* where distributions keep their roots */
static const char *const roots[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

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
	char shown[256];
	struct buf text;
	if (path == NULL)
		return 0;
	(void)slice_escape(slice_of(path), shown, sizeof(shown));
	if (stat(path, &st) < 0)
		return failure_errno(why, -errno, "%s: %s", option, shown);
	if (S_ISDIR(st.st_mode))
		return failure_errno(why, -EISDIR, "%s: %s", option, shown);
	if (!S_ISREG(st.st_mode))
		return 0;
	buf_init(&text, UPSTREAM_FILE_BYTES_MAX);
	int r = file_read(AT_FDCWD, path, UPSTREAM_FILE_BYTES_MAX, &text);
	if (r < 0)
		(void)failure_errno(why, r, "%s: %s", option, shown);
	else if (!has(buf_slice(&text)))
		r = failure_set(why, -EINVAL, "%s: %s: %s", option, shown, needs);
	buf_fini(&text);
	return r;
}

int upstream_check(const struct upstream_options *options, struct failure *why)
{
	int r = check("--upstream-ca", options->upstream_ca, upstream_has_certificate,
		"there is no PEM certificate in it", why);
	if (r == 0)
		r = check("--hosts", options->hosts, upstream_has_host,
			"there is no line ADDRESS NAME in it", why);
	return r < 0 ? r : upstream_proxy_check(&options->proxy, why);
}

static int open_roots(struct failure *why)
{
	for (size_t i = 0; i < array_size(roots); i++) {
		int fd = open(roots[i], O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT)
			return failure_errno(why, -errno, "can't open %s", roots[i]);
	}
	return failure_set(why, -ENOENT, "no CA bundle in %s: install ca-certificates", roots[0]);
}

/** The user's hosts file as a memory file: the proxy reads it under another uid. */
static int open_hosts(const char *path, struct failure *why)
{
	struct buf text;
	buf_init(&text, UPSTREAM_HOSTS_BYTES_MAX);
	int r = file_read(AT_FDCWD, path, UPSTREAM_HOSTS_BYTES_MAX, &text);
	if (r == 0)
		r = file_memory("hosts", buf_slice(&text));
	buf_fini(&text);
	return r < 0 ? failure_errno(why, r, "--hosts: can't read %s", path) : r;
}

int upstream_open(
	const struct upstream_options *options, struct upstream_files *ret, struct failure *why)
{
	ret->roots_fd = open_roots(why);
	if (ret->roots_fd < 0)
		return ret->roots_fd;
	if (options->upstream_ca != NULL) {
		ret->more_roots_fd = open(options->upstream_ca, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (ret->more_roots_fd < 0)
			return failure_errno(
				why, -errno, "--upstream-ca: can't open %s", options->upstream_ca);
	}
	if (options->hosts != NULL) {
		ret->hosts_fd = open_hosts(options->hosts, why);
		if (ret->hosts_fd < 0)
			return ret->hosts_fd;
	}
	return 0;
}

void upstream_close(struct upstream_files *files)
{
	fd_close(&files->roots_fd);
	fd_close(&files->more_roots_fd);
	fd_close(&files->hosts_fd);
}
