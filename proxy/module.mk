proxy_SOURCES :=
