cli_SOURCES :=
