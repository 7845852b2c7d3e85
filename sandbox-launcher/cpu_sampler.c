/*
 * See cpu_sampler.h. Not by the list of /proc: a process that made itself undumpable is not in it (hidepid), but has a clock.
 */
#include "sandbox-launcher/cpu_sampler.h"

#include "common/clock.h"
#include "common/slice.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MIN_NS (5 * NS_PER_MS)
#define PAUSE_MAX_NS (100 * NS_PER_MS)

#define STAT_CHILDREN_FIELD 16 /* proc_pid_stat(5): cutime, then cstime */

/* clock_getcpuclockid(3): the clock of a process, by the scheduler's count */
#define PROCESS_CLOCK(pid) ((clockid_t)(~(unsigned)(pid) << 3 | 2))

/* The last word of the first line. @return 0: it is no number. */
static pid_t last_word(int fd)
{
	char text[128];
	uint64_t number;
	ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
	if (got <= 0)
		return 0;
	struct slice line = {text, (size_t)got}, head, rest;
	if (slice_split(line, '\n', &head, &rest))
		line = head;
	while (slice_split(line, ' ', &head, &line))
		;
	return slice_decimal(line, INT32_MAX, true, &number) == 0 ? (pid_t)number : 0;
}

int cpu_sampler_init(struct cpu_sampler *s, size_t processes, int loadavg)
{
	*s = (struct cpu_sampler){.proc = -1, .cursor_file = loadavg, .capacity = processes};
	s->seen = calloc(processes, sizeof(*s->seen));
	if (s->seen == NULL)
		return -ENOMEM;
	s->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd max =
		s->proc < 0 ? -1 : openat(s->proc, "sys/kernel/pid_max", O_RDONLY | O_CLOEXEC);
	s->pid_max = last_word(max);
	if (s->cursor_file >= 0 && s->pid_max > 0)
		return 0;
	cpu_sampler_fini(s);
	return -EIO;
}

void cpu_sampler_fini(struct cpu_sampler *s)
{
	fd_close(&s->cursor_file);
	fd_close(&s->proc);
	free(s->seen);
	s->seen = NULL;
	s->count = s->capacity = 0;
}

static bool read_clock(pid_t pid, uint64_t *ret_ns)
{
	struct timespec t;
	if (clock_gettime(PROCESS_CLOCK(pid), &t) <
		0) /* no process, or a thread that does not lead one */
		return false;
	*ret_ns = (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
	return true;
}

static void look_at_known(struct cpu_sampler *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct cpu_seen one = s->seen[i];
		uint64_t ns = 0;
		bool lives = read_clock(one.pid, &ns);
		if (!lives ||
			ns < one.ns) { /* gone; in the second case its number is another's already */
			s->gone_ns += one.ns;
			s->moving = true;
		}
		one.ns = ns;
		if (lives)
			s->seen[kept++] = one;
	}
	s->count = kept;
}

static void look_for_new(struct cpu_sampler *s, pid_t from, pid_t to)
{
	size_t known = s->count;
	for (pid_t pid = from; pid <= to && s->count < s->capacity; pid++) {
		uint64_t ns;
		bool is_new = read_clock(pid, &ns);
		for (size_t i = 0; i < known && is_new; i++)
			is_new = s->seen[i].pid != pid;
		if (is_new)
			s->seen[s->count++] = (struct cpu_seen){pid, ns};
	}
}

/* Numbers go up, and start again at the bottom. */
static void look_for_all_new(struct cpu_sampler *s)
{
	pid_t last = last_word(s->cursor_file);
	if (last == 0 || last == s->cursor)
		return;
	s->moving = true;
	if (last < s->cursor) {
		look_for_new(s, s->cursor + 1, s->pid_max);
		s->cursor = 0;
	}
	if (last - s->cursor > CPU_SAMPLER_NEW_MAX)
		s->cursor = last - CPU_SAMPLER_NEW_MAX;
	look_for_new(s, s->cursor + 1, last);
	s->cursor = last;
}

/* Of the children that the process waited for. The name in parentheses may hold anything. */
static uint64_t children_ns(const struct cpu_sampler *s, pid_t pid)
{
	char path[32], text[1024];
	(void)snprintf(path, sizeof(path), "%d/stat", pid);
	auto_fd fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (got <= 0)
		return 0; /* gone, or hidden: then only what was seen counts */
	size_t at = (size_t)got;
	while (at > 0 && text[at - 1] != ')')
		at--;
	struct slice rest = {text + at, (size_t)got - at}, word;
	uint64_t ticks = 0, value;
	(void)slice_split(rest, ' ', &word, &rest); /* the blank after the name */
	for (int field = 3; field < STAT_CHILDREN_FIELD + 2; field++) {
		if (!slice_split(rest, ' ', &word, &rest))
			break;
		if (field >= STAT_CHILDREN_FIELD &&
			slice_decimal(word, UINT64_MAX, false, &value) == 0)
			ticks += value;
	}
	long rate = sysconf(_SC_CLK_TCK);
	return rate <= 0 ? 0 : ticks * (NS_PER_SEC / (uint64_t)rate);
}

uint64_t cpu_sampler_take(struct cpu_sampler *s)
{
	uint64_t living = 0, waited = 0;
	s->moving = false;
	look_at_known(s);
	look_for_all_new(s);
	for (size_t i = 0; i < s->count; i++) {
		living += s->seen[i].ns;
		waited += children_ns(s, s->seen[i].pid);
	}
	/* the same processes, counted in two ways that both may miss some */
	uint64_t sum = living + (waited > s->gone_ns ? waited : s->gone_ns);
	if (sum > s->last_ns)
		s->last_ns = sum;
	return s->last_ns;
}

uint64_t cpu_sampler_pause_ns(const struct cpu_sampler *s, uint64_t limit_ns)
{
	uint64_t rest = s->last_ns >= limit_ns ? 0 : (limit_ns - s->last_ns) / 4;
	if (s->moving || rest < PAUSE_MIN_NS)
		return PAUSE_MIN_NS;
	return rest > PAUSE_MAX_NS ? PAUSE_MAX_NS : rest;
}
