#include "tests/unit/audit_setup.h"

#include "common/clock.h"
#include "proxy/spool.h"

#include <poll.h>

#define WAIT_MS 10000

static void the_disk_answers_aside(void **state)
{
	(void)state;
	struct audit_rig rig;
	static struct disk disk; /* its thread stays */
	int result = 1;
	rig_open(&rig);
	disk_open(&disk);
	assert_int_equal(append_to(rig.segment, "a.test"), 0);
	int begun = disk_begin(&disk, rig.segment_fd);
	assert_true(begun >= 0);
	if (begun == 0) { /* a kernel that can */
		struct pollfd wait = {.fd = disk.event_fd, .events = POLLIN};
		assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
		assert_true(disk_ended(&disk, &result));
		assert_int_equal(result, 0);
	}
	assert_false(disk.pending);
	assert_false(disk_ended(&disk, &result));
	rig_close(&rig);
}

static void an_end_waits_for_the_answer(void **state)
{
	(void)state;
	struct audit_rig rig;
	static struct disk disk;
	rig_open(&rig);
	disk_open(&disk);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(append_to(rig.segment, "a.test"), 0);
		assert_true(disk_begin(&disk, rig.segment_fd) >= 0);
		assert_int_equal(disk_wait(&disk), 0);
		assert_false(disk.pending);
	}
	rig_close(&rig);
}

static void without_it_the_disk_is_waited_for(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct disk disk = {.event_fd = -1};
	int pipe_fds[2];
	rig_open(&rig);
	assert_int_equal(disk_begin(&disk, rig.segment_fd), 1);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(disk_begin(&disk, pipe_fds[0]), -EINVAL); /* no file: an error is told */
	fd_close(&pipe_fds[0]);
	fd_close(&pipe_fds[1]);
	rig_close(&rig);
}

/** The recorder goes on writing, for a while, and then says that nothing may pass. */
static void a_disk_that_does_not_answer_denies_in_the_end(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct disk disk = {.event_fd = -1, .pending = true};
	rig_open(&rig);
	struct spool s = {.segment = rig.segment,
		.segment_fd = rig.segment_fd,
		.disk = &disk,
		.attest_fd = -1,
		.asked_ns = clock_monotonic_ns()};
	spool_wrote(&s);
	assert_false(spool_sync(&s)); /* one question at a time */
	assert_int_equal(spool_turn(&s), 0);
	s.asked_ns -= SPOOL_LATE_MS * NS_PER_MS;
	assert_int_equal(spool_turn(&s), -ETIMEDOUT);
	disk.pending = false;
	assert_int_equal(spool_turn(&s), 0);
	assert_true(spool_sync(&s));
	assert_true(spool_synced(&s));
	assert_false(spool_synced(&s));
	assert_int_equal(s.error, 0);
	rig_close(&rig);
}

/** What failed is asked for again, and denies until it works. */
static void an_error_of_the_disk_lasts_until_it_answers_well(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct disk disk = {.event_fd = -1};
	int pipe_fds[2];
	rig_open(&rig);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	struct spool s = {
		.segment = rig.segment, .segment_fd = pipe_fds[0], .disk = &disk, .attest_fd = -1};
	spool_wrote(&s);
	assert_true(spool_sync(&s));
	assert_true(spool_synced(&s));
	assert_int_equal(spool_turn(&s), -EINVAL);
	s.segment_fd = rig.segment_fd;
	assert_true(spool_sync(&s));
	assert_true(spool_synced(&s));
	assert_int_equal(spool_turn(&s), 0);
	fd_close(&pipe_fds[0]);
	fd_close(&pipe_fds[1]);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_disk_answers_aside),
		cmocka_unit_test(an_end_waits_for_the_answer),
		cmocka_unit_test(without_it_the_disk_is_waited_for),
		cmocka_unit_test(a_disk_that_does_not_answer_denies_in_the_end),
		cmocka_unit_test(an_error_of_the_disk_lasts_until_it_answers_well),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
