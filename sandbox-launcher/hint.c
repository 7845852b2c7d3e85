/* See hint.h. */
#include "sandbox-launcher/hint.h"

#include "common/cleanup.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define HINT_TEXT_BYTES 256

/* What a sandbox has at the same place as the host. */
static bool is_hosts_own(struct slice word)
{
	static const char *const places[] = {"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/",
		"/etc/", "/proc/", "/dev/", "/sys/"};
	for (size_t i = 0; i < array_size(places); i++)
		if (slice_starts(word, slice_of(places[i])))
			return true;
	return false;
}

/* Where in /work a path of the command line points inside; NULL: it points elsewhere. */
static const char *path_inside(const char *word)
{
	if (slice_starts(slice_of(word), SLICE("/work/")))
		return word + 6;
	while (word[0] == '.' && word[1] == '/')
		word += 2;
	if (word[0] == '/' || strcmp(word, "..") == 0 || strncmp(word, "../", 3) == 0 ||
		strstr(word, "/../") != NULL)
		return NULL;
	return word;
}

/* Where in /work an input shows the file @real, alone or in a folder. */
static bool path_shown(const struct plan *plan, const char *real, char to[static PATH_MAX])
{
	for (size_t i = 0; i < plan->input_count; i++) {
		const struct input *in = &plan->inputs[i];
		if (in->name[0] == '/')
			continue; /* --bind: not in /work */
		auto_free char *source = realpath(in->source, NULL);
		if (source == NULL)
			continue;
		size_t len = strcmp(source, "/") == 0 ? 0 : strlen(source);
		if (strncmp(real, source, len) != 0 || (real[len] != '\0' && real[len] != '/'))
			continue;
		(void)snprintf(to, PATH_MAX, "%s%s", in->name, real + len); /* cut at worst */
		return true;
	}
	return false;
}

static void hint_unseen(const char *word, struct result *result)
{
	char shown[HINT_TEXT_BYTES], option[HINT_TEXT_BYTES], name[HINT_TEXT_BYTES];
	const char *inside = path_inside(word);
	const char *base = strrchr(word, '/') == NULL ? word : strrchr(word, '/') + 1;
	struct slice source = slice_of(inside == NULL ? word : inside), rest;
	if (inside != NULL)
		(void)slice_split(source, '/', &source, &rest); /* false: a file beside us */
	(void)slice_escape(slice_of(word), shown, sizeof(shown));
	(void)slice_escape(source, option, sizeof(option));
	if (inside == NULL)
		result_hint(result,
			"%s is a file of yours that the sandbox does not see: --in %s, and call it %s",
			shown, option, slice_escape(slice_of(base), name, sizeof(name)));
	else
		result_hint(result, "%s is a file of yours that the sandbox does not see: --in %s",
			shown, option);
}

/* The program's own file is there, and yet it does not start. */
static void hint_program(const char *word, int exec_error, struct result *result)
{
	char shown[HINT_TEXT_BYTES];
	(void)slice_escape(slice_of(word), shown, sizeof(shown));
	if (exec_error == EACCES)
		result_hint(result,
			"%s is not executable: chmod +x %s, or name its interpreter before it",
			shown, shown);
	else if (exec_error == ENOEXEC)
		result_hint(result,
			"%s has no #! line: name its interpreter before it, such as python3 %s",
			shown, shown);
	else if (exec_error == ENOENT)
		result_hint(result, "the interpreter in the #! line of %s is not in the sandbox",
			shown);
}

/* @return whether a line was added. */
static bool hint_word(const struct plan *plan, const char *word, int exec_error, struct result *r)
{
	struct stat st;
	char at[PATH_MAX], shown[HINT_TEXT_BYTES], name[HINT_TEXT_BYTES];
	const char *inside = path_inside(word);
	if (is_hosts_own(slice_of(word)) || stat(word, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	auto_free char *real = realpath(word, NULL);
	if (real == NULL)
		return false;
	size_t before = r->hint_count;
	if (!path_shown(plan, real, at)) {
		hint_unseen(word, r);
	} else if (inside == NULL || strcmp(inside, at) != 0) {
		(void)slice_escape(slice_of(word), shown, sizeof(shown));
		(void)slice_escape(slice_of(at), name, sizeof(name));
		result_hint(r, "%s is /work/%s inside: call it %s", shown, name, name);
	} else if (exec_error != 0 && word == plan->spec->argv.items[0]) {
		hint_program(word, exec_error, r);
	}
	return r->hint_count > before;
}

static bool hint_inputs(const struct plan *plan, int exec_error, struct result *result)
{
	const struct spec_list *argv = &plan->spec->argv;
	bool any = false;
	for (size_t i = 0; i < argv->count; i++) {
		if (i == 0 && strchr(argv->items[0], '/') == NULL)
			continue; /* looked for in PATH */
		if (exec_error != 0 && i > 0)
			break; /* never got that far */
		any |= hint_word(plan, argv->items[i], exec_error, result);
	}
	return any;
}

/* Went past the proxy: not what came to one of its doors, and was too much in a second. */
static bool is_packet(const struct audit_denial *d)
{
	return d->host == NULL && d->address_class != NULL &&
		strcmp(d->reason, reason_code(REASON_DENY_RATE)) != 0;
}

/* Requests that reached the proxy: everything but packets that the gateway refused. */
static uint64_t requests(const struct audit_summary *n, uint64_t *ret_packets)
{
	uint64_t packets = 0;
	for (size_t i = 0; i < n->denial_count; i++)
		if (is_packet(&n->denials[i]))
			packets += n->denials[i].count;
	*ret_packets = packets;
	return n->allowed + n->denied - packets;
}

static void hint_network(struct result *result, bool failed)
{
	static const char use[] =
		"the program must use names, which lead to the proxy, or HTTPS_PROXY; addresses lead "
		"nowhere without an ip: rule";
	uint64_t packets;
	if (!result->has_network) {
		if (failed)
			result_hint(result,
				"this run has no network; if the program needs it: --allow HOST");
		return;
	}
	uint64_t reached = requests(&result->network, &packets);
	if (packets > 0)
		result_hint(result, "direct connections are refused: %s", use);
	else if (reached == 0 && (failed || result->verdict == VERDICT_WALL))
		result_hint(result, "no request reached the proxy: %s", use);
}

/* A run that passes only since nothing is enforced yet must not look like one that is allowed. */
static void hint_observed(struct result *result)
{
	char shown[HINT_TEXT_BYTES];
	unsigned long long count = result->network.observed;
	if (count > 0 && result->audit_path != NULL)
		result_hint(result,
			"%llu request%s allowed only by observe mode: eclusa policy suggest %s "
			"prints the rules that enforcing needs",
			count, count == 1 ? " was" : "s were",
			slice_escape(slice_of(result->audit_path), shown, sizeof(shown)));
}

/* Input that waits where nobody reads it is a wrong answer in silence. */
static void hint_stdin(const struct spec *spec, struct result *result)
{
	struct stat st;
	int waiting = 0;
	if (spec->interactive || spec->stdin_text != NULL || fstat(STDIN_FILENO, &st) < 0)
		return;
	if (S_ISREG(st.st_mode))
		waiting = lseek(STDIN_FILENO, 0, SEEK_CUR) < st.st_size;
	else if (!S_ISFIFO(st.st_mode) || ioctl(STDIN_FILENO, FIONREAD, &waiting) < 0)
		return;
	if (waiting > 0)
		result_hint(result, "standard input was not passed: -i passes it");
}

static void hint_variables(const struct spec *spec, struct result *result)
{
	char shown[HINT_TEXT_BYTES];
	for (size_t i = 0; i < spec->env.count; i++)
		if (strchr(spec->env.items[i], '=') == NULL && getenv(spec->env.items[i]) == NULL)
			result_hint(result, "-e %s: not set here, so not passed",
				slice_escape(slice_of(spec->env.items[i]), shown, sizeof(shown)));
}

/* Without a control group the kernel does not say that a limit was hit. A program that ended by itself after a request was refused
 * or failed has had another reason. */
static void hint_limits(const struct spec *spec, struct result *result)
{
	char memory[32];
	bool told = result->verdict == VERDICT_EXIT &&
		result->network.denied + result->network.failed > 0;
	if (result->cgroup == CGROUP_NONE && !told)
		result_hint(result,
			"without a control group the end does not tell whether --memory %s or "
			"--pids-limit %u was hit",
			spec_format_size(spec->memory_bytes, memory, sizeof(memory)),
			spec->pids_limit);
}

/* The filter's one fatal answer; a shell tells a child's end as 128 and the signal. */
static void hint_architecture(struct result *result)
{
	bool itself = result->verdict == VERDICT_SIGNAL && result->signal == SIGSYS;
	bool child = result->verdict == VERDICT_EXIT && result->exit_code == 128 + SIGSYS;
	if (itself || child)
		result_hint(result,
			"SIGSYS: a system call of another architecture ends a program, such as "
			"one built for 32 bits or for x32: build it for this one");
}

void hint_run(const struct plan *plan, int exec_error, struct result *result)
{
	if (result->verdict == VERDICT_SETUP || result->verdict == VERDICT_SUPERVISOR)
		return; /* the errors say it */
	bool exited = result->verdict == VERDICT_EXIT;
	bool named = exited && hint_inputs(plan, exec_error, result);
	hint_network(result, exited && exec_error == 0 && !named);
	hint_observed(result);
	if ((exited || result->verdict == VERDICT_SIGNAL) && exec_error == 0 && !named)
		hint_limits(plan->spec, result);
	hint_architecture(result);
	hint_stdin(plan->spec, result);
	hint_variables(plan->spec, result);
}
