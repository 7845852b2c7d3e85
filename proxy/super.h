/*
 * The proxy's main process: takes what launcher and netd send, drops to its uid, starts keeper, recorder and workers, restarts
 * the last two, and ends all of it in order. It opens no socket to anywhere and reads no peer's bytes.
 */
#ifndef ECLUSA_PROXY_SUPER_H
#define ECLUSA_PROXY_SUPER_H

/**
 * Run until the launcher says MESSAGE_PROXY_FINISH, or its or netd's channel ends. Takes over both seqpacket channels and closes every
 * other descriptor but 0-2. @return the exit status: 0; 1 when it could not start or a part of it died for good.
 */
int super_run(int launcher_fd, int netd_fd);

#endif
