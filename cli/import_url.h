/* The URL of a registry, an index or a mirror, as the tools that use them print it, into one narrow rule. */
#ifndef ECLUSA_CLI_IMPORT_URL_H
#define ECLUSA_CLI_IMPORT_URL_H

#include "cli/import.h"
#include "policy/host.h"

#define IMPORT_URL_PATH_BYTES 512

/** A URL taken apart. What stands before '@' in it, a user and a password, is left out and never printed. */
struct import_url {
	bool tls;
	struct host host;
	uint16_t port;
	char path[IMPORT_URL_PATH_BYTES]; /* without the last '/': "" or "/debian" */
};

/** @return NULL, or what is wrong, for people. */
const char *import_url_parse(struct slice text, struct import_url *ret);
/** Whether this import meets it for the first time; im->seen_count counts them. */
bool import_url_is_new(struct import *im, const struct import_url *u);
/** "https://h:8443/path". @return to */
const char *import_url_format(const struct import_url *u, char *to, size_t capacity);
/** The rule that reads everything below it, with these attributes. @return whether it was taken. */
bool import_url_rule(
	struct import *im, const char *place, const struct import_url *u, const char *attributes);

#endif
