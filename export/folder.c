/* See folder.h. A question is a name, or nothing for the list; an answer is an errno, and a descriptor when that is 0. */
#include "export/folder.h"

#include "audit/index.h"
#include "common/cleanup.h"
#include "ipc/channel.h"

#include <fcntl.h>

bool folder_name_is_valid(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = ascii_lower(name.ptr[i]);
		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' &&
			c != '.')
			return false;
	}
	return name.len > 0 && name.len < FOLDER_NAME_BYTES && name.ptr[0] != '.' &&
		slice_ends(name, SLICE(FOLDER_SUFFIX));
}

int folder_answer(int folder_fd, int channel)
{
	char name[FOLDER_NAME_BYTES];
	size_t fds = 0;
	/* One byte more than a name at the end: an empty message can't be told from an end. */
	int len = channel_receive(channel, name, sizeof(name), NULL, 0, &fds);
	if (len <= 0)
		return len == 0 ? 1 : len;
	name[len - 1] = '\0';
	auto_fd fd = -1;
	if (len == 1)
		fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else if (folder_name_is_valid(slice_of(name)))
		fd = openat(
			folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	else
		errno = EINVAL;
	int error = fd < 0 ? errno : 0;
	return channel_send(channel, &error, sizeof(error), &fd, error == 0 ? 1 : 0);
}

static int ask(int channel, const char *name)
{
	int error = 0;
	size_t fds = 0;
	auto_fd fd = -1;
	int r = channel_send(channel, name, strlen(name) + 1, NULL, 0);
	if (r < 0)
		return r;
	r = channel_receive(channel, &error, sizeof(error), &fd, 1, &fds);
	if (r <= 0)
		return r == 0 ? -EPIPE : r;
	if (r != sizeof(error) || (error == 0) != (fds == 1))
		return -EPROTO;
	return error != 0 ? -error : fd_take(&fd);
}

int folder_ask(int channel, const char *name)
{
	return ask(channel, name);
}

int folder_ask_list(int channel)
{
	return ask(channel, "");
}
