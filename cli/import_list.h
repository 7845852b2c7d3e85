/*
 * Names in the order in which a foreign list judges them, the first that fits deciding, into rules of which a deny beats every
 * allow. Where that is not possible without meaning something else the import is refused.
 */
#ifndef ECLUSA_CLI_IMPORT_LIST_H
#define ECLUSA_CLI_IMPORT_LIST_H

#include "cli/import.h"

enum import_reach {
	IMPORT_EXACT, /* h */
	IMPORT_APEX,  /* .h: the name and all below */
	IMPORT_BELOW, /* **.h: all below */
};

struct import_host {
	bool allow;
	enum import_reach reach;
	uint16_t port;    /* 0: what a rule means without one */
	const char *name; /* canonical */
	const char *place;
	struct slice written; /* as the source has it */
	uint32_t next;        /* in its hash chain: index + 1 */
	const char *dropped;  /* why it gets no rule: a comment tells */
	bool unsaid;          /* it has no words here; what follows from it is left out, too */
	bool after_allow;     /* a deny: an earlier allow overlaps */
};

struct import_list {
	struct import_host *hosts;
	size_t count;
	uint32_t *heads; /* of hash chains */
};

void import_list_fini(struct import_list *l);
/** Append one name; left out if it is none. @h gives allow, reach, port, place and written. */
void import_list_add(
	struct import *im, struct import_list *l, const struct import_host *h, struct slice name);
/** Write the rules, their expect lines, and a comment for each that gets none. */
void import_list_write(struct import *im, struct import_list *l);

#endif
