/*
 * See trust.h. Nothing of a caller's environment is asked. An ordinary user who has a copy of the program is not held by
 * the configuration; whoever may only choose options of a program that root starts is.
 */
#include "policy/trust.h"

#include "policy/manifest.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/** A file that decides who is believed: regular, and nobody but its owner writes it. */
static int read_guarded(
	const char *path, const char *place, size_t limit, struct buf *to, struct failure *why)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "%s%s", place, path);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "%s%s: not a regular file", place, path);
	if ((st.st_mode & 022) != 0)
		return failure_set(
			why, -EPERM, "%s%s: others may write it: chmod go-w %s", place, path, path);
	int r = file_read_fd(fd, limit, to);
	return r < 0 ? failure_errno(why, r, "%s%s", place, path) : 0;
}

/** Add the key in a file. @place: what names the file, with ": ". */
static int add_key(struct trust *t, const char *path, const char *place, struct failure *why)
{
	struct sign_public key;
	struct buf pem = {.limit = SIGN_PEM_BYTES_MAX + 65536};
	int r = read_guarded(path, place, SIGN_PEM_BYTES_MAX, &pem, why);
	if (r == 0) {
		r = sign_public_read(buf_slice(&pem), &key);
		if (r == -EINVAL)
			(void)failure_set(why, r,
				"%s%s: no Ed25519 public key in PEM (openssl pkey -in KEY -pubout)",
				place, path);
		else if (r < 0)
			(void)failure_errno(why, r, "%s%s", place, path);
	}
	buf_fini(&pem);
	if (r == 0)
		t->keys[t->count++] = key; /* the callers count */
	return r;
}

static int add_configured(struct trust *t, const char *config, struct failure *why)
{
	struct config said = {.trust_count = 0};
	struct buf text = {.limit = CONFIG_BYTES_MAX + 65536};
	struct stat st;
	if (lstat(config, &st) < 0 && errno == ENOENT)
		return 0;
	int r = read_guarded(config, "", CONFIG_BYTES_MAX, &text, why);
	if (r == 0)
		r = config_parse(config, buf_slice(&text), &said, why);
	buf_fini(&text);
	for (size_t i = 0; i < said.trust_count && r == 0; i++) {
		char place[CONFIG_PATH_BYTES + 32];
		(void)snprintf(place, sizeof(place), "%s:%u: ", config, said.trust[i].line);
		r = add_key(t, said.trust[i].path, place, why);
	}
	t->allow_rules = said.allow_rules;
	return r;
}

static bool has_key(const struct trust *t, const struct sign_public *key)
{
	for (size_t i = 0; i < t->count; i++) {
		if (memcmp(t->keys[i].raw, key->raw, sizeof(key->raw)) == 0)
			return true;
	}
	return false;
}

/** Keys of the command line: of those that the configuration trusts, or any where it trusts none. */
static int narrow(struct trust *t, const char *config, const char *const *files, size_t count,
	struct failure *why)
{
	struct trust named = {.count = 0};
	if (count > CONFIG_TRUST_MAX)
		return failure_set(why, -EINVAL, "--trust: more than 16 keys");
	for (size_t i = 0; i < count; i++) {
		int r = add_key(&named, files[i], "--trust ", why);
		if (r < 0)
			return r;
		const struct sign_public *key = &named.keys[named.count - 1];
		if (t->count > 0 && !has_key(t, key))
			return failure_set(why, -EPERM,
				"--trust %s: %s does not trust this key (%s), and options only narrow it",
				files[i], config, key->id);
	}
	if (count > 0)
		*t = named;
	return 0;
}

int trust_open(const char *config, const char *const *files, size_t count, struct trust *ret,
	struct failure *why)
{
	struct trust made = {.count = 0};
	int r = config == NULL ? 0 : add_configured(&made, config, why);
	if (r == 0)
		r = narrow(&made, config, files, count, why);
	if (r == 0)
		*ret = made;
	return r;
}

/** The one of the keys that signed, or an error. */
static int find_signer(const struct trust *t, const struct policy_seal *seal,
	struct policy_signer *ret, struct failure *why)
{
	const char *name = seal->name;
	if (seal->manifest_error == -ENOENT)
		return failure_set(why, -EKEYREJECTED,
			"%s: there is none, and only signed policies are trusted here (eclusa policy sign)",
			name);
	if (seal->manifest_error < 0)
		return failure_set(
			why, -EKEYREJECTED, "%s: %s", name, strerror(-seal->manifest_error));
	if (seal->signature_error == -ENOENT)
		return failure_set(why, -EKEYREJECTED,
			"%s.sig: there is none, and only signed policies are trusted here (eclusa policy sign)",
			name);
	if (seal->signature_error < 0 &&
		seal->signature_error != -EFBIG) /* long ones are wrong ones */
		return failure_set(
			why, -EKEYREJECTED, "%s.sig: %s", name, strerror(-seal->signature_error));
	for (size_t i = 0; i < t->count && seal->signature_error == 0; i++) {
		int r = sign_verify(
			&t->keys[i], buf_slice(&seal->manifest), buf_slice(&seal->signature));
		if (r == 0) {
			memcpy(ret->key_id, t->keys[i].id, sizeof(ret->key_id));
			return 0;
		}
		if (r != -EKEYREJECTED)
			return failure_errno(why, r, "%s.sig", name);
	}
	return failure_set(why, -EKEYREJECTED,
		"%s.sig: no signature of this manifest by a key that is trusted (%s%s)", name,
		t->keys[0].id, t->count > 1 ? " and others" : "");
}

static const char *difference_text(enum manifest_difference d)
{
	switch (d) {
	case MANIFEST_CHANGED:
		return "its bytes are not those that were signed";
	case MANIFEST_UNLISTED:
		return "it was not signed";
	case MANIFEST_MISSING:
		return "it was signed, and is not part of the policy now";
	case MANIFEST_SAME:
		break;
	}
	return NULL;
}

/** Compare what was signed with what was read. */
static int check_manifest(const struct policy_seal *seal, struct slice bundle, struct failure *why)
{
	char shown[512];
	struct slice path = {0};
	unsigned line = 0;
	auto_free struct manifest *listed = malloc(sizeof(*listed));
	auto_free struct manifest *present = malloc(sizeof(*present));
	if (listed == NULL || present == NULL)
		return failure_errno(why, -ENOMEM, "%s", seal->name);
	if (manifest_parse(buf_slice(&seal->manifest), listed, &line) < 0)
		return failure_set(why, -EKEYREJECTED,
			"%s:%u: no line of a manifest that eclusa policy sign writes", seal->name,
			line);
	int r = manifest_of_bundle(bundle, seal->prefix_len, present);
	if (r < 0)
		return failure_errno(why, r, "%s", seal->name);
	const char *differs = difference_text(manifest_compare(listed, present, &path));
	if (differs == NULL)
		return 0;
	return failure_set(why, -EKEYREJECTED, "%.*s%s: %s (%s)", (int)seal->prefix_len, seal->name,
		slice_escape(path, shown, sizeof(shown)), differs, seal->name);
}

int trust_read_policy(const struct trust *t, const char *path, struct buf *to,
	struct policy_signer *ret_signer, struct failure *why)
{
	struct policy_seal seal;
	struct policy_signer signer = {.key_id = ""};
	if (t->count == 0) {
		int r = policy_source_read(path, to, why);
		if (r == 0 && ret_signer != NULL)
			*ret_signer = signer;
		return r;
	}
	int r = policy_source_read_sealed(path, to, &seal, why);
	if (r == 0)
		r = find_signer(t, &seal, &signer, why);
	if (r == 0)
		r = check_manifest(&seal, buf_slice(to), why);
	policy_seal_fini(&seal);
	if (r < 0)
		buf_clear(to); /* nobody goes on with what is not trusted */
	else if (ret_signer != NULL)
		*ret_signer = signer;
	return r;
}

bool trust_has_signer(const struct trust *t, const struct policy_signer *signer)
{
	bool found = t->count == 0;
	for (size_t i = 0; i < t->count; i++)
		found |= strcmp(t->keys[i].id, signer->key_id) == 0;
	return found;
}

int trust_read_rules(const struct trust *t, const char *const *rules, size_t count, struct buf *to,
	struct failure *why)
{
	if (t->count > 0 && !t->allow_rules)
		return failure_set(why, -EKEYREJECTED,
			"--allow: only signed policies are trusted here, and rules of the command line are "
			"not signed (allow-rules yes in %s permits them)",
			TRUST_CONFIG);
	return policy_source_rules(rules, count, to, why);
}
