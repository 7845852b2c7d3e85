/* See alabel.h. The only file that uses libidn2. Input: text of a policy. */
#include "policy/alabel.h"

#include <errno.h>
#include <idn2.h>
#include <stdlib.h>

enum script {
	SCRIPT_COMMON = 0, /* digits, hyphen, combining marks: go with every script */
	SCRIPT_LATIN = 1 << 0,
	SCRIPT_HAN = 1 << 1,
	SCRIPT_HIRAGANA = 1 << 2,
	SCRIPT_KATAKANA = 1 << 3,
	SCRIPT_BOPOMOFO = 1 << 4,
	SCRIPT_HANGUL = 1 << 5,
	SCRIPT_GREEK = 1 << 6,
	SCRIPT_CYRILLIC = 1 << 7,
	SCRIPT_ARMENIAN = 1 << 8,
	SCRIPT_GEORGIAN = 1 << 9,
	SCRIPT_HEBREW = 1 << 10,
	SCRIPT_ARABIC = 1 << 11,
	SCRIPT_CHEROKEE = 1 << 12,
	SCRIPT_THAI = 1 << 13,
	SCRIPT_LAO = 1 << 14,
	SCRIPT_INDIC = 1 << 15, /* one of nine: each has its block, see script_of() */
	SCRIPT_OTHER = 1 << 16,
};

struct script_range {
	uint32_t first;
	uint32_t last;
	enum script script;
};

/* The blocks of Unicode's Scripts.txt that registries take names from, in order. */
static const struct script_range ranges[] = {
	{0x0000, 0x0040, SCRIPT_COMMON},
	{0x0041, 0x005a, SCRIPT_LATIN},
	{0x005b, 0x0060, SCRIPT_COMMON},
	{0x0061, 0x007a, SCRIPT_LATIN},
	{0x007b, 0x00bf, SCRIPT_COMMON},
	{0x00c0, 0x02af, SCRIPT_LATIN},
	{0x02b0, 0x036f, SCRIPT_COMMON},
	{0x0370, 0x03ff, SCRIPT_GREEK},
	{0x0400, 0x052f, SCRIPT_CYRILLIC},
	{0x0530, 0x058f, SCRIPT_ARMENIAN},
	{0x0590, 0x05ff, SCRIPT_HEBREW},
	{0x0600, 0x06ff, SCRIPT_ARABIC},
	{0x0750, 0x077f, SCRIPT_ARABIC},
	{0x08a0, 0x08ff, SCRIPT_ARABIC},
	{0x0900, 0x0dff, SCRIPT_INDIC},
	{0x0e00, 0x0e7f, SCRIPT_THAI},
	{0x0e80, 0x0eff, SCRIPT_LAO},
	{0x10a0, 0x10ff, SCRIPT_GEORGIAN},
	{0x1100, 0x11ff, SCRIPT_HANGUL},
	{0x13a0, 0x13ff, SCRIPT_CHEROKEE},
	{0x1e00, 0x1eff, SCRIPT_LATIN},
	{0x1f00, 0x1fff, SCRIPT_GREEK},
	{0x2c60, 0x2c7f, SCRIPT_LATIN},
	{0x2d00, 0x2d2f, SCRIPT_GEORGIAN},
	{0x2de0, 0x2dff, SCRIPT_CYRILLIC},
	{0x3005, 0x3007, SCRIPT_HAN},
	{0x3040, 0x309f, SCRIPT_HIRAGANA},
	{0x30a0, 0x30fa, SCRIPT_KATAKANA},
	{0x30fb, 0x30fc, SCRIPT_COMMON},
	{0x30fd, 0x30ff, SCRIPT_KATAKANA},
	{0x3100, 0x312f, SCRIPT_BOPOMOFO},
	{0x3130, 0x318f, SCRIPT_HANGUL},
	{0x31a0, 0x31bf, SCRIPT_BOPOMOFO},
	{0x3400, 0x4dbf, SCRIPT_HAN},
	{0x4e00, 0x9fff, SCRIPT_HAN},
	{0xa640, 0xa69f, SCRIPT_CYRILLIC},
	{0xa720, 0xa7ff, SCRIPT_LATIN},
	{0xab70, 0xabbf, SCRIPT_CHEROKEE},
	{0xac00, 0xd7af, SCRIPT_HANGUL},
	{0xf900, 0xfaff, SCRIPT_HAN},
	{0x20000, 0x3134f, SCRIPT_HAN},
};

static const struct script_range *range_of(uint32_t c)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (c >= ranges[i].first && c <= ranges[i].last)
			return &ranges[i];
	}
	return NULL;
}

/** Scripts of one label; @ret_block: the block of an Indic or other letter, UINT32_MAX when two differ. */
static unsigned scripts_of(const uint32_t *label, size_t len, uint32_t *ret_block)
{
	unsigned scripts = SCRIPT_COMMON;
	uint32_t block = 0;
	for (size_t i = 0; i < len; i++) {
		const struct script_range *range = range_of(label[i]);
		enum script script = range == NULL ? SCRIPT_OTHER : range->script;
		uint32_t own = label[i] >> 7;
		scripts |= script;
		if (script != SCRIPT_INDIC)
			continue;
		block = block == 0 || block == own ? own : UINT32_MAX;
	}
	*ret_block = block;
	return scripts;
}

static bool label_mixes(const uint32_t *label, size_t len)
{
	static const unsigned together[] = {
		SCRIPT_LATIN | SCRIPT_HAN | SCRIPT_HIRAGANA | SCRIPT_KATAKANA,
		SCRIPT_LATIN | SCRIPT_HAN | SCRIPT_BOPOMOFO,
		SCRIPT_LATIN | SCRIPT_HAN | SCRIPT_HANGUL,
	};
	uint32_t block;
	unsigned scripts = scripts_of(label, len, &block);
	if (block == UINT32_MAX)
		return true;
	if ((scripts & (scripts - 1)) == 0) /* one, or none */
		return false;
	for (size_t i = 0; i < sizeof(together) / sizeof(together[0]); i++) {
		if ((scripts & ~together[i]) == 0)
			return false;
	}
	return true;
}

bool alabel_mixes_scripts(const char *name)
{
	uint32_t *text = NULL;
	bool mixes = false;
	if (strstr(name, "xn--") == NULL || idn2_to_unicode_8z4z(name, &text, 0) != IDN2_OK)
		return false;
	for (size_t start = 0, i = 0;; i++) {
		if (text[i] != 0 && text[i] != '.')
			continue;
		mixes = mixes || label_mixes(text + start, i - start);
		start = i + 1;
		if (text[i] == 0)
			break;
	}
	idn2_free(text);
	return mixes;
}

int alabel_from_text(struct slice text, char ret_name[static HOST_NAME_BYTES])
{
	char *given = slice_dup(text);
	uint8_t *found = NULL;
	struct host host;
	if (given == NULL)
		return -ENOMEM;
	int r = idn2_lookup_u8((const uint8_t *)given, &found,
			IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) == IDN2_OK
		? 0
		: -EINVAL;
	if (r == 0)
		r = host_parse(slice_of((const char *)found), &host);
	if (r == 0)
		memcpy(ret_name, host.name, HOST_NAME_BYTES);
	idn2_free(found);
	free(given);
	return r;
}
