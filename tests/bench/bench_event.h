/* The event that benchmarks of the log write: what a worker says of one request of a kept-alive, inspected connection. */
#ifndef ECLUSA_TESTS_BENCH_EVENT_H
#define ECLUSA_TESTS_BENCH_EVENT_H

#include "audit/event.h"
#include "common/clock.h"
#include "common/id.h"

/** As it is decided on; the end, status and bytes are the caller's. @ret_uid has to stay. */
static inline struct audit_event bench_event(char ret_uid[static UUID_TEXT_BYTES])
{
	const struct address a = {.family = 4, .bytes = {203, 0, 113, 7}};
	return (struct audit_event){.class = AUDIT_HTTP,
		.activity = 3,
		.reason = REASON_ALLOW_RULE,
		.uid = uuid_new(ret_uid),
		.correlation = "req-0123456789ab",
		.sandbox_id = "sb-0123456789",
		.profile = "run",
		.policy_version = "sha256:00112233445566778899aabbccddeeff",
		.rule_id = "r1",
		.rule_place = "--allow:1",
		.rule_text = "GET /v1/**",
		.rule_allows = true,
		.door = "explicit",
		.tls_mode = "inspect",
		.connection = "c-1",
		.source = a,
		.source_port = 40000,
		.destination = a,
		.destination_port = 443,
		.host = SLICE("data.example.com"),
		.sni = SLICE("data.example.com"),
		.method = SLICE("GET"),
		.scheme = SLICE("https"),
		.path = SLICE("/v1/rates"),
		.user_agent = SLICE("Python-urllib/3.11"),
		.content_type = SLICE("application/json"),
		.tls_version = "TLSv1.3",
		.tls_cipher = "TLS_AES_256_GCM_SHA384",
		.tls_certificate_subject = "CN=data.example.com",
		.tls_certificate_issuer = "CN=Example roots",
		.tls_certificate_serial = "0123456789abcdef",
		.proxy = a,
		.proxy_port = 3128,
		.start_ms = clock_wall_ms()};
}

#endif
