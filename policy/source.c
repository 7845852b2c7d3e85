/* See source.h. Follows no link out of the policy's folder; what the text means is not asked here. */
#include "policy/source.h"

#include "policy/bundle.h"
#include "policy/lexer.h"
#include "policy/manifest.h"
#include "policy/syntax.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/sign.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/** Reading one policy: its folder, and which files were taken already. */
struct loader {
	int folder;
	char prefix[BUNDLE_NAME_BYTES_MAX + 1];  /* the folder as the user named it, with its '/' */
	char sealed[BUNDLE_NAME_BYTES_MAX + 16]; /* name of its manifest in the folder */
	struct buf *to;
	struct failure *why;
	char *loaded[BUNDLE_FILES_MAX]; /* relative names */
	size_t loaded_count;
	struct policy_report report; /* of the search for include lines; nobody reads it */
	struct statement_line line;
};

/** An include line: what it names and where it stands. */
struct include {
	char *path;
	struct place place;
};

#define INCLUDES_MAX  64 /* of one file */
#define MANIFEST_NAME "manifest"

static void include_list_free(struct include *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i].path);
}

static int load(struct loader *l, const char *name, enum bundle_kind kind, uid_t owner,
	unsigned depth, const struct place *from);

/** Report at the include line if there is one, else by the file's own name. */
static int load_error(
	struct loader *l, int code, const char *name, const struct place *from, const char *what)
{
	char shown[512];
	char place[512] = "";
	(void)slice_escape(slice_of(name), shown, sizeof(shown));
	if (from != NULL)
		(void)snprintf(
			place, sizeof(place), "%s:%u:%u: ", from->file, from->line, from->column);
	if (what != NULL)
		return failure_set(l->why, code, "%s%s%s: %s", place, l->prefix, shown, what);
	return failure_errno(l->why, code, "%s%s%s", place, l->prefix, shown);
}

static int open_beneath(int folder, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	long fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/** Names end up in diagnostics and events: no control byte in them. */
static bool name_printable(const char *name)
{
	for (; *name != '\0'; name++) {
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			return false;
	}
	return true;
}

static bool already_loaded(const struct loader *l, const char *name)
{
	for (size_t i = 0; i < l->loaded_count; i++) {
		if (strcmp(l->loaded[i], name) == 0)
			return true;
	}
	return false;
}

static int remember(struct loader *l, const char *name)
{
	if (l->loaded_count == BUNDLE_FILES_MAX)
		return -EMFILE;
	char *copy = strdup(name);
	if (copy == NULL)
		return -ENOMEM;
	l->loaded[l->loaded_count++] = copy;
	return 0;
}

/** Well-formed include lines of a text; the others are the compiler's to report. */
static int find_includes(struct loader *l, const char *file, struct slice content,
	struct include *to, size_t *ret_count)
{
	struct lexer lexer;
	*ret_count = 0;
	l->report = (struct policy_report){.count = 0};
	lexer_init(&lexer, file, content, &l->report);
	while (lexer_next(&lexer, &l->line)) {
		const struct token *path = &l->line.tokens[1];
		if (l->line.count != 2 || !slice_equal(l->line.tokens[0].text, SLICE("include")) ||
			bundle_include_check(path->text) != NULL)
			continue;
		if (*ret_count == INCLUDES_MAX)
			return -EMFILE;
		struct include *i = &to[(*ret_count)++];
		i->place = (struct place){file, path->line, path->column};
		i->path = slice_dup(path->text);
		if (i->path == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int load_includes(
	struct loader *l, const char *name, struct slice content, uid_t owner, unsigned depth)
{
	char full[2 * BUNDLE_NAME_BYTES_MAX + 2];
	struct include list[INCLUDES_MAX];
	size_t count = 0;
	(void)snprintf(full, sizeof(full), "%s%s", l->prefix, name); /* both are bounded */
	int r = find_includes(l, full, content, list, &count);
	if (r < 0)
		(void)load_error(l, r, name, NULL,
			r == -EMFILE ? "more than 64 includes in one file" : NULL);
	for (size_t i = 0; i < count && r == 0; i++) {
		char next[BUNDLE_NAME_BYTES_MAX + 1];
		if (bundle_include_name(name, slice_of(list[i].path), next) == 0)
			r = load(l, next, BUNDLE_INCLUDED, owner, depth + 1, &list[i].place);
	}
	include_list_free(list, count);
	return r;
}

static int append_text(
	struct loader *l, const char *name, enum bundle_kind kind, struct slice content)
{
	char full[2 * BUNDLE_NAME_BYTES_MAX + 2];
	int len = snprintf(full, sizeof(full), "%s%s", l->prefix, name);
	if (len < 0 || len > BUNDLE_NAME_BYTES_MAX)
		return load_error(l, -ENAMETOOLONG, name, NULL, NULL);
	struct bundle_text text = {kind, {full, (size_t)len}, content};
	int r = bundle_append(l->to, &text);
	return r == 0 ? 0 : load_error(l, r, name, NULL, "the policy is larger than 32 MiB");
}

/** Read an open file, append it, and go on with what it includes. */
static int load_open(
	struct loader *l, int fd, const char *name, enum bundle_kind kind, unsigned depth)
{
	struct buf content = {.limit = POLICY_FILE_BYTES_MAX + 65536};
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0)
		r = file_read_fd(fd, POLICY_FILE_BYTES_MAX, &content);
	if (r < 0)
		r = load_error(
			l, r, name, NULL, r == -EFBIG ? "the file is larger than 1 MiB" : NULL);
	if (r == 0)
		r = append_text(l, name, kind, buf_slice(&content));
	if (r == 0)
		r = load_includes(l, name, buf_slice(&content), st.st_uid, depth);
	buf_fini(&content);
	return r;
}

/** Load a file of the folder. @owner: who must own it; (uid_t)-1: anyone. */
static int load(struct loader *l, const char *name, enum bundle_kind kind, uid_t owner,
	unsigned depth, const struct place *from)
{
	struct stat st;
	if (already_loaded(l, name) || depth > SYNTAX_DEPTH_MAX)
		return 0; /* the compiler finds loops and depth */
	if (!name_printable(name))
		return load_error(l, -EINVAL, name, from, "a control byte in the file's name");
	auto_fd fd = open_beneath(l->folder, name);
	if (fd < 0)
		return load_error(l, fd, name, from,
			fd == -EXDEV ? "a link leaves the policy's folder" : NULL);
	if (fstat(fd, &st) < 0)
		return load_error(l, -errno, name, from, NULL);
	if (!S_ISREG(st.st_mode))
		return load_error(l, -EINVAL, name, from, "not a regular file");
	if (owner != (uid_t)-1 && st.st_uid != owner)
		return load_error(l, -EPERM, name, from,
			"its owner is not the owner of the file that includes it");
	int r = remember(l, name);
	if (r < 0)
		return load_error(l, r, name, from, r == -EMFILE ? "more than 1024 files" : NULL);
	return load_open(l, fd, name, kind, depth);
}

static int is_allow_file(const struct dirent *entry)
{
	struct slice name = slice_of(entry->d_name);
	return name.len > 6 && name.ptr[0] != '.' && slice_ends(name, SLICE(".allow"));
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_folder(struct loader *l)
{
	struct dirent **entries = NULL;
	int count = scandirat(l->folder, ".", &entries, is_allow_file, by_bytes);
	if (count < 0)
		return load_error(l, -errno, "", NULL, NULL);
	int r = count == 0 ? load_error(l, -ENOENT, "", NULL, "there is no *.allow file in it") : 0;
	for (int i = 0; i < count && r == 0; i++)
		r = load(l, entries[i]->d_name, BUNDLE_FILE, (uid_t)-1, 0, NULL);
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	return r;
}

/** A file that the user named: it may be a link, or a pipe. */
static int load_named(struct loader *l, int fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	size_t prefix_len = (size_t)(name - path);
	memcpy(l->prefix, path, prefix_len);
	l->prefix[prefix_len] = '\0';
	(void)snprintf(l->sealed, sizeof(l->sealed), "%s." MANIFEST_NAME, name);
	const char *folder = prefix_len == 0 ? "." : l->prefix;
	l->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->folder < 0)
		return failure_errno(l->why, -errno, "%s", folder);
	int r = remember(l, name);
	return r < 0 ? load_error(l, r, name, NULL, NULL) : load_open(l, fd, name, BUNDLE_FILE, 0);
}

static int loader_run(struct loader *l, const char *path)
{
	struct stat st;
	size_t len = strlen(path);
	if (len == 0 || len >= BUNDLE_NAME_BYTES_MAX || !name_printable(path))
		return failure_set(l->why, -EINVAL,
			"the policy's path is empty, too long or has "
			"control bytes");
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(l->why, -errno, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return load_named(l, fd, path);
	(void)snprintf(l->prefix, sizeof(l->prefix), "%s%s", path,
		path[len - 1] == '/' ? "" : "/"); /* fits: the length was checked */
	(void)snprintf(l->sealed, sizeof(l->sealed), MANIFEST_NAME);
	l->folder = fd_take(&fd);
	return load_folder(l);
}

/** Read a file of the folder that is no policy text. */
static int read_beside(const struct loader *l, const char *name, size_t limit, struct buf *to)
{
	struct stat st;
	auto_fd fd = open_beneath(l->folder, name);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? file_read_fd(fd, limit, to) : -EINVAL;
}

static void read_seal(const struct loader *l, struct policy_seal *to)
{
	char name[sizeof(l->sealed) + 4];
	to->prefix_len = strlen(l->prefix);
	(void)snprintf(to->name, sizeof(to->name), "%s%s", l->prefix, l->sealed);
	(void)snprintf(name, sizeof(name), "%s.sig", l->sealed);
	to->manifest_error = read_beside(l, l->sealed, MANIFEST_BYTES_MAX, &to->manifest);
	to->signature_error = read_beside(l, name, SIGN_SIGNATURE_BYTES, &to->signature);
}

int policy_source_read(const char *path, struct buf *to, struct failure *why)
{
	return policy_source_read_sealed(path, to, NULL, why);
}

void policy_seal_fini(struct policy_seal *s)
{
	buf_fini(&s->manifest);
	buf_fini(&s->signature);
}

int policy_source_read_sealed(
	const char *path, struct buf *to, struct policy_seal *ret, struct failure *why)
{
	if (ret != NULL)
		*ret = (struct policy_seal){
			.manifest = {.limit = MANIFEST_BYTES_MAX + 65536},
			.signature = {.limit = 2 * 65536},
		};
	auto_free struct loader *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return failure_errno(why, -ENOMEM, "%s", path);
	l->folder = -1;
	l->to = to;
	l->why = why;
	int r = bundle_open(to);
	if (r < 0)
		r = failure_errno(why, r, "%s", path);
	else
		r = loader_run(l, path);
	if (r == 0 && ret != NULL)
		read_seal(l, ret);
	for (size_t i = 0; i < l->loaded_count; i++)
		free(l->loaded[i]);
	fd_close(&l->folder);
	return r;
}

/** What people who think of a URL, or of a line of a file, write. The compiler judges everything else. */
static const char *words_wrong(struct slice text)
{
	struct slice first = text, rest = {0}, word;
	(void)slice_split(text, ' ', &first, &rest); /* without a blank the whole is the host */
	if (slice_starts(first, SLICE("https://")) || slice_starts(first, SLICE("http://")))
		return "a rule is no URL: write HOST[:PORTS] METHODS /PATH, as in "
		       "'data.example.com GET /v1/**' (:80 is plain HTTP)";
	if (slice_find(first, '/') >= 0 && !slice_starts(first, SLICE("ip:")))
		return "a blank stands before the path: write HOST[:PORTS] METHODS /PATH, as in "
		       "'data.example.com GET /v1/**'";
	if (rest.len > 0 &&
		(slice_equal(first, SLICE("allow")) || slice_equal(first, SLICE("deny"))))
		return "the rule begins with the host: leave out the first word";
	while (rest.len > 0) {
		word = rest;
		if (!slice_split(rest, ' ', &word, &rest))
			rest = (struct slice){0};
		if (slice_find(word, '#') == 0 || slice_find(word, '"') >= 0)
			return NULL;
		if (slice_find(word, '/') > 0 && slice_find(word, '=') < 0)
			return "a path begins with /, as in '/v1/**'";
	}
	return NULL;
}

static const char *rule_wrong(const char *rule)
{
	struct slice text = slice_trim(slice_of(rule));
	if (text.len == 0 || text.ptr[0] == '#')
		return "the rule is empty";
	if (slice_find(text, '\n') >= 0)
		return "a rule is one line";
	if (text.len > LEXER_LINE_BYTES_MAX)
		return "the rule is longer than 4096 bytes";
	return words_wrong(text);
}

int policy_source_rules(const char *const *rules, size_t count, struct buf *to, struct failure *why)
{
	struct buf content = {.limit = POLICY_FILE_BYTES_MAX};
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		const char *wrong = rule_wrong(rules[i]);
		if (wrong != NULL)
			r = failure_set(why, -EINVAL, "--allow:%zu:1: %s", i + 1, wrong);
		else if (buf_printf(&content, "%s\n", rules[i]) < 0)
			r = failure_set(why, -EFBIG,
				"--allow:%zu:1: the rules are larger than 1 MiB", i + 1);
	}
	struct bundle_text text = {BUNDLE_RULES, SLICE(BUNDLE_RULES_NAME), buf_slice(&content)};
	if (r == 0 && (bundle_open(to) < 0 || bundle_append(to, &text) < 0))
		r = failure_set(why, -ENOMEM, "no room for the rules");
	buf_fini(&content);
	return r;
}
