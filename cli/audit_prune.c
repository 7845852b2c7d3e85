/* `eclusa audit prune`: deletes old files of the log, and says so in its index. */
#include "cli/audit.h"

#include "audit/prune.h"
#include "cli/audit_time.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stdio.h>

int audit_tool_prune(const struct audit_words *words)
{
	struct failure why = {0};
	struct prune_result result = {0};
	uint64_t before_ms;
	if (words->before == NULL)
		return audit_usage("prune needs --before TIME", "");
	if (!audit_time_parse(slice_of(words->before), clock_wall_ms(), &before_ms))
		return audit_usage("--before takes " AUDIT_TIME_FORMS ", not ", words->before);
	auto_fd folder = audit_open_folder(words);
	if (folder < 0)
		return AUDIT_EXIT_UNREADABLE;
	int r = audit_prune(folder, before_ms, &result, &why);
	(void)printf("%" PRIu64 " files deleted, %" PRIu64 " bytes\n", result.files, result.bytes);
	if (r < 0)
		(void)fprintf(stderr, "eclusa audit: %s\n", why.text);
	return r < 0 || fflush(stdout) != 0 ? AUDIT_EXIT_UNREADABLE : AUDIT_EXIT_SOUND;
}
