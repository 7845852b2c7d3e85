/* Reading policy text: one file, a folder, includes, the command line, and what is refused. */
#include "tests/unit/policy_setup.h"

#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#define NOTHING "policy 1\n"

struct folder {
	char path[64];
	int fd;
};

static int folder_setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "/tmp/eclusa-policy-XXXXXX");
	if (mkdtemp(f->path) == NULL)
		return -1;
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return f->fd < 0 ? -1 : 0;
}

static int folder_teardown(void **state)
{
	struct folder *f = *state;
	static const char *const names[] = {"a.allow", "b.allow", "c.allow", "sub/x.allow",
		"sub/y.allow", ".hidden.allow", "other.txt", "big.allow"};
	for (size_t i = 0; i < array_size(names); i++)
		(void)unlinkat(f->fd, names[i], 0); /* most tests make only some */
	for (int i = 0; i < 12; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "n%d.allow", i);
		(void)unlinkat(f->fd, name, 0);
	}
	(void)unlinkat(f->fd, "sub", AT_REMOVEDIR);
	(void)unlinkat(f->fd, "dir.allow", AT_REMOVEDIR);
	(void)close(f->fd);
	int r = rmdir(f->path);
	free(f);
	return r;
}

static void put(const struct folder *f, const char *name, const char *text)
{
	auto_fd fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
}

/** Read @path and compile; the first finding or failure as text in *ret_text; "" when all is well. */
static struct policy *try_read(const char *path, char *ret_text, size_t capacity)
{
	struct buf bundle;
	struct failure why = {0};
	struct policy *p = NULL;
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	ret_text[0] = '\0';
	if (policy_source_read(path, &bundle, &why) < 0)
		(void)snprintf(ret_text, capacity, "%s", why.text);
	else if (policy_compile(buf_slice(&bundle), &p, &policy_setup_report) < 0)
		(void)policy_diagnostic_format(&policy_setup_report.items[0], ret_text, capacity);
	buf_fini(&bundle);
	return p;
}

/** What is refused, and how the line that says so ends. */
static void refused(const struct folder *f, const char *name, const char *says)
{
	char path[256];
	char text[2048];
	(void)snprintf(path, sizeof(path), "%s%s%s", f->path, name[0] == '\0' ? "" : "/", name);
	struct policy *p = try_read(path, text, sizeof(text));
	if (p != NULL || strstr(text, says) == NULL)
		fail_msg("'%s' says: %s", name, text);
	assert_null(strchr(text, '\n'));
}

static struct policy *accepted(const char *path)
{
	char text[2048];
	struct policy *p = try_read(path, text, sizeof(text));
	if (p == NULL)
		fail_msg("%s", text);
	return p;
}

static const struct rule *rule_for(const struct policy *p, const char *question)
{
	static struct policy_setup_question ask;
	struct policy_verdict v;
	policy_setup_ask(question, &ask);
	policy_decide(policy_setup_profile(p, NULL), &ask.q, &v);
	return v.rule;
}

static void a_folder_is_its_allow_files(void **state)
{
	const struct folder *f = *state;
	char expected[128];
	put(f, "b.allow", "policy 1\n[profile p]\nuse g\n");
	put(f, "a.allow", "policy 1\n[group g]\n\nallow a.test\n");
	put(f, "other.txt", "not policy");
	put(f, ".hidden.allow", "not policy");
	struct policy *p = accepted(f->path);
	const struct rule *r = rule_for(p, "GET https://a.test/");
	(void)snprintf(expected, sizeof(expected), "%s/a.allow", f->path);
	assert_string_equal(r->file, expected);
	assert_int_equal(r->line, 4);
	policy_free(p);
}

static void a_file_brings_what_it_includes(void **state)
{
	const struct folder *f = *state;
	char path[128];
	char expected[128];
	assert_int_equal(mkdirat(f->fd, "sub", 0755), 0);
	put(f, "a.allow",
		"policy 1\ninclude sub/x.allow # theirs\ninclude b.allow\n[profile p]\n"
		"use g\nallow b.test\n");
	put(f, "b.allow", "policy 1\ninclude sub/y.allow\n");
	put(f, "sub/x.allow", "policy 1\ninclude y.allow\n[group g]\nallow a.test\n");
	put(f, "sub/y.allow", "policy 1\ndeny b.test\n");
	(void)snprintf(path, sizeof(path), "%s/a.allow", f->path);
	struct policy *p = accepted(path);
	(void)snprintf(expected, sizeof(expected), "%s/sub/x.allow", f->path);
	assert_string_equal(rule_for(p, "GET https://a.test/")->file, expected);
	(void)snprintf(expected, sizeof(expected), "%s/sub/y.allow", f->path);
	assert_string_equal(rule_for(p, "GET https://b.test/")->file, expected);
	policy_free(p);
	/* The folder has the same two files at its top, and takes each once. */
	policy_free(accepted(f->path));
}

static void what_cannot_be_read_is_refused(void **state)
{
	const struct folder *f = *state;
	refused(f, "", "there is no *.allow file in it");
	refused(f, "a.allow", "No such file");
	put(f, "a.allow", "");
	refused(f, "a.allow", "must be: policy 1");
	put(f, "a.allow", "policy 1\ninclude b.allow\n");
	refused(f, "a.allow", "a.allow:2:9: ");
	refused(f, "a.allow", "b.allow: No such file");
	assert_int_equal(mkdirat(f->fd, "dir.allow", 0755), 0);
	put(f, "a.allow", NOTHING);
	refused(f, "", "dir.allow: not a regular file");
	char text[512];
	assert_null(try_read("", text, sizeof(text)));
	assert_non_null(strstr(text, "empty"));
}

static void a_link_stays_in_the_folder(void **state)
{
	const struct folder *f = *state;
	put(f, "a.allow", "policy 1\n[profile p]\nallow a.test\n");
	assert_int_equal(symlinkat("a.allow", f->fd, "other.txt"), 0);
	assert_int_equal(symlinkat("/etc/passwd", f->fd, "b.allow"), 0);
	refused(f, "", "b.allow: a link leaves the policy's folder");
	assert_int_equal(unlinkat(f->fd, "b.allow", 0), 0);
	assert_int_equal(symlinkat("../../etc/passwd", f->fd, "b.allow"), 0);
	refused(f, "", "b.allow: a link leaves the policy's folder");
	put(f, "a.allow", "policy 1\ninclude b.allow\n");
	refused(f, "a.allow", "a.allow:2:9: ");
	put(f, "a.allow", "policy 1\ninclude other.txt\n");
	refused(f, "a.allow", "includes itself");
}

static void a_large_file_is_refused(void **state)
{
	const struct folder *f = *state;
	auto_fd fd = openat(f->fd, "big.allow", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)POLICY_FILE_BYTES_MAX + 1), 0);
	refused(f, "big.allow", "larger than 1 MiB");
	/* At the limit it is read: here, one line of NUL bytes that is too long. */
	assert_int_equal(ftruncate(fd, (off_t)POLICY_FILE_BYTES_MAX), 0);
	refused(f, "big.allow", "longer than 4096 bytes");
}

static void includes_end(void **state)
{
	const struct folder *f = *state;
	put(f, "a.allow", "policy 1\ninclude b.allow\n");
	put(f, "b.allow", "policy 1\ninclude a.allow\n");
	refused(f, "a.allow", "b.allow:2:9: error: include: the file includes itself");
	for (int i = 0; i < 10; i++) {
		char name[32];
		char text[64] = NOTHING;
		(void)snprintf(name, sizeof(name), "n%d.allow", i);
		if (i < 9)
			(void)snprintf(text, sizeof(text), "policy 1\ninclude n%d.allow\n", i + 1);
		put(f, name, text);
	}
	refused(f, "n0.allow", "n8.allow:2:9: error: include: includes nest more than 8 deep");
	policy_free(NULL);
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/n1.allow", f->path);
	policy_free(accepted(path));
}

static void an_included_file_has_the_same_owner(void **state)
{
	const struct folder *f = *state;
	if (geteuid() != 0)
		skip();
	put(f, "a.allow", "policy 1\ninclude b.allow\n");
	put(f, "b.allow", NOTHING);
	assert_int_equal(fchownat(f->fd, "b.allow", 12345, 12345, 0), 0);
	refused(f, "a.allow", "its owner is not the owner of the file that includes it");
}

static int compile_rules(
	const char *const *rules, size_t count, struct policy **ret, struct failure *why)
{
	struct buf bundle;
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	int r = policy_source_rules(rules, count, &bundle, why);
	if (r == 0)
		r = policy_compile(buf_slice(&bundle), ret, &policy_setup_report);
	buf_fini(&bundle);
	return r;
}

static void rules_of_the_command_line_are_a_profile(void **state)
{
	(void)state;
	static const char *const rules[] = {"data.test", "api.test GET,POST /v1/**"};
	struct policy *p = NULL;
	assert_int_equal(compile_rules(rules, 2, &p, NULL), 0);
	assert_string_equal(profile_name(policy_setup_profile(p, NULL)), "run");
	const struct rule *r = rule_for(p, "POST https://api.test/v1/x");
	assert_string_equal(r->file, "--allow");
	assert_int_equal(r->line, 2);
	assert_string_equal(r->id, "--allow:2");
	assert_string_equal(r->text, "allow api.test GET,POST /v1/**");
	assert_int_equal(r->req_body_bytes, 1 << 20);
	policy_free(p);
	assert_int_equal(compile_rules(NULL, 0, &p, NULL), 0);
	assert_null(rule_for(p, "GET https://data.test/"));
	policy_free(p);
}

static void what_people_write_first_is_answered(void **state)
{
	(void)state;
	static const char *const cases[][2] = {{"https://data.test/", "a rule is no URL"},
		{"http://data.test", ":80 is plain HTTP"},
		{"data.test/v1", "a blank stands before"},
		{"data.test v1/*", "a path begins with /"},
		{"data.test GET v1/*", "a path begins with /"},
		{"allow data.test", "leave out the first word"}};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct policy *p = NULL;
		struct failure why = {0};
		assert_int_equal(compile_rules(&cases[i][0], 1, &p, &why), -EINVAL);
		assert_non_null(strstr(why.text, cases[i][1]));
	}
	static const char *const fine[] = {"data.test GET /a/b /c", "data.test addr=10.0.0.0/8",
		"data.test note=\"a b/c\"", "tcp data.test:22", "ip:192.0.2.0/24:443 GET /x",
		"ip:[2001:db8::/32]", "any ticket=T", "data.test tls=splice"};
	for (size_t i = 0; i < array_size(fine); i++) {
		struct policy *p = NULL;
		assert_int_equal(compile_rules(&fine[i], 1, &p, NULL), 0);
		policy_free(p);
	}
}

static void a_wrong_rule_of_the_command_line_has_its_place(void **state)
{
	(void)state;
	static const char *const rules[] = {"data.test", "  api.test reqbody=1"};
	struct policy *p = NULL;
	char line[1024];
	assert_int_equal(compile_rules(rules, 2, &p, NULL), -EINVAL);
	assert_string_equal(
		policy_diagnostic_format(&policy_setup_report.items[0], line, sizeof(line)),
		"--allow:2:12: error: unknown-attribute: unknown attribute 'reqbody'; did you mean "
		"req-body?");
	static const char *const hostile[] = {"", " ", "# x", "a.test\nallow b.test", "a.test \\",
		"[profile q]", "use g", "deny a.test"};
	for (size_t i = 0; i < array_size(hostile); i++) {
		struct failure why = {0};
		if (compile_rules(&hostile[i], 1, &p, &why) != -EINVAL || p != NULL)
			fail_msg("'%s' was accepted", hostile[i]);
	}
}

int main(void)
{
#define in_folder(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)
	const struct CMUnitTest tests[] = {
		in_folder(a_folder_is_its_allow_files),
		in_folder(a_file_brings_what_it_includes),
		in_folder(what_cannot_be_read_is_refused),
		in_folder(a_link_stays_in_the_folder),
		in_folder(a_large_file_is_refused),
		in_folder(includes_end),
		in_folder(an_included_file_has_the_same_owner),
		cmocka_unit_test(rules_of_the_command_line_are_a_profile),
		cmocka_unit_test(what_people_write_first_is_answered),
		cmocka_unit_test(a_wrong_rule_of_the_command_line_has_its_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
