/* The two ends of a proxy's benchmark: what asks, and what answers. tests/bench/proxies.py starts them. */
#ifndef ECLUSA_TESTS_BENCH_LOAD_H
#define ECLUSA_TESTS_BENCH_LOAD_H

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define LOAD_BODY "Hello, world!"

/** Ends the program with a line on standard error. */
_Noreturn void load_fail(const char *what);
struct sockaddr_in load_loopback(uint16_t port);

/** origin PLAIN-PORT TLS-PORT CERTIFICATE KEY: answer GETs; of /b/N with N bytes. Until it is killed. */
int load_origin(int argc, char **argv);
/**
 * client PORT FRONT(connect|sni|direct) TLS(0|1) ORIGIN-PORT MODE(new|keep|idle|bulk) AT-ONCE MILLISECONDS OPERATIONS NAMES FIRST: names are
 * h<FIRST>.bench.test and the next ones, in turn. Prints one line of JSON; idle waits for the end of its input after that. keep connects first, prints {} and
 * waits for a byte of its input.
 */
int load_client(int argc, char **argv);

#endif
