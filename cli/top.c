/* `eclusa top`: looks again and again, and draws. Which bytes go to the terminal is decided in top_draw.c. */
#include "cli/top.h"

#include "audit/segment.h"
#include "cli/command.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

enum top_exit { TOP_EXIT_FINE = 0, TOP_EXIT_FAILED = 2 /* wrong usage, too */ };

#define INTERVAL_MS  1000
#define ROWS_MAX     1000
#define COLUMNS_MAX  500
#define ROWS_TEXT    100000 /* of --once without a terminal */
#define SCREEN_OPEN  "\033[?1049h\033[?25l\033[2J"
#define SCREEN_CLOSE "\033[?25h\033[?1049l"

struct top {
	const char *folder, *export_state; /* the second NULL: sinks are not asked for */
	char folder_default[PATH_MAX];
	bool once, json;
	int folder_fd, signal_fd;
	struct live *live;
	enum top_order order;
	struct live_sink sinks[LIVE_SINKS_MAX];
	struct termios before;
};

static int usage(const char *what, const char *arg)
{
	char shown[128];
	(void)fprintf(stderr, "eclusa top: %s%s; see eclusa top --help\n", what,
		slice_escape(slice_of(arg), shown, sizeof(shown)));
	return TOP_EXIT_FAILED;
}

static int print_help(void)
{
	(void)fputs(
		"usage: eclusa top [--once [--json]] [--audit-dir DIR] [--export-state DIR]\n"
		"\n"
		"Sandboxes that run now, with what their proxies decide and how many bytes pass.\n"
		"\n"
		"  --audit-dir DIR     the log, if it is not where runs leave it by default\n"
		"  --export-state DIR  show the sinks of the eclusa-export that has this state folder\n"
		"  --once              one picture, and no terminal is needed\n"
		"  --json              with --once: one JSON object\n"
		"  --help              this text\n"
		"\n"
		"Keys: s another order, q quit.\n"
		"Exit status: 0 fine, 2 the log can't be read or wrong usage.\n",
		stdout);
	return fflush(stdout) != 0 ? TOP_EXIT_FAILED : TOP_EXIT_FINE;
}

/** @return 0 or TOP_EXIT_FAILED after a line on stderr. */
static int take_words(struct top *t, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char **text = strcmp(argv[i], "--audit-dir") == 0 ? &t->folder
			: strcmp(argv[i], "--export-state") == 0        ? &t->export_state
									: NULL;
		if (text != NULL && i + 1 == argc)
			return usage("a value is missing after ", argv[i]);
		if (text != NULL && *text != NULL)
			return usage("an option stands twice: ", argv[i]);
		if (text != NULL)
			*text = argv[++i];
		else if (strcmp(argv[i], "--once") == 0)
			t->once = true;
		else if (strcmp(argv[i], "--json") == 0)
			t->json = true;
		else
			return usage("unknown option or word ", argv[i]);
	}
	return t->json && !t->once ? usage("--json needs --once", "") : 0;
}

static int complain(const char *what, int error)
{
	char shown[PATH_MAX];
	(void)fprintf(stderr, "eclusa top: %s: %s\n",
		slice_escape(slice_of(what), shown, sizeof(shown)), strerror(-error));
	return TOP_EXIT_FAILED;
}

static int top_open(struct top *t)
{
	struct failure why = {0};
	if (t->folder == NULL) {
		if (audit_folder_default(
			    geteuid() == 0, t->folder_default, sizeof(t->folder_default), &why) < 0)
			return usage(why.text, "");
		t->folder = t->folder_default;
	}
	t->folder_fd = open(t->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->folder_fd < 0)
		return complain(t->folder, -errno);
	t->live = live_new(t->folder_fd);
	return t->live == NULL ? complain("memory", -ENOMEM) : 0;
}

static struct top_picture take_picture(struct top *t, struct failure *why, char *shown, size_t room)
{
	struct top_picture p = {.folder = t->folder,
		.now_ms = clock_wall_ms(),
		.left_out = live_left_out(t->live),
		.behind = live_is_behind(t->live),
		.order = t->order,
		.sinks = t->sinks};
	p.sandboxes = live_sandboxes(t->live, &p.sandbox_count);
	int sinks = t->export_state == NULL ? 0 : live_read_sinks(t->export_state, t->sinks, why);
	p.sink_count = sinks < 0 ? 0 : (size_t)sinks;
	if (sinks < 0)
		p.sinks_failure = slice_escape(slice_of(why->text), shown, room);
	return p;
}

static int show_once(struct top *t)
{
	char shown[FAILURE_TEXT_BYTES];
	struct failure why = {0};
	struct buf out = {0};
	int r = live_look(t->live);
	while (r == 0 && live_is_behind(t->live))
		r = live_look(t->live);
	if (r < 0)
		return complain(t->folder, r);
	struct top_picture p = take_picture(t, &why, shown, sizeof(shown));
	if (p.sinks_failure != NULL)
		(void)fprintf(stderr, "eclusa top: %s\n", p.sinks_failure);
	if (t->json)
		top_json(&p, &out);
	else
		top_draw(&p, ROWS_TEXT, UINT_MAX, false, &out);
	r = out.failed ? -ENOMEM : file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
	if (r < 0 && r != -EPIPE)
		return complain("standard output", r);
	return p.sinks_failure != NULL ? TOP_EXIT_FAILED : TOP_EXIT_FINE;
}

/* --- on a terminal --- */

/** Keys come at once and are not shown; what ends the program is heard here, so that the terminal is left as it was. */
static int screen_open(struct top *t)
{
	sigset_t ends;
	(void)sigemptyset(&ends); /* can't fail on a set of ours */
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
	for (size_t i = 0; i < array_size(signals); i++)
		(void)sigaddset(&ends, signals[i]);
	if (tcgetattr(STDIN_FILENO, &t->before) < 0 || sigprocmask(SIG_BLOCK, &ends, NULL) < 0)
		return -errno;
	t->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	struct termios raw = t->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	if (t->signal_fd < 0 || tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
		return -errno;
	return file_write_all(STDOUT_FILENO, SLICE(SCREEN_OPEN));
}

static void screen_close(struct top *t)
{
	/* As well as can be: a terminal that is gone needs neither. */
	(void)file_write_all(STDOUT_FILENO, SLICE(SCREEN_CLOSE));
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
	fd_close(&t->signal_fd);
}

static int draw(struct top *t)
{
	char shown[FAILURE_TEXT_BYTES];
	struct failure why = {0};
	struct winsize size = {0};
	struct buf out = {0};
	unsigned rows = 24, columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 && size.ws_col > 1) {
		rows = size.ws_row < ROWS_MAX ? size.ws_row : ROWS_MAX;
		columns = size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
	}
	struct top_picture p = take_picture(t, &why, shown, sizeof(shown));
	(void)buf_append_text(&out, "\033[H"); /* errors are sticky in the buf */
	top_draw(&p, rows - 1, columns, true, &out);
	(void)buf_append_text(&out, "\033[J");
	int r = out.failed ? -ENOMEM : file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
	return r;
}

/** @return 1: go on; 0: the end. */
static int hear_key(struct top *t)
{
	char keys[16];
	ssize_t got = read(STDIN_FILENO, keys, sizeof(keys));
	if (got <= 0)
		return got < 0 && (errno == EINTR || errno == EAGAIN);
	for (ssize_t i = 0; i < got; i++) {
		if (keys[i] == 'q')
			return 0;
		if (keys[i] == 's')
			t->order = (enum top_order)((t->order + 1) % TOP_ORDER_COUNT);
	}
	return 1;
}

static int run_screen(struct top *t)
{
	uint64_t next_ns = 0;
	for (;;) {
		struct pollfd waits[] = {{.fd = t->signal_fd, .events = POLLIN},
			{.fd = STDIN_FILENO, .events = POLLIN}};
		uint64_t now = clock_monotonic_ns();
		int r = now < next_ns ? 0 : live_look(t->live);
		if (now >= next_ns)
			next_ns = now + (live_is_behind(t->live) ? 0 : INTERVAL_MS * NS_PER_MS);
		if (r == 0)
			r = draw(t);
		if (r < 0)
			return r;
		now = clock_monotonic_ns();
		int wait_ms = now >= next_ns ? 0 : (int)((next_ns - now) / NS_PER_MS) + 1;
		if (poll(waits, array_size(waits), wait_ms) < 0 && errno != EINTR)
			return -errno;
		if (waits[0].revents != 0 || (waits[1].revents != 0 && hear_key(t) == 0))
			return 0;
	}
}

static int show_screen(struct top *t)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return usage("this is no terminal: use --once", "");
	int r = screen_open(t);
	if (r == 0)
		r = run_screen(t);
	screen_close(t);
	return r < 0 ? complain(t->folder, r) : TOP_EXIT_FINE;
}

int command_top(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return print_help();
	}
	struct top *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return complain("memory", -ENOMEM);
	t->folder_fd = t->signal_fd = -1;
	int status = take_words(t, argc, argv);
	if (status == 0)
		status = top_open(t);
	if (status == 0)
		status = t->once ? show_once(t) : show_screen(t);
	live_free(t->live);
	fd_close(&t->folder_fd);
	free(t);
	return status;
}
