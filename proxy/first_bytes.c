/* See first_bytes.h. */
#include "proxy/first_bytes.h"

#include "proxy/limits.h"

static bool is_token(char c)
{
	char l = ascii_lower(c);
	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') ||
		(c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/** Record type 22 (handshake), version 3.0 to 3.4 (RFC 8446 5.1). */
static enum first_bytes tls_of(struct slice in)
{
	bool tls = (in.len < 2 || in.ptr[1] == 3) && (in.len < 3 || (unsigned char)in.ptr[2] <= 4);
	if (!tls)
		return FIRST_BYTES_OTHER;
	return in.len < 3 ? FIRST_BYTES_MORE : FIRST_BYTES_TLS;
}

enum first_bytes first_bytes_of(struct slice in)
{
	size_t len = 0;
	if (in.len > 0 && in.ptr[0] == 22)
		return tls_of(in);
	while (len < in.len && len <= HTTP1_METHOD_BYTES_MAX && is_token(in.ptr[len]))
		len++;
	if (len > HTTP1_METHOD_BYTES_MAX)
		return FIRST_BYTES_OTHER;
	if (len == in.len)
		return FIRST_BYTES_MORE;
	return len > 0 && in.ptr[len] == ' ' ? FIRST_BYTES_HTTP : FIRST_BYTES_OTHER;
}
