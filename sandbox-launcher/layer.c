/* See layer.h. */
#include "sandbox-launcher/layer.h"

#include "common/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

static const struct layer_info LAYERS[] = {
	[LAYER_NAMESPACES] = {"namespaces",
		"the seven namespaces of the program are other ones than the launcher's", NULL},
	[LAYER_MOUNTS] = {"mounts",
		"the root is a file system of ours, read-only, and a file in it can't be made",
		NULL},
	[LAYER_PROC] = {"proc",
		"/proc is of the sandbox's own processes, a setting in it can't be opened for "
		"writing, what tells of memory, processors and load is made up, and no user "
		"namespace can be made below",
		NULL},
	[LAYER_CAPABILITIES] = {"capabilities", "all five sets are empty", NULL},
	[LAYER_NO_NEW_PRIVS] = {"no-new-privs", "the kernel says that it is set", NULL},
	[LAYER_FILTER] = {"filter",
		"a call in a refusing row got the row's errno, a call in no row got ENOSYS", NULL},
	[LAYER_RLIMITS] = {"rlimits", "core dumps, open files and message queues are bounded",
		NULL},
	[LAYER_NETWORK] = {"network",
		"the namespace has lo and at most the one cable to the gateway", NULL},
	[LAYER_NOTIFY] = {"notify", "the launcher holds the filter's listener",
		"start eclusa outside of what reads system calls by notification"},
	[LAYER_LANDLOCK] = {"landlock", "a device node was refused by it and not by the mounts",
		"boot a kernel with landlock in lsm="},
	[LAYER_CGROUP] = {"cgroup",
		"/proc/self/cgroup named the group, in each hierarchy with a limit",
		"run as root, or under `systemd-run --user --scope -p Delegate=yes`"},
	[LAYER_UID] = {"uid", "the uid map ends at a host uid that is not the launcher's",
		"run as root"},
	[LAYER_DIAL_GUARD] = {"dial-guard", "eclusa-netd loaded it before the proxy could dial",
		"run as root"},
};
static_assert(array_size(LAYERS) == LAYER_COUNT, "one row a layer");

const struct layer_info *layer_info(enum layer layer)
{
	return &LAYERS[layer];
}

static uint32_t layer_named(struct slice word)
{
	if (slice_equal(word, SLICE("all")))
		return LAYERS_ALL;
	for (int i = 0; i < LAYER_COUNT; i++)
		if (slice_equal(word, slice_of(LAYERS[i].name)))
			return LAYER_BIT(i);
	return 0;
}

int layers_parse(struct slice text, uint32_t *ret, struct slice *ret_unknown)
{
	struct slice rest = text, word;
	uint32_t set = 0;
	bool more = true;
	while (more) {
		more = slice_split(rest, ',', &word, &rest);
		if (!more)
			word = rest;
		uint32_t one = layer_named(word);
		if (one == 0) {
			*ret_unknown = word;
			return -EINVAL;
		}
		set |= one;
	}
	*ret = set;
	return 0;
}

char *layers_text(uint32_t set, char *to, size_t capacity)
{
	size_t used = 0;
	to[0] = '\0';
	for (int i = 0; i < LAYER_COUNT && used < capacity; i++) {
		if ((set & LAYER_BIT(i)) == 0)
			continue;
		int len = snprintf(
			to + used, capacity - used, "%s%s", used > 0 ? ", " : "", LAYERS[i].name);
		used += len > 0 ? (size_t)len : 0;
	}
	return to;
}
