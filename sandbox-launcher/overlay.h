/*
 * Shows a folder or file of the host through a read-only overlay of it: a socket or FIFO in it is then another inode, at
 * which nobody listens, and a lock on a file is not a lock on the host's. A read-only mount alone stops neither connect()
 * nor a FIFO. Runs in the sandbox's first process, whose working directory is a tmpfs of its own, before it leaves the host.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_OVERLAY_H
#define ECLUSA_SANDBOX_LAUNCHER_OVERLAY_H

#include "sandbox-launcher/view.h"

#define OVERLAY_ENTRIES_MAX 200000 /* looked at where the kernel refuses the overlay */
#define OVERLAY_DEPTH_MAX   64

/** Make, and later remove, the places in the working directory that overlay_show() works in. */
int overlay_begin(void);
int overlay_end(void);
/** What overlay_show() needs beside the item: where it goes, and the root that has the new /proc. */
struct overlay_place {
	int point, root;
};
/**
 * Place @item, of kind VIEW_INPUT or VIEW_INPUT_FILE. Where the kernel refuses the overlay, a
 * file is mounted as it is, and a folder only if it holds nothing but files, folders and links.
 */
int overlay_show(
	const struct view_item *item, const struct overlay_place *place, struct failure *why);

/**
 * What shows the system's own folders. Of /etc one overlay is made, of which folders and files are cut out: a file system of its own for
 * each, or a copy, would cost more to make and to end.
 */
struct overlay_host {
	int etc; /* the host's */
	enum {
		OVERLAY_ETC_UNKNOWN,
		OVERLAY_ETC_WHOLE,
		OVERLAY_ETC_EACH /* the kernel refuses it: each folder gets its own, each file is copied */
	} kind;
};
/** Before anything is mounted. */
int overlay_begin_host(struct overlay_host *h);
void overlay_end_host(struct overlay_host *h);
/**
 * Whether this folder or file of the host, by its absolute path, can be shown by that alone: it is a folder beside /etc, or in /etc and reached
 * by no link and no other mount. Its item then has no tree: one that nobody attaches ends by a grace period of RCU, which whoever
 * closes it waits for.
 */
bool overlay_needs_no_tree(const char *path, bool folder);
/**
 * Place @item, of the system's and of kind VIEW_TREE or (without a tree) VIEW_TREE_FILE, over what has its path in the working directory,
 * which holds `run`, as below. Where the kernel refuses the overlay, as it does where something is mounted in the folder, a folder is
 * mounted as it is. Covers OVERLAY_STAGE, which must be shown before what is in /etc. Needs no overlay_begin().
 */
int overlay_show_host(struct overlay_host *h, const struct view_item *item);
/* A folder that every host has, to mount over what ends with the host's tree. */
#define OVERLAY_STAGE "/usr"

/* Of overlay_begin(); one without an upper layer needs two: `run` is an empty folder of ours, which stays. */
#define OVERLAY_LAYERS ".lower:run"

/** A detached read-only overlay of these folders, relative. @return descriptor or negative errno. */
int overlay_open(const char *layers);
/** Whether another file system is mounted below the folder called @name, going by @mountinfo (proc_pid_mountinfo(5)): an overlay would hide it. */
bool overlay_hides(int fd, const char *mountinfo, const char *name);
/** Whether the tree at @fd (taken) holds regular files, folders and links only. -EBADMSG: not; -E2BIG: too much to say. */
int overlay_check_tree(int fd);

#endif
