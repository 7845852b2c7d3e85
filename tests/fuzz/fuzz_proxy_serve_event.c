/* What a launcher tells a service of its sandbox: refused, or an event that the log can hold, and that its readers find there. */
#include "audit/event.h"
#include "audit/reader.h"
#include "common/buf.h"
#include "proxy/serve_state.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int pass(void *arg, const struct audit_line *line)
{
	(void)arg;
	(void)line;
	return 0;
}

/** Readers of the log pass over what they can't read. */
static void read_again(struct slice line)
{
	struct audit_read read = {.visit = pass};
	assert(audit_read_line(&read, line) == 0 && read.lines == 1 && read.skipped == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct service_event m = {0};
	struct serve_words words;
	struct audit_event e;
	struct buf line;
	size_t end;
	memcpy(&m, data, size < sizeof(m) ? size : sizeof(m));
	if (serve_event_read(&m, &words, &e) < 0)
		return 0;
	assert(e.uid == NULL && e.sandbox_id == NULL && e.profile == NULL && !e.has_user);
	buf_init(&line, (size_t)4 * AUDIT_LINE_BYTES_MAX);
	if (audit_event_write(&e, &line, &end) == 0) {
		assert(buf_len(&line) <= AUDIT_LINE_BYTES_MAX &&
			memchr(buf_slice(&line).ptr, '\n', buf_len(&line)) == NULL);
		read_again(buf_slice(&line));
	}
	buf_fini(&line);
	return 0;
}
