/* See sqlite_page.h. Numbers in the file have their highest byte first. */
#include "sandbox-launcher/sqlite_page.h"

#include <errno.h>

#define LEAF_OF_TABLE    13
#define PAGE_HEADER      8  /* bytes */
#define POINTER          2  /* bytes of a cell's offset */
#define VARINT_BYTES_MAX 5  /* of 32 bits */
#define TYPE_BLOB        12 /* of an empty one; each byte adds 2 */
#define TYPE_TEXT        13
#define TYPE_BYTE        1
#define WRITTEN_AS       3040001 /* the version of SQLite whose format this is; for information only */

static void put_be(char *to, uint32_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (char)(value >> (8 * (bytes - 1 - i)) & 0xff);
}

static void write_file_header(char *to, uint32_t pages)
{
	static const char magic[16] = "SQLite format 3";
	memcpy(to, magic, sizeof(magic));
	put_be(to + 16, SQLITE_PAGE_BYTES, 2);
	to[18] = to[19] = 1; /* a rollback journal */
	to[21] = 64;         /* fractions that can't be chosen */
	to[22] = to[23] = 32;
	put_be(to + 24, 1, 4); /* changes */
	put_be(to + 28, pages, 4);
	put_be(to + 40, 1, 4); /* changes of the schema */
	put_be(to + 44, 4, 4); /* the schema's format */
	put_be(to + 56, 1, 4); /* UTF-8 */
	put_be(to + 92, 1, 4); /* changes when the next was written */
	put_be(to + 96, WRITTEN_AS, 4);
}

static void write_page_header(const struct sqlite_page *p)
{
	char *to = p->bytes + p->header;
	to[0] = LEAF_OF_TABLE;
	put_be(to + 3, (uint32_t)p->rows, 2);
	put_be(to + 5, (uint32_t)p->content, 2);
}

void sqlite_page_init(struct sqlite_page *p, char *memory, bool first, uint32_t pages)
{
	*p = (struct sqlite_page){.bytes = memory,
		.header = first ? SQLITE_FILE_BYTES : 0,
		.content = SQLITE_PAGE_BYTES};
	memset(memory, 0, SQLITE_PAGE_BYTES);
	if (first)
		write_file_header(memory, pages);
	write_page_header(p);
}

/* Seven bits a byte, the highest first; all but the last byte have their top bit set. */
static void append_varint(struct buf *to, uint64_t value)
{
	char bytes[VARINT_BYTES_MAX];
	size_t at = sizeof(bytes) - 1;
	bytes[at] = (char)(value & 0x7f);
	for (value >>= 7; value > 0 && at > 0; value >>= 7)
		bytes[--at] = (char)((value & 0x7f) | 0x80);
	(void)buf_append(to, (struct slice){bytes + at, sizeof(bytes) - at}); /* sticky */
}

static uint64_t type_of(const struct sqlite_value *v)
{
	switch (v->kind) {
	case SQLITE_NULL:
		return 0;
	case SQLITE_BYTE:
		return TYPE_BYTE;
	case SQLITE_BLOB:
		return TYPE_BLOB + 2 * (uint64_t)v->bytes.len;
	case SQLITE_TEXT:
		break;
	}
	return TYPE_TEXT + 2 * (uint64_t)v->bytes.len;
}

/* A cell: lengths and id, the types of all values behind their own length, the values. Errors are sticky in the buffers. */
static void write_cell(struct buf *cell, struct buf *types, uint32_t id,
	const struct sqlite_value *values, size_t count)
{
	size_t body = 0;
	for (size_t i = 0; i < count; i++) {
		append_varint(types, type_of(&values[i]));
		body += values[i].kind == SQLITE_NULL ? 0 : values[i].bytes.len;
	}
	size_t header = buf_len(types) + (buf_len(types) + 1 < 0x80 ? 1 : 2); /* counts itself */
	append_varint(cell, header + body);
	append_varint(cell, id);
	append_varint(cell, header);
	(void)buf_append(cell, buf_slice(types));
	for (size_t i = 0; i < count; i++)
		if (values[i].kind != SQLITE_NULL)
			(void)buf_append(cell, values[i].bytes);
}

/* Cells grow from the end of the page, their offsets from its header. */
static int place_cell(struct sqlite_page *p, struct slice cell)
{
	size_t offsets = p->header + PAGE_HEADER + POINTER * p->rows;
	if (cell.ptr == NULL || cell.len > p->content || p->content - cell.len < offsets + POINTER)
		return -E2BIG;
	p->content -= cell.len;
	p->rows++;
	memcpy(p->bytes + p->content, cell.ptr, cell.len);
	put_be(p->bytes + offsets, (uint32_t)p->content, POINTER);
	write_page_header(p);
	return 0;
}

int sqlite_page_add(
	struct sqlite_page *p, uint32_t id, const struct sqlite_value *values, size_t count)
{
	struct buf cell, types;
	if (count > SQLITE_COLUMNS_MAX)
		return -EINVAL;
	buf_init(&cell, SQLITE_PAGE_BYTES);
	buf_init(&types, SQLITE_PAGE_BYTES);
	write_cell(&cell, &types, id, values, count);
	int r = cell.failed || types.failed ? -E2BIG : place_cell(p, buf_slice(&cell));
	buf_fini(&cell);
	buf_fini(&types);
	return r;
}
