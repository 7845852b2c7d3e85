/* See listener.h. Nothing is accepted here: the descriptors are the proxy's. */
#include "netd/listener.h"

#include "common/cleanup.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>

unsigned listener_worker(const struct address *sandbox, unsigned workers)
{
	uint32_t value = (uint32_t)sandbox->bytes[0] << 24 | (uint32_t)sandbox->bytes[1] << 16 |
		(uint32_t)sandbox->bytes[2] << 8 | sandbox->bytes[3];
	return (value >> 1) % workers;
}

/** The same formula for the kernel, over the IPv4 header's source address; TCP and UDP alike. */
static int listener_steer(int fd, unsigned workers)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + 12),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, workers),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.len = array_size(steps), .filter = steps};
	int r = setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
	return r < 0 ? -errno : 0;
}

static int listener_make(const struct listener_spec *spec)
{
	int type = spec->datagram ? SOCK_DGRAM : SOCK_STREAM;
	auto_fd fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	struct sockaddr_storage where;
	socklen_t len = address_to_sockaddr(&spec->address, spec->port, &where);
	int on = 1;
	if (spec->transparent && setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on)) < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *)&where, len) < 0)
		return -errno;
	if (!spec->datagram && listen(fd, LISTENER_BACKLOG) < 0)
		return -errno;
	return fd_take(&fd);
}

int listener_open(
	const struct listener_spec *spec, unsigned workers, int *ret_fds, struct failure *why)
{
	int r = 0;
	unsigned made = 0;
	/* a socket's number in its group is the order of listen(), of bind() where there is none */
	for (; made < workers; made++) {
		r = listener_make(spec);
		if (r < 0) {
			failure_errno(why, r, "can't listen for the proxy in the gateway");
			break;
		}
		ret_fds[made] = r;
	}
	if (r >= 0) {
		r = listener_steer(ret_fds[0], workers);
		if (r == 0)
			return 0;
		failure_errno(why, r, "can't steer connections to workers");
	}
	while (made > 0)
		fd_close(&ret_fds[--made]);
	return r;
}
