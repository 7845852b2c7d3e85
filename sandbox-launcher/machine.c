/* See machine.h. */
#include "sandbox-launcher/machine.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define HOST_BYTES 16384 /* a processor's block has some 2,000 */
#define FILE_BYTES ((size_t)2 << 20)
#define PAGE_KB    4

/* What the texts say. */
struct machine {
	uint64_t memory_kb;
	unsigned processors;
	uint64_t
		boot_s; /* real time at which the kernel started, which processes' ages are relative to */
	uint64_t up_ns;
};

unsigned machine_processors(uint32_t cpu_milli)
{
	cpu_set_t mask;
	unsigned wanted = (cpu_milli + 999) / 1000;
	if (sched_getaffinity(0, sizeof(mask), &mask) < 0)
		return wanted; /* a host with more processors than --cpus can name */
	unsigned there = (unsigned)CPU_COUNT(&mask);
	return wanted < there ? wanted : there;
}

/* One line of a block "key<tabs>: value", with the numbers of processor @i of @count. */
static void cpuinfo_line(struct slice line, unsigned i, unsigned count, struct buf *to)
{
	const struct {
		const char *key;
		unsigned number;
	} own[] = {{"processor", i}, {"core id", i}, {"apicid", i}, {"initial apicid", i},
		{"physical id", 0}, {"siblings", count}, {"cpu cores", count}};
	struct slice key, value;
	bool found = false;
	if (slice_split(line, ':', &key, &value))
		for (size_t k = 0; k < array_size(own) && !found; k++) {
			found = slice_equal(slice_trim(key), slice_of(own[k].key));
			if (found)
				(void)buf_printf(to, "%.*s: %u\n", (int)key.len, key.ptr,
					own[k].number); /* sticky */
		}
	if (!found)
		(void)buf_printf(to, "%.*s\n", (int)line.len, line.ptr); /* sticky */
}

int machine_cpuinfo(struct slice host, unsigned count, struct buf *to)
{
	if (!slice_starts(host, SLICE("processor")))
		return 0;
	for (unsigned i = 0; i < count; i++) {
		struct slice rest = host, line;
		while (slice_split(rest, '\n', &line, &rest) && line.len > 0)
			cpuinfo_line(line, i, count, to);
		(void)buf_append(to, SLICE("\n")); /* sticky */
	}
	return to->failed ? -ENOMEM : 0;
}

/* The first blocks of the host's: its kernel gives whole ones. */
static int cpuinfo(const struct machine *m, struct buf *to)
{
	char text[HOST_BYTES];
	auto_fd fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
	return got < 0 ? -errno
		       : machine_cpuinfo((struct slice){text, (size_t)got}, m->processors, to);
}

/* All of it is free: what the run uses of its limit is in no file that we could write now. */
static int meminfo(const struct machine *m, struct buf *to)
{
	static const char *const all[] = {"MemTotal", "MemFree", "MemAvailable"};
	static const char *const none[] = {"Buffers", "Cached", "SwapCached", "Active", "Inactive",
		"Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)", "Unevictable",
		"Mlocked", "SwapTotal", "SwapFree", "Dirty", "Writeback", "AnonPages", "Mapped",
		"Shmem", "KReclaimable", "Slab", "SReclaimable", "SUnreclaim", "KernelStack",
		"PageTables"};
	for (size_t i = 0; i < array_size(all); i++)
		(void)buf_printf(to, "%s: %*" PRIu64 " kB\n", all[i], 23 - (int)strlen(all[i]),
			m->memory_kb); /* sticky */
	for (size_t i = 0; i < array_size(none); i++)
		(void)buf_printf(
			to, "%s: %*d kB\n", none[i], 23 - (int)strlen(none[i]), 0); /* sticky */
	return buf_printf(
		to, "CommitLimit: %12" PRIu64 " kB\nCommitted_AS: %11d kB\n", m->memory_kb, 0);
}

/* glibc takes the number of processors from it, where there is no /sys. */
static int stat_text(const struct machine *m, struct buf *to)
{
	static const char idle[] = " 0 0 0 0 0 0 0 0 0 0\n";
	(void)buf_printf(to, "cpu %s", idle); /* sticky */
	for (unsigned i = 0; i < m->processors; i++)
		(void)buf_printf(to, "cpu%u%s", i, idle); /* sticky */
	return buf_printf(to,
		"intr 0\nctxt 0\nbtime %" PRIu64 "\nprocesses 1\nprocs_running 1\n"
		"procs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
		m->boot_s);
}

static int vmstat(const struct machine *m, struct buf *to)
{
	return buf_printf(to,
		"nr_free_pages %" PRIu64 "\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\n"
		"pgfault 0\npgmajfault 0\n",
		m->memory_kb / PAGE_KB);
}

static int loadavg(const struct machine *m, struct buf *to)
{
	(void)m; /* nothing in it is the run's */
	return buf_append(to, SLICE("0.00 0.00 0.00 1/1 1\n"));
}

/* Without the time that the host's processors had nothing to do. */
static int uptime(const struct machine *m, struct buf *to)
{
	return buf_printf(to, "%" PRIu64 ".%02" PRIu64 " 0.00\n", m->up_ns / NS_PER_SEC,
		m->up_ns % NS_PER_SEC / (NS_PER_SEC / 100));
}

static int swaps(const struct machine *m, struct buf *to)
{
	(void)m; /* it has none */
	return buf_append(to, SLICE("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"));
}

const char *const MACHINE_FILES[] = {
	"cpuinfo", "meminfo", "stat", "vmstat", "loadavg", "uptime", "swaps", NULL};
static int (*const WRITERS[])(const struct machine *m, struct buf *to) = {
	cpuinfo, meminfo, stat_text, vmstat, loadavg, uptime, swaps};
static_assert(array_size(MACHINE_FILES) == array_size(WRITERS) + 1, "a writer each");

static int clock_ns(clockid_t which, uint64_t *ret_ns)
{
	struct timespec t;
	if (clock_gettime(which, &t) < 0)
		return -errno;
	*ret_ns = (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
	return 0;
}

int machine_sysinfo(uint64_t memory_bytes, struct sysinfo *ret)
{
	uint64_t up_ns = 0;
	int r = clock_ns(CLOCK_BOOTTIME, &up_ns);
	if (r < 0)
		return r;
	*ret = (struct sysinfo){.uptime = (long)(up_ns / NS_PER_SEC),
		.totalram = memory_bytes,
		.freeram = memory_bytes,
		.procs = 1,
		.mem_unit = 1};
	return 0;
}

static int add_file(struct view *v, const char *name, const struct buf *text)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "proc/%s", name); /* fits: names are ours */
	return view_add_proc(v, path, buf_slice(text));
}

int machine_add(struct view *v, const struct spec *spec, struct failure *why)
{
	struct machine m = {.memory_kb = spec->memory_bytes / 1024,
		.processors = machine_processors(spec->cpu_milli)};
	uint64_t now_ns = 0;
	struct buf text;
	int r = clock_ns(CLOCK_BOOTTIME, &m.up_ns);
	if (r == 0)
		r = clock_ns(CLOCK_REALTIME, &now_ns);
	m.boot_s = (now_ns - m.up_ns) / NS_PER_SEC;
	buf_init(&text, FILE_BYTES);
	for (size_t i = 0; i < array_size(WRITERS) && r == 0; i++) {
		buf_clear(&text);
		r = WRITERS[i](&m, &text);
		if (r == 0)
			r = add_file(v, MACHINE_FILES[i], &text);
	}
	buf_fini(&text);
	return r < 0 ? failure_errno(why, r, "can't make the sandbox's files of /proc") : 0;
}
