/*
 * Files of the audit folder, handed from the process that may open them (eclusa-export itself, which parses nothing of them) to the
 * processes of sinks, which may open nothing there. One question and one answer at a time over a channel.
 */
#ifndef ECLUSA_EXPORT_FOLDER_H
#define ECLUSA_EXPORT_FOLDER_H

#include "common/failure.h"
#include "common/slice.h"

#define FOLDER_NAME_BYTES                                                                          \
	128 /* of a file in the audit folder, NUL included; longer ones are none of ours */
#define FOLDER_SUFFIX ".jsonl"

/** A name of a file of events, or of the index: letters, digits, '.', '_', '-', not led by '.', with the suffix. */
bool folder_name_is_valid(struct slice name);
/** Answer the question that waits in @channel. @return 0; 1: the other end is closed; negative errno: no question of ours. */
int folder_answer(int folder_fd, int channel);
/** Ask for a file. @return descriptor, -ENOENT, another negative errno (-EPIPE: the other end is closed). */
int folder_ask(int channel, const char *name);
/** Ask for the folder, to list it and nothing else. */
int folder_ask_list(int channel);

#endif
