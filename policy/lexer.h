/*
 * Policy text into lines of tokens. Knows quotes, comments, continuation and forbidden bytes, and nothing
 * of what a word means. Input: files of the policy's owner, judged as if they were hostile.
 */
#ifndef ECLUSA_POLICY_LEXER_H
#define ECLUSA_POLICY_LEXER_H

#include "policy/report.h"

#define LEXER_LINE_BYTES_MAX 4096
#define LEXER_TOKENS_MAX     256 /* of one statement */

/** A word, quotes included. Points into the text. */
struct token {
	struct slice text;
	unsigned line;
	unsigned column;
};

/** A statement: a line with those that continue it. */
struct statement_line {
	struct token tokens[LEXER_TOKENS_MAX];
	size_t count;
};

struct lexer {
	const char *file;
	struct slice rest;
	unsigned line;  /* of the next line of the text */
	bool line_only; /* no continuation: one line, one statement */
	bool cr_told;   /* a file has them on each line or on none: said once */
	struct policy_report *report;
};

void lexer_init(
	struct lexer *l, const char *file, struct slice content, struct policy_report *report);
/**
 * The next statement. One with a forbidden byte, an open quote or too many bytes or tokens is reported and
 * left out. @return false at the end.
 */
bool lexer_next(struct lexer *l, struct statement_line *ret);

#endif
