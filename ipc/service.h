/*
 * The socket of a service that gives networks to sandboxes: who may use it, and what a launcher and the service say on it. Seqpacket;
 * a connection is one lease, its end is the lease's. Structs as in message.h: fixed size, zero-filled, text NUL-terminated.
 *
 *   launcher                          service
 *   SERVICE_LEASE                 ->
 *                                 <-  SERVICE_GRANTED with the network namespace, or MESSAGE_FAILED
 *   MESSAGE_COUNTERS              ->      (the sandbox has ended)
 *                                 <-  MESSAGE_COUNTERS_READ, once its flows are cut and recorded
 *   SERVICE_EVENT, again and again -> the last one is sandbox.exit
 *   SERVICE_LINES                 ->
 *                                 <-  SERVICE_LINES_READ with the log's lines of this sandbox
 */
#ifndef ECLUSA_IPC_SERVICE_H
#define ECLUSA_IPC_SERVICE_H

#include "common/failure.h"
#include "ipc/message.h"

#include <sys/types.h>

#define SERVICE_SOCKET "/run/eclusa/serve"

#define SERVICE_ARGV_BYTES  4096 /* words of a command line, each with its NUL: the log has less */
#define SERVICE_WORDS_MAX   512
#define SERVICE_FILES_MAX   32
#define SERVICE_NAME_BYTES  256
#define SERVICE_TEXT_BYTES  640 /* more than the log keeps of one */
#define SERVICE_PATH_BYTES  1024
#define SERVICE_EVENTS_MAX  128                  /* of one sandbox, its start not counted */
#define SERVICE_LINES_BYTES ((uint64_t)16 << 20) /* of the log, that one sandbox gets at its end */

enum service_kind {
	SERVICE_LEASE = 1000, /* apart from message_kind: MESSAGE_FAILED is said here, too */
	SERVICE_GRANTED,
	SERVICE_EVENT,
	SERVICE_LINES,
	SERVICE_LINES_READ,
};

struct service_file {
	char name[SERVICE_NAME_BYTES];
	uint64_t size;
	char sha256[MESSAGE_DIGEST_BYTES]; /* "": not known */
};

/** What a launcher says of its own sandbox. Who it is, profile and policy are the service's to say. */
struct service_event {
	struct message_header header;
	uint32_t class, activity, reason; /* as in audit/event.h and common/reason.h */
	uint32_t words;                   /* in argv */
	int32_t exit_code, signal;
	uint64_t start_ms, end_ms, count, wall_ms, cpu_ms, memory_peak_bytes;
	struct address destination; /* family 0: none */
	uint16_t destination_port;
	uint16_t reserved[3];
	uint32_t file_count; /* how many there are: the first SERVICE_FILES_MAX are in files */
	uint32_t reserved_2;
	char verdict[MESSAGE_NAME_BYTES];
	char door[MESSAGE_NAME_BYTES];
	char address_class[MESSAGE_NAME_BYTES];
	char subject[SERVICE_TEXT_BYTES];
	char rule_text[SERVICE_TEXT_BYTES];
	char detail[SERVICE_TEXT_BYTES];
	char argv[SERVICE_ARGV_BYTES]; /* one word behind the other */
	struct service_file files[SERVICE_FILES_MAX];
};

struct service_lease {
	struct message_header header;
	char profile[MESSAGE_NAME_BYTES];
	struct service_event start; /* sandbox.start */
};

/** With the namespace, and, if has_roots, a file with the roots that the proxy trusts beside the system's. */
struct service_granted {
	struct message_header header;
	struct message_lease_granted lease;
	char sandbox_id[SANDBOX_ID_BYTES];
	char profile[MESSAGE_NAME_BYTES];
	char policy[MESSAGE_DIGEST_BYTES]; /* digest of the profile's rules */
	char log[SERVICE_PATH_BYTES];      /* path of the file where its start is */
	uint32_t has_roots;
	uint32_t ca_len;
	char ca_pem[MESSAGE_CA_PEM_BYTES];
};

struct service_lines_read {
	struct message_header header;
	int32_t code; /* 0: all that there is; else negative errno, and something is not in the log or not in the lines */
	uint32_t reserved;
};

static_assert(sizeof(struct service_lease) < 32768, "one message");

/** Listen; a socket that a dead process left there is replaced, no other file is. @return descriptor, non-blocking, or negative errno. */
int service_listen(const char *path, struct failure *why);
/** Accept one that may ask: root. @return descriptor, non-blocking; -EAGAIN: nobody; -EPERM: who may not, told so; another negative errno. */
int service_accept(int listener_fd, uid_t *ret_uid, pid_t *ret_pid);
/** @return connected descriptor, blocking, or negative errno with a line for the user; -EPERM: it is not root who listens. */
int service_connect(const char *path, struct failure *why);

#endif
