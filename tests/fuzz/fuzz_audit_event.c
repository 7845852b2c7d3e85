/* Peer text of any kind in every field: the line parses, is one line, has its size, and its metadata ends where it is said to. */
#include "audit/event.h"
#include "audit/mend.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static struct slice take(struct slice *rest)
{
	struct slice head = *rest, tail = {NULL, 0};
	if (!slice_split(*rest, '\n', &head, &tail))
		tail = (struct slice){NULL, 0};
	*rest = tail;
	return head;
}

static void parse(struct slice line)
{
	json_error_t error;
	json_t *event =
		json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	require(event != NULL);
	json_decref(event);
}

/** A line torn at a place that the input chooses is completed. */
static void tear(struct slice line, size_t at)
{
	struct buf mended = {0};
	struct slice torn = slice_part(line, 0, 1 + at % line.len);
	require(buf_append(&mended, torn) == 0);
	require(mend_line(torn, 7, &mended) == 0);
	parse(buf_slice(&mended));
	buf_fini(&mended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	struct slice rest = {(const char *)data + 3, size - 3};
	struct audit_event e = {.class = (enum audit_class)(data[0] % 5),
		.activity = data[0] / 5,
		.reason = (enum reason)(data[1] % REASON_COUNT),
		.observe = data[1] > 127,
		.status = data[2],
		.sandbox_id = "sb-1"};
	struct slice *fields[] = {&e.host, &e.path, &e.method, &e.scheme, &e.user_agent,
		&e.content_type, &e.connect_host, &e.sni, &e.host_header};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		*fields[i] = take(&rest);
	char *words = slice_dup(rest);
	char *argv[] = {words, words, NULL};
	require(words != NULL);
	e.argv = argv;
	e.detail = e.suggestion = e.rule_text = e.correlation = words;
	struct audit_file files[AUDIT_FILES_MAX];
	for (size_t i = 0; i < AUDIT_FILES_MAX; i++)
		files[i] = (struct audit_file){words, i % 2 == 0 ? i : UINT64_MAX, NULL};
	e.files = files;
	e.file_count = data[2];
	e.has_user = data[2] % 2 == 0;
	e.user_name = e.subject = words;
	e.recovered = data[2] % 3 == 0;
	e.tls_version = data[2] % 2 == 0 ? NULL : words;
	struct buf line = {0};
	size_t end = 0;
	require(audit_event_write(&e, &line, &end) == 0);
	struct slice text = buf_slice(&line);
	require(text.len <= AUDIT_LINE_BYTES_MAX && text.ptr[end] == '}');
	for (size_t i = 0; i < text.len; i++)
		require((unsigned char)text.ptr[i] >= 0x20);
	parse(text);
	tear(text, (size_t)data[0] * 256 + data[2]);
	buf_fini(&line);
	free(words);
	return 0;
}
