/*
 * Command lines of a family of tools, such as `eclusa policy lint ...`: which tool it is, its options, its words. All of it
 * by tables, so that every family reads and refuses in the same way.
 */
#ifndef ECLUSA_CLI_TOOL_H
#define ECLUSA_CLI_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#define TOOL_EXIT_USAGE 2
#define TOOL_EVERY      (~0U) /* an option of each tool */

/** The first member of a family's own struct, which adds what to run. */
struct tool {
	const char *name;
	const char *usage; /* words after the name, a newline, and what it does */
	unsigned options;  /* bits, whose meaning is the family's */
	size_t words_min, words_max;
};

enum tool_option_kind {
	TOOL_FLAG, /* sets a bool */
	TOOL_TEXT, /* sets a const char *, once */
	TOOL_LIST, /* adds to a const char *[] with room for every word of the line */
};

/** An option, and where its value goes in the struct that a line is taken apart into. The same word may stand for different tools. */
struct tool_option {
	const char *word;
	unsigned tools; /* of which tools it is one: any bit of theirs */
	enum tool_option_kind kind;
	size_t member;
	size_t count_member; /* of a list, a size_t */
};

struct tool_family {
	const char *name;  /* as it stands in messages */
	const void *tools; /* tool_count structs of tool_bytes each */
	size_t tool_count, tool_bytes;
	const struct tool_option *options;
	size_t option_count;
	const char *help; /* what --help says behind the list of tools */
};

/** A line, and what it came to. Words are those that are no options; they are moved to the front of argv. */
struct tool_line {
	int argc; /* argv[0] is the family's word */
	char **argv;
	void *to;                /* the family's struct, zero-initialised but for lists */
	const struct tool *tool; /* NULL: nothing is to be run */
	char **words;
	size_t word_count;
};

/** @return 0 with a tool to run; else the exit status: help was printed, or a line on stderr says what is wrong. */
int tool_take(const struct tool_family *f, struct tool_line *line);

/** One line on stderr, with @arg escaped. @return TOOL_EXIT_USAGE */
int tool_usage(const struct tool_family *f, const char *what, const char *arg);

#endif
