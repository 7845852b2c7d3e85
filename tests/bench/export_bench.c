/*
 * How fast the exporter gives events to a syslog receiver over TLS 1.3 on loopback, beside how fast one worker makes them (the
 * row "a worker makes" of audit_bench.c). Makes the log; tests/bench/export.py runs receiver and exporter.
 *
 *   export_bench FOLDER EVENTS      an audit folder with one file of so many events; prints its bytes
 */
#include "audit/index.h"
#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/bench/bench_event.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static _Noreturn void give_up(const char *what)
{
	(void)fprintf(stderr, "export_bench: %s\n", what);
	exit(1);
}

/** What a worker writes for one request of a kept-alive connection. */
static void append(struct audit_segment *segment)
{
	char uid[UUID_TEXT_BYTES];
	struct audit_event e = bench_event(uid);
	e.end_ms = clock_wall_ms();
	e.status = 200;
	e.bytes_in = 4096;
	if (audit_segment_append_event(segment, &e) < 0)
		give_up("an event that can't be written");
}

int main(int argc, char **argv)
{
	struct failure why = {0};
	struct audit_segment *segment = NULL;
	char name[128];
	struct stat st;
	uint64_t events;
	if (argc != 3 || slice_decimal(slice_of(argv[2]), 1 << 24, false, &events) < 0)
		give_up("usage: export_bench FOLDER EVENTS");
	auto_fd folder = audit_folder_open(argv[1], &why);
	auto_fd fd =
		folder < 0 ? -1 : audit_segment_create(folder, "bench", name, sizeof(name), &why);
	if (fd < 0 || audit_segment_attach(fd, "bench", &segment, &why) < 0)
		give_up(why.text);
	for (uint64_t i = 0; i < events; i++)
		append(segment);
	const struct audit_index_entry entries[] = {
		{.kind = AUDIT_INDEX_OPENED, .segment = name, .at = audit_segment_chain(segment)},
		{.kind = AUDIT_INDEX_CLOSED, .segment = name, .at = audit_segment_chain(segment)}};
	for (size_t i = 0; i < array_size(entries); i++) {
		if (audit_index_append(folder, &entries[i], &why) < 0)
			give_up(why.text);
	}
	audit_segment_close(folder, name);
	audit_segment_free(segment);
	if (fstat(fd, &st) < 0)
		give_up("no file");
	return printf("%" PRIu64 "\n", (uint64_t)st.st_size) < 0;
}
