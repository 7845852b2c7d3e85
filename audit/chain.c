/* See chain.h. */
#include "audit/chain.h"

#include <errno.h>

#define HEX_BYTES      ((size_t)DIGEST_TEXT_BYTES - 1)
#define CHAIN_FIELD    ",\"chain\":\""
#define PREV_FIELD     "\",\"prev\":\""
#define HASH_FIELD     "\",\"hash\":\""
#define SEQUENCE_FIELD "\"sequence\":"

static bool is_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = ascii_lower(name.ptr[i]);
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
			c != '-')
			return false;
	}
	return name.len > 0 && name.len < CHAIN_NAME_BYTES;
}

int chain_start(struct chain *c, const char *name)
{
	if (!is_name(slice_of(name)))
		return -EINVAL;
	*c = (struct chain){.sequence = 1};
	(void)slice_copy(slice_of(name), c->name, sizeof(c->name)); /* it fits */
	memset(c->head, '0', HEX_BYTES);
	return 0;
}

int chain_seal(const struct chain *c, const char *closing, struct buf *line, size_t from,
	char ret_hash[static DIGEST_TEXT_BYTES])
{
	(void)buf_append_text(line, CHAIN_FIELD); /* errors are sticky in the buf */
	(void)buf_append_text(line, c->name);
	(void)buf_append_text(line, PREV_FIELD);
	(void)buf_append(line, (struct slice){c->head, HEX_BYTES});
	(void)buf_append_text(line, "\"");
	if (line->failed)
		return -ENOBUFS;
	int r = digest_of(slice_part(buf_slice(line), from, SIZE_MAX), ret_hash);
	if (r < 0)
		return r;
	(void)buf_append_text(line, &HASH_FIELD[1]); /* its quote is there */
	(void)buf_append(line, (struct slice){ret_hash, HEX_BYTES});
	(void)buf_append_text(line, "\"");
	(void)buf_append_text(line, closing);
	return line->failed ? -ENOBUFS : 0;
}

/** Take what must be there off the end. */
static bool take_end(struct slice *line, struct slice end)
{
	if (!slice_ends(*line, end))
		return false;
	line->len -= end.len;
	return true;
}

static bool take_hex(struct slice *line, struct slice *ret)
{
	if (line->len < HEX_BYTES)
		return false;
	*ret = slice_part(*line, line->len - HEX_BYTES, line->len);
	line->len -= HEX_BYTES;
	for (size_t i = 0; i < ret->len; i++) {
		char c = ret->ptr[i];
		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
			return false;
	}
	return true;
}

bool chain_read(struct slice line, const char *closing, struct chain_link *ret)
{
	struct chain_link link = {0};
	if (!take_end(&line, slice_of(closing)) || !take_end(&line, SLICE("\"")) ||
		!take_hex(&line, &link.hash) || !take_end(&line, SLICE(HASH_FIELD)))
		return false;
	line.len++; /* the quote that ends prev */
	link.body = line;
	if (!take_end(&line, SLICE("\"")) || !take_hex(&line, &link.prev) ||
		!take_end(&line, SLICE(PREV_FIELD)))
		return false;
	size_t at = line.len;
	while (at > 0 && line.len - at < CHAIN_NAME_BYTES && line.ptr[at - 1] != '"')
		at--;
	link.chain = slice_part(line, at, line.len);
	line.len = at;
	if (!is_name(link.chain) || !take_end(&line, SLICE(CHAIN_FIELD)))
		return false;
	link.bare = line;
	*ret = link;
	return true;
}

bool chain_link_holds(const struct chain_link *link)
{
	char hash[DIGEST_TEXT_BYTES];
	return digest_of(link->body, hash) == 0 &&
		slice_equal(link->hash, (struct slice){hash, HEX_BYTES});
}

uint64_t chain_sequence(struct slice line)
{
	struct slice field = SLICE(SEQUENCE_FIELD);
	const char *at = line.len == 0 ? NULL : memmem(line.ptr, line.len, field.ptr, field.len);
	if (at == NULL)
		return 0;
	struct slice rest = slice_part(line, (size_t)(at - line.ptr) + field.len, line.len);
	size_t end = 0;
	uint64_t value;
	while (end < rest.len && rest.ptr[end] >= '0' && rest.ptr[end] <= '9')
		end++;
	return slice_decimal(slice_part(rest, 0, end), UINT64_MAX, false, &value) == 0 ? value : 0;
}
