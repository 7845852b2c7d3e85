/*
 * See template.h. Style and script stand in the page as they are in their files; the page's policy names their hashes, so that
 * nothing else in it is ever run or obeyed, whatever got into it.
 */
#include "report/template.h"

#include "common/digest.h"

#define EMBED(name, file)                                                                          \
	__asm__(".pushsection .rodata\n"                                                           \
		".globl " #name "\n.hidden " #name "\n" #name ":\n.incbin \"" file "\"\n"          \
		".globl " #name "_end\n.hidden " #name "_end\n" #name "_end:\n.byte 0\n"           \
		".popsection\n");                                                                  \
	extern const char name[] __attribute__((visibility("hidden")));                            \
	extern const char name##_end[] __attribute__((visibility("hidden")))

EMBED(template_html, "report/page.html");
EMBED(template_css, "report/page.css");
EMBED(template_js, "report/page.js");

#define BASE64_BYTES (4 * ((DIGEST_BYTES + 2) / 3))

static struct slice between(const char *begin, const char *end)
{
	return (struct slice){begin, (size_t)(end - begin)};
}

/** RFC 4648 of a digest. */
static void base64(const unsigned char from[static DIGEST_BYTES], char to[static BASE64_BYTES + 1])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < BASE64_BYTES; i++) {
		size_t byte = i * 6 / 8, shift = i * 6 % 8;
		unsigned both = byte < DIGEST_BYTES ? (unsigned)from[byte] << 8 : 0;
		if (byte + 1 < DIGEST_BYTES)
			both |= from[byte + 1];
		to[i] = byte < DIGEST_BYTES ? digits[both >> (10 - shift) & 63] : '=';
	}
	to[BASE64_BYTES] = '\0';
}

/** A source of the page's policy: 'sha256-...'. */
static void append_hash(struct slice text, struct buf *to)
{
	char hex[DIGEST_TEXT_BYTES], shown[BASE64_BYTES + 1];
	unsigned char raw[DIGEST_BYTES];
	if (digest_of(text, hex) < 0) {
		to->failed = true;
		return;
	}
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		uint64_t byte = 0;
		(void)slice_hex((struct slice){hex + 2 * i, 2}, 255, &byte); /* it is hex */
		raw[i] = (unsigned char)byte;
	}
	base64(raw, shown);
	(void)buf_printf(to, "'sha256-%s'", shown); /* errors are sticky in the buf */
}

static void fill_place(template_fill *fill, void *arg, struct slice name, struct buf *to)
{
	struct slice style = between(template_css, template_css_end);
	struct slice script = between(template_js, template_js_end);
	if (slice_equal(name, SLICE("style"))) {
		(void)buf_append(to, style); /* errors are sticky in the buf */
	} else if (slice_equal(name, SLICE("script"))) {
		(void)buf_append(to, script);
	} else if (slice_equal(name, SLICE("policy"))) {
		(void)buf_append_text(to, "default-src 'none'; style-src ");
		append_hash(style, to);
		(void)buf_append_text(to, "; script-src ");
		append_hash(script, to);
		(void)buf_append_text(to, "; base-uri 'none'; form-action 'none'");
	} else {
		fill(arg, name, to);
	}
}

void template_write(template_fill *fill, void *arg, struct buf *to)
{
	struct slice rest = between(template_html, template_html_end);
	struct slice before, name;
	while (slice_split(rest, '{', &before, &rest)) {
		bool place = rest.len > 0 && rest.ptr[0] == '{' && slice_find(rest, '}') >= 0;
		(void)buf_append(to, before); /* errors are sticky in the buf */
		if (!place) {
			(void)buf_append(to, SLICE("{"));
			continue;
		}
		(void)slice_split(
			slice_part(rest, 1, rest.len), '}', &name, &rest); /* it is there */
		rest = slice_part(rest, 1, rest.len);                      /* the second } */
		fill_place(fill, arg, name, to);
	}
	(void)buf_append(to, rest);
}
