/*
 * Looking at the confinement from inside, as the program will find it, before the program runs. Each layer is asked by what
 * the kernel answers, not by what was asked of it. Runs in the sandbox's first process, behind the filter.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_PROBE_H
#define ECLUSA_SANDBOX_LAUNCHER_PROBE_H

#include "sandbox-launcher/cgroup.h"
#include "sandbox-launcher/layer.h"

#include <sys/types.h>

#define PROBE_NAMESPACES 7

/** Of the process that launches: what the sandbox's must differ from. */
struct probe_outside {
	ino_t namespaces[PROBE_NAMESPACES]; /* user mnt pid ipc uts cgroup net */
};

/** What init found. Travels in a message: plain data. */
struct probe_facts {
	uint32_t layers;      /* that hold: LAYER_BIT() */
	int32_t landlock_abi; /* applied; 0: none */
	uint32_t links;       /* network interfaces beside lo */
	uint64_t open_files;  /* RLIMIT_NOFILE */
};

int probe_outside(struct probe_outside *ret);
/** Before the cgroup namespace hides it: whether the caller is in @g, in every hierarchy that limits it. */
bool probe_cgroup(const struct cgroup *g);
/** After everything: fills in what it can see, and leaves LAYER_CGROUP, LAYER_NOTIFY, LAYER_DIAL_GUARD to others. */
void probe_inside(const struct probe_outside *outside, struct probe_facts *facts);

#endif
