/* Runs a fuzz target once over each file named on the command line (folders are walked by the caller). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL) {
		perror(path);
		return 1;
	}
	size_t capacity = (size_t)4 << 20;
	uint8_t *data = malloc(capacity);
	if (data == NULL) {
		(void)fclose(file);
		return 1;
	}
	size_t len = fread(data, 1, capacity, file);
	(void)fclose(file);
	uint8_t *exact = malloc(len == 0 ? 1 : len); /* exact size, so that ASan sees an overread */
	if (exact != NULL) {
		for (size_t i = 0; i < len; i++)
			exact[i] = data[i];
		(void)LLVMFuzzerTestOneInput(exact, len);
	}
	free(exact);
	free(data);
	return exact == NULL;
}

int main(int argc, char **argv)
{
	int failed = 0;
	for (int i = 1; i < argc; i++)
		failed |= replay_file(argv[i]);
	return failed;
}
