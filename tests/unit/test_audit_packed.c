#include "tests/unit/audit_setup.h"

static struct buf line_of(const struct audit_event *e)
{
	struct buf line = {0};
	size_t end;
	assert_int_equal(audit_event_write(e, &line, &end), 0);
	assert_int_equal(buf_append(&line, (struct slice){"", 1}), 0);
	return line;
}

static struct buf packed_from(struct audit_event *e)
{
	struct buf packed = {0};
	assert_int_equal(audit_event_pack(e, AUDIT_PACKED_BYTES_MAX, &packed), 0);
	assert_true(buf_len(&packed) <= AUDIT_PACKED_BYTES_MAX);
	return packed;
}

static const struct audit_dns question = {.name = SLICE("caf\xc3\xa9.example"),
	.type = "AAAA",
	.class = "IN",
	.rcode = 5,
	.answer = {.family = 4, .bytes = {198, 18, 0, 1}},
	.ttl_s = 30,
	.udp = true};

/** Everything that a worker can say. */
static struct audit_event whole_event(void)
{
	struct address a = {.family = 4, .bytes = {203, 0, 113, 7}};
	struct address b = {.family = 6, .bytes = {0x20, 1, 0x0d, 0xb8, [15] = 9}};
	return (struct audit_event){.class = AUDIT_HTTP,
		.activity = 3,
		.reason = REASON_OBSERVE_WOULD_DENY,
		.would = REASON_DENY_PATH,
		.uid = "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11",
		.correlation = "req-1",
		.detail = "why \"not\"",
		.open = true,
		.start_ms = 1700000000000,
		.end_ms = 1700000000072,
		.mono_ns = 5,
		.sandbox_id = "sb-1",
		.sandbox_name = "ci-431",
		.profile = "research",
		.policy_version = "sha256:00",
		.policy_before = "sha256:01",
		.policy_origin = "last-good",
		.policy_signer = "0123456789abcdef",
		.policy_stale = true,
		.observe = true,
		.rule_id = "r1",
		.rule_place = "a.allow",
		.rule_line = 3,
		.rule_text = "GET /**",
		.rule_owner = "team",
		.rule_ticket = "SEC-1",
		.rule_allows = true,
		.door = "explicit",
		.tls_mode = "inspect",
		.connection = "c-1",
		.source = a,
		.destination = b,
		.source_port = 40000,
		.destination_port = 443,
		.host = SLICE("data.example.com"),
		.connect_host = SLICE("data.example.com"),
		.sni = SLICE("sni.example.com"),
		.host_header = SLICE("caf\xc3\xa9\x01\xff.example.com"),
		.method = SLICE("GET"),
		.scheme = SLICE("https"),
		.path = SLICE("/v1/\xf0\x9f\x98\x80"),
		.has_query = true,
		.query_bytes = 7,
		.encoded_slash = true,
		.upstream_reused = true,
		.address_unchecked = true,
		.request_body_bytes = 8,
		.response_body_bytes = 9,
		.user_agent = SLICE("agent/1"),
		.content_type = SLICE("text/plain"),
		.status = 200,
		.bytes_in = 5,
		.bytes_out = 6,
		.tls_version = "TLSv1.3",
		.tls_cipher = "TLS_AES_256_GCM_SHA384",
		.tls_certificate_subject = "CN=data.example.com",
		.tls_certificate_issuer = "CN=roots",
		.tls_certificate_serial = "01",
		.suggestion = "data.example.com GET /v1",
		.count = 3,
		.address_class = "udp",
		.subject = "packets",
		.proxy = a,
		.proxy_port = 3128};
}

static void a_packed_event_gives_the_line_that_it_gave(void **state)
{
	(void)state;
	static const enum audit_class classes[] = {
		AUDIT_HTTP, AUDIT_NETWORK, AUDIT_DNS, AUDIT_ENTITY};
	for (size_t i = 0; i < array_size(classes); i++) {
		struct audit_event e = whole_event();
		struct audit_unpacked read;
		e.class = classes[i];
		e.dns = classes[i] == AUDIT_DNS ? &question : NULL;
		struct buf packed = packed_from(&e);
		assert_int_equal(audit_event_unpack(buf_slice(&packed), &read), 0);
		assert_int_equal(read.event.mono_ns, 5);
		struct buf before = line_of(&e), after = line_of(&read.event);
		assert_string_equal(after.data, before.data);
		buf_fini(&packed);
		buf_fini(&before);
		buf_fini(&after);
	}
}

static void secrets_are_gone_before_the_ring(void **state)
{
	(void)state;
	struct audit_event e = whole_event();
	struct audit_unpacked read;
	e.path = SLICE("/hook/ghp_0123456789abcdefghijABCDEFGHIJ012345?token=topsecret");
	e.host = SLICE("user:topsecret@files.example");
	e.user_agent = SLICE("agent ghp_0123456789abcdefghijABCDEFGHIJ012345");
	e.detail = e.suggestion = e.subject =
		"https://u:topsecret@h/ghp_0123456789abcdefghijABCDEFGHIJ012345";
	struct buf packed = packed_from(&e);
	struct slice all = buf_slice(&packed);
	assert_null(memmem(all.ptr, all.len, "topsecret", 9));
	assert_null(memmem(all.ptr, all.len, "ghp_", 4));
	assert_int_equal(audit_event_unpack(all, &read), 0);
	assert_int_equal(read.event.redactions, 10);
	struct buf line = line_of(&read.event);
	assert_non_null(strstr(line.data, "\"redactions\":10"));
	assert_non_null(strstr(line.data, "\"path\":\"/hook/[redacted:40]\""));
	buf_fini(&line);
	buf_fini(&packed);
}

/** A host of user information alone: nothing is left of it, and the event is one all the same. */
static void a_text_of_which_nothing_is_left_is_left_out(void **state)
{
	(void)state;
	struct audit_event e = whole_event();
	struct audit_unpacked read;
	e.host = SLICE("user:topsecret@");
	struct buf packed = packed_from(&e);
	assert_int_equal(audit_event_unpack(buf_slice(&packed), &read), 0);
	assert_int_equal(read.event.host.len, 0);
	assert_int_equal(read.event.redactions, 1);
	buf_fini(&packed);
}

/** Every text as long and as hostile as can be, within what a slot and what the ring takes. */
static void the_largest_event_has_its_size(void **state)
{
	(void)state;
	static const char *const pieces[] = {"\x1b", "a", "\"", "\xff", "\xe2\x80\xa8", "x "};
	static const size_t limits[] = {AUDIT_SLOT_BYTES_MAX, AUDIT_PACKED_BYTES_MAX};
	auto_free char *text = malloc(65536);
	assert_non_null(text);
	for (size_t p = 0; p < array_size(pieces) * array_size(limits); p++) {
		const char *piece = pieces[p / array_size(limits)];
		size_t limit = limits[p % array_size(limits)];
		for (size_t i = 0; i < 65536; i++)
			text[i] = piece[i % strlen(piece)];
		text[65535] = '\0';
		struct audit_event e = whole_event();
		struct audit_unpacked read;
		e.host = e.connect_host = e.sni = e.host_header = slice_of(text);
		e.method = e.scheme = e.path = e.user_agent = e.content_type = slice_of(text);
		e.detail = e.suggestion = e.rule_text = e.rule_id = e.rule_place = text;
		e.rule_owner = e.rule_ticket = e.profile = e.correlation = e.subject = text;
		e.policy_version = e.sandbox_name = e.tls_certificate_subject = text;
		struct buf packed = {0};
		assert_int_equal(audit_event_pack(&e, limit, &packed), 0);
		assert_true(buf_len(&packed) <= limit);
		assert_int_equal(audit_event_unpack(buf_slice(&packed), &read), 0);
		assert_true(read.event.cuts > 10);
		struct buf line = line_of(&read.event);
		assert_true(buf_len(&line) <= AUDIT_LINE_BYTES_MAX);
		assert_non_null(strstr(line.data, "\"is_truncated\":true"));
		buf_fini(&line);
		buf_fini(&packed);
	}
}

static void what_no_worker_says_is_not_packed(void **state)
{
	(void)state;
	struct buf packed = {0};
	static const enum audit_class classes[] = {AUDIT_PROCESS, AUDIT_LIFECYCLE};
	for (size_t i = 0; i < array_size(classes); i++) {
		struct audit_event e = whole_event();
		e.class = classes[i];
		assert_int_equal(audit_event_pack(&e, AUDIT_PACKED_BYTES_MAX, &packed), -EINVAL);
	}
	assert_int_equal(buf_len(&packed), 0);
}

/** Each byte changed, each length: never more than is there, and what is read makes a line. */
static void nonsense_is_refused_or_makes_a_line(void **state)
{
	(void)state;
	struct audit_event e = whole_event();
	struct audit_unpacked read;
	struct buf packed = packed_from(&e);
	size_t len = buf_len(&packed), refused = 0;
	for (size_t at = 0; at < len; at++) {
		static const unsigned char changes[] = {1, 0x80, 0xff};
		auto_free char *cut = malloc(at + 1);
		assert_non_null(cut);
		memcpy(cut, packed.data, at);
		(void)audit_event_unpack((struct slice){cut, at}, &read);
		for (size_t i = 0; i < array_size(changes); i++) {
			packed.data[at] = (char)(packed.data[at] ^ changes[i]);
			if (audit_event_unpack(buf_slice(&packed), &read) == 0) {
				struct buf line = line_of(&read.event);
				buf_fini(&line);
			} else {
				refused++;
			}
			packed.data[at] = (char)(packed.data[at] ^ changes[i]);
		}
	}
	assert_true(refused > 100);
	assert_int_equal(audit_event_unpack((struct slice){0}, &read), -EBADMSG);
	buf_fini(&packed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packed_event_gives_the_line_that_it_gave),
		cmocka_unit_test(secrets_are_gone_before_the_ring),
		cmocka_unit_test(a_text_of_which_nothing_is_left_is_left_out),
		cmocka_unit_test(the_largest_event_has_its_size),
		cmocka_unit_test(what_no_worker_says_is_not_packed),
		cmocka_unit_test(nonsense_is_refused_or_makes_a_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
