/* See call_filter.h. */
#include "common/call_filter.h"

#include "common/cleanup.h"

#include <linux/netlink.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>

void call_filter_begin(struct call_filter *f, unsigned who)
{
	*f = (struct call_filter){.context = seccomp_init(SCMP_ACT_ERRNO(EPERM)), .who = who};
	if (f->context == NULL)
		f->error = -ENOMEM;
}

/** Arguments that have to fit, all of them. */
static void add(struct call_filter *f, uint32_t action, int number,
	const struct scmp_arg_cmp *arguments, unsigned count)
{
	if (f->error == 0)
		f->error = seccomp_rule_add_array(f->context, action, number, count, arguments);
}

void call_filter_allow(struct call_filter *f, const struct call_rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if ((rules[i].who & f->who) != 0)
			add(f, SCMP_ACT_ALLOW, rules[i].number, NULL, 0);
	}
}

void call_filter_allow_commands(
	struct call_filter *f, const struct call_command *commands, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct scmp_arg_cmp is =
			SCMP_CMP(commands[i].at, SCMP_CMP_EQ, commands[i].value, 0);
		if ((commands[i].who & f->who) != 0)
			add(f, SCMP_ACT_ALLOW, commands[i].number, &is, 1);
	}
}

void call_filter_absent(struct call_filter *f, const int *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(f, SCMP_ACT_ERRNO(ENOENT), numbers[i], NULL, 0);
}

void call_filter_fatal(struct call_filter *f, const int *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(f, SCMP_ACT_KILL_PROCESS, numbers[i], NULL, 0);
}

void call_filter_data_memory(struct call_filter *f)
{
	const int calls[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	const struct scmp_arg_cmp data = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	for (size_t i = 0; i < array_size(calls); i++)
		add(f, SCMP_ACT_ALLOW, calls[i], &data, 1);
}

void call_filter_threads(struct call_filter *f, uint64_t mask, uint64_t flags)
{
	const struct scmp_arg_cmp thread = SCMP_A0(SCMP_CMP_MASKED_EQ, mask, flags);
	add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), &thread, 1);
	add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), NULL, 0);
}

void call_filter_sockets(struct call_filter *f, unsigned family)
{
	const scmp_datum_t flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
	const unsigned types[] = {SOCK_STREAM, SOCK_DGRAM};
	for (size_t i = 0; i < array_size(types); i++) {
		const struct scmp_arg_cmp socket_of[] = {SCMP_A0(SCMP_CMP_EQ, family, 0),
			SCMP_A1(SCMP_CMP_MASKED_EQ, ~flags & UINT32_MAX, types[i])};
		add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), socket_of, 2);
	}
}

void call_filter_route_socket(struct call_filter *f)
{
	const struct scmp_arg_cmp routes[] = {
		SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0), SCMP_A2(SCMP_CMP_EQ, NETLINK_ROUTE, 0)};
	add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), routes, 2);
}

int call_filter_load(struct call_filter *f)
{
	if (f->error == 0)
		f->error = seccomp_load(f->context);
	if (f->context != NULL)
		seccomp_release(f->context);
	f->context = NULL;
	return f->error;
}
