/*
 * The layers of a sandbox, as `--require` and the receipt name them. Which there are, and which a run may go without; how
 * each is checked stands in probe.c.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_LAYER_H
#define ECLUSA_SANDBOX_LAUNCHER_LAYER_H

#include "common/slice.h"

enum layer {
	LAYER_NAMESPACES,
	LAYER_MOUNTS,
	LAYER_PROC,
	LAYER_CAPABILITIES,
	LAYER_NO_NEW_PRIVS,
	LAYER_FILTER,
	LAYER_RLIMITS,
	LAYER_NETWORK,
	/* the rest can lack: then the receipt says so, and --require refuses */
	LAYER_NOTIFY,
	LAYER_LANDLOCK,
	LAYER_CGROUP,
	LAYER_UID,
	LAYER_DIAL_GUARD,
	LAYER_COUNT
};

/** A set of them. */
#define LAYER_BIT(layer) (UINT32_C(1) << (layer))
#define LAYERS_ALWAYS    (LAYER_BIT(LAYER_NOTIFY) - 1)
#define LAYERS_ALL       (LAYER_BIT(LAYER_COUNT) - 1)

struct layer_info {
	const char *name;
	const char *verified; /* how, in a few words */
	const char *remedy;   /* where it lacks; NULL: none is known */
};

const struct layer_info *layer_info(enum layer layer);
/** "cgroup,landlock", "all". @return 0, or -EINVAL with the word that names none in *ret_unknown. */
int layers_parse(struct slice text, uint32_t *ret, struct slice *ret_unknown);
/** Names with ", " between them. @return to */
char *layers_text(uint32_t set, char *to, size_t capacity);

#endif
