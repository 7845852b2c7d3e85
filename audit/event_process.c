/* What an event says of a sandbox: who ran what in it, what it used, what went in and came out. See event_state.h. */
#include "audit/event_state.h"

#include "audit/redact.h"

void event_write_container(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	if (e->sandbox_id == NULL)
		return;
	json_object(&w->j, "container");
	event_write_own(w, "uid", e->sandbox_id, NAME_BYTES);
	event_write_own(
		w, "name", e->sandbox_name != NULL ? e->sandbox_name : e->sandbox_id, NAME_BYTES);
	json_object_end(&w->j);
}

void event_write_actor(struct event_writer *w)
{
	json_object(&w->j, "actor");
	json_text(&w->j, "app_name", "eclusa");
	if (w->e->has_user) {
		json_object(&w->j, "user");
		event_write_own(w, "name", w->e->user_name, NAME_BYTES);
		json_format(&w->j, "uid", "%u", w->e->user_uid); /* OCSF: a string */
		json_object_end(&w->j);
	}
	json_object_end(&w->j);
}

void event_write_process(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	event_write_actor(w);
	json_object(&w->j, "process");
	if (e->pid > 0)
		json_int(&w->j, "pid", e->pid);
	if (e->argv != NULL && e->argv[0] != NULL) {
		const char *slash = strrchr(e->argv[0], '/');
		struct slice name = slice_of(slash != NULL ? slash + 1 : e->argv[0]);
		event_write_peer(w, "name", name, HOST_BYTES);
		buf_clear(&w->scratch);
		w->redactions += redact_arguments((const char *const *)e->argv, &w->scratch);
		event_write_scratch(w, "cmd_line", COMMAND_LINE_BYTES);
	} else {
		event_write_own(w, "name", e->sandbox_id, NAME_BYTES);
	}
	json_object_end(&w->j);
	if (e->reason == REASON_SANDBOX_EXIT && e->exit_code >= 0 && !e->recovered)
		json_int(&w->j, "exit_code", e->exit_code);
}

void event_write_usage(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	if (e->reason != REASON_SANDBOX_EXIT)
		return;
	event_write_own(w, "verdict", e->verdict, NAME_BYTES);
	if (e->recovered)
		return; /* nobody was there to measure */
	if (e->signal != 0)
		json_int(&w->j, "signal", e->signal);
	json_uint(&w->j, "wall_ms", e->wall_ms);
	json_uint(&w->j, "cpu_ms", e->cpu_ms);
	json_uint(&w->j, "memory_peak_bytes", e->memory_peak_bytes);
}

/** What went into a sandbox or came out of it; fewer of them, too, in a smaller event. */
void event_write_files(struct event_writer *w)
{
	const struct audit_event *e = w->e;
	struct json *j = &w->j;
	bool results = e->reason == REASON_SANDBOX_EXIT;
	size_t most = AUDIT_FILES_MAX >> w->pass;
	size_t shown = e->file_count < most ? e->file_count : most;
	if (e->file_count == 0)
		return;
	json_array(j, results ? "results" : "inputs");
	for (size_t i = 0; i < shown; i++) {
		const struct audit_file *f = &e->files[i];
		json_object(j, NULL);
		event_write_peer(w, "name", slice_of(f->name), NAME_BYTES);
		if (f->size != UINT64_MAX)
			json_uint(j, "size", f->size);
		if (f->sha256 != NULL)
			json_text(j, "sha256", f->sha256);
		json_object_end(j);
	}
	json_array_end(j);
	if (shown < e->file_count)
		json_uint(
			j, results ? "results_left_out" : "inputs_left_out", e->file_count - shown);
}
