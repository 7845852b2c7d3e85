/*
 * What a run was asked to be: the program, its files, its limits, its network. Filled from the command line and
 * from --spec through one door, spec_set(), so that both mean the same. Input: the caller's own words, trusted no
 * further than that they are the caller's. Opens nothing.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_SPEC_H
#define ECLUSA_SANDBOX_LAUNCHER_SPEC_H

#include "common/buf.h"
#include "common/failure.h"
#include "common/upstream_proxy.h"

#define SPEC_ITEMS_MAX   256 /* inputs, variables, rules: each */
#define SPEC_ARGS_MAX    4096
#define SPEC_BYTES_MAX   ((size_t)16 << 20) /* a --spec document */
#define SPEC_NAME_BYTES  256
#define SPEC_PATH_BYTES  256 /* in the sandbox */
#define SPEC_MEMORY_MIN  ((uint64_t)4 << 20)
#define SPEC_IO_RATE_MIN ((uint64_t)64 << 10)
#define SPEC_MEMORY_MAX  ((uint64_t)1 << 46)
#define SPEC_OUTPUT_MAX  ((uint64_t)1 << 30)
#define SPEC_TIME_MAX_NS (UINT64_C(7) * 24 * 3600 * 1000000000)
#define SPEC_CPUS_MAX    1024
#define SPEC_PIDS_MAX    32768
#define SPEC_OUT_FILES   4096 /* and the default */

/** Owned strings, NULL-terminated. */
struct spec_list {
	char **items;
	size_t count;
};

/** A run. Zero is not a valid value: spec_init() gives the defaults. */
struct spec {
	struct spec_list argv;
	struct spec_list in;    /* SRC[:NAME] as written */
	struct spec_list bind;  /* SRC:DST[:rw] as written */
	struct spec_list tmpfs; /* DST[:SIZE] as written */
	struct spec_list env;   /* NAME or NAME=VALUE */
	struct spec_list allow; /* rules, the text after "allow " */
	struct spec_list
		trust;    /* files with public keys, of which one must have signed the policy */
	char *stdin_text; /* from --spec; NULL = none */
	size_t stdin_len;
	char *out, *rootfs, *policy, *profile, *audit_dir, *upstream_ca, *resolver, *hosts,
		*require;
	char *service; /* socket of a service that gives the network; NULL: the run has its own */
	char *upstream_proxy, *upstream_proxy_auth;
	bool upstream_proxy_by_name;
	uint64_t memory_bytes, output_limit_bytes, out_limit_bytes;
	uint64_t timeout_ns, cpu_time_ns;
	unsigned cpu_milli; /* thousandths of a processor */
	unsigned pids_limit;
	uint64_t io_rate_bytes;  /* a second, from each disk and to it; 0: no limit */
	uint64_t out_file_bytes; /* of one result */
	unsigned out_files;      /* results */
	bool stream;             /* and json */
	bool overwrite, json, interactive, quiet;
	bool proxy_env;    /* variables tell clients of the proxy */
	uint32_t required; /* layers, parsed from require: sandbox-launcher/layer.h */
	uint64_t given;    /* bit per option of spec_options() */
};

enum spec_kind {
	SPEC_FLAG,
	SPEC_VALUE,
	SPEC_OPTIONAL, /* a value only behind '=' */
	SPEC_LIST
};

/** One option. As a key of --spec it is spelled with '_' for '-'. */
struct spec_option {
	const char *name; /* long option without dashes */
	char letter;      /* short option or 0 */
	enum spec_kind kind;
	const char *argument; /* placeholder for help, NULL for a flag */
	const char *help;
};

void spec_init(struct spec *s);
void spec_fini(struct spec *s);
/** Borrowed from @s. */
struct upstream_proxy_options spec_upstream_proxy(const struct spec *s);

/** All options in the order of the help text. */
const struct spec_option *spec_options(size_t *ret_count);
/** By long name (of @len bytes) or by letter. NULL: there is none. */
const struct spec_option *spec_option_named(struct slice name);
const struct spec_option *spec_option_lettered(char letter);

/** Set one option from text; flags take NULL, what is optional may. A value can be set once. @return 0 or -EINVAL with a line in @why. */
int spec_set(
	struct spec *s, const struct spec_option *option, const char *value, struct failure *why);
/** Append one word of the program's command line. */
int spec_add_argument(struct spec *s, const char *word, struct failure *why);
/** What only the whole can tell: a program is named, --policy and --allow are not both given, ... */
int spec_check(struct spec *s, struct failure *why);
/** Whether a network is asked for. */
static inline bool spec_has_network(const struct spec *s)
{
	return s->allow.count > 0 || s->policy != NULL || s->service != NULL;
}

/** Split "SRC[:NAME]" (the last colon counts). @ret_name: one component, not "." or "..". */
int spec_input(const char *text, char **ret_source, char ret_name[static SPEC_NAME_BYTES],
	struct failure *why);

/** One --bind. The source is owned. */
struct spec_bind {
	char *source;
	char path[SPEC_PATH_BYTES]; /* absolute, normal form */
	bool writable;
};
/** One --tmpfs. */
struct spec_tmpfs {
	char path[SPEC_PATH_BYTES];
	uint64_t bytes; /* 0: as the other writable folders */
};
int spec_bind(const char *text, struct spec_bind *ret, struct failure *why);
int spec_tmpfs(const char *text, struct spec_tmpfs *ret, struct failure *why);
/** Whether all of them can be together. */
int spec_check_mounts(const struct spec *s, struct failure *why);

/** "512M": bytes with K, M, G, T (binary). "1.5": thousandths. "15s", "200ms", "2m", "1h", "15": time. */
int spec_parse_size(struct slice text, uint64_t *ret_bytes);
int spec_parse_milli(struct slice text, unsigned *ret_milli);
int spec_parse_time(struct slice text, uint64_t *ret_ns);
/** As spec_parse_size() takes it, such as 64M. @return to */
char *spec_format_size(uint64_t bytes, char *to, size_t capacity);

/**
 * Read a JSON document of options (keys with '_'), argv and stdin into @s. Unknown keys, duplicate keys and keys that
 * the command line gave already are errors that name the key.
 */
int spec_json_read(struct spec *s, struct slice document, struct failure *why);

#endif
