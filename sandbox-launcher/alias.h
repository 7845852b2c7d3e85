/*
 * The same file at a further place of the new root, while it is built. The place may lie in a folder of the host's, or of a root
 * that somebody else made: links in it are followed, and never out of the new root.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_ALIAS_H
#define ECLUSA_SANDBOX_LAUNCHER_ALIAS_H

/**
 * Show the file @of (absolute in the new root, which is the working directory) at @path, relative to it: over the file that is there,
 * else by a link. Where neither can be, since a read-only folder has no such file, nothing is done. @return 0 or negative errno.
 */
int alias_place(const char *path, const char *of);

#endif
