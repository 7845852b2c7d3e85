/* See doctor.h: the gateway's parts, which eclusa-netd tries itself, and what the proxy finds around it. */
#include "cli/doctor.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/resolver.h"
#include "common/upstream.h"
#include "ipc/message.h"
#include "sandbox-launcher/userns.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define REINSTALL "make install"

void doctor_programs(struct doctor_finding *f)
{
	static const char *const names[] = {"eclusa-netd", "eclusa-proxy"};
	static const char *const question[] = {"--version", NULL};
	for (size_t i = 0; i < array_size(names); i++) {
		char said[256] = "", expected[64];
		int r = doctor_program(names[i], question, said, sizeof(said));
		if (r == -ENOENT) {
			doctor_fail(f, REINSTALL, "%s is not beside this program or in %s",
				names[i], ECLUSA_LIBEXECDIR);
			return;
		}
		(void)snprintf(expected, sizeof(expected), "%s %s", names[i], ECLUSA_VERSION);
		if (r != 0 || strcmp(said, expected) != 0) {
			doctor_fail(f, REINSTALL, "%s does not say that it is %s: %s", names[i],
				expected, r < 0 ? strerror(-r) : said);
			return;
		}
	}
	doctor_ok(f, "eclusa-netd and eclusa-proxy, of this version");
}

/* Whether the gateway program can make @part here. Otherwise @ret_said says why not. */
static bool can_make(const char *part, char *ret_said, size_t capacity)
{
	const char *const question[] = {"--probe", part, NULL};
	int r = doctor_program("eclusa-netd", question, ret_said, capacity);
	if (r == -ENOENT)
		(void)snprintf(ret_said, capacity, "can't be tried: eclusa-netd is missing");
	else if (r < 0)
		(void)snprintf(ret_said, capacity, "can't be tried: eclusa-netd: %s", strerror(-r));
	else if (r == EX_USAGE)
		(void)snprintf(
			ret_said, capacity, "can't be tried: eclusa-netd is of another version");
	return r == 0;
}

/* The remedy of what could not be made. */
static const char *remedy_for(const char *said, const char *modules)
{
	const struct slice line = slice_of(said);
	if (slice_starts(line, SLICE("can't be tried")))
		return REINSTALL;
	if (slice_starts(line, SLICE("can't reduce capabilities")))
		return DOCTOR_CAPABILITIES;
	if (slice_starts(line, SLICE("can't make a network namespace")))
		return "sysctl -w user.max_net_namespaces=1000";
	return modules;
}

void doctor_filter(struct doctor_finding *f)
{
	char said[512] = "";
	if (doctor_enter(f) < 0)
		return;
	if (can_make("filter", said, sizeof(said)))
		doctor_ok(f, "the gateway's rules load in a new network namespace");
	else
		doctor_fail(f, remedy_for(said, "modprobe -a nf_tables nft_limit nft_reject_inet"),
			"%s", said);
}

void doctor_cable(struct doctor_finding *f)
{
	char said[512] = "";
	if (doctor_enter(f) < 0)
		return;
	if (can_make("cable", said, sizeof(said)))
		doctor_ok(f, "a gateway and a sandbox's cable can be made");
	else
		doctor_fail(f, remedy_for(said, "modprobe veth"), "%s", said);
}

void doctor_guard(struct doctor_finding *f)
{
	char said[512] = "";
	if (!userns_is_initial_root())
		doctor_warn(f, true, "sudo eclusa run ...",
			"none as an ordinary user: the proxy's own check alone keeps it from private addresses");
	else if (can_make("guard", said, sizeof(said)))
		doctor_ok(f, "loads, in a new network namespace");
	else
		doctor_fail(f, remedy_for(said, "modprobe -a nft_fib_inet nft_reject_inet"), "%s",
			said);
}

void doctor_tproxy(struct doctor_finding *f)
{
	char said[512] = "";
	if (doctor_enter(f) < 0)
		return;
	if (can_make("tproxy", said, sizeof(said)))
		doctor_ok(f, "a rule loads");
	else
		doctor_warn(f, false, remedy_for(said, "modprobe nft_tproxy"), "%s", said);
}

/* As a run opens them. */
void doctor_roots(struct doctor_finding *f)
{
	struct upstream_files files = UPSTREAM_FILES_NONE;
	struct failure why = {0};
	struct buf text;
	buf_init(&text, (size_t)64 << 20);
	int r = upstream_open(&(struct upstream_options){0}, &files, &why);
	if (r == 0)
		r = file_read_fd(files.roots_fd, (size_t)16 << 20, &text);
	if (r < 0)
		doctor_fail(f, "apt-get install ca-certificates", "%s",
			why.code == 0 ? strerror(-r) : why.text);
	else if (!upstream_has_certificate(buf_slice(&text)))
		doctor_fail(
			f, "update-ca-certificates", "the bundle of roots holds no certificate");
	else
		doctor_ok(f, "%zu KiB of roots", buf_slice(&text).len >> 10);
	upstream_close(&files);
	buf_fini(&text);
}

void doctor_resolver(struct doctor_finding *f)
{
	struct resolver found[MESSAGE_RESOLVERS_MAX];
	struct failure why = {0};
	char list[DOCTOR_TEXT_BYTES / 2] = "", address[ADDRESS_TEXT_BYTES];
	int count = resolver_find(NULL, found, array_size(found), &why);
	if (count < 0) {
		doctor_fail(f, "eclusa run --resolver ADDR:PORT", "%s", why.text);
		return;
	}
	for (int i = 0; i < count; i++) {
		size_t used = strlen(list);
		(void)snprintf(list + used, sizeof(list) - used, " %s",
			address_format(&found[i].address, address));
	}
	doctor_ok(f, "asks%s", list);
}
