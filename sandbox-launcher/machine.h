/*
 * The machine as a sandbox is told of it in /proc: as much memory and as many processors as its limits are, no load but its
 * own. Texts that are made when the run starts and do not change. The host's /proc is trusted.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_MACHINE_H
#define ECLUSA_SANDBOX_LAUNCHER_MACHINE_H

#include "sandbox-launcher/spec.h"
#include "sandbox-launcher/view.h"

/** Files of /proc that are replaced, by their paths below it; NULL ends the list. */
extern const char *const MACHINE_FILES[];

/** As many as --cpus rounds up to, at most those that this process may run on. */
unsigned machine_processors(uint32_t cpu_milli);
/**
 * The text of /proc/cpuinfo with @count processors, each like the first one of @host: flags by which programs choose their code
 * are the real ones. Nothing where @host is in another form than that of x86-64 and arm64. @return 0 or negative errno.
 */
int machine_cpuinfo(struct slice host, unsigned count, struct buf *to);
struct sysinfo;
/** The same numbers, as sysinfo(2) gives them. @return 0 or negative errno. */
int machine_sysinfo(uint64_t memory_bytes, struct sysinfo *ret);
/** The texts of all of them into the view. @return 0 or negative errno. */
int machine_add(struct view *v, const struct spec *spec, struct failure *why);

#endif
