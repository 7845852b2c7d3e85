/* See reload.h. */
#include "proxy/reload.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/policy_event.h"
#include "proxy/prepared.h"

#include <stdio.h>

#define RELOAD_WAIT_NS (10 * NS_PER_SEC) /* a policy of the largest size takes 1 s to compile */

void reload_init(struct reload *r, int launcher_fd)
{
	*r = (struct reload){.launcher_fd = launcher_fd, .bundle_fd = -1};
}

void reload_fini(struct reload *r)
{
	fd_close(&r->bundle_fd);
	policy_free(ptr_take(r->policy));
}

static struct crew_member *member_at(struct crew *crew, unsigned member)
{
	return member == RELOAD_KEEPER ? &crew->keeper : &crew->worker[member];
}

static void digest_of_profile(
	const struct policy *policy, const char *name, char to[static MESSAGE_DIGEST_BYTES])
{
	const struct profile *profile;
	to[0] = '\0';
	if (policy != NULL && policy_profile(policy, name, &profile, NULL) == 0)
		(void)slice_copy(slice_of(profile_digest(profile)), to, MESSAGE_DIGEST_BYTES);
}

/** Tell a member, if it is there. @return whether it was told. */
static bool tell(const struct reload *r, struct crew *crew, unsigned member, uint32_t kind)
{
	struct crew_member *to = member_at(crew, member);
	const struct message_policy_step step = {
		.header = {.kind = kind}, .version = r->version, .origin = r->asked.origin};
	bool bundle = kind == MESSAGE_POLICY_PREPARE;
	if (to->channel_fd < 0)
		return false;
	if (channel_send(to->channel_fd, &step, sizeof(step), &r->bundle_fd, bundle ? 1 : 0) == 0)
		return true;
	crew_kill(to); /* it does not read: a successor has what is in force */
	return false;
}

static void tell_all(const struct reload *r, struct crew *crew, uint32_t kind)
{
	(void)tell(r, crew, RELOAD_KEEPER, kind); /* first: workers ask it at once */
	for (unsigned i = 0; i < crew->workers; i++)
		(void)tell(r, crew, i, kind);
}

/** Over, one way or the other: tell the launcher and the log. */
static void reload_end(struct reload *r, struct crew *crew)
{
	struct message_policy_answer *answer = &r->answer;
	const struct policy_event event = {
		.reason = answer->code == 0 ? REASON_POLICY_LOADED : REASON_POLICY_REJECTED,
		.origin = crew->policy_origin,
		.profile = r->asked.profile,
		.before = answer->before,
		.after = answer->after,
		.signer = answer->code == 0 ? r->asked.signer : "",
		.text = answer->code == 0 ? r->asked.text : answer->text};
	answer->header.kind = MESSAGE_POLICY_ANSWER;
	r->active = false;
	fd_close(&r->bundle_fd);
	policy_free(ptr_take(r->policy));
	policy_event_write(crew, &event);
	(void)channel_send(r->launcher_fd, answer, sizeof(*answer), NULL,
		0); /* its end, if that is why, is an event of its own */
}

static void reload_refuse(struct reload *r, struct crew *crew, int code, const char *text)
{
	r->answer.code = code;
	(void)snprintf(r->answer.text, sizeof(r->answer.text), "%s", text);
	reload_end(r, crew);
}

static bool waits_for_any(const struct reload *r)
{
	for (size_t i = 0; i < array_size(r->waits); i++) {
		if (r->waits[i])
			return true;
	}
	return false;
}

/** Everybody has it: from here on it is in force, also for who is started anew. */
static void reload_go_on(struct reload *r, struct crew *crew)
{
	if (!r->active || waits_for_any(r))
		return;
	fault_point("super-policy-prepared");
	struct policy *before = crew->policy;
	crew->policy = ptr_take(r->policy);
	crew->policy_origin = r->asked.origin;
	policy_free(before);
	tell_all(r, crew, MESSAGE_POLICY_COMMIT);
	fault_point("super-policy-committed");
	reload_end(r, crew);
}

static int reload_compile(struct reload *r, const struct crew *crew)
{
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	const struct profile *profile;
	if (report == NULL)
		return -ENOMEM;
	int e = prepared_policy(r->bundle_fd, &r->policy, report);
	if (e == 0)
		e = policy_profile(r->policy, r->asked.profile, &profile, NULL);
	digest_of_profile(crew->policy, r->asked.profile, r->answer.before);
	digest_of_profile(r->policy, r->asked.profile, r->answer.after);
	return e;
}

void reload_begin(
	struct reload *r, struct crew *crew, const struct message_policy *m, int bundle_fd)
{
	if (r->active) { /* the launcher waits for an answer before it asks again */
		fd_close(&bundle_fd);
		return;
	}
	r->asked = *m;
	r->asked.profile[sizeof(r->asked.profile) - 1] = '\0';
	r->asked.text[sizeof(r->asked.text) - 1] = '\0';
	r->asked.signer[sizeof(r->asked.signer) - 1] = '\0';
	r->answer = (struct message_policy_answer){0};
	r->bundle_fd = bundle_fd;
	r->version++;
	int e = reload_compile(r, crew);
	if (e < 0) {
		reload_refuse(r, crew, e, "the proxy can't compile the policy");
		return;
	}
	r->active = true;
	r->deadline_ns = clock_monotonic_ns() + RELOAD_WAIT_NS;
	r->waits[RELOAD_KEEPER] = tell(r, crew, RELOAD_KEEPER, MESSAGE_POLICY_PREPARE);
	for (unsigned i = 0; i < crew->workers; i++)
		r->waits[i] = tell(r, crew, i, MESSAGE_POLICY_PREPARE);
	fault_point("super-policy-begun");
	reload_go_on(r, crew);
}

void reload_note_rejected(struct crew *crew, const struct message_policy *m)
{
	char digest[MESSAGE_DIGEST_BYTES], profile[MESSAGE_NAME_BYTES], text[MESSAGE_TEXT_BYTES];
	(void)slice_copy(
		slice_part(slice_of(m->profile), 0, sizeof(profile) - 1), profile, sizeof(profile));
	(void)slice_copy(slice_part(slice_of(m->text), 0, sizeof(text) - 1), text, sizeof(text));
	digest_of_profile(crew->policy, profile, digest);
	const struct policy_event event = {.reason = REASON_POLICY_REJECTED,
		.origin = crew->policy_origin,
		.profile = profile,
		.before = digest,
		.after = digest,
		.signer = "",
		.text = text,
		.errors = m->errors};
	policy_event_write(crew, &event);
}

void reload_note_start(struct crew *crew)
{
	char digest[MESSAGE_DIGEST_BYTES];
	digest_of_profile(crew->policy, crew->start.profile, digest);
	const struct policy_event event = {.reason = REASON_POLICY_LOADED,
		.origin = crew->policy_origin,
		.profile = crew->start.profile,
		.before = "",
		.after = digest,
		.signer = crew->start.policy_signer,
		.text = ""};
	policy_event_write(crew, &event);
}

void reload_heard(
	struct reload *r, struct crew *crew, unsigned member, const struct message_policy_step *m)
{
	if (!r->active || m->version != r->version || !r->waits[member])
		return;
	r->waits[member] = false;
	if (m->code == 0) {
		reload_go_on(r, crew);
		return;
	}
	tell_all(r, crew, MESSAGE_POLICY_DROP);
	reload_refuse(r, crew, m->code,
		m->code == -ENOENT ? "a sandbox has a profile that the policy has not"
				   : "a part of the proxy can't take the policy");
}

void reload_member_started(struct reload *r, struct crew *crew, unsigned member)
{
	if (r->active)
		r->waits[member] = tell(r, crew, member, MESSAGE_POLICY_PREPARE);
}

void reload_member_died(struct reload *r, struct crew *crew, unsigned member)
{
	r->waits[member] = false;
	reload_go_on(r, crew);
}

uint64_t reload_deadline_ns(const struct reload *r)
{
	return r->active ? r->deadline_ns : UINT64_MAX;
}

void reload_expired(struct reload *r, struct crew *crew)
{
	for (unsigned i = 0; i < array_size(r->waits); i++) {
		if (r->waits[i])
			crew_kill(member_at(crew, i));
		r->waits[i] = false;
	}
	log_event(LOG_LEVEL_ERROR, "policy-late", "version=%u", r->version);
	tell_all(r, crew, MESSAGE_POLICY_DROP);
	reload_refuse(r, crew, -ETIMEDOUT, "a part of the proxy did not take the policy in time");
}
