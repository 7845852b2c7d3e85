/*
 * Pages of a SQLite file, written once: leaves of tables with rows that fit. No index, no overflow, no update.
 * Source: https://sqlite.org/fileformat2.html.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_SQLITE_PAGE_H
#define ECLUSA_SANDBOX_LAUNCHER_SQLITE_PAGE_H

#include "common/buf.h"

#define SQLITE_PAGE_BYTES  ((size_t)16384)
#define SQLITE_FILE_BYTES  100 /* the file's header, at the beginning of its first page */
#define SQLITE_COLUMNS_MAX 128

enum sqlite_kind { SQLITE_NULL, SQLITE_BYTE, SQLITE_BLOB, SQLITE_TEXT };

/** One value of a row. Borrowed. SQLITE_BYTE: one byte, a number. */
struct sqlite_value {
	enum sqlite_kind kind;
	struct slice bytes;
};

/** A page that is being filled, in the caller's memory of SQLITE_PAGE_BYTES. */
struct sqlite_page {
	char *bytes;
	size_t header;  /* offset of its header */
	size_t content; /* offset of its last cell */
	size_t rows;
};

/** Clear @memory and make a page without rows of it. @first: it begins with the header of a file of @pages pages. */
void sqlite_page_init(struct sqlite_page *p, char *memory, bool first, uint32_t pages);
/** Add a row; ids are to grow. @return 0; -E2BIG: there is no room for it; -ENOMEM, -EINVAL: too many columns. */
int sqlite_page_add(
	struct sqlite_page *p, uint32_t id, const struct sqlite_value *values, size_t count);

#endif
