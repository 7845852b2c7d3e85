/* See upstream_proxy.h. */
#include "common/upstream_proxy.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/stat.h>

#define HOST_BYTES 256

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The two parts of a URL. */
struct place {
	char host[HOST_BYTES];
	bool literal;
	struct address address;
	uint16_t port;
};

static int malformed(const char *url, struct failure *why)
{
	char shown[128];
	if (strchr(url, '@') != NULL)
		return failure_set(why, -EINVAL,
			"--upstream-proxy takes no credentials: put them into a file, --upstream-proxy-auth FILE");
	return failure_set(why, -EINVAL, "--upstream-proxy takes http://HOST:PORT, not '%s'",
		slice_escape(slice_of(url), shown, sizeof(shown)));
}

static bool name_valid(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		bool letter =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!letter && c != '-' && c != '.' && c != '_')
			return false;
	}
	return name.len > 0 && name.ptr[0] != '-';
}

static int parse(const char *url, struct place *ret, struct failure *why)
{
	struct slice text = slice_of(url);
	struct slice host, number;
	uint64_t port;
	if (!slice_starts(text, SLICE("http://")))
		return malformed(url, why);
	text = slice_part(text, 7, text.len);
	if (slice_ends(text, SLICE("/")))
		text.len--;
	ret->literal = address_parse_endpoint(text, 0, &ret->address, &ret->port) == 0;
	if (ret->literal)
		return ret->port != 0 ? 0 : malformed(url, why);
	if (!slice_split(text, ':', &host, &number) ||
		slice_decimal(number, UINT16_MAX, false, &port) < 0 || port == 0 ||
		!name_valid(host) || slice_copy(host, ret->host, sizeof(ret->host)) < 0)
		return malformed(url, why);
	ret->port = (uint16_t)port;
	return 0;
}

static void base64(struct slice from, char *to)
{
	for (size_t i = 0; i < from.len; i += 3) {
		size_t have = from.len - i < 3 ? from.len - i : 3;
		uint32_t bits = 0;
		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < have ? (uint8_t)from.ptr[i + k] : 0u);
		*to++ = digits[bits >> 18];
		*to++ = digits[bits >> 12 & 63];
		*to++ = have > 1 ? digits[bits >> 6 & 63] : '=';
		*to++ = have > 2 ? digits[bits & 63] : '=';
	}
	*to = '\0';
}

/** user:password of printable bytes: RFC 7617 2. */
static bool login_valid(struct slice login)
{
	if (login.len > UPSTREAM_PROXY_LOGIN_BYTES || slice_find(login, ':') <= 0)
		return false;
	for (size_t i = 0; i < login.len; i++) {
		if ((uint8_t)login.ptr[i] < 0x20 || login.ptr[i] == 0x7f)
			return false;
	}
	return true;
}

/** Only its owner may read a secret. */
static int open_secret(const char *path, struct failure *why)
{
	char shown[256];
	struct stat st;
	(void)slice_escape(slice_of(path), shown, sizeof(shown));
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "--upstream-proxy-auth: %s", shown);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "--upstream-proxy-auth: %s: is no file", shown);
	if ((st.st_mode & 077) != 0)
		return failure_set(why, -EACCES,
			"--upstream-proxy-auth: %s: others can read it: chmod 600", shown);
	return fd_take(&fd);
}

static int read_login(const char *path, char *ret_basic, struct failure *why)
{
	auto_fd fd = open_secret(path, why);
	if (fd < 0)
		return fd;
	struct buf text;
	buf_init(&text, UPSTREAM_PROXY_LOGIN_BYTES + 65536);
	int r = file_read_fd(fd, UPSTREAM_PROXY_LOGIN_BYTES + 2, &text);
	struct slice login = buf_slice(&text), rest;
	(void)slice_split(login, '\n', &login, &rest); /* false: no line end */
	if (slice_ends(login, SLICE("\r")))
		login.len--;
	if (r == -EFBIG || (r == 0 && !login_valid(login)))
		r = failure_set(why, -EINVAL,
			"--upstream-proxy-auth: the file's first line is not user:password, of at most %d bytes",
			UPSTREAM_PROXY_LOGIN_BYTES);
	else if (r < 0)
		(void)failure_errno(why, r, "--upstream-proxy-auth");
	else
		base64(login, ret_basic);
	if (text.data != NULL)
		explicit_bzero(text.data, buf_len(&text));
	buf_fini(&text);
	return r;
}

static int look_up(const struct place *place, struct upstream_proxy *ret, struct failure *why)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *all = NULL;
	int r = getaddrinfo(place->host, NULL, &hints, &all);
	if (r != 0)
		return failure_set(why, -EHOSTUNREACH, "--upstream-proxy: can't look up %s: %s",
			place->host, gai_strerror(r));
	for (const struct addrinfo *one = all;
		one != NULL && ret->count < UPSTREAM_PROXY_ADDRESSES_MAX; one = one->ai_next) {
		uint16_t port;
		if (address_from_sockaddr(one->ai_addr, &ret->addresses[ret->count], &port) == 0)
			ret->count++;
	}
	freeaddrinfo(all);
	return ret->count > 0 ? 0
			      : failure_set(why, -EHOSTUNREACH,
					"--upstream-proxy: %s has no address", place->host);
}

int upstream_proxy_check(const struct upstream_proxy_options *options, struct failure *why)
{
	struct place place = {0};
	char basic[UPSTREAM_PROXY_WORD_BYTES];
	if (options->url == NULL && (options->auth_file != NULL || options->by_name))
		return failure_set(why, -EINVAL,
			"--upstream-proxy-auth and --upstream-proxy-by-name need --upstream-proxy");
	int r = options->url != NULL ? parse(options->url, &place, why) : 0;
	if (r == 0 && options->auth_file != NULL)
		r = read_login(options->auth_file, basic, why);
	explicit_bzero(basic, sizeof(basic));
	return r;
}

int upstream_proxy_find(const struct upstream_proxy_options *options, struct upstream_proxy *ret,
	struct failure *why)
{
	struct place place = {0};
	struct upstream_proxy found = {.by_name = options->by_name};
	if (options->url == NULL) {
		*ret = (struct upstream_proxy){0};
		return 0;
	}
	int r = parse(options->url, &place, why);
	found.port = place.port;
	if (r == 0 && place.literal) {
		found.addresses[0] = place.address;
		found.count = 1;
	} else if (r == 0) {
		r = look_up(&place, &found, why);
	}
	if (r == 0 && options->auth_file != NULL)
		r = read_login(options->auth_file, found.basic, why);
	if (r == 0)
		*ret = found;
	upstream_proxy_wipe(&found);
	return r;
}

int upstream_proxy_write(const struct upstream_proxy *proxy)
{
	return file_memory("upstream-proxy", (struct slice){(const char *)proxy, sizeof(*proxy)});
}

int upstream_proxy_read(int fd, struct upstream_proxy *ret)
{
	struct upstream_proxy read;
	ssize_t n = pread(fd, &read, sizeof(read), 0);
	if (n < 0)
		return -errno;
	if (n != (ssize_t)sizeof(read) || read.count == 0 ||
		read.count > UPSTREAM_PROXY_ADDRESSES_MAX || read.port == 0 ||
		memchr(read.basic, '\0', sizeof(read.basic)) == NULL)
		return -EBADMSG;
	*ret = read;
	upstream_proxy_wipe(&read);
	return 0;
}

void upstream_proxy_wipe(struct upstream_proxy *proxy)
{
	explicit_bzero(proxy, sizeof(*proxy));
}
