/* A segment of any content is summed up without harm. */
#include "audit/summary.h"
#include "common/cleanup.h"
#include "common/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct audit_summary s = {0};
	auto_fd fd = file_memory("segment", (struct slice){(const char *)data, size});
	if (fd < 0 || audit_summary_read(fd, "sb-1", &s) < 0)
		return 0;
	if (s.denial_count > AUDIT_SUMMARY_DENIALS_MAX || s.failed > s.allowed)
		abort();
	audit_summary_fini(&s);
	return 0;
}
