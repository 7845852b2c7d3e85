/* See answer.h. */
#include "export/answer.h"

#include <errno.h>
#include <jansson.h>

#define STATUS_MAX 999

/** NULL when it is no JSON object. */
static json_t *load(struct slice body)
{
	json_t *answer = body.len == 0 ? NULL : json_loadb(body.ptr, body.len, 0, NULL);
	if (json_is_object(answer))
		return answer;
	json_decref(answer);
	return NULL;
}

static bool find_uint(const json_t *object, const char *name, uint64_t *ret)
{
	const json_t *value = json_object_get(object, name);
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(value);
	return true;
}

int answer_hec(struct slice body, struct answer_hec *ret)
{
	json_t *answer = load(body);
	const json_t *code = json_object_get(answer, "code");
	struct answer_hec found = {.ack_id = 0};
	int result = json_is_integer(code) ? 0 : -EBADMSG;
	if (result == 0) {
		found.code = json_integer_value(code);
		found.has_ack = find_uint(answer, "ackId", &found.ack_id);
		*ret = found;
	}
	json_decref(answer);
	return result;
}

int answer_acks(struct slice body, const uint64_t *ids, size_t count, bool *ret_done)
{
	json_t *answer = load(body);
	const json_t *acks = json_object_get(answer, "acks");
	int result = json_is_object(acks) ? 0 : -EBADMSG;
	for (size_t i = 0; result == 0 && i < count; i++) {
		char key[24];
		(void)snprintf(key, sizeof(key), "%llu", (unsigned long long)ids[i]);
		ret_done[i] = json_is_true(json_object_get(acks, key));
	}
	json_decref(answer);
	return result;
}

/** An item's one member is named for what was asked, which is always the same here. */
static bool find_item(const json_t *item, uint64_t *ret_status)
{
	return find_uint(json_object_get(item, "create"), "status", ret_status) &&
		*ret_status <= STATUS_MAX;
}

static void read_item(const json_t *item, struct answer_item *ret)
{
	const json_t *create = json_object_get(item, "create");
	const json_t *error = json_object_get(create, "error");
	const char *type = json_string_value(json_object_get(error, "type"));
	const char *reason = json_string_value(json_object_get(error, "reason"));
	uint64_t status = 0;
	(void)find_item(item, &status); /* looked at before */
	ret->status = (unsigned)status;
	(void)snprintf(ret->error, sizeof(ret->error), "%s%s%s", type == NULL ? "" : type,
		type == NULL || reason == NULL ? "" : ": ", reason == NULL ? "" : reason);
}

int answer_bulk(struct slice body, size_t count, answer_item_visit *visit, void *arg)
{
	json_t *answer = load(body);
	const json_t *items = json_object_get(answer, "items");
	bool good = json_is_array(items) && json_array_size(items) == count;
	uint64_t status;
	for (size_t i = 0; good && i < count; i++)
		good = find_item(json_array_get(items, i), &status);
	for (size_t i = 0; good && i < count; i++) {
		struct answer_item item;
		read_item(json_array_get(items, i), &item);
		visit(arg, i, &item);
	}
	json_decref(answer);
	return good ? 0 : -EBADMSG;
}

/** A number of 64 bits is a string, but some write a number. One that is of neither form counts as all. */
static uint64_t rejected(const json_t *partial)
{
	const json_t *count = json_object_get(partial, "rejectedLogRecords");
	uint64_t value = 0;
	if (count == NULL || find_uint(partial, "rejectedLogRecords", &value))
		return value;
	const char *text = json_string_value(count);
	return text != NULL && slice_decimal(slice_of(text), UINT64_MAX, true, &value) == 0
		? value
		: UINT64_MAX;
}

int answer_otlp(struct slice body, struct answer_otlp *ret)
{
	json_t *answer = load(body);
	if (answer == NULL && body.len != 0)
		return -EBADMSG;
	const json_t *partial = json_object_get(answer, "partialSuccess");
	const char *message = json_string_value(json_object_get(partial, "errorMessage"));
	ret->rejected = rejected(partial);
	(void)snprintf(ret->message, sizeof(ret->message), "%s", message == NULL ? "" : message);
	json_decref(answer);
	return 0;
}
