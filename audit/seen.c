/* See seen.h. An open-addressing set of 128 bits each: 32 bytes an event at most. */
#include "audit/seen.h"

#include <errno.h>
#include <stdlib.h>

#define CAPACITY_MIN 1024

struct audit_uid {
	uint64_t high, low; /* both 0: an empty place */
};

static bool uid_parse(struct slice text, struct audit_uid *ret)
{
	uint64_t halves[2] = {0, 0};
	size_t digits = 0;
	for (size_t i = 0; i < text.len; i++) {
		uint64_t digit;
		if (text.ptr[i] == '-')
			continue;
		if (digits == 32 || slice_hex(slice_part(text, i, i + 1), 15, &digit) < 0)
			return false;
		halves[digits / 16] = halves[digits / 16] << 4 | digit;
		digits++;
	}
	*ret = (struct audit_uid){halves[0], halves[1]};
	return digits == 32 && (halves[0] | halves[1]) != 0;
}

static bool is_empty(const struct audit_uid *place)
{
	return (place->high | place->low) == 0;
}

/** Where this uid is, or the empty place for it. */
static struct audit_uid *place_of(const struct audit_seen *seen, struct audit_uid uid)
{
	size_t at = (size_t)((uid.low ^ uid.high) * UINT64_C(0x9e3779b97f4a7c15) >> 16);
	for (;; at++) {
		struct audit_uid *place = &seen->slots[at & (seen->capacity - 1)];
		if ((place->high == uid.high && place->low == uid.low) || is_empty(place))
			return place;
	}
}

static int grow(struct audit_seen *seen)
{
	struct audit_seen larger = {
		.capacity = seen->capacity == 0 ? CAPACITY_MIN : 2 * seen->capacity,
		.count = seen->count};
	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (larger.slots == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < seen->capacity; i++) {
		if (!is_empty(&seen->slots[i]))
			*place_of(&larger, seen->slots[i]) = seen->slots[i];
	}
	free(seen->slots);
	*seen = larger;
	return 0;
}

int audit_seen_add(struct audit_seen *seen, struct slice uid)
{
	struct audit_uid value;
	if (!uid_parse(uid, &value))
		return -EINVAL;
	if (2 * seen->count >= seen->capacity) {
		int r = grow(seen);
		if (r < 0)
			return r;
	}
	struct audit_uid *place = place_of(seen, value);
	if (!is_empty(place))
		return 0;
	*place = value;
	seen->count++;
	return 1;
}

void audit_seen_fini(struct audit_seen *seen)
{
	free(seen->slots);
	*seen = (struct audit_seen){0};
}
