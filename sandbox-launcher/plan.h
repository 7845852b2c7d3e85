/*
 * Everything that can fail cheaply, before anything runs: inputs opened, the output folder checked, the policy compiled,
 * then the sandbox's uid, files and control group made ready. Starts no process of the sandbox.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_PLAN_H
#define ECLUSA_SANDBOX_LAUNCHER_PLAN_H

#include "policy/policy.h"
#include "policy/trust.h"
#include "sandbox-launcher/cgroup.h"
#include "sandbox-launcher/collect.h"
#include "sandbox-launcher/filter.h"
#include "sandbox-launcher/input.h"
#include "sandbox-launcher/result.h"
#include "sandbox-launcher/trust_files.h"
#include "sandbox-launcher/view.h"

/** Owned unless said otherwise. */
struct plan {
	const struct spec *spec; /* borrowed */
	bool root;               /* of the initial user namespace */
	uid_t uid;               /* of the sandbox, as the launcher sees it */
	gid_t gid;
	int uid_lock; /* holds the claim of uid; -1 = none needed */
	struct input *inputs;
	size_t input_count;
	bool has_target;
	struct collect_target target;
	struct buf bundle; /* policy text */
	struct policy_signer signer;
	struct policy *policy;
	const struct profile *profile; /* borrowed from policy; NULL = no network, or a service's */
	const char *more_roots;        /* file of roots that clients inside trust, too; borrowed */
	struct view view;
	struct trust_files trust; /* unfinished: the run's own authority is not known yet */
	int out;                  /* detached tmpfs of /out */
	struct filter_program filter;
	struct cgroup cgroup;
	char cgroup_missing[256]; /* why there is none */
};

/** Check and open what the caller named; changes nothing. More than one line of errors goes to @result. */
int plan_make(struct plan *p, const struct spec *spec, struct result *result, struct failure *why);
/** Make uid, files and control group ready for run @id. */
int plan_prepare(struct plan *p, const char *id, struct failure *why);
void plan_fini(struct plan *p);

#endif
