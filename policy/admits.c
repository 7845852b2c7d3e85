/* Whether a name is within a policy at all. Asked by the process that signs certificates, about what a worker asks for. */
#include "policy/profile.h"

/** Whether the profile lets TLS to this host begin on some port that this allow rule names. */
static bool rule_admits(
	const struct profile *p, const struct rule_entry *r, struct policy_question q)
{
	static const struct port_range any = {443, 443};
	const struct port_range *ports = r->port_count > 0 ? r->ports : &any;
	size_t count = r->port_count > 0 ? r->port_count : 1;
	for (size_t i = 0; i < 2 * count; i++) {
		struct policy_verdict verdict;
		q.port = i % 2 == 0 ? ports[i / 2].first : ports[i / 2].last;
		policy_decide_host(p, &q, &verdict);
		if (reason_allows(verdict.reason))
			return true;
	}
	return false;
}

static bool slot_admits(const struct profile *p, const struct profile_slot *slot,
	size_t labels_before, const struct policy_question *q)
{
	for (size_t i = 0; slot != NULL && i < slot->count; i++) {
		const struct rule_entry *r = p->rules[slot->first + i];
		if (r->rule.allow && pattern_covers(r->kind, labels_before) &&
			rule_admits(p, r, *q))
			return true;
	}
	return false;
}

/** The rules of every suffix of the name, as decide.c finds them. */
static bool profile_admits(const struct profile *p, const struct policy_question *q)
{
	struct slice name = slice_of(q->host->name);
	uint32_t hash = PROFILE_HASH_START;
	size_t labels_before = 1;
	for (size_t i = 0; i < name.len; i++)
		labels_before += name.ptr[i] == '.';
	for (size_t i = name.len; i > 0; i--) {
		hash = profile_hash_step(hash, name.ptr[i - 1]);
		if (i > 1 && name.ptr[i - 2] != '.')
			continue;
		labels_before--;
		struct slice suffix = slice_part(name, i - 1, name.len);
		if (slot_admits(p, profile_find(p, suffix, hash), labels_before, q))
			return true;
	}
	return false;
}

bool policy_admits_name(const struct policy *p, const struct host *host, uint64_t now_ms)
{
	struct policy_question q = {.host = host, .scheme = POLICY_SCHEME_HTTPS, .now_ms = now_ms};
	if (host->kind != HOST_NAME)
		return false;
	for (size_t i = 0; i < p->profile_count; i++) {
		if (profile_admits(&p->profiles[i], &q))
			return true;
	}
	return false;
}
