audit_SOURCES := audit/chain.c audit/cut.c audit/event.c audit/folder.c audit/index.c audit/mend.c audit/reader.c audit/redact.c audit/ring.c audit/seen.c audit/segment.c audit/summary.c
