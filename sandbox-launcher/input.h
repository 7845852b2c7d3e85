/*
 * Files and folders that the caller shows to a sandbox. Opened once, before anything runs; what was opened is what
 * appears. The caller's paths are the caller's own: links in them are followed.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_INPUT_H
#define ECLUSA_SANDBOX_LAUNCHER_INPUT_H

#include "sandbox-launcher/spec.h"
#include "sandbox-launcher/view.h"

#include <sys/stat.h>

struct input {
	char name
		[SPEC_PATH_BYTES]; /* as --in has it, in /work; of --bind the whole path, which begins with / */
	bool writable;
	char *source;
	int fd; /* O_PATH */
	struct stat st;
};

/** Whom the sandbox is, as the launcher sees it. */
struct input_user {
	bool root; /* the launcher is, of the initial user namespace */
	uid_t uid;
	gid_t gid;
};

/** Open "SRC[:NAME]"; regular files and folders that the caller may read. */
int input_open(const char *text, struct input *ret, struct failure *why);
/** Open the source of "SRC:DST[:rw]", likewise. */
int input_open_bind(const char *text, struct input *ret, struct failure *why);
void input_fini(struct input *in);
/**
 * Add it to the view at its place, to be overlaid unless it is writable. Root: an id-mapped mount in which its owner is the sandbox's user,
 * else a copy; an ordinary user (uid 0 of an own namespace, which the sandbox's uid maps to): a plain mount.
 */
int input_show(const struct input *in, const struct input_user *user, struct view *view,
	struct failure *why);

#endif
