/* See prune.h. What ended when is the index's word; files that it does not have are left alone. */
#include "audit/prune.h"

#include "audit/index.h"
#include "audit/reader.h"
#include "audit/scan.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define NAME_BYTES 256

/** What the index says of a file, by its last line about it. */
struct ended {
	char *segment;
	struct chain at;
	uint64_t time_ms, number;
	bool closed, pruned;
};

struct ended_list {
	struct ended *items;
	size_t count, capacity;
};

static void list_fini(struct ended_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].segment);
	free(list->items);
	*list = (struct ended_list){0};
}

static struct ended *list_add(struct ended_list *list)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
		struct ended *more = reallocarray(list->items, capacity, sizeof(*list->items));
		if (more == NULL)
			return NULL;
		list->items = more;
		list->capacity = capacity;
	}
	list->items[list->count] = (struct ended){0};
	return &list->items[list->count];
}

static int index_visit(void *arg, const struct audit_line *line)
{
	struct ended_list *list = arg;
	struct ended *e = list_add(list);
	struct slice segment = audit_line_text(line, "segment");
	struct slice kind = audit_line_text(line, "kind");
	if (e == NULL)
		return -ENOMEM;
	bool fits = segment.len > 0 && segment.len < NAME_BYTES && slice_find(segment, '/') < 0 &&
		slice_find(segment, '\0') < 0 && slice_ends(segment, SLICE(".jsonl")) &&
		slice_copy(audit_line_text(line, "of"), e->at.name, sizeof(e->at.name)) == 0 &&
		slice_copy(audit_line_text(line, "head"), e->at.head, sizeof(e->at.head)) == 0;
	if (!fits)
		return 0; /* not ours: verify says so */
	e->segment = slice_dup(segment);
	e->at.sequence = audit_line_number_at(line, "last") + 1;
	e->time_ms = audit_line_number_at(line, "time");
	e->number = audit_line_number_at(line, "sequence");
	e->closed = slice_equal(kind, SLICE("closed"));
	e->pruned = slice_equal(kind, SLICE("pruned")); /* it may still be there */
	if (e->segment == NULL)
		return -ENOMEM;
	list->count++;
	return 0;
}

static int compare_ended(const void *a, const void *b)
{
	const struct ended *x = a, *y = b;
	int order = strcmp(x->segment, y->segment);
	return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int read_index(int folder_fd, struct ended_list *list)
{
	auto_fd fd = openat(folder_fd, AUDIT_INDEX_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	struct scan scan = {.fd = fd};
	struct audit_read read = {.visit = index_visit, .arg = list};
	struct slice line;
	int r = 0, got = 0;
	while (r == 0 && (got = scan_next(&scan, &line)) > 0)
		r = audit_read_line(&read, line);
	scan_fini(&scan);
	if (list->count > 0)
		qsort(list->items, list->count, sizeof(*list->items), compare_ended);
	return got < 0 ? got : r;
}

static bool is_being_written(int folder_fd, const char *segment)
{
	char link[NAME_BYTES + 8];
	(void)snprintf(link, sizeof(link), "open/%.*s",
		(int)(strlen(segment) - (sizeof(".jsonl") - 1)), segment);
	return faccessat(folder_fd, link, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int prune_file(
	int folder_fd, const struct ended *e, struct prune_result *result, struct failure *why)
{
	const struct audit_index_entry entry = {
		.kind = AUDIT_INDEX_PRUNED, .segment = e->segment, .at = &e->at};
	struct stat st;
	if (fstatat(folder_fd, e->segment, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : failure_errno(why, -errno, "%s", e->segment);
	int r = e->closed ? audit_index_append(folder_fd, &entry, why) : 0;
	if (r < 0)
		return r;
	if (unlinkat(folder_fd, e->segment, 0) < 0)
		return failure_errno(why, -errno, "can't delete %s", e->segment);
	result->files++;
	result->bytes += (uint64_t)st.st_size;
	return 0;
}

int audit_prune(int folder_fd, uint64_t before_ms, struct prune_result *ret, struct failure *why)
{
	struct ended_list list = {0};
	int r = read_index(folder_fd, &list);
	if (r < 0)
		(void)failure_errno(why, r, AUDIT_INDEX_NAME);
	for (size_t i = 0; i < list.count && r == 0; i++) {
		const struct ended *e = &list.items[i];
		bool last =
			i + 1 == list.count || strcmp(e->segment, list.items[i + 1].segment) != 0;
		bool over = e->closed || e->pruned;
		if (last && over && e->time_ms < before_ms &&
			!is_being_written(folder_fd, e->segment))
			r = prune_file(folder_fd, e, ret, why);
	}
	list_fini(&list);
	return r;
}
