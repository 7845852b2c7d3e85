policy_SOURCES := policy/host.c policy/target.c
