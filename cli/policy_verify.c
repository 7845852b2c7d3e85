/* `eclusa policy verify`: whether policies were signed by whom is trusted. What they say is not asked. */
#include "cli/policy.h"

#include "policy/trust.h"

#include <errno.h>
#include <stdio.h>

struct verify_run {
	struct trust trust;
	size_t refused;
	bool unreadable;
	struct buf out;
	struct json json;
	bool as_json;
};

static void verify_path(struct verify_run *run, const char *path)
{
	struct failure why = {0};
	struct policy_signer signer = {.key_id = ""};
	struct buf bundle;
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	int r = trust_read_policy(&run->trust, path, &bundle, &signer, &why);
	buf_fini(&bundle);
	run->refused += r == -EKEYREJECTED;
	run->unreadable |= r < 0 && r != -EKEYREJECTED;
	if (run->as_json) {
		json_object(&run->json, NULL);
		json_text(&run->json, "path", path);
		json_bool(&run->json, "verified", r == 0);
		json_text(
			&run->json, r == 0 ? "key_id" : "error", r == 0 ? signer.key_id : why.text);
		json_object_end(&run->json);
	} else if (r == 0) {
		(void)buf_printf(&run->out, "%s: signed by %s\n", path, signer.key_id);
	} else if (r == -EKEYREJECTED) {
		(void)buf_printf(&run->out, "untrusted: %s\n", why.text);
	} else {
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
	}
}

int policy_verify(const struct policy_words *words)
{
	struct verify_run run = {.as_json = words->json};
	struct failure why = {0};
	const char *config = words->trust_count > 0 ? NULL : TRUST_CONFIG;
	if (trust_open(config, words->trust, words->trust_count, &run.trust, &why) < 0) {
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
		return POLICY_EXIT_UNREADABLE;
	}
	if (run.trust.count == 0)
		return policy_usage(
			"no key is trusted: name one by --trust KEY, or by a trust line in ",
			TRUST_CONFIG);
	if (run.as_json) {
		json_open(&run.json, &run.out);
		json_object(&run.json, NULL);
		json_array(&run.json, "policies");
	}
	for (size_t i = 0; i < words->word_count; i++)
		verify_path(&run, words->words[i]);
	if (run.as_json) {
		json_array_end(&run.json);
		json_object_end(&run.json);
		(void)buf_append(&run.out, SLICE("\n"));
	}
	return policy_finish(&run.out,
		run.unreadable            ? POLICY_EXIT_UNREADABLE
			: run.refused > 0 ? POLICY_EXIT_FINDINGS
					  : POLICY_EXIT_CLEAN);
}
