/* See http_sink.h. */
#include "export/http_sink.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/upstream.h"

#include <fcntl.h>
#include <stdio.h>

#define PEM_BYTES_MAX  ((size_t)4 << 20)
#define BODY_BYTES_MAX ((size_t)16 << 20) /* an event in the widest envelope has half of it */

void http_sink_check(const struct sink_config *c, struct policy_report *report)
{
	const struct sink_value *url = sink_config_value(c, "url");
	if (http_url_is_plain(url->text) && sink_config_value(c, "plain")->number == 0)
		sink_config_error(c, "url", report,
			"events would cross the network unencrypted: give an https:// URL, or say `plain yes`");
	bool certificate = sink_value_is(sink_config_value(c, "cert"));
	bool key = sink_value_is(sink_config_value(c, "key"));
	if (certificate && !key)
		sink_config_error(c, "cert", report, "a certificate needs its key: add key");
	if (key && !certificate)
		sink_config_error(c, "key", report, "a key needs its certificate: add cert");
}

int http_sink_url(const struct sink_config *c, const char *suffix, char ret[static HTTP_URL_BYTES])
{
	struct slice base = slice_of(sink_config_value(c, "url")->text);
	if (suffix[0] != '\0' && slice_ends(base, SLICE("/")))
		base.len--;
	int len = snprintf(ret, HTTP_URL_BYTES, "%.*s%s", (int)base.len, base.ptr, suffix);
	return len < HTTP_URL_BYTES ? 0 : -ENAMETOOLONG;
}

/** PEM files that the configuration names, and the system's CAs where it names none. */
struct pem {
	struct buf authorities, certificate;
	struct secret key;
};

static int read_roots(struct pem *pem, struct failure *why)
{
	struct upstream_files files = UPSTREAM_FILES_NONE;
	const struct upstream_options none = {.hosts = NULL};
	int result = upstream_open(&none, &files, why);
	if (result == 0) {
		result = file_read_fd(files.roots_fd, PEM_BYTES_MAX, &pem->authorities);
		if (result < 0)
			(void)failure_errno(why, result, "can't read this system's CAs");
	}
	upstream_close(&files);
	return result;
}

static int read_file(
	const struct sink_config *c, const char *setting, struct buf *to, struct failure *why)
{
	const char *path = sink_config_value(c, setting)->text;
	int result = file_read(AT_FDCWD, path, PEM_BYTES_MAX, to);
	if (result < 0)
		return failure_errno(why, result, "sink %s: can't read %s", c->name, path);
	if (!upstream_has_certificate(buf_slice(to)))
		return failure_set(why, -EINVAL, "sink %s: no certificate in %s: it must be PEM",
			c->name, path);
	return 0;
}

static int read_pem(const struct sink_config *c, struct pem *pem, struct failure *why)
{
	int result = sink_value_is(sink_config_value(c, "ca"))
		? read_file(c, "ca", &pem->authorities, why)
		: read_roots(pem, why);
	if (result < 0 || !sink_value_is(sink_config_value(c, "cert")))
		return result;
	result = read_file(c, "cert", &pem->certificate, why);
	return result < 0 ? result : secret_read(sink_config_value(c, "key")->text, &pem->key, why);
}

static void pem_fini(struct pem *pem)
{
	buf_fini(&pem->authorities);
	buf_fini(&pem->certificate);
	secret_fini(&pem->key);
}

static int open_http(struct sink *s, struct failure *why)
{
	const struct sink_config *c = s->config;
	struct pem pem = {.key = {.bytes = {.limit = 0}}};
	int result = read_pem(c, &pem, why);
	if (result == 0)
		result = http_new(
			&(const struct http_options){
				.authorities = buf_slice(&pem.authorities),
				.certificate = buf_slice(&pem.certificate),
				.key = buf_slice(&pem.key.bytes),
				.proxy = sink_config_value(c, "proxy")->text,
				.timeout_ms = c->timeout_ms,
				.gzip = sink_config_value(c, "gzip")->number != 0,
			},
			&s->http, why);
	pem_fini(&pem);
	return result;
}

/** Authorization is the scheme's word and the secret in one value. */
static int add_credentials(struct sink *s)
{
	struct slice secret = buf_slice(&s->secret.bytes);
	if (secret.len == 0)
		return 0;
	struct secret value = {.bytes = {.limit = 0}};
	char *room; /* all at once: growing would leave a copy behind */
	int result = buf_reserve(&value.bytes, strlen(s->envelope->scheme) + secret.len, &room);
	if (result == 0) {
		(void)buf_append_text(&value.bytes, s->envelope->scheme); /* it fits */
		(void)buf_append(&value.bytes, secret);
		result = http_header(s->http, "Authorization", buf_slice(&value.bytes));
	}
	secret_fini(&value);
	return result;
}

/** Behind the scheme's word, if it has one: receivers may say only that part back. */
static struct slice secret_part(struct slice secret)
{
	const char *blank = secret.len == 0 ? NULL : memrchr(secret.ptr, ' ', secret.len);
	return blank == NULL ? secret
			     : slice_part(secret, (size_t)(blank - secret.ptr) + 1, secret.len);
}

int http_sink_headers(struct sink *s, struct failure *why)
{
	int result = http_headers_begin(s->http);
	if (result == 0)
		result = http_header(s->http, "Content-Type", slice_of(s->envelope->content_type));
	if (result == 0 && s->channel[0] != '\0')
		result = http_header(s->http, "X-Splunk-Request-Channel", slice_of(s->channel));
	if (result == 0)
		result = add_credentials(s);
	if (result < 0)
		return failure_errno(why, result,
			"sink %s: can't make the headers of requests; %s is one line",
			s->config->name, s->envelope->credentials);
	return 0;
}

static int open_all(struct sink *s, const char *suffix, struct failure *why)
{
	const struct sink_config *c = s->config;
	const struct sink_value *credentials = sink_config_value(c, s->envelope->credentials);
	int result = http_sink_url(c, suffix, s->url);
	if (result < 0)
		return failure_set(why, result, "sink %s: the url is too long", c->name);
	result = open_http(s, why);
	if (result == 0 && sink_value_is(credentials))
		result = secret_read(credentials->text, &s->secret, why);
	if (result < 0)
		return result;
	http_hide(s->http, secret_part(buf_slice(&s->secret.bytes)));
	return http_sink_headers(s, why);
}

int http_sink_open(const struct sink_config *c, const struct envelope *envelope, const char *suffix,
	struct sink **ret, struct failure *why)
{
	struct sink *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_set(why, -ENOMEM, "no memory");
	s->config = c;
	s->envelope = envelope;
	s->most = SIZE_MAX;
	buf_init(&s->body, BODY_BYTES_MAX);
	int result = open_all(s, suffix, why);
	if (result < 0)
		http_sink_free(s);
	else
		*ret = s;
	return result;
}

void http_sink_free(struct sink *s)
{
	if (s == NULL)
		return;
	http_free(s->http);
	secret_fini(&s->secret);
	buf_fini(&s->body);
	free(s->parcel.lines);
	free(s);
}

void http_sink_reset(struct sink *s)
{
	http_disconnect(s->http);
}

/** Room for all lines of a batch. */
static int parcel_reserve(struct sink *s, size_t count)
{
	if (s->room < count) {
		struct sink_line **lines = realloc(s->parcel.lines, count * sizeof(*lines));
		if (lines == NULL)
			return -ENOMEM;
		s->parcel.lines = lines;
		s->room = count;
	}
	return 0;
}

/** Wrap up the first lines that wait, as many as fit. An empty parcel: there are none. @return 0 or negative errno. */
static int pack(struct sink *s, struct sink_batch *batch)
{
	const struct envelope *e = s->envelope;
	int result = parcel_reserve(s, batch->count);
	if (result < 0)
		return result;
	s->parcel.count = 0;
	buf_clear(&s->body);
	s->body.failed = false;
	if (e->begin != NULL)
		e->begin(s, &s->body);
	bool room = true;
	for (size_t i = 0; i < batch->count && s->parcel.count < s->most && room; i++) {
		struct sink_line *line = &batch->lines[i];
		if (line->fate != SINK_WAITING)
			continue;
		if (e->add(s, line, s->parcel.count == 0, &s->body))
			s->parcel.lines[s->parcel.count++] = line;
		else
			line->fate = SINK_POISON;
		room = buf_len(&s->body) < BODY_BYTES_MAX / 2;
	}
	if (e->end != NULL)
		e->end(s, &s->body);
	return s->body.failed ? -ENOMEM : 0;
}

static void parcel_fate(const struct parcel *p, enum sink_fate fate)
{
	for (size_t i = 0; i < p->count; i++)
		p->lines[i]->fate = fate;
}

/** After a request that was taken the next may be larger again. */
static void grow(struct sink *s)
{
	s->most = s->most > SIZE_MAX / 2 ? SIZE_MAX : s->most * 2;
}

/** One of them is not taken: less the next time, and alone it is the one. */
static void refused(struct sink *s, const char why[static SINK_WHY_BYTES])
{
	if (s->parcel.count == 1) {
		struct sink_line *line = s->parcel.lines[0];
		memcpy(line->why, why, sizeof(line->why)); /* printable already */
		line->fate = SINK_POISON;
		grow(s);
	} else {
		s->most = s->parcel.count / 2;
	}
}

/** An acknowledgement will tell of these lines, which are next to one another but for poison. */
static void parsed(struct sink *s, struct sink_batch *batch)
{
	const struct parcel *p = &s->parcel;
	if (batch->tag == 0)
		batch->tag = ++s->tag;
	parcel_fate(p, SINK_SENT);
	int added = acks_add(&s->acks,
		&(const struct ack){
			.id = s->ack_id,
			.tag = batch->tag,
			.first = (size_t)(p->lines[0] - batch->lines),
			.end = (size_t)(p->lines[p->count - 1] - batch->lines) + 1,
			.sent_ns = clock_monotonic_ns(),
		});
	if (added < 0) /* deliver() looked for room */
		parcel_fate(p, SINK_WAITING);
}

/** @return 1 to go on with what waits, 0 to leave that for later, negative errno. */
static int act(struct sink *s, struct sink_batch *batch, const struct http_answer *answer,
	struct failure *why)
{
	char said[SINK_WHY_BYTES];
	verdict_say(answer, said);
	switch (s->envelope->judge(s, answer, &s->parcel, said)) {
	case VERDICT_TAKEN:
		parcel_fate(&s->parcel, SINK_DELIVERED);
		grow(s);
		return 1;
	case VERDICT_PARSED:
		parsed(s, batch);
		grow(s);
		return 1;
	case VERDICT_REFUSED:
		refused(s, said);
		return 1;
	case VERDICT_SORTED:
		batch->retry_after_ms = answer->retry_after_ms;
		return 0;
	case VERDICT_LATER:
		memcpy(batch->why, said, sizeof(said));
		batch->retry_after_ms = answer->retry_after_ms;
		return 0;
	case VERDICT_SETTINGS:
		break;
	}
	return failure_set(why, -EACCES, "%.*s: %s", (int)strcspn(s->url, "?"), s->url, said);
}

int http_sink_deliver(struct sink *s, struct sink_batch *batch, struct failure *why)
{
	uint64_t until = clock_monotonic_ns() + s->config->timeout_ms * NS_PER_MS;
	int result = 1;
	batch->retry_after_ms = 0;
	while (result > 0 && s->acks.count < ACKS_MAX) {
		struct http_answer answer;
		result = pack(s, batch);
		if (result < 0)
			return failure_errno(why, result, "can't write a request");
		if (s->parcel.count == 0)
			return 0;
		result = http_post(s->http, s->url, buf_slice(&s->body), &answer, why);
		if (result == 0)
			result = act(s, batch, &answer, why);
		if (clock_monotonic_ns() >= until && result > 0)
			result = 0; /* what waits is given again */
	}
	return result < 0 ? result : 0;
}
