/* See openings.h. */
#include "ipc/openings.h"

#include <netinet/in.h>

static void openings_add(struct openings *o, const struct message_opened *entry)
{
	if (o->to->opened_count < MESSAGE_OPENED_MAX)
		o->to->opened[o->to->opened_count++] = *entry;
	else
		o->too_many_opened = true;
}

/** The prefix that is this address and no other. */
static struct cidr cidr_of(const struct address *address)
{
	return (struct cidr){*address, address->family == 4 ? 32 : 128};
}

void openings_open(const struct cidr *prefix, uint16_t port_first, uint16_t port_last, void *arg)
{
	const struct message_opened entry = {.prefix = *prefix,
		.protocol = IPPROTO_TCP,
		.port_first = port_first,
		.port_last = port_last};
	openings_add(arg, &entry);
}

void openings_open_server(struct openings *o, const struct address *address, uint16_t port)
{
	const struct message_opened entry = {
		.prefix = cidr_of(address), .port_first = port, .port_last = port};
	openings_add(o, &entry);
}

void openings_open_proxy(struct openings *o, const struct address *address, uint16_t port)
{
	const struct cidr one = cidr_of(address);
	openings_open(&one, port, port, o);
}

void openings_capture(const struct cidr *prefix, void *arg)
{
	struct openings *o = arg;
	if (prefix->base.family != 4)
		return;
	if (o->to->captured_count < MESSAGE_CAPTURED_MAX)
		o->to->captured[o->to->captured_count++] = *prefix;
	else
		o->too_many_captured = true;
}
