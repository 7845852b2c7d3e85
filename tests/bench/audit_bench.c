/*
 * What the audit log costs: how fast a worker can make events, how fast the recorder writes and chains them, how fast they are
 * verified, beside sha256sum of the same file. In a folder of its own below TMPDIR.
 */
#include "audit/index.h"
#include "audit/segment.h"
#include "audit/verify.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/bench/bench_event.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define EVENTS       200000
#define BATCH        1024 /* what the ring holds easily */
#define VERIFY_BYTES ((off_t)200 << 20)

struct bench {
	char path[256], name[128];
	int folder_fd, segment_fd, ring_fd;
	struct audit_segment *segment;
	struct audit_ring *ring;
	struct buf packed;
};

static _Noreturn void give_up(const char *what)
{
	(void)fprintf(stderr, "audit_bench: %s\n", what);
	exit(1);
}

static void bench_open(struct bench *b)
{
	struct failure why = {0};
	const char *tmp = getenv("TMPDIR");
	(void)snprintf(
		b->path, sizeof(b->path), "%s/eclusa-bench-XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(b->path) == NULL)
		give_up("no folder");
	b->folder_fd = audit_folder_open(b->path, &why);
	b->segment_fd = audit_segment_create(b->folder_fd, "run", b->name, sizeof(b->name), &why);
	b->ring_fd = audit_ring_create(b->folder_fd, "run", AUDIT_RING_SLOTS, &why);
	b->ring = audit_ring_map(b->ring_fd);
	buf_init(&b->packed, 4 * AUDIT_PACKED_BYTES_MAX);
	if (b->ring == NULL || audit_segment_attach(b->segment_fd, "run", &b->segment, &why) < 0)
		give_up(why.text);
}

static void bench_close(struct bench *b)
{
	static const char *const names[] = {"open/run.ring", AUDIT_INDEX_NAME};
	audit_segment_close(b->folder_fd, b->name);
	for (size_t i = 0; i < array_size(names); i++)
		(void)unlinkat(b->folder_fd, names[i], 0); /* as well as can be */
	(void)unlinkat(b->folder_fd, b->name, 0);
	(void)unlinkat(b->folder_fd, "open", AT_REMOVEDIR);
	(void)rmdir(b->path);
	audit_segment_free(b->segment);
	audit_ring_free(b->ring);
	fd_close(&b->ring_fd);
	fd_close(&b->segment_fd);
	fd_close(&b->folder_fd);
	buf_fini(&b->packed);
}

/** What a worker does for one request: the decision into a slot, the finished event into the ring. */
static void make_event(struct bench *b)
{
	char uid[UUID_TEXT_BYTES];
	struct audit_event e = bench_event(uid);
	buf_clear(&b->packed);
	if (audit_event_pack(&e, AUDIT_SLOT_BYTES_MAX, &b->packed) < 0)
		give_up("an event that can't be packed");
	int slot = audit_ring_open(b->ring, buf_slice(&b->packed));
	e.end_ms = clock_wall_ms();
	e.status = 200;
	e.bytes_in = 4096;
	buf_clear(&b->packed);
	if (slot < 0 || audit_event_pack(&e, AUDIT_PACKED_BYTES_MAX, &b->packed) < 0)
		give_up("no slot");
	if (audit_ring_finish(b->ring, slot, buf_slice(&b->packed)) < 0)
		give_up("the ring is full");
}

/** Processor time, which other load does not take part in. */
static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec t;
	(void)clock_gettime(clock, &t); /* can't fail with a clock that exists */
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static double seconds_of(uint64_t ns)
{
	return (double)ns / (double)NS_PER_SEC;
}

/** Both rates, in turns over the same ring; the recorder's includes its writes, not the disk's answers. */
static void bench_record(struct bench *b)
{
	uint64_t made_ns = 0, written_ns = 0;
	for (int done = 0; done < EVENTS; done += BATCH) {
		uint64_t start = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
		for (int i = 0; i < BATCH; i++)
			make_event(b);
		uint64_t between = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
		made_ns += between - start;
		if (audit_segment_drain(b->segment, b->ring, true) < 0)
			give_up("can't write");
		written_ns += cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - between;
		if (audit_segment_chain(b->segment)->sequence % (128 * BATCH) == 1 &&
			ftruncate(b->segment_fd, 0) < 0)
			give_up("can't truncate");
	}
	double made = EVENTS / seconds_of(made_ns), written = EVENTS / seconds_of(written_ns);
	(void)printf(
		"audit: a worker's part       %8.0f events/s (%.1f us each: decision and end)\n",
		made, 1e6 / made);
	(void)printf(
		"audit: the recorder's part   %8.0f events/s (%.1f us each: line, chain, write)\n",
		written, 1e6 / written);
}

/** sha256sum, as it is installed. @return seconds. */
static double time_sha256sum(const char *path)
{
	int status = 0;
	struct rusage used;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		(void)dup2(null, STDOUT_FILENO); /* else its line is printed */
		(void)execlp("sha256sum", "sha256sum", path, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status != 0)
		give_up("sha256sum");
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		(double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void bench_verify(struct bench *b)
{
	char path[512];
	struct stat st;
	struct failure why = {0};
	struct verify_result result = {0};
	do {
		for (int i = 0; i < BATCH; i++)
			make_event(b);
		if (audit_segment_drain(b->segment, b->ring, true) < 0 ||
			fstat(b->segment_fd, &st) < 0)
			give_up("can't write");
	} while (st.st_size < VERIFY_BYTES);
	(void)snprintf(path, sizeof(path), "%s/%s", b->path, b->name);
	char *const files[] = {path};
	const struct verify_options options = {.folder_fd = -1, .files = files, .file_count = 1};
	double theirs = time_sha256sum(path); /* also brings the file into the cache */
	theirs = time_sha256sum(path);
	uint64_t start = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (audit_verify(&options, &result, &why) < 0)
		give_up(why.text);
	double ours = seconds_of(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start),
	       mib = (double)st.st_size / (1 << 20);
	if (result.count > 0)
		give_up(result.findings[0].text);
	(void)printf("audit: verify                %8.0f MiB/s; sha256sum %.0f MiB/s: %.1fx\n",
		mib / ours, mib / theirs, theirs / ours);
	verify_fini(&result);
}

int main(void)
{
	struct bench b = {.folder_fd = -1, .segment_fd = -1, .ring_fd = -1};
	bench_open(&b);
	bench_record(&b);
	bench_close(&b);
	b = (struct bench){.folder_fd = -1, .segment_fd = -1, .ring_fd = -1};
	bench_open(&b);
	bench_verify(&b);
	bench_close(&b);
	return 0;
}
