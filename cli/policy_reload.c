/* `eclusa policy reload`: ask a running proxy to load its policy again, and say what came of it. See policy.h. */
#include "cli/policy.h"

#include "common/clock.h"
#include "ipc/control.h"

#include <stdio.h>

#define ANSWER_NS                                                                                  \
	(30 * NS_PER_SEC) /* reading and compiling a policy of the largest size, by all of the proxy */

static void print_json(const struct control_answer *answer, struct buf *out)
{
	struct json j;
	json_open(&j, out);
	json_object(&j, NULL);
	json_bool(&j, "loaded", answer->code == 0);
	if (answer->before[0] != '\0')
		json_text(&j, "before", answer->before);
	if (answer->after[0] != '\0')
		json_text(&j, "after", answer->after);
	if (answer->text[0] != '\0')
		json_text(&j, "text", answer->text);
	json_bool(&j, "stale", answer->origin != MESSAGE_POLICY_NEWEST);
	json_object_end(&j);
	(void)buf_append(out, SLICE("\n")); /* errors are sticky in the buf */
}

static void print_text(const struct control_answer *answer, struct buf *out)
{
	if (answer->code < 0)
		(void)buf_printf(out, "%s\nrefused: what was in force before stays in force\n",
			answer->text); /* errors are sticky in the buf */
	else if (strcmp(answer->before, answer->after) == 0)
		(void)buf_printf(out, "loaded: the same rules, sha256:%s\n", answer->after);
	else
		(void)buf_printf(out, "loaded: sha256:%s\nbefore: sha256:%s\n", answer->after,
			answer->before);
}

int policy_reload(const struct policy_words *words)
{
	struct control_answer answer;
	struct failure why = {0};
	struct buf out = {.limit = POLICY_OUTPUT_BYTES_MAX};
	int r = control_ask(
		words->words[0], CONTROL_RELOAD, clock_monotonic_ns() + ANSWER_NS, &answer, &why);
	if (r < 0) {
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
		return POLICY_EXIT_UNREADABLE;
	}
	if (words->json)
		print_json(&answer, &out);
	else
		print_text(&answer, &out);
	return policy_finish(&out, answer.code == 0 ? POLICY_EXIT_CLEAN : POLICY_EXIT_FINDINGS);
}
