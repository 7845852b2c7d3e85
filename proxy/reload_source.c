/* See reload_source.h. */
#include "proxy/reload_source.h"

#include "common/cleanup.h"
#include "policy/bundle.h"
#include "policy/policy.h"

#include <stdio.h>
#include <sys/stat.h>

static int fault_set(struct reload_fault *f, int code, uint32_t errors, const char *text)
{
	f->code = code;
	f->errors = errors;
	(void)snprintf(f->text, sizeof(f->text), "%s", text); /* cut when long */
	return code;
}

/** Errors, a line each, as many as fit whole. */
static void fault_of_report(struct reload_fault *f, int code, const struct policy_report *report)
{
	size_t used = 0;
	f->code = code;
	f->errors = (uint32_t)report->errors;
	f->text[0] = '\0';
	for (size_t i = 0; i < report->count; i++) {
		char line[640];
		if (report->items[i].severity != POLICY_ERROR)
			continue;
		(void)policy_diagnostic_format(&report->items[i], line, sizeof(line));
		size_t len = strlen(line);
		if (used + len + 2 > sizeof(f->text))
			return;
		if (used > 0)
			f->text[used++] = '\n';
		memcpy(f->text + used, line, len + 1);
		used += len;
	}
}

static int compile(
	const struct reload_source *s, struct reload_bundle *bundle, struct reload_fault *ret_fault)
{
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	struct policy *policy = NULL;
	const struct profile *profile;
	struct failure why = {0};
	if (report == NULL)
		return fault_set(ret_fault, -ENOMEM, 1, "out of memory");
	int r = policy_compile(buf_slice(&bundle->text), &policy, report);
	if (r < 0 && report->errors > 0)
		fault_of_report(ret_fault, r, report);
	else if (r < 0)
		(void)fault_set(ret_fault, r, 1, strerror(-r));
	if (r == 0)
		r = policy_profile(policy, s->profile, &profile, &why);
	if (r == 0 &&
		slice_copy(slice_of(profile_name(profile)), bundle->profile,
			sizeof(bundle->profile)) < 0)
		r = failure_set(&why, -ENAMETOOLONG, "the profile's name is too long");
	if (why.code != 0)
		(void)fault_set(ret_fault, r, 1, why.text);
	policy_free(policy);
	return r;
}

int reload_source_trust(const struct reload_source *s, struct trust *ret, struct failure *why)
{
	return trust_open(s->config, s->trust, s->trust_count, ret, why);
}

int reload_source_check(
	const struct reload_source *s, struct reload_bundle *bundle, struct reload_fault *ret_fault)
{
	struct trust trust;
	struct failure why = {0};
	int r = reload_source_trust(s, &trust, &why);
	if (r == 0 && !trust_has_signer(&trust, &bundle->signer))
		r = failure_set(&why, -EKEYREJECTED, "who signed it is not trusted");
	if (r < 0)
		return fault_set(ret_fault, r, 1, why.text);
	return compile(s, bundle, ret_fault);
}

/** What is read again and again: a pipe would be waited for, and a proxy that waits answers no signal. */
static int check_kind(const char *path, struct failure *why)
{
	struct stat st;
	char shown[512];
	if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0; /* whoever opens it says why it can't */
	return failure_set(why, -EINVAL, "%s: not a file or a folder",
		slice_escape(slice_of(path), shown, sizeof(shown)));
}

int reload_source_load(
	const struct reload_source *s, struct reload_bundle *bundle, struct reload_fault *ret_fault)
{
	struct trust trust;
	struct failure why = {0};
	buf_clear(&bundle->text);
	bundle->text.failed = false;
	int r = reload_source_trust(s, &trust, &why);
	if (r == 0)
		r = check_kind(s->path, &why);
	if (r == 0)
		r = trust_read_policy(&trust, s->path, &bundle->text, &bundle->signer, &why);
	if (r < 0)
		return fault_set(ret_fault, r, 1, why.code != 0 ? why.text : strerror(-r));
	return compile(s, bundle, ret_fault);
}

int reload_source_nothing(const struct reload_source *s, struct reload_bundle *bundle)
{
	char content[MESSAGE_NAME_BYTES + 64];
	int len = snprintf(content, sizeof(content), "policy 1\n[profile %s]\n", s->profile);
	if (len < 0 || (size_t)len >= sizeof(content))
		return -ENAMETOOLONG;
	const struct bundle_text text = {BUNDLE_FILE, SLICE("no-policy"), {content, (size_t)len}};
	buf_clear(&bundle->text);
	bundle->text.failed = false;
	bundle->signer = (struct policy_signer){.key_id = ""};
	int r = bundle_open(&bundle->text);
	return r < 0 ? r : bundle_append(&bundle->text, &text);
}
