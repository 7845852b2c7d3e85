/*
 * What must not stand in a log is taken out of it: user information and query values of URLs, and whatever
 * looks like a secret. Input is peer text of any bytes; output is the same bytes with "[redacted:N]" for N of
 * them. Escaping is the JSON writer's.
 */
#ifndef ECLUSA_AUDIT_REDACT_H
#define ECLUSA_AUDIT_REDACT_H

#include "common/buf.h"

/** A word of at least so many random-looking characters is a secret. */
#define REDACT_SECRET_CHARACTERS 32

/** Whether a word looks like a secret: a known token prefix, or long and random. */
bool redact_is_secret(struct slice word);
/** Whether a text is so short and simple that nothing of it can be redacted. */
bool redact_is_needless(struct slice text);
/** Each appends to @to and returns how many places were redacted; memory errors are sticky in @to. */
unsigned redact_text(struct slice text, struct buf *to);
/** A request target: also without query and fragment. */
unsigned redact_path(struct slice path, struct buf *to);
/** A host as a peer spelled it: without user information. */
unsigned redact_host(struct slice host, struct buf *to);
/**
 * What may be shown of a request target that is malformed: nothing up to the last '@' (or %40), nothing from the first '?' or
 * '#' on; an empty slice where the two overlap, since then nobody knows what is a password and what a query. Part of @target.
 */
struct slice redact_raw_target(struct slice target);
/** A command line, joined by blanks: also values of options and variables named like secrets. */
unsigned redact_arguments(const char *const *argv, struct buf *to);

#endif
