/* See notify.h. */
#include "sandbox-launcher/notify.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "sandbox-launcher/machine.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>

#define PAGE_BYTES 4096 /* or a multiple: memory is read up to a border at which it may end */

void notify_init(struct notify *n, uint64_t memory_bytes, struct violations *seen)
{
	*n = (struct notify){.listener = -1, .memory_bytes = memory_bytes, .seen = seen};
}

void notify_fini(struct notify *n)
{
	fd_close(&n->listener); /* whoever still waits for an answer gets ENOSYS */
}

void notify_listen(struct notify *n, int listener)
{
	fd_close(&n->listener);
	n->listener = listener;
}

void notify_poll(const struct notify *n, struct pollfd *ret)
{
	*ret = (struct pollfd){n->held != 0 ? -1 : n->listener, POLLIN, 0};
}

int notify_wait_ms(const struct notify *n, uint64_t now_ns)
{
	if (n->held == 0)
		return -1;
	return n->due_ns <= now_ns ? 0 : (int)((n->due_ns - now_ns) / NS_PER_MS) + 1;
}

/* An errno, or 0 for what was done here. That the caller is gone by now is no failure. */
static void answer_with(const struct notify *n, uint64_t id, int error)
{
	struct seccomp_notif_resp response = {.id = id, .error = -error};
	(void)!ioctl(n->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

/* Whether the caller still waits: else its number may be another process's by now, and what was read from there, too. */
static bool still_waits(const struct notify *n, uint64_t id)
{
	return ioctl(n->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static char *read_text(pid_t pid, uint64_t address)
{
	char text[VIOLATION_TEXT_BYTES];
	size_t first = PAGE_BYTES - (size_t)(address % PAGE_BYTES);
	if (first > sizeof(text))
		first = sizeof(text);
	const struct iovec local = {text, sizeof(text)};
	const struct iovec remote[] = {
		{(void *)(uintptr_t)address, first},
		{(void *)(uintptr_t)(address + first), sizeof(text) - first},
	};
	ssize_t got = process_vm_readv(pid, &local, 1, remote, 2, 0);
	return got <= 0 ? NULL : strndup(text, (size_t)got);
}

static char *read_executable(pid_t pid)
{
	char link[32], path[PATH_MAX];
	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	ssize_t len = readlink(link, path, sizeof(path));
	return len <= 0 ? NULL : strndup(path, (size_t)len);
}

/* @return whether @text is of the caller; else it is gone. */
static bool keep(const struct notify *n, uint64_t id, char **text)
{
	if (still_waits(n, id))
		return true;
	free(ptr_take(*text));
	return false;
}

static void describe(const struct notify *n, const struct seccomp_notif *call, struct violation *v)
{
	pid_t pid = (pid_t)call->pid;
	struct slice name;
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++)
		v->arguments[i] = call->data.args[i];
	v->executable = read_executable(pid);
	if (!keep(n, call->id, &v->executable))
		return;
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++) {
		enum violation_argument kind = violation_argument(v->row, i, &name);
		if ((kind != VIOLATION_TEXT && kind != VIOLATION_PATH) || v->arguments[i] == 0)
			continue;
		v->texts[i] = read_text(pid, v->arguments[i]);
		if (!keep(n, call->id, &v->texts[i]))
			return;
	}
}

/*
 * sysinfo(2) about the sandbox. The memory is opened, and only then the caller is looked for: so it is the caller's, whoever has its
 * number later. Where in it is the caller's own business. An ordinary user's launcher can't open that of a process which forbade it
 * (PR_SET_DUMPABLE). @return 0 or errno.
 */
static int answer_sysinfo(const struct notify *n, const struct seccomp_notif *call)
{
	char path[32];
	struct sysinfo info;
	(void)snprintf(path, sizeof(path), "/proc/%u/mem", call->pid);
	auto_fd memory = open(path, O_WRONLY | O_CLOEXEC);
	if (memory < 0 || !still_waits(n, call->id) || machine_sysinfo(n->memory_bytes, &info) < 0)
		return EPERM;
	ssize_t put = pwrite(memory, &info, sizeof(info), (off_t)call->data.args[0]);
	return put == (ssize_t)sizeof(info) ? 0 : EFAULT;
}

/* At once, or later where there were too many. */
static void answer(struct notify *n, const struct seccomp_notif *call, int error, uint64_t wait_ns,
	uint64_t now_ns)
{
	if (wait_ns == 0) {
		answer_with(n, call->id, error);
		return;
	}
	n->held = call->id;
	n->held_error = error;
	n->due_ns = now_ns + wait_ns;
}

static void take_one(struct notify *n, uint64_t now_ns)
{
	struct seccomp_notif call = {0}; /* it must be */
	if (ioctl(n->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
		return; /* the caller was killed meanwhile */
	uint64_t arguments[FILTER_ARGUMENTS_MAX];
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++)
		arguments[i] = call.data.args[i];
	const struct filter_row *row = filter_judge((uint32_t)call.data.nr, arguments);
	if (row != NULL && row->verdict == FILTER_ANSWER) {
		bool prompt = ++n->answered <= NOTIFY_ANSWERS_PROMPT;
		answer(n, &call, answer_sysinfo(n, &call), prompt ? 0 : NS_PER_MS, now_ns);
		return;
	}
	if (row == NULL || row->verdict != FILTER_TELL) { /* the filter knows better: no */
		answer_with(n, call.id, ENOSYS);
		return;
	}
	struct violation v = {.row = row};
	describe(n, &call, &v);
	violations_add(n->seen, &v);
	bool prompt = n->seen->total <= NOTIFY_PROMPT;
	answer(n, &call, row->error, prompt ? 0 : NOTIFY_PAUSE_MS * NS_PER_MS, now_ns);
}

void notify_serve(struct notify *n, short revents, uint64_t now_ns)
{
	if (n->held != 0 && now_ns >= n->due_ns) {
		answer_with(n, n->held, n->held_error);
		n->held = 0;
	} else if ((revents & POLLIN) != 0) {
		take_one(n, now_ns);
	} else if (revents != 0) {
		fd_close(&n->listener);
	}
}
