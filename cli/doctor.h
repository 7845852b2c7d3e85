/*
 * What `eclusa doctor` finds out: one check a line, each tried in a child of its own, so that it may enter namespaces, load
 * filters and hang. Checks use the code of a run where there is some; none changes the machine.
 */
#ifndef ECLUSA_CLI_DOCTOR_H
#define ECLUSA_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOCTOR_TEXT_BYTES   768
#define DOCTOR_REMEDY_BYTES 256
/** A check that has not answered by then is ended and has failed. */
#define DOCTOR_CHECK_MS 5000

/** FAIL: a run with --allow is refused. WARN: it starts. */
enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_STATE_COUNT };

/** What a check says; travels through a pipe. */
struct doctor_finding {
	enum doctor_state state;
	bool loses; /* a run keeps less than it promises; true for every failure */
	char text[DOCTOR_TEXT_BYTES];
	char remedy[DOCTOR_REMEDY_BYTES]; /* empty: none is needed, or none is known */
};

/** Runs in a child that ends afterwards: it may leave whatever it likes in its own process. */
typedef void doctor_check(struct doctor_finding *f);

/** Say how it is. The last word counts; texts that are too long are cut. */
void doctor_ok(struct doctor_finding *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void doctor_warn(struct doctor_finding *f, bool loses, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void doctor_fail(struct doctor_finding *f, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Where root lacks a capability. */
#define DOCTOR_CAPABILITIES                                                                        \
	"docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SETUID --cap-add SETGID, or as an ordinary user"

/** Try @check in a child with a deadline; all that it started is gone afterwards. @return 0, or negative errno: it can't be tried. */
int doctor_try(doctor_check *check, struct doctor_finding *ret);
/** In a check: become what a run becomes first. @return 0; otherwise @f has failed. */
int doctor_enter(struct doctor_finding *f);
/**
 * In a check: the same, and then a sandbox's user namespace, mapped as a run maps it, with a mount namespace that it owns.
 * @return 0; otherwise @f has failed.
 */
int doctor_enter_sandbox(struct doctor_finding *f);
/**
 * In a check: run our program @name with @arguments (NULL at the end), at most five words. @return its exit status, with what it
 * printed, without the newline, in @ret_text; or negative errno: -ENOENT when it is not where it should be.
 */
int doctor_program(const char *name, const char *const *arguments, char *ret_text, size_t capacity);

/* doctor_kernel.c */
doctor_check doctor_kernel, doctor_user_namespaces, doctor_namespaces, doctor_proc, doctor_seccomp,
	doctor_landlock, doctor_overlay;
/* doctor_network.c */
doctor_check doctor_programs, doctor_filter, doctor_cable, doctor_guard, doctor_tproxy,
	doctor_roots, doctor_resolver;
/* doctor_host.c */
doctor_check doctor_files, doctor_cgroup, doctor_uids, doctor_audit_folder, doctor_audit_key;

#endif
