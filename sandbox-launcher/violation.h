/*
 * System calls that the filter refused, as they are told to people and programs: which call with which arguments, by whom,
 * and the row of the table that says no. Texts are the sandbox's: kept as bytes, escaped where they are shown.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_VIOLATION_H
#define ECLUSA_SANDBOX_LAUNCHER_VIOLATION_H

#include "common/buf.h"
#include "common/json.h"
#include "sandbox-launcher/filter_table.h"

#define VIOLATIONS_MAX       32  /* distinct ones of a run */
#define VIOLATION_TEXT_BYTES 256 /* of a path or another text, cut there */
#define VIOLATION_ROW_BYTES  128
#define VIOLATION_CALL_BYTES 1024

/** One distinct refusal: the same row, program and texts. */
struct violation {
	const struct filter_row *row;
	uint64_t arguments[FILTER_ARGUMENTS_MAX]; /* of the first time */
	char *texts[FILTER_ARGUMENTS_MAX]; /* owned; NULL: not a text, or it could not be read */
	char *executable;                  /* owned; NULL: not known */
	uint64_t count;
};

/** Zero-initialise; violations_fini(). */
struct violations {
	struct violation *items;
	size_t count;
	uint64_t left_out; /* refusals that found no room among the items */
	uint64_t total;
};

/** Take @v, whose owned texts are gone from it afterwards. Out of memory: it only counts. */
void violations_add(struct violations *list, struct violation *v);
void violations_fini(struct violations *list);
void violation_fini(struct violation *v);

/** What the argument at @index of a row's call is. */
enum violation_argument {
	VIOLATION_NONE, /* there is none */
	VIOLATION_NUMBER,
	VIOLATION_TEXT,
	VIOLATION_PATH,
	VIOLATION_POINTER,
};
enum violation_argument violation_argument(
	const struct filter_row *row, size_t index, struct slice *ret_name);

/** The path that the call names, NULL when it names none. Borrowed. */
const char *violation_path(const struct violation *v);
/** Such as `mount(source="none", target="/mnt", flags=0)`, escaped. @return to */
const char *violation_call(const struct violation *v, char *to, size_t capacity);
/** The members of an object of the result's `denials`. */
void violation_members(const struct violation *v, struct json *j);

#endif
