/*
 * Which folders a policy's files are in and are reached through, and whether something happened there that may change its text.
 * Editors replace files, mounts of configuration replace links, people rename folders: so folders are watched, not
 * files, and each folder on the way for the one name that leads on. What changed is found out by reading all of it again.
 */
#ifndef ECLUSA_PROXY_WATCH_H
#define ECLUSA_PROXY_WATCH_H

#include "common/failure.h"
#include "common/slice.h"

#include <limits.h>

#define WATCH_NAMES_MAX                                                                            \
	128 /* that are told apart; with more, whatever happens in the folders counts */
#define WATCH_LINKS_MAX 40 /* that one path leads through, as in the kernel */

/** A name in a folder that is watched. */
struct watch_name {
	int folder; /* of inotify */
	bool wanted;
	char name[NAME_MAX + 1]; /* "": any, and the folder itself */
};

struct watch {
	int fd; /* inotify, readable when something happened; -1: nothing is watched */
	size_t count;
	bool any; /* there were more */
	struct watch_name names[WATCH_NAMES_MAX];
};

#define WATCH_NONE                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

int watch_open(struct watch *ret, struct failure *why);
void watch_close(struct watch *w);
/**
 * Watch what a policy's text depends on: @path, a file or a folder, every text in @bundle, and every file that these include,
 * with all links and folders on the way. What is not there is waited for. @complete: the bundle is all of a policy, and
 * what was watched for others before is let go. @return 1: something is watched that was not, and may have changed before
 * it was; 0: nothing is, or @w is WATCH_NONE; negative errno: not all of it can be watched.
 */
int watch_renew(struct watch *w, const char *path, struct slice bundle, bool complete);
/** Take what happened; it does not say what. @return whether anything did that counts. */
bool watch_drain(struct watch *w);

#endif
