/*
 * What receivers answer, read: the event collector's word and acknowledgements, the items of a _bulk, OTLP's partial success. The one
 * place of the exporter that parses what comes from the network. It is not trusted: of the wrong form is an answer of somebody else.
 */
#ifndef ECLUSA_EXPORT_ANSWER_H
#define ECLUSA_EXPORT_ANSWER_H

#include "common/slice.h"

#define ANSWER_TEXT_BYTES 128 /* of a receiver's words, cut; any characters */

/** {"text":"Success","code":0,"ackId":7} */
struct answer_hec {
	int64_t code;
	bool has_ack;
	uint64_t ack_id;
};

/** @return 0; -EBADMSG: it has no code. */
int answer_hec(struct slice body, struct answer_hec *ret);

/** Whether an id of {"acks":{"1":true,"2":false}} is done. @return 0; -EBADMSG: no such answer. */
int answer_acks(struct slice body, const uint64_t *ids, size_t count, bool *ret_done);

/** An element of "items": {"create":{"status":400,"error":{"type":"...","reason":"..."}}} */
struct answer_item {
	unsigned status;
	char error[ANSWER_TEXT_BYTES]; /* type and reason; "" if there are none */
};

typedef void answer_item_visit(void *arg, size_t index, const struct answer_item *item);
/** Visit all items. @return 0; -EBADMSG, before anything is visited: not @count items that each have a status. */
int answer_bulk(struct slice body, size_t count, answer_item_visit *visit, void *arg);

/** {"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"..."}} */
struct answer_otlp {
	uint64_t rejected;
	char message[ANSWER_TEXT_BYTES];
};

/** An empty body rejects nothing. @return 0; -EBADMSG: no JSON object. */
int answer_otlp(struct slice body, struct answer_otlp *ret);

#endif
