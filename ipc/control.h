/*
 * The control socket of a running proxy: who may use it, and what is said on it. Seqpacket, one question and one answer
 * a connection; structs as in message.h. The server asks the kernel who its peer is: its own user, or root.
 */
#ifndef ECLUSA_IPC_CONTROL_H
#define ECLUSA_IPC_CONTROL_H

#include "common/failure.h"
#include "ipc/message.h"

#define CONTROL_NAME "control" /* in the state folder */

enum control_kind {
	CONTROL_RELOAD = 1, /* load the policy's files anew, whether they changed or not */
	CONTROL_ANSWER,
};

struct control_request {
	struct message_header header;
};

struct control_answer {
	struct message_header header;
	int32_t code;    /* 0: in force now; else negative errno, and what was in force stays */
	uint32_t origin; /* enum message_policy_origin: of what is in force now */
	char before[MESSAGE_DIGEST_BYTES];
	char after[MESSAGE_DIGEST_BYTES];
	char text[MESSAGE_TEXT_BYTES]; /* what is wrong: diagnostics, a line each */
};

/** Listen in a folder; a socket that a dead process left there is replaced. @return descriptor, non-blocking, or negative errno. */
int control_listen(int folder_fd, struct failure *why);
/** Accept one that may ask. @return descriptor, non-blocking; -EAGAIN: nobody; -EPERM: not that user; another negative errno. */
int control_accept(int listener_fd);
/** Ask the proxy that has this state folder, and wait for its answer until @deadline_ns. @return 0 or negative errno. */
int control_ask(const char *folder, enum control_kind question, uint64_t deadline_ns,
	struct control_answer *ret, struct failure *why);

#endif
