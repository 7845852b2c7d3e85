/* A folder, a ring and lines for the audit tests. */
#ifndef ECLUSA_TESTS_UNIT_AUDIT_SETUP_H
#define ECLUSA_TESTS_UNIT_AUDIT_SETUP_H

#include "tests/unit/cmocka_setup.h"

#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct audit_rig {
	char path[64], name[128];
	int folder_fd, segment_fd, ring_fd;
	struct audit_ring *ring;
	struct audit_segment *segment;
};

static inline void rig_open(struct audit_rig *rig)
{
	struct failure why = {0};
	*rig = (struct audit_rig){.folder_fd = -1};
	(void)snprintf(rig->path, sizeof(rig->path), "/tmp/eclusa-audit-XXXXXX");
	assert_non_null(mkdtemp(rig->path));
	rig->folder_fd = audit_folder_open(rig->path, &why);
	assert_true(rig->folder_fd >= 0);
	rig->segment_fd =
		audit_segment_create(rig->folder_fd, "run", rig->name, sizeof(rig->name), &why);
	assert_true(rig->segment_fd >= 0);
	rig->ring_fd = audit_ring_create(rig->folder_fd, "run", AUDIT_RING_SLOTS, &why);
	assert_true(rig->ring_fd >= 0);
	rig->ring = audit_ring_map(rig->ring_fd);
	assert_non_null(rig->ring);
	assert_int_equal(audit_segment_attach(rig->segment_fd, "run", &rig->segment, &why), 0);
}

/** What dies with a process: mappings, locks, descriptors. The folder stays. */
static inline void rig_drop(struct audit_rig *rig)
{
	audit_ring_free(ptr_take(rig->ring));
	audit_segment_free(ptr_take(rig->segment));
	fd_close(&rig->ring_fd);
	fd_close(&rig->segment_fd);
}

static inline void remove_all(int folder_fd, const char *name)
{
	DIR *dir = fdopendir(openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		(void)unlinkat(dirfd(dir), entry->d_name, 0); /* folders go below */
	if (dir != NULL)
		(void)closedir(dir);
}

static inline void rig_close(struct audit_rig *rig)
{
	rig_drop(rig);
	remove_all(rig->folder_fd, "open");
	(void)unlinkat(rig->folder_fd, "open", AT_REMOVEDIR);
	remove_all(rig->folder_fd, ".");
	assert_int_equal(rmdir(rig->path), 0);
	fd_close(&rig->folder_fd);
}

/** A request to a host. */
static inline struct audit_event event_to(const char *host, const char *uid)
{
	return (struct audit_event){.class = AUDIT_HTTP,
		.activity = 3,
		.reason = REASON_ALLOW_RULE,
		.uid = uid != NULL ? uid : "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11",
		.sandbox_id = "sb-1",
		.host = slice_of(host),
		.destination_port = 443,
		.method = SLICE("GET"),
		.path = SLICE("/"),
		.user_agent = SLICE("caf\xc3\xa9 \xf0\x9f\x98\x80 \x01 \xff end"),
		.detail = "a \"detail\" with \\ in it"};
}

/** The same as it is in a ring; its storage is the caller's buf. */
static inline struct slice packed_of(struct buf *storage, const char *host, const char *uid)
{
	struct audit_event e = event_to(host, uid);
	buf_clear(storage);
	assert_int_equal(audit_event_pack(&e, AUDIT_SLOT_BYTES_MAX, storage), 0);
	return buf_slice(storage);
}

/** Append one to a segment. */
static inline int append_to(struct audit_segment *s, const char *host)
{
	const struct audit_event e = event_to(host, NULL);
	return audit_segment_append_event(s, &e);
}

/** Everything in a file of the folder, NUL-terminated. */
static inline struct buf read_file(int folder_fd, const char *name)
{
	struct buf all = {.limit = 64 << 20};
	assert_int_equal(file_read(folder_fd, name, 32 << 20, &all), 0);
	assert_int_equal(buf_append(&all, (struct slice){"", 1}), 0);
	return all;
}

static inline size_t count_of(const char *text, const char *what)
{
	size_t count = 0;
	for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
		count++;
	return count;
}

#endif
