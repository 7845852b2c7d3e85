/* See policy_sarif.h. Paths become relative URI references as they were given (RFC 3986). */
#include "cli/policy_sarif.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "policy/source.h"

#include <fcntl.h>
#define SCHEMA "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"

void sarif_open(struct json *j, struct buf *out)
{
	json_open(j, out);
	json_object(j, NULL);
	json_text(j, "$schema", SCHEMA);
	json_text(j, "version", "2.1.0");
	json_array(j, "runs");
	json_object(j, NULL);
	json_object(j, "tool");
	json_object(j, "driver");
	json_text(j, "name", "eclusa policy lint");
	json_text(j, "version", ECLUSA_VERSION);
	json_object_end(j);
	json_object_end(j);
	json_text(j, "columnKind", "unicodeCodePoints");
	json_array(j, "results");
}

void sarif_close(struct json *j)
{
	json_array_end(j);
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
	(void)buf_append(j->out, SLICE("\n")); /* its failure is the buffer's */
}

static bool plain_in_path(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		(c != '\0' && strchr("-._~/", c) != NULL);
}

/** Escape what a URI has no place for; a colon, too, so that no part reads as a scheme. */
static void write_uri(struct json *j, const char *path)
{
	struct buf uri = {.limit = 0};
	if (path[0] == '/')
		(void)buf_append_text(&uri, "file://");
	for (; *path != '\0'; path++) {
		if (plain_in_path(*path))
			(void)buf_append(&uri, (struct slice){path, 1});
		else
			(void)buf_printf(&uri, "%%%02X", (unsigned char)*path);
	}
	json_slice(j, "uri", buf_slice(&uri));
	j->out->failed = j->out->failed || uri.failed;
	buf_fini(&uri);
}

/** That line of a file; all of it, if it has fewer. */
static struct slice line_of(struct slice text, unsigned number)
{
	struct slice line = text, rest = text;
	for (; number > 0 && slice_split(rest, '\n', &line, &rest); number--)
		continue;
	return number > 0 ? rest : line;
}

/** Ours are bytes, SARIF's are code points. Of a file that can't be read anymore the bytes have to do. */
static unsigned column_of(const struct policy_diagnostic *d)
{
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX + 65536};
	auto_fd fd = open(d->file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	unsigned column = d->column;
	if (fd >= 0 && file_read_fd(fd, POLICY_FILE_BYTES_MAX, &text) == 0) {
		struct slice line = line_of(buf_slice(&text), d->line);
		for (size_t i = 0; i + 1 < d->column && i < line.len; i++)
			column -= ((unsigned char)line.ptr[i] & 0xc0) == 0x80;
	}
	buf_fini(&text);
	return column;
}

void sarif_finding(struct json *j, const struct policy_diagnostic *d)
{
	json_object(j, NULL);
	json_text(j, "ruleId", d->code);
	json_text(j, "level", policy_severity_name(d->severity));
	json_object(j, "message");
	json_text(j, "text", d->text);
	json_object_end(j);
	json_array(j, "locations");
	json_object(j, NULL);
	json_object(j, "physicalLocation");
	json_object(j, "artifactLocation");
	write_uri(j, d->file);
	json_object_end(j);
	json_object(j, "region");
	json_uint(j, "startLine", d->line);
	json_uint(j, "startColumn", column_of(d));
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
	json_array_end(j);
	json_object_end(j);
}
