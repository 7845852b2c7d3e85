/*
 * Smokescreen's access list (YAML, read by libyaml): services, each a profile. A service's own allowed_domains are asked first, then
 * global_deny_list, then global_allow_list, then its action: enforce denies, report lets pass and tells (here: observe), open
 * lets pass. "*.h" is every name below h. Anchors, aliases and tags are refused: a list for people needs none.
 */
#include "cli/import.h"
#include "cli/import_list.h"

#include "common/cleanup.h"
#include "policy/value.h"

#include <stdio.h>
#include <yaml.h>

/** A file being read. */
struct smokescreen {
	struct import *im;
	const char *file;
	yaml_document_t document;
	const yaml_node_t *global_deny;
	const yaml_node_t *global_allow;
};

static const char *place_of(struct smokescreen *s, const yaml_node_t *node)
{
	return import_place(s->im, s->file, (unsigned)node->start_mark.line + 1);
}

static struct slice text_of(const yaml_node_t *node)
{
	return node == NULL || node->type != YAML_SCALAR_NODE
		? (struct slice){0}
		: (struct slice){(const char *)node->data.scalar.value, node->data.scalar.length};
}

/** @return the value of the pair, and its key. */
static yaml_node_t *pair_at(
	struct smokescreen *s, const yaml_node_t *map, size_t index, yaml_node_t **ret_key)
{
	const yaml_node_pair_t *pair = map->data.mapping.pairs.start + index;
	*ret_key = yaml_document_get_node(&s->document, pair->key);
	return yaml_document_get_node(&s->document, pair->value);
}

static size_t pair_count(const yaml_node_t *map)
{
	return map == NULL || map->type != YAML_MAPPING_NODE
		? 0
		: (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

static const yaml_node_t *value_of(struct smokescreen *s, const yaml_node_t *map, struct slice name)
{
	yaml_node_t *key;
	for (size_t i = 0; i < pair_count(map); i++) {
		yaml_node_t *value = pair_at(s, map, i, &key);
		if (slice_equal(text_of(key), name))
			return value;
	}
	return NULL;
}

/** Keys that are known, each once. */
static void check_keys(struct smokescreen *s, const yaml_node_t *map, const struct slice *known,
	size_t known_count)
{
	yaml_node_t *key;
	for (size_t i = 0; i < pair_count(map) && !s->im->refused; i++) {
		(void)pair_at(s, map, i, &key);
		struct slice name = text_of(key);
		bool found = false;
		for (size_t k = 0; k < known_count; k++)
			found |= slice_equal(name, known[k]);
		if (!found)
			import_left_out(s->im, place_of(s, key), name, "this key is not known");
		for (size_t k = 0; k < i; k++) {
			yaml_node_t *other;
			(void)pair_at(s, map, k, &other);
			if (slice_equal(text_of(other), name))
				import_refuse(s->im, place_of(s, key), "this key stands twice");
		}
	}
}

static void take_names(
	struct smokescreen *s, struct import_list *l, const yaml_node_t *list, bool allow)
{
	if (list == NULL)
		return;
	if (list->type != YAML_SEQUENCE_NODE) {
		if (text_of(list).len > 0 || list->type == YAML_MAPPING_NODE)
			import_refuse(s->im, place_of(s, list), "a list of names is needed");
		return;
	}
	const yaml_node_item_t *item = list->data.sequence.items.start;
	for (; item < list->data.sequence.items.top && !s->im->refused; item++) {
		const yaml_node_t *node = yaml_document_get_node(&s->document, *item);
		struct slice written = text_of(node);
		bool below = slice_starts(written, SLICE("*."));
		struct import_host h = {.allow = allow,
			.reach = below ? IMPORT_BELOW : IMPORT_EXACT,
			.place = place_of(s, node),
			.written = written};
		import_list_add(s->im, l, &h, slice_part(written, below ? 2 : 0, written.len));
	}
}

/** @return the mode of the profile, or NULL: no profile can say it. */
static const char *mode_of(struct smokescreen *s, const yaml_node_t *service)
{
	const yaml_node_t *action = value_of(s, service, SLICE("action"));
	struct slice text = text_of(action);
	if (slice_equal(text, SLICE("enforce")))
		return "enforce";
	if (slice_equal(text, SLICE("report")))
		return "observe";
	import_left_out(s->im, place_of(s, action == NULL ? service : action), text,
		slice_equal(text, SLICE("open"))
			? "a service that may reach every host: write allow any with a ticket if that is meant"
			: "an action is open, report or enforce");
	return NULL;
}

static void take_service(struct smokescreen *s, const yaml_node_t *service, const char *name)
{
	static const struct slice known[] = {
		{"name", 4}, {"project", 7}, {"action", 6}, {"allowed_domains", 15}};
	struct import *im = s->im;
	struct import_list l = {.count = 0};
	struct slice own = text_of(value_of(s, service, SLICE("name")));
	char shown[VALUE_NAME_BYTES_MAX + 1];
	check_keys(s, service, known, array_size(known));
	if (name == NULL &&
		(slice_copy(own, shown, sizeof(shown)) < 0 || value_name(own) != NULL)) {
		import_left_out(
			im, place_of(s, service), own, "this can't be the name of a profile");
		return;
	}
	const char *mode = mode_of(s, service);
	if (mode == NULL)
		return;
	import_comment(im, "%s: service, project %.*s", place_of(s, service),
		(int)text_of(value_of(s, service, SLICE("project"))).len,
		text_of(value_of(s, service, SLICE("project"))).ptr);
	import_profile(im, name != NULL ? name : shown);
	(void)buf_printf(&im->text, "set mode %s\n", mode);
	take_names(s, &l, value_of(s, service, SLICE("allowed_domains")), true);
	take_names(s, &l, s->global_deny, false);
	take_names(s, &l, s->global_allow, true);
	im->observe = strcmp(mode, "observe") == 0;
	import_list_write(im, &l);
	import_list_fini(&l);
}

static void take_document(struct smokescreen *s)
{
	static const struct slice known[] = {{"version", 7}, {"services", 8}, {"default", 7},
		{"global_deny_list", 16}, {"global_allow_list", 17}};
	const yaml_node_t *root = yaml_document_get_root_node(&s->document);
	if (root == NULL || root->type != YAML_MAPPING_NODE) {
		import_refuse(s->im, s->file, "an access list is one mapping");
		return;
	}
	check_keys(s, root, known, array_size(known));
	s->global_deny = value_of(s, root, SLICE("global_deny_list"));
	s->global_allow = value_of(s, root, SLICE("global_allow_list"));
	const yaml_node_t *services = value_of(s, root, SLICE("services"));
	const yaml_node_t *fallback = value_of(s, root, SLICE("default"));
	if (services != NULL && services->type == YAML_SEQUENCE_NODE) {
		const yaml_node_item_t *item = services->data.sequence.items.start;
		for (; item < services->data.sequence.items.top && !s->im->refused; item++)
			take_service(s, yaml_document_get_node(&s->document, *item), NULL);
	} else if (text_of(services).len > 0 ||
		(services != NULL && services->type == YAML_MAPPING_NODE)) {
		import_refuse(s->im, place_of(s, services), "services are a list");
	}
	if (fallback != NULL && !s->im->refused)
		take_service(s, fallback, "default");
}

/** Anchors and aliases make a list that is not what it looks like, and sizes that nobody sees. */
static void refuse_tricks(struct smokescreen *s, struct slice text)
{
	yaml_parser_t parser;
	yaml_token_t token;
	bool more = yaml_parser_initialize(&parser) == 1;
	if (!more) {
		import_refuse(s->im, s->file, "out of memory");
		return;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
	while (more && !s->im->refused && yaml_parser_scan(&parser, &token) == 1) {
		unsigned line = (unsigned)token.start_mark.line + 1;
		if (token.type == YAML_ALIAS_TOKEN || token.type == YAML_ANCHOR_TOKEN ||
			token.type == YAML_TAG_TOKEN || token.type == YAML_TAG_DIRECTIVE_TOKEN)
			import_refuse(s->im, import_place(s->im, s->file, line),
				"anchors, aliases and tags are not read; quote a name that begins "
				"with * or &");
		more = token.type != YAML_STREAM_END_TOKEN;
		yaml_token_delete(&token);
	}
	yaml_parser_delete(&parser); /* a fault of the text is found again when it is loaded */
}

void import_smokescreen(struct import *im, const char *file, struct slice text)
{
	struct smokescreen s = {.im = im, .file = file};
	yaml_parser_t parser;
	refuse_tricks(&s, text);
	if (im->refused)
		return;
	if (yaml_parser_initialize(&parser) != 1) {
		import_refuse(im, file, "out of memory");
		return;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
	if (yaml_parser_load(&parser, &s.document) != 1) {
		bool alias = parser.context != NULL && strstr(parser.context, "alias") != NULL;
		import_refuse(im, import_place(im, file, (unsigned)parser.problem_mark.line + 1),
			alias                            ? "quote a name that begins with * or &"
				: parser.problem == NULL ? "this is no YAML"
							 : parser.problem);
	} else {
		take_document(&s);
		yaml_document_delete(&s.document);
	}
	yaml_parser_delete(&parser);
}
