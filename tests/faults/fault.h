/*
 * A program that misbehaves in one way, chosen by its words: `fault [WRAPPER...] VERB [NUMBER]`. Wrappers say who does it
 * (a child, threads, a daemon ...), verbs what is done. Runs in a sandbox with small limits.
 */
#ifndef ECLUSA_TESTS_FAULTS_FAULT_H
#define ECLUSA_TESTS_FAULTS_FAULT_H

#include <stddef.h>
#include <stdint.h>

#define FAULT_FAILED 9                  /* exit status: a call failed, as it does at a limit */
#define FAULT_BYTES  ((size_t)96 << 20) /* what verbs take before they say that no limit was there */

/** @number: of the words, 0 if there is none. @return the exit status, if it comes to that. */
struct fault_verb {
	const char *name;
	int (*run)(uint64_t number);
};

/* Each ends with an element without a name. */
extern const struct fault_verb FAULTS_MEMORY[];
extern const struct fault_verb FAULTS_ENDS[];
extern const struct fault_verb FAULTS_TIME[];
extern const struct fault_verb FAULTS_FILES[];

/** Write all of it in parts, never to a stream of the C library. @return 0 or -1. */
int fault_write(int fd, const void *bytes, size_t len);

#endif
