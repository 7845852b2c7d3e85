/* See fault.h: words, and wrappers around verbs. */
#include "tests/faults/fault.h"

#include "common/cleanup.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define SEVERAL 4

static const struct fault_verb *const LISTS[] = {
	FAULTS_MEMORY, FAULTS_ENDS, FAULTS_TIME, FAULTS_FILES};

static int run(char **words);

int fault_write(int fd, const void *bytes, size_t len)
{
	for (const char *from = bytes; len > 0;) {
		ssize_t done = write(fd, from, len);
		if (done < 0)
			return -1;
		from += done;
		len -= (size_t)done;
	}
	return 0;
}

/* As a shell tells it. */
static int wait_for(pid_t pid)
{
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return FAULT_FAILED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int in_child(char **words)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(run(words));
	return wait_for(pid);
}

/* Whatever becomes of it, the parent is content. */
static int in_ignored_child(char **words)
{
	(void)in_child(words);
	return 0;
}

static int in_children(char **words)
{
	pid_t pids[SEVERAL];
	int worst = 0;
	for (int i = 0; i < SEVERAL; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(run(words));
	}
	for (int i = 0; i < SEVERAL; i++) {
		int r = wait_for(pids[i]);
		worst = r > worst ? r : worst;
	}
	return worst;
}

static void *thread(void *words)
{
	exit(run(words));
}

static int in_threads(char **words)
{
	pthread_t threads[SEVERAL];
	for (int i = 0; i < SEVERAL; i++)
		if (pthread_create(&threads[i], NULL, thread, words) != 0)
			return FAULT_FAILED;
	for (int i = 0; i < SEVERAL; i++)
		(void)pthread_join(threads[i], NULL);
	return 0;
}

/* The parent is gone long before. */
static int as_orphan(char **words)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(run(words));
	return pid < 0 ? FAULT_FAILED : 0;
}

/* In a session of its own, its parent gone; the first process waits until its own end. */
static int as_daemon(char **words)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (setsid() < 0)
			_exit(FAULT_FAILED);
		pid = fork();
		_exit(pid == 0 ? run(words) : 0);
	}
	if (wait_for(pid) != 0)
		return FAULT_FAILED;
	for (;;)
		(void)pause();
}

static int without_signals(char **words)
{
	for (int i = 1; i < 32; i++)
		(void)signal(i, SIG_IGN); /* two can't be */
	return run(words);
}

/* As another program, of the same file. */
static int by_exec(char **words)
{
	words[-1] = (char[]){"fault"};
	(void)execv("/proc/self/exe", words - 1);
	return FAULT_FAILED;
}

static int with_closed_streams(char **words)
{
	for (int fd = 0; fd <= 2; fd++)
		(void)close(fd);
	return run(words);
}

static int stopped_child(char **words)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)raise(SIGSTOP);
		_exit(0);
	}
	(void)waitpid(pid, NULL, WUNTRACED);
	return run(words);
}

static const struct {
	const char *name;
	int (*run)(char **words);
} WRAPPERS[] = {{"child", in_child}, {"ignored-child", in_ignored_child}, {"children", in_children},
	{"threads", in_threads}, {"orphan", as_orphan}, {"daemon", as_daemon},
	{"deaf", without_signals}, {"exec", by_exec}, {"streamless", with_closed_streams},
	{"beside-stopped", stopped_child}};

static int run(char **words)
{
	if (words[0] == NULL)
		return 0;
	for (size_t i = 0; i < array_size(WRAPPERS); i++)
		if (strcmp(WRAPPERS[i].name, words[0]) == 0)
			return WRAPPERS[i].run(words + 1);
	for (size_t i = 0; i < array_size(LISTS); i++)
		for (const struct fault_verb *verb = LISTS[i]; verb->name != NULL; verb++)
			if (strcmp(verb->name, words[0]) == 0)
				return verb->run(
					words[1] == NULL ? 0 : strtoull(words[1], NULL, 10));
	(void)dprintf(STDERR_FILENO, "fault: no such verb: %s\n", words[0]);
	return 99;
}

int main(int argc, char **argv)
{
	(void)argc;
	return run(argv + 1);
}
