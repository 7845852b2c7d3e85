/* `eclusa audit keygen`: the install key that signs checkpoints, for those who want it before the first run, or its public half. */
#include "cli/audit.h"

#include "audit/key.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <limits.h>
#include <stdio.h>

static int read_public(const char *path, struct sign_public *ret, struct failure *why)
{
	struct buf pem = {.limit = SIGN_PEM_BYTES_MAX + 65536};
	struct sign_key *key = NULL;
	auto_fd fd = audit_key_open(path, why);
	if (fd < 0)
		return fd;
	int r = file_read_fd(fd, SIGN_PEM_BYTES_MAX, &pem);
	if (r == 0)
		r = sign_key_read(buf_slice(&pem), &key);
	if (r == 0)
		r = sign_key_public(key, ret);
	sign_key_free(key);
	if (pem.data != NULL)
		explicit_bzero(pem.data, pem.capacity);
	buf_fini(&pem);
	return r < 0 ? failure_set(why, r, "audit key %s: no Ed25519 private key in PEM", path) : 0;
}

int audit_tool_keygen(const struct audit_words *words)
{
	char path[PATH_MAX];
	struct failure why = {0};
	struct sign_public public;
	struct buf out = {.limit = 4096};
	int r = 0;
	if (words->key == NULL)
		r = audit_key_path(geteuid() == 0, path, sizeof(path), &why);
	const char *file = words->key != NULL ? words->key : path;
	if (r == 0)
		r = read_public(file, &public, &why);
	if (r < 0) {
		(void)fprintf(stderr, "eclusa audit: %s\n", why.text);
		return AUDIT_EXIT_UNREADABLE;
	}
	(void)fprintf(stderr, "eclusa audit: key %s, in %s\n", public.id, file);
	(void)audit_key_public_pem(&public, &out); /* errors show in out.failed */
	return audit_finish(&out, AUDIT_EXIT_SOUND);
}
