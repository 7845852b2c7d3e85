/* See last_good.h. */
#include "proxy/last_good.h"

#include "common/cleanup.h"
#include "common/digest.h"
#include "common/file.h"
#include "policy/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LAST_GOOD_NAME "policy.last-good"
#define LAST_GOOD_NEW  "policy.last-good.new"
#define LAST_GOOD_EVER "policy.loaded" /* is there since the first policy was in force */
#define LAST_GOOD_HEAD "eclusa last good policy 1 "
/* What follows the head's line, and its digest covers: who signed, NUL-filled, and the bundle. */
#define LAST_GOOD_CONTENT_MAX (POLICY_BUNDLE_BYTES_MAX + sizeof(struct policy_signer))

int last_good_open(const char *folder, struct failure *why)
{
	struct stat st;
	int r = file_make_dirs(folder, 0700);
	if (r < 0)
		return failure_errno(why, r, "--state-dir: can't make %s", folder);
	auto_fd fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "--state-dir: can't open %s", folder);
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return failure_set(why, -EPERM,
			"--state-dir: %s must be this user's own, and writable by nobody else",
			folder);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return failure_set(why, errno == EWOULDBLOCK ? -EBUSY : -errno,
			"--state-dir: another proxy uses %s", folder);
	return fd_take(&fd);
}

static int write_new(int folder_fd, struct slice content)
{
	char head[sizeof(LAST_GOOD_HEAD) + DIGEST_TEXT_BYTES + 1] = LAST_GOOD_HEAD;
	size_t at = sizeof(LAST_GOOD_HEAD) - 1;
	int r = digest_of(content, head + at);
	if (r < 0)
		return r;
	head[at + DIGEST_TEXT_BYTES - 1] = '\n';
	auto_fd fd = openat(folder_fd, LAST_GOOD_NEW,
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = file_write_all(fd, (struct slice){head, at + DIGEST_TEXT_BYTES});
	if (r == 0)
		r = file_write_all(fd, content);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

int last_good_save(int folder_fd, const struct policy_signer *signer, struct slice bundle)
{
	struct buf content = {.limit = LAST_GOOD_CONTENT_MAX};
	int r = buf_append(&content, (struct slice){signer->key_id, sizeof(signer->key_id)});
	if (r == 0)
		r = buf_append(&content, bundle);
	if (r == 0)
		r = write_new(folder_fd, buf_slice(&content));
	buf_fini(&content);
	if (r == 0 && renameat(folder_fd, LAST_GOOD_NEW, folder_fd, LAST_GOOD_NAME) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(folder_fd, LAST_GOOD_NEW, 0); /* the next one is written anew */
		return r;
	}
	auto_fd ever = openat(
		folder_fd, LAST_GOOD_EVER, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ever < 0 || fsync(folder_fd) < 0)
		return -errno;
	return 0;
}

/** Check the head and take it off. @return 0 or -EBADMSG. */
static int check_copy(struct slice copy, struct slice *ret_bundle, struct policy_signer *ret_signer)
{
	char digest[DIGEST_TEXT_BYTES];
	struct slice head = SLICE(LAST_GOOD_HEAD);
	size_t len = head.len + DIGEST_TEXT_BYTES;
	if (copy.len < len || !slice_starts(copy, head) || copy.ptr[len - 1] != '\n')
		return -EBADMSG;
	struct slice content = slice_part(copy, len, copy.len);
	if (digest_of(content, digest) < 0 ||
		!slice_equal(slice_of(digest), slice_part(copy, head.len, len - 1)))
		return -EBADMSG;
	if (content.len < sizeof(ret_signer->key_id) ||
		memchr(content.ptr, '\0', sizeof(ret_signer->key_id)) == NULL)
		return -EBADMSG;
	memcpy(ret_signer->key_id, content.ptr, sizeof(ret_signer->key_id));
	*ret_bundle = slice_part(content, sizeof(ret_signer->key_id), content.len);
	return 0;
}

int last_good_read(int folder_fd, struct buf *to, struct policy_signer *ret_signer)
{
	struct buf copy;
	struct slice bundle;
	struct policy_signer signer;
	buf_init(&copy, LAST_GOOD_CONTENT_MAX + 2 * 65536);
	auto_fd fd = openat(folder_fd, LAST_GOOD_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 ? -errno : file_read_fd(fd, LAST_GOOD_CONTENT_MAX + 65536, &copy);
	if (r == 0)
		r = check_copy(buf_slice(&copy), &bundle, &signer);
	if (r == 0)
		r = buf_append(to, bundle);
	if (r == 0)
		*ret_signer = signer;
	buf_fini(&copy);
	if (r == -ENOENT && faccessat(folder_fd, LAST_GOOD_EVER, F_OK, 0) == 0)
		r = -EBADMSG; /* there was one */
	return r;
}
