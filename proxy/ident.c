/* See ident.h. */
#include "proxy/ident.h"

#include "common/cleanup.h"
#include "common/clock.h"

static struct sandbox **bucket(const struct ident *i, const struct address *a)
{
	/* Sandboxes have addresses side by side: the last bytes spread them best. */
	size_t last = a->family == 6 ? 15 : 3;
	uint32_t low = (uint32_t)a->bytes[last - 1] << 8 | a->bytes[last];
	return (struct sandbox **)(uintptr_t)&i->buckets[(low >> 1) % IDENT_BUCKETS];
}

static struct sandbox **place(const struct ident *i, const struct address *a)
{
	struct sandbox **at = bucket(i, a);
	while (*at != NULL && !address_equal(&(*at)->address, a))
		at = &(*at)->next;
	return at;
}

int ident_add(struct ident *i, const struct message_sandbox *message, const struct profile *profile,
	struct sandbox **ret_old)
{
	if (message->address.family != 4 && message->address.family != 6 &&
		message->address.family != 0)
		return -EINVAL;
	struct sandbox *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->address = message->address;
	s->profile = profile;
	memcpy(s->id, message->sandbox_id, sizeof(s->id));
	s->id[sizeof(s->id) - 1] = '\0';
	*ret_old = ident_remove(i, &s->address);
	struct sandbox **at = bucket(i, &s->address);
	s->next = *at;
	*at = s;
	return 0;
}

struct sandbox *ident_find(const struct ident *i, const struct address *address)
{
	static const struct address whoever = {0};
	struct sandbox *found = *place(i, address);
	return found != NULL ? found : *place(i, &whoever);
}

bool sandbox_may_handshake(struct sandbox *s, uint32_t limit, uint64_t now_ns)
{
	uint64_t each_ns = NS_PER_SEC / limit;
	uint64_t from_ns = s->handshakes_ns > now_ns ? s->handshakes_ns : now_ns;
	if (s->address.family == 0)
		return true;
	if (from_ns + each_ns > now_ns + NS_PER_SEC)
		return false;
	s->handshakes_ns = from_ns + each_ns;
	return true;
}

struct sandbox *ident_remove(struct ident *i, const struct address *address)
{
	struct sandbox **at = place(i, address);
	struct sandbox *found = *at;
	if (found != NULL) {
		*at = found->next;
		found->next = NULL;
	}
	return found;
}

void ident_each(const struct ident *i, void (*visit)(struct sandbox *s, void *arg), void *arg)
{
	for (size_t n = 0; n < IDENT_BUCKETS; n++) {
		for (struct sandbox *s = i->buckets[n]; s != NULL; s = s->next)
			visit(s, arg);
	}
}

struct sandbox *ident_take(struct ident *i)
{
	for (size_t n = 0; n < IDENT_BUCKETS; n++) {
		struct sandbox *s = i->buckets[n];
		if (s != NULL) {
			i->buckets[n] = s->next;
			s->next = NULL;
			return s;
		}
	}
	return NULL;
}
