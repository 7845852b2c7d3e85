/*
 * Public suffixes: under which names strangers register theirs. Asks libpsl's built-in list, so it works in
 * a process without a file system and gives the same answer in every program of one build.
 */
#ifndef ECLUSA_POLICY_SUFFIX_H
#define ECLUSA_POLICY_SUFFIX_H

enum suffix_kind {
	SUFFIX_NONE,
	SUFFIX_PUBLIC,  /* a registry's, or above one of a registry's: com, co.uk, kawasaki.jp */
	SUFFIX_UNKNOWN, /* one label that the list does not know: by its default rule a suffix */
	SUFFIX_HOSTING, /* a company's, whose customers get names below it: github.io */
	SUFFIX_KIND_COUNT
};

/** @name canonical, as host_parse() makes it. Allocates nothing that stays. */
enum suffix_kind suffix_classify(const char *name);

#endif
