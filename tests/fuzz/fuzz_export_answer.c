/*
 * An answer of any content is read by each of the readers: none crashes, what they give is within its limits, and the counts fit. The
 * first byte is how many events it answers for. The same bytes as an event become a value of OTLP, which is JSON if they are.
 */
#include "common/cleanup.h"
#include "export/answer.h"
#include "export/otlp_value.h"
#include "export/walk.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void visit(void *arg, size_t index, const struct answer_item *item)
{
	size_t *visited = arg;
	if (index != *visited || item->status > 999 ||
		memchr(item->error, '\0', sizeof(item->error)) == NULL)
		abort();
	++*visited;
}

static void check_value(struct slice text)
{
	struct buf to = {.limit = 0};
	int result = otlp_value_write(text, &to);
	if (walk_line(text, NULL, 0, NULL) && result != 0)
		abort();
	if (result == 0 && walk_line(text, NULL, 0, NULL) && buf_len(&to) > 48 * text.len)
		abort();
	buf_fini(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t ids[] = {0, 1, UINT64_MAX};
	bool done[array_size(ids)];
	struct answer_hec hec;
	struct answer_otlp otlp;
	size_t visited = 0;
	if (size == 0)
		return 0;
	struct slice body = {(const char *)data + 1, size - 1};
	int result = answer_bulk(body, data[0], visit, &visited);
	if (visited != (result == 0 ? data[0] : 0U))
		abort();
	(void)answer_acks(body, ids, array_size(ids), done);
	(void)answer_hec(body, &hec);
	if (answer_otlp(body, &otlp) == 0 &&
		memchr(otlp.message, '\0', sizeof(otlp.message)) == NULL)
		abort();
	check_value(body);
	return 0;
}
