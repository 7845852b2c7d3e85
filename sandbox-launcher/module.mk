sandbox_launcher_SOURCES :=
