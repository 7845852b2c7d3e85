/*
 * What a sandbox will see of files, as a list that the launcher prepares: detached copies of host trees, links, small
 * texts, folders. Nothing is mounted here. Paths are relative to the new root and are ours; host paths come from a table.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_VIEW_H
#define ECLUSA_SANDBOX_LAUNCHER_VIEW_H

#include "common/address.h"
#include "common/buf.h"
#include "common/failure.h"

#include <sys/types.h>

#define VIEW_ITEMS_MAX  1024
#define VIEW_PATH_BYTES 320
#define VIEW_COPY_MAX   ((size_t)128 << 10)
#define VIEW_HOME       "/home/sandbox"

/**
 * From VIEW_INPUT on: what the caller named. It comes last, where it wants to be, through point.h; VIEW_INPUT* by
 * overlay_show(), VIEW_BIND* as it is and writable.
 */
enum view_kind {
	VIEW_FOLDER,
	VIEW_LINK,
	VIEW_TEXT,
	VIEW_ALIAS,
	VIEW_OWN,
	VIEW_PROC,
	VIEW_DEVICE,
	VIEW_TREE,
	VIEW_TREE_FILE,
	VIEW_INPUT,
	VIEW_INPUT_FILE,
	VIEW_COPY,
	VIEW_BIND,
	VIEW_BIND_FILE,
	VIEW_TMPFS
};

/** One thing at one place. */
struct view_item {
	enum view_kind kind;
	char path[VIEW_PATH_BYTES]; /* relative to the new root */
	struct slice
		text; /* VIEW_TEXT, VIEW_OWN, VIEW_PROC content, VIEW_LINK target, VIEW_ALIAS what it shows, VIEW_INPUT_FILE name in its folder; owned */
	uint64_t bytes; /* VIEW_TMPFS: its size */
	dev_t device;   /* VIEW_DEVICE: which one must be there */
	int tree; /* VIEW_TREE*, VIEW_INPUT*, VIEW_BIND*: detached mount, attributes set; -1 otherwise, and where overlay_needs_no_tree() */
	int layer; /* VIEW_INPUT_FILE: the same of its folder; -1: unknown */
};

struct view {
	struct view_item *items;
	size_t count;
	int rootfs; /* detached tree that takes the place of the host's files; -1: none; owned */
	size_t text_bytes; /* sum of texts: what the root's tmpfs must hold */
};

/** Whether the caller named it. */
static inline bool view_is_late(const struct view_item *item)
{
	return item->kind >= VIEW_INPUT;
}
bool view_is_folder(const struct view_item *item);

void view_init(struct view *v);
void view_fini(struct view *v);
/** The host's /usr, links beside it, few files of /etc, generated ones, devices. */
int view_add_host(struct view *v, struct failure *why);
/** In place of it, once v->rootfs is there: the places of ours in it, generated files, devices. */
int view_add_rootfs(struct view *v, struct failure *why);
/** Where names are asked for: @server, or nobody (NULL). */
int view_add_resolver(struct view *v, const struct address *server, struct failure *why);
int view_add_text(struct view *v, const char *path, struct slice text);
int view_add_folder(struct view *v, const char *path);
/** The file at @of (absolute) at @path, too, over what is there: alias.h. */
int view_add_alias(struct view *v, const char *path, const char *of);
/** A file of the program's own, which it may change, below a folder that it may write to; folders that lead there are made. */
int view_add_own(struct view *v, const char *path, struct slice text);
/** What is read in place of a file of /proc; nothing where this kernel has none of that name. */
int view_add_proc(struct view *v, const char *path, struct slice text);
/** Content of a file of the caller's, read-only. */
int view_add_copy(struct view *v, const char *path, struct slice text);
int view_add_tmpfs(struct view *v, const char *path, uint64_t bytes);
/** A folder or file of the caller's, to be written to. Takes @tree on success. */
int view_add_bind(struct view *v, const char *path, int tree, bool folder);
/** Takes @tree on success. */
int view_add_tree(struct view *v, const char *path, int tree, bool folder);
/** A folder of the caller's. Takes @tree on success. */
int view_add_input(struct view *v, const char *path, int tree);
/** A file of the caller's, called @name in the folder @layer (-1: unknown). Takes both descriptors on success. */
int view_add_input_file(struct view *v, const char *path, int tree, int layer, const char *name);

/** A detached copy of the mount tree at @fd (O_PATH) or @path, with these attributes. @return descriptor or negative errno. */
int view_open_tree(int fd, const char *path, uint64_t attributes);
/** A new detached tmpfs. @return descriptor or negative errno. */
int view_tmpfs(uint64_t bytes, uint64_t inodes, mode_t mode, uid_t uid, gid_t gid);

#endif
