/*
 * --rootfs: a folder of the caller's as the root, in place of the host's files. Its content is nobody's to trust: it may hold
 * a link wherever something is to be mounted. So nothing is ever made or mounted in it: a layer of ours, with every place that
 * is needed, lies over it in a read-only overlay.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_ROOTFS_H
#define ECLUSA_SANDBOX_LAUNCHER_ROOTFS_H

#include "sandbox-launcher/view.h"

/** Open the folder. @return a detached read-only copy of its tree, or negative errno. */
int rootfs_open(const char *dir, struct failure *why);
/**
 * Before anything runs: each folder that the view needs is one in the tree, or absent. A link would be hidden by the layer, and
 * with it what it stands for, so it is refused: -ELOOP.
 */
int rootfs_check(const struct view *v, struct failure *why);

#define ROOTFS_LAYER ".layer" /* in the base, a tmpfs that is the working directory */

/** In the sandbox: the folder for the layer. */
int rootfs_begin(void);
/** Once it is filled: lay it over the tree. @return the root, mounted, or negative errno. */
int rootfs_merge(const struct view *v, struct failure *why);

#endif
