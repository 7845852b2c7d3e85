/* What rules grant and what was used of it, by a clock of the test's own. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/id.h"
#include "proxy/budget_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define HOUR_MS UINT64_C(3600000)
#define START   UINT64_C(5000000) /* of the clock */

struct fixture {
	int fd;
	struct budget *budget;
	unsigned sandbox;
	struct rule rule;
	uint64_t now_ms;
	struct budget_denial denial;
};

static const struct rule_budget nothing_limited = {.up_bytes = POLICY_UNLIMITED,
	.down_bytes = POLICY_UNLIMITED,
	.requests = POLICY_UNLIMITED,
	.max_uses = POLICY_UNLIMITED,
	.connections = POLICY_UNLIMITED,
	.time_ms = POLICY_UNLIMITED};

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->fd = budget_create();
	assert_true(f->fd >= 0);
	f->budget = budget_open(f->fd);
	assert_non_null(f->budget);
	assert_int_equal(budget_add_sandbox(f->budget, "sb-one", &f->sandbox), 0);
	f->rule = (struct rule){.id = "r", .allow = true, .key = 7, .budget = nothing_limited};
	f->now_ms = START;
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	budget_close(f->budget);
	fd_close(&f->fd);
	free(f);
	return 0;
}

static enum reason begin(struct fixture *f, struct budget_use *use, uint64_t up_bytes)
{
	const struct budget_ask ask = {
		.sandbox = f->sandbox, .rule = &f->rule, .now_ms = f->now_ms, .up_bytes = up_bytes};
	*use = (struct budget_use){0};
	return budget_begin(f->budget, &ask, use, &f->denial);
}

/** A use that is over at once. */
static enum reason pass(struct fixture *f, uint64_t up_bytes, uint64_t down_bytes)
{
	struct budget_use use;
	enum reason reason = begin(f, &use, up_bytes);
	if (reason_allows(reason))
		budget_spend(&use, up_bytes, down_bytes);
	budget_end(&use);
	return reason;
}

/** Another process over the same memory, as after a worker's death: nothing is closed in order. */
static void replace_worker(struct fixture *f)
{
	struct budget *old = f->budget;
	f->budget = budget_open(f->fd);
	assert_non_null(f->budget);
	assert_int_equal(budget_add_sandbox(f->budget, "sb-one", &f->sandbox), 0);
	budget_close(old); /* gives up its own memory only */
}

#define assert_detail(f, what)                                                                     \
	do {                                                                                       \
		if (strstr((f)->denial.detail, (what)) == NULL)                                    \
			fail_msg("no '%s' in: %s", (what), (f)->denial.detail);                    \
	} while (0)

/* --- limits, each to the last and one past it --- */

static void bytes_up_hold_for_the_sandboxs_life(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	f->rule.budget.up_bytes = 1000;
	assert_int_equal(begin(f, &use, 400), REASON_ALLOW_RULE);
	assert_int_equal(budget_up_room(&use, f->now_ms), 1000);
	budget_spend(&use, 400, 0);
	assert_int_equal(budget_up_room(&use, f->now_ms), 600);
	budget_end(&use);
	assert_int_equal(pass(f, 601, 0), REASON_DENY_BUDGET);
	assert_int_equal(f->denial.kind, BUDGET_UP);
	assert_int_equal(f->denial.allowed, 1000);
	assert_int_equal(f->denial.used, 400);
	assert_int_equal(f->denial.window_ms, 0);
	assert_int_equal(f->denial.resets_ms, 0);
	assert_detail(f, "1000 bytes towards the host, of which 400 are used");
	assert_detail(f, "601 more");
	f->now_ms += 1000 * HOUR_MS;
	assert_int_equal(pass(f, 600, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_BUDGET); /* not even a byte is left */
}

static void bytes_down_are_counted_beside(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	f->rule.budget.down_bytes = 1000;
	assert_int_equal(begin(f, &use, 50), REASON_ALLOW_RULE);
	assert_int_equal(budget_up_room(&use, f->now_ms), POLICY_UNLIMITED);
	budget_spend(&use, 50, 1000);
	assert_int_equal(budget_down_room(&use, f->now_ms), 0);
	budget_explain(&use, BUDGET_DOWN, f->now_ms, &f->denial);
	assert_int_equal(f->denial.reason, REASON_DENY_BUDGET);
	assert_detail(f, "1000 bytes from the host, of which 1000 are used");
	budget_end(&use);
	assert_int_equal(pass(f, 1, 0), REASON_DENY_BUDGET);
	assert_int_equal(f->denial.kind, BUDGET_DOWN);
}

static void a_window_begins_with_a_use_and_lasts(void **state)
{
	struct fixture *f = *state;
	f->rule.budget.requests = 2;
	f->rule.budget.up_bytes = 100;
	f->rule.budget.window_ms = HOUR_MS;
	assert_int_equal(pass(f, 60, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 60, 0), REASON_DENY_BUDGET); /* refused, so not counted */
	assert_int_equal(f->denial.kind, BUDGET_UP);
	f->now_ms += HOUR_MS - 1;
	assert_int_equal(pass(f, 40, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_BUDGET);
	assert_int_equal(f->denial.kind, BUDGET_REQUESTS);
	assert_int_equal(f->denial.resets_ms, 1);
	assert_int_equal(f->denial.window_ms, HOUR_MS);
	assert_detail(f, "2 requests in 3600 s, of which 2 are used; more after 1 ms");
	f->now_ms += 1;
	assert_int_equal(pass(f, 100, 0), REASON_ALLOW_RULE);
	f->now_ms += HOUR_MS - 1;
	assert_int_equal(pass(f, 1, 0), REASON_DENY_BUDGET); /* the window is the second one's */
	f->now_ms += 5 * HOUR_MS;
	assert_int_equal(pass(f, 100, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 1, 0), REASON_DENY_BUDGET);
	assert_int_equal(f->denial.resets_ms, HOUR_MS); /* from the first use after a pause */
}

static void a_window_that_passes_gives_room_to_a_use_in_flight(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	f->rule.budget.up_bytes = 100;
	f->rule.budget.window_ms = 1000;
	assert_int_equal(begin(f, &use, 100), REASON_ALLOW_RULE);
	budget_spend(&use, 100, 0);
	assert_int_equal(budget_up_room(&use, f->now_ms + 999), 0);
	assert_int_equal(budget_up_room(&use, f->now_ms + 1000), 100);
	budget_end(&use);
}

static void a_rate_lets_its_count_through_at_once_and_refills(void **state)
{
	struct fixture *f = *state;
	f->rule.budget.rate_uses = 5;
	f->rule.budget.rate_ms = 1000;
	for (int i = 0; i < 5; i++)
		assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_RATE);
	assert_int_equal(f->denial.resets_ms, 200);
	assert_detail(f, "5 uses in 1 s");
	f->now_ms += 199;
	assert_int_equal(pass(f, 0, 0), REASON_DENY_RATE);
	assert_int_equal(f->denial.resets_ms, 1); /* refusals don't lengthen the wait */
	f->now_ms += 1;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_RATE);
	f->now_ms += HOUR_MS; /* the bucket holds no more than its count */
	for (int i = 0; i < 5; i++)
		assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_RATE);
}

static void rates_hold_over_a_long_run(void **state)
{
	static const struct {
		uint64_t uses, ms, run_ms;
	} cases[] = {{1, 1000, 60000}, {7, 1000, 30000}, {50, 1000, 20000}, {3, 60000, 10 * 60000},
		{1, HOUR_MS, 4 * HOUR_MS}};
	struct fixture *f = *state;
	for (size_t i = 0; i < array_size(cases); i++) {
		uint64_t passed = 0;
		f->rule.key = 100 + i;
		f->rule.budget.rate_uses = cases[i].uses;
		f->rule.budget.rate_ms = cases[i].ms;
		uint64_t step_ms = cases[i].ms / cases[i].uses / 10 + 1;
		for (uint64_t t = 0; t < cases[i].run_ms; t += step_ms, f->now_ms += step_ms)
			passed += pass(f, 0, 0) == REASON_ALLOW_RULE;
		uint64_t refilled = cases[i].run_ms * cases[i].uses / cases[i].ms;
		assert_in_range(passed, refilled * 8 / 10, cases[i].uses + refilled);
	}
}

static void uses_at_once_are_counted_down_again(void **state)
{
	struct fixture *f = *state;
	struct budget_use use[3];
	f->rule.budget.connections = 2;
	assert_int_equal(begin(f, &use[0], 0), REASON_ALLOW_RULE);
	assert_int_equal(begin(f, &use[1], 0), REASON_ALLOW_RULE);
	assert_int_equal(begin(f, &use[2], 0), REASON_DENY_LIMIT);
	assert_int_equal(f->denial.kind, BUDGET_CONNECTIONS);
	assert_detail(f, "2 uses at once, of which 2 are used");
	budget_end(&use[2]); /* never began */
	assert_int_equal(begin(f, &use[2], 0), REASON_DENY_LIMIT);
	budget_end(&use[0]);
	budget_end(&use[0]); /* is over */
	assert_int_equal(begin(f, &use[2], 0), REASON_ALLOW_RULE);
	assert_int_equal(begin(f, &use[0], 0), REASON_DENY_LIMIT);
	budget_end(&use[1]);
	budget_end(&use[2]);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(begin(f, &use[0], 0), REASON_ALLOW_RULE);
		budget_end(&use[0]);
	}
	assert_int_equal(begin(f, &use[0], 0), REASON_ALLOW_RULE);
	assert_int_equal(begin(f, &use[1], 0), REASON_ALLOW_RULE);
	budget_end(&use[0]);
	budget_end(&use[1]);
}

static void uses_of_a_life_never_come_back(void **state)
{
	struct fixture *f = *state;
	f->rule.budget.max_uses = 2;
	f->rule.budget.window_ms = 1000; /* has no part in it */
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	f->now_ms += 1000 * HOUR_MS;
	assert_int_equal(pass(f, 0, 0), REASON_DENY_QUOTA);
	assert_int_equal(f->denial.resets_ms, 0);
	assert_detail(f, "2 uses, of which 2 are used");
}

static void a_use_has_its_time(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	assert_int_equal(begin(f, &use, 0), REASON_ALLOW_RULE);
	assert_int_equal(use.deadline_ms, 0);
	budget_end(&use);
	f->rule.budget.time_ms = 500;
	assert_int_equal(begin(f, &use, 0), REASON_ALLOW_RULE);
	assert_int_equal(use.deadline_ms, START + 500);
	budget_explain(&use, BUDGET_TIME, START + 501, &f->denial);
	assert_int_equal(f->denial.reason, REASON_DENY_LIMIT);
	assert_detail(f, "500 ms for one use");
	budget_end(&use);
	f->rule.budget.time_ms = UINT64_MAX - 1; /* does not come around */
	assert_int_equal(begin(f, &use, 0), REASON_ALLOW_RULE);
	assert_true(use.deadline_ms > START);
	budget_end(&use);
}

static void what_is_refused_counts_nowhere(void **state)
{
	struct fixture *f = *state;
	f->rule.budget.max_uses = 3;
	f->rule.budget.rate_uses = 1;
	f->rule.budget.rate_ms = 1000;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	for (int i = 0; i < 10; i++)
		assert_int_equal(pass(f, 0, 0), REASON_DENY_RATE);
	f->now_ms += 1000;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	f->now_ms += 1000;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_QUOTA);
}

/* --- observe --- */

static void observe_refuses_nothing_and_says_what_it_would(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	f->rule.observe = true;
	f->rule.budget.max_uses = 1;
	f->rule.budget.up_bytes = 100;
	f->rule.budget.time_ms = 1000;
	assert_int_equal(begin(f, &use, 50), REASON_ALLOW_RULE);
	assert_int_equal(use.deadline_ms, 0);
	assert_int_equal(budget_up_room(&use, f->now_ms), POLICY_UNLIMITED);
	assert_int_equal(budget_down_room(&use, f->now_ms), POLICY_UNLIMITED);
	budget_spend(&use, 100, 0);
	assert_int_equal(budget_would(&use, f->now_ms), REASON_ALLOW_RULE);
	assert_int_equal(budget_would(&use, f->now_ms + 1001), REASON_DENY_LIMIT);
	budget_spend(&use, 1, 0);
	assert_int_equal(budget_would(&use, f->now_ms), REASON_DENY_BUDGET);
	budget_end(&use);
	assert_int_equal(begin(f, &use, 0), REASON_OBSERVE_WOULD_DENY);
	assert_int_equal(f->denial.reason, REASON_DENY_QUOTA);
	assert_int_equal(budget_would(&use, f->now_ms), REASON_DENY_QUOTA);
	budget_end(&use);
}

/* --- whose counters --- */

static void rules_and_sandboxes_have_counters_of_their_own(void **state)
{
	struct fixture *f = *state;
	unsigned first = f->sandbox, other;
	f->rule.budget.requests = 1;
	assert_int_equal(budget_add_sandbox(f->budget, "sb-two", &other), 0);
	assert_int_not_equal(first, other);
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_BUDGET);
	f->rule.key = 8;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	f->sandbox = other;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_BUDGET);
	f->rule.key = 7;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
}

static void a_rules_next_version_goes_on_with_its_counter(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	f->rule.budget.up_bytes = 100;
	assert_int_equal(begin(f, &use, 100), REASON_ALLOW_RULE);
	budget_spend(&use, 60, 0);
	struct fixture next = *f;
	next.rule.budget.up_bytes = 150;
	next.rule.file = "moved.allow";
	next.rule.line = 9;
	assert_int_equal(pass(&next, 91, 0), REASON_DENY_BUDGET);
	assert_int_equal(pass(&next, 90, 0), REASON_ALLOW_RULE);
	memset(&f->rule, 0xff, sizeof(f->rule)); /* the old policy is gone, its use is not */
	assert_int_equal(budget_up_room(&use, f->now_ms), 0);
	budget_end(&use);
}

static void an_ended_sandbox_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	f->rule.budget.requests = 1;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	budget_remove_sandbox(f->budget, f->sandbox);
	assert_int_equal(budget_add_sandbox(f->budget, "sb-one", &f->sandbox), 0);
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
}

/* --- the worker's death --- */

static void a_new_worker_finds_what_was_used_and_nothing_in_flight(void **state)
{
	struct fixture *f = *state;
	struct budget_use use;
	f->rule.budget.up_bytes = 100;
	f->rule.budget.connections = 1;
	f->rule.budget.max_uses = 2;
	f->rule.budget.rate_uses = 2;
	f->rule.budget.rate_ms = 1000;
	assert_int_equal(begin(f, &use, 70), REASON_ALLOW_RULE);
	budget_spend(&use, 70, 0);
	replace_worker(f);
	assert_int_equal(pass(f, 31, 0), REASON_DENY_BUDGET);
	assert_int_equal(f->denial.used, 70);
	assert_int_equal(pass(f, 30, 0), REASON_ALLOW_RULE);
	replace_worker(f);
	assert_int_equal(pass(f, 1, 0), REASON_DENY_QUOTA);
	f->rule.budget.max_uses = f->rule.budget.up_bytes = POLICY_UNLIMITED;
	assert_int_equal(pass(f, 1, 0), REASON_DENY_RATE);
}

static void a_worker_that_dies_while_it_counts_leaves_a_table(void **state)
{
	struct fixture *f = *state;
	for (int round = 0; round < 20; round++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct fixture child = *f;
			child.budget = budget_open(f->fd);
			for (uint64_t i = 0;; i++) {
				unsigned sandbox;
				child.rule.key = i % 500;
				(void)pass(&child, 1, 1);
				(void)budget_add_sandbox(child.budget, "sb-x", &sandbox);
				if (i % 300 == 299)
					budget_remove_sandbox(child.budget, sandbox);
			}
		}
		(void)usleep(500U * (unsigned)(round % 7 + 1)); /* anywhere in it */
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	replace_worker(f);
	f->rule.key = 3;
	assert_int_equal(pass(f, 1, 1), REASON_ALLOW_RULE);
	budget_remove_sandbox(f->budget, f->sandbox);
}

static void a_sandbox_that_ended_unseen_makes_room_at_need(void **state)
{
	struct fixture *f = *state;
	unsigned sandbox;
	char id[SANDBOX_ID_BYTES];
	for (unsigned i = 1; i < BUDGET_SANDBOXES_MAX; i++) {
		(void)snprintf(id, sizeof(id), "sb-%u", i);
		assert_int_equal(budget_add_sandbox(f->budget, id, &sandbox), 0);
	}
	assert_int_equal(budget_add_sandbox(f->budget, "sb-over", &sandbox), -ENOSPC);
	f->rule.budget.requests = 1;
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	replace_worker(f); /* only sb-one is named to it */
	assert_int_equal(budget_add_sandbox(f->budget, "sb-over", &sandbox), 0);
	assert_int_equal(pass(f, 0, 0), REASON_DENY_BUDGET); /* it was not one of them */
}

static void a_file_that_is_no_table_is_refused(void **state)
{
	(void)state;
	auto_fd fd = memfd_create("short", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_null(budget_open(fd));
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_null(budget_open(fd));
}

static void what_a_hostile_worker_left_is_survived(void **state)
{
	struct fixture *f = *state;
	size_t size = (size_t)lseek(f->fd, 0, SEEK_END);
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	assert_true(memory != MAP_FAILED);
	memset(memory, 0xff, size);
	(void)munmap(memory, size);
	struct budget *old = f->budget;
	f->budget = budget_open(f->fd);
	assert_non_null(f->budget);
	(void)budget_add_sandbox(f->budget, "sb-one", &f->sandbox);
	(void)budget_add_sandbox(f->budget, "sb-two", &f->sandbox);
	f->rule.budget.up_bytes = 10;
	f->rule.budget.window_ms = 1000;
	f->rule.budget.rate_uses = f->rule.budget.rate_ms = 1;
	(void)pass(f, 1, 1);
	budget_remove_sandbox(f->budget, f->sandbox);
	budget_close(old);
}

/* --- a full table --- */

static void one_sandbox_leaves_room_for_others(void **state)
{
	struct fixture *f = *state;
	unsigned other;
	uint64_t mine = 0, theirs = 0;
	f->rule.key = 1;
	while (pass(f, 0, 0) == REASON_ALLOW_RULE) {
		mine++;
		f->rule.key++;
		assert_true(mine <= BUDGET_COUNTERS_MAX);
	}
	assert_int_equal(f->denial.kind, BUDGET_TABLE);
	assert_int_equal(f->denial.reason, REASON_DENY_LIMIT);
	assert_int_equal(mine, BUDGET_COUNTERS_MAX / 2);
	unsigned first = f->sandbox;
	assert_int_equal(budget_add_sandbox(f->budget, "sb-two", &other), 0);
	f->sandbox = other;
	for (f->rule.key = 1; pass(f, 0, 0) == REASON_ALLOW_RULE; f->rule.key++)
		theirs++;
	assert_int_equal(theirs, BUDGET_COUNTERS_MAX / 4);
	f->rule.observe = true; /* passes uncounted, and is written down */
	struct budget_use use;
	assert_int_equal(begin(f, &use, 0), REASON_OBSERVE_WOULD_DENY);
	assert_null(use.counter);
	budget_end(&use);
	f->rule.observe = false;
	budget_remove_sandbox(f->budget, first);
	assert_int_equal(pass(f, 0, 0), REASON_ALLOW_RULE);
	f->rule.key = 1; /* what there was is still found */
	f->rule.budget.max_uses = 1;
	assert_int_equal(pass(f, 0, 0), REASON_DENY_QUOTA);
}

static void a_use_goes_on_within_other_limits(void **state)
{
	struct fixture *f = *state;
	struct budget_use use, none = {0};
	f->rule.observe = true;
	assert_int_equal(begin(f, &use, 0), REASON_ALLOW_RULE);
	budget_spend(&use, 600, 300);
	assert_true(budget_up_room(&use, f->now_ms) == POLICY_UNLIMITED);
	assert_int_equal(use.deadline_ms, 0);
	f->rule.observe = false;
	f->rule.budget.up_bytes = 1000;
	f->rule.budget.down_bytes = 200;
	f->rule.budget.time_ms = 50;
	budget_renew(&use, &f->rule);
	assert_int_equal(budget_up_room(&use, f->now_ms), 400);
	assert_int_equal(budget_down_room(&use, f->now_ms), 0);
	assert_int_equal(use.deadline_ms, f->now_ms + 50);
	f->rule.budget = nothing_limited;
	budget_renew(&use, &f->rule);
	assert_true(budget_up_room(&use, f->now_ms) == POLICY_UNLIMITED);
	assert_int_equal(use.deadline_ms, 0);
	budget_end(&use);
	budget_renew(&none, &f->rule);
	assert_int_equal(budget_up_room(&none, f->now_ms), 0);
}

#define BUDGET_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BUDGET_TEST(bytes_up_hold_for_the_sandboxs_life),
		BUDGET_TEST(bytes_down_are_counted_beside),
		BUDGET_TEST(a_window_begins_with_a_use_and_lasts),
		BUDGET_TEST(a_window_that_passes_gives_room_to_a_use_in_flight),
		BUDGET_TEST(a_rate_lets_its_count_through_at_once_and_refills),
		BUDGET_TEST(rates_hold_over_a_long_run),
		BUDGET_TEST(uses_at_once_are_counted_down_again),
		BUDGET_TEST(uses_of_a_life_never_come_back),
		BUDGET_TEST(a_use_has_its_time),
		BUDGET_TEST(a_use_goes_on_within_other_limits),
		BUDGET_TEST(what_is_refused_counts_nowhere),
		BUDGET_TEST(observe_refuses_nothing_and_says_what_it_would),
		BUDGET_TEST(rules_and_sandboxes_have_counters_of_their_own),
		BUDGET_TEST(a_rules_next_version_goes_on_with_its_counter),
		BUDGET_TEST(an_ended_sandbox_leaves_nothing),
		BUDGET_TEST(a_new_worker_finds_what_was_used_and_nothing_in_flight),
		BUDGET_TEST(a_worker_that_dies_while_it_counts_leaves_a_table),
		BUDGET_TEST(a_sandbox_that_ended_unseen_makes_room_at_need),
		BUDGET_TEST(a_file_that_is_no_table_is_refused),
		BUDGET_TEST(what_a_hostile_worker_left_is_survived),
		BUDGET_TEST(one_sandbox_leaves_room_for_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
