/* See http.h. */
#include "export/http.h"

#include "common/cleanup.h"
#include "export/gzip.h"

#include <curl/curl.h>

#define ERROR_TEXT_BYTES 256

struct http {
	CURL *curl;
	struct curl_slist *headers;
	struct buf answer, zipped;
	struct slice hidden; /* the caller's */
	bool gzip;
	char error[CURL_ERROR_SIZE];
};

/** libcurl's callback: what the receiver sends as the answer's body. */
static size_t take(char *bytes, size_t one, size_t count, void *arg)
{
	struct http *h = arg;
	return buf_append(&h->answer, (struct slice){bytes, one * count}) == 0 ? one * count : 0;
}

static CURLcode set_blob(CURL *curl, CURLoption option, struct slice text)
{
	struct curl_blob blob = {(void *)text.ptr, text.len, CURL_BLOB_COPY};
	return text.len == 0 ? CURLE_OK : curl_easy_setopt(curl, option, &blob);
}

/** Who is trusted, and as whom we come. The folder of the system's CAs is not to count beside those that are given. */
static bool set_tls(CURL *c, const struct http_options *o)
{
	return curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) ==
		CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_PROXY_CAPATH, NULL) == CURLE_OK &&
		set_blob(c, CURLOPT_CAINFO_BLOB, o->authorities) == CURLE_OK &&
		set_blob(c, CURLOPT_PROXY_CAINFO_BLOB, o->authorities) == CURLE_OK &&
		set_blob(c, CURLOPT_SSLCERT_BLOB, o->certificate) == CURLE_OK &&
		set_blob(c, CURLOPT_SSLKEY_BLOB, o->key) == CURLE_OK;
}

/** An empty proxy and an empty list of exceptions are what keeps libcurl from asking the environment. */
static bool set_transport(CURL *c, const struct http_options *o)
{
	return curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ==
		CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_PROXY, o->proxy == NULL ? "" : o->proxy) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_NOPROXY, "") == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)o->timeout_ms) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_MAXCONNECTS, 1L) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
		curl_easy_setopt(c, CURLOPT_USERAGENT, "eclusa-export/" ECLUSA_VERSION) == CURLE_OK;
}

static void headers_clear(struct http *h)
{
	for (struct curl_slist *at = h->headers; at != NULL; at = at->next)
		explicit_bzero(at->data, strlen(at->data));
	curl_slist_free_all(h->headers);
	h->headers = NULL;
}

int http_new(const struct http_options *o, struct http **ret, struct failure *why)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return failure_set(why, -ENOMEM, "libcurl can't be used");
	struct http *h = calloc(1, sizeof(*h));
	if (h == NULL || (h->curl = curl_easy_init()) == NULL) {
		http_free(h);
		return failure_set(why, -ENOMEM, "no memory");
	}
	buf_init(&h->answer, HTTP_ANSWER_BYTES_MAX);
	h->gzip = o->gzip;
	bool set = set_tls(h->curl, o) && set_transport(h->curl, o) &&
		curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->error) == CURLE_OK &&
		curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, take) == CURLE_OK &&
		curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, h) == CURLE_OK;
	if (!set) {
		http_free(h);
		return failure_set(why, -EINVAL,
			"this libcurl lacks something: at least 7.85 with OpenSSL is needed");
	}
	*ret = h;
	return 0;
}

void http_free(struct http *h)
{
	if (h == NULL)
		return;
	headers_clear(h);
	curl_easy_cleanup(h->curl);
	buf_fini(&h->answer);
	buf_fini(&h->zipped);
	free(h);
}

void http_disconnect(struct http *h)
{
	(void)curl_easy_setopt(h->curl, CURLOPT_FRESH_CONNECT, 1L); /* can't fail for a flag */
}

/** A line such as "Name: value"; one without value keeps libcurl from sending what it has under that name. */
static int add_header(struct http *h, const char *line)
{
	struct curl_slist *longer = curl_slist_append(h->headers, line);
	if (longer == NULL)
		return -ENOMEM;
	h->headers = longer;
	return 0;
}

int http_headers_begin(struct http *h)
{
	headers_clear(h);
	int result = add_header(h, "Expect:");
	return result == 0 && h->gzip ? add_header(h, "Content-Encoding: gzip") : result;
}

int http_header(struct http *h, const char *name, struct slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		if ((unsigned char)value.ptr[i] < 0x20 || value.ptr[i] == 0x7f)
			return -EINVAL;
	}
	struct buf line = {.limit = 0};
	char *room; /* all at once: growing would leave a copy of the value behind */
	int result = buf_reserve(&line, strlen(name) + value.len + sizeof(": "), &room);
	if (result < 0)
		return result;
	(void)buf_printf(&line, "%s: ", name); /* it fits */
	(void)buf_append(&line, value);
	(void)buf_append(&line, (struct slice){"", 1});
	result = add_header(h, buf_slice(&line).ptr);
	explicit_bzero(line.data, line.capacity);
	buf_fini(&line);
	return result;
}

void http_hide(struct http *h, struct slice secret)
{
	h->hidden = secret.len < HTTP_HIDDEN_BYTES_MIN ? (struct slice){NULL, 0} : secret;
}

/** Of the same length, so that JSON stays JSON. */
static void blot_hidden(struct http *h)
{
	struct slice rest = buf_slice(&h->answer);
	char *at;
	while (h->hidden.len > 0 && rest.len >= h->hidden.len &&
		(at = memmem(rest.ptr, rest.len, h->hidden.ptr, h->hidden.len)) != NULL) {
		memset(at, '*', h->hidden.len);
		rest = slice_part(rest, (size_t)(at - rest.ptr) + h->hidden.len, rest.len);
	}
}

/** What kept the answer from coming, as an errno. */
static int failure_code(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -EHOSTUNREACH;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
		return -EPROTO;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_WRITE_ERROR:
		return -EMSGSIZE;
	default:
		return -EIO;
	}
}

static bool set_request(struct http *h, const char *url, struct slice body)
{
	return curl_easy_setopt(h->curl, CURLOPT_URL, url) == CURLE_OK &&
		curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers) == CURLE_OK &&
		curl_easy_setopt(h->curl, CURLOPT_POST, 1L) == CURLE_OK &&
		curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len) ==
		CURLE_OK &&
		curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, body.ptr) == CURLE_OK;
}

static int request_failed(const struct http *h, CURLcode code, const char *url, struct failure *why)
{
	char text[ERROR_TEXT_BYTES];
	const char *said = h->error[0] != '\0' ? h->error : curl_easy_strerror(code);
	if (code == CURLE_WRITE_ERROR)
		said = "the answer is longer than anything that is read";
	return failure_set(why, failure_code(code), "%.*s: %s", (int)strcspn(url, "?"), url,
		slice_escape(slice_of(said), text, sizeof(text)));
}

int http_post(struct http *h, const char *url, struct slice body, struct http_answer *ret,
	struct failure *why)
{
	buf_clear(&h->answer);
	h->answer.failed = false;
	h->error[0] = '\0';
	buf_clear(&h->zipped);
	h->zipped.failed = false;
	int zipped = h->gzip ? gzip_append(body, &h->zipped) : 0;
	if (zipped < 0)
		return failure_errno(why, zipped, "can't compress %zu bytes", body.len);
	if (!set_request(h, url, h->gzip ? buf_slice(&h->zipped) : body))
		return failure_set(why, -ENOMEM, "no memory for a request to %s", url);
	CURLcode code = curl_easy_perform(h->curl);
	if (code != CURLE_OK)
		return request_failed(h, code, url, why);
	(void)curl_easy_setopt(h->curl, CURLOPT_FRESH_CONNECT, 0L); /* can't fail for a flag */
	blot_hidden(h);
	long status = 0;
	curl_off_t pause_s = 0;
	(void)curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status); /* 0 says: not known */
	(void)curl_easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &pause_s);
	bool long_pause = pause_s >= HTTP_RETRY_AFTER_MAX_MS / 1000;
	*ret = (struct http_answer){
		.status = (unsigned)status,
		.retry_after_ms = long_pause ? HTTP_RETRY_AFTER_MAX_MS
			: pause_s > 0        ? (unsigned)pause_s * 1000
					     : 0,
		.body = buf_slice(&h->answer),
	};
	return 0;
}

/** The part of a URL between "//" and the port or path; a literal of version 6 with its brackets. */
static struct slice url_host(struct slice url)
{
	struct slice host = slice_part(url, 7, url.len); /* behind "http://" */
	ptrdiff_t end = slice_find(host, '/');
	host = slice_part(host, 0, end < 0 ? host.len : (size_t)end);
	if (slice_starts(host, SLICE("["))) {
		end = slice_find(host, ']');
		return slice_part(host, 0, end < 0 ? host.len : (size_t)end + 1);
	}
	end = slice_find(host, ':');
	return slice_part(host, 0, end < 0 ? host.len : (size_t)end);
}

/** 127.0.0.1 is not the only one of its kind, but the others may be names: 127.example.com. */
bool http_url_is_plain(const char *url)
{
	struct slice text = slice_of(url);
	if (!slice_equal_nocase(slice_part(text, 0, 7), SLICE("http://")))
		return false;
	struct slice host = url_host(text);
	return !slice_equal(host, SLICE("127.0.0.1")) && !slice_equal(host, SLICE("[::1]")) &&
		!slice_equal_nocase(host, SLICE("localhost"));
}
