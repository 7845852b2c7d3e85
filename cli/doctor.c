/* `eclusa doctor`: the table of checks, what they found in words or JSON, and the verdict. */
#include "cli/doctor.h"

#include "cli/command.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "sandbox-launcher/userns.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum doctor_exit { DOCTOR_EXIT_HOLDS = 0, DOCTOR_EXIT_LOSES = 1, DOCTOR_EXIT_FAILED = 2 };

#define REPORT_BYTES ((size_t)1 << 20)

static const struct {
	const char *name;
	doctor_check *check;
} CHECKS[] = {
	{"kernel", doctor_kernel},
	{"user-namespaces", doctor_user_namespaces},
	{"namespaces", doctor_namespaces},
	{"proc", doctor_proc},
	{"files", doctor_files},
	{"overlay", doctor_overlay},
	{"seccomp", doctor_seccomp},
	{"landlock", doctor_landlock},
	{"cgroup", doctor_cgroup},
	{"programs", doctor_programs},
	{"nft", doctor_filter},
	{"veth", doctor_cable},
	{"tproxy", doctor_tproxy},
	{"dial-guard", doctor_guard},
	{"uids", doctor_uids},
	{"ca-bundle", doctor_roots},
	{"resolver", doctor_resolver},
	{"audit-folder", doctor_audit_folder},
	{"audit-key", doctor_audit_key},
};

static const char *const STATES[] = {
	[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail"};
static_assert(array_size(STATES) == DOCTOR_STATE_COUNT, "a name for each state");

static void print_help(void)
{
	(void)puts(
		"usage: eclusa doctor [--json]\n"
		"\n"
		"Whether this host can hold what `eclusa run --allow` promises, for the user who asks. Each\n"
		"layer is tried, in a process of its own, and nothing of it stays.\n"
		"\n"
		"  --json  one JSON object\n"
		"  --help  this text\n"
		"\n"
		"exit 0: every promise holds; 1: some do not; 2: it can't be found out, or wrong usage");
}

static void write_text(struct buf *out, const struct doctor_finding *found, size_t losing)
{
	for (size_t i = 0; i < array_size(CHECKS); i++) {
		(void)buf_printf(out, "%-4s  %-15s  %s\n", STATES[found[i].state], CHECKS[i].name,
			found[i].text);
		if (found[i].remedy[0] != '\0')
			(void)buf_printf(out, "      %-15s  try: %s\n", "", found[i].remedy);
	}
	if (losing == 0)
		(void)buf_printf(out, "`eclusa run --allow` holds every promise here\n");
	else
		(void)buf_printf(out,
			"`eclusa run --allow` does not hold every promise here: %zu of %zu\n",
			losing, array_size(CHECKS));
}

static void write_json(struct buf *out, const struct doctor_finding *found, size_t losing)
{
	struct json j;
	json_open(&j, out);
	json_object(&j, NULL);
	json_text(&j, "version", ECLUSA_VERSION);
	json_bool(&j, "root", userns_is_initial_root());
	json_bool(&j, "holds", losing == 0);
	json_array(&j, "checks");
	for (size_t i = 0; i < array_size(CHECKS); i++) {
		json_object(&j, NULL);
		json_text(&j, "name", CHECKS[i].name);
		json_text(&j, "state", STATES[found[i].state]);
		json_bool(&j, "loses", found[i].loses);
		json_text(&j, "text", found[i].text);
		if (found[i].remedy[0] == '\0')
			json_null(&j, "remedy");
		else
			json_text(&j, "remedy", found[i].remedy);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	(void)buf_printf(out, "\n"); /* sticky */
}

static int report(const struct doctor_finding *found, bool as_json)
{
	size_t losing = 0;
	struct buf out;
	for (size_t i = 0; i < array_size(CHECKS); i++)
		losing += found[i].loses ? 1 : 0;
	buf_init(&out, REPORT_BYTES);
	if (as_json)
		write_json(&out, found, losing);
	else
		write_text(&out, found, losing);
	int r = out.failed ? -ENOBUFS : file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
	if (r < 0) {
		(void)fprintf(stderr, "eclusa doctor: standard output: %s\n", strerror(-r));
		return DOCTOR_EXIT_FAILED;
	}
	return losing == 0 ? DOCTOR_EXIT_HOLDS : DOCTOR_EXIT_LOSES;
}

int command_doctor(int argc, char **argv)
{
	struct doctor_finding found[array_size(CHECKS)];
	bool as_json = false;
	for (int i = 1; i < argc; i++) {
		char shown[128];
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_help();
			return fflush(stdout) == 0 ? DOCTOR_EXIT_HOLDS : DOCTOR_EXIT_FAILED;
		}
		if (strcmp(argv[i], "--json") != 0) {
			(void)fprintf(stderr,
				"eclusa doctor: not an option: %s (eclusa doctor --help)\n",
				slice_escape(slice_of(argv[i]), shown, sizeof(shown)));
			return DOCTOR_EXIT_FAILED;
		}
		as_json = true;
	}
	for (size_t i = 0; i < array_size(CHECKS); i++) {
		int r = doctor_try(CHECKS[i].check, &found[i]);
		if (r == 0)
			continue;
		(void)fprintf(stderr, "eclusa doctor: %s can't be tried: %s\n", CHECKS[i].name,
			strerror(-r));
		return DOCTOR_EXIT_FAILED;
	}
	return report(found, as_json);
}
