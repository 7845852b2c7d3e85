/*
 * Starting the proxy alone: what launcher and netd do for a run, for the one sandbox of whoever comes. Nothing is served before
 * all of it worked. See alone_state.h.
 */
#include "proxy/alone_state.h"

#include "audit/key.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/log.h"
#include "common/privilege.h"
#include "common/resolver.h"
#include "common/uids.h"
#include "common/upstream.h"
#include "ipc/channel.h"
#include "proxy/super.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* A CA that is made lives in memory, as long as this process: its certificate's life bounds nothing that the process's does not. */
#define ALONE_CA_LIFETIME_SECONDS ((uint32_t)3650 * 24 * 3600)
#define ALONE_BACKLOG             4096
#define ALONE_FDS_MAX             (12 + 2 * MESSAGE_WORKERS_MAX)

/** What the start message carries. */
struct start_parts {
	struct message_proxy_start message;
	struct upstream_files upstream;
	int bundle_fd, listener_fd, ca_fd, ca_key_fd, audit_key_fd, upstream_proxy_fd;
	int metrics_fds[MESSAGE_WORKERS_MAX];
	int ring_fds[MESSAGE_WORKERS_MAX + 1]; /* the workers', super's */
};

static int start_listen(struct alone *a, struct start_parts *p, struct failure *why)
{
	const struct alone_options *o = a->options;
	char shown[ADDRESS_TEXT_BYTES];
	struct sockaddr_storage sa;
	struct address bound;
	int on = 1;
	socklen_t len = address_to_sockaddr(&o->address, o->port, &sa);
	auto_fd fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, ALONE_BACKLOG) < 0)
		return failure_errno(why, -errno, "--listen: can't listen on %s, port %u",
			address_format(&o->address, shown), o->port);
	len = sizeof(sa);
	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return failure_errno(why, -errno, "--listen");
	int r = address_from_sockaddr((struct sockaddr *)&sa, &bound, &a->port);
	if (r == 0)
		p->listener_fd = fd_take(&fd);
	return r < 0 ? failure_errno(why, r, "--listen") : 0;
}

static int open_pem(const char *option, const char *path, struct failure *why)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "%s: can't open %s", option, path);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "%s: %s is no regular file", option, path);
	return fd_take(&fd);
}

/** The keeper reads them; nobody else does. */
static int start_open_ca(struct alone *a, struct start_parts *p, struct failure *why)
{
	const struct alone_options *o = a->options;
	struct stat st;
	p->message.ca_lifetime_s = ALONE_CA_LIFETIME_SECONDS;
	if (o->ca == NULL)
		return 0;
	p->message.has_ca = 1;
	p->ca_fd = open_pem("--ca", o->ca, why);
	if (p->ca_fd >= 0)
		p->ca_key_fd = open_pem("--ca-key", o->ca_key, why);
	if (p->ca_fd < 0 || p->ca_key_fd < 0)
		return p->ca_fd < 0 ? p->ca_fd : p->ca_key_fd;
	if (fstat(p->ca_key_fd, &st) == 0 && (st.st_mode & 077) != 0)
		log_event(LOG_LEVEL_WARN, "ca-key-readable", "others than its owner may read %s",
			o->ca_key);
	return 0;
}

static int start_resolvers(struct alone *a, struct start_parts *p, struct failure *why)
{
	struct resolver found[MESSAGE_RESOLVERS_MAX];
	int count = resolver_find(a->options->resolver, found, array_size(found), why);
	for (int i = 0; i < count; i++) {
		p->message.resolvers[i].address = found[i].address;
		p->message.resolvers[i].port = found[i].port;
	}
	p->message.resolver_count = count < 0 ? 0 : (uint32_t)count;
	return count < 0 ? count : 0;
}

static int start_upstream_proxy(struct alone *a, struct start_parts *p, struct failure *why)
{
	struct upstream_proxy proxy;
	int r = upstream_proxy_find(&a->options->upstream_proxy, &proxy, why);
	if (r == 0 && proxy.count > 0) {
		r = p->upstream_proxy_fd = upstream_proxy_write(&proxy);
		if (r < 0)
			(void)failure_errno(why, r, "can't hand over the upstream proxy's place");
	}
	upstream_proxy_wipe(&proxy);
	return r < 0 ? r : 0;
}

/** As the host's root: a uid that nobody has. Else the proxy is this user's. */
static int start_user(struct alone *a, struct start_parts *p, struct failure *why)
{
	if (!privilege_is_host_root())
		return 0;
	a->uid_lock = uids_claim(&a->uid, why);
	p->message.uid = a->uid;
	return a->uid_lock < 0 ? a->uid_lock : 0;
}

static int start_open(struct alone *a, struct start_parts *p, struct failure *why)
{
	const struct upstream_options upstream = {
		a->options->upstream_ca, a->options->hosts, a->options->upstream_proxy};
	int r = a->options->serve ? 0 : start_listen(a, p, why);
	if (r == 0)
		r = upstream_check(&upstream, why);
	if (r == 0)
		r = upstream_open(&upstream, &p->upstream, why);
	if (r == 0)
		r = start_upstream_proxy(a, p, why);
	if (r == 0)
		r = start_resolvers(a, p, why);
	if (r == 0)
		r = start_open_ca(a, p, why);
	if (r == 0)
		r = start_user(a, p, why);
	if (r == 0)
		r = alone_open_metrics(a, p->metrics_fds, why);
	if (r < 0)
		return r;
	struct failure key = {0};
	p->audit_key_fd = audit_key_open_default(geteuid() == 0, &key);
	if (key.code < 0)
		return failure_set(why, key.code, "%s", key.text);
	p->bundle_fd = file_memory("policy", buf_slice(&a->policy.bundle.text));
	if (p->bundle_fd < 0)
		return failure_errno(why, p->bundle_fd, "can't hand over the policy");
	return 0;
}

/** In the child: what is left of this process is super. */
static void super_child(int launcher_fd, int netd_fd)
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)sigemptyset(&none);                    /* can't fail on a set of ours */
	(void)sigprocmask(SIG_SETMASK, &none, NULL); /* can't fail with these arguments */
	/* Who reads our output must see its end when we end. */
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(ALONE_EXIT_FAILED);
	_exit(super_run(launcher_fd, netd_fd));
}

static int start_super(struct alone *a, struct failure *why)
{
	int launcher[2], netd[2];
	int r = channel_pair(launcher);
	if (r < 0)
		return failure_errno(why, r, "can't make channels");
	r = channel_pair(netd);
	if (r < 0) {
		fd_close(&launcher[0]);
		fd_close(&launcher[1]);
		return failure_errno(why, r, "can't make channels");
	}
	a->launcher_fd = launcher[0];
	if (!a->options->serve)
		a->netd_fd = fd_take(&netd[0]);
	/* What a dead super leaves becomes our child, and is reaped. */
	pid_t pid = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -1 : fork();
	if (pid == 0)
		super_child(launcher[1], netd[1]);
	r = pid < 0 ? failure_errno(why, -errno, "can't start the proxy") : 0;
	a->super = pid < 0 ? 0 : pid;
	fd_close(&launcher[1]);
	fd_close(&netd[1]);
	if (r == 0 && a->options->serve)
		r = serve_open(a, netd[0], why);
	fd_close(&netd[0]);
	if (pid < 0)
		return r;
	a->super_pidfd = pidfd_open(pid, 0);
	if (a->super_pidfd < 0 || fcntl(a->launcher_fd, F_SETFL, O_NONBLOCK) < 0 ||
		(a->netd_fd >= 0 && fcntl(a->netd_fd, F_SETFL, O_NONBLOCK) < 0))
		return failure_errno(why, -errno, "can't start the proxy");
	return r;
}

/** Those that are there. */
static void add_fds(const int *from, size_t number, int *to, size_t *count)
{
	for (size_t i = 0; i < number; i++) {
		if (from[i] >= 0)
			to[(*count)++] = from[i];
	}
}

/** The one sandbox that all clients are of, and where they come in. */
static int start_sandbox(struct alone *a, const struct start_parts *p)
{
	const struct message_listeners listeners = {
		.header = {.kind = MESSAGE_LISTENERS}, .count = 1, .kinds = 1};
	struct message_sandbox sandbox = {.header = {.kind = MESSAGE_SANDBOX_ADD}};
	memcpy(sandbox.sandbox_id, a->id, sizeof(sandbox.sandbox_id));
	memcpy(sandbox.profile, p->message.profile, sizeof(sandbox.profile));
	int r = channel_send(a->netd_fd, &listeners, sizeof(listeners), &p->listener_fd, 1);
	return r == 0 ? channel_send(a->netd_fd, &sandbox, sizeof(sandbox), NULL, 0) : r;
}

static int start_send(struct alone *a, struct start_parts *p, struct failure *why)
{
	unsigned workers = a->options->workers;
	int fds[ALONE_FDS_MAX] = {p->bundle_fd, a->segment_fd};
	size_t count = 2;
	add_fds(p->ring_fds, workers, fds, &count);
	fds[count++] = p->upstream.roots_fd;
	const int more[] = {p->upstream.more_roots_fd, p->upstream.hosts_fd, p->ring_fds[workers],
		p->ca_fd, p->ca_key_fd, p->audit_key_fd};
	add_fds(more, array_size(more), fds, &count);
	add_fds(p->metrics_fds, workers, fds, &count);
	add_fds(&p->upstream_proxy_fd, 1, fds, &count);
	struct message_proxy_start *m = &p->message;
	m->header.kind = MESSAGE_PROXY_START;
	m->workers = workers;
	m->says_recorded = a->options->serve;
	m->has_upstream_ca = p->upstream.more_roots_fd >= 0;
	m->has_hosts = p->upstream.hosts_fd >= 0;
	m->has_own_ring = 1;
	m->has_audit_key = p->audit_key_fd >= 0;
	m->has_metrics = p->metrics_fds[0] >= 0;
	m->has_upstream_proxy = p->upstream_proxy_fd >= 0;
	m->policy_origin = a->policy.origin;
	m->segment_bytes = a->options->segment_bytes;
	memcpy(m->policy_signer, a->policy.bundle.signer.key_id,
		sizeof(a->policy.bundle.signer.key_id));
	int r = slice_copy(slice_of(a->policy.source.profile), m->profile, sizeof(m->profile));
	if (r < 0)
		return failure_set(why, r, "the profile's name is too long");
	r = channel_send(a->launcher_fd, m, sizeof(*m), fds, count);
	if (r == 0 && !a->options->serve)
		r = start_sandbox(a, p);
	/* EPIPE: it has ended; its last words are read later */
	return r < 0 && r != -EPIPE ? failure_errno(why, r, "can't speak to the proxy") : 0;
}

int alone_start(struct alone *a, struct failure *why)
{
	struct start_parts *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return failure_errno(why, -ENOMEM, "can't start the proxy");
	p->upstream = UPSTREAM_FILES_NONE;
	p->bundle_fd = p->listener_fd = p->ca_fd = p->ca_key_fd = p->audit_key_fd = -1;
	p->upstream_proxy_fd = -1;
	for (size_t i = 0; i <= MESSAGE_WORKERS_MAX; i++)
		p->ring_fds[i] = -1;
	for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++)
		p->metrics_fds[i] = -1;
	int r = start_open(a, p, why);
	if (r == 0)
		r = alone_begin_log(a, why);
	if (r == 0)
		r = alone_open_rings(a, p->ring_fds, why);
	if (r == 0)
		r = start_super(a, why);
	if (r == 0)
		r = start_send(a, p, why);
	int *fds[] = {&p->bundle_fd, &p->listener_fd, &p->ca_fd, &p->ca_key_fd, &p->audit_key_fd,
		&p->upstream_proxy_fd};
	for (size_t i = 0; i < array_size(fds); i++)
		fd_close(fds[i]);
	for (size_t i = 0; i <= MESSAGE_WORKERS_MAX; i++)
		fd_close(&p->ring_fds[i]);
	for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++)
		fd_close(&p->metrics_fds[i]);
	upstream_close(&p->upstream);
	free(p);
	return r;
}
