/*
 * The policy of the proxy alone: where the first one comes from, and when and how another one takes its place. Whatever goes
 * wrong, the one in force stays, and says so: to the log, to the audit log, and to who asked. See alone_state.h.
 */
#include "proxy/alone_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/control.h"
#include "proxy/last_good.h"

#include <stdio.h>

#define QUIET_NS (50 * NS_PER_MS)  /* without another change, before files are read */
#define BUSY_NS  (500 * NS_PER_MS) /* however much changes */

static void log_fault(const char *event, const struct reload_fault *f)
{
	char first[256];
	struct slice line = slice_of(f->text), rest;
	(void)slice_split(line, '\n', &line, &rest); /* false: there is one line */
	log_event(LOG_LEVEL_ERROR, event, "errors=%u first=\"%s\"", f->errors,
		slice_escape(line, first, sizeof(first)));
}

static int first_line(const struct reload_fault *f, struct failure *why)
{
	return failure_set(why, f->code, "%s", f->text);
}

/** What is in force when the files are none: the copy, if it is one still; nothing, if there was one. */
static int fall_back(struct alone *a, struct failure *why)
{
	struct alone_policy *p = &a->policy;
	struct reload_fault lost;
	if (a->state_fd < 0)
		return first_line(&p->fault, why);
	buf_clear(&p->bundle.text);
	p->bundle.text.failed = false;
	int r = last_good_read(a->state_fd, &p->bundle.text, &p->bundle.signer);
	if (r == -ENOENT) /* it never had one: it must not seem to work */
		return first_line(&p->fault, why);
	if (r == 0)
		r = reload_source_check(&p->source, &p->bundle, &lost);
	log_fault("policy-not-loaded", &p->fault);
	if (r == 0) {
		p->origin = MESSAGE_POLICY_LAST_GOOD;
		p->kept = true;
		log_event(LOG_LEVEL_ERROR, "policy-last-good", "the copy in %s is in force",
			a->options->state_dir);
		return 0;
	}
	if (p->source.profile == NULL) /* nobody knows what everything would be denied as */
		return first_line(&p->fault, why);
	p->origin = MESSAGE_POLICY_ABSENT;
	log_event(LOG_LEVEL_ERROR, "policy-absent",
		"the copy in %s is %s too: everything is denied", a->options->state_dir,
		r == -EKEYREJECTED ? "not trusted" : "lost");
	r = reload_source_nothing(&p->source, &p->bundle);
	return r < 0 ? failure_errno(why, r, "no policy") : 0;
}

/** Before files are read, so that no change is missed, and after that, when it is known which ones they are. */
static bool watch_files(struct alone *a, struct slice bundle, bool complete)
{
	int r = watch_renew(&a->watch, a->policy.source.path, bundle, complete);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "watch-failed", "not every folder can be watched: %s",
			strerror(-r));
	return r == 1;
}

int alone_first_policy(struct alone *a, struct failure *why)
{
	struct alone_policy *p = &a->policy;
	(void)watch_files(a, (struct slice){0}, false); /* what is new is read now */
	int r = reload_source_load(&p->source, &p->bundle, &p->fault);
	if (watch_files(a, buf_slice(&p->bundle.text), r == 0))
		alone_want(a, ALONE_CHANGED);
	p->origin = MESSAGE_POLICY_NEWEST;
	if (r < 0)
		r = fall_back(a, why);
	if (r == 0 && p->source.profile == NULL) { /* from here on it is this one */
		memcpy(p->profile, p->bundle.profile, sizeof(p->profile));
		p->source.profile = p->profile;
	}
	if (r == 0)
		r = digest_of(buf_slice(&p->bundle.text), p->digest);
	p->since_ms = clock_wall_ms();
	return r;
}

/** What is in force is what the next start has when the files are none. */
static void keep(struct alone *a)
{
	struct alone_policy *p = &a->policy;
	if (a->state_fd < 0 || p->kept || p->origin != MESSAGE_POLICY_NEWEST)
		return;
	int r = last_good_save(a->state_fd, &p->bundle.signer, buf_slice(&p->bundle.text));
	p->kept = r == 0;
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "policy-not-kept", "error=%s", strerror(-r));
}

static struct message_policy message_of(const struct alone *a, enum message_kind kind)
{
	const struct alone_policy *p = &a->policy;
	struct message_policy m = {.header = {.kind = kind},
		.origin = MESSAGE_POLICY_NEWEST,
		.errors = p->fault.errors};
	(void)snprintf(m.profile, sizeof(m.profile), "%s", p->source.profile);
	(void)snprintf(m.text, sizeof(m.text), "%s", p->fault.text); /* of the same size */
	return m;
}

static void tell_rejected(struct alone *a)
{
	struct message_policy m = message_of(a, MESSAGE_POLICY_REJECTED);
	(void)channel_send(a->launcher_fd, &m, sizeof(m), NULL,
		0); /* its end, if that is why, is an event of its own */
}

void alone_policy_started(struct alone *a)
{
	keep(a);
	if (a->policy.fault.text[0] != '\0')
		tell_rejected(a);
}

void alone_want(struct alone *a, enum alone_reason reason)
{
	uint64_t now = clock_monotonic_ns();
	if (reason == ALONE_ASKED) {
		a->load_ns = now;
	} else if ((a->wanted & ALONE_ASKED) == 0) {
		if (a->wanted == 0)
			a->load_by_ns = now + BUSY_NS;
		a->load_ns = now + QUIET_NS < a->load_by_ns ? now + QUIET_NS : a->load_by_ns;
	}
	a->wanted |= (unsigned)reason;
}

int alone_load_timeout_ms(const struct alone *a)
{
	uint64_t now = clock_monotonic_ns();
	if (a->wanted == 0 || a->loading || !a->is_ready)
		return -1;
	return a->load_ns <= now ? 0 : (int)((a->load_ns - now) / NS_PER_MS) + 1;
}

/** To everybody who waits for the load that is over. */
static void answer_clients(
	struct alone *a, int code, const char *before, const char *after, const char *text)
{
	struct control_answer answer = {
		.header = {.kind = CONTROL_ANSWER}, .code = code, .origin = a->policy.origin};
	(void)snprintf(answer.before, sizeof(answer.before), "%s", before);
	(void)snprintf(answer.after, sizeof(answer.after), "%s", after);
	(void)snprintf(answer.text, sizeof(answer.text), "%s", text);
	alone_answer(a, &answer);
}

/** The files are no policy. A change that leaves them as wrong as they were is not said again. */
static void refused(struct alone *a, const struct reload_fault *f, unsigned wanted)
{
	struct reload_fault *known = &a->policy.fault;
	bool news = (wanted & ALONE_ASKED) != 0 || strcmp(known->text, f->text) != 0;
	*known = *f;
	if (news) {
		log_fault("policy-rejected", f);
		tell_rejected(a);
	}
	answer_clients(a, f->code, "", "", f->text);
}

static bool unchanged(struct alone *a)
{
	char digest[DIGEST_TEXT_BYTES];
	return a->policy.origin == MESSAGE_POLICY_NEWEST &&
		strcmp(a->asked.signer.key_id, a->policy.bundle.signer.key_id) == 0 &&
		digest_of(buf_slice(&a->asked.text), digest) == 0 &&
		strcmp(digest, a->policy.digest) == 0;
}

static int ask_super(struct alone *a)
{
	struct message_policy m = message_of(a, MESSAGE_POLICY);
	auto_fd fd = file_memory("policy", buf_slice(&a->asked.text));
	if (fd < 0)
		return fd;
	memcpy(m.signer, a->asked.signer.key_id, sizeof(a->asked.signer.key_id));
	m.text[0] = '\0';
	m.errors = 0;
	return channel_send(a->launcher_fd, &m, sizeof(m), &fd, 1);
}

void alone_load(struct alone *a)
{
	struct reload_fault fault = {0};
	unsigned wanted = a->wanted;
	a->wanted = 0;
	for (size_t i = 0; i < array_size(a->clients); i++) {
		a->clients[i].waits |= a->clients[i].asks;
		a->clients[i].asks = false;
	}
	(void)watch_files(a, (struct slice){0}, false); /* what is new is read now */
	int r = reload_source_load(&a->policy.source, &a->asked, &fault);
	/* Also of what does not load: its repair is a change. */
	if (watch_files(a, buf_slice(&a->asked.text), r == 0))
		alone_want(a, ALONE_CHANGED);
	if (r == 0 && a->serve != NULL)
		r = serve_check(a->serve, &a->asked, &fault);
	if (r < 0) {
		refused(a, &fault, wanted);
		return;
	}
	if (wanted == ALONE_CHANGED && unchanged(a)) {
		a->policy.fault.text[0] = '\0'; /* repaired, by taking it back */
		return;
	}
	r = ask_super(a);
	a->loading = r == 0;
	if (r < 0) {
		(void)snprintf(fault.text, sizeof(fault.text), "can't hand the policy over: %s",
			strerror(-r));
		fault.code = r;
		refused(a, &fault, wanted);
	}
}

void alone_loaded(struct alone *a, const struct message_policy_answer *answer)
{
	struct alone_policy *p = &a->policy;
	if (!a->loading)
		return;
	a->loading = false;
	if (answer->code < 0) { /* super recorded it */
		log_event(LOG_LEVEL_ERROR, "policy-rejected", "error=\"%s\"", answer->text);
		answer_clients(a, answer->code, answer->before, answer->after, answer->text);
		return;
	}
	struct reload_bundle before = p->bundle;
	p->bundle = a->asked;
	a->asked = before;
	p->origin = MESSAGE_POLICY_NEWEST;
	p->fault = (struct reload_fault){0};
	p->kept = false;
	p->since_ms = clock_wall_ms();
	if (digest_of(buf_slice(&p->bundle.text), p->digest) < 0)
		p->digest[0] = '\0'; /* the next change counts as one */
	serve_loaded(a->serve);
	keep(a);
	log_event(LOG_LEVEL_INFO, "policy-loaded", "before=%s after=%s", answer->before,
		answer->after);
	answer_clients(a, 0, answer->before, answer->after, "");
}
