/* See syslog.h. */
#include "export/syslog.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define OCSF_MEDIUM     3
#define HOST_BYTES_MAX  255 /* RFC 5424, 6 */
#define MSGID_BYTES_MAX 32
#define PARAM_BYTES_MAX 256 /* of a value; receivers take less of all of them together */
#define COUNT_DIGITS    10

unsigned syslog_severity(const struct facts *facts)
{
	return facts->severity >= OCSF_MEDIUM ? 4 : 6;
}

/** A header field: printable ASCII without blanks, "-" when there is none. */
static void write_field(struct buf *to, struct slice value, size_t limit)
{
	size_t len = 0;
	while (len < value.len && len < limit && value.ptr[len] > ' ' && value.ptr[len] <= '~')
		len++;
	(void)buf_append(to, SLICE(" ")); /* errors show in to->failed, here and below */
	(void)buf_append(to, len == 0 ? SLICE("-") : slice_part(value, 0, len));
}

/** Milliseconds: three fraction digits, of which six are allowed. */
static void write_time(struct buf *to, uint64_t time_ms)
{
	char text[40];
	struct tm parts;
	time_t seconds = (time_t)(time_ms / 1000);
	if (time_ms == 0 || gmtime_r(&seconds, &parts) == NULL || parts.tm_year > 9999 - 1900) {
		(void)buf_append(to, SLICE(" -"));
		return;
	}
	size_t len = strftime(text, sizeof(text), " %Y-%m-%dT%H:%M:%S", &parts);
	(void)snprintf(text + len, sizeof(text) - len, ".%03uZ", (unsigned)(time_ms % 1000));
	(void)buf_append_text(to, text);
}

static void write_param(struct buf *to, struct slice name, struct slice value)
{
	if (value.ptr == NULL)
		return;
	(void)buf_append(to, SLICE(" "));
	(void)buf_append(to, name);
	(void)buf_append(to, SLICE("=\""));
	value = slice_part(value, 0, PARAM_BYTES_MAX);
	for (size_t from = 0, at = 0; at <= value.len; at++) {
		bool special = at < value.len && strchr("\"\\]", value.ptr[at]) != NULL;
		if (at < value.len && !special)
			continue;
		(void)buf_append(to, slice_part(value, from, at));
		if (special)
			(void)buf_append(to, SLICE("\\"));
		from = at;
	}
	(void)buf_append(to, SLICE("\""));
}

int syslog_message(const struct syslog_style *style, const struct facts *facts, struct slice text,
	struct buf *to)
{
	(void)buf_printf(to, "<%u>1", style->facility * 8 + syslog_severity(facts));
	write_time(to, facts->time_ms);
	write_field(to, facts->host, HOST_BYTES_MAX);
	(void)buf_append(to, SLICE(" eclusa -"));
	write_field(to, facts->code, MSGID_BYTES_MAX);
	(void)buf_printf(to, " [eclusa@%u", style->enterprise);
	write_param(to, SLICE("sandbox"), facts->sandbox);
	write_param(to, SLICE("rule"), facts->rule);
	write_param(to, SLICE("action"), facts->action);
	write_param(to, SLICE("uid"), facts->uid);
	(void)buf_append(to, SLICE("] "));
	return buf_append(to, text);
}

int syslog_frame(const struct syslog_style *style, const struct facts *facts, struct slice text,
	size_t limit, struct buf *to)
{
	/* Room for the length, which is known last; what of the room it does not need goes. */
	char digits[COUNT_DIGITS + 2], *ignored;
	size_t start = buf_len(to);
	int r = buf_reserve(to, COUNT_DIGITS + 1, &ignored);
	if (r < 0)
		return r;
	memset(ignored, ' ', COUNT_DIGITS + 1);
	buf_grew(to, COUNT_DIGITS + 1);
	r = syslog_message(style, facts, text, to);
	size_t len = buf_len(to) - start - (COUNT_DIGITS + 1);
	if (r == 0 && len > limit)
		r = -EMSGSIZE;
	if (r < 0) {
		buf_drop_end(to, buf_len(to) - start);
		return r;
	}
	int count = snprintf(digits, sizeof(digits), "%zu ", len);
	char *at = to->data + to->start + start;
	memcpy(at, digits, (size_t)count);
	memmove(at + count, at + COUNT_DIGITS + 1, len);
	buf_drop_end(to, COUNT_DIGITS + 1 - (size_t)count);
	return 0;
}
