/*
 * See cgroup.h: what a group reads from and writes to disks. Under v2 alone: v1 knows not whose the pages are that the kernel writes
 * out later, so a limit there would hold reads and few writes.
 */
#include "sandbox-launcher/cgroup.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#define DISKS           "/sys/block"
#define IO_STAT_BYTES   65536 /* a line of some 100 bytes for each disk that was used */
#define DISK_NAME_BYTES 32    /* of the kernel: DISK_NAME_LEN */

/* A short file of a disk, without its newline; empty when it can't be read. */
static struct slice disk_word(int disk, const char *name, char to[static DISK_NAME_BYTES])
{
	auto_fd fd = openat(disk, name, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, to, DISK_NAME_BYTES);
	struct slice text = {to, got <= 0 ? 0 : (size_t)got};
	return slice_ends(text, SLICE("\n")) ? slice_part(text, 0, text.len - 1) : text;
}

/* Nothing to do for one without a medium, and for one that was taken away since. */
static int limit_disk(int group, int disk, uint64_t bytes_per_second)
{
	char number[DISK_NAME_BYTES], size[DISK_NAME_BYTES], text[128];
	struct slice dev = disk_word(disk, "dev", number);
	if (dev.len == 0 || slice_equal(disk_word(disk, "size", size), SLICE("0")))
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s rbps=%" PRIu64 " wbps=%" PRIu64, (int)dev.len,
		dev.ptr, bytes_per_second, bytes_per_second); /* fits */
	int r = file_write_text(group, "io.max", text);
	return r == -ENODEV || r == -ENXIO ? 0 : r;
}

int cgroup_io_limit(const struct cgroup *g, uint64_t bytes_per_second)
{
	if (bytes_per_second == 0)
		return 0;
	if (g->kind != CGROUP_V2 || faccessat(g->group[0], "io.max", W_OK, AT_EACCESS) < 0)
		return -EOPNOTSUPP;
	DIR *disks = opendir(DISKS);
	const struct dirent *entry;
	if (disks == NULL)
		return -errno;
	int r = 0;
	while (r == 0 && (entry = readdir(disks)) != NULL) {
		auto_fd disk =
			openat(dirfd(disks), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (disk >= 0 && entry->d_name[0] != '.')
			r = limit_disk(g->group[0], disk, bytes_per_second);
	}
	(void)closedir(disks); /* only read from */
	return r;
}

/* The sum of what follows @key in all words of @text. */
static uint64_t sum_of(struct slice text, struct slice key)
{
	uint64_t sum = 0, number;
	for (size_t i = 0, start = 0; i <= text.len; i++) {
		if (i < text.len && text.ptr[i] != ' ' && text.ptr[i] != '\n')
			continue;
		struct slice word = slice_part(text, start, i);
		start = i + 1;
		if (slice_starts(word, key) &&
			slice_decimal(slice_part(word, key.len, word.len), UINT64_MAX, true,
				&number) == 0)
			sum += number;
	}
	return sum;
}

void cgroup_io_read(const struct cgroup *g, struct cgroup_usage *to)
{
	struct buf text;
	buf_init(&text, 2 * IO_STAT_BYTES);
	if (g->kind == CGROUP_V2 && file_read(g->group[0], "io.stat", IO_STAT_BYTES, &text) == 0) {
		to->io_read_bytes = sum_of(buf_slice(&text), SLICE("rbytes="));
		to->io_written_bytes = sum_of(buf_slice(&text), SLICE("wbytes="));
	}
	buf_fini(&text);
}
