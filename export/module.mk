export_SOURCES := $(filter-out export/main.c,$(wildcard export/*.c))
