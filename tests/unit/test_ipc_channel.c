/* Channels: whole messages, descriptors that never leak, ends that are noticed. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/channel.h"
#include "ipc/message.h"

#include <fcntl.h>
#include <string.h>

static int open_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void a_message_arrives_whole_with_its_descriptors(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	int sent[2] = {ends[0], ends[1]};
	assert_int_equal(channel_send(ends[0], "hello", 5, sent, 2), 0);
	char bytes[16];
	int fds[4];
	size_t count;
	assert_int_equal(channel_receive(ends[1], bytes, sizeof(bytes), fds, 4, &count), 5);
	assert_int_equal(count, 2);
	assert_memory_equal(bytes, "hello", 5);
	for (size_t i = 0; i < count; i++) {
		assert_true((fcntl(fds[i], F_GETFD) & FD_CLOEXEC) != 0);
		fd_close(&fds[i]);
	}
	fd_close(&ends[0]);
	assert_int_equal(channel_receive(ends[1], bytes, sizeof(bytes), NULL, 0, NULL), 0);
	fd_close(&ends[1]);
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	int before = open_descriptors();
	assert_int_equal(channel_send(ends[0], "x", 1, ends, 2), 0);
	char byte;
	int fds[1];
	size_t count = 0;
	assert_int_equal(channel_receive(ends[1], &byte, 1, fds, 1, &count), -EPROTO);
	assert_int_equal(open_descriptors(), before);
	fd_close(&ends[0]);
	fd_close(&ends[1]);
}

static void a_message_too_long_is_refused_not_cut(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	assert_int_equal(channel_send(ends[0], "0123456789", 10, NULL, 0), 0);
	char bytes[4];
	assert_int_equal(channel_receive(ends[1], bytes, sizeof(bytes), NULL, 0, NULL), -EMSGSIZE);
	fd_close(&ends[0]);
	fd_close(&ends[1]);
}

static void waiting_ends_at_the_deadline(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	char byte;
	assert_int_equal(channel_receive_until(ends[1], clock_monotonic_ns() + NS_PER_MS, &byte, 1,
				 NULL, 0, NULL),
		-ETIMEDOUT);
	fd_close(&ends[0]);
	fd_close(&ends[1]);
}

static void a_failure_carries_its_line(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	message_send_failed(ends[0], -EPERM, "nft: not permitted");
	struct message_failed failed;
	assert_int_equal(
		channel_receive(ends[1], &failed, sizeof(failed), NULL, 0, NULL), sizeof(failed));
	assert_int_equal(failed.header.kind, MESSAGE_FAILED);
	assert_int_equal(failed.code, -EPERM);
	assert_string_equal(failed.text, "nft: not permitted");
	fd_close(&ends[0]);
	fd_close(&ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_arrives_whole_with_its_descriptors),
		cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
		cmocka_unit_test(a_message_too_long_is_refused_not_cut),
		cmocka_unit_test(waiting_ends_at_the_deadline),
		cmocka_unit_test(a_failure_carries_its_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
