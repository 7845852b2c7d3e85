/* See checkpoint.h. The text that is signed is lines of words, so that a person can make it again with printf and check it with openssl. */
#include "audit/checkpoint.h"

#include "audit/reader.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <stdio.h>
#include <sys/timex.h>

#define TEXT_BYTES 512
#define PREFIX     "unmapped.eclusa.checkpoint."

static const char *const clock_names[] = {
	[CHECKPOINT_CLOCK_UNKNOWN] = "unknown",
	[CHECKPOINT_CLOCK_FREE] = "unsynchronized",
	[CHECKPOINT_CLOCK_SYNCED] = "synchronized",
};

const char *checkpoint_clock_name(enum checkpoint_clock clock)
{
	return clock_names[clock < array_size(clock_names) ? clock : CHECKPOINT_CLOCK_UNKNOWN];
}

/** The text that is signed. */
static struct slice checkpoint_text(const struct checkpoint *c, char to[static TEXT_BYTES])
{
	int len = snprintf(to, TEXT_BYTES,
		"eclusa checkpoint 1\nchain %s\nfirst %llu\nlast %llu\nhead %s\ntime %llu\n"
		"policy %s\nclock %s %u\n",
		c->chain, (unsigned long long)c->first, (unsigned long long)c->last, c->head,
		(unsigned long long)c->time_ms, c->policy,
		checkpoint_clock_name((enum checkpoint_clock)c->clock), c->clock_error_us);
	return (struct slice){to, len < 0 || len >= TEXT_BYTES ? 0 : (size_t)len};
}

static void read_clock(struct checkpoint *c)
{
	struct timex state = {0}; /* modes 0: only read */
	int r = adjtimex(&state);
	c->clock = r < 0          ? CHECKPOINT_CLOCK_UNKNOWN
		: r == TIME_ERROR ? CHECKPOINT_CLOCK_FREE
				  : CHECKPOINT_CLOCK_SYNCED;
	c->clock_error_us =
		r < 0 || state.maxerror < 0 ? 0 : (uint32_t)(state.maxerror & UINT32_MAX);
}

int checkpoint_sign(struct checkpoint *c, const struct sign_key *key)
{
	struct sign_public public;
	char text[TEXT_BYTES];
	c->time_ms = clock_wall_ms();
	read_clock(c);
	c->key[0] = '\0';
	memset(c->signature, 0, sizeof(c->signature));
	if (key == NULL)
		return 0;
	int r = sign_key_public(key, &public);
	if (r == 0)
		r = sign_make(key, checkpoint_text(c, text), c->signature);
	if (r == 0)
		memcpy(c->key, public.id, sizeof(c->key));
	return r;
}

int checkpoint_verify(const struct checkpoint *c, const struct sign_public *key)
{
	char text[TEXT_BYTES];
	struct slice signature = {(const char *)c->signature, sizeof(c->signature)};
	return sign_verify(key, checkpoint_text(c, text), signature);
}

/** @return 0 or -EBADMSG: no text there, or a longer one. An absent one is "" if @optional. */
static int read_text(
	const struct audit_line *from, const char *path, bool optional, char *to, size_t capacity)
{
	struct slice text = audit_line_text(from, path);
	if (text.ptr == NULL && optional) {
		to[0] = '\0';
		return 0;
	}
	bool is_one = text.ptr != NULL && slice_find(text, '\0') < 0;
	return is_one && slice_copy(text, to, capacity) == 0 ? 0 : -EBADMSG;
}

static int read_signature(
	const struct audit_line *from, unsigned char to[static SIGN_SIGNATURE_BYTES])
{
	struct slice text = audit_line_text(from, PREFIX "signature");
	if (text.len != 2 * (size_t)SIGN_SIGNATURE_BYTES)
		return -EBADMSG;
	for (size_t i = 0; i < SIGN_SIGNATURE_BYTES; i++) {
		uint64_t byte;
		if (slice_hex(slice_part(text, 2 * i, 2 * i + 2), UINT8_MAX, &byte) < 0)
			return -EBADMSG;
		to[i] = (unsigned char)byte;
	}
	return 0;
}

static int read_visit(void *arg, const struct audit_line *from)
{
	struct checkpoint *c = arg;
	char clock[16];
	uint64_t error = audit_line_number_at(from, PREFIX "clock_error_us");
	c->first = audit_line_number_at(from, PREFIX "first");
	c->last = audit_line_number_at(from, PREFIX "last");
	c->time_ms = audit_line_number_at(from, PREFIX "time");
	if (read_text(from, PREFIX "of", false, c->chain, sizeof(c->chain)) < 0 ||
		read_text(from, PREFIX "head", false, c->head, sizeof(c->head)) < 0 ||
		read_text(from, PREFIX "policy", true, c->policy, sizeof(c->policy)) < 0 ||
		read_text(from, PREFIX "clock", false, clock, sizeof(clock)) < 0 ||
		read_text(from, PREFIX "key", true, c->key, sizeof(c->key)) < 0 || c->first == 0 ||
		c->last == 0 || error > UINT32_MAX)
		return -EBADMSG;
	c->clock_error_us = (uint32_t)error;
	for (uint32_t i = 0; i < array_size(clock_names); i++)
		c->clock = strcmp(clock, clock_names[i]) == 0 ? i : c->clock;
	return c->key[0] == '\0' ? 0 : read_signature(from, c->signature);
}

int checkpoint_read(struct slice line, struct checkpoint *ret)
{
	struct checkpoint c = {.clock = CHECKPOINT_CLOCK_UNKNOWN};
	struct audit_read read = {.visit = read_visit, .arg = &c};
	int r = audit_read_line(&read, line);
	if (r < 0 || read.lines == 0)
		return -EBADMSG;
	*ret = c;
	return 0;
}
