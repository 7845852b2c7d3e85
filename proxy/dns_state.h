/* The DNS server from inside: shared by dns.c and dns_tcp.c, and by nobody else. */
#ifndef ECLUSA_PROXY_DNS_STATE_H
#define ECLUSA_PROXY_DNS_STATE_H

#include "proxy/dns_note.h"
#include "proxy/worker_state.h"

struct dns_connection;

/** One a worker. */
struct dns_server {
	uv_poll_t udp, tcp;
	uv_timer_t notes; /* runs while there are any */
	struct address address;
	uint16_t port;
};

/** What a sandbox has here; made with its first question. */
struct dns_client {
	struct dns_notes *notes;
	uint64_t second_ms; /* of the loop's clock: when the count began */
	uint32_t questions; /* since then */
	unsigned connections;
	struct dns_connection *first;
};

/** Where a message came from. */
struct dns_from {
	struct address source;
	uint16_t source_port;
	bool udp;
};

/** @return NULL: no memory. */
struct dns_client *dns_client_of(struct sandbox *s);
/** The answer to a message. @return its length; 0: there is none. */
size_t dns_respond(struct worker *w, struct sandbox *s, const struct dns_from *from,
	struct slice message, char to[static DNS_MESSAGE_BYTES_MAX]);
/** Something that is wrong beside any question, for the log. */
void dns_complain(struct worker *w, struct sandbox *s, const struct dns_from *from,
	enum reason reason, const char *text);

/* dns_tcp.c */
void dns_tcp_accept(uv_poll_t *poll, int status, int events);
/** Without the client's knowledge: it was gone before, or is gone now. */
void dns_tcp_close_all(struct dns_client *c);

#endif
