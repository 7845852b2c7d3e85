/*
 * The system calls that a process of ours keeps, built from tables: whatever is not named fails with EPERM. For processes that live for long and
 * read what strangers wrote; a sandbox's own filter is another (sandbox-launcher/filter.h). Tables are of the caller, and so are which calls and why.
 */
#ifndef ECLUSA_COMMON_CALL_FILTER_H
#define ECLUSA_COMMON_CALL_FILTER_H

#include <stddef.h>
#include <stdint.h>

#define CALL_FILTER_EVERYBODY (~0U)

/** A call that is for some processes, whatever its arguments. */
struct call_rule {
	unsigned who; /* bits of the caller's */
	int number;   /* SCMP_SYS() */
};

/** One of a call's commands: argument @at, counted from 0, has this value. */
struct call_command {
	unsigned who;
	int number;
	unsigned value;
	unsigned at;
};

/** While it is built. Errors stick: call_filter_load() tells the first. */
struct call_filter {
	void *context;
	unsigned who;
	int error;
};

/** For a process that is any of @who. To be loaded, also after an error. */
void call_filter_begin(struct call_filter *f, unsigned who);
void call_filter_allow(struct call_filter *f, const struct call_rule *rules, size_t count);
void call_filter_allow_commands(
	struct call_filter *f, const struct call_command *commands, size_t count);
/** These are what libraries look for and do well without: they fail with ENOENT. */
void call_filter_absent(struct call_filter *f, const int *numbers, size_t count);
/** No honest bug leads to these: they kill the process. */
void call_filter_fatal(struct call_filter *f, const int *numbers, size_t count);
/** Memory that is mapped stays data: nothing becomes executable. */
void call_filter_data_memory(struct call_filter *f);
/** New threads, that ask clone(2) for all bits of @flags that are in @mask. clone3() has its flags in memory, where no filter looks: there is none. */
void call_filter_threads(struct call_filter *f, uint64_t mask, uint64_t flags);
/** New sockets of a family, for streams and datagrams. */
void call_filter_sockets(struct call_filter *f, unsigned family);
/** A socket that asks the kernel for routes and addresses. */
void call_filter_route_socket(struct call_filter *f);
/** Holds from here on, for good. Releases @f. @return 0 or negative errno. */
int call_filter_load(struct call_filter *f);

#endif
