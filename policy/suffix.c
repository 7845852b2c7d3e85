/* See suffix.h. The only file that uses libpsl. Input: a name that host_parse() made. */
#include "policy/suffix.h"

#include "policy/host.h"

#include <libpsl.h>
#include <stdio.h>

enum suffix_kind suffix_classify(const char *name)
{
	const psl_ctx_t *list = psl_builtin();
	char below[HOST_NAME_BYTES + 4];
	const int registry = PSL_TYPE_ICANN | PSL_TYPE_NO_STAR_RULE;
	const int company = PSL_TYPE_PRIVATE | PSL_TYPE_NO_STAR_RULE;
	/* A rule like *.ck makes every name below a suffix; no rule excepts this one. */
	(void)snprintf(below, sizeof(below), "0.%s", name); /* fits */
	if (psl_is_public_suffix2(list, name, registry) != 0 ||
		psl_is_public_suffix2(list, below, registry) != 0)
		return SUFFIX_PUBLIC;
	if (psl_is_public_suffix2(list, name, company) != 0 ||
		psl_is_public_suffix2(list, below, company) != 0)
		return SUFFIX_HOSTING;
	return strchr(name, '.') == NULL ? SUFFIX_UNKNOWN : SUFFIX_NONE;
}
