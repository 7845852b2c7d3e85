/*
 * See import_list.h. Only names at or above another one can overlap with it, so each name is compared with those that
 * stand at its own suffixes: a list of 20,000 names is a matter of milliseconds.
 */
#include "cli/import_list.h"

#include "policy/host.h"

#include <stdio.h>
#include <stdlib.h>

#define HEADS ((size_t)32768)

void import_list_fini(struct import_list *l)
{
	free(l->hosts);
	free(l->heads);
	*l = (struct import_list){.count = 0};
}

/** FNV-1a, of a name that is no secret. */
static size_t chain_of(const char *name)
{
	uint32_t hash = 2166136261U;
	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619U;
	return hash % HEADS;
}

static bool make_room(struct import_list *l)
{
	if (l->hosts == NULL)
		l->hosts = calloc(IMPORT_HOSTS_MAX, sizeof(*l->hosts));
	if (l->heads == NULL)
		l->heads = calloc(HEADS, sizeof(*l->heads));
	return l->hosts != NULL && l->heads != NULL;
}

void import_list_add(
	struct import *im, struct import_list *l, const struct import_host *h, struct slice name)
{
	struct host host;
	if (im->refused)
		return;
	if (host_parse(name, &host) < 0) {
		import_left_out(im, h->place, h->written, "this is no name of a host");
		return;
	}
	if (host.kind == HOST_ADDRESS) {
		import_left_out(im, h->place, h->written,
			"an address; write an ip: rule, if a program asks for it");
		return;
	}
	if (!make_room(l) || l->count == IMPORT_HOSTS_MAX) {
		import_refuse(
			im, h->place, "more than 20,000 names: a policy has no room for them");
		return;
	}
	struct import_host *to = &l->hosts[l->count++];
	*to = *h;
	to->name = arena_dup(&im->arena, slice_of(host.name));
	if (to->name == NULL) {
		import_refuse(im, h->place, "out of memory");
		return;
	}
	size_t chain = chain_of(to->name);
	to->next = l->heads[chain];
	l->heads[chain] = (uint32_t)l->count;
}

/** What a rule names: ".h:8443". */
static const char *target_of(const struct import_host *h, char *to, size_t capacity)
{
	static const char *const prefix[] = {
		[IMPORT_EXACT] = "", [IMPORT_APEX] = ".", [IMPORT_BELOW] = "**."};
	int len = snprintf(to, capacity, "%s%s", prefix[h->reach], h->name);
	if (h->port != 0)
		(void)snprintf(to + len, capacity - (size_t)len, ":%u", h->port);
	return to;
}

/** A deny without a port means all of them; an allow means 443. */
static bool ports_meet(const struct import_host *a, const struct import_host *b)
{
	unsigned port_a = a->port == 0 && a->allow ? 443 : a->port;
	unsigned port_b = b->port == 0 && b->allow ? 443 : b->port;
	return port_a == port_b || port_a == 0 || port_b == 0;
}

/** @above stands at @h's name or above it. */
static bool covers(const struct import_host *above, const struct import_host *h)
{
	bool port = above->port == h->port || (!above->allow && above->port == 0);
	if (strlen(above->name) < strlen(h->name))
		return port && above->reach != IMPORT_EXACT;
	return port && (above->reach == IMPORT_APEX || above->reach == h->reach);
}

static bool overlaps(const struct import_host *above, const struct import_host *h)
{
	if (!ports_meet(above, h))
		return false;
	if (strlen(above->name) < strlen(h->name))
		return above->reach != IMPORT_EXACT;
	return above->reach == IMPORT_APEX || h->reach == IMPORT_APEX || above->reach == h->reach;
}

/** For each pair of a host and one at its name or above, but itself. */
typedef void visit_pair(
	struct import *im, struct import_list *l, struct import_host *h, struct import_host *above);

static void visit_pairs(struct import *im, struct import_list *l, visit_pair *visit)
{
	for (size_t i = 0; i < l->count && !im->refused; i++) {
		struct import_host *h = &l->hosts[i];
		const char *name = h->name;
		while (name != NULL) {
			uint32_t at = l->heads[chain_of(name)];
			for (; at != 0; at = l->hosts[at - 1].next) {
				struct import_host *above = &l->hosts[at - 1];
				if (above != h && strcmp(above->name, name) == 0)
					visit(im, l, h, above);
			}
			name = strchr(name, '.');
			name = name == NULL ? NULL : name + 1;
		}
	}
}

/** What an earlier entry decides gets no rule; one that was not taken because it allows too much decides nothing. */
static void drop_decided(
	struct import *im, struct import_list *l, struct import_host *h, struct import_host *above)
{
	(void)im, (void)l;
	if (above < h && covers(above, h) && !(above->unsaid && above->allow))
		h->dropped = above->place;
}

/** What became of a deny with allows before and after it; an allow after a deny that has no words. */
static void note_order(
	struct import *im, struct import_list *l, struct import_host *h, struct import_host *above)
{
	(void)l;
	struct import_host *deny = h->allow ? above : h, *allow = h->allow ? h : above;
	if (h->allow == above->allow || deny->dropped != NULL || allow->dropped != NULL ||
		allow->unsaid || !overlaps(above, h))
		return;
	if (allow < deny && im->observe)
		import_refuse(im, deny->place,
			"it denies part of what is allowed before, and this service lets pass what it does "
			"not allow; here a deny beats every allow");
	else if (allow < deny)
		deny->after_allow = true;
	else if (deny->unsaid && !allow->unsaid) {
		allow->unsaid = true;
		import_left_out(im, allow->place, allow->written,
			"part of it is denied before, by a line that was not imported");
	}
}

static void refuse_order(
	struct import *im, struct import_list *l, struct import_host *h, struct import_host *above)
{
	char why[512];
	(void)l;
	struct import_host *deny = h->allow ? above : h, *allow = h->allow ? h : above;
	if (h->allow == above->allow || deny->dropped != NULL || allow->dropped != NULL ||
		allow->unsaid || !deny->after_allow || allow < deny || !overlaps(above, h))
		return;
	(void)snprintf(why, sizeof(why),
		"its order matters: it denies part of what %s allows, after another allow took its "
		"part, and here a deny beats every allow; reorder it",
		allow->place);
	import_refuse(im, deny->place, why);
}

/** Of a list that only denies: an exception from a part of what it denies. */
static void leave_exception(
	struct import *im, struct import_list *l, struct import_host *h, struct import_host *above)
{
	(void)l;
	if (!h->allow || h->unsaid || above->allow || above->dropped != NULL || above->unsaid ||
		!overlaps(above, h))
		return;
	h->unsaid = true;
	import_left_out(im, h->place, h->written,
		"an exception from a part of what another line denies; here a deny beats every "
		"allow, so all of it stays denied");
}

/** A rule whose twin says more: lint would call it shadowed. */
static void drop_shadowed(
	struct import *im, struct import_list *l, struct import_host *h, struct import_host *above)
{
	(void)im, (void)l;
	if (h->allow == above->allow && h->dropped == NULL && above->dropped == NULL &&
		!above->unsaid && !(above->after_allow && !above->allow) && covers(above, h))
		h->dropped = above->place;
}

static bool is_denied(const struct import_list *l, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < l->count; i++) {
		const struct import_host *d = &l->hosts[i];
		size_t own = d->allow || d->dropped != NULL ? len + 1 : strlen(d->name);
		if (own > len || strcmp(name + len - own, d->name) != 0)
			continue;
		if (own == len ? d->reach != IMPORT_BELOW
			       : d->reach != IMPORT_EXACT && name[len - own - 1] == '.')
			return true;
	}
	return false;
}

static void write_expect(
	struct import *im, const struct import_list *l, const struct import_host *h)
{
	char name[HOST_NAME_BYTES + 8], port[16] = "";
	bool below = h->reach == IMPORT_BELOW;
	(void)snprintf(name, sizeof(name), "%s%s", below ? "x." : "", h->name);
	if (im->profile == NULL || strlen(name) >= HOST_NAME_BYTES ||
		im->expects > IMPORT_EXPECTS_MAX || (h->allow && is_denied(l, name)))
		return;
	if (h->port != 0)
		(void)snprintf(port, sizeof(port), ":%u", h->port);
	import_expect(im, "%s GET %s://%s%s/%s", h->allow ? "allow" : "deny",
		h->port == 80 ? "http" : "https", name, h->port == 80 ? "" : port,
		h->allow ? "" : " code=deny.rule");
}

/** An exception of a list that only denies gets no rule: the denies that it covers got none. */
static bool only_exempts(const struct import *im, const struct import_host *h)
{
	return im->profile == NULL && h->allow;
}

static void write_host(struct import *im, const struct import_host *h)
{
	char target[HOST_NAME_BYTES + 16], statement[HOST_NAME_BYTES + 32], shown[200];
	if (h->unsaid)
		return;
	if (h->dropped != NULL) {
		import_comment(im, "not needed: %s: %s: decided by %s", h->place,
			slice_escape(h->written, shown, sizeof(shown)), h->dropped);
		return;
	}
	if (only_exempts(im, h)) {
		import_comment(im, "an exception: %s: %s", h->place,
			slice_escape(h->written, shown, sizeof(shown)));
		return;
	}
	if (!h->allow && h->after_allow) {
		import_comment(im, "not needed: %s: %s: nothing after it allows any of this",
			h->place, slice_escape(h->written, shown, sizeof(shown)));
		return;
	}
	(void)snprintf(statement, sizeof(statement), "%s %s", h->allow ? "allow" : "deny",
		target_of(h, target, sizeof(target)));
	(void)buf_printf(&im->text, "%s  # %s\n", statement, h->place);
	im->rules++;
}

/** Names that the language has no rule for, such as all of a public suffix. */
static void judge_hosts(struct import *im, struct import_list *l)
{
	char target[HOST_NAME_BYTES + 16], statement[HOST_NAME_BYTES + 32];
	for (size_t i = 0; i < l->count; i++) {
		struct import_host *h = &l->hosts[i];
		(void)snprintf(statement, sizeof(statement), "%s %s", h->allow ? "allow" : "deny",
			target_of(h, target, sizeof(target)));
		const char *why = only_exempts(im, h) ? NULL : import_judge(im, statement);
		if (why == NULL)
			continue;
		h->unsaid = true;
		import_left_out(im, h->place, h->written, why);
	}
}

void import_list_write(struct import *im, struct import_list *l)
{
	if (im->refused)
		return;
	judge_hosts(im, l);
	visit_pairs(im, l, drop_decided);
	if (im->profile == NULL) {
		visit_pairs(im, l, leave_exception);
	} else {
		visit_pairs(im, l, note_order);
		visit_pairs(im, l, refuse_order);
	}
	visit_pairs(im, l, drop_shadowed);
	for (size_t i = 0; i < l->count && !im->refused; i++)
		write_host(im, &l->hosts[i]);
	for (size_t i = 0; i < l->count && !im->refused; i++) {
		const struct import_host *h = &l->hosts[i];
		if (!h->unsaid && h->dropped == NULL && !(!h->allow && h->after_allow))
			write_expect(im, l, h);
	}
	if (im->profile != NULL && !im->observe && !im->refused &&
		!is_denied(l, "unlisted.invalid"))
		import_expect(im, "deny GET https://unlisted.invalid/ code=deny.default");
}
