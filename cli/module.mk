cli_SOURCES := $(filter-out cli/main.c,$(wildcard cli/*.c))
