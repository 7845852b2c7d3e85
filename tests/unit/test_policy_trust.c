/* Trust: which policies are read under which keys, and the one line that says why another is not. */
#include "policy/trust.h"

#include "policy/manifest.h"
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static const char key_a_pem[] = "-----BEGIN PUBLIC KEY-----\n"
				"MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
				"-----END PUBLIC KEY-----\n";
static const char key_a_private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
	"-----END PRIVATE KEY-----\n";
static const char key_b_pem[] = "-----BEGIN PUBLIC KEY-----\n"
				"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
				"-----END PUBLIC KEY-----\n";

struct folder {
	char path[64];
};

static const char *at(const struct folder *f, const char *name)
{
	static char paths[16][256];
	static unsigned next;
	char *to = paths[next++ % 16];
	(void)snprintf(to, sizeof(paths[0]), "%s/%s", f->path, name);
	return to;
}

static void put(const struct folder *f, const char *name, struct slice text)
{
	auto_fd fd = open(at(f, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text), 0);
}

static void put_text(const struct folder *f, const char *name, const char *text)
{
	put(f, name, slice_of(text));
}

static int set_up(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	(void)snprintf(f->path, sizeof(f->path), "/tmp/eclusa-test-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	assert_int_equal(mkdir(at(f, "p"), 0755), 0);
	assert_int_equal(mkdir(at(f, "p/common"), 0755), 0);
	put_text(f, "a.pub", key_a_pem);
	put_text(f, "b.pub", key_b_pem);
	put_text(f, "p/x.allow", "policy 1\ninclude common/y.allow\n[profile p]\nallow a.test\n");
	put_text(f, "p/common/y.allow", "policy 1\ndeny b.test\n");
	put_text(f, "p/z.allow", "policy 1\n");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct folder *f = *state;
	static const char *const names[] = {"p/common/y.allow", "p/x.allow", "p/z.allow",
		"p/w.allow", "p/manifest", "p/manifest.sig", "p/x.allow.manifest",
		"p/x.allow.manifest.sig", "a.pub", "b.pub", "config"};
	for (size_t i = 0; i < array_size(names); i++)
		(void)unlink(at(f, names[i]));
	(void)rmdir(at(f, "p/common"));
	(void)rmdir(at(f, "p"));
	(void)rmdir(f->path);
	free(f);
	return 0;
}

/** As `eclusa policy sign` does, by key a. */
static void sign(const struct folder *f, const char *policy)
{
	static struct manifest m;
	struct policy_seal seal;
	struct sign_key *key;
	struct buf bundle = {.limit = 0}, text = {.limit = 0};
	char raw[SIGN_SIGNATURE_BYTES], name[SEAL_NAME_BYTES + 8];
	assert_int_equal(policy_source_read_sealed(at(f, policy), &bundle, &seal, NULL), 0);
	assert_int_equal(manifest_of_bundle(buf_slice(&bundle), seal.prefix_len, &m), 0);
	assert_int_equal(manifest_write(&m, &text), 0);
	assert_int_equal(sign_key_read(slice_of(key_a_private_pem), &key), 0);
	assert_int_equal(sign_make(key, buf_slice(&text), (unsigned char *)raw), 0);
	sign_key_free(key);
	put(f, seal.name + strlen(f->path) + 1, buf_slice(&text));
	(void)snprintf(name, sizeof(name), "%s.sig", seal.name + strlen(f->path) + 1);
	put(f, name, (struct slice){raw, sizeof(raw)});
	policy_seal_fini(&seal);
	buf_fini(&bundle);
	buf_fini(&text);
}

/** Read p, or another path, trusting one key of these. @says: how the line that refuses goes on after the folder; NULL: read. */
static void expect_read(
	const struct folder *f, const char *policy, const char *key, const char *says)
{
	struct trust t;
	struct failure why = {0};
	struct policy_signer signer = {.key_id = "untouched"};
	struct buf bundle = {.limit = 0};
	const char *files[] = {at(f, key)};
	assert_int_equal(trust_open(NULL, files, 1, &t, &why), 0);
	int r = trust_read_policy(&t, at(f, policy), &bundle, &signer, &why);
	if (says == NULL) {
		if (r != 0)
			fail_msg("%s", why.text);
		assert_string_equal(signer.key_id, "deb2ded39dc26fce");
		assert_true(buf_len(&bundle) > 0);
	} else {
		assert_int_equal(r, -EKEYREJECTED);
		if (strncmp(why.text, f->path, strlen(f->path)) != 0 ||
			strstr(why.text, says) == NULL || strchr(why.text, '\n') != NULL)
			fail_msg("%s", why.text);
		assert_int_equal(buf_len(&bundle), 0);
		assert_string_equal(signer.key_id, "untouched");
	}
	buf_fini(&bundle);
}

static void a_signed_policy_is_read(void **state)
{
	const struct folder *f = *state;
	sign(f, "p");
	expect_read(f, "p", "a.pub", NULL);
	put_text(f, "p/notes.txt", "no policy text is no part of it");
	expect_read(f, "p", "a.pub", NULL);
	(void)unlink(at(f, "p/notes.txt"));
}

static void an_unsigned_one_is_not(void **state)
{
	const struct folder *f = *state;
	expect_read(f, "p", "a.pub", "/p/manifest: there is none, and only signed");
	sign(f, "p");
	expect_read(f, "p", "b.pub",
		"/p/manifest.sig: no signature of this manifest by a key that is trusted");
	assert_int_equal(unlink(at(f, "p/manifest.sig")), 0);
	expect_read(f, "p", "a.pub", "/p/manifest.sig: there is none");
	put_text(f, "p/manifest.sig", "short");
	expect_read(f, "p", "a.pub", "no signature");
	put_text(f, "p/manifest.sig",
		"longer than a signature is, by a byte or two or three or four or five or six");
	expect_read(f, "p", "a.pub", "no signature");
}

static void other_bytes_than_the_signed_ones_are_refused(void **state)
{
	const struct folder *f = *state;
	sign(f, "p");
	put_text(f, "p/common/y.allow", "policy 1\n");
	expect_read(f, "p", "a.pub", "/p/common/y.allow: its bytes are not those that were signed");
	sign(f, "p");
	put_text(f, "p/w.allow", "policy 1\n");
	expect_read(f, "p", "a.pub", "/p/w.allow: it was not signed");
	assert_int_equal(unlink(at(f, "p/w.allow")), 0);
	expect_read(f, "p", "a.pub", NULL);
	assert_int_equal(unlink(at(f, "p/z.allow")), 0);
	expect_read(
		f, "p", "a.pub", "/p/z.allow: it was signed, and is not part of the policy now");
}

static void a_changed_manifest_is_refused(void **state)
{
	const struct folder *f = *state;
	struct buf text = {.limit = 0};
	sign(f, "p");
	assert_int_equal(file_read(AT_FDCWD, at(f, "p/manifest"), MANIFEST_BYTES_MAX, &text), 0);
	(void)buf_append_text(&text, "\n");
	put(f, "p/manifest", buf_slice(&text));
	expect_read(f, "p", "a.pub", "/p/manifest.sig: no signature");
	buf_fini(&text);
	assert_int_equal(unlink(at(f, "p/manifest")), 0);
	assert_int_equal(symlink("/dev/zero", at(f, "p/manifest")), 0);
	expect_read(f, "p", "a.pub", "/p/manifest: ");
}

static void a_file_has_a_manifest_of_its_own(void **state)
{
	const struct folder *f = *state;
	sign(f, "p");
	expect_read(f, "p/x.allow", "a.pub", "/p/x.allow.manifest: there is none");
	sign(f, "p/x.allow");
	expect_read(f, "p/x.allow", "a.pub", NULL);
	expect_read(f, "p", "a.pub", NULL);
	put_text(f, "p/z.allow", "policy 1\n# changed\n");
	expect_read(f, "p/x.allow", "a.pub", NULL);
	expect_read(f, "p", "a.pub", "/p/z.allow: its bytes");
}

static void without_keys_nothing_is_asked(void **state)
{
	const struct folder *f = *state;
	struct trust t;
	struct policy_signer signer;
	struct buf bundle = {.limit = 0};
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, NULL), 0);
	assert_int_equal(trust_read_policy(&t, at(f, "p"), &bundle, &signer, NULL), 0);
	assert_string_equal(signer.key_id, "");
	assert_true(trust_has_signer(&t, &signer));
	buf_fini(&bundle);
}

static void configure(const struct folder *f, const char *key, const char *more)
{
	char text[512];
	(void)snprintf(text, sizeof(text), "trust %s\n%s", at(f, key), more);
	put_text(f, "config", text);
}

static void options_narrow_what_the_configuration_trusts(void **state)
{
	const struct folder *f = *state;
	struct trust t;
	struct failure why = {0};
	const char *a[] = {at(f, "a.pub")}, *b[] = {at(f, "b.pub")};
	char more[256];
	configure(f, "a.pub", "allow-rules yes\n");
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, &why), 0);
	assert_int_equal(t.count, 1);
	assert_true(t.allow_rules);
	assert_true(trust_has_signer(&t, &(struct policy_signer){.key_id = "deb2ded39dc26fce"}));
	assert_false(trust_has_signer(&t, &(struct policy_signer){.key_id = "06e3fd8fda29bb60"}));
	assert_false(trust_has_signer(&t, &(struct policy_signer){.key_id = ""}));
	assert_int_equal(trust_open(at(f, "config"), a, 1, &t, &why), 0);
	assert_int_equal(t.count, 1);
	assert_false(t.allow_rules); /* who asks for a signature gets no unsigned rule */
	assert_int_equal(trust_open(at(f, "config"), b, 1, &t, &why), -EPERM);
	assert_non_null(strstr(why.text, "does not trust this key (06e3fd8fda29bb60"));
	(void)snprintf(more, sizeof(more), "trust %s\n", b[0]);
	configure(f, "a.pub", more);
	assert_int_equal(trust_open(at(f, "config"), b, 1, &t, NULL), 0);
	assert_int_equal(t.count, 1);
	put_text(f, "config", "# nobody\n");
	assert_int_equal(trust_open(at(f, "config"), b, 1, &t, NULL), 0);
	assert_int_equal(t.count, 1);
}

static void rules_of_the_command_line_are_not_signed(void **state)
{
	const struct folder *f = *state;
	const char *rules[] = {"a.test"};
	struct trust t;
	struct failure why = {0};
	struct buf bundle = {.limit = 0};
	configure(f, "a.pub", "");
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, &why), 0);
	assert_int_equal(trust_read_rules(&t, rules, 1, &bundle, &why), -EKEYREJECTED);
	assert_int_equal(strncmp(why.text, "--allow: only signed policies", 29), 0);
	assert_int_equal(buf_len(&bundle), 0);
	configure(f, "a.pub", "allow-rules yes\n");
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, &why), 0);
	assert_int_equal(trust_read_rules(&t, rules, 1, &bundle, NULL), 0);
	buf_fini(&bundle);
}

static void a_configuration_with_a_fault_stops_everything(void **state)
{
	const struct folder *f = *state;
	struct trust t = {.count = 77};
	static const struct {
		const char *text;
		int code;
		const char *says;
	} cases[] = {
		{"trust", -EINVAL, "/config:1:1: error: config: write: trust FILE"},
		{"trust /nonexistent", -ENOENT, "/config:1: /nonexistent: No such file"},
		{"\ntrust /dev/null", -EINVAL, "/config:2: /dev/null: not a regular file"},
		{"trust /etc/passwd", -EINVAL, "/config:1: /etc/passwd: no Ed25519 public key"},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct failure why = {0};
		put_text(f, "config", cases[i].text);
		assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, &why), cases[i].code);
		if (strstr(why.text, cases[i].says) == NULL)
			fail_msg("%s", why.text);
	}
	struct failure why = {0};
	configure(f, "a.pub", "");
	assert_int_equal(chmod(at(f, "config"), 0666), 0);
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, &why), -EPERM);
	assert_non_null(strstr(why.text, "others may write it: chmod go-w"));
	assert_int_equal(chmod(at(f, "config"), 0644), 0);
	assert_int_equal(chmod(at(f, "a.pub"), 0664), 0);
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, NULL), -EPERM);
	assert_int_equal(unlink(at(f, "config")), 0);
	assert_int_equal(symlink("nothing", at(f, "config")), 0);
	assert_int_equal(trust_open(at(f, "config"), NULL, 0, &t, NULL), -ENOENT);
	assert_int_equal(t.count, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_signed_policy_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_unsigned_one_is_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			other_bytes_than_the_signed_ones_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_changed_manifest_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_file_has_a_manifest_of_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_keys_nothing_is_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			options_narrow_what_the_configuration_trusts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			rules_of_the_command_line_are_not_signed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_configuration_with_a_fault_stops_everything, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
