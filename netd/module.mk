netd_SOURCES :=
