/* Network namespaces as descriptors: made, entered, kept by whoever holds the descriptor. */
#ifndef ECLUSA_NETD_NETNS_H
#define ECLUSA_NETD_NETNS_H

/** Leave the current namespace for a new, empty one. @return its descriptor or negative errno. */
int netns_create(void);
/**
 * Enter the namespace behind @fd. Sockets that are open stay where they were made. @return 0 or
 * negative errno.
 */
int netns_enter(int fd);

#endif
