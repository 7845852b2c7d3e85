/*
 * The control socket: a question is one message of one size, without descriptors; whatever else comes is a size or a count that the
 * channel refuses, and leaves nothing open. There is no parser behind it, so there is nothing to fuzz.
 */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/channel.h"
#include "ipc/control.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define OTHER_UID 61237

struct lab {
	char folder[64];
	int folder_fd, listener;
};

static int setup(void **state)
{
	static struct lab l;
	(void)snprintf(l.folder, sizeof(l.folder), "/tmp/eclusa-control-XXXXXX");
	assert_non_null(mkdtemp(l.folder));
	l.folder_fd = open(l.folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	l.listener = control_listen(l.folder_fd, NULL);
	assert_true(l.listener >= 0);
	*state = &l;
	return 0;
}

static int teardown(void **state)
{
	struct lab *l = *state;
	(void)unlinkat(l->folder_fd, CONTROL_NAME, 0);
	fd_close(&l->folder_fd);
	fd_close(&l->listener);
	return rmdir(l->folder);
}

static int connect_to(const struct lab *l)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" CONTROL_NAME, l->folder);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static int open_descriptors(void)
{
	int count = 0;
	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/** What the server has of a message: as it reads its clients. */
static int heard(const struct lab *l, const void *bytes, size_t len, size_t fd_count)
{
	struct control_request request;
	int fds[CHANNEL_FDS_MAX];
	auto_fd client = connect_to(l);
	auto_fd server = control_accept(l->listener);
	assert_true(server >= 0);
	assert_int_equal(
		channel_receive(server, &request, sizeof(request), NULL, 0, NULL), -EAGAIN);
	for (size_t i = 0; i < fd_count; i++)
		fds[i] = client;
	assert_int_equal(channel_send(client, bytes, len, fds, fd_count), 0);
	int before = open_descriptors();
	int r = channel_receive(server, &request, sizeof(request), NULL, 0, NULL);
	assert_int_equal(open_descriptors(), before);
	return r;
}

static void only_a_message_of_its_size_is_a_question(void **state)
{
	static const char bytes[CHANNEL_BYTES_MAX];
	const struct lab *l = *state;
	const int size = sizeof(struct control_request);
	assert_int_equal(heard(l, bytes, 1, 0), 1);
	assert_int_equal(heard(l, bytes, (size_t)size - 1, 0), size - 1);
	assert_int_equal(heard(l, bytes, (size_t)size, 0), size);
	assert_int_equal(heard(l, bytes, (size_t)size + 1, 0), -EMSGSIZE);
	assert_int_equal(heard(l, bytes, sizeof(bytes), 0), -EMSGSIZE);
	assert_int_equal(heard(l, bytes, (size_t)size, 1), -EPROTO);
	assert_int_equal(heard(l, bytes, (size_t)size, CHANNEL_FDS_MAX), -EPROTO);
}

static void who_leaves_without_a_word_is_heard_of(void **state)
{
	const struct lab *l = *state;
	struct control_request request;
	int client = connect_to(l);
	auto_fd server = control_accept(l->listener);
	fd_close(&client);
	assert_int_equal(channel_receive(server, &request, sizeof(request), NULL, 0, NULL), 0);
	assert_int_equal(control_accept(l->listener), -EAGAIN);
}

/** Connects in another user's name. @return its end, seen by this process as a status. */
static void ask_as_other(const struct lab *l)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/" CONTROL_NAME, l->folder);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char byte;
	if (fd < 0 || setresuid(OTHER_UID, OTHER_UID, OTHER_UID) < 0 ||
		connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		_exit(1);
	_exit(recv(fd, &byte, 1, 0) <= 0 ? 0 : 2);
}

static void another_user_is_turned_away_whatever_the_modes_say(void **state)
{
	const struct lab *l = *state;
	int status;
	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(l->folder, 0755), 0);
	assert_int_equal(fchmodat(l->folder_fd, CONTROL_NAME, 0777, 0), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		ask_as_other(l);
	struct pollfd wait = {.fd = l->listener, .events = POLLIN};
	assert_int_equal(poll(&wait, 1, 20000), 1);
	assert_int_equal(control_accept(l->listener), -EPERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_socket_that_a_dead_process_left_is_replaced(void **state)
{
	struct lab *l = *state;
	fd_close(&l->listener);
	l->listener = control_listen(l->folder_fd, NULL);
	assert_true(l->listener >= 0);
	int client = connect_to(l);
	auto_fd server = control_accept(l->listener);
	assert_true(server >= 0);
	fd_close(&client);
}

/** In the child: a server that answers nonsense of @len bytes. */
static void serve(const struct lab *l, size_t len)
{
	static const char bytes[sizeof(struct control_answer) + 1];
	struct pollfd wait = {.fd = l->listener, .events = POLLIN};
	if (poll(&wait, 1, 20000) != 1)
		_exit(1);
	int fd = control_accept(l->listener);
	if (fd < 0 || (len > 0 && channel_send(fd, bytes, len, NULL, 0) < 0))
		_exit(1);
	_exit(0);
}

static void a_server_that_answers_something_else_is_not_believed(void **state)
{
	const size_t lengths[] = {0, 1, sizeof(struct control_answer) - 1,
		sizeof(struct control_answer), sizeof(struct control_answer) + 1};
	const struct lab *l = *state;
	for (size_t i = 0; i < array_size(lengths); i++) {
		struct control_answer answer;
		struct failure why = {0};
		int status;
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			serve(l, lengths[i]);
		assert_true(control_ask(l->folder, CONTROL_RELOAD,
				    clock_monotonic_ns() + 20 * NS_PER_SEC, &answer, &why) < 0);
		assert_non_null(strstr(why.text, l->folder));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			only_a_message_of_its_size_is_a_question, setup, teardown),
		cmocka_unit_test_setup_teardown(
			who_leaves_without_a_word_is_heard_of, setup, teardown),
		cmocka_unit_test_setup_teardown(
			another_user_is_turned_away_whatever_the_modes_say, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_socket_that_a_dead_process_left_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_server_that_answers_something_else_is_not_believed, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
