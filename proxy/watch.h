/*
 * Which folders hold a policy's files, and whether something happened in them. Editors replace files, and so do mounts of
 * configuration, so folders are watched, not files; what changed is found out by reading all of it again.
 */
#ifndef ECLUSA_PROXY_WATCH_H
#define ECLUSA_PROXY_WATCH_H

#include "common/failure.h"
#include "common/slice.h"

struct watch {
	int fd; /* inotify, readable when something happened; -1: nothing is watched */
};

#define WATCH_NONE ((struct watch){.fd = -1})

int watch_open(struct watch *ret, struct failure *why);
void watch_close(struct watch *w);
/**
 * Watch the folder of @path (a file or the folder itself), that of what a link there names, and those of every text in
 * @bundle, beside those that are watched. Folders that are not there are left out. @return 0 or negative errno.
 */
int watch_add(struct watch *w, const char *path, struct slice bundle);
/** Take what happened; it does not say what. @return whether anything did. */
bool watch_drain(struct watch *w);

#endif
