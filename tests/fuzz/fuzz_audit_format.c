/*
 * Any line in every format, and any text as the value of many members: what comes out is one line of valid UTF-8 without control characters but the tabs of LEEF, is bounded, and
 * comes out for every line that is an object.
 */
#include "audit/event.h"
#include "audit/format.h"
#include "common/cleanup.h"
#include "common/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_one_line(struct slice text, bool tabs)
{
	while (text.len > 0) {
		size_t len = utf8_length(text);
		if (len == 0)
			abort();
		uint32_t character = utf8_decode(text, len);
		if (utf8_is_control(character) && !(tabs && character == '\t'))
			abort();
		text = slice_part(text, len, text.len);
	}
}

/** Quotes in pairs, and as many commas outside of them as columns need. */
static void check_csv(struct slice text, size_t commas)
{
	bool inside = false;
	for (size_t i = 0; i < text.len; i++) {
		inside ^= text.ptr[i] == '"';
		commas -= text.ptr[i] == ',' && !inside;
	}
	if (inside || commas != 0)
		abort();
}

/** Seven '|' that no backslash takes back, then keys that no value can make. */
static void check_cef(struct slice text)
{
	size_t bars = 0;
	for (size_t i = 0; i < text.len; i++) {
		bool bar = text.ptr[i] == '|' && bars < 7;
		bars += bar;
		if (text.ptr[i] == '\\' &&
			(++i == text.len || strchr("\\|=rn", text.ptr[i]) == NULL))
			abort();
	}
	if (bars != 7)
		abort();
}

/** A tab comes before a key only: every part between tabs has one. */
static void check_leef(struct slice text)
{
	struct slice part, key, value, rest = text;
	for (int i = 0; i < 6; i++) {
		if (!slice_split(rest, '|', &part, &rest))
			abort();
	}
	for (bool more = rest.len > 0; more;) {
		part = rest;
		more = slice_split(rest, '\t', &part, &rest);
		if (!slice_split(part, '=', &key, &value) || key.len == 0 || value.len == 0)
			abort();
	}
}

static void check(enum audit_format format, struct slice text)
{
	struct buf head = {0};
	size_t commas = 0;
	if (format == AUDIT_FORMAT_OCSF || format == AUDIT_FORMAT_OCSF_BARE)
		return;
	check_one_line(text, format == AUDIT_FORMAT_LEEF);
	audit_format_head(format, &head);
	for (size_t i = 0; i < buf_len(&head); i++)
		commas += buf_slice(&head).ptr[i] == ',';
	buf_fini(&head);
	if (format == AUDIT_FORMAT_CSV)
		check_csv(text, commas);
	else if (format == AUDIT_FORMAT_CEF)
		check_cef(text);
	else if (format == AUDIT_FORMAT_LEEF)
		check_leef(text);
}

static int is_object(void *arg, const struct audit_line *line)
{
	(void)arg;
	(void)line;
	return 0;
}

/** An event whose texts are all the same, of any bytes. */
static void build(struct slice text, struct buf *to)
{
	static const char *const top[] = {"status_code", "class_name", "message", "action"};
	static const char *const request[] = {"http_method", "user_agent"};
	struct json j;
	json_open(&j, to);
	json_object(&j, NULL);
	for (size_t i = 0; i < array_size(top); i++)
		json_slice(&j, top[i], text);
	json_object(&j, "http_request");
	for (size_t i = 0; i < array_size(request); i++)
		json_slice(&j, request[i], text);
	json_object_end(&j);
	json_object(&j, "metadata");
	json_array(&j, "labels");
	json_slice(&j, NULL, text);
	json_slice(&j, NULL, text);
	json_array_end(&j);
	json_object_end(&j);
	json_object_end(&j);
}

static void check_line(struct slice line)
{
	struct audit_read read = {.visit = is_object};
	if (line.len > AUDIT_LINE_BYTES_MAX || slice_find(line, '\n') >= 0)
		return;
	(void)audit_read_line(&read, line);
	for (enum audit_format f = 0; f < AUDIT_FORMAT_COUNT; f++) {
		struct buf got = {.limit = AUDIT_FORMAT_BYTES_MAX};
		int r = audit_format_write(f, line, &got);
		bool unread = f == AUDIT_FORMAT_OCSF || f == AUDIT_FORMAT_OCSF_BARE;
		if (r != (read.lines > 0 ? 0 : -EBADMSG) && !(unread && r == 0))
			abort();
		if (r == 0)
			check(f, buf_slice(&got));
		buf_fini(&got);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice line = {(const char *)data, size};
	struct buf built = {0};
	if (size > 0 && data[0] != '{') {
		build(line, &built);
		line = buf_slice(&built);
	}
	check_line(line);
	buf_fini(&built);
	return 0;
}
