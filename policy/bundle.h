/*
 * A bundle: several named policy texts in one run of bytes, so that one process can read what another
 * compiles. Layout: a head line, then for each text "<kind> <name bytes> <content bytes>\n<name>\n<content>\n".
 */
#ifndef ECLUSA_POLICY_BUNDLE_H
#define ECLUSA_POLICY_BUNDLE_H

#include "common/buf.h"

#define BUNDLE_FILES_MAX      1024
#define BUNDLE_NAME_BYTES_MAX 255 /* policy_diagnostic.file holds it */
/** Name of the text made from the command line, and of its profile. */
#define BUNDLE_RULES_NAME    "--allow"
#define BUNDLE_RULES_PROFILE "run"

enum bundle_kind {
	BUNDLE_FILE = 'f',     /* loaded by itself */
	BUNDLE_INCLUDED = 'i', /* loaded where an include names it */
	BUNDLE_RULES = 'r',    /* one rule a line, without its verb */
};

struct bundle_text {
	enum bundle_kind kind;
	struct slice name;
	struct slice content;
};

/** Append the head, once, before the texts. @return 0, -ENOBUFS, -ENOMEM. */
int bundle_open(struct buf *to);
int bundle_append(struct buf *to, const struct bundle_text *text);

/** Check the head and leave the texts in *ret_rest. @return 0 or -EINVAL. */
int bundle_start(struct slice bundle, struct slice *ret_rest);
/** Take the next text off *rest. @return 1; 0 at the end; -EINVAL. Slices point into the bundle. */
int bundle_next(struct slice *rest, struct bundle_text *ret);

/** Check the path of an include line. @return NULL, or what is wrong with it, for people. */
const char *bundle_include_check(struct slice path);
/** Name of the text that an include line in the text @from means: beside it. @return 0 or -ENAMETOOLONG. */
int bundle_include_name(
	const char *from, struct slice path, char ret_name[static BUNDLE_NAME_BYTES_MAX + 1]);

#endif
