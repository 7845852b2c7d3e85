/* A segment of any content is read line by line, and every line gives what it is asked for, of its type. */
#include "audit/reader.h"
#include "audit/seen.h"
#include "common/cleanup.h"
#include "common/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Texts, numbers and truths that the tools ask for; some where others are. */
static const char *const paths[] = {"class_uid", "status_code", "metadata.uid",
	"dst_endpoint.hostname", "http_request.url.path", "unmapped.eclusa.would",
	"unmapped.eclusa.torn", "unmapped.eclusa", "", ".", "..a", "a."};

struct check {
	struct audit_seen seen;
	uint64_t number;
	uint64_t lines;
};

static int visit(void *arg, const struct audit_line *line)
{
	struct check *c = arg;
	if (audit_line_number(line) <= c->number || audit_line_bytes(line).len == 0)
		abort();
	c->number = audit_line_number(line);
	c->lines++;
	for (size_t i = 0; i < array_size(paths); i++) {
		struct slice text = audit_line_text(line, paths[i]);
		bool truth = audit_line_true(line, paths[i]);
		if (text.ptr == NULL ? text.len != 0 : text.ptr[text.len] != '\0')
			abort();
		if (truth && (text.ptr != NULL || audit_line_number_at(line, paths[i]) != 0))
			abort();
	}
	int new = audit_seen_add(&c->seen, audit_line_text(line, "metadata.uid"));
	if (new == 1 && audit_seen_add(&c->seen, audit_line_text(line, "metadata.uid")) != 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct check check = {.number = 0};
	struct audit_read read = {.visit = visit, .arg = &check};
	auto_fd fd = file_memory("segment", (struct slice){(const char *)data, size});
	if (fd < 0 || audit_read_fd(&read, fd) < 0)
		return 0;
	if (read.lines != check.lines)
		abort();
	audit_seen_fini(&check.seen);
	return 0;
}
