#include "tests/unit/audit_setup.h"

#include "audit/mend.h"
#include "audit/summary.h"
#include "common/clock.h"

#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define KILL_ROUNDS 20
#define KILL_LINES  4000

/** Parse one line as a log reader does; duplicate keys are an error. */
static json_t *parse(struct slice line)
{
	json_error_t error;
	json_t *event = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES, &error);
	if (event == NULL)
		fail_msg("%s in %.*s", error.text, (int)line.len, line.ptr);
	return event;
}

static json_int_t sequence_of(json_t *event)
{
	json_t *value = json_object_get(json_object_get(event, "metadata"), "sequence");
	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

/** Every line of a file parses and continues the sequence. @return how many. */
static size_t check_lines(const char *text, json_int_t first)
{
	struct slice rest = slice_of(text), line;
	size_t lines = 0;
	while (slice_split(rest, '\n', &line, &rest)) {
		json_t *event = parse(line);
		assert_int_equal(sequence_of(event), first + (json_int_t)lines);
		json_decref(event);
		lines++;
	}
	assert_int_equal(rest.len, 0);
	return lines;
}

static void lines_get_sequence_time_device_and_boot(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	rig_open(&rig);
	for (int i = 0; i < 3; i++)
		assert_int_equal(append_to(rig.segment, "a.test"), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_int_equal(check_lines(all.data, 1), 3);
	struct slice first, rest;
	assert_true(slice_split(slice_of(all.data), '\n', &first, &rest));
	json_t *event = parse(first);
	json_t *metadata = json_object_get(event, "metadata");
	json_t *ours = json_object_get(json_object_get(event, "unmapped"), "eclusa");
	json_t *device = json_object_get(event, "device");
	assert_true(json_integer_value(json_object_get(metadata, "logged_time")) > 0);
	assert_int_equal(strlen(json_string_value(json_object_get(ours, "boot_id"))), 36);
	assert_int_equal(json_integer_value(json_object_get(device, "type_id")), 1);
	assert_true(json_is_string(json_object_get(device, "hostname")));
	json_decref(event);
	buf_fini(&all);
	buf_fini(&line);
	rig_close(&rig);
}

static void two_writers_share_one_sequence(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	struct failure why = {0};
	struct audit_segment *other;
	rig_open(&rig);
	assert_int_equal(audit_segment_attach(rig.segment_fd, "run", &other, &why), 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(append_to(i % 2 == 0 ? rig.segment : other, "a.test"), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_int_equal(check_lines(all.data, 1), 6);
	audit_segment_free(other);
	buf_fini(&all);
	buf_fini(&line);
	rig_close(&rig);
}

static void a_full_segment_takes_only_the_end_of_its_run(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	rig_open(&rig);
	assert_int_equal(append_to(rig.segment, "a.test"), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	/* the same line once more, at the far end of a hole */
	assert_int_equal(ftruncate(rig.segment_fd, AUDIT_SEGMENT_BYTES_MAX), 0);
	assert_int_equal(write(rig.segment_fd, "\n", 1), 1);
	assert_int_equal(write(rig.segment_fd, all.data, buf_len(&all)), buf_len(&all));
	assert_int_equal(audit_ring_finish(rig.ring, -1, packed_of(&line, "b.test", NULL)), 0);
	assert_int_equal(audit_segment_drain(rig.segment, rig.ring, false), -EDQUOT);
	assert_int_equal(audit_segment_drain(rig.segment, rig.ring, true), 1);
	buf_fini(&all);
	buf_fini(&line);
	rig_close(&rig);
}

static void a_ring_is_drained_and_open_decisions_are_recovered(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	rig_open(&rig);
	assert_int_equal(audit_ring_finish(rig.ring, -1, packed_of(&line, "done.test", NULL)), 0);
	assert_true(audit_ring_open(rig.ring, packed_of(&line, "open.test", NULL)) >= 0);
	assert_int_equal(audit_segment_drain(rig.segment, rig.ring, false), 1);
	assert_int_equal(audit_segment_drain(rig.segment, rig.ring, true), 1);
	assert_int_equal(audit_segment_drain(rig.segment, rig.ring, true), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_int_equal(check_lines(all.data, 1), 2);
	assert_int_equal(count_of(all.data, "\"event_code\":\"audit.recovered\""), 1);
	assert_int_equal(count_of(all.data, "\"recovered\":true"), 1);
	assert_true(strstr(all.data, "\"recovered\":true") > strstr(all.data, "open.test"));
	assert_int_equal(count_of(all.data, "\"status_code\":\"allow.rule\""), 2);
	buf_fini(&all);
	buf_fini(&line);
	rig_close(&rig);
}

static void nonsense_in_the_ring_becomes_a_recorded_loss(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	struct slice bad = SLICE("{\"x\":{}\n}}}}");
	rig_open(&rig);
	assert_int_equal(audit_ring_finish(rig.ring, -1, bad), 0);
	assert_int_equal(audit_ring_finish(rig.ring, -1, packed_of(&line, "good.test", NULL)), 0);
	assert_int_equal(audit_ring_finish(rig.ring, -1, packed_of(&line, "good.test", NULL)), 0);
	assert_int_equal(audit_ring_finish(rig.ring, -1, bad), 0);
	assert_int_equal(audit_ring_finish(rig.ring, -1, packed_of(&line, "last.test", NULL)), 0);
	assert_int_equal(audit_segment_drain(rig.segment, rig.ring, false), 5);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_int_equal(check_lines(all.data, 1), 5);
	assert_int_equal(count_of(all.data, "\"status_code\":\"audit.lost\""), 2);
	assert_true(strstr(all.data, "last.test") > strstr(all.data, "good.test"));
	assert_non_null(strstr(all.data, "good.test"));
	buf_fini(&all);
	buf_fini(&line);
	rig_close(&rig);
}

/** A segment file whose only content is this text, attached once and appended to. */
static struct buf attach_after(struct slice text)
{
	struct audit_rig rig;
	struct failure why = {0};
	struct audit_segment *segment;
	struct buf line = {0};
	rig_open(&rig);
	assert_int_equal(write(rig.segment_fd, text.ptr, text.len), (ssize_t)text.len);
	assert_int_equal(audit_segment_attach(rig.segment_fd, "run", &segment, &why), 0);
	assert_int_equal(append_to(segment, "next.test"), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	audit_segment_free(segment);
	buf_fini(&line);
	rig_close(&rig);
	return all;
}

/** A whole file of @count lines as the segment writer makes them. */
static struct buf written_lines(int count)
{
	struct audit_rig rig;
	struct buf line = {0};
	rig_open(&rig);
	for (int i = 0; i < count; i++)
		assert_int_equal(append_to(rig.segment, "a.test"), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	buf_fini(&line);
	rig_close(&rig);
	return all;
}

static void a_line_torn_anywhere_is_completed(void **state)
{
	(void)state;
	struct buf all = written_lines(2);
	struct slice first, second, rest;
	assert_true(slice_split(slice_of(all.data), '\n', &first, &rest));
	assert_true(slice_split(rest, '\n', &second, &rest));
	for (size_t len = 1; len < second.len; len++) {
		struct buf mended = {0};
		assert_int_equal(buf_append(&mended, slice_part(second, 0, len)), 0);
		if (mend_line(slice_part(second, 0, len), 2, &mended) < 0)
			fail_msg("at %zu: %.*s", len, (int)len, second.ptr);
		json_t *event = parse(buf_slice(&mended));
		assert_int_equal(sequence_of(event), 2);
		json_t *ours = json_object_get(json_object_get(event, "unmapped"), "eclusa");
		/* With the innermost object whole nothing but braces was missing. */
		bool torn = json_is_true(json_object_get(ours, "torn"));
		assert_int_equal(torn, len < second.len - 2);
		assert_int_equal(json_is_true(json_object_get(ours, "recovered")), torn);
		json_decref(event);
		buf_fini(&mended);
	}
	buf_fini(&all);
}

static void attaching_completes_the_torn_last_line_and_goes_on(void **state)
{
	(void)state;
	struct buf whole = written_lines(3);
	struct slice text = slice_of(whole.data);
	for (size_t cut = 1; cut < 2000; cut += cut < 260 ? 1 : 37) { /* everywhere in the seal */
		struct buf all = attach_after(slice_part(text, 0, text.len - cut));
		size_t lines = check_lines(all.data, 1);
		assert_true(lines == 3 || lines == 4);
		assert_non_null(strstr(all.data, "next.test"));
		buf_fini(&all);
	}
	buf_fini(&whole);
}

static void garbage_at_the_end_stays_apart_from_the_next_line(void **state)
{
	(void)state;
	static const char *const garbage[] = {"x", "{\"a\" \"b\"", "{}}", "\n\n", "{\"a\":\x01"};
	for (size_t i = 0; i < array_size(garbage); i++) {
		struct buf all = attach_after(slice_of(garbage[i]));
		const char *next = strstr(all.data, "{\"class_uid\":4002");
		assert_non_null(next);
		assert_true(next == all.data || next[-1] == '\n');
		assert_int_equal(check_lines(next, 1), 1);
		buf_fini(&all);
	}
}

static void a_full_disk_leaves_no_half_line(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	rig_open(&rig);
	assert_int_equal(append_to(rig.segment, "a.test"), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* a size limit cuts a write short as a full disk does */
		struct rlimit limit = {.rlim_cur = 3000, .rlim_max = 3000};
		struct stat st;
		(void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(2);
		int r = 0;
		for (int i = 0; i < 10 && r == 0; i++)
			r = append_to(rig.segment, "b.test");
		_exit(r < 0 && fstat(rig.segment_fd, &st) == 0 && st.st_size <= 3000 ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(append_to(rig.segment, "c.test"), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_true(check_lines(all.data, 1) >= 2);
	assert_null(strstr(all.data, "\"torn\""));
	buf_fini(&all);
	buf_fini(&line);
	rig_close(&rig);
}

static void recovery_completes_dead_runs_and_leaves_living_ones(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	struct failure why = {0};
	rig_open(&rig);
	assert_int_equal(audit_ring_finish(rig.ring, -1, packed_of(&line, "done.test", NULL)), 0);
	assert_true(audit_ring_open(rig.ring, packed_of(&line, "open.test", NULL)) >= 0);
	assert_int_equal(write(rig.segment_fd, "{\"class_uid\":4002,\"act", 22), 22);
	assert_int_equal(
		audit_folder_recover(rig.folder_fd, &why), 0); /* alive: this process holds it */
	rig_drop(&rig);
	assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 1);
	assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_int_equal(check_lines(all.data, 1), 3);
	assert_non_null(strstr(all.data, "done.test"));
	assert_non_null(strstr(all.data, "open.test"));
	assert_int_equal(count_of(all.data, "\"torn\":true"), 1);
	buf_fini(&all);
	assert_int_equal(faccessat(rig.folder_fd, "open/run.ring", F_OK, 0), -1);
	buf_fini(&line);
	rig_close(&rig);
}

static void recovery_completes_a_run_without_a_ring(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct failure why = {0};
	rig_open(&rig);
	assert_int_equal(write(rig.segment_fd, "{\"class_uid\":1007,", 18), 18);
	assert_int_equal(unlinkat(rig.folder_fd, "open/run.ring", 0), 0);
	rig_drop(&rig);
	assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 1);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_int_equal(check_lines(all.data, 1), 1);
	buf_fini(&all);
	rig_close(&rig);
}

static void recovery_leaves_no_file_of_a_run_that_wrote_nothing(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct failure why = {0};
	rig_open(&rig);
	assert_int_equal(unlinkat(rig.folder_fd, "open/run.ring", 0), 0);
	rig_drop(&rig);
	assert_int_equal(faccessat(rig.folder_fd, rig.name, F_OK, 0), 0);
	assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 0);
	assert_int_equal(faccessat(rig.folder_fd, rig.name, F_OK, 0), -1);
	rig_close(&rig);
}

/** What a launcher writes of a run: a start, a request whose words claim an end, maybe an end. */
static void put_run(struct audit_rig *rig, bool starts, bool ends)
{
	struct buf line = {0};
	struct audit_event start = {
		.class = AUDIT_PROCESS, .reason = REASON_SANDBOX_START, .sandbox_id = "run"};
	struct audit_event end = start;
	end.reason = REASON_SANDBOX_EXIT;
	if (starts)
		assert_int_equal(audit_segment_append_event(rig->segment, &start), 0);
	if (ends)
		assert_int_equal(audit_segment_append_event(rig->segment, &end), 0);
	for (int i = 0; i < 200; i++) /* more than is looked at at a time */
		assert_int_equal(append_to(rig->segment, "\"status_code\":\"sandbox.exit\""), 0);
	buf_fini(&line);
}

static void recovery_ends_a_run_that_started_and_has_no_end(void **state)
{
	(void)state;
	static const struct {
		bool starts, ends;
		int completed;
	} table[] = {{true, false, 1}, {true, true, 0}, {false, false, 0}};
	for (size_t i = 0; i < array_size(table); i++) {
		struct audit_rig rig;
		struct failure why = {0};
		rig_open(&rig);
		put_run(&rig, table[i].starts, table[i].ends);
		assert_int_equal(unlinkat(rig.folder_fd, "open/run.ring", 0), 0);
		assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 0); /* alive */
		rig_drop(&rig);
		assert_int_equal(audit_folder_recover(rig.folder_fd, &why), table[i].completed);
		assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 0);
		struct buf all = read_file(rig.folder_fd, rig.name);
		size_t unknown = (size_t)table[i].completed;
		(void)check_lines(all.data, 1);
		assert_int_equal(count_of(all.data, "\"verdict\":\"unknown\""), unknown);
		assert_int_equal(count_of(all.data, "\"event_code\":\"audit.recovered\""), unknown);
		assert_int_equal(count_of(all.data, "\"container\":{\"uid\":\"run\""),
			(size_t)table[i].starts + table[i].ends + unknown);
		buf_fini(&all);
		rig_close(&rig);
	}
}

static void a_ring_without_its_segment_gets_a_new_one(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	struct failure why = {0};
	rig_open(&rig);
	assert_true(audit_ring_open(rig.ring, packed_of(&line, "open.test", NULL)) >= 0);
	audit_segment_close(rig.folder_fd, rig.name);
	assert_int_equal(unlinkat(rig.folder_fd, rig.name, 0), 0);
	rig_drop(&rig);
	assert_int_equal(audit_folder_recover(rig.folder_fd, &why), 1);
	DIR *dir = opendir(rig.path);
	struct dirent *entry;
	size_t found = 0;
	while ((entry = readdir(dir)) != NULL) {
		if (!slice_ends(slice_of(entry->d_name), SLICE("-run.jsonl")))
			continue;
		struct buf all = read_file(rig.folder_fd, entry->d_name);
		found += count_of(all.data, "open.test") > 0;
		buf_fini(&all);
	}
	(void)closedir(dir);
	assert_int_equal(found, 1);
	buf_fini(&line);
	rig_close(&rig);
}

static void a_ring_is_completed_once_nobody_holds_it(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct buf line = {0};
	int hold[2];
	rig_open(&rig);
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* a worker that lives a little longer than its ring's owner */
		char byte;
		fd_close(&hold[1]);
		(void)!read(hold[0], &byte, 1);
		_exit(audit_ring_finish(rig.ring, -1, packed_of(&line, "late.test", NULL)) < 0);
	}
	audit_ring_free(ptr_take(rig.ring));
	fd_close(&rig.ring_fd);
	fd_close(&hold[1]);
	assert_int_equal(audit_ring_complete(rig.folder_fd, "run", rig.segment), 1);
	struct buf all = read_file(rig.folder_fd, rig.name);
	assert_non_null(strstr(all.data, "late.test"));
	assert_int_equal(audit_ring_complete(rig.folder_fd, "run", rig.segment), 0);
	buf_fini(&all);
	buf_fini(&line);
	fd_close(&hold[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	rig_close(&rig);
}

static void folders_that_others_can_write_are_refused(void **state)
{
	(void)state;
	struct failure why = {0};
	char path[] = "/tmp/eclusa-audit-XXXXXX", inner[64];
	assert_non_null(mkdtemp(path));
	(void)snprintf(inner, sizeof(inner), "%s/a/b", path);
	auto_fd fd = audit_folder_open(inner, &why);
	assert_true(fd >= 0);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(chmod(inner, 0777), 0);
	assert_int_equal(audit_folder_open(inner, &why), -EPERM);
	assert_non_null(strstr(why.text, "chmod"));
	assert_int_equal(rmdir(inner), 0);
	(void)snprintf(inner, sizeof(inner), "%s/a", path);
	assert_int_equal(rmdir(inner), 0);
	assert_int_equal(rmdir(path), 0);
}

static void the_default_folder_follows_the_environment(void **state)
{
	(void)state;
	struct failure why = {0};
	char path[256];
	assert_int_equal(audit_folder_default(true, path, sizeof(path), &why), 0);
	assert_string_equal(path, "/var/log/eclusa");
	assert_int_equal(setenv("XDG_STATE_HOME", "/x", 1), 0);
	assert_int_equal(audit_folder_default(false, path, sizeof(path), &why), 0);
	assert_string_equal(path, "/x/eclusa/audit");
	assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
	assert_int_equal(setenv("HOME", "/h", 1), 0);
	assert_int_equal(audit_folder_default(false, path, sizeof(path), &why), 0);
	assert_string_equal(path, "/h/.local/state/eclusa/audit");
	assert_int_equal(unsetenv("HOME"), 0);
	assert_int_equal(audit_folder_default(false, path, sizeof(path), &why), -ENOENT);
	assert_int_equal(audit_folder_default(true, path, 5, NULL), -ENAMETOOLONG);
}

/* --- kill -9 --- */

/** What the producer promises: lines that it decided and finished, told before the kill. */
struct promise {
	_Atomic unsigned decided, finished;
};

#define UID_PREFIX "00000000-0000-7000-8000-"

static void uid_of(unsigned number, char to[static UUID_TEXT_BYTES])
{
	(void)snprintf(to, UUID_TEXT_BYTES, UID_PREFIX "%012x", number + 1);
}

/** Which of them stand in the log. Line by line: there may be some thousand, and each is looked at once. */
static void find_uids(struct slice log, bool ret_seen[static KILL_LINES])
{
	const char *const end = log.ptr + log.len;
	for (const char *line = log.ptr, *next; line < end; line = next) {
		next = memchr(line, '\n', (size_t)(end - line));
		next = next == NULL ? end : next + 1;
		const char *uid =
			memmem(line, (size_t)(next - line), UID_PREFIX, sizeof(UID_PREFIX) - 1);
		uint64_t number = 0;
		if (uid == NULL || next - uid < UUID_TEXT_BYTES)
			continue;
		for (size_t i = sizeof(UID_PREFIX) - 1; i < UUID_TEXT_BYTES - 1; i++)
			number = number * 16 +
				(uint64_t)(uid[i] <= '9' ? uid[i] - '0' : uid[i] - 'a' + 10);
		if (number > 0 && number <= KILL_LINES)
			ret_seen[number - 1] = true;
	}
}

static _Noreturn void produce(struct audit_rig *rig, struct promise *promise)
{
	struct buf line = {0};
	for (unsigned i = 0; i < KILL_LINES; i++) {
		char uid[UUID_TEXT_BYTES];
		uid_of(i, uid);
		struct slice packed = packed_of(&line, "kill.test", uid);
		int slot;
		while (!audit_ring_has_room(rig->ring, 0) ||
			(slot = audit_ring_open(rig->ring, packed)) < 0)
			(void)sched_yield();
		promise->decided = i + 1; /* from here on a byte may go upstream */
		if (audit_ring_finish(rig->ring, slot, packed) < 0)
			_exit(1);
		promise->finished = i + 1;
	}
	_exit(0);
}

static _Noreturn void consume(struct audit_rig *rig)
{
	for (;;) {
		if (audit_segment_drain(rig->segment, rig->ring, false) < 0)
			_exit(1);
		(void)sched_yield();
	}
}

static void kill_after(pid_t pid, struct promise *promise, unsigned lines)
{
	while (promise->decided < lines)
		(void)sched_yield();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/** Kill both at seeded points, in either order; after recovery every decided line is there. */
static void kill_round(unsigned seed)
{
	struct audit_rig rig;
	struct failure why = {0};
	struct promise *promise = mmap(
		NULL, sizeof(*promise), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(promise != MAP_FAILED);
	rig_open(&rig);
	pid_t consumer = fork();
	if (consumer == 0)
		consume(&rig);
	pid_t producer = fork();
	if (producer == 0)
		produce(&rig, promise);
	assert_true(consumer > 0 && producer > 0);
	rig_drop(&rig);
	unsigned first = 1 + seed * 7919 % 300, second = first + seed * 104729 % 60;
	kill_after(seed % 2 == 0 ? consumer : producer, promise, first);
	if (seed % 2 == 0) {
		kill_after(producer, promise, second);
	} else {
		assert_int_equal(kill(consumer, SIGKILL), 0);
		assert_int_equal(waitpid(consumer, NULL, 0), consumer);
	}
	assert_true(audit_folder_recover(rig.folder_fd, &why) >= 0);
	struct buf all = read_file(rig.folder_fd, rig.name);
	(void)check_lines(all.data, 1);
	bool seen[KILL_LINES] = {false};
	find_uids(buf_slice(&all), seen);
	for (unsigned i = 0; i < promise->decided; i++)
		if (!seen[i])
			fail_msg("seed %u: line %u of %u is lost", seed, i, promise->decided);
	struct audit_summary sum;
	auto_fd fd = openat(rig.folder_fd, rig.name, O_RDONLY | O_CLOEXEC);
	assert_int_equal(audit_summary_read(fd, "sb-1", &sum), 0);
	assert_true(sum.allowed == promise->decided || sum.allowed == promise->decided + 1);
	audit_summary_fini(&sum);
	buf_fini(&all);
	assert_int_equal(munmap(promise, sizeof(*promise)), 0);
	rig_close(&rig);
}

static void a_kill_at_any_moment_loses_no_line(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= KILL_ROUNDS; seed++)
		kill_round(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_get_sequence_time_device_and_boot),
		cmocka_unit_test(two_writers_share_one_sequence),
		cmocka_unit_test(a_full_segment_takes_only_the_end_of_its_run),
		cmocka_unit_test(a_ring_is_drained_and_open_decisions_are_recovered),
		cmocka_unit_test(nonsense_in_the_ring_becomes_a_recorded_loss),
		cmocka_unit_test(a_line_torn_anywhere_is_completed),
		cmocka_unit_test(attaching_completes_the_torn_last_line_and_goes_on),
		cmocka_unit_test(garbage_at_the_end_stays_apart_from_the_next_line),
		cmocka_unit_test(a_full_disk_leaves_no_half_line),
		cmocka_unit_test(recovery_completes_dead_runs_and_leaves_living_ones),
		cmocka_unit_test(recovery_completes_a_run_without_a_ring),
		cmocka_unit_test(recovery_leaves_no_file_of_a_run_that_wrote_nothing),
		cmocka_unit_test(recovery_ends_a_run_that_started_and_has_no_end),
		cmocka_unit_test(a_ring_without_its_segment_gets_a_new_one),
		cmocka_unit_test(a_ring_is_completed_once_nobody_holds_it),
		cmocka_unit_test(folders_that_others_can_write_are_refused),
		cmocka_unit_test(the_default_folder_follows_the_environment),
		cmocka_unit_test(a_kill_at_any_moment_loses_no_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
