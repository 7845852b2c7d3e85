/* What a flow keeps while its connection is passed on as bytes. Inside of the data plane only. */
#ifndef ECLUSA_PROXY_PASSAGE_H
#define ECLUSA_PROXY_PASSAGE_H

#include "proxy/hello.h"
#include "proxy/lane.h"
#include "proxy/opening.h"

struct passage {
	struct lane up, down;
	bool ending; /* one direction was cut: the other has linger_ms for what is on its way */
	bool opening_seen;      /* the client's first bytes were judged, or need not be */
	struct opening opening; /* of a tcp rule's client */
	struct hello_scan scan; /* of a spliced client's next hello */
	size_t hello_len;       /* of the judged one, first in the client's input */
	bool may_retry;         /* the host may ask for a second one */
	bool retried;           /* and did */
};

#endif
