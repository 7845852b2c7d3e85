/*
 * Which system calls a sandboxed program may make: the one table that the filter is compiled from, that refusals are
 * explained by, that docs/seccomp.md shows, and that the tests compare the kernel's answers with. What is in no row does
 * not exist (ENOSYS), which also holds for what a future kernel adds.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_FILTER_TABLE_H
#define ECLUSA_SANDBOX_LAUNCHER_FILTER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum filter_verdict {
	FILTER_ALLOW,
	FILTER_QUIET, /* fails in the kernel: programs ask for it in passing and go on without */
	FILTER_TELL,  /* fails, and the supervisor, which gives the answer, keeps a record */
	FILTER_ANSWER, /* done by the supervisor, which knows the sandbox; by the kernel where there is none */
};

enum filter_compare {
	FILTER_ANY = 0, /* no test */
	FILTER_IS,      /* the lower 32 bits are the value: what the kernel reads of an int */
	FILTER_BITS,    /* the lower 32 bits have one of the value's */
	FILTER_GIVEN,   /* a pointer that is not NULL */
};

struct filter_test {
	enum filter_compare how;
	uint8_t argument;
	uint32_t value;
	const char *text; /* for people */
};

#define FILTER_TESTS_MAX     2
#define FILTER_ARGUMENTS_MAX 6

/**
 * Rows of one call stand together; the first whose tests all hold decides, and the last has none. A row without number
 * opens a section: @name is its title, @why what holds for all of its rows that say nothing themselves.
 */
struct filter_row {
	int number; /* -1: opens a section */
	const char *name;
	enum filter_verdict verdict;
	int error; /* of QUIET and TELL; 0: the call is answered as done */
	struct filter_test tests[FILTER_TESTS_MAX];
	/* TELL: names of the arguments, in order; before one * means a text, @ the path that matters, & any other pointer */
	const char *arguments;
	bool bound;      /* left out where nothing of the host's can be written */
	const char *why; /* one sentence, with the remedy where there is one */
};

extern const struct filter_row FILTER_ROWS[];
extern const size_t FILTER_ROW_COUNT;

#define FILTER_NUMBER_MAX 511 /* of a row */
#define FILTER_X32_BIT    0x40000000u

/** The row that decides. NULL: there is none, the call does not exist. Of the native ABI. */
const struct filter_row *filter_judge(
	uint32_t number, const uint64_t arguments[static FILTER_ARGUMENTS_MAX]);
/** What a row is called in results and logs, such as "socket: domain = AF_PACKET". @return to */
const char *filter_row_name(const struct filter_row *row, char *to, size_t capacity);
/** The row's own sentence, or its section's. */
const char *filter_row_why(const struct filter_row *row);

#endif
