/*
 * A sink that sends to a syslog receiver: over TLS 1.3 (RFC 5425), TCP with octet counting (RFC 6587), or, where losing events was asked for,
 * UDP (RFC 5426). Nobody acknowledges syslog. A line counts as delivered when it can't wait unread in the receiver's kernel anymore: by the bytes
 * that were acknowledged after it, or by an orderly end of the connection, which is made when lines wait for that too long. What is
 * not known to be delivered when a connection breaks is sent again.
 */
#include "export/kinds.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "export/datagram.h"
#include "export/syslog.h"
#include "export/wire.h"

#include <fcntl.h>

#define WINDOW             64
#define FULL_WAIT_MS       1 /* for acknowledgements, of which nobody tells */
#define BATCH_BYTES        ((size_t)256 << 10)
#define FINISH_TIMEOUTS    10 /* a receiver that reads slowly has this many of them to read all */
#define PEM_BYTES_MAX      ((size_t)1 << 20)
#define ENTERPRISE_EXAMPLE "32473" /* RFC 5612 */

enum transport { TRANSPORT_TLS, TRANSPORT_TCP, TRANSPORT_UDP };

static const char *const transports[] = {"tls", "tcp", "udp", NULL};
static const char *const facilities[] = {"kern", "user", "mail", "daemon", "auth", "syslog", "lpr",
	"news", "uucp", "cron", "authpriv", "ftp", "ntp", "audit", "alert", "clock", "local0",
	"local1", "local2", "local3", "local4", "local5", "local6", "local7", NULL};

static const struct sink_setting settings[] = {
	{.name = "server", .type = SETTING_ENDPOINT, .required = true},
	{.name = "transport", .type = SETTING_WORD, .otherwise = "tls", .words = transports},
	{.name = "lossy", .type = SETTING_FLAG, .otherwise = "no"},
	{.name = "ca", .type = SETTING_FILE},
	{.name = "cert", .type = SETTING_FILE},
	{.name = "key", .type = SETTING_SECRET},
	{.name = "name", .type = SETTING_TEXT},
	{.name = "facility", .type = SETTING_WORD, .otherwise = "local0", .words = facilities},
	{.name = "enterprise",
		.type = SETTING_COUNT,
		.otherwise = ENTERPRISE_EXAMPLE,
		.least = 1,
		.most = UINT32_MAX},
	{.name = "message-bytes",
		.type = SETTING_BYTES,
		.otherwise = "16k",
		.least = 480,
		.most = 128 << 10},
	{.name = "confirm",
		.type = SETTING_DURATION,
		.otherwise = "5s",
		.least = 10,
		.most = 600000},
};

struct sink {
	struct wire_options wire_options;
	struct tls_client *tls;
	struct wire *wire; /* NULL: not connected */
	struct syslog_style style;
	size_t message_bytes;
	unsigned confirm_ms;
	bool udp;
	int udp_fd;
	struct buf out;
	bool unconfirmed;          /* lines are on their way on this connection */
	uint64_t waiting_since_ns; /* since when */
};

static void syslog_check(const struct sink_config *c, struct policy_report *report)
{
	static const char *const of_tls[] = {"ca", "cert", "key", "name"};
	enum transport transport = (enum transport)sink_config_value(c, "transport")->number;
	bool lossy = sink_config_value(c, "lossy")->number != 0;
	bool cert = sink_value_is(sink_config_value(c, "cert"));
	bool key = sink_value_is(sink_config_value(c, "key"));
	for (size_t i = 0; i < array_size(of_tls) && transport != TRANSPORT_TLS; i++) {
		if (sink_value_is(sink_config_value(c, of_tls[i])))
			sink_config_error(c, of_tls[i], report, "this is for transport tls");
	}
	if (transport == TRANSPORT_TLS && !sink_value_is(sink_config_value(c, "ca")))
		sink_config_error(c, "ca", report,
			"missing: the certificates of the CAs that the receiver's must come from");
	if (transport == TRANSPORT_TLS && cert != key)
		sink_config_error(c, cert ? "cert" : "key", report, "cert and key belong together");
	if (transport == TRANSPORT_UDP && !lossy)
		sink_config_error(c, "transport", report,
			"udp loses events and nobody notices: with 'lossy yes' it is used all the same");
	if (transport != TRANSPORT_UDP && lossy)
		sink_config_error(c, "lossy", report, "this is for transport udp");
}

static void syslog_reset(struct sink *s)
{
	wire_free(s->wire);
	s->wire = NULL;
	s->unconfirmed = false;
	fd_close(&s->udp_fd);
	buf_clear(&s->out);
}

static void syslog_free(struct sink *s)
{
	if (s == NULL)
		return;
	syslog_reset(s);
	tls_client_free(s->tls);
	buf_fini(&s->out);
	free(s);
}

/** A file of certificates; nothing when none is configured. */
static int read_pem(const struct sink_value *v, struct buf *to, struct failure *why)
{
	int r = sink_value_is(v) ? file_read(AT_FDCWD, v->text, PEM_BYTES_MAX, to) : 0;
	return r < 0 ? failure_errno(why, r, "%s", v->text) : 0;
}

static int open_tls(struct sink *s, const struct sink_config *c, struct failure *why)
{
	const struct sink_value *name = sink_config_value(c, "name");
	const struct sink_value *key_file = sink_config_value(c, "key");
	struct buf ca = {.limit = 2 * PEM_BYTES_MAX}, certificate = {.limit = 2 * PEM_BYTES_MAX};
	struct secret key = {.bytes = {.limit = 0}};
	int r = read_pem(sink_config_value(c, "ca"), &ca, why);
	if (r == 0)
		r = read_pem(sink_config_value(c, "cert"), &certificate, why);
	if (r == 0 && sink_value_is(key_file))
		r = secret_read(key_file->text, &key, why);
	const struct tls_client_options options = {.authorities = buf_slice(&ca),
		.certificate = buf_slice(&certificate),
		.key = buf_slice(&key.bytes),
		.name = sink_value_is(name) ? name->text : s->wire_options.host};
	if (r == 0)
		r = tls_client_new(&options, &s->tls, why);
	s->wire_options.tls = s->tls;
	secret_fini(&key);
	buf_fini(&certificate);
	buf_fini(&ca);
	return r;
}

static int syslog_open(const struct sink_config *c, struct sink **ret, struct failure *why)
{
	enum transport transport = (enum transport)sink_config_value(c, "transport")->number;
	const struct sink_value *server = sink_config_value(c, "server");
	struct sink *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "sink %s", c->name);
	*s = (struct sink){.wire_options = {.host = server->text,
				   .port = (uint16_t)server->number,
				   .timeout_ms = c->timeout_ms},
		.style = {.facility = (unsigned)sink_config_value(c, "facility")->number,
			.enterprise = (unsigned)sink_config_value(c, "enterprise")->number},
		.message_bytes = sink_config_value(c, "message-bytes")->number,
		.confirm_ms = (unsigned)sink_config_value(c, "confirm")->number,
		.udp = transport == TRANSPORT_UDP,
		.udp_fd = -1,
		.out = {.limit = 4 * c->batch_bytes + ((size_t)8 << 20)}};
	int r = transport == TRANSPORT_TLS ? open_tls(s, c, why) : 0;
	if (r < 0) {
		syslog_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

/** Lines of one batch as frames in s->out; what is too long is poison. @return 0, -ENOBUFS, -ENOMEM. */
static int compose(struct sink *s, struct sink_batch *batch)
{
	buf_clear(&s->out);
	for (size_t i = 0; i < batch->count; i++) {
		struct sink_line *line = &batch->lines[i];
		if (line->fate != SINK_WAITING)
			continue;
		int r = syslog_frame(
			&s->style, &line->facts, line->text, s->message_bytes, &s->out);
		if (r == -EMSGSIZE)
			sink_poison(line, "the message is longer than message-bytes, %zu",
				s->message_bytes);
		else if (r < 0)
			return r;
		else
			line->fate = SINK_SENT;
	}
	return 0;
}

/** A connection that nothing is on and that the receiver ended is no failure. */
static void drop_if_ended(struct sink *s)
{
	struct failure ignored = {0};
	if (s->wire != NULL && !s->unconfirmed && wire_check(s->wire, 0, &ignored) < 0)
		syslog_reset(s);
}

static int udp_deliver(struct sink *s, struct sink_batch *batch, struct failure *why)
{
	int r = s->udp_fd >= 0
		? 0
		: datagram_connect(s->wire_options.host, s->wire_options.port, &s->udp_fd, why);
	for (size_t i = 0; i < batch->count && r == 0; i++) {
		struct sink_line *line = &batch->lines[i];
		if (line->fate != SINK_WAITING)
			continue;
		buf_clear(&s->out);
		r = syslog_message(&s->style, &line->facts, line->text, &s->out);
		bool fits = r == 0 && buf_len(&s->out) <= s->message_bytes;
		if (fits)
			r = datagram_send(
				s->udp_fd, buf_slice(&s->out), s->wire_options.timeout_ms);
		if (r == 0 && fits)
			line->fate = SINK_DELIVERED;
		else if (r == -EMSGSIZE || r == 0)
			sink_poison(line, "the message is too long for a datagram");
		r = r == -EMSGSIZE ? 0 : r;
	}
	return r < 0
		? failure_errno(why, r, "%s port %u", s->wire_options.host, s->wire_options.port)
		: 0;
}

static int syslog_deliver(struct sink *s, struct sink_batch *batch, struct failure *why)
{
	if (s->udp)
		return udp_deliver(s, batch, why);
	drop_if_ended(s);
	int r = s->wire != NULL ? 0 : wire_connect(&s->wire_options, &s->wire, why);
	if (r < 0)
		return r;
	r = compose(s, batch);
	if (r < 0)
		return failure_errno(why, r, "batch");
	r = wire_write(s->wire, buf_slice(&s->out), why);
	if (r < 0)
		return r;
	batch->tag = wire_position(s->wire);
	if (!s->unconfirmed)
		s->waiting_since_ns = clock_monotonic_ns();
	s->unconfirmed = true;
	return 0;
}

/** Batches that end before a place are delivered. @return how many of the first ones are. */
static size_t confirm_up_to(struct sink_batch *const *batches, size_t count, uint64_t place)
{
	size_t done = 0;
	while (done < count && batches[done]->tag <= place) {
		struct sink_batch *b = batches[done++];
		for (size_t i = 0; i < b->count; i++) {
			if (b->lines[i].fate == SINK_SENT)
				b->lines[i].fate = SINK_DELIVERED;
		}
	}
	return done;
}

static int syslog_settle(struct sink *s, struct sink_batch *const *batches, size_t count,
	unsigned wait_ms, struct failure *why)
{
	int r = s->wire == NULL ? failure_set(why, -ENOTCONN, "not connected")
				: wire_check(s->wire, 0, why);
	if (r < 0)
		return r;
	size_t done = confirm_up_to(batches, count, wire_read_up_to(s->wire));
	uint64_t now = clock_monotonic_ns();
	if (done > 0)
		s->waiting_since_ns = now;
	bool late = now - s->waiting_since_ns >= s->confirm_ms * NS_PER_MS;
	bool full = count == WINDOW && done == 0;
	if (full && !late && wire_may_tell(s->wire, batches[0]->tag))
		return wire_check(s->wire, FULL_WAIT_MS, why);
	if (done == count || (!late && !full))
		return done > 0 ? 0 : wire_check(s->wire, wait_ms, why);
	r = wire_finish(s->wire, s->wire_options.timeout_ms * FINISH_TIMEOUTS, why);
	if (r < 0)
		return r;
	(void)confirm_up_to(batches, count, UINT64_MAX);
	syslog_reset(s);
	return 0;
}

const struct sink_kind sink_syslog = {
	.name = "syslog",
	.text = "a syslog receiver, over TLS, TCP or UDP",
	.settings = settings,
	.setting_count = array_size(settings),
	.needs = SINK_NEEDS_NETWORK,
	.formats = 1U << AUDIT_FORMAT_OCSF | 1U << AUDIT_FORMAT_OCSF_BARE | 1U << AUDIT_FORMAT_ECS |
		1U << AUDIT_FORMAT_CEF | 1U << AUDIT_FORMAT_LEEF,
	.format = AUDIT_FORMAT_OCSF,
	.window = WINDOW,
	.batch_bytes = BATCH_BYTES,
	.check = syslog_check,
	.open = syslog_open,
	.deliver = syslog_deliver,
	.settle = syslog_settle,
	.reset = syslog_reset,
	.free = syslog_free,
};
