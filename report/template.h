/* The page's own files (page.html, page.css, page.js), which are part of the program, and filling in the first one. */
#ifndef ECLUSA_REPORT_TEMPLATE_H
#define ECLUSA_REPORT_TEMPLATE_H

#include "common/buf.h"

/** Write what stands in a place {{name}}. */
typedef void template_fill(void *arg, struct slice name, struct buf *to);

/** The page with all of its places filled in; style, script and their hashes are known here. Errors are sticky in the buf. */
void template_write(template_fill *fill, void *arg, struct buf *to);

#endif
