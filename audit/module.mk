audit_SOURCES := audit/cut.c audit/event.c audit/mend.c audit/redact.c audit/ring.c
