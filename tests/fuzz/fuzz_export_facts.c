/* A line of any bytes: facts lie within it; its syslog message has one header; what jansson takes for an object is one here. */
#include "audit/reader.h"
#include "export/facts.h"
#include "export/syslog.h"

#include <assert.h>
#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(struct slice part, struct slice whole)
{
	assert(part.ptr == NULL ||
		(part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len));
}

static int visit(void *arg, const struct audit_line *line)
{
	(void)line;
	*(bool *)arg = true;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice line = {(const char *)data, size};
	struct facts facts = {.time_ms = 0};
	struct buf out = {.limit = size + SYSLOG_HEADER_BYTES_MAX};
	const struct syslog_style style = {16, 32473};
	bool read = false;
	struct audit_read reading = {.visit = visit, .arg = &read};
	bool deep = memchr(data, '[', size) != NULL; /* limits of depth differ */
	if (size == 0 || slice_find(line, '\n') >= 0)
		return 0;
	int r = facts_find(line, &facts);
	assert(r == 0 || r == -EBADMSG);
	(void)audit_read_line(&reading, line);
	assert(deep || !read || r == 0 || size > 300);
	within(facts.uid, line);
	within(facts.code, line);
	within(facts.sandbox, line);
	within(facts.rule, line);
	within(facts.action, line);
	within(facts.host, line);
	r = syslog_frame(&style, &facts, line, size + SYSLOG_HEADER_BYTES_MAX, &out);
	if (r == 0) {
		struct slice count, rest;
		uint64_t number;
		assert(slice_split(buf_slice(&out), ' ', &count, &rest));
		assert(slice_decimal(count, SIZE_MAX, false, &number) == 0 && number == rest.len);
		assert(slice_starts(rest, SLICE("<13")) && slice_ends(rest, line));
	}
	assert(r == 0);
	buf_fini(&out);
	return 0;
}
