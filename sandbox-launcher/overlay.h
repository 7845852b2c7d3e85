/*
 * Shows a folder or file of the host through a read-only overlay of it: a socket or FIFO in it is then another inode, at
 * which nobody listens, and a lock on a file is not a lock on the host's. A read-only mount alone stops neither connect()
 * nor a FIFO. Runs in the sandbox's first process, whose working directory is the new root, before it leaves the host.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_OVERLAY_H
#define ECLUSA_SANDBOX_LAUNCHER_OVERLAY_H

#include "sandbox-launcher/view.h"

#define OVERLAY_ENTRIES_MAX 200000 /* looked at where the kernel refuses the overlay */
#define OVERLAY_DEPTH_MAX   64

/** Make, and later remove, the two places that overlay_show() works in. */
int overlay_begin(void);
int overlay_end(void);
/**
 * Place @item, whose path exists, of kind VIEW_INPUT or VIEW_INPUT_FILE. Where the kernel refuses the overlay, a
 * file is mounted as it is, and a folder only if it holds nothing but files, folders and links.
 */
int overlay_show(const struct view_item *item, struct failure *why);

/** A detached overlay of the folder in the first place of overlay_begin(), beside an empty folder `run`. @return descriptor or negative errno. */
int overlay_open(void);
/** Whether the tree at @fd (taken) holds regular files, folders and links only. -EBADMSG: not; -E2BIG: too much to say. */
int overlay_check_tree(int fd);

#endif
