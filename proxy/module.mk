proxy_SOURCES :=
proxy_SOURCES += proxy/body.c proxy/body_write.c proxy/http1_head.c proxy/http1_request.c proxy/http1_response.c proxy/http1_write.c
proxy_SOURCES += proxy/denial.c proxy/budget.c proxy/budget_table.c
proxy_SOURCES += proxy/leaf.c proxy/leaf_cache.c proxy/leaf_key.c
proxy_SOURCES += proxy/tls_context.c proxy/tls_fault.c proxy/tls_hello.c proxy/tls_session.c proxy/tls_socket.c
proxy_SOURCES += proxy/limits.c proxy/stream.c proxy/resolve.c proxy/guard.c proxy/dial.c proxy/keeper_client.c proxy/ident.c
proxy_SOURCES += proxy/confine.c proxy/crew.c proxy/keeper.c proxy/recorder.c proxy/roster.c proxy/super.c proxy/super_start.c
proxy_SOURCES += proxy/worker.c proxy/listener.c proxy/flow.c proxy/record.c proxy/refuse.c proxy/inspect.c proxy/upstream.c proxy/tunnel.c proxy/relay.c
