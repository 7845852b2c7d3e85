#include "tests/unit/audit_setup.h"

#include "audit/index.h"
#include "audit/key.h"
#include "audit/verify.h"

struct verify_rig {
	struct audit_rig audit;
	struct sign_key *key;
	struct sign_public public;
};

/** A chain of lines and checkpoints ("l" and "c"), in the index as opened and closed. */
static void put(struct verify_rig *rig, const char *what)
{
	struct audit_segment *s = rig->audit.segment;
	struct buf line = {0};
	struct failure why = {0};
	struct chain index;
	uint64_t covered = 0;
	assert_int_equal(audit_index_head(rig->audit.folder_fd, &index), 0);
	struct audit_event start = {.class = AUDIT_PROCESS,
		.reason = REASON_SANDBOX_START,
		.sandbox_id = "run",
		.index = &index};
	assert_int_equal(audit_segment_append_event(s, &start), 0);
	struct audit_index_entry entry = {.kind = AUDIT_INDEX_OPENED,
		.segment = rig->audit.name,
		.at = audit_segment_chain(s)};
	assert_int_equal(audit_index_append(rig->audit.folder_fd, &entry, &why), 0);
	for (; *what != '\0'; what++) {
		const struct chain *chain = audit_segment_chain(s);
		struct checkpoint c = {.first = covered + 1, .last = chain->sequence - 1};
		struct audit_event e = {.class = AUDIT_LIFECYCLE,
			.activity = 99,
			.reason = REASON_AUDIT_CHECKPOINT,
			.checkpoint = &c};
		if (*what == 'l') {
			assert_int_equal(append_to(s, "a.test"), 0);
			continue;
		}
		memcpy(c.chain, chain->name, sizeof(c.chain));
		memcpy(c.head, chain->head, sizeof(c.head));
		assert_int_equal(checkpoint_sign(&c, *what == 'u' ? NULL : rig->key), 0);
		covered = c.last;
		if (*what == 'x')
			c.last--; /* of another line */
		assert_int_equal(audit_segment_append_event(s, &e), 0);
	}
	entry.kind = AUDIT_INDEX_CLOSED;
	assert_int_equal(audit_index_append(rig->audit.folder_fd, &entry, &why), 0);
	buf_fini(&line);
}

static void verify_open(struct verify_rig *rig)
{
	rig_open(&rig->audit);
	audit_segment_close(rig->audit.folder_fd, rig->audit.name);
	assert_int_equal(sign_key_new(&rig->key), 0);
	assert_int_equal(sign_key_public(rig->key, &rig->public), 0);
}

static void verify_close(struct verify_rig *rig)
{
	sign_key_free(rig->key);
	rig_close(&rig->audit);
}

static struct verify_result judge(struct verify_rig *rig, bool with_key, uint64_t from)
{
	struct failure why = {0};
	struct verify_result result = {0};
	const struct verify_options options = {.folder_fd = rig->audit.folder_fd,
		.key = with_key ? &rig->public : NULL,
		.from = from};
	if (audit_verify(&options, &result, &why) < 0)
		fail_msg("%s", why.text);
	return result;
}

static void signatures_cover_what_stands_before_them(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		uint64_t checkpoints, bare; /* lines that no signature covers, beside the start */
	} table[] = {{"", 0, 1}, {"ll", 0, 3}, {"llc", 1, 1}, {"llcl", 1, 2}, {"lclclc", 3, 1},
		{"llu", 0, 4}};
	for (size_t i = 0; i < array_size(table); i++) {
		struct verify_rig rig;
		verify_open(&rig);
		put(&rig, table[i].what);
		struct verify_result r = judge(&rig, true, 0);
		bool stripped = table[i].checkpoints == 0 && table[i].what[0] == 'l';
		assert_int_equal(r.count, stripped);
		if (stripped)
			assert_int_equal(r.findings[0].kind, VERIFY_UNSIGNED);
		assert_int_equal(r.checkpoints, table[i].checkpoints);
		assert_int_equal(r.unsigned_lines, table[i].bare);
		verify_fini(&r);
		r = judge(&rig, false, 0);
		assert_int_equal(r.unsigned_lines, r.lines);
		verify_fini(&r);
		verify_close(&rig);
	}
}

static void a_checkpoint_of_another_line_or_key_is_a_finding(void **state)
{
	(void)state;
	struct verify_rig rig;
	verify_open(&rig);
	put(&rig, "llc");
	struct verify_result r = judge(&rig, true, 0);
	assert_int_equal(r.count, 0);
	verify_fini(&r);
	put(&rig, "x");
	r = judge(&rig, false, 0);
	assert_int_equal(r.count, 1);
	assert_int_equal(r.findings[0].kind, VERIFY_SIGNATURE);
	assert_int_equal(r.findings[0].line, 6);
	verify_fini(&r);
	rig.public.raw[3] ^= 1;
	r = judge(&rig, true, 0);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.findings[0].kind, VERIFY_SIGNATURE);
	assert_int_equal(r.findings[0].line, 4);
	verify_fini(&r);
	verify_close(&rig);
}

/** The index is cut, or has something behind its end. */
static void the_end_of_the_index_is_missed(void **state)
{
	(void)state;
	static const struct {
		const char *append; /* NULL: the last line is cut off */
		enum verify_kind kind;
	} table[] = {{NULL, VERIFY_INDEX}, {"x", VERIFY_TORN}, {"{}\n", VERIFY_NO_LINE}};
	for (size_t i = 0; i < array_size(table); i++) {
		struct verify_rig rig;
		verify_open(&rig);
		put(&rig, "llc");
		struct verify_result r = judge(&rig, true, 0);
		assert_int_equal(r.count, 0);
		verify_fini(&r);
		struct buf index = read_file(rig.audit.folder_fd, AUDIT_INDEX_NAME);
		auto_fd fd = openat(
			rig.audit.folder_fd, AUDIT_INDEX_NAME, O_WRONLY | O_APPEND | O_CLOEXEC);
		if (table[i].append == NULL)
			assert_int_equal(
				ftruncate(fd, strchr(index.data, '\n') + 1 - index.data), 0);
		else
			assert_true(write(fd, table[i].append, strlen(table[i].append)) > 0);
		r = judge(&rig, false, 0);
		assert_int_equal(r.count, 1);
		assert_int_equal(r.findings[0].kind, table[i].kind);
		verify_fini(&r);
		buf_fini(&index);
		verify_close(&rig);
	}
}

/** A file that is marked as being written is so only while somebody holds it. */
static void a_mark_alone_excuses_nothing(void **state)
{
	(void)state;
	struct verify_rig rig;
	char link[160];
	verify_open(&rig);
	put(&rig, "ll");
	assert_int_equal(unlinkat(rig.audit.folder_fd, AUDIT_INDEX_NAME, 0), 0);
	auto_fd empty =
		openat(rig.audit.folder_fd, AUDIT_INDEX_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(empty >= 0);
	int stem = (int)(strlen(rig.audit.name) - strlen(".jsonl"));
	(void)snprintf(link, sizeof(link), "open/%.*s", stem, rig.audit.name);
	assert_int_equal(
		linkat(rig.audit.folder_fd, rig.audit.name, rig.audit.folder_fd, link, 0), 0);
	struct verify_result r = judge(&rig, true, 0);
	assert_int_equal(r.count, 0); /* the rig's own descriptor holds it */
	verify_fini(&r);
	rig_drop(&rig.audit);
	r = judge(&rig, true, 0);
	assert_int_equal(r.count, 2);
	assert_int_equal(r.findings[0].kind, VERIFY_UNLISTED);
	assert_int_equal(r.findings[1].kind, VERIFY_UNSIGNED);
	verify_fini(&r);
	verify_close(&rig);
}

/** A line that is no line, again and again: told up to a limit, then counted. */
static void findings_are_told_up_to_a_limit(void **state)
{
	(void)state;
	struct verify_rig rig;
	verify_open(&rig);
	put(&rig, "l");
	for (int i = 0; i < VERIFY_FINDINGS_MAX + 5; i++)
		assert_int_equal(write(rig.audit.segment_fd, "{}\n", 3), 3);
	struct verify_result r = judge(&rig, false, 0);
	assert_int_equal(r.count, VERIFY_FINDINGS_MAX);
	assert_int_equal(r.left_out, 5);
	assert_int_equal(r.findings[0].kind, VERIFY_NO_LINE);
	verify_fini(&r);
	verify_close(&rig);
}

static void a_key_is_made_once_and_only_for_its_owner(void **state)
{
	(void)state;
	char folder[] = "/tmp/eclusa-key-XXXXXX", path[64], inner[64];
	struct failure why = {0};
	assert_non_null(mkdtemp(folder));
	(void)snprintf(inner, sizeof(inner), "%s/a", folder);
	(void)snprintf(path, sizeof(path), "%s/a/key.pem", folder);
	struct buf first = {.limit = 65536 + 8192}, second = {.limit = 65536 + 8192};
	auto_fd fd = audit_key_open(path, &why);
	assert_true(fd >= 0);
	assert_int_equal(file_read_fd(fd, 4096, &first), 0);
	fd_close(&fd);
	fd = audit_key_open(path, &why);
	assert_int_equal(file_read_fd(fd, 4096, &second), 0);
	assert_true(slice_equal(buf_slice(&first), buf_slice(&second)));
	struct sign_key *key;
	struct sign_public public, again;
	assert_int_equal(sign_key_read(buf_slice(&first), &key), 0);
	assert_int_equal(sign_key_public(key, &public), 0);
	buf_clear(&second);
	assert_int_equal(audit_key_public_pem(&public, &second), 0);
	assert_int_equal(sign_public_read(buf_slice(&second), &again), 0);
	assert_memory_equal(public.raw, again.raw, sizeof(public.raw));
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(chmod(path, 0604), 0);
	assert_int_equal(audit_key_open(path, &why), -EPERM);
	sign_key_free(key);
	buf_fini(&first);
	buf_fini(&second);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(inner), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signatures_cover_what_stands_before_them),
		cmocka_unit_test(a_checkpoint_of_another_line_or_key_is_a_finding),
		cmocka_unit_test(the_end_of_the_index_is_missed),
		cmocka_unit_test(a_mark_alone_excuses_nothing),
		cmocka_unit_test(findings_are_told_up_to_a_limit),
		cmocka_unit_test(a_key_is_made_once_and_only_for_its_owner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
