/*
 * Asking a program of the user's own: found by PATH, without a shell, with few variables, for a bounded time and answer. As root
 * only where program, home and working folder are root's: the files that it obeys would be somebody else's otherwise.
 */
#ifndef ECLUSA_CLI_USER_TOOL_H
#define ECLUSA_CLI_USER_TOOL_H

#include "common/buf.h"
#include "common/failure.h"

#define USER_TOOL_BYTES_MAX    ((size_t)8 << 20)
#define USER_TOOL_TIME_MS      UINT64_C(60000)
#define USER_TOOL_PREFIXES_MAX 4

struct user_tool {
	const char *const *argv; /* NULL-terminated; argv[0] is looked for in PATH */
	/** Variables with these beginnings are passed on, beside PATH, HOME and those that name folders and users. */
	const char *prefixes[USER_TOOL_PREFIXES_MAX];
	bool network; /* proxies and roots of the user, too */
};

/**
 * Run it to its end and append what it wrote to standard output. Blocks, at most USER_TOOL_TIME_MS. @return 0; -ENOENT: there is
 * no such program; -EPERM: as root with somebody else's files; -ETIMEDOUT; -EFBIG; -EIO: it failed, with its last line; ...
 */
int user_tool_run(const struct user_tool *tool, struct buf *to, struct failure *why);

#endif
