/* Files and descriptors: whole reads with a limit, whole writes, private folders, sealed memory files. */
#ifndef ECLUSA_COMMON_FILE_H
#define ECLUSA_COMMON_FILE_H

#include "common/buf.h"

#include <sys/types.h>

/** Read to the end, at most @limit bytes. @return 0, -EFBIG, another negative errno. Appends to @to. */
int file_read_fd(int fd, size_t limit, struct buf *to);
/** All of a short file, such as a key, without a copy of it anywhere else. @return its length; -EFBIG: @capacity or more; negative errno. */
int file_read_short(int fd, char *to, size_t capacity);
/** Open (O_RDONLY|O_CLOEXEC relative to @dirfd) and read. */
int file_read(int dirfd, const char *path, size_t limit, struct buf *to);
/** Write all of it, going on after short writes and EINTR; waits where @fd is non-blocking. */
int file_write_all(int fd, struct slice text);
/**
 * Put a file in place as a whole, durably, or leave what was there: written beside under a name of its own, then renamed.
 * @return 0 or negative errno.
 */
int file_replace(const char *path, struct slice text, mode_t mode);
/** Write a short text to an existing file (sysctls, cgroups, uid maps). */
int file_write_text(int dirfd, const char *path, const char *text);
/** mkdir -p; new folders get @mode. @return 0 or negative errno. */
int file_make_dirs(const char *path, mode_t mode);
/** A sealed, read-only memory file with this content, CLOEXEC, position 0. @return descriptor or negative errno. */
int file_memory(const char *name, struct slice content);
/** Path of a program that belongs to us: beside /proc/self/exe, else in the libexec folder. */
int file_sibling_program(const char *name, char *ret_path, size_t capacity);
/** Random bytes from the kernel. Never fails after boot; aborts the process if it does. */
void random_bytes(void *to, size_t len);

#endif
