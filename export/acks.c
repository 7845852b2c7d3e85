/* See acks.h. */
#include "export/acks.h"

#include "common/json.h"
#include "export/answer.h"

#include <errno.h>

int acks_add(struct acks *a, const struct ack *ack)
{
	if (a->count == ACKS_MAX)
		return -ENOSPC;
	a->waiting[a->count++] = *ack;
	return 0;
}

void acks_ask(const struct acks *a, struct buf *to)
{
	struct json j;
	json_open(&j, to);
	json_object(&j, NULL);
	json_array(&j, "acks");
	for (size_t i = 0; i < a->count; i++)
		json_uint(&j, NULL, a->waiting[i].id);
	json_array_end(&j);
	json_object_end(&j);
}

int acks_answer(struct acks *a, struct slice body)
{
	uint64_t ids[ACKS_MAX];
	bool done[ACKS_MAX];
	for (size_t i = 0; i < a->count; i++)
		ids[i] = a->waiting[i].id;
	int result = answer_acks(body, ids, a->count, done);
	for (size_t i = 0; result == 0 && i < a->count; i++)
		a->waiting[i].done |= done[i];
	return result;
}

bool acks_take(struct acks *a, struct ack *ret)
{
	for (size_t i = 0; i < a->count; i++) {
		if (!a->waiting[i].done)
			continue;
		*ret = a->waiting[i];
		a->count--;
		memmove(&a->waiting[i], &a->waiting[i + 1], (a->count - i) * sizeof(a->waiting[0]));
		return true;
	}
	return false;
}
