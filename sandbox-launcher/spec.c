/* See spec.h: the table of options, their defaults and what each accepts. */
#include "sandbox-launcher/spec.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/service.h"
#include "sandbox-launcher/layer.h"

#include <assert.h>
#include <stdio.h>

enum {
	OPTION_IN,
	OPTION_ROOTFS,
	OPTION_BIND,
	OPTION_TMPFS,
	OPTION_OUT,
	OPTION_OVERWRITE,
	OPTION_ENV,
	OPTION_ALLOW,
	OPTION_POLICY,
	OPTION_PROFILE,
	OPTION_TRUST,
	OPTION_SERVICE,
	OPTION_MEMORY,
	OPTION_CPUS,
	OPTION_PIDS,
	OPTION_TIMEOUT,
	OPTION_CPU_TIME,
	OPTION_IO_RATE,
	OPTION_OUTPUT_LIMIT,
	OPTION_OUT_LIMIT,
	OPTION_OUT_FILE_LIMIT,
	OPTION_OUT_FILES,
	OPTION_REQUIRE,
	OPTION_INTERACTIVE,
	OPTION_JSON,
	OPTION_STREAM,
	OPTION_QUIET,
	OPTION_AUDIT_DIR,
	OPTION_UPSTREAM_CA,
	OPTION_UPSTREAM_PROXY,
	OPTION_UPSTREAM_PROXY_AUTH,
	OPTION_UPSTREAM_PROXY_BY_NAME,
	OPTION_RESOLVER,
	OPTION_HOSTS,
	OPTION_PROXY_ENV,
	OPTION_COUNT
};

static const struct spec_option OPTIONS[] = {
	[OPTION_IN] = {"in", 0, SPEC_LIST, "SRC[:NAME]", "show SRC read-only as /work/NAME"},
	[OPTION_ROOTFS] = {"rootfs", 0, SPEC_VALUE, "DIR",
		"show DIR read-only as the root, in place of the host's files"},
	[OPTION_BIND] = {"bind", 0, SPEC_LIST, "SRC:DST[:rw]",
		"show SRC as DST, read-only unless :rw"},
	[OPTION_TMPFS] = {"tmpfs", 0, SPEC_LIST, "DST[:SIZE]", "an empty writable folder at DST"},
	[OPTION_OUT] = {"out", 0, SPEC_VALUE, "DIR",
		"put what the program leaves in /out into DIR"},
	[OPTION_OVERWRITE] = {"overwrite", 0, SPEC_FLAG, NULL,
		"replace files of equal names in DIR"},
	[OPTION_ENV] = {"env", 'e', SPEC_LIST, "NAME[=VALUE]",
		"set a variable, or pass the caller's"},
	[OPTION_ALLOW] = {"allow", 0, SPEC_LIST, "RULE",
		"allow what RULE says, as after `allow` in a policy"},
	[OPTION_POLICY] = {"policy", 0, SPEC_VALUE, "PATH", "policy file, or folder of *.allow"},
	[OPTION_PROFILE] = {"profile", 0, SPEC_VALUE, "NAME",
		"profile of the policy or service; may be left out if there is one"},
	[OPTION_TRUST] = {"trust", 0, SPEC_LIST, "KEY",
		"refuse a policy that the owner of KEY did not sign"},
	[OPTION_SERVICE] = {"service", 0, SPEC_OPTIONAL, "[=SOCKET]",
		"take the network from `eclusa serve`, at " SERVICE_SOCKET},
	[OPTION_MEMORY] = {"memory", 0, SPEC_VALUE, "SIZE", "memory limit (512M)"},
	[OPTION_CPUS] = {"cpus", 0, SPEC_VALUE, "N", "processors (1)"},
	[OPTION_PIDS] = {"pids-limit", 0, SPEC_VALUE, "N", "processes and threads (64)"},
	[OPTION_TIMEOUT] = {"timeout", 0, SPEC_VALUE, "TIME", "wall clock limit (15s)"},
	[OPTION_CPU_TIME] = {"cpu-time", 0, SPEC_VALUE, "TIME", "processor time limit (15s)"},
	[OPTION_IO_RATE] = {"io-rate", 0, SPEC_VALUE, "SIZE",
		"bytes a second from each disk, and to it (no limit)"},
	[OPTION_OUTPUT_LIMIT] = {"output-limit", 0, SPEC_VALUE, "SIZE",
		"bytes kept of each captured stream (1M)"},
	[OPTION_OUT_LIMIT] = {"out-limit", 0, SPEC_VALUE, "SIZE", "size of /out (64M)"},
	[OPTION_OUT_FILE_LIMIT] = {"out-file-limit", 0, SPEC_VALUE, "SIZE",
		"size of one result (as --out-limit)"},
	[OPTION_OUT_FILES] = {"out-files", 0, SPEC_VALUE, "N", "number of results (4096)"},
	[OPTION_REQUIRE] = {"require", 0, SPEC_VALUE, "LIST",
		"refuse to run without these layers, such as cgroup,landlock, or all"},
	[OPTION_INTERACTIVE] = {"interactive", 'i', SPEC_FLAG, NULL, "pass standard input"},
	[OPTION_JSON] = {"json", 0, SPEC_FLAG, NULL, "capture the streams, print one JSON result"},
	[OPTION_STREAM] = {"stream", 0, SPEC_FLAG, NULL,
		"tell output and denials as they come, a JSON object a line; the result is the last"},
	[OPTION_QUIET] = {"quiet", 'q', SPEC_FLAG, NULL, "no hints on standard error"},
	[OPTION_AUDIT_DIR] = {"audit-dir", 0, SPEC_VALUE, "DIR", "folder of the audit log"},
	[OPTION_UPSTREAM_CA] = {"upstream-ca", 0, SPEC_VALUE, "FILE",
		"trust these roots upstream, beside the system's"},
	[OPTION_UPSTREAM_PROXY] = {"upstream-proxy", 0, SPEC_VALUE, "http://HOST:PORT",
		"go to hosts through this proxy, by CONNECT"},
	[OPTION_UPSTREAM_PROXY_AUTH] = {"upstream-proxy-auth", 0, SPEC_VALUE, "FILE",
		"user:password for it, the file's first line"},
	[OPTION_UPSTREAM_PROXY_BY_NAME] = {"upstream-proxy-by-name", 0, SPEC_FLAG, NULL,
		"it looks names up, and no address is checked"},
	[OPTION_RESOLVER] = {"resolver", 0, SPEC_VALUE, "ADDR[:PORT]",
		"ask this name server (laboratories)"},
	[OPTION_HOSTS] = {"hosts", 0, SPEC_VALUE, "FILE",
		"take addresses from this hosts file (laboratories)"},
	[OPTION_PROXY_ENV] = {"proxy-env", 0, SPEC_VALUE, "on|off",
		"tell programs of the proxy by variables (on)"},
};
static_assert(array_size(OPTIONS) == OPTION_COUNT, "one row an option");

void spec_init(struct spec *s)
{
	*s = (struct spec){
		.memory_bytes = (uint64_t)512 << 20,
		.output_limit_bytes = (uint64_t)1 << 20,
		.out_limit_bytes = (uint64_t)64 << 20,
		.timeout_ns = 15 * NS_PER_SEC,
		.cpu_time_ns = 15 * NS_PER_SEC,
		.cpu_milli = 1000,
		.pids_limit = 64,
		.out_file_bytes = UINT64_MAX,
		.out_files = SPEC_OUT_FILES,
		.proxy_env = true,
	};
}

static void list_fini(struct spec_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct spec_list){0};
}

void spec_fini(struct spec *s)
{
	list_fini(&s->argv);
	list_fini(&s->in);
	list_fini(&s->bind);
	list_fini(&s->tmpfs);
	list_fini(&s->env);
	list_fini(&s->allow);
	list_fini(&s->trust);
	char **const texts[] = {&s->out, &s->rootfs, &s->policy, &s->profile, &s->audit_dir,
		&s->upstream_ca, &s->resolver, &s->hosts, &s->require, &s->stdin_text,
		&s->upstream_proxy, &s->upstream_proxy_auth, &s->service};
	for (size_t i = 0; i < array_size(texts); i++) {
		free(*texts[i]);
		*texts[i] = NULL;
	}
}

struct upstream_proxy_options spec_upstream_proxy(const struct spec *s)
{
	return (struct upstream_proxy_options){
		s->upstream_proxy, s->upstream_proxy_auth, s->upstream_proxy_by_name};
}

const struct spec_option *spec_options(size_t *ret_count)
{
	*ret_count = array_size(OPTIONS);
	return OPTIONS;
}

const struct spec_option *spec_option_named(struct slice name)
{
	for (size_t i = 0; i < array_size(OPTIONS); i++)
		if (slice_equal(name, slice_of(OPTIONS[i].name)))
			return &OPTIONS[i];
	return NULL;
}

const struct spec_option *spec_option_lettered(char letter)
{
	for (size_t i = 0; i < array_size(OPTIONS); i++)
		if (letter != 0 && OPTIONS[i].letter == letter)
			return &OPTIONS[i];
	return NULL;
}

/* @what: of what there may be no more, for people. */
static int list_add(
	struct spec_list *list, const char *text, size_t max, const char *what, struct failure *why)
{
	if (list->count >= max)
		return failure_set(why, -E2BIG, "more than %zu %s", max, what);
	char **grown = realloc(list->items, (list->count + 2) * sizeof(*grown));
	if (grown == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	list->items = grown;
	grown[list->count] = strdup(text);
	if (grown[list->count] == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	grown[++list->count] = NULL;
	return 0;
}

int spec_add_argument(struct spec *s, const char *word, struct failure *why)
{
	return list_add(&s->argv, word, SPEC_ARGS_MAX, "words in the program's command line", why);
}

/* A decimal with at most three digits after the point, in thousandths. */
int spec_parse_milli(struct slice text, unsigned *ret_milli)
{
	struct slice whole = text, fraction = {0};
	uint64_t value, part = 0;
	bool split = slice_split(text, '.', &whole, &fraction);
	if (split && (fraction.len == 0 || fraction.len > 3))
		return -EINVAL;
	if (slice_decimal(whole, SPEC_CPUS_MAX, false, &value) < 0)
		return -EINVAL;
	if (split && slice_decimal(fraction, 999, true, &part) < 0)
		return -EINVAL;
	for (size_t i = fraction.len; split && i < 3; i++)
		part *= 10;
	*ret_milli = (unsigned)(value * 1000 + part);
	return 0;
}

int spec_parse_size(struct slice text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	unsigned shift = 0;
	if (text.len > 0) {
		char last = text.ptr[text.len - 1];
		const char *unit = memchr(units, last & ~0x20, sizeof(units) - 1);
		if (unit != NULL && (last < '0' || last > '9')) {
			shift = 10 * (unsigned)(unit - units + 1);
			text.len--;
		}
	}
	uint64_t value;
	if (slice_decimal(text, UINT64_MAX >> shift, false, &value) < 0)
		return -EINVAL;
	*ret_bytes = value << shift;
	return 0;
}

char *spec_format_size(uint64_t bytes, char *to, size_t capacity)
{
	static const char units[] = "KMGT";
	int unit = -1;
	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	char suffix[2] = {unit < 0 ? '\0' : units[unit], '\0'};
	(void)snprintf(to, capacity, "%llu%s", (unsigned long long)bytes, suffix);
	return to;
}

int spec_parse_time(struct slice text, uint64_t *ret_ns)
{
	static const struct {
		const char *suffix;
		uint64_t ns;
	} units[] = {{"ms", NS_PER_MS}, {"s", NS_PER_SEC}, {"m", 60 * NS_PER_SEC},
		{"h", 3600 * NS_PER_SEC}, {"", NS_PER_SEC}};
	for (size_t i = 0; i < array_size(units); i++) {
		struct slice suffix = slice_of(units[i].suffix);
		if (!slice_ends(text, suffix))
			continue;
		struct slice number = {text.ptr, text.len - suffix.len};
		unsigned milli;
		uint64_t whole;
		/* "1.5s" has a fraction, "86400s" needs more room than thousandths of a processor */
		if (slice_decimal(number, SPEC_TIME_MAX_NS / units[i].ns, false, &whole) == 0) {
			*ret_ns = whole * units[i].ns;
			return 0;
		}
		if (units[i].ns < NS_PER_SEC || spec_parse_milli(number, &milli) < 0)
			return -EINVAL;
		*ret_ns = milli * (units[i].ns / 1000);
		return *ret_ns <= SPEC_TIME_MAX_NS ? 0 : -EINVAL;
	}
	return -EINVAL;
}

static int set_text(
	char **where, const char *value, const struct spec_option *o, struct failure *why)
{
	if (value[0] == '\0')
		return failure_set(why, -EINVAL, "--%s: empty value", o->name);
	char *copy = strdup(value);
	if (copy == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	free(*where);
	*where = copy;
	return 0;
}

static int set_size(uint64_t *where, const char *value, uint64_t min, uint64_t max,
	const struct spec_option *o, struct failure *why)
{
	uint64_t bytes;
	char shown[64];
	if (spec_parse_size(slice_of(value), &bytes) < 0)
		return failure_set(why, -EINVAL, "--%s: not a size: %s (such as 512M)", o->name,
			slice_escape(slice_of(value), shown, sizeof(shown)));
	if (bytes < min || bytes > max) {
		char low[32], high[32];
		return failure_set(why, -EINVAL, "--%s: %s is outside %s to %s", o->name, value,
			spec_format_size(min, low, sizeof(low)),
			spec_format_size(max, high, sizeof(high)));
	}
	*where = bytes;
	return 0;
}

static int set_time(
	uint64_t *where, const char *value, const struct spec_option *o, struct failure *why)
{
	uint64_t ns;
	char shown[64];
	if (spec_parse_time(slice_of(value), &ns) < 0 || ns < NS_PER_MS)
		return failure_set(why, -EINVAL,
			"--%s: not a time from 1ms to 168h: %s (such as 15s, 200ms, 2m)", o->name,
			slice_escape(slice_of(value), shown, sizeof(shown)));
	*where = ns;
	return 0;
}

static int set_count(
	struct spec *s, const char *value, const struct spec_option *o, struct failure *why)
{
	uint64_t count;
	unsigned milli;
	char shown[64];
	if (o == &OPTIONS[OPTION_CPUS]) {
		if (spec_parse_milli(slice_of(value), &milli) == 0 && milli >= 10) {
			s->cpu_milli = milli;
			return 0;
		}
	} else if (slice_decimal(slice_of(value), SPEC_PIDS_MAX, false, &count) == 0 && count > 0) {
		s->pids_limit = (unsigned)count;
		return 0;
	}
	bool cpus = o == &OPTIONS[OPTION_CPUS];
	return failure_set(why, -EINVAL, "--%s: not a number from %s to %u: %s", o->name,
		cpus ? "0.01" : "1", cpus ? SPEC_CPUS_MAX : SPEC_PIDS_MAX,
		slice_escape(slice_of(value), shown, sizeof(shown)));
}

static int set_files(struct spec *s, const char *value, struct failure *why)
{
	uint64_t count;
	char shown[64];
	if (slice_decimal(slice_of(value), SPEC_OUT_FILES, false, &count) < 0)
		return failure_set(why, -EINVAL, "--out-files: not a number from 0 to %u: %s",
			SPEC_OUT_FILES, slice_escape(slice_of(value), shown, sizeof(shown)));
	s->out_files = (unsigned)count;
	return 0;
}

static int set_require(
	struct spec *s, const char *value, const struct spec_option *o, struct failure *why)
{
	struct slice unknown;
	uint32_t set;
	char shown[64], known[256];
	if (layers_parse(slice_of(value), &set, &unknown) < 0)
		return failure_set(why, -EINVAL, "--require: unknown layer: %s (known: %s, all)",
			slice_escape(unknown, shown, sizeof(shown)),
			layers_text(LAYERS_ALL, known, sizeof(known)));
	int r = set_text(&s->require, value, o, why);
	s->required = r == 0 ? set : 0;
	return r;
}

static int set_proxy_env(struct spec *s, const char *value, struct failure *why)
{
	char shown[64];
	s->proxy_env = strcmp(value, "on") == 0;
	if (s->proxy_env || strcmp(value, "off") == 0)
		return 0;
	return failure_set(why, -EINVAL, "--proxy-env: neither on nor off: %s",
		slice_escape(slice_of(value), shown, sizeof(shown)));
}

static int set_variable(struct spec *s, const char *value, struct failure *why)
{
	struct slice name = slice_of(value), rest;
	(void)slice_split(name, '=', &name, &rest); /* without '=' the whole is the name */
	char shown[64];
	bool good = name.len > 0 && !(name.ptr[0] >= '0' && name.ptr[0] <= '9');
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		good = good &&
			(c == '_' || (c >= '0' && c <= '9') ||
				(ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z'));
	}
	if (!good)
		return failure_set(why, -EINVAL, "--env: not a variable name: %s",
			slice_escape(name, shown, sizeof(shown)));
	return list_add(&s->env, value, SPEC_ITEMS_MAX, "variables (--env)", why);
}

static int set_input(struct spec *s, const char *value, struct failure *why)
{
	auto_free char *source = NULL;
	char name[SPEC_NAME_BYTES];
	int r = spec_input(value, &source, name, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < s->in.count; i++) {
		auto_free char *other = NULL;
		char other_name[SPEC_NAME_BYTES];
		if (spec_input(s->in.items[i], &other, other_name, NULL) == 0 &&
			strcmp(name, other_name) == 0)
			return failure_set(why, -EEXIST, "--in: two inputs are called %s", name);
	}
	return list_add(&s->in, value, SPEC_ITEMS_MAX, "inputs (--in)", why);
}

static int set_mount(struct spec *s, size_t which, const char *value, struct failure *why)
{
	struct spec_bind bind = {0};
	struct spec_tmpfs tmpfs;
	bool binds = which == OPTION_BIND;
	int r = binds ? spec_bind(value, &bind, why) : spec_tmpfs(value, &tmpfs, why);
	free(bind.source);
	if (r < 0)
		return r;
	return binds ? list_add(&s->bind, value, SPEC_ITEMS_MAX, "--bind", why)
		     : list_add(&s->tmpfs, value, SPEC_ITEMS_MAX, "--tmpfs", why);
}

int spec_set(
	struct spec *s, const struct spec_option *option, const char *value, struct failure *why)
{
	size_t index = (size_t)(option - OPTIONS);
	if ((option->kind == SPEC_VALUE || option->kind == SPEC_OPTIONAL) &&
		(s->given >> index & 1) != 0)
		return failure_set(why, -EINVAL, "--%s is given twice", option->name);
	s->given |= UINT64_C(1) << index;
	switch (index) {
	case OPTION_IN:
		return set_input(s, value, why);
	case OPTION_ROOTFS:
		return set_text(&s->rootfs, value, option, why);
	case OPTION_BIND:
	case OPTION_TMPFS:
		return set_mount(s, index, value, why);
	case OPTION_OUT:
		return set_text(&s->out, value, option, why);
	case OPTION_OVERWRITE:
		s->overwrite = true;
		return 0;
	case OPTION_ENV:
		return set_variable(s, value, why);
	case OPTION_ALLOW:
		return list_add(&s->allow, value, SPEC_ITEMS_MAX, "rules (--allow)", why);
	case OPTION_TRUST:
		return list_add(&s->trust, value, SPEC_ITEMS_MAX, "keys (--trust)", why);
	case OPTION_POLICY:
		return set_text(&s->policy, value, option, why);
	case OPTION_SERVICE:
		return set_text(&s->service, value == NULL ? SERVICE_SOCKET : value, option, why);
	case OPTION_PROFILE:
		return set_text(&s->profile, value, option, why);
	case OPTION_MEMORY:
		return set_size(
			&s->memory_bytes, value, SPEC_MEMORY_MIN, SPEC_MEMORY_MAX, option, why);
	case OPTION_CPUS:
	case OPTION_PIDS:
		return set_count(s, value, option, why);
	case OPTION_TIMEOUT:
		return set_time(&s->timeout_ns, value, option, why);
	case OPTION_CPU_TIME:
		return set_time(&s->cpu_time_ns, value, option, why);
	case OPTION_IO_RATE:
		return set_size(
			&s->io_rate_bytes, value, SPEC_IO_RATE_MIN, SPEC_MEMORY_MAX, option, why);
	case OPTION_OUTPUT_LIMIT:
		return set_size(&s->output_limit_bytes, value, 0, SPEC_OUTPUT_MAX, option, why);
	case OPTION_OUT_LIMIT:
		return set_size(&s->out_limit_bytes, value, 4096, SPEC_MEMORY_MAX, option, why);
	case OPTION_OUT_FILE_LIMIT:
		return set_size(&s->out_file_bytes, value, 0, SPEC_MEMORY_MAX, option, why);
	case OPTION_OUT_FILES:
		return set_files(s, value, why);
	case OPTION_REQUIRE:
		return set_require(s, value, option, why);
	case OPTION_INTERACTIVE:
		s->interactive = true;
		return 0;
	case OPTION_JSON:
		s->json = true;
		return 0;
	case OPTION_STREAM:
		s->stream = s->json = true;
		return 0;
	case OPTION_QUIET:
		s->quiet = true;
		return 0;
	case OPTION_AUDIT_DIR:
		return set_text(&s->audit_dir, value, option, why);
	case OPTION_UPSTREAM_CA:
		return set_text(&s->upstream_ca, value, option, why);
	case OPTION_UPSTREAM_PROXY:
		return set_text(&s->upstream_proxy, value, option, why);
	case OPTION_UPSTREAM_PROXY_AUTH:
		return set_text(&s->upstream_proxy_auth, value, option, why);
	case OPTION_UPSTREAM_PROXY_BY_NAME:
		s->upstream_proxy_by_name = true;
		return 0;
	case OPTION_RESOLVER:
		return set_text(&s->resolver, value, option, why);
	case OPTION_PROXY_ENV:
		return set_proxy_env(s, value, why);
	default:
		return set_text(&s->hosts, value, option, why);
	}
}

/* No usable name: given after a colon, or left out of what ends in none, such as "..". */
static int input_unnamed(const char *text, bool given, struct failure *why)
{
	char shown[128];
	(void)slice_escape(slice_of(text), shown, sizeof(shown));
	if (given || text[0] == '\0')
		return failure_set(why, -EINVAL,
			"--in '%s': needs SRC[:NAME], NAME one file name to appear as /work/NAME",
			shown);
	return failure_set(why, -EINVAL,
		"--in '%s': a folder without a name of its own needs one: --in %s:src shows it as /work/src",
		shown, shown);
}

int spec_input(const char *text, char **ret_source, char ret_name[static SPEC_NAME_BYTES],
	struct failure *why)
{
	const char *colon = strrchr(text, ':');
	struct slice source = slice_of(text), name;
	if (colon != NULL) {
		source.len = (size_t)(colon - text);
		name = slice_of(colon + 1);
	} else {
		while (source.len > 1 && source.ptr[source.len - 1] == '/')
			source.len--;
		size_t from = source.len;
		while (from > 0 && source.ptr[from - 1] != '/')
			from--;
		name = slice_part(source, from, source.len);
	}
	if (source.len == 0 || name.len == 0 || name.len >= SPEC_NAME_BYTES ||
		slice_find(name, '/') >= 0 || slice_equal(name, SLICE(".")) ||
		slice_equal(name, SLICE("..")))
		return input_unnamed(text, colon != NULL || name.len >= SPEC_NAME_BYTES, why);
	char *copy = slice_dup(source);
	if (copy == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	(void)slice_copy(name, ret_name, SPEC_NAME_BYTES); /* its length was checked */
	*ret_source = copy;
	return 0;
}

/* What the service decides can't be said beside it: it would be another policy, or log, than the caller believes. */
static int check_service(const struct spec *s, struct failure *why)
{
	static const unsigned theirs[] = {OPTION_POLICY, OPTION_ALLOW, OPTION_TRUST,
		OPTION_AUDIT_DIR, OPTION_UPSTREAM_CA, OPTION_UPSTREAM_PROXY,
		OPTION_UPSTREAM_PROXY_AUTH, OPTION_UPSTREAM_PROXY_BY_NAME, OPTION_RESOLVER,
		OPTION_HOSTS};
	for (size_t i = 0; i < array_size(theirs); i++) {
		if ((s->given >> theirs[i] & 1) != 0)
			return failure_set(why, -EINVAL,
				"--service and --%s can't be given together: the service decides that",
				OPTIONS[theirs[i]].name);
	}
	return 0;
}

int spec_check(struct spec *s, struct failure *why)
{
	if (s->argv.count == 0)
		return failure_set(why, -EINVAL,
			"no program given: eclusa run [OPTION]... -- PROGRAM [ARGUMENT]...");
	if (s->argv.items[0][0] == '\0')
		return failure_set(why, -EINVAL, "the program's name is empty");
	if (s->policy != NULL && s->allow.count > 0)
		return failure_set(why, -EINVAL,
			"--allow and --policy can't be given together: write the rule into the policy");
	if (s->trust.count > 0 && s->policy == NULL)
		return failure_set(why, -EINVAL, "--trust needs --policy");
	if (s->profile != NULL && s->policy == NULL && s->service == NULL)
		return failure_set(why, -EINVAL, "--profile needs --policy or --service");
	if (s->service != NULL && check_service(s, why) < 0)
		return -EINVAL;
	if (s->overwrite && s->out == NULL)
		return failure_set(why, -EINVAL, "--overwrite needs --out");
	if (s->out == NULL && (s->out_file_bytes != UINT64_MAX || s->out_files != SPEC_OUT_FILES))
		return failure_set(why, -EINVAL, "--out-file-limit and --out-files need --out");
	if (!spec_has_network(s) &&
		(s->upstream_ca != NULL || s->upstream_proxy != NULL || s->resolver != NULL ||
			s->hosts != NULL))
		return failure_set(why, -EINVAL,
			"--upstream-ca, --upstream-proxy, --resolver and --hosts need --allow or --policy");
	if (s->interactive && s->stdin_text != NULL)
		return failure_set(why, -EINVAL, "--interactive and stdin can't be given together");
	return spec_check_mounts(s, why);
}
