audit_SOURCES :=
