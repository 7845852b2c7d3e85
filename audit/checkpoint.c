/* See checkpoint.h. The text that is signed is lines of words, so that a person can make it again with printf and check it with openssl. */
#include "audit/checkpoint.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/timex.h>

#define TEXT_BYTES 512

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
static int read_text(json_t *from, const char *key, bool optional, char *to, size_t capacity)
{
	json_t *value = json_object_get(from, key);
	if (value == NULL && optional) {
		to[0] = '\0';
		return 0;
	}
	const char *text = json_string_value(value);
	return text == NULL || slice_copy(slice_of(text), to, capacity) < 0 ? -EBADMSG : 0;
}

static int read_number(json_t *from, const char *key, uint64_t max, uint64_t *ret)
{
	json_t *value = json_object_get(from, key);
	json_int_t number = json_integer_value(value);
	if (!json_is_integer(value) || number < 0 || (uint64_t)number > max)
		return -EBADMSG;
	*ret = (uint64_t)number;
	return 0;
}

static int read_signature(json_t *from, unsigned char to[static SIGN_SIGNATURE_BYTES])
{
	char text[2 * SIGN_SIGNATURE_BYTES + 1];
	if (read_text(from, "signature", false, text, sizeof(text)) < 0 ||
		strlen(text) != 2 * SIGN_SIGNATURE_BYTES)
		return -EBADMSG;
	for (size_t i = 0; i < SIGN_SIGNATURE_BYTES; i++) {
		uint64_t byte;
		if (slice_hex((struct slice){text + 2 * i, 2}, UINT8_MAX, &byte) < 0)
			return -EBADMSG;
		to[i] = (unsigned char)byte;
	}
	return 0;
}

static int read_object(json_t *from, struct checkpoint *c)
{
	char clock[16];
	uint64_t error;
	if (read_text(from, "of", false, c->chain, sizeof(c->chain)) < 0 ||
		read_text(from, "head", false, c->head, sizeof(c->head)) < 0 ||
		read_text(from, "policy", true, c->policy, sizeof(c->policy)) < 0 ||
		read_text(from, "clock", false, clock, sizeof(clock)) < 0 ||
		read_text(from, "key", true, c->key, sizeof(c->key)) < 0 ||
		read_number(from, "first", UINT64_MAX, &c->first) < 0 ||
		read_number(from, "last", UINT64_MAX, &c->last) < 0 ||
		read_number(from, "time", UINT64_MAX, &c->time_ms) < 0 ||
		read_number(from, "clock_error_us", UINT32_MAX, &error) < 0)
		return -EBADMSG;
	c->clock_error_us = (uint32_t)error;
	c->clock = CHECKPOINT_CLOCK_UNKNOWN;
	for (uint32_t i = 0; i < array_size(clock_names); i++)
		c->clock = strcmp(clock, clock_names[i]) == 0 ? i : c->clock;
	return c->key[0] == '\0' ? 0 : read_signature(from, c->signature);
}

int checkpoint_read(struct slice line, struct checkpoint *ret)
{
	struct checkpoint c = {0};
	json_t *event = json_loadb(line.ptr, line.len, JSON_REJECT_DUPLICATES, NULL);
	json_t *ours = json_object_get(json_object_get(event, "unmapped"), "eclusa");
	json_t *object = json_object_get(ours, "checkpoint");
	int r = object == NULL ? -EBADMSG : read_object(object, &c);
	json_decref(event);
	if (r == 0)
		*ret = c;
	return r;
}
