sandbox_launcher_SOURCES :=
sandbox_launcher_SOURCES += sandbox-launcher/network.c sandbox-launcher/program.c sandbox-launcher/resolver.c sandbox-launcher/uids.c
