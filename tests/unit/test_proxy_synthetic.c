/* Names of sandboxes and the addresses that stand for them, over the death of a worker and beyond the table's room. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/limits.h"
#include "proxy/synthetic.h"

#include <stdio.h>
#include <sys/mman.h>

struct sandbox_number {
	unsigned number;
	char id[SANDBOX_ID_BYTES];
};

static const struct sandbox_number one = {3, "sb-one"}, other_one = {4, "sb-other"};

struct fixture {
	int fd;
	struct synthetic *table;
};

static void add(struct fixture *f, const struct sandbox_number *s)
{
	synthetic_add_sandbox(f->table, s->number, s->id);
}

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->fd = synthetic_create();
	assert_true(f->fd >= 0);
	f->table = synthetic_open(f->fd);
	assert_non_null(f->table);
	add(f, &one);
	add(f, &other_one);
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	synthetic_close(f->table);
	fd_close(&f->fd);
	free(f);
	return 0;
}

static bool give(struct fixture *f, const struct sandbox_number *s, const char *name,
	struct address *ret_address)
{
	struct host host;
	assert_int_equal(host_parse(slice_of(name), &host), 0);
	return synthetic_give(f->table, s->number, &host, ret_address);
}

static const char *name_of(
	struct fixture *f, const struct sandbox_number *s, const struct address *a)
{
	const struct host *host = synthetic_find(f->table, s->number, a);
	return host != NULL ? host->name : NULL;
}

static void assert_stands_for(struct fixture *f, const struct sandbox_number *s,
	const struct address *a, const char *name)
{
	const char *found = name_of(f, s, a);
	if (found == NULL)
		fail_msg("stands for nothing, not for %s", name);
	assert_string_equal(found, name);
}

static void a_name_keeps_its_address(void **state)
{
	struct fixture *f = *state;
	struct address first, again, other;
	assert_true(give(f, &one, "a.test", &first));
	assert_false(give(f, &one, "a.test", &again));
	assert_true(address_equal(&first, &again));
	assert_true(give(f, &one, "b.test", &other));
	assert_false(address_equal(&first, &other));
	assert_true(synthetic_is(&first));
	struct host host;
	assert_int_equal(host_parse(SLICE("b.test"), &host), 0);
	assert_true(synthetic_has(f->table, one.number, &host));
	assert_false(synthetic_has(f->table, other_one.number, &host));
	assert_stands_for(f, &one, &first, "a.test");
	assert_stands_for(f, &one, &other, "b.test");
}

static void an_address_means_nothing_in_another_sandbox(void **state)
{
	struct fixture *f = *state;
	struct address a;
	(void)give(f, &one, "a.test", &a);
	assert_null(name_of(f, &other_one, &a));
	struct address b;
	(void)give(f, &other_one, "b.test", &b);
	assert_stands_for(f, &other_one, &b, "b.test");
	assert_stands_for(f, &one, &a, "a.test");
}

static void addresses_that_were_not_given_stand_for_nothing(void **state)
{
	struct fixture *f = *state;
	static const char *const texts[] = {"198.18.0.0", "198.18.0.1", "198.19.255.255",
		"198.17.0.1", "198.20.0.1", "10.0.0.1", "::", "2001:db8::1", "::ffff:198.18.0.1"};
	struct address a;
	for (size_t i = 0; i < array_size(texts); i++) {
		assert_int_equal(address_parse(slice_of(texts[i]), &a), 0);
		assert_null(name_of(f, &one, &a));
	}
	(void)give(f, &one, "a.test", &a);
	struct address beside = a;
	beside.bytes[3]++;
	assert_null(name_of(f, &one, &beside));
	a.bytes[1] ^= 1;
	assert_null(name_of(f, &one, &a));
}

static void a_worker_that_replaces_a_dead_one_knows_every_address(void **state)
{
	struct fixture *f = *state;
	struct address a, b;
	(void)give(f, &one, "a.test", &a);
	struct synthetic *dead = f->table; /* nothing is closed in order */
	f->table = synthetic_open(f->fd);
	assert_non_null(f->table);
	add(f, &one);
	assert_stands_for(f, &one, &a, "a.test");
	assert_false(give(f, &one, "a.test", &b));
	assert_true(address_equal(&a, &b));
	assert_true(give(f, &one, "b.test", &b));
	assert_false(address_equal(&a, &b));
	synthetic_close(dead);
}

static void a_new_sandbox_has_none_of_its_predecessors_names(void **state)
{
	struct fixture *f = *state;
	struct address a;
	(void)give(f, &one, "a.test", &a);
	synthetic_add_sandbox(
		f->table, one.number, other_one.id); /* the end of the first was missed */
	assert_null(name_of(f, &one, &a));
	(void)give(f, &one, "a.test", &a);
	synthetic_remove_sandbox(f->table, one.number);
	add(f, &one);
	assert_null(name_of(f, &one, &a));
}

static void numbered(char to[static 32], unsigned i)
{
	(void)snprintf(to, 32, "n%u.wild.test", i);
}

static void the_name_that_was_used_least_recently_makes_room(void **state)
{
	struct fixture *f = *state;
	char name[32];
	struct address all[SYNTHETIC_NAMES_MAX], beyond, other;
	(void)give(f, &other_one, "o.test", &other);
	for (unsigned i = 0; i < SYNTHETIC_NAMES_MAX; i++) {
		numbered(name, i);
		assert_true(give(f, &one, name, &all[i]));
	}
	assert_stands_for(f, &one, &all[0], "n0.wild.test"); /* a connection is a use */
	numbered(name, 1);
	assert_false(give(f, &one, name, &beyond)); /* and so is a question */
	assert_true(give(f, &one, "beyond.test", &beyond));
	assert_null(name_of(f, &one, &all[2]));
	for (unsigned i = 0; i < SYNTHETIC_NAMES_MAX; i++) {
		numbered(name, i);
		assert_false(address_equal(&beyond, &all[i]));
		if (i != 2)
			assert_stands_for(f, &one, &all[i], name);
	}
	assert_stands_for(f, &one, &beyond, "beyond.test");
	assert_stands_for(f, &other_one, &other, "o.test"); /* whatever others do */
}

/** More names than there are addresses. */
static void an_address_in_use_is_never_given_again(void **state)
{
	struct fixture *f = *state;
	struct address kept, a, before = {0};
	char name[32];
	(void)give(f, &one, "kept.test", &kept);
	for (unsigned i = 0; i < 132000; i++) {
		numbered(name, i);
		assert_true(give(f, &one, name, &a));
		assert_true(synthetic_is(&a));
		assert_false(address_equal(&a, &kept));
		assert_false(address_equal(&a, &before));
		before = a;
		if (i % 256 == 0)
			assert_stands_for(f, &one, &kept, "kept.test");
	}
	assert_stands_for(f, &one, &a, name);
}

static void a_request_id_is_taken_once(void **state)
{
	struct fixture *f = *state;
	char id[SYNTHETIC_REQUEST_BYTES];
	struct address a;
	(void)give(f, &one, "a.test", &a);
	assert_false(synthetic_take_request(f->table, one.number, &a, id));
	synthetic_set_request(f->table, one.number, &a, "req-0123456789ab");
	assert_false(synthetic_take_request(f->table, other_one.number, &a, id));
	assert_true(synthetic_take_request(f->table, one.number, &a, id));
	assert_string_equal(id, "req-0123456789ab");
	assert_false(synthetic_take_request(f->table, one.number, &a, id));
	synthetic_set_request(f->table, one.number, &a, "longer-than-any-request-id-may-be");
	assert_false(synthetic_take_request(f->table, one.number, &a, id));
}

/** What a worker that was taken over could leave behind. */
static void memory_that_is_no_table_names_no_host(void **state)
{
	struct fixture *f = *state;
	struct address a;
	char id[SYNTHETIC_REQUEST_BYTES];
	(void)give(f, &one, "a.test", &a);
	/* The parts up to ours; all of the file would be gigabytes. */
	size_t len = 8u << 20;
	static const unsigned char patterns[] = {0xff, 'A', 0x01, '.'};
	for (size_t i = 0; i < array_size(patterns); i++) {
		void *raw = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
		assert_ptr_not_equal(raw, MAP_FAILED);
		memset(raw, patterns[i], len);
		assert_int_equal(munmap(raw, len), 0);
		const struct host *host = synthetic_find(f->table, one.number, &a);
		assert_true(host == NULL || memchr(host->name, '\0', HOST_NAME_BYTES) != NULL);
		(void)synthetic_take_request(f->table, one.number, &a, id);
		add(f, &one);
		assert_true(give(f, &one, "b.test", &a));
		assert_stands_for(f, &one, &a, "b.test");
	}
}

static void other_memory_is_refused(void **state)
{
	(void)state;
	auto_fd fd = memfd_create("short", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_null(synthetic_open(fd));
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_null(synthetic_open(fd));
	assert_null(synthetic_open(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_name_keeps_its_address, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			an_address_means_nothing_in_another_sandbox, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(addresses_that_were_not_given_stand_for_nothing,
			fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			a_worker_that_replaces_a_dead_one_knows_every_address, fixture_open,
			fixture_close),
		cmocka_unit_test_setup_teardown(a_new_sandbox_has_none_of_its_predecessors_names,
			fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(the_name_that_was_used_least_recently_makes_room,
			fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			an_address_in_use_is_never_given_again, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			a_request_id_is_taken_once, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			memory_that_is_no_table_names_no_host, fixture_open, fixture_close),
		cmocka_unit_test(other_memory_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
