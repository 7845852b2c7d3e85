/* See violation.h. */
#include "sandbox-launcher/violation.h"

#include "common/cleanup.h"
#include "common/reason.h"

#include <stdio.h>

void violation_fini(struct violation *v)
{
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++)
		free(v->texts[i]);
	free(v->executable);
	*v = (struct violation){0};
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool violation_same(const struct violation *a, const struct violation *b)
{
	bool same = a->row == b->row && text_same(a->executable, b->executable);
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX && same; i++)
		same = text_same(a->texts[i], b->texts[i]);
	return same;
}

void violations_add(struct violations *list, struct violation *v)
{
	size_t i = 0;
	list->total++;
	while (i < list->count && !violation_same(&list->items[i], v))
		i++;
	if (i == list->count && list->items == NULL)
		list->items = calloc(VIOLATIONS_MAX, sizeof(*list->items));
	if (i == VIOLATIONS_MAX || list->items == NULL) {
		list->left_out++;
	} else if (i < list->count) {
		list->items[i].count++;
	} else {
		list->items[list->count] = *v;
		list->items[list->count++].count = 1;
		*v = (struct violation){0};
	}
	violation_fini(v);
}

void violations_fini(struct violations *list)
{
	for (size_t i = 0; i < list->count; i++)
		violation_fini(&list->items[i]);
	free(list->items);
	*list = (struct violations){0};
}

enum violation_argument violation_argument(
	const struct filter_row *row, size_t index, struct slice *ret_name)
{
	struct slice rest = slice_of(row->arguments == NULL ? "" : row->arguments);
	struct slice word = rest;
	for (size_t i = 0; i <= index; i++) {
		if (rest.len == 0)
			return VIOLATION_NONE;
		if (!slice_split(rest, ' ', &word, &rest)) {
			word = rest;
			rest.len = 0;
		}
	}
	bool marked = word.ptr[0] == '*' || word.ptr[0] == '@' || word.ptr[0] == '&';
	*ret_name = slice_part(word, marked, word.len);
	if (!marked)
		return VIOLATION_NUMBER;
	return word.ptr[0] == '*'    ? VIOLATION_TEXT
		: word.ptr[0] == '@' ? VIOLATION_PATH
				     : VIOLATION_POINTER;
}

const char *violation_path(const struct violation *v)
{
	struct slice name;
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++)
		if (violation_argument(v->row, i, &name) == VIOLATION_PATH)
			return v->texts[i];
	return NULL;
}

/* What the kernel reads of an int; other numbers are lengths and identifiers, for which 32 bits say enough. */
static uint32_t number_of(const struct violation *v, size_t i)
{
	return (uint32_t)v->arguments[i];
}

static bool is_shown(const struct violation *v, size_t i, struct slice *ret_name)
{
	enum violation_argument kind = violation_argument(v->row, i, ret_name);
	return kind == VIOLATION_NUMBER ||
		((kind == VIOLATION_TEXT || kind == VIOLATION_PATH) && v->texts[i] != NULL);
}

const char *violation_call(const struct violation *v, char *to, size_t capacity)
{
	char shown[VIOLATION_TEXT_BYTES];
	struct buf text = {.limit = 8 * VIOLATION_CALL_BYTES};
	struct slice name;
	const char *between = "";
	(void)buf_printf(&text, "%s(", v->row->name);
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++) {
		if (!is_shown(v, i, &name))
			continue;
		(void)buf_printf(&text, "%s%.*s=", between, (int)name.len, name.ptr);
		if (v->texts[i] != NULL)
			(void)buf_printf(&text, "\"%s\"",
				slice_escape(slice_of(v->texts[i]), shown, sizeof(shown)));
		else
			(void)buf_printf(
				&text, number_of(v, i) < 256 ? "%u" : "%#x", number_of(v, i));
		between = ", ";
	}
	(void)buf_append(&text, SLICE(")")); /* errors are sticky: then it is cut */
	(void)slice_copy(buf_slice(&text), to, capacity);
	buf_fini(&text);
	return to;
}

void violation_members(const struct violation *v, struct json *j)
{
	char row[VIOLATION_ROW_BYTES];
	struct slice name;
	json_text(j, "reason", reason_code(REASON_SANDBOX_VIOLATION));
	json_text(j, "detail", filter_row_why(v->row));
	json_text(j, "syscall", v->row->name);
	json_object(j, "arguments");
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++) {
		char key[VIOLATION_ROW_BYTES];
		if (!is_shown(v, i, &name) || slice_copy(name, key, sizeof(key)) < 0)
			continue;
		if (v->texts[i] != NULL)
			json_text(j, key, v->texts[i]);
		else
			json_uint(j, key, number_of(v, i));
	}
	json_object_end(j);
	json_text(j, "error", strerrorname_np(v->row->error));
	if (v->executable != NULL)
		json_text(j, "executable", v->executable);
	if (violation_path(v) != NULL)
		json_text(j, "path", violation_path(v));
	json_text(j, "rule", filter_row_name(v->row, row, sizeof(row)));
	json_text(j, "hint", filter_row_why(v->row));
	json_uint(j, "count", v->count);
}
