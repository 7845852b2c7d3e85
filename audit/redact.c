/* See redact.h. */
#include "audit/redact.h"

#include "common/cleanup.h"

#define SECRET_PREFIX_TAIL   12 /* what must follow a known prefix for it to be a token */
#define SECRET_WORD_MIN      15 /* no token with a known prefix is shorter */
#define KNOWN_TOKEN_RUN      10 /* letters and digits in a row, so that words with dashes are none */
#define RANDOM_RUN_DISTINCT  10
#define RANDOM_WORD_DISTINCT 16
#define RANDOM_WORD_RUN      16

/** How the tokens of well-known services begin. */
static const char *const secret_prefixes[] = {"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
	"glpat-", "glrt-", "gldt-", "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_",
	"pk_live_", "whsec_", "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-", "AKIA", "ASIA",
	"AIza", "ya29.", "eyJ", "npm_", "pypi-", "hf_", "dop_v1_", "doo_v1_", "SG.", "shpat_",
	"shpss_", "glsa_", "dapi", "hvs.", "hvb.", "sq0atp-", "sq0csp-", "lin_api_", "r8_",
	"tskey-", "rubygems_", "PMAK-", "EAACEdEose0cBA", "AGE-SECRET-KEY-"};

/** Names of options, variables and header fields whose value is one. */
static const char *const secret_names[] = {"password", "passwd", "passphrase", "token", "secret",
	"api-key", "api_key", "apikey", "access-key", "access_key", "accesskey", "private-key",
	"private_key", "credential", "authorization", "cookie", "auth-key", "auth_key"};

/** What a word is made of. */
struct word_shape {
	unsigned upper, lower, digit, distinct;
	size_t run; /* longest run of letters and digits */
	size_t run_digits;
	size_t run_letters;
	unsigned run_distinct;
	bool other; /* a character that no base64 or URL-safe token has */
};

static bool is_letter(char c)
{
	return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static unsigned count_distinct(struct slice text)
{
	bool seen[256] = {false};
	unsigned distinct = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		distinct += !seen[c];
		seen[c] = true;
	}
	return distinct;
}

/** Take the run of letters and digits at the front for the longest one if it is. */
static size_t word_run(struct slice word, struct word_shape *shape)
{
	size_t len = 0, digits = 0;
	while (len < word.len && (is_letter(word.ptr[len]) || is_digit(word.ptr[len])))
		digits += is_digit(word.ptr[len++]);
	if (len > shape->run) {
		shape->run = len;
		shape->run_digits = digits;
		shape->run_letters = len - digits;
		shape->run_distinct = count_distinct(slice_part(word, 0, len));
	}
	return len;
}

static struct word_shape word_shape(struct slice word)
{
	struct word_shape shape = {.distinct = count_distinct(word)};
	for (size_t i = 0; i < word.len; i++) {
		char c = word.ptr[i];
		shape.digit += is_digit(c);
		shape.lower += c >= 'a' && c <= 'z';
		shape.upper += c >= 'A' && c <= 'Z';
		shape.other |= !is_letter(c) && !is_digit(c) && memchr("-_+=", c, 4) == NULL;
	}
	for (size_t i = 0; i < word.len; i++)
		i += word_run(slice_part(word, i, word.len), &shape);
	return shape;
}

static bool is_known_token(struct slice word)
{
	if (word.len < SECRET_WORD_MIN)
		return false; /* nearly every word */
	for (size_t i = 0; i < array_size(secret_prefixes); i++) {
		if (secret_prefixes[i][0] != word.ptr[0])
			continue;
		struct slice prefix = slice_of(secret_prefixes[i]);
		if (slice_starts(word, prefix) && word.len >= prefix.len + SECRET_PREFIX_TAIL) {
			struct word_shape tail = word_shape(slice_part(word, prefix.len, word.len));
			if (tail.digit > 0 && tail.run >= KNOWN_TOKEN_RUN)
				return true;
		}
	}
	return false;
}

bool redact_is_secret(struct slice word)
{
	if (is_known_token(word))
		return true;
	if (word.len < REDACT_SECRET_CHARACTERS)
		return false;
	struct word_shape shape = word_shape(word);
	if (shape.run >= REDACT_SECRET_CHARACTERS && shape.run_digits >= 2 &&
		shape.run_letters >= 2 && shape.run_distinct >= RANDOM_RUN_DISTINCT)
		return true;
	return !shape.other && shape.run >= RANDOM_WORD_RUN &&
		shape.distinct >= RANDOM_WORD_DISTINCT && shape.digit >= 2 && shape.upper >= 2 &&
		shape.lower >= 2;
}

static void redact_mark(size_t len, struct buf *to)
{
	(void)buf_printf(to, "[redacted:%zu]", len); /* errors are sticky in the buf */
}

static const bool word_characters[256] = {['a' ... 'z'] = true,
	['A' ... 'Z'] = true,
	['0' ... '9'] = true,
	[0x80 ... 0xff] = true,
	['-'] = true,
	['_'] = true,
	['+'] = true,
	['.'] = true,
	['%'] = true,
	['~'] = true};

static bool is_word_character(char c)
{
	return word_characters[(unsigned char)c];
}

/** Words one by one; what is between them stays. */
static unsigned redact_words(struct slice text, struct buf *to)
{
	unsigned count = 0;
	size_t plain = 0; /* start of what is not copied yet */
	for (size_t i = 0; i < text.len;) {
		size_t start = i;
		while (i < text.len && is_word_character(text.ptr[i]))
			i++;
		if (i - start >= SECRET_PREFIX_TAIL &&
			redact_is_secret(slice_part(text, start, i))) {
			(void)buf_append(to, slice_part(text, plain, start));
			redact_mark(i - start, to);
			plain = i;
			count++;
		}
		if (i == start)
			i++;
	}
	(void)buf_append(to, slice_part(text, plain, text.len));
	return count;
}

static size_t find_any(struct slice text, size_t from, const char *bytes)
{
	while (from < text.len && strchr(bytes, text.ptr[from]) == NULL)
		from++;
	return from;
}

/** Where "://" begins, or the length. */
static size_t find_scheme_end(struct slice text)
{
	for (size_t at = 0; at < text.len; at++) {
		const char *colon = memchr(text.ptr + at, ':', text.len - at);
		if (colon == NULL)
			break;
		at = (size_t)(colon - text.ptr);
		if (slice_equal(slice_part(text, at, at + 3), SLICE("://")))
			return at;
	}
	return text.len;
}

bool redact_is_needless(struct slice text)
{
	return text.len < SECRET_WORD_MIN && slice_find(text, ':') < 0 &&
		slice_find(text, '?') < 0 && slice_find(text, '#') < 0 && slice_find(text, '@') < 0;
}

unsigned redact_text(struct slice text, struct buf *to)
{
	unsigned count = 0;
	for (;;) {
		size_t scheme = find_scheme_end(text);
		if (scheme == text.len)
			return count + redact_words(text, to);
		size_t start = scheme + 3;
		size_t authority_end = find_any(text, start, "/?# \t\r\n\"'<>");
		size_t end = find_any(text, authority_end, "?# \t\r\n\"'<>");
		count += redact_words(slice_part(text, 0, start), to);
		count += redact_host(slice_part(text, start, authority_end), to);
		count += redact_words(slice_part(text, authority_end, end), to);
		if (end < text.len && text.ptr[end] == '?') {
			size_t query_end = find_any(text, end, " \t\r\n\"'<>");
			(void)buf_append(to, SLICE("?"));
			redact_mark(query_end - end - 1, to);
			end = query_end;
			count++;
		}
		text = slice_part(text, end, text.len);
	}
}

unsigned redact_host(struct slice host, struct buf *to)
{
	size_t at = host.len;
	while (at > 0 && host.ptr[at - 1] != '@')
		at--;
	struct slice rest = slice_part(host, at, host.len);
	/* A label that looks like a secret is data on its way out by name: it stays readable, it is evidence. */
	(void)buf_append(to, rest);
	return at > 0;
}

unsigned redact_path(struct slice path, struct buf *to)
{
	size_t end = find_any(path, 0, "?#");
	return redact_text(slice_part(path, 0, end), to) + (end < path.len);
}

struct slice redact_raw_target(struct slice target)
{
	size_t end = find_any(target, 0, "?#");
	size_t start = 0; /* behind the last '@' */
	for (size_t i = 0; i < target.len; i++) {
		if (target.ptr[i] == '@')
			start = i + 1;
		else if (slice_equal(slice_part(target, i, i + 3), SLICE("%40")))
			start = i + 3;
	}
	return slice_part(target, start, end);
}

static bool has_secret_name(struct slice text)
{
	for (size_t i = 0; i < array_size(secret_names); i++) {
		struct slice name = slice_of(secret_names[i]);
		for (size_t at = 0; at + name.len <= text.len; at++) {
			if (slice_equal_nocase(slice_part(text, at, at + name.len), name))
				return true;
		}
	}
	return false;
}

/** One argument; *ret_next: the following one is the value of a secret option. */
static unsigned redact_argument(struct slice argument, struct buf *to, bool *ret_next)
{
	*ret_next = false;
	size_t mark = find_any(argument, 0, "=:");
	struct slice name = slice_part(argument, 0, mark);
	if (!has_secret_name(name))
		return redact_text(argument, to);
	if (mark == argument.len) {
		*ret_next = argument.len > 0 && argument.ptr[0] == '-';
		return redact_text(argument, to);
	}
	(void)buf_append(to, slice_part(argument, 0, mark + 1));
	redact_mark(argument.len - mark - 1, to);
	return 1;
}

unsigned redact_arguments(const char *const *argv, struct buf *to)
{
	unsigned count = 0;
	bool is_value = false;
	for (size_t i = 0; argv[i] != NULL; i++) {
		struct slice argument = slice_of(argv[i]);
		if (i > 0)
			(void)buf_append(to, SLICE(" "));
		if (is_value) {
			redact_mark(argument.len, to);
			is_value = false;
			count++;
		} else {
			count += redact_argument(argument, to, &is_value);
		}
	}
	return count;
}
