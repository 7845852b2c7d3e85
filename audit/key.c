/* See key.h. */
#include "audit/key.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define SEED_BYTES 32

/* What stands before the 32 bytes in the DER form of a key (RFC 8410, sections 4 and 7). */
static const unsigned char private_head[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03,
	0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
static const unsigned char public_head[] = {
	0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

int audit_key_path(bool root, char *ret_path, size_t capacity, struct failure *why)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int len;
	if (root)
		len = snprintf(ret_path, capacity, "/var/lib/eclusa/audit-key.pem");
	else if (state != NULL && state[0] == '/')
		len = snprintf(ret_path, capacity, "%s/eclusa/audit-key.pem", state);
	else if (home != NULL && home[0] == '/')
		len = snprintf(ret_path, capacity, "%s/.local/state/eclusa/audit-key.pem", home);
	else
		return failure_set(why, -ENOENT,
			"audit key: neither XDG_STATE_HOME nor HOME is set: --key FILE");
	if (len < 0 || (size_t)len >= capacity)
		return failure_set(why, -ENAMETOOLONG, "audit key: path too long");
	return 0;
}

/** One line of base64 (RFC 4648) is enough for either kind of key. */
static void append_base64(struct buf *to, const unsigned char *from, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = (uint32_t)from[i] << 16;
		bits |= i + 1 < len ? (uint32_t)from[i + 1] << 8 : 0;
		bits |= i + 2 < len ? from[i + 2] : 0;
		char four[4] = {digits[bits >> 18 & 63], digits[bits >> 12 & 63],
			i + 1 < len ? digits[bits >> 6 & 63] : '=',
			i + 2 < len ? digits[bits & 63] : '='};
		(void)buf_append(to, (struct slice){four, 4}); /* errors are sticky in the buf */
	}
}

int audit_key_public_pem(const struct sign_public *key, struct buf *to)
{
	unsigned char der[sizeof(public_head) + SIGN_PUBLIC_BYTES];
	memcpy(der, public_head, sizeof(public_head));
	memcpy(der + sizeof(public_head), key->raw, sizeof(key->raw));
	(void)buf_append_text(
		to, "-----BEGIN PUBLIC KEY-----\n"); /* errors are sticky in the buf */
	append_base64(to, der, sizeof(der));
	(void)buf_append_text(to, "\n-----END PUBLIC KEY-----\n");
	return to->failed ? -ENOMEM : 0;
}

static int write_key(int fd)
{
	unsigned char der[sizeof(private_head) + SEED_BYTES];
	struct buf pem = {.limit = 4096};
	memcpy(der, private_head, sizeof(private_head));
	random_bytes(der + sizeof(private_head), SEED_BYTES);
	(void)buf_append_text(
		&pem, "-----BEGIN PRIVATE KEY-----\n"); /* errors are sticky in the buf */
	append_base64(&pem, der, sizeof(der));
	(void)buf_append_text(&pem, "\n-----END PRIVATE KEY-----\n");
	int r = pem.failed ? -ENOMEM : file_write_all(fd, buf_slice(&pem));
	explicit_bzero(der, sizeof(der));
	if (pem.data != NULL)
		explicit_bzero(pem.data, pem.capacity);
	buf_fini(&pem);
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/** A whole new key under its name at once; if another start was quicker, that one's stays. */
static int make_key(const char *path, struct failure *why)
{
	char folder[PATH_MAX], temporary[PATH_MAX];
	if (slice_copy(slice_of(path), folder, sizeof(folder)) < 0 ||
		snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid()) >=
			(int)sizeof(temporary))
		return failure_set(why, -ENAMETOOLONG, "audit key %s: path too long", path);
	int r = file_make_dirs(dirname(folder), 0700);
	if (r < 0)
		return failure_errno(why, r, "audit key %s", path);
	auto_fd fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return failure_errno(why, -errno, "audit key %s", temporary);
	r = write_key(fd);
	if (r == 0 && link(temporary, path) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlink(temporary); /* as well as can be */
	return r < 0 ? failure_errno(why, r, "audit key %s", path) : 0;
}

int audit_key_open(const char *path, struct failure *why)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	auto_fd fd = open(path, flags);
	if (fd < 0 && errno == ENOENT) {
		int r = make_key(path, why);
		if (r < 0)
			return r;
		fd = open(path, flags);
	}
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "audit key %s", path);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "audit key %s: not a file", path);
	if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return failure_set(
			why, -EPERM, "audit key %s: others have access to it: chmod 600", path);
	return fd_take(&fd);
}

int audit_key_open_default(bool root, struct failure *why)
{
	char path[PATH_MAX];
	struct failure later = {0};
	int r = audit_key_path(root, path, sizeof(path), &later);
	if (r == 0)
		r = audit_key_open(path, &later);
	if (r >= 0)
		return r;
	bool none = r == -ENOENT || r == -EACCES || r == -EROFS || r == -ENOSPC;
	return none ? -1 : failure_set(why, r, "%s", later.text);
}
