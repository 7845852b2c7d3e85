/*
 * What launcher, netd and the proxy's super say to one another. Three seqpacket channels:
 * launcher-netd (which is also the lease: its end is the eviction), launcher-super, netd-super. A service is the launcher of both
 * programs; what it says to the launchers of sandboxes is in service.h.
 * Structs are fixed-size, zero-filled, host byte order; text is NUL-terminated; each message starts with its kind.
 */
#ifndef ECLUSA_IPC_MESSAGE_H
#define ECLUSA_IPC_MESSAGE_H

#include "common/address.h"
#include "common/id.h"
#include "common/reason.h"

#include <assert.h>

enum message_kind {
	MESSAGE_FAILED = 1,      /* anyone: what was asked could not be done */
	MESSAGE_NETD_START,      /* launcher -> netd */
	MESSAGE_LEASE,           /* launcher -> netd */
	MESSAGE_LEASE_GRANTED,   /* netd -> launcher, with the sandbox's network namespace */
	MESSAGE_COUNTERS,        /* launcher -> netd: bare header */
	MESSAGE_COUNTERS_READ,   /* netd -> launcher */
	MESSAGE_LISTENERS,       /* netd -> super, with listeners and the dial guard's socket */
	MESSAGE_SANDBOX_ADD,     /* netd -> super */
	MESSAGE_SANDBOX_ADDED,   /* super -> netd, after the worker acknowledged */
	MESSAGE_SANDBOX_REMOVE,  /* netd -> super; flows are cut */
	MESSAGE_PROXY_START,     /* launcher -> super, with descriptors */
	MESSAGE_PROXY_READY,     /* super -> launcher */
	MESSAGE_PROXY_SERVE,     /* super -> worker: bare header; it knows its sandboxes now */
	MESSAGE_PROXY_LEAVE,     /* launcher -> super -> workers: quit after the last connection */
	MESSAGE_PROXY_FINISH,    /* launcher -> super: bare header; end flows, record, quit */
	MESSAGE_PROXY_FINISHED,  /* super -> launcher: bare header; everything is recorded */
	MESSAGE_POLICY,          /* launcher -> super, with a bundle: the policy from now on */
	MESSAGE_POLICY_ANSWER,   /* super -> launcher: it is in force, or was refused */
	MESSAGE_POLICY_REJECTED, /* launcher -> super: there was one that is no policy; recorded */
	MESSAGE_POLICY_PREPARE,  /* super -> keeper and workers, with a bundle: compile it */
	MESSAGE_POLICY_PREPARED, /* their answer */
	MESSAGE_POLICY_COMMIT,   /* super -> keeper and workers: what was prepared is in force */
	MESSAGE_POLICY_DROP,     /* super -> keeper and workers: it is not */
	MESSAGE_SEGMENT_WANTED,  /* super -> launcher: bare header; the log's file has its size */
	MESSAGE_SEGMENT,         /* launcher -> super, with a file: the log goes on there */
	MESSAGE_SEGMENT_TAKEN,   /* super -> launcher: bare header; its first line is written */
	MESSAGE_LEASE_PLACED, /* netd -> launcher, what LEASE_GRANTED says later: it is not served yet */
	MESSAGE_PROXY_CA, /* super -> launcher, what PROXY_READY says later: it does not serve yet */
	MESSAGE_NETD_FINISH,     /* launcher -> netd: bare header; nobody is left who dials, quit */
	MESSAGE_SANDBOX_REFUSED, /* super -> netd: its worker can't serve it */
	MESSAGE_SANDBOX_REMOVED, /* worker -> super: its flows are cut, their events in the ring */
	MESSAGE_SANDBOX_RECORDED, /* super -> launcher, if it asked for that: and in the log */
};

struct message_header {
	uint32_t kind;
	uint32_t reserved;
};

#define MESSAGE_TEXT_BYTES   1024
#define MESSAGE_DIGEST_BYTES 72 /* of a profile, as text */
#define MESSAGE_NAME_BYTES   64
#define MESSAGE_SIGNER_BYTES                                                                       \
	24 /* id of the key that signed a policy; "": no signature was asked for */
#define MESSAGE_OPENED_MAX    256
#define MESSAGE_CAPTURED_MAX  256
#define MESSAGE_RESOLVERS_MAX 4
#define MESSAGE_WORKERS_MAX   8

struct message_failed {
	struct message_header header;
	int32_t code; /* negative errno */
	uint32_t reserved;
	char text[MESSAGE_TEXT_BYTES];
};

/** An address and port that the dial guard lets the proxy's uid reach beyond public ones. */
struct message_opened {
	struct cidr prefix;
	uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP; 0 = both */
	uint8_t reserved;
	uint16_t port_first, port_last;
};

struct message_netd_start {
	struct message_header header;
	uint32_t workers;
	uint32_t proxy_uid; /* uid of the dial guard's subject; used only with dial_guard */
	uint32_t
		dial_guard; /* 1: root of the initial user namespace, load it in the current network namespace */
	uint32_t opened_count;
	struct message_opened opened[MESSAGE_OPENED_MAX];
	uint32_t captured_count;
	uint32_t
		leases; /* 0: the launcher's channel is the one lease; else that many at once, each MESSAGE_LEASE with a channel */
	uint32_t ready; /* namespaces with cables that are kept ready for leases */
	uint32_t reserved;
	struct cidr captured[MESSAGE_CAPTURED_MAX]; /* IPv4, of ip: rules: may overlap */
};

struct message_lease {
	struct message_header header;
	char sandbox_id[SANDBOX_ID_BYTES];
	char profile[MESSAGE_NAME_BYTES];
};

struct message_lease_granted {
	struct message_header header;
	struct address sandbox; /* its own address */
	struct address service; /* where the proxy listens */
	uint16_t explicit_port;
	uint16_t reserved[3];
};

/** Classes under which the gateway counts refusals, per sandbox. */
enum packet_class {
	PACKET_PRIVATE,
	PACKET_LINK_LOCAL,
	PACKET_METADATA,
	PACKET_SPECIAL,     /* other special-purpose addresses */
	PACKET_PUBLIC,      /* public literal */
	PACKET_SERVICE,     /* other ports of the service address */
	PACKET_UDP,         /* UDP to any address */
	PACKET_CONNECTIONS, /* to a door, beyond what a sandbox may begin in a second */
	PACKET_QUESTIONS,   /* likewise, for names by UDP */
	PACKET_CLASS_COUNT
};

#define MESSAGE_SAMPLES_MAX 32

/** Refused packets to one place, as far as they were looked at one by one. */
struct message_sample {
	uint32_t class; /* enum packet_class */
	uint8_t destination[4];
	uint8_t protocol;
	uint8_t reserved;
	uint16_t port; /* 0: there is none */
	uint32_t reserved_2;
	uint64_t count;
};

struct message_samples {
	uint32_t count;
	uint32_t reserved;
	struct message_sample items[MESSAGE_SAMPLES_MAX];
};

struct message_counters_read {
	struct message_header header;
	uint64_t packets[PACKET_CLASS_COUNT]; /* all of them */
	struct message_samples samples;       /* some of these */
};

/** Listening sockets that a worker has, in the order in which their descriptors travel. */
enum listener_kind {
	LISTENER_EXPLICIT,    /* TCP, of a client that knows a proxy */
	LISTENER_TRANSPARENT, /* TCP that was meant for another address, which the socket tells */
	LISTENER_DNS_UDP,
	LISTENER_DNS_TCP,
	LISTENER_KIND_COUNT
};

/**
 * Descriptors: for each kind one a worker (SO_REUSEPORT, steered by source address), then the guard's netlink socket if
 * has_guard.
 */
struct message_listeners {
	struct message_header header;
	uint32_t count; /* of workers */
	uint32_t kinds; /* 1: explicit ones only, without a gateway; or LISTENER_KIND_COUNT */
	uint32_t has_guard;
	uint32_t reserved;
};

struct message_sandbox {
	struct message_header header;
	char sandbox_id[SANDBOX_ID_BYTES];
	char profile[MESSAGE_NAME_BYTES];
	struct address address; /* family 0: whoever comes, where the proxy runs alone */
};

/** MESSAGE_SANDBOX_REFUSED and MESSAGE_SANDBOX_RECORDED. */
struct message_sandbox_told {
	struct message_header header;
	char sandbox_id[SANDBOX_ID_BYTES];
	int32_t code; /* of RECORDED 0, or why the log lacks something; else negative errno */
	char text[MESSAGE_TEXT_BYTES]; /* of REFUSED */
};

/** Where the policy in force comes from. */
enum message_policy_origin {
	MESSAGE_POLICY_NEWEST,    /* the files as they are */
	MESSAGE_POLICY_LAST_GOOD, /* the files are none; a copy of what was in force before */
	MESSAGE_POLICY_ABSENT,    /* neither is there: everything is denied */
};

/**
 * Descriptors, in this order: policy bundle (memory file), audit segment, one ring a worker, system CA bundle,
 * then those that flags announce: upstream CA, hosts file (memory file), super's own ring, the CA's certificate and key, the
 * log's key, the metrics' memory, the upstream proxy (memory file).
 */
struct message_proxy_start {
	struct message_header header;
	uint32_t workers;
	uint32_t uid; /* run as this user; 0 = stay (ordinary user) */
	uint32_t has_upstream_ca;
	uint32_t has_hosts;
	uint32_t resolver_count;
	uint32_t has_own_ring; /* for events about the policy: it can change while the proxy runs */
	uint32_t has_ca;
	uint32_t has_audit_key; /* what signs the log's checkpoints */
	uint32_t policy_origin; /* enum message_policy_origin */
	uint32_t ca_lifetime_s; /* of a CA that the keeper makes; 0: a run's */
	uint32_t has_metrics;   /* workers count in memory that the launcher sees: one a worker */
	uint32_t has_upstream_proxy;
	uint32_t says_recorded; /* MESSAGE_SANDBOX_RECORDED is wanted */
	uint32_t reserved;
	uint64_t
		segment_bytes; /* another file of the log is asked for at this size; 0: there is one */
	char profile[MESSAGE_NAME_BYTES]; /* whose digests events about the policy tell */
	char policy_signer[MESSAGE_SIGNER_BYTES];
	struct {
		struct address address;
		uint16_t port;
	} resolvers[MESSAGE_RESOLVERS_MAX];
};

#define MESSAGE_CA_PEM_BYTES 4096

struct message_proxy_ready {
	struct message_header header;
	uint32_t ca_len;
	uint32_t reserved;
	char ca_pem[MESSAGE_CA_PEM_BYTES]; /* the CA certificate that sandboxes must trust */
};

/** MESSAGE_POLICY, with a bundle, and MESSAGE_POLICY_REJECTED, without. */
struct message_policy {
	struct message_header header;
	uint32_t origin;                  /* enum message_policy_origin */
	uint32_t errors;                  /* how much is wrong with the files */
	char profile[MESSAGE_NAME_BYTES]; /* whose digests are told */
	char signer[MESSAGE_SIGNER_BYTES];
	char text[MESSAGE_TEXT_BYTES]; /* what is wrong with them first; empty: nothing */
};

struct message_policy_answer {
	struct message_header header;
	int32_t code; /* 0, or why the policy before stays in force */
	uint32_t reserved;
	char before[MESSAGE_DIGEST_BYTES];
	char after[MESSAGE_DIGEST_BYTES];
	char text[MESSAGE_TEXT_BYTES];
};

/** MESSAGE_POLICY_PREPARE, _PREPARED, _COMMIT and _DROP. */
struct message_policy_step {
	struct message_header header;
	uint32_t version; /* counts up; an answer to an older one is none */
	int32_t code;     /* of _PREPARED: 0 or negative errno */
	uint32_t origin;
	uint32_t reserved;
};

/** MESSAGE_SEGMENT, with the file; its first line names what is here. */
struct message_segment {
	struct message_header header;
	uint64_t index_last; /* where the folder's index is: see audit/index.h */
	char index_head[MESSAGE_DIGEST_BYTES];
	char before[MESSAGE_TEXT_BYTES]; /* name of the file that ends */
};

static_assert(sizeof(struct message_header) == 8, "wire size");
static_assert(sizeof(struct message_failed) == 16 + MESSAGE_TEXT_BYTES, "wire size");

const char *packet_class_name(enum packet_class class);
/** How the log says that packets of a class were refused. Never NULL. */
struct packet_words {
	enum reason reason;
	const char *words;
	const char *detail; /* NULL: what the reason says */
};
const struct packet_words *packet_class_words(enum packet_class class);

/** Send MESSAGE_FAILED. Errors are ignored: the peer learns from the end of the channel. */
void message_send_failed(int fd, int code, const char *text);

#endif
