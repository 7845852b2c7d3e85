/* Reading the exporter's configuration from disk, and saying what is wrong with it: eclusa-export --check. */
#ifndef ECLUSA_EXPORT_CHECK_H
#define ECLUSA_EXPORT_CHECK_H

#include "export/config.h"

enum export_exit { EXPORT_EXIT_FINE, EXPORT_EXIT_FAILED, EXPORT_EXIT_UNREADABLE };

/** Read, parse, look at files. Findings go to stderr. @return enum export_exit; on success *ret is to be freed. */
enum export_exit export_load(const char *path, struct export_config **ret);
/** The same, and try to open each sink as far as that needs no receiver; findings go to stdout. */
enum export_exit export_check(const char *path, bool as_json);

#endif
