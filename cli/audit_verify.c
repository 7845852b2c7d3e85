/* `eclusa audit verify`: what verify.h finds, for people or as JSON. */
#include "cli/audit.h"

#include "audit/verify.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#define OUTPUT_BYTES_MAX ((size_t)4 << 20)

static void progress_show(void *arg, uint64_t done, uint64_t all)
{
	audit_progress_show(arg, done, all);
}

static int read_public(const char *path, struct sign_public *ret)
{
	struct buf pem = {.limit = SIGN_PEM_BYTES_MAX + 65536};
	char shown[256];
	int r = file_read(AT_FDCWD, path, SIGN_PEM_BYTES_MAX, &pem);
	if (r == 0)
		r = sign_public_read(buf_slice(&pem), ret);
	buf_fini(&pem);
	if (r < 0)
		(void)fprintf(stderr, "eclusa audit: %s: %s\n",
			slice_escape(slice_of(path), shown, sizeof(shown)),
			r == -EINVAL
				? "no Ed25519 public key in PEM (eclusa audit keygen prints it)"
				: strerror(-r));
	return r;
}

/** In words: what was looked at, and what no signature says. */
static void tell_summary(const struct verify_result *v, bool has_key, struct buf *out)
{
	(void)buf_printf(out,
		"%" PRIu64 " lines of %" PRIu64 " chains in %" PRIu64 " files, %" PRIu64
		" signed checkpoints\n",
		v->lines, v->chains, v->files, v->checkpoints); /* errors show in out->failed */
	if (v->files == 0 && v->pruned == 0)
		(void)buf_append_text(out, "no log is here: there is nothing to verify\n");
	if (v->pruned > 0)
		(void)buf_printf(
			out, "%" PRIu64 " files were pruned, as the index says\n", v->pruned);
	if (v->unfinished > 0)
		(void)buf_printf(out, "%" PRIu64 " files are not finished yet\n", v->unfinished);
	if (!has_key)
		(void)buf_append_text(out,
			"signatures were not checked: --pub KEY (eclusa audit keygen prints it)\n");
	else if (v->unsigned_lines == v->lines)
		(void)buf_append_text(out, "nothing is signed by this key\n");
	else if (v->unsigned_lines > 0)
		(void)buf_printf(out,
			"unsigned: %" PRIu64 " lines at the ends of %" PRIu64 " chains\n",
			v->unsigned_lines, v->unsigned_chains);
}

static void tell_text(const struct verify_result *v, bool has_key, int status, struct buf *out)
{
	char shown[512];
	for (size_t i = 0; i < v->count; i++) {
		const struct verify_finding *f = &v->findings[i];
		(void)buf_append_text(out, slice_escape(slice_of(f->file), shown, sizeof(shown)));
		if (f->line > 0)
			(void)buf_printf(out, ":%" PRIu64, f->line);
		(void)buf_printf(out, ": %s: %s\n", verify_kind_name(f->kind),
			slice_escape(slice_of(f->text), shown, sizeof(shown)));
	}
	if (v->left_out > 0)
		(void)buf_printf(out, "and %" PRIu64 " more findings\n", v->left_out);
	tell_summary(v, has_key, out);
	(void)buf_append_text(out, status == AUDIT_EXIT_SOUND ? "sound\n" : "NOT sound\n");
}

static void tell_json(const struct verify_result *v, bool has_key, int status, struct buf *out)
{
	struct json j;
	json_open(&j, out);
	json_object(&j, NULL);
	json_bool(&j, "sound", status == AUDIT_EXIT_SOUND);
	json_uint(&j, "files", v->files);
	json_uint(&j, "chains", v->chains);
	json_uint(&j, "lines", v->lines);
	json_uint(&j, "bytes", v->bytes);
	json_uint(&j, "unfinished", v->unfinished);
	json_uint(&j, "pruned", v->pruned);
	json_uint(&j, "checkpoints", v->checkpoints);
	json_bool(&j, "signatures_checked", has_key);
	json_uint(&j, "unsigned_lines", v->unsigned_lines);
	json_uint(&j, "unsigned_chains", v->unsigned_chains);
	json_array(&j, "findings");
	for (size_t i = 0; i < v->count; i++) {
		json_object(&j, NULL);
		json_text(&j, "kind", verify_kind_name(v->findings[i].kind));
		json_text(&j, "file", v->findings[i].file);
		if (v->findings[i].line > 0)
			json_uint(&j, "line", v->findings[i].line);
		json_text(&j, "text", v->findings[i].text);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_uint(&j, "findings_left_out", v->left_out);
	json_object_end(&j);
	(void)buf_append(out, SLICE("\n")); /* errors show in out->failed */
}

/** Without a single good signature a key that was given has nothing to say for the log. */
static int judge(const struct audit_words *words, const struct verify_result *v)
{
	/* Whoever emptied a folder, or named another one, left nothing that could be wrong. */
	bool nothing = v->files == 0 && v->pruned == 0;
	bool bare = words->public_key != NULL && v->unsigned_lines == v->lines;
	bool rest = words->signed_only && v->unsigned_lines > 0;
	return v->count + v->left_out > 0 || nothing || bare || rest ? AUDIT_EXIT_FINDINGS
								     : AUDIT_EXIT_SOUND;
}

int audit_tool_verify(const struct audit_words *words)
{
	struct sign_public public;
	struct failure why = {0};
	struct audit_progress progress = {.on = isatty(STDERR_FILENO)};
	uint64_t from = 0;
	struct verify_result result = {0};
	if (words->signed_only && words->public_key == NULL)
		return audit_usage("--signed needs --pub KEY", "");
	if (words->from != NULL &&
		audit_number(words->from, "--from takes the number of a line, not ", INT64_MAX,
			&from) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (words->public_key != NULL && read_public(words->public_key, &public) < 0)
		return AUDIT_EXIT_UNREADABLE;
	bool files_only = words->word_count > 0 && words->folder == NULL;
	auto_fd folder = files_only ? -1 : audit_open_folder(words);
	if (folder < 0 && !files_only)
		return AUDIT_EXIT_UNREADABLE;
	const struct verify_options options = {.folder_fd = folder,
		.files = words->word_count > 0 ? words->words : NULL,
		.file_count = words->word_count,
		.key = words->public_key != NULL ? &public : NULL,
		.from = from,
		.progress = progress_show,
		.arg = &progress};
	int r = audit_verify(&options, &result, &why);
	audit_progress_end(&progress);
	if (r < 0) {
		char shown[FAILURE_TEXT_BYTES];
		verify_fini(&result);
		(void)fprintf(stderr, "eclusa audit: %s\n",
			slice_escape(slice_of(why.text), shown, sizeof(shown)));
		return AUDIT_EXIT_UNREADABLE;
	}
	struct buf out = {.limit = OUTPUT_BYTES_MAX};
	int status = judge(words, &result);
	if (words->json)
		tell_json(&result, options.key != NULL, status, &out);
	else
		tell_text(&result, options.key != NULL, status, &out);
	verify_fini(&result);
	return audit_finish(&out, status);
}
