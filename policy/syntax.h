/*
 * Policy text as a tree: files, sections, statements. The parser makes it, the compiler flattens it into
 * profiles. Everything belongs to one arena.
 */
#ifndef ECLUSA_POLICY_SYNTAX_H
#define ECLUSA_POLICY_SYNTAX_H

#include "policy/bundle.h"
#include "policy/lexer.h"
#include "policy/limit.h"
#include "policy/rule.h"

#define SYNTAX_RULES_MAX      20000
#define SYNTAX_SECTIONS_MAX   1000
#define SYNTAX_STATEMENTS_MAX 20000 /* use and expect lines */
#define SYNTAX_DEPTH_MAX      8     /* of include, extends, use */

enum attribute_key {
	ATTRIBUTE_ID,
	ATTRIBUTE_OWNER,
	ATTRIBUTE_TICKET,
	ATTRIBUTE_EXPIRES,
	ATTRIBUTE_NOTE,
	ATTRIBUTE_MODE,
	ATTRIBUTE_SCHEME,
	ATTRIBUTE_TLS,
	ATTRIBUTE_ADDR,
	ATTRIBUTE_ENC_SLASH,
	ATTRIBUTE_REQ_BODY,
	ATTRIBUTE_RESP_BODY,
	ATTRIBUTE_QUERY,
	ATTRIBUTE_HEADER_DENY,
	ATTRIBUTE_UPGRADE,
	ATTRIBUTE_RATE,
	ATTRIBUTE_CONNS,
	ATTRIBUTE_TIME,
	ATTRIBUTE_MAX_USES,
	ATTRIBUTE_UP,
	ATTRIBUTE_DOWN,
	ATTRIBUTE_REQUESTS,
	ATTRIBUTE_WINDOW,
	ATTRIBUTE_COUNT
};

/** Where attributes stand; each has a meaning only in some places. */
enum attribute_place {
	ATTRIBUTE_ON_ALLOW = 1,
	ATTRIBUTE_ON_DENY = 2,
	ATTRIBUTE_ON_USE = 4,
	ATTRIBUTE_ON_DEFAULTS = 8,
};

struct attributes {
	uint32_t given; /* 1 << key */
	struct place places[ATTRIBUTE_COUNT];
	const char *id;
	const char *owner;
	const char *ticket;
	enum rule_scheme scheme;
	bool splice;
	bool observe;
	bool encoded_slash;
	bool query_denied;
	bool websocket;
	const struct cidr *addresses;
	size_t address_count;
	const struct slice *header_deny;
	size_t header_deny_count;
	uint64_t limits[LIMIT_COUNT]; /* values as limit_get() has them */
	uint64_t rate_uses;
	uint64_t rate_ms;
};

struct section;

struct use {
	const char *group;
	const struct section *section; /* the group, once it was looked for */
	struct attributes narrow;
};

struct expect {
	bool allow;
	struct slice method;
	struct slice url;
	struct place url_place;
	const char *by;   /* NULL: any rule */
	const char *code; /* NULL: any reason */
	uint64_t at_ms;   /* 0: expiry is ignored */
};

enum statement_kind { STATEMENT_RULE, STATEMENT_USE, STATEMENT_EXPECT };

struct statement {
	enum statement_kind kind;
	struct place place;
	union {
		struct rule_entry *rule;
		struct use *use;
		struct expect *expect;
	};
	struct statement *next;
};

/** Statements in order of place. Zero-initialise. */
struct statement_list {
	struct statement *first;
	struct statement *last;
};

struct section {
	bool is_profile;
	const char *name;
	struct place place;
	const char *extends; /* NULL: nothing */
	struct place extends_place;
	struct statement_list statements;
	bool mode_given; /* by a set line */
	bool observe;
	struct place mode_place;
	bool commit_given;
	bool commit_before;
	struct place commit_place;
	const struct source_file *file;
	struct section *next;
};

enum file_state { FILE_UNREAD, FILE_OPEN, FILE_READ };

/** What `require` of a file asks of its rules and profiles. */
enum requirement {
	REQUIRE_OWNER = 1,
	REQUIRE_TICKET = 2,
	REQUIRE_EXPIRES = 4,
	REQUIRE_TESTS = 8,
};

struct source_file {
	enum bundle_kind kind;
	const char *name;
	struct slice content; /* in the bundle */
	enum file_state state;
	unsigned required; /* bits of enum requirement */
	struct attributes defaults;
};

struct syntax {
	struct arena *arena;
	struct policy_report *report;
	struct source_file *files;
	size_t file_count;
	struct section *sections; /* in order of place */
	struct section *last_section;
	size_t section_count;
	struct statement_list globals; /* deny rules before any section */
	size_t rule_count;
	size_t other_count;
};

/** Where a parse stands. */
struct parser {
	struct syntax *tree;
	struct source_file *file;
	struct section *section; /* NULL: before any */
	unsigned depth;          /* of includes */
};

/** Parse every file of the tree that is not only included. Findings go to its report. */
void parser_run(struct syntax *tree);

/** Statements. @l the whole line, the verb included. */
void statement_rule(struct parser *p, const struct statement_line *l, bool allow, size_t from);
void statement_use(struct parser *p, const struct statement_line *l);
void statement_set(struct parser *p, const struct statement_line *l);
void statement_expect(struct parser *p, const struct statement_line *l);
/** A new one at the end of the section, or of the head of the file; NULL when out of memory. */
struct statement *statement_add(struct parser *p, enum statement_kind kind, const struct token *at);
/** Give the rules of a read file what its `defaults` say, and check what its `require` asks. @section NULL: none. */
void statement_finish_file(struct syntax *tree, const struct source_file *file,
	const struct section *section, struct statement_list *list);

/** Whether a token has the form key=value. */
bool attribute_looks_like(struct slice text);
/** Parse tokens from @from to the end as attributes at @where. False: reported. */
bool attribute_parse(struct parser *p, const struct statement_line *l, size_t from,
	enum attribute_place where, struct attributes *ret);
/** The key that sets a limit. */
enum attribute_key attribute_of_limit(enum limit limit);
/** A key=value of an expect line: key and value, unquoted. */
void attribute_split(struct slice text, struct slice *ret_key, struct slice *ret_value);

static inline struct place token_place(const struct parser *p, const struct token *t, size_t offset)
{
	return (struct place){p->file->name, t->line, t->column + (unsigned)offset};
}

static inline bool attribute_given(uint32_t given, enum attribute_key key)
{
	return (given >> key & 1) != 0;
}

#endif
