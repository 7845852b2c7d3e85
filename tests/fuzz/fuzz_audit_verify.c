/* A folder whose log and index are the fuzzer's, up to the first NUL and behind it. Whatever they are, verify must come to an end. */
#include "audit/index.h"
#include "audit/verify.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static void put(int folder_fd, const char *name, struct slice text)
{
	auto_fd fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || file_write_all(fd, text) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice all = {(const char *)data, size}, log = all, index = {0};
	char path[] = "/tmp/eclusa-fuzz-XXXXXX";
	static const struct sign_public key = {.id = "0123456789abcdef"};
	struct failure why = {0};
	if (mkdtemp(path) == NULL)
		abort();
	auto_fd folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool both = slice_split(all, '\0', &log, &index);
	put(folder, "20000101T000000Z-sb-1.jsonl", log);
	if (both)
		put(folder, AUDIT_INDEX_NAME, index);
	struct verify_result result = {0};
	const struct verify_options options = {.folder_fd = folder, .key = &key};
	if (audit_verify(&options, &result, &why) < 0 || result.files != 1)
		abort();
	verify_fini(&result);
	(void)unlinkat(folder, "20000101T000000Z-sb-1.jsonl", 0); /* as well as can be */
	(void)unlinkat(folder, AUDIT_INDEX_NAME, 0);
	(void)rmdir(path);
	return 0;
}
