/* See tls_tickets.h. */
#include "common/cleanup.h"
#include "common/clock.h"
#include "proxy/tls_internal.h"

#include <stdlib.h>

#include <openssl/x509v3.h>

struct ticket {
	struct ticket *next;
	SSL_SESSION *session;
	uint64_t until_ns;
	struct host host;
	uint16_t port;
};

struct tls_tickets {
	struct ticket *first; /* the newest */
	uint32_t count;
	uint32_t lifetime_ms;
};

struct tls_tickets *tls_tickets_new(uint32_t lifetime_ms)
{
	struct tls_tickets *t = calloc(1, sizeof(*t));
	if (t != NULL)
		t->lifetime_ms = lifetime_ms;
	return t;
}

static void ticket_drop(struct tls_tickets *t, struct ticket **at)
{
	struct ticket *ticket = *at;
	*at = ticket->next;
	t->count--;
	SSL_SESSION_free(ticket->session);
	free(ticket);
}

void tls_tickets_free(struct tls_tickets *t)
{
	while (t != NULL && t->first != NULL)
		ticket_drop(t, &t->first);
	free(t);
}

int tls_tickets_keep(SSL *ssl, SSL_SESSION *session)
{
	const struct tls_session *s = SSL_get_app_data(ssl);
	struct tls_tickets *t = s->tickets;
	struct ticket *ticket = t == NULL ? NULL : malloc(sizeof(*ticket));
	if (ticket == NULL)
		return 0; /* not taken over */
	*ticket = (struct ticket){.next = t->first,
		.session = session,
		.until_ns = clock_monotonic_ns() + (uint64_t)t->lifetime_ms * NS_PER_MS,
		.host = s->name,
		.port = s->port};
	t->first = ticket;
	if (++t->count > TLS_TICKETS_MAX) {
		struct ticket **last = &t->first;
		while ((*last)->next != NULL)
			last = &(*last)->next;
		ticket_drop(t, last);
	}
	return 1;
}

/** Who the host is was verified when the session began; what time and name can change about it is looked at again. */
static bool still_valid(const struct ticket *ticket)
{
	X509 *x = SSL_SESSION_get0_peer((SSL_SESSION *)ticket->session);
	const struct host *host = &ticket->host;
	if (x == NULL || X509_cmp_current_time(X509_get0_notAfter(x)) <= 0)
		return false;
	if (host->kind == HOST_ADDRESS)
		return X509_check_ip(x, host->address.bytes, host->address.family == 6 ? 16 : 4,
			       TLS_HOST_FLAGS) == 1;
	return X509_check_host(x, host->name, 0, TLS_HOST_FLAGS, NULL) == 1;
}

/** Each ticket of TLS 1.3 serves once (RFC 8446 C.4): nobody sees by it that two connections belong together. */
static bool serves_once(const SSL_SESSION *session)
{
	return SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION;
}

void tls_tickets_use(struct tls_tickets *t, struct tls_session *s, uint16_t port)
{
	if (t == NULL)
		return;
	uint64_t now = clock_monotonic_ns();
	s->tickets = t;
	s->port = port;
	struct ticket **at = &t->first;
	while (*at != NULL) {
		struct ticket *ticket = *at;
		if (ticket->port != port || !host_equal(&ticket->host, &s->name)) {
			at = &ticket->next;
		} else if (ticket->until_ns <= now || !still_valid(ticket)) {
			ticket_drop(t, at);
		} else {
			(void)SSL_set_session(s->ssl, ticket->session); /* else a full handshake */
			if (serves_once(ticket->session))
				ticket_drop(t, at);
			return;
		}
	}
}
