/*
 * The data plane end to end: a real worker and keeper, clients and origins of the test's own. Each
 * refusal is looked at from three sides: what the client saw, what the origin heard, what was recorded.
 */
#include "tests/unit/flow_origin.h"

#include <poll.h>

#define ANSWER_BYTES (4u << 20)
#define RULES        8

struct fixture {
	struct lab ca, good, wrong;
	struct origin tls, plain, bad;
	struct buf roots;
	char rules[RULES][128];
	const char *rule_list[RULES];
	struct lab_world world;
	char answer[ANSWER_BYTES];
};

static void roots_write(struct fixture *f)
{
	char *text;
	BIO *bio = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_X509(bio, f->ca.certificate), 1);
	long len = BIO_get_mem_data(bio, &text);
	assert_int_equal(buf_append(&f->roots, (struct slice){text, (size_t)len}), 0);
	BIO_free(bio);
}

static void world_start(struct fixture *f, const char *limits, const char *fault)
{
	struct lab_options o = {.rules = f->rule_list,
		.rule_count = RULES,
		.hosts = "127.0.0.1 origin.test other.test bad.test closed.test noaddr.test\n"
			 "169.254.169.254 meta.test\n"
			 "10.0.0.5 mixed.test\n::1 mixed.test\n127.0.0.1 mixed.test\n",
		.origin_ca = buf_slice(&f->roots),
		.limits = limits,
		.fault = fault};
	lab_start(&f->world, &o);
}

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->ca = lab_make(NULL, &(struct wish){.common_name = "lab", .constraints = ""});
	f->good = lab_make(&f->ca, &(struct wish){.san = "DNS:origin.test,DNS:other.test"});
	f->wrong = lab_make(&f->ca, &(struct wish){.san = "DNS:elsewhere.test"});
	roots_write(f);
	origin_start(&f->tls, &f->good);
	origin_start(&f->plain, NULL);
	origin_start(&f->bad, &f->wrong);
	const char *const formats[RULES] = {
		"origin.test:%u GET,HEAD,POST /** addr=127.0.0.0/8 req-body=64k resp-body=8m",
		"other.test:%u GET,POST /** addr=127.0.0.0/8",
		"origin.test:%u GET,POST /** addr=127.0.0.0/8 scheme=http req-body=64k",
		"bad.test:%u addr=127.0.0.0/8",
		"closed.test:%u addr=127.0.0.0/8",
		"noaddr.test:%u",
		"meta.test:%u",
		"mixed.test:%u addr=127.0.0.0/8 scheme=http",
	};
	const unsigned ports[RULES] = {
		f->tls.port, f->tls.port, f->plain.port, f->bad.port, 9, 443, 443, f->plain.port};
	for (size_t i = 0; i < RULES; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(f->rules[i], sizeof(f->rules[i]), formats[i], ports[i]);
#pragma GCC diagnostic pop
		f->rule_list[i] = f->rules[i];
	}
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	world_free(&f->world);
	origin_stop(&f->tls);
	origin_stop(&f->plain);
	origin_stop(&f->bad);
	lab_free(&f->ca);
	lab_free(&f->good);
	lab_free(&f->wrong);
	buf_fini(&f->roots);
	free(f);
	return 0;
}

/* --- clients --- */

/** One message on the explicit port, and all that comes back. */
static const char *client_ask(struct fixture *f, struct slice text)
{
	int fd = lab_connect(&f->world);
	assert_int_equal(file_write_all(fd, text), 0);
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	fd_close(&fd);
	return f->answer;
}

struct tunnel {
	int fd;
	SSL_CTX *ctx;
	SSL *ssl;
};

/** CONNECT, and TLS with this SNI (NULL: none). @return whether TLS stands. */
static bool tunnel_open(struct fixture *f, struct tunnel *t, const char *authority, const char *sni)
{
	char head[512];
	size_t len = 0;
	t->fd = lab_connect(&f->world);
	(void)snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority,
		authority);
	assert_int_equal(file_write_all(t->fd, slice_of(head)), 0);
	while (len < sizeof(head) - 1 && read(t->fd, head + len, 1) == 1) {
		head[++len] = '\0';
		if (len >= 4 && memcmp(head + len - 4, "\r\n\r\n", 4) == 0)
			break;
	}
	t->ctx = SSL_CTX_new(TLS_client_method());
	BIO *bio = BIO_new_mem_buf(f->world.ca_pem, -1);
	X509 *ca = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(t->ctx), ca), 1);
	X509_free(ca);
	BIO_free(bio);
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
	t->ssl = SSL_new(t->ctx);
	(void)SSL_set_fd(t->ssl, t->fd);
	if (sni != NULL) {
		(void)SSL_set_tlsext_host_name(t->ssl, sni);
		(void)SSL_set1_host(t->ssl, sni);
	}
	return strncmp(head, "HTTP/1.1 200", 12) == 0 && SSL_connect(t->ssl) == 1;
}

static void tunnel_close(struct tunnel *t)
{
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	fd_close(&t->fd);
	ERR_clear_error();
}

static void tunnel_say(struct tunnel *t, const char *text)
{
	size_t done;
	assert_int_equal(SSL_write_ex(t->ssl, text, strlen(text), &done), 1);
}

/** Read until @end stands at the end of what came, or the connection ends. @return false then. */
static bool tunnel_hear(struct fixture *f, struct tunnel *t, const char *end)
{
	size_t len = 0, n;
	f->answer[0] = '\0';
	while (len < ANSWER_BYTES - 1 &&
		SSL_read_ex(t->ssl, f->answer + len, ANSWER_BYTES - 1 - len, &n) == 1) {
		len += n;
		f->answer[len] = '\0';
		if (end != NULL && slice_ends((struct slice){f->answer, len}, slice_of(end)))
			return true;
	}
	return false;
}

static const char *authority_of(const struct fixture *f, const char *host)
{
	static char text[64];
	(void)snprintf(text, sizeof(text), "%s:%u", host, f->tls.port);
	return text;
}

/** "METHOD PATH" in a tunnel, with a right Host and these other lines. */
static const char *request_of(const struct fixture *f, const char *line, const char *fields)
{
	static char text[1024];
	(void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: origin.test:%u\r\n%s\r\n", line,
		f->tls.port, fields);
	return text;
}

/* --- events --- */

/* --- tests --- */

static void a_request_in_a_tunnel_reaches_the_origin_anew(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t,
		request_of(f, "GET /a/%7e/../b?q=1",
			"Connection: X-Secret\r\nX-Secret: 1\r\nProxy-Authorization: Basic eA==\r\n"
			"User-Agent: tester\r\n"));
	assert_true(tunnel_hear(f, &t, "body 0000"));
	assert_says(f->answer, "HTTP/1.1 200 OK\r\n");
	assert_says_not(f->answer, "X-Hop");
	assert_says_not(f->answer, "Alt-Svc");
	tunnel_say(&t, request_of(f, "POST /p", "Content-Length: 5\r\n"));
	tunnel_say(&t, "hello");
	assert_true(tunnel_hear(f, &t, "body 0005"));
	tunnel_close(&t);
	const char *heard = origin_heard(&f->tls);
	assert_int_equal(count_of(heard, "<connection>"), 1);
	assert_says(heard, "GET /a/b?q=1 HTTP/1.1\r\nHost: origin.test:");
	assert_says_not(heard, "X-Secret");
	assert_says_not(heard, "Proxy-");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 3);
	assert_int_equal(count_of(lines, "\"type_uid\":400201"), 1);
	assert_int_equal(count_of(lines, "\"type_uid\":400203"), 1);
	assert_says(lines, "\"user_agent\":\"tester\"");
	assert_says(lines, "\"content_type\":\"text/plain\"");
	assert_says(lines, "\"code\":200");
	assert_says(lines, "\"uid\":\"sb-test\"");
}

/** A second sandbox of the same worker, at 127.0.0.2. */
static void second_sandbox(struct fixture *f)
{
	struct message_sandbox m = {.header.kind = MESSAGE_SANDBOX_ADD,
		.sandbox_id = "sb-other",
		.address = {4, {127, 0, 0, 2}}};
	struct message_sandbox added;
	assert_int_equal(channel_send(f->world.super_fd, &m, sizeof(m), NULL, 0), 0);
	assert_int_equal(
		channel_receive_until(f->world.super_fd, clock_monotonic_ns() + LAB_WAIT_NS, &added,
			sizeof(added), NULL, 0, NULL),
		(int)sizeof(added));
	assert_int_equal(added.header.kind, MESSAGE_SANDBOX_ADDED);
}

/** A whole connection of 127.0.0.@last with one plain request. */
static void plain_ask_from(struct fixture *f, uint32_t last)
{
	struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 | last)};
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(f->world.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char text[256];
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/ HTTP/1.1\r\nHost: origin.test:%u\r\nConnection: close\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	assert_says(f->answer, "HTTP/1.1 200 OK\r\n");
}

static void no_sandbox_gets_the_connection_of_another(void **state)
{
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	second_sandbox(f);
	plain_ask_from(f, 1);
	plain_ask_from(f, 1);
	assert_int_equal(count_of(origin_heard(&f->plain), "<connection>"), 1);
	plain_ask_from(f, 2);
	assert_int_equal(count_of(origin_heard(&f->plain), "<connection>"), 2);
	plain_ask_from(f, 2);
	plain_ask_from(f, 1);
	assert_int_equal(count_of(origin_heard(&f->plain), "<connection>"), 2);
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 5);
	assert_int_equal(count_of(lines, "\"upstream_reused\":true"), 3);
}

static void a_request_for_another_host_ends_the_tunnel(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	char text[256];
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t, request_of(f, "GET /1", ""));
	assert_true(tunnel_hear(f, &t, "body 0000"));
	(void)snprintf(
		text, sizeof(text), "GET /2 HTTP/1.1\r\nHost: other.test:%u\r\n\r\n", f->tls.port);
	tunnel_say(&t, text);
	assert_false(tunnel_hear(f, &t, NULL));
	assert_says(f->answer, "HTTP/1.1 421 deny.host-mismatch origin.test\r\n");
	assert_says(f->answer, "Connection: close\r\n");
	assert_says(f->answer, "Eclusa-Request: req-");
	tunnel_close(&t);
	assert_says_not(origin_heard(&f->tls), "/2");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.host-mismatch", 1);
	assert_says(lines, "other.test");
}

static void what_policy_refuses_is_explained_and_ends_the_connection(void **state)
{
	static const struct {
		const char *line;
		const char *fields;
		const char *status;
		const char *recorded;
	} cases[] = {
		{"PUT /x", "", "403 deny.method", "\"status_code\":\"deny.method\""},
		{"GET /a/%2e%2e%2fb", "", "400 deny.smuggling",
			"\"status_code\":\"deny.smuggling\""},
		{"GET /a%2Fb", "", "400 deny.smuggling", "\"status_code\":\"deny.smuggling\""},
		{"POST /x", "Content-Length: 65537\r\n", "413 deny.size",
			"\"status_code\":\"deny.size\""},
		{"POST /x", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
			"400 deny.smuggling", "\"status_code\":\"deny.smuggling\""},
		{"GET x", "", "400", "\"status_code\":\"deny."},
	};
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	for (size_t i = 0; i < array_size(cases); i++) {
		struct tunnel t;
		assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
		tunnel_say(&t, request_of(f, cases[i].line, cases[i].fields));
		assert_false(tunnel_hear(f, &t, NULL));
		assert_says(f->answer, cases[i].status);
		tunnel_close(&t);
	}
	assert_says_not(origin_heard(&f->tls), "HTTP/1.1");
	const char *lines = lab_recorded(&f->world);
	for (size_t i = 0; i < array_size(cases); i++)
		assert_says(lines, cases[i].recorded);
	assert_int_equal(count_of(lines, "\"type_uid\":400201"), array_size(cases));
	assert_int_equal(count_of(lines, "\"status_code\":\"deny."), array_size(cases));
}

static void refusals_on_the_explicit_port_come_once_and_close(void **state)
{
	static const struct {
		const char *text; /* one %u: the plain origin's port */
		const char *answer;
		const char *reason;
	} cases[] = {
		{"CONNECT denied.test:443 HTTP/1.1\r\n\r\nGET http://origin.test/ HTTP/1.1\r\n\r\n",
			"403 deny.default denied.test", "deny.default"},
		{"CONNECT noaddr.test:443 HTTP/1.1\r\n\r\n", "403 deny.address-private noaddr.test",
			"deny.address-private"},
		{"CONNECT meta.test:443 HTTP/1.1\r\n\r\n", "403 deny.address-metadata meta.test",
			"deny.address-metadata"},
		{"CONNECT 169.254.169.254:443 HTTP/1.1\r\n\r\n", "403 deny.address-metadata",
			"deny.address-metadata"},
		{"CONNECT noaddr.test:22 HTTP/1.1\r\n\r\n", "403 deny.port noaddr.test",
			"deny.port"},
		{"CONNECT noaddr.test:443 HTTP/1.1\r\nHost: origin.test:443\r\n\r\n",
			"421 deny.host-mismatch", "deny.host-mismatch"},
		{"CONNECT [noaddr.test]:443 HTTP/1.1\r\n\r\n", "400 deny.name-invalid",
			"deny.name-invalid"},
		{"POST http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\nContent-Length: 44\r\n"
		 "\r\nGET http://origin.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
			"403 deny.default denied.test", "deny.default"},
		{"GET http://origin.test:%u/ HTTP/1.1\r\nHost: denied.test\r\n\r\n",
			"400 deny.host-mismatch", "deny.host-mismatch"},
		{"GET https://origin.test/ HTTP/1.1\r\nHost: origin.test\r\n\r\n",
			"400 deny.protocol origin.test", "deny.protocol"},
		{"GET /x HTTP/1.1\r\nHost: origin.test\r\n\r\n", "400 deny.protocol",
			"deny.protocol"},
	};
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	for (size_t i = 0; i < array_size(cases); i++) {
		char text[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(text, sizeof(text), cases[i].text, f->plain.port);
#pragma GCC diagnostic pop
		const char *answer = client_ask(f, slice_of(text));
		assert_says(answer, cases[i].answer);
		assert_says(answer, "Connection: close\r\n");
		assert_int_equal(count_of(answer, "HTTP/1.1 "), 1);
	}
	assert_string_equal(origin_heard(&f->plain), "");
	const char *lines = lab_recorded(&f->world);
	for (size_t i = 0; i < array_size(cases); i++)
		assert_says(lines, cases[i].reason);
	assert_int_equal(count_of(lines, "\"status_code\""), array_size(cases));
}

static void sni_of_another_host_gets_an_alert_and_no_upstream(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_false(tunnel_open(f, &t, authority_of(f, "origin.test"), "other.test"));
	assert_int_equal(ERR_GET_REASON(ERR_peek_last_error()),
		SSL_AD_UNRECOGNIZED_NAME + SSL_AD_REASON_OFFSET);
	tunnel_close(&t);
	assert_string_equal(origin_heard(&f->tls), "");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.sni-mismatch", 1);
	assert_int_equal(count_of(lines, "\"status_code\""), 1);
}

static void without_sni_the_tunnels_host_stands(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), NULL));
	tunnel_say(&t, request_of(f, "GET /", ""));
	assert_true(tunnel_hear(f, &t, "body 0000"));
	tunnel_close(&t);
	assert_recorded(lab_recorded(&f->world), "allow.rule", 2);
}

static void a_tunnel_without_tls_is_closed_without_a_byte(void **state)
{
	static const char *const first[] = {"SSH-2.0-x\r\n", NULL};
	struct fixture *f = *state;
	world_start(f, "handshake_ms=200,linger_ms=100", NULL);
	for (size_t i = 0; i < array_size(first); i++) {
		char text[128];
		int fd = lab_connect(&f->world);
		(void)snprintf(text, sizeof(text), "CONNECT origin.test:%u HTTP/1.1\r\n\r\n%s",
			f->tls.port, first[i] != NULL ? first[i] : "");
		assert_int_equal(file_write_all(fd, slice_of(text)), 0);
		(void)lab_drain(fd, f->answer, ANSWER_BYTES);
		assert_string_equal(f->answer, "HTTP/1.1 200 Connection established\r\n\r\n");
		fd_close(&fd);
	}
	assert_string_equal(origin_heard(&f->tls), "");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.not-tls", array_size(first));
	assert_int_equal(count_of(lines, "\"status_code\""), array_size(first));
}

static void a_failing_upstream_is_told_inside_of_the_tunnel(void **state)
{
	static const struct {
		const char *host;
		const char *answer;
		const char *reason;
	} cases[] = {
		{"bad.test", "502 deny.upstream-cert bad.test", "deny.upstream-cert"},
		{"closed.test", "502 error.upstream closed.test", "error.upstream"},
	};
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	for (size_t i = 0; i < array_size(cases); i++) {
		struct tunnel t;
		char text[128];
		unsigned port = i == 0 ? f->bad.port : 9;
		(void)snprintf(text, sizeof(text), "%s:%u", cases[i].host, port);
		assert_true(tunnel_open(f, &t, text, cases[i].host));
		(void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s:%u\r\n\r\n",
			cases[i].host, port);
		tunnel_say(&t, text);
		assert_false(tunnel_hear(f, &t, NULL));
		assert_says(f->answer, cases[i].answer);
		tunnel_close(&t);
	}
	assert_says_not(origin_heard(&f->bad), "GET");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.upstream-cert", 1);
	assert_recorded(lines, "error.upstream", 1);
	assert_int_equal(count_of(lines, "\"status_code\""), 2);
}

static void responses_arrive_as_they_are_meant(void **state)
{
	static const struct {
		const char *line;
		const char *fields;
		const char *body;
		const char *end;   /* of the answer; NULL: up to the connection's end */
		const char *holds; /* somewhere in it */
		const char *lacks;
	} cases[] = {
		{"GET /chunked", "", "", "0\r\n\r\n", "hello", "X-T"},
		{"HEAD /x", "", "", "\r\n\r\n", "Content-Length: 1488324", "body"},
		{"GET /extra", "", "", "ok", "200 OK", "injected"},
		{"GET /after", "", "", "body 0000", "200 OK", "injected"},
		{"POST /continue", "Expect: 100-continue\r\nContent-Length: 5\r\n", "hello", "0005",
			"100 Continue", "101"},
		{"GET /continue", "", "", "0000", "103 Early", "100 Continue"},
		{"GET /switch", "Upgrade: x\r\nConnection: upgrade\r\n", "", NULL,
			"502 error.upstream", "101 Switching"},
	};
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	for (size_t i = 0; i < array_size(cases); i++) {
		tunnel_say(&t, request_of(f, cases[i].line, cases[i].fields));
		if (cases[i].body[0] != '\0')
			tunnel_say(&t, cases[i].body);
		assert_int_equal(tunnel_hear(f, &t, cases[i].end), cases[i].end != NULL);
		assert_says(f->answer, cases[i].holds);
		assert_says_not(f->answer, cases[i].lacks);
		assert_true(count_of(f->answer, "100 Continue") <= 1);
	}
	tunnel_close(&t);
	/* The one with bytes behind its answer is not used again. */
	assert_int_equal(count_of(origin_heard(&f->tls), "<connection>"), 2);
	assert_recorded(lab_recorded(&f->world), "error.upstream", 1);
}

static void a_cut_response_never_looks_complete(void **state)
{
	struct fixture *f = *state;
	char text[128];
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t, request_of(f, "GET /cut", ""));
	assert_false(tunnel_hear(f, &t, NULL));
	assert_int_equal(SSL_get_shutdown(t.ssl) & SSL_RECEIVED_SHUTDOWN, 0);
	assert_says_not(f->answer, "0\r\n\r\n");
	tunnel_close(&t);
	int fd = lab_connect(&f->world);
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/cut HTTP/1.1\r\n"
		"Host: origin.test:%u\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
	assert_false(lab_drain(fd, f->answer, ANSWER_BYTES));
	fd_close(&fd);
	assert_recorded(lab_recorded(&f->world), "error.upstream", 2);
}

static void plain_requests_are_judged_one_by_one(void **state)
{
	struct fixture *f = *state;
	char text[1024];
	world_start(f, NULL, NULL);
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/1 HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n"
		"POST http://origin.test:%u/2 HTTP/1.1\r\nHost: origin.test:%u\r\n"
		"Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n"
		"PUT http://origin.test:%u/3 HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n"
		"GET http://origin.test:%u/4 HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n",
		f->plain.port, f->plain.port, f->plain.port, f->plain.port, f->plain.port,
		f->plain.port, f->plain.port, f->plain.port);
	const char *answer = client_ask(f, slice_of(text));
	assert_int_equal(count_of(answer, "HTTP/1.1 200 OK"), 2);
	assert_int_equal(count_of(answer, "HTTP/1.1 403 deny.method"), 1);
	assert_int_equal(count_of(answer, "HTTP/1.1 "), 3);
	const char *heard = origin_heard(&f->plain);
	assert_says(heard, "GET /1 HTTP/1.1\r\n");
	assert_says(heard, "POST /2 HTTP/1.1\r\n");
	assert_says_not(heard, "/3");
	assert_says_not(heard, "/4");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 2);
	assert_recorded(lines, "deny.method", 1);
}

static void half_closed_clients_get_the_whole_answer(void **state)
{
	struct fixture *f = *state;
	char text[128];
	world_start(f, NULL, NULL);
	int fd = lab_connect(&f->world);
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/big HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_true(lab_drain(fd, f->answer, ANSWER_BYTES));
	const char *body = strstr(f->answer, "\r\n\r\n");
	assert_non_null(body);
	assert_int_equal(strlen(body + 4), ORIGIN_BIG_BYTES);
	fd_close(&fd);
	assert_recorded(lab_recorded(&f->world), "allow.rule", 1);
}

static void a_body_over_the_limit_is_cut_while_it_streams(void **state)
{
	struct fixture *f = *state;
	static char chunk[16384 + 16];
	struct tunnel t;
	size_t done;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t, request_of(f, "POST /p", "Transfer-Encoding: chunked\r\n"));
	memset(chunk, 'x', sizeof(chunk));
	memcpy(chunk, "4000\r\n", 6);
	memcpy(chunk + 6 + 16384, "\r\n", 2);
	for (int i = 0; i < 5; i++)
		(void)SSL_write_ex(t.ssl, chunk, 6 + 16384 + 2, &done); /* may be cut */
	assert_false(tunnel_hear(f, &t, NULL));
	assert_says(f->answer, "413 deny.size");
	tunnel_close(&t);
	assert_recorded(lab_recorded(&f->world), "deny.size", 1);
}

static void slow_heads_and_silent_hosts_meet_their_deadlines(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, "header_ms=150,idle_ms=300,linger_ms=100", NULL);
	int fd = lab_connect(&f->world);
	assert_int_equal(file_write_all(fd, SLICE("CONNECT origin.te")), 0);
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	assert_says(f->answer, "408 deny.limit");
	fd_close(&fd);
	fd = lab_connect(&f->world); /* says nothing at all */
	assert_true(lab_drain(fd, f->answer, ANSWER_BYTES));
	assert_string_equal(f->answer, "");
	fd_close(&fd);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t, request_of(f, "GET /silent", ""));
	assert_false(tunnel_hear(f, &t, NULL));
	assert_says(f->answer, "504 error.timeout");
	tunnel_close(&t);
	/* a head that never ends, in a tunnel that was used: its own record, and none of the tunnel's */
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t, "GET /unfinished HTTP/1.1\r\nHost: orig");
	assert_false(tunnel_hear(f, &t, NULL));
	assert_says(f->answer, "408 deny.limit");
	tunnel_close(&t);
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.limit", 2);
	assert_recorded(lines, "error.timeout", 1);
	assert_null(strstr(lines, "deny.limit CONNECT origin.test"));
	assert_non_null(strstr(lines, "/unfinished"));
}

static void one_connection_too_many_is_answered_and_recorded(void **state)
{
	struct fixture *f = *state;
	world_start(f, "connections=2,header_ms=5000", NULL);
	int first = lab_connect(&f->world);
	int second = lab_connect(&f->world);
	int third = lab_connect(&f->world);
	(void)lab_drain(third, f->answer, ANSWER_BYTES);
	assert_says(f->answer, "503 deny.limit");
	fd_close(&third);
	fd_close(&first);
	fd_close(&second);
	assert_recorded(lab_recorded(&f->world), "deny.limit", 1);
}

static void removing_the_sandbox_cuts_its_flows(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_say(&t, request_of(f, "GET /silent", ""));
	while (strstr(origin_heard(&f->tls), "GET /silent") == NULL)
		(void)poll(NULL, 0, 5);
	struct message_sandbox m = {
		.header.kind = MESSAGE_SANDBOX_REMOVE, .address = {4, {127, 0, 0, 1}}};
	assert_int_equal(channel_send(f->world.super_fd, &m, sizeof(m), NULL, 0), 0);
	assert_false(tunnel_hear(f, &t, NULL));
	assert_int_equal(SSL_get_shutdown(t.ssl) & SSL_RECEIVED_SHUTDOWN, 0);
	tunnel_close(&t);
	int fd = lab_connect(&f->world); /* nobody's connection now */
	assert_false(lab_drain(fd, f->answer, ANSWER_BYTES));
	fd_close(&fd);
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 2);
	assert_int_equal(count_of(lines, "cut: the sandbox has ended"), 2);
}

static void a_killed_worker_leaves_the_decision_and_no_byte_upstream(void **state)
{
	struct fixture *f = *state;
	char text[128];
	world_start(f, NULL, "worker-decision");
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/1 HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_string_equal(client_ask(f, slice_of(text)), "");
	assert_int_equal(lab_reap(f->world.worker), 128 + SIGKILL);
	assert_string_equal(origin_heard(&f->plain), "");
	const char *line = lab_open_decision(&f->world);
	assert_non_null(line);
	assert_says(line, "\"status_code\":\"allow.rule\"");
	assert_says(line, "origin.test");
}

static void a_killed_keeper_refuses_new_names(void **state)
{
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_int_equal(kill(f->world.keeper, SIGKILL), 0);
	assert_false(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	tunnel_close(&t);
	assert_recorded(lab_recorded(&f->world), "error.internal", 1);
}

static void a_reused_connection_that_ended_is_replaced_for_repeatable_requests(void **state)
{
	static const struct {
		const char *line;
		const char *fields;
		const char *end;
		const char *holds;
	} cases[] = {
		{"GET /last", "", "body 0000", "200 OK"},
		{"GET /again", "", "body 0000", "200 OK"},
		{"GET /last", "", "body 0000", "200 OK"},
		{"POST /once", "Content-Length: 0\r\n", NULL, "502 error.upstream"},
	};
	struct fixture *f = *state;
	struct tunnel t;
	world_start(f, NULL, NULL);
	assert_true(tunnel_open(f, &t, authority_of(f, "origin.test"), "origin.test"));
	for (size_t i = 0; i < array_size(cases); i++) {
		tunnel_say(&t, request_of(f, cases[i].line, cases[i].fields));
		assert_int_equal(tunnel_hear(f, &t, cases[i].end), cases[i].end != NULL);
		assert_says(f->answer, cases[i].holds);
	}
	tunnel_close(&t);
	const char *heard = origin_heard(&f->tls);
	assert_int_equal(count_of(heard, "GET /again"), 2);
	assert_int_equal(count_of(heard, "POST /once"), 1);
	assert_int_equal(count_of(heard, "<connection>"), 2);
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 4);
	assert_recorded(lines, "error.upstream", 1);
}

static void what_cant_be_recorded_is_not_done(void **state)
{
	struct fixture *f = *state;
	char text[128];
	world_start(f, NULL, NULL);
	audit_ring_set_stalled(f->world.ring, true); /* as the recorder does on a full disk */
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/1 HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_says(client_ask(f, slice_of(text)), "503 deny.audit-full origin.test");
	(void)snprintf(text, sizeof(text), "CONNECT origin.test:%u HTTP/1.1\r\n\r\n", f->tls.port);
	assert_says(client_ask(f, slice_of(text)), "503 deny.audit-full origin.test");
	assert_string_equal(origin_heard(&f->plain), "");
	audit_ring_set_stalled(f->world.ring, false);
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/1 HTTP/1.1\r\nHost: origin.test:%u\r\n"
		"Connection: close\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_says(client_ask(f, slice_of(text)), "200 OK");
	assert_recorded(lab_recorded(&f->world), "allow.rule", 1);
}

static void addresses_that_are_refused_beside_good_ones_are_never_dialled(void **state)
{
	struct fixture *f = *state;
	char text[160];
	world_start(f, NULL, NULL);
	(void)snprintf(text, sizeof(text),
		"GET http://mixed.test:%u/1 HTTP/1.1\r\nHost: mixed.test:%u\r\n"
		"Connection: close\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_says(client_ask(f, slice_of(text)), "200 OK");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 1);
	assert_says(lines, "refused addresses: 10.0.0.5 ::1");
	assert_says(lines, "\"ip\":\"127.0.0.1\",\"port\":");
}

#define FLOW_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FLOW_TEST(a_request_in_a_tunnel_reaches_the_origin_anew),
		FLOW_TEST(a_request_for_another_host_ends_the_tunnel),
		FLOW_TEST(no_sandbox_gets_the_connection_of_another),
		FLOW_TEST(what_policy_refuses_is_explained_and_ends_the_connection),
		FLOW_TEST(refusals_on_the_explicit_port_come_once_and_close),
		FLOW_TEST(sni_of_another_host_gets_an_alert_and_no_upstream),
		FLOW_TEST(without_sni_the_tunnels_host_stands),
		FLOW_TEST(a_tunnel_without_tls_is_closed_without_a_byte),
		FLOW_TEST(a_failing_upstream_is_told_inside_of_the_tunnel),
		FLOW_TEST(responses_arrive_as_they_are_meant),
		FLOW_TEST(a_cut_response_never_looks_complete),
		FLOW_TEST(plain_requests_are_judged_one_by_one),
		FLOW_TEST(half_closed_clients_get_the_whole_answer),
		FLOW_TEST(a_body_over_the_limit_is_cut_while_it_streams),
		FLOW_TEST(slow_heads_and_silent_hosts_meet_their_deadlines),
		FLOW_TEST(one_connection_too_many_is_answered_and_recorded),
		FLOW_TEST(removing_the_sandbox_cuts_its_flows),
		FLOW_TEST(a_killed_worker_leaves_the_decision_and_no_byte_upstream),
		FLOW_TEST(a_killed_keeper_refuses_new_names),
		FLOW_TEST(a_reused_connection_that_ended_is_replaced_for_repeatable_requests),
		FLOW_TEST(what_cant_be_recorded_is_not_done),
		FLOW_TEST(addresses_that_are_refused_beside_good_ones_are_never_dialled),
	};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
