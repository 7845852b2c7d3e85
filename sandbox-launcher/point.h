/*
 * The place in a new root where a mount of the caller's choice goes. Parts of the path may lie in trees that are somebody
 * else's: no link is followed, and nothing is made but in file systems that are ours.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_POINT_H
#define ECLUSA_SANDBOX_LAUNCHER_POINT_H

#include "common/failure.h"

#include <stddef.h>
#include <sys/types.h>

#define POINT_OURS_MAX    512
#define POINT_SHOWN_BYTES 256 /* of a path in a message: longer ones are cut */

/** File systems in which folders and files may be made, by device. */
struct point_ours {
	dev_t devices[POINT_OURS_MAX];
	size_t count;
};

/** @return 0 or negative errno. */
int point_is_ours(struct point_ours *ours, int fd);
/**
 * Open @path (relative, normal form) below @root, and make what is missing of it. @return a descriptor (O_PATH), or negative
 * errno with the reason in @why: -ELOOP when a link is in the way.
 */
int point_open(int root, const char *path, bool folder, const struct point_ours *ours,
	struct failure *why);
/** Mount @tree (detached) there. @return 0 or negative errno. */
int point_attach(int point, int tree);

#endif
