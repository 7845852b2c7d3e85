/* See probe.h: the list of classes, each run in a process of its own, and what it saw as one line of JSON. */
#include "tests/escape/probe.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CLASS_SECONDS 10
#define WAIT_MS       2000

static const struct probe *const LISTS[] = {
	PROBES_FILES, PROBES_KERNEL, PROBES_PROCESS, PROBES_CHANNELS};

__attribute__((format(printf, 2, 0))) static void add(
	struct attempt *a, const char *format, va_list arguments)
{
	size_t used = strlen(a->saw);
	if (used > 0 && used + 3 < sizeof(a->saw)) {
		memcpy(a->saw + used, "; ", 3);
		used += 2;
	}
	(void)vsnprintf(a->saw + used, sizeof(a->saw) - used, format, arguments); /* cut is fine */
}

void attempt_reached(struct attempt *a, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	a->reached = true;
	add(a, format, arguments);
	va_end(arguments);
}

void attempt_refused(struct attempt *a, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	add(a, format, arguments);
	va_end(arguments);
}

void attempt_call(struct attempt *a, const char *what, long result)
{
	if (result < 0)
		attempt_refused(a, "%s: %s", what, strerrorname_np(errno));
	else
		attempt_reached(a, "%s: worked", what);
}

void attempt_open(struct attempt *a, const char *path, int flags)
{
	auto_fd fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd >= 0)
		attempt_reached(a, "%s: opened", path);
	else if (errno == ETXTBSY)
		attempt_reached(a, "%s: writable, and busy now", path);
	else
		attempt_refused(a, "%s: %s", path, strerrorname_np(errno));
}

bool attempt_says_token(const struct attempt *a, int fd)
{
	char text[64] = {0};
	struct pollfd ready = {fd, POLLIN, 0};
	if (fd < 0 || poll(&ready, 1, WAIT_MS) <= 0)
		return false;
	ssize_t got = read(fd, text, sizeof(text) - 1);
	return got > 0 && strncmp(text, a->token, strlen(a->token)) == 0;
}

bool attempt_is_secret(const struct attempt *a, const char *path)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return attempt_says_token(a, fd);
}

bool attempt_is_own(pid_t pid)
{
	struct stat own, other;
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
		own.st_ino == other.st_ino && own.st_dev == other.st_dev;
}

void attempt_others(struct attempt *a, bool (*each)(struct attempt *a, pid_t pid))
{
	DIR *folder = opendir("/proc");
	const struct dirent *entry;
	bool more = folder != NULL;
	if (!more)
		attempt_refused(a, "no /proc");
	while (more && (entry = readdir(folder)) != NULL) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && !attempt_is_own(pid))
			more = each(a, pid);
	}
	if (folder != NULL)
		(void)closedir(folder);
}

static void print_text(const char *text)
{
	(void)putchar('"');
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			(void)putchar('\\');
		(void)putchar((unsigned char)*text < ' ' ? '?' : *text);
	}
	(void)putchar('"');
}

static void run(const struct probe *probe, const struct attempt *plan)
{
	int status = 0;
	struct attempt *a =
		mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (a == MAP_FAILED)
		return; /* no line: the driver sees a class without an answer */
	*a = *plan;
	(void)fflush(stdout); /* or the child would print it again */
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(CLASS_SECONDS);
		probe->run(a);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		attempt_refused(a, "no process: %s", strerrorname_np(errno));
	else if (WIFSIGNALED(status))
		attempt_refused(a, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
	(void)printf("{\"class\": ");
	print_text(probe->name);
	(void)printf(", \"reached\": %s, \"saw\": ", a->reached ? "true" : "false");
	print_text(a->saw);
	(void)printf("}\n");
	(void)munmap(a, sizeof(*a));
}

static bool is_asked(const char *name, char **names)
{
	for (; *names != NULL; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "linger") == 0)
		return pause(); /* the survivor; its alarm came along */
	if (argc < 4) {
		(void)fprintf(stderr, "usage: probe FOLDER TOKEN PORT [CLASS...]\n");
		return 2;
	}
	const struct attempt plan = {
		.folder = argv[1], .token = argv[2], .port = (int)strtol(argv[3], NULL, 10)};
	for (size_t i = 0; i < array_size(LISTS); i++)
		for (const struct probe *probe = LISTS[i]; probe->name != NULL; probe++)
			if (is_asked(probe->name, argv + 4))
				run(probe, &plan);
	return fflush(stdout) == 0 ? 0 : 2;
}
