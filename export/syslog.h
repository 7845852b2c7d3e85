/*
 * The text of a syslog message (RFC 5424) around an event, and its length in front (RFC 6587, RFC 5425). Pure. No byte order mark:
 * receivers keep it as a part of the message.
 */
#ifndef ECLUSA_EXPORT_SYSLOG_H
#define ECLUSA_EXPORT_SYSLOG_H

#include "common/buf.h"
#include "export/facts.h"

#define SYSLOG_HEADER_BYTES_MAX 2048 /* everything before the event */

struct syslog_style {
	unsigned facility;   /* 0-23 */
	unsigned enterprise; /* number of the SD-ELEMENT's id, eclusa@N */
};

/** Append the message. @return 0, -ENOBUFS, -ENOMEM. */
int syslog_message(const struct syslog_style *style, const struct facts *facts, struct slice text,
	struct buf *to);
/** Append the message behind its length. @return as above; -EMSGSIZE: over @limit bytes, then nothing was appended. */
int syslog_frame(const struct syslog_style *style, const struct facts *facts, struct slice text,
	size_t limit, struct buf *to);
/** Severity of syslog and journald: 4 (warning) for what was refused or is worse, 6 (informational). */
unsigned syslog_severity(const struct facts *facts);

#endif
