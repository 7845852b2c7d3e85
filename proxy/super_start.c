/* See super_start.h. Launcher and netd are trusted with what they say, not with getting it right. */
#include "proxy/super_start.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/privilege.h"
#include "ipc/channel.h"
#include "proxy/prepared.h"

#include <fcntl.h>

#define HOSTS_BYTES_MAX ((size_t)1 << 20)
#define FIXED_FDS       3 /* policy, segment, CA bundle */

static void close_all(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fd_close(&fds[i]);
}

/** Should be possible afterwards: what any process of this uid may do. Not: reading it, gaining anything by exec. */
static int give_up_privileges(const struct message_proxy_start *start, struct failure *why)
{
	if (start->uid == 0 && privilege_is_host_root())
		return failure_set(why, -EPERM, "proxy: refuses to run as the host's root");
	int r = start->uid == 0 ? 0 : privilege_change_user(start->uid, start->uid);
	if (r == 0)
		r = privilege_drop_all();
	if (r == 0)
		r = privilege_hide(); /* the change of uid had undone it */
	return r < 0 ? failure_errno(why, r, "proxy: can't drop privileges") : 0;
}

static int load_policy(int fd, struct crew *crew, struct failure *why)
{
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	if (report == NULL)
		return failure_errno(why, -ENOMEM, "proxy: policy");
	int r = prepared_policy(fd, &crew->policy, report);
	if (r < 0 && report->count > 0) {
		char line[FAILURE_TEXT_BYTES];
		(void)failure_set(why, r, "proxy: policy: %s",
			policy_diagnostic_format(&report->items[0], line, sizeof(line)));
	}
	return r < 0 ? failure_errno(why, r, "proxy: policy") : 0;
}

static int load_hosts(int fd, struct crew *crew, struct failure *why)
{
	buf_init(&crew->hosts, HOSTS_BYTES_MAX + 65536);
	int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno
					   : file_read_fd(fd, HOSTS_BYTES_MAX, &crew->hosts);
	return r < 0 ? failure_errno(why, r, "proxy: can't read the hosts file") : 0;
}

static int load_upstream_proxy(int fd, struct crew *crew, struct failure *why)
{
	int r = upstream_proxy_read(fd, &crew->upstream_proxy);
	return r < 0 ? failure_errno(why, r, "proxy: the upstream proxy's place") : 0;
}

/** Give the descriptors their places; policy and hosts are read and closed. */
static int place_descriptors(int *fds, struct crew *crew, struct failure *why)
{
	size_t at = 0;
	auto_fd bundle = fd_take(&fds[at++]);
	crew->segment_fd = fd_take(&fds[at++]);
	for (unsigned i = 0; i < crew->workers; i++)
		crew->ring_fds[i] = fd_take(&fds[at++]);
	crew->ca_bundle_fd = fd_take(&fds[at++]);
	if (crew->start.has_upstream_ca != 0)
		crew->upstream_ca_fd = fd_take(&fds[at++]);
	auto_fd hosts = crew->start.has_hosts != 0 ? fd_take(&fds[at++]) : -1;
	if (crew->start.has_own_ring != 0)
		crew->own_ring_fd = fd_take(&fds[at++]);
	if (crew->start.has_ca != 0) {
		crew->ca_fd = fd_take(&fds[at++]);
		crew->ca_key_fd = fd_take(&fds[at++]);
	}
	if (crew->start.has_audit_key != 0)
		crew->audit_key_fd = fd_take(&fds[at++]);
	for (unsigned i = 0; crew->start.has_metrics != 0 && i < crew->workers; i++)
		crew->metrics_fds[i] = fd_take(&fds[at++]);
	auto_fd proxy = crew->start.has_upstream_proxy != 0 ? fd_take(&fds[at++]) : -1;
	crew->start.profile[sizeof(crew->start.profile) - 1] = '\0';
	crew->start.policy_signer[sizeof(crew->start.policy_signer) - 1] = '\0';
	crew->policy_origin = crew->start.policy_origin;
	int r = load_policy(bundle, crew, why);
	if (r == 0 && crew->own_ring_fd >= 0) {
		crew->own_ring = audit_ring_map(crew->own_ring_fd);
		if (crew->own_ring == NULL)
			r = failure_set(why, -EBADMSG, "proxy: a ring of the audit log is not one");
	}
	if (r == 0 && hosts >= 0)
		r = load_hosts(hosts, crew, why);
	if (r == 0 && proxy >= 0)
		r = load_upstream_proxy(proxy, crew, why);
	if (r == 0)
		r = audit_segment_attach(crew->segment_fd, NULL, &crew->segment, why);
	return r;
}

int super_take_start(int launcher_fd, struct crew *crew, struct failure *why)
{
	int fds[CHANNEL_FDS_MAX];
	size_t count = 0;
	struct message_proxy_start *start = &crew->start;
	int got = channel_receive(launcher_fd, start, sizeof(*start), fds, CHANNEL_FDS_MAX, &count);
	if (got <= 0)
		return got < 0 ? failure_errno(why, got, "proxy: start message") : 0;
	size_t wanted = FIXED_FDS + start->workers + (start->has_upstream_ca != 0) +
		(start->has_hosts != 0) + (start->has_own_ring != 0) +
		2 * (size_t)(start->has_ca != 0) + (start->has_audit_key != 0) +
		(start->has_metrics != 0 ? start->workers : 0) + (start->has_upstream_proxy != 0);
	if (got != (int)sizeof(*start) || start->header.kind != MESSAGE_PROXY_START ||
		start->workers == 0 || start->workers > MESSAGE_WORKERS_MAX ||
		start->resolver_count > MESSAGE_RESOLVERS_MAX || count != wanted) {
		close_all(fds, count);
		return failure_set(why, -EPROTO, "proxy: malformed start message");
	}
	crew->workers = start->workers;
	int r = give_up_privileges(start, why);
	if (r == 0)
		r = place_descriptors(fds, crew, why);
	close_all(fds, count);
	return r < 0 ? r : 1;
}

int super_take_listeners(const struct message_listeners *message, const int *fds, size_t fd_count,
	struct crew *crew, struct failure *why)
{
	int own[CHANNEL_FDS_MAX];
	memcpy(own, fds, fd_count * sizeof(own[0]));
	size_t kinds = message->kinds;
	if (message->count != crew->workers || crew->listener_fds[LISTENER_EXPLICIT][0] >= 0 ||
		(kinds != 1 && kinds != LISTENER_KIND_COUNT) ||
		fd_count != kinds * crew->workers + (message->has_guard != 0)) {
		close_all(own, fd_count);
		return failure_set(why, -EPROTO, "proxy: malformed listeners message");
	}
	for (size_t kind = 0; kind < kinds; kind++) {
		for (unsigned i = 0; i < crew->workers; i++)
			crew->listener_fds[kind][i] = own[kind * crew->workers + i];
	}
	if (message->has_guard != 0)
		crew->guard_fd = own[kinds * crew->workers];
	return 0;
}
