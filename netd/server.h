/*
 * netd's life: start as the launcher says, tell the proxy, then serve leases until the proxy or
 * (embedded) the launcher is gone.
 */
#ifndef ECLUSA_NETD_SERVER_H
#define ECLUSA_NETD_SERVER_H

/**
 * Serve over two connected seqpacket channels, which are owned from now on: the launcher's, which
 * is also the one lease of an embedded run, and the proxy's. Blocks. @return the exit status.
 */
int server_run(int launcher_fd, int proxy_fd);

#endif
