/*
 * What the log gets to know of questions. A question that was denied, and the first one that was answered with an address, is noted; notes
 * of one second become events, one for each name and verdict with the number of its questions, so that neither a client that asks
 * again nor a flood of names makes a line for each question. Of more names than DNS_NOTES_MAX in that time those that were denied are
 * counted together, what was refused for anything else by its reason, and no other gets an address.
 */
#ifndef ECLUSA_PROXY_DNS_NOTE_H
#define ECLUSA_PROXY_DNS_NOTE_H

#include "proxy/dns_answer.h"

struct worker;
struct sandbox;
struct dns_notes; /* one sandbox's */

/** What was asked, how, and what was said to it. */
struct dns_asked {
	const struct dns_question *question;
	const struct dns_reply *reply;
	struct address source, proxy;
	uint16_t source_port, proxy_port;
	bool udp;
};

/** NULL: no memory. */
struct dns_notes *dns_notes_new(void);
bool dns_notes_have_room(const struct dns_notes *notes);
void dns_note(struct dns_notes *notes, struct worker *w, struct sandbox *s,
	const struct dns_asked *asked);
/** Write events of all there are, and free them. Accepts NULL. */
void dns_notes_write(struct dns_notes *notes, struct worker *w, struct sandbox *s);

#endif
