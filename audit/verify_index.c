/* See verify.h: the index of the folder, which is a chain like those that it tells of. */
#include "audit/verify_state.h"

#include "audit/index.h"
#include "audit/reader.h"
#include "audit/scan.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <sys/stat.h>

static int entry_compare(const void *a, const void *b)
{
	const struct verify_entry *x = a, *y = b;
	int order = strcmp(x->segment, y->segment);
	return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/** What an index line says. */
static int entry_visit(void *arg, const struct audit_line *line)
{
	struct verify_entry *e = arg;
	struct slice segment = audit_line_text(line, "segment");
	struct slice head = audit_line_text(line, "head");
	uint64_t last = audit_line_number_at(line, "last");
	if (segment.ptr == NULL || segment.len >= VERIFY_NAME_BYTES || last == 0 ||
		slice_find(segment, '\0') >= 0 || head.len != DIGEST_TEXT_BYTES - 1)
		return -EBADMSG;
	*e = (struct verify_entry){.segment = slice_dup(segment),
		.pruned = slice_equal(audit_line_text(line, "kind"), SLICE("pruned")),
		.last = last};
	(void)slice_copy(head, e->head, sizeof(e->head)); /* it fits */
	return e->segment == NULL ? -ENOMEM : 0;
}

/** @return 0, -EBADMSG, -ENOMEM. */
static int entry_read(struct slice line, struct verify_entry *ret)
{
	struct audit_read read = {.visit = entry_visit, .arg = ret};
	int r = audit_read_line(&read, line);
	return r < 0 ? r : read.lines == 1 ? 0 : -EBADMSG;
}

static int index_add(struct verify_index *index, const struct verify_entry *e)
{
	if (index->count == index->capacity) {
		size_t capacity = index->capacity == 0 ? 64 : 2 * index->capacity;
		struct verify_entry *more =
			reallocarray(index->entries, capacity, sizeof(*index->entries));
		if (more == NULL)
			return -ENOMEM;
		index->entries = more;
		index->capacity = capacity;
	}
	index->entries[index->count++] = *e;
	return 0;
}

/** One line; @chain goes on behind it. @return 0 or -ENOMEM. */
static int index_line(struct verify *v, struct slice line, uint64_t at, struct chain *chain)
{
	struct chain_link link;
	struct verify_entry e;
	if (!chain_read(line, CHAIN_INDEX_CLOSING, &link) ||
		!slice_equal(link.chain, SLICE(AUDIT_INDEX_CHAIN))) {
		verify_find(v, VERIFY_NO_LINE, AUDIT_INDEX_NAME, at, "no line of an index");
		return 0;
	}
	uint64_t number = chain_sequence(line);
	if (!chain_link_holds(&link))
		verify_find(v, VERIFY_CHANGED, AUDIT_INDEX_NAME, at,
			"its hash is not that of its bytes");
	if (number != chain->sequence || !slice_equal(link.prev, slice_of(chain->head)))
		verify_find(v, VERIFY_ORDER, AUDIT_INDEX_NAME, at,
			"entry %llu stands where entry %llu belongs", (unsigned long long)number,
			(unsigned long long)chain->sequence);
	chain->sequence = number + 1;
	(void)slice_copy(link.hash, chain->head, sizeof(chain->head)); /* it fits */
	int r = entry_read(line, &e);
	if (r == -EBADMSG)
		verify_find(v, VERIFY_NO_LINE, AUDIT_INDEX_NAME, at, "no line of an index");
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	e.number = number;
	memcpy(e.hash, chain->head, sizeof(e.hash));
	r = index_add(&v->index, &e);
	if (r < 0)
		free(e.segment);
	return r;
}

static int index_sort(struct verify_index *index)
{
	if (index->count == 0)
		return 0;
	index->by_number = malloc(index->count * sizeof(*index->entries));
	if (index->by_number == NULL)
		return -ENOMEM;
	memcpy(index->by_number, index->entries, index->count * sizeof(*index->entries));
	qsort(index->entries, index->count, sizeof(*index->entries), entry_compare);
	return 0;
}

/** Whether somebody is about to write, or has since: then what looks torn need not be. */
static bool index_is_written(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat st;
	char last;
	if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
		return true;
	return fstat(fd, &st) == 0 && st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) == 1 &&
		last == '\n';
}

int verify_index_read(struct verify *v, struct failure *why)
{
	auto_fd fd = openat(v->options->folder_fd, AUDIT_INDEX_NAME,
		O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return failure_errno(why, -errno, AUDIT_INDEX_NAME);
	struct scan scan = {.fd = fd};
	struct slice line;
	struct chain chain;
	v->index.there = true;
	int r = chain_start(&chain, AUDIT_INDEX_CHAIN), got = 0;
	while (r == 0 && (got = scan_next(&scan, &line)) > 0) {
		if (scan.whole)
			r = index_line(v, line, scan.number, &chain);
		else if (!index_is_written(fd))
			verify_find(v, VERIFY_TORN, AUDIT_INDEX_NAME, scan.number,
				"bytes behind the last line");
	}
	r = got < 0 ? got : r;
	scan_fini(&scan);
	if (r == 0)
		r = index_sort(&v->index);
	return r < 0 ? failure_errno(why, r, AUDIT_INDEX_NAME) : 0;
}

const struct verify_entry *verify_index_of(
	const struct verify_index *index, const char *segment, size_t *ret_count)
{
	size_t low = 0, high = index->count, count = 0;
	while (low < high) { /* the first that is not before it */
		size_t middle = low + (high - low) / 2;
		if (strcmp(index->entries[middle].segment, segment) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (low + count < index->count &&
		strcmp(index->entries[low + count].segment, segment) == 0)
		count++;
	*ret_count = count;
	return count == 0 ? NULL : &index->entries[low];
}

void verify_index_fini(struct verify_index *index)
{
	for (size_t i = 0; i < index->count; i++)
		free(index->entries[i].segment);
	free(index->entries);
	free(index->by_number);
	*index = (struct verify_index){0};
}
