#include "tests/unit/audit_setup.h"

#include "audit/chain.h"
#include "audit/index.h"
#include "audit/scan.h"
#include "common/json.h"

#include <sys/mman.h>
#include <sys/wait.h>

static struct buf sealed(struct chain *c, const char *front)
{
	struct buf line = {0};
	char hash[DIGEST_TEXT_BYTES];
	assert_int_equal(buf_append_text(&line, front), 0);
	assert_int_equal(chain_seal(c, CHAIN_EVENT_CLOSING, &line, 0, hash), 0);
	memcpy(c->head, hash, sizeof(c->head));
	c->sequence++;
	return line;
}

static void a_sealed_line_reads_back_and_holds(void **state)
{
	(void)state;
	struct chain c;
	struct chain_link link;
	char head[DIGEST_TEXT_BYTES];
	assert_int_equal(chain_start(&c, "sb-1"), 0);
	for (int i = 0; i < 3; i++) {
		memcpy(head, c.head, sizeof(head));
		struct buf line = sealed(
			&c, "{\"metadata\":{\"sequence\":7},\"unmapped\":{\"eclusa\":{\"a\":1");
		assert_true(chain_read(buf_slice(&line), CHAIN_EVENT_CLOSING, &link));
		assert_true(slice_equal(link.chain, SLICE("sb-1")));
		assert_true(slice_equal(link.prev, slice_of(head)));
		assert_true(slice_equal(link.hash, slice_of(c.head)));
		assert_true(chain_link_holds(&link));
		assert_int_equal(chain_sequence(buf_slice(&line)), 7);
		buf_fini(&line);
	}
}

static void one_flipped_bit_does_not_hold(void **state)
{
	(void)state;
	struct chain c;
	assert_int_equal(chain_start(&c, "sb-1"), 0);
	struct buf line = sealed(&c, "{\"unmapped\":{\"eclusa\":{\"a\":1");
	for (size_t i = 0; i < buf_len(&line); i++) {
		struct chain_link link;
		line.data[line.start + i] ^= 1;
		assert_false(chain_read(buf_slice(&line), CHAIN_EVENT_CLOSING, &link) &&
			chain_link_holds(&link));
		line.data[line.start + i] ^= 1;
	}
	buf_fini(&line);
}

static void what_is_not_sealed_is_refused(void **state)
{
	(void)state;
	static const char zeros[] =
		"0000000000000000000000000000000000000000000000000000000000000000";
	static const char *const table[][2] = {
		{"{\"a\":1,\"chain\":\"x\",\"prev\":\"%s\",\"hash\":\"%s\"}}", ""}, /* closing */
		{"{\"a\":1,\"chain\":\"\",\"prev\":\"%s\",\"hash\":\"%s\"}}}", ""},
		{"{\"a\":1,\"chain\":\"a b\",\"prev\":\"%s\",\"hash\":\"%s\"}}}", ""},
		{"{\"a\":1,\"chaim\":\"x\",\"prev\":\"%s\",\"hash\":\"%s\"}}}", ""},
		{"{\"a\":1,\"chain\":\"x\",\"prev\":\"%s\",\"hash\":\"0%s\"}}}", ""},
		{"{\"a\":1,\"chain\":\"x\",\"prev\":\"%sA\",\"hash\":\"%s\"}}}", ""},
		{"x\",\"prev\":\"%s\",\"hash\":\"%s\"}}}", ""},
	};
	for (size_t i = 0; i < array_size(table); i++) {
		char text[512];
		struct chain_link link;
		struct buf line = {0};
		const char *from = table[i][0];
		for (const char *at = strstr(from, "%s"); at != NULL; at = strstr(from, "%s")) {
			assert_int_equal(
				buf_append(&line, (struct slice){from, (size_t)(at - from)}), 0);
			assert_int_equal(buf_append_text(&line, zeros), 0);
			from = at + 2;
		}
		assert_int_equal(buf_append_text(&line, from), 0);
		assert_int_equal(slice_copy(buf_slice(&line), text, sizeof(text)), 0);
		for (size_t len = 0; len <= strlen(text); len++)
			assert_false(
				chain_read((struct slice){text, len}, CHAIN_EVENT_CLOSING, &link));
		buf_fini(&line);
	}
	struct chain c;
	static const char *const names[] = {"", "a/b", "a\"b", "a b",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	for (size_t i = 0; i < array_size(names); i++)
		assert_int_equal(chain_start(&c, names[i]), -EINVAL);
}

/* --- lines as bytes --- */

static void lines_are_given_as_they_are(void **state)
{
	(void)state;
	struct scan scan = {.fd = memfd_create("lines", MFD_CLOEXEC)};
	struct slice line;
	struct buf text = {0};
	char *letters = malloc(SCAN_BUFFER_BYTES + 10);
	assert_non_null(letters);
	memset(letters, 'x', SCAN_BUFFER_BYTES + 10);
	assert_int_equal(buf_append_text(&text, "one\n\n"), 0);
	assert_int_equal(buf_append(&text, (struct slice){letters, SCAN_BUFFER_BYTES + 10}), 0);
	assert_int_equal(buf_append_text(&text, "\nlast"), 0);
	assert_int_equal(file_write_all(scan.fd, buf_slice(&text)), 0);
	assert_int_equal(lseek(scan.fd, 0, SEEK_SET), 0);
	static const struct {
		size_t len;
		bool whole;
	} expected[] = {{3, true}, {0, true}, {SCAN_BUFFER_BYTES, false}, {10, true}, {4, false}};
	for (size_t i = 0; i < array_size(expected); i++) {
		assert_int_equal(scan_next(&scan, &line), 1);
		assert_int_equal(line.len, expected[i].len);
		assert_int_equal(scan.whole, expected[i].whole);
	}
	assert_int_equal(scan_next(&scan, &line), 0);
	assert_int_equal(scan.bytes, buf_len(&text));
	scan_fini(&scan);
	fd_close(&scan.fd);
	free(letters);
	buf_fini(&text);
}

/* --- the index --- */

static int append(const struct audit_rig *rig, enum audit_index_kind kind)
{
	const struct audit_index_entry e = {
		.kind = kind, .segment = rig->name, .at = audit_segment_chain(rig->segment)};
	struct failure why = {0};
	return audit_index_append(rig->folder_fd, &e, &why);
}

static void the_index_is_a_chain_of_its_own(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct chain head;
	rig_open(&rig);
	assert_int_equal(audit_index_head(rig.folder_fd, &head), 0);
	assert_int_equal(head.sequence, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(append(&rig, AUDIT_INDEX_OPENED), 0);
	assert_int_equal(audit_index_head(rig.folder_fd, &head), 0);
	assert_int_equal(head.sequence, 3);
	struct buf all = read_file(rig.folder_fd, AUDIT_INDEX_NAME);
	assert_int_equal(count_of(all.data, "\"chain\":\"index\""), 3);
	assert_int_equal(count_of(all.data, head.head), 1);
	buf_fini(&all);
	rig_close(&rig);
}

static void what_a_killed_writer_left_in_the_index_is_taken_back(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct chain head;
	rig_open(&rig);
	assert_int_equal(append(&rig, AUDIT_INDEX_OPENED), 0);
	struct buf before = read_file(rig.folder_fd, AUDIT_INDEX_NAME);
	for (size_t len = 1; len < buf_len(&before) - 2; len += 61) {
		auto_fd fd =
			openat(rig.folder_fd, AUDIT_INDEX_NAME, O_WRONLY | O_APPEND | O_CLOEXEC);
		assert_int_equal(write(fd, before.data, len), (ssize_t)len);
		assert_int_equal(append(&rig, AUDIT_INDEX_CLOSED), 0);
	}
	assert_int_equal(audit_index_head(rig.folder_fd, &head), 0);
	struct buf all = read_file(rig.folder_fd, AUDIT_INDEX_NAME);
	assert_int_equal(count_of(all.data, "\n"), head.sequence);
	buf_fini(&all);
	buf_fini(&before);
	rig_close(&rig);
}

static void an_index_that_is_none_stops_writers(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct chain head;
	rig_open(&rig);
	auto_fd fd = openat(rig.folder_fd, AUDIT_INDEX_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "nonsense\n", 9), 9);
	assert_int_equal(append(&rig, AUDIT_INDEX_OPENED), -EBADMSG);
	assert_int_equal(audit_index_head(rig.folder_fd, &head), -EBADMSG);
	rig_close(&rig);
}

static void writers_of_the_index_take_turns(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct chain head;
	rig_open(&rig);
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			int r = 0;
			for (int n = 0; n < 50 && r == 0; n++)
				r = append(&rig, AUDIT_INDEX_OPENED);
			_exit(r == 0 ? 0 : 1);
		}
	}
	int status;
	while (wait(&status) > 0)
		assert_int_equal(status, 0);
	assert_int_equal(audit_index_head(rig.folder_fd, &head), 0);
	assert_int_equal(head.sequence, 400);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sealed_line_reads_back_and_holds),
		cmocka_unit_test(one_flipped_bit_does_not_hold),
		cmocka_unit_test(what_is_not_sealed_is_refused),
		cmocka_unit_test(lines_are_given_as_they_are),
		cmocka_unit_test(the_index_is_a_chain_of_its_own),
		cmocka_unit_test(what_a_killed_writer_left_in_the_index_is_taken_back),
		cmocka_unit_test(an_index_that_is_none_stops_writers),
		cmocka_unit_test(writers_of_the_index_take_turns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
