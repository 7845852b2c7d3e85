/*
 * Preloaded into a program that a test starts: its wall clock is the host's, and as many milliseconds more as the file that
 * ECLUSA_TEST_CLOCK names begins with. The host's own clock is not touched. The file is mapped before the program gives up its rights.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step_ms;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map(void)
{
	const char *path = getenv("ECLUSA_TEST_CLOCK");
	real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*step_ms), PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || real_gettime == NULL)
		abort();
	step_ms = at;
	(void)close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
	if (real_gettime == NULL) /* somebody asks before us */
		return -1;
	int r = real_gettime(clock, to);
	if (r == 0 && clock == CLOCK_REALTIME && step_ms != NULL) {
		int64_t ns = to->tv_nsec + *step_ms % 1000 * 1000000;
		to->tv_sec += *step_ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
		to->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
	}
	return r;
}
