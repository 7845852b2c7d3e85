/* See facts.h. One walk checks the grammar of RFC 8259 and picks what a table names; a member that stands twice is as it was first. */
#include "export/facts.h"

#include "common/cleanup.h"
#include "export/walk.h"

#include <errno.h>
#include <stddef.h>

static const struct walk_row rows[] = {
	{"", "status_code", WALK_TEXT, offsetof(struct facts, code)},
	{"", "action", WALK_TEXT, offsetof(struct facts, action)},
	{"", "time", WALK_NUMBER, offsetof(struct facts, time_ms)},
	{"", "severity_id", WALK_NUMBER, offsetof(struct facts, severity)},
	{"metadata", "uid", WALK_TEXT, offsetof(struct facts, uid)},
	{"metadata", "sequence", WALK_NUMBER, offsetof(struct facts, sequence)},
	{"container", "uid", WALK_TEXT, offsetof(struct facts, sandbox)},
	{"firewall_rule", "uid", WALK_TEXT, offsetof(struct facts, rule)},
	{"device", "hostname", WALK_TEXT, offsetof(struct facts, host)},
};

int facts_find(struct slice line, struct facts *ret)
{
	struct facts found = {.time_ms = 0};
	if (!walk_line(line, rows, array_size(rows), &found))
		return -EBADMSG;
	*ret = found;
	return 0;
}
