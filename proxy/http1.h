/*
 * HTTP/1.1 heads: strict parsing in place (RFC 9112) and writing fresh ones. Input: a peer's bytes.
 * Nothing is repaired: what RFC 9112 calls malformed, or what two readers could read in two ways,
 * is a fault. What goes out is always written anew from what was judged, never copied as a whole.
 */
#ifndef ECLUSA_PROXY_HTTP1_H
#define ECLUSA_PROXY_HTTP1_H

#include "policy/policy.h"
#include "proxy/body.h"
#include "proxy/limits.h"

enum http1_result { HTTP1_MORE, HTTP1_DONE, HTTP1_ERROR };

/** Where the search for a head's end stands; zero-initialise for each message, but @limits. Keeps slow senders
 * linear. */
struct http1_scan {
	const struct limits *limits; /* of lines, bytes and fields; borrowed. NULL: the largest */
	size_t scanned;
	size_t line_at;
	unsigned lines;
};

/** Fields that the codec itself acts on. */
enum http1_field_kind {
	HTTP1_FIELD_OTHER,
	HTTP1_FIELD_HOST,
	HTTP1_FIELD_CONTENT_LENGTH,
	HTTP1_FIELD_TRANSFER_ENCODING,
	HTTP1_FIELD_CONNECTION,
	HTTP1_FIELD_UPGRADE,
	HTTP1_FIELD_EXPECT,
	HTTP1_FIELD_HOP, /* Keep-Alive, TE, Trailer, HTTP2-Settings, Proxy-*, and what claims another host or framing: never passed on */
	HTTP1_FIELD_OVERRIDE, /* asks the origin for another method or path than the request line: refused in requests */
	HTTP1_FIELD_ALT_SVC, /* never passed on in responses: it would lead clients to other doors
			      */
};

/** One field line. Slices point into the input; @value is without surrounding blanks. */
struct http1_field {
	struct slice name;
	struct slice value;
	uint8_t kind;   /* enum http1_field_kind */
	bool nominated; /* a Connection option names it: not passed on */
};

/** What requests and responses share. */
struct http1_head {
	size_t len;     /* bytes of the head: what to drop from the input */
	unsigned minor; /* of HTTP/1.x: 0 or 1 */
	struct body_framing framing;
	bool close;     /* its sender will not, or shall not, use the connection again; always true
			   for 1.0 */
	bool upgrade;   /* Connection: upgrade was said */
	bool websocket; /* upgrade, and the one protocol of Upgrade is websocket */
	size_t field_count;
	struct http1_field fields[HTTP1_FIELDS_MAX];
};

enum http1_form {
	HTTP1_FORM_ORIGIN,    /* /path?query */
	HTTP1_FORM_ABSOLUTE,  /* http://host/path */
	HTTP1_FORM_AUTHORITY, /* CONNECT host:port */
	HTTP1_FORM_ASTERISK,  /* OPTIONS * */
};

/**
 * A parsed request. About 11 KiB: have one a worker, not one a flow; judge it and write it on
 * before waiting for anything. Slices point into the input and end with it.
 */
struct http1_request {
	struct http1_head head;
	struct slice method; /* case-sensitive token */
	bool is_head;        /* the method is HEAD: its response has no body */
	bool is_connect;
	bool expect_continue; /* HTTP/1.1 and Expect: 100-continue */
	enum http1_form form;
	enum policy_scheme scheme; /* of an absolute target */
	struct host authority;     /* absolute and authority form: the host that the target names */
	uint16_t authority_port;   /* absolute form: 80 or 443 when not given */
	struct slice target; /* origin and absolute form: what target_normalise() takes ("/" if the
				path is empty) */
	bool has_host;       /* false only for HTTP/1.0 and CONNECT */
	struct host host;    /* the Host field */
	uint16_t host_port;  /* 0: the field gives none */
};

struct http1_response {
	struct http1_head
		head;    /* framing: BODY_NONE for HEAD, 1xx, 204, 304 whatever it announces */
	unsigned status; /* 100-999 */
	struct slice reason;
	bool has_length; /* one valid Content-Length: passed on also where there is no body (HEAD,
			    304) */
	uint64_t length;
};

/**
 * Parse a request head. Call again with the same bytes and more (the buffer may have moved) while
 * it says MORE. HTTP1_DONE: *ret is filled, ret->head.len bytes are the head. HTTP1_ERROR: *why is
 * filled, *ret is undefined; the connection can't be used further. An input as long as
 * head_bytes of its limits never gets MORE. Does not block or allocate. CONNECT may lack Host, since
 * its target is the authority; other HTTP/1.1 requests may not.
 */
enum http1_result http1_parse_request(struct http1_scan *scan, struct slice in,
	struct http1_request *ret, struct http_fault *why);

/** Parse a response head; interim ones (1xx) come out like others. @head_request: the request's
 * method was HEAD. */
enum http1_result http1_parse_response(struct http1_scan *scan, struct slice in, bool head_request,
	struct http1_response *ret, struct http_fault *why);

/** The first field of this name (any case) that would be passed on, or an empty slice with ptr
 * NULL. For audit. */
struct slice http1_field_value(const struct http1_head *head, struct slice name);

/** Whether there is a field of this name, passed on or not; in any case, and with any mark in a mark's place, as CGI has names. */
bool http1_has_field(const struct http1_head *head, struct slice name);

/**
 * Whether target and Host field name this origin and no other: a Host without port stands for the
 * scheme's default port (for CONNECT: for any port); an absolute target must have the same scheme,
 * host and port. False is deny.host-mismatch. Source: cases C10-C12, D02.
 */
bool http1_request_names(const struct http1_request *r, enum policy_scheme scheme,
	const struct host *host, uint16_t port);

/** Where a request goes: what was judged, the only source of target and Host on the wire. */
struct http1_destination {
	const struct host *host;
	uint16_t port;
	enum policy_scheme scheme;
	const struct target *target; /* NULL: asterisk form */
	bool upgrade;                /* pass on a websocket upgrade that a rule allows */
	bool close;                  /* say Connection: close */
};

/**
 * Append a fresh request head: HTTP/1.1, Host generated, remaining end-to-end fields in their
 * order, framing by r->head.framing in its one spelling. Expect only as 100-continue. @return 0,
 * -ENOBUFS, -ENOMEM.
 */
int http1_write_request(
	const struct http1_request *r, const struct http1_destination *to, struct buf *out);

/** Who gets a response. */
struct http1_recipient {
	unsigned minor; /* the client's HTTP/1.x */
	bool close;     /* the connection towards the client ends after this response */
	bool switched;  /* 101 that answers an upgrade which was passed on */
};

/**
 * Append a fresh response head: HTTP/1.1, end-to-end fields, framing recomputed. A body without
 * length goes out chunked, or until close to a 1.0 client. *ret_framing is for body_writer_init();
 * when its kind is BODY_UNTIL_CLOSE or to->close was set, close afterwards. @return 0, -ENOBUFS,
 * -ENOMEM.
 */
int http1_write_response(const struct http1_response *r, const struct http1_recipient *to,
	struct body_framing *ret_framing, struct buf *out);

#endif
