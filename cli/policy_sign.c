/*
 * `eclusa policy sign`: what loads now, listed and signed, in two files beside the policy. Between the two renames the old
 * signature stands beside the new manifest, and the policy is refused; it never is half trusted.
 */
#include "cli/policy.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/privilege.h"
#include "policy/manifest.h"
#include "policy/trust.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/** Everything that one signature is made of. */
struct signing {
	const struct policy_words *words;
	struct buf bundle;
	struct policy_seal seal;
	struct buf text; /* of the manifest */
	struct sign_public public;
	unsigned char signature[SIGN_SIGNATURE_BYTES];
	struct manifest manifest;
};

static int key_error(int code, const char *path, struct failure *why)
{
	if (code == -EINVAL)
		return failure_set(why, code,
			"--key %s: no Ed25519 private key in PEM (openssl genpkey -algorithm ed25519)",
			path);
	if (code == -EACCES)
		return failure_set(why, code,
			"--key %s: the key needs a password: openssl pkey -in %s writes one without",
			path, path);
	return failure_errno(why, code, "--key %s", path);
}

/** The bytes of a key never move in memory, so that they can be wiped. */
static int read_key(const char *path, struct sign_key **ret, struct failure *why)
{
	struct stat st;
	char *room;
	struct buf pem = {.limit = 4 * SIGN_PEM_BYTES_MAX};
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "--key %s", path);
	if ((st.st_mode & 077) != 0 && S_ISREG(st.st_mode))
		return failure_set(
			why, -EPERM, "--key %s: others may read it: chmod 600 %s", path, path);
	int r = buf_reserve(&pem, 4 * SIGN_PEM_BYTES_MAX, &room);
	if (r == 0)
		r = file_read_fd(fd, SIGN_PEM_BYTES_MAX, &pem);
	if (r == 0)
		r = sign_key_read(buf_slice(&pem), ret);
	if (pem.data != NULL)
		explicit_bzero(pem.data, pem.capacity);
	buf_fini(&pem);
	return r < 0 ? key_error(r, path, why) : 0;
}

static int sign(struct signing *s, struct failure *why)
{
	struct sign_key *key = NULL;
	const char *path = s->words->words[0];
	int r = manifest_of_bundle(buf_slice(&s->bundle), s->seal.prefix_len, &s->manifest);
	if (r == 0)
		r = manifest_write(&s->manifest, &s->text);
	if (r < 0)
		return failure_errno(why, r, "%s", path);
	r = read_key(s->words->key, &key, why);
	if (r < 0)
		return r;
	r = sign_key_public(key, &s->public);
	if (r == 0)
		r = sign_make(key, buf_slice(&s->text), s->signature);
	sign_key_free(key);
	return r < 0 ? failure_errno(why, r, "%s", path) : 0;
}

static int write_files(const struct signing *s, struct failure *why)
{
	char name[SEAL_NAME_BYTES + 8];
	(void)snprintf(name, sizeof(name), "%s.sig", s->seal.name);
	struct slice signature = {(const char *)s->signature, sizeof(s->signature)};
	int r = file_replace(s->seal.name, buf_slice(&s->text), 0644);
	if (r < 0)
		return failure_errno(why, r, "%s", s->seal.name);
	r = file_replace(name, signature, 0644);
	return r < 0 ? failure_errno(why, r, "%s", name) : 0;
}

static int print(const struct signing *s)
{
	struct buf out = {.limit = 0};
	struct json json;
	if (s->words->json) {
		json_open(&json, &out);
		json_object(&json, NULL);
		json_text(&json, "manifest", s->seal.name);
		json_uint(&json, "files", s->manifest.count);
		json_text(&json, "key_id", s->public.id);
		json_object_end(&json);
		(void)buf_append(&out, SLICE("\n"));
	} else {
		(void)buf_printf(&out, "%s: %zu file%s signed by %s\n", s->seal.name,
			s->manifest.count, s->manifest.count == 1 ? "" : "s", s->public.id);
	}
	return policy_finish(&out, POLICY_EXIT_CLEAN);
}

/** What does not load is not signed. @return exit status. */
static int check_loads(struct signing *s)
{
	struct policy *policy = NULL;
	char line[1024];
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	int r = report == NULL ? -ENOMEM : policy_compile(buf_slice(&s->bundle), &policy, report);
	policy_free(policy);
	for (size_t i = 0; r == -EINVAL && i < report->count; i++) {
		if (report->items[i].severity == POLICY_ERROR)
			(void)fprintf(stderr, "%s\n",
				policy_diagnostic_format(&report->items[i], line, sizeof(line)));
	}
	return r == 0          ? POLICY_EXIT_CLEAN
		: r == -EINVAL ? POLICY_EXIT_FINDINGS
			       : POLICY_EXIT_UNREADABLE;
}

int policy_sign(const struct policy_words *words)
{
	struct failure why = {0};
	auto_free struct signing *s = calloc(1, sizeof(*s));
	if (words->key == NULL)
		return policy_usage("sign needs --key KEY", "");
	if (s == NULL || privilege_hide() < 0)
		return policy_usage("no room to keep a key in", "");
	s->words = words;
	buf_init(&s->bundle, POLICY_BUNDLE_BYTES_MAX);
	int status = POLICY_EXIT_CLEAN;
	int r = policy_source_read_sealed(words->words[0], &s->bundle, &s->seal, &why);
	if (r == 0)
		status = check_loads(s);
	if (r == 0 && status == POLICY_EXIT_CLEAN)
		r = sign(s, &why);
	if (r == 0 && status == POLICY_EXIT_CLEAN)
		r = write_files(s, &why);
	if (r < 0)
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
	if (r == 0 && status == POLICY_EXIT_CLEAN)
		status = print(s);
	policy_seal_fini(&s->seal);
	buf_fini(&s->bundle);
	buf_fini(&s->text);
	return r < 0 ? POLICY_EXIT_UNREADABLE : status;
}
