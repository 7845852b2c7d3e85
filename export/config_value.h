/* Values of settings: text of the configuration to what the type of a setting says. Pure. Used by config.c alone. */
#ifndef ECLUSA_EXPORT_CONFIG_VALUE_H
#define ECLUSA_EXPORT_CONFIG_VALUE_H

#include "export/config.h"

#define CONFIG_VALUE_SAYS_BYTES 160

/** @return NULL, or what is wrong, for people: at @room at most, where it is made up. */
const char *config_value_take(const struct sink_setting *setting, struct slice text,
	struct sink_value *ret, char room[static CONFIG_VALUE_SAYS_BYTES]);

#endif
