/*
 * What the proxy's own DNS says to a question, from policy alone: nobody else is asked. A name on which some connection could be of use has an
 * address that stands for it in this sandbox; any other name there is not. Input: a question as a sandbox wrote it.
 */
#ifndef ECLUSA_PROXY_DNS_ANSWER_H
#define ECLUSA_PROXY_DNS_ANSWER_H

#include "policy/policy.h"
#include "proxy/dns_message.h"
#include "proxy/synthetic.h"

#define DNS_REPLY_TEXT_BYTES 320

/** Who asks, and when. */
struct dns_asker {
	const struct profile *profile;
	struct synthetic *synthetic;
	unsigned sandbox; /* its number there */
	uint64_t now_ms;  /* wall clock */
	/* why no name can have a first address now, which could not be recorded; REASON_ALLOW_RULE: it can */
	enum reason full;
};

/** The answer, and what is known of how it came about. */
struct dns_reply {
	struct dns_answer answer; /* its texts are of this struct */
	enum reason reason;
	bool recorded;                 /* it says no, or is the first with this address */
	struct policy_verdict verdict; /* @rule of it; where a name was judged */
	struct host host;              /* likewise; else its name is empty */
	const char *detail;            /* one sentence; a constant, or of this struct */
	char name
		[DNS_NAME_TEXT_BYTES]; /* that was asked for, for people; empty: there was none, or the root's */
	char text[DNS_REPLY_TEXT_BYTES];
};

/** @parsed: what dns_question_parse() said of the question. Gives the name an address if it is to have one. */
void dns_reply_make(const struct dns_asker *asker, const struct dns_question *q, int parsed,
	struct dns_reply *ret);
/** The reply where something beside the question is wrong: refused, whatever was asked. @text is a constant. */
void dns_reply_refuse(enum reason reason, const char *text, struct dns_reply *ret);

#endif
