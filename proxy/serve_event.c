/*
 * What a launcher says of its sandbox, as an event of the log: only of kinds that launchers have, and with nothing in it that is not the
 * launcher's to say. Input: a launcher's bytes. See serve_state.h.
 */
#include "proxy/serve_state.h"

#include "common/cleanup.h"

enum { ACTIVITY_LAUNCH = 1, ACTIVITY_TERMINATE = 2, ACTIVITY_REFUSE = 5, ACTIVITY_OTHER = 99 };

/** NULL: it says nothing. False: it has no end. */
static bool text_of(const char *text, size_t capacity, const char **ret)
{
	*ret = text[0] == '\0' ? NULL : text;
	return memchr(text, '\0', capacity) != NULL;
}

#define TEXT_OF(member, ret) text_of((member), sizeof(member), (ret))

static bool kind_is_a_launchers(const struct service_event *m)
{
	if (m->reason >= REASON_COUNT)
		return false;
	switch ((enum reason)m->reason) {
	case REASON_SANDBOX_START:
		return m->class == AUDIT_PROCESS && m->activity == ACTIVITY_LAUNCH;
	case REASON_SANDBOX_EXIT:
		return m->class == AUDIT_PROCESS && m->activity == ACTIVITY_TERMINATE;
	case REASON_SANDBOX_VIOLATION:
		return m->class == AUDIT_PROCESS && m->activity == ACTIVITY_OTHER;
	case REASON_DENY_ADDRESS_PRIVATE:
	case REASON_DENY_ADDRESS_METADATA:
	case REASON_DENY_PACKET:
	case REASON_DENY_RATE:
		return m->class == AUDIT_NETWORK && m->activity == ACTIVITY_REFUSE;
	default:
		return false;
	}
}

/** @return whether there are as many words as it says. */
static bool words_of(const struct service_event *m, struct serve_words *to)
{
	size_t at = 0;
	if (m->words > SERVICE_WORDS_MAX)
		return false;
	for (uint32_t i = 0; i < m->words; i++) {
		const char *end = memchr(m->argv + at, '\0', sizeof(m->argv) - at);
		if (end == NULL)
			return false;
		to->argv[i] = (char *)(uintptr_t)(m->argv + at); /* nobody writes there */
		at = (size_t)(end - m->argv) + 1;
	}
	to->argv[m->words] = NULL;
	return true;
}

static bool files_of(const struct service_event *m, struct serve_words *to)
{
	for (uint32_t i = 0; i < m->file_count && i < SERVICE_FILES_MAX; i++) {
		const struct service_file *f = &m->files[i];
		to->files[i] = (struct audit_file){.name = f->name, .size = f->size};
		if (memchr(f->name, '\0', sizeof(f->name)) == NULL ||
			!TEXT_OF(f->sha256, &to->files[i].sha256))
			return false;
	}
	return true;
}

int serve_event_read(
	const struct service_event *m, struct serve_words *storage, struct audit_event *ret)
{
	struct audit_event e = {.class = (enum audit_class)m->class,
		.activity = m->activity,
		.reason = (enum reason)m->reason,
		.start_ms = m->start_ms,
		.end_ms = m->end_ms,
		.count = m->count,
		.wall_ms = m->wall_ms,
		.cpu_ms = m->cpu_ms,
		.memory_peak_bytes = m->memory_peak_bytes,
		.exit_code = m->exit_code,
		.signal = m->signal,
		.destination = m->destination,
		.destination_port = m->destination_port,
		.argv = m->words > 0 ? storage->argv : NULL,
		.files = storage->files,
		.file_count = m->file_count};
	if (!kind_is_a_launchers(m) || !words_of(m, storage) || !files_of(m, storage) ||
		(m->destination.family != 0 && m->destination.family != 4) ||
		!TEXT_OF(m->verdict, &e.verdict) || !TEXT_OF(m->door, &e.door) ||
		!TEXT_OF(m->address_class, &e.address_class) || !TEXT_OF(m->subject, &e.subject) ||
		!TEXT_OF(m->rule_text, &e.rule_text) || !TEXT_OF(m->detail, &e.detail))
		return -EBADMSG;
	*ret = e;
	return 0;
}
