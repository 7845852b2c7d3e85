audit_SOURCES := audit/redact.c audit/ring.c
