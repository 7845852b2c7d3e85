#include "tests/unit/audit_setup.h"

#include <sys/wait.h>

#define MANY 20000

/** Bytes of a given length that name a number. */
static struct slice numbered(char *storage, size_t len, unsigned number)
{
	memset(storage, 'x', len);
	int head = snprintf(storage, len, "{%u ", number);
	storage[head] = 'x';
	memcpy(storage + len - 4, "}}}}", 4);
	return (struct slice){storage, len};
}

static unsigned number_of(struct slice packed)
{
	return (unsigned)strtoul(packed.ptr + 1, NULL, 10);
}

static void lines_come_out_whole_and_in_order_around_the_end(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[AUDIT_PACKED_BYTES_MAX], out[AUDIT_PACKED_BYTES_MAX];
	struct slice got;
	rig_open(&rig);
	for (unsigned i = 0; i < 3000; i++) { /* more than twice the ring's size */
		size_t len = 16 + (i * 977) % (AUDIT_PACKED_BYTES_MAX - 15);
		assert_int_equal(audit_ring_finish(rig.ring, -1, numbered(in, len, i)), 0);
		assert_int_equal(audit_ring_peek(rig.ring, out, &got), 1);
		assert_int_equal(got.len, len);
		assert_memory_equal(got.ptr, in, len);
		audit_ring_advance(rig.ring);
	}
	assert_int_equal(audit_ring_peek(rig.ring, out, &got), 0);
	rig_close(&rig);
}

static void a_peeked_line_stays_until_advanced(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[64], out[AUDIT_PACKED_BYTES_MAX];
	struct slice got;
	rig_open(&rig);
	assert_int_equal(audit_ring_finish(rig.ring, -1, numbered(in, 64, 5)), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(audit_ring_peek(rig.ring, out, &got), 1);
		assert_int_equal(number_of(got), 5);
	}
	audit_ring_advance(rig.ring);
	assert_int_equal(audit_ring_peek(rig.ring, out, &got), 0);
	rig_close(&rig);
}

static void an_open_decision_is_there_until_it_is_finished(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[64], out[AUDIT_PACKED_BYTES_MAX];
	struct slice got;
	rig_open(&rig);
	int first = audit_ring_open(rig.ring, numbered(in, 64, 1));
	int second = audit_ring_open(rig.ring, numbered(in, 64, 2));
	assert_true(first >= 0 && second >= 0 && first != second);
	assert_int_equal(audit_ring_finish(rig.ring, first, numbered(in, 64, 3)), 0);
	assert_int_equal(audit_ring_peek(rig.ring, out, &got), 1);
	assert_int_equal(number_of(got), 3);
	assert_int_equal(audit_ring_take_open(rig.ring, out, &got), 1);
	assert_int_equal(number_of(got), 2);
	assert_int_equal(audit_ring_take_open(rig.ring, out, &got), 0);
	rig_close(&rig);
}

static void slots_run_out_with_an_error_and_come_back(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[64];
	int slots[AUDIT_RING_SLOTS], count = 0;
	rig_open(&rig);
	while (count < AUDIT_RING_SLOTS &&
		(slots[count] = audit_ring_open(rig.ring, numbered(in, 64, 1))) >= 0)
		count++;
	assert_int_equal(count, AUDIT_RING_SLOTS - 1);
	assert_int_equal(audit_ring_open(rig.ring, numbered(in, 64, 1)), -ENOSPC);
	assert_false(audit_ring_has_room(rig.ring, 0));
	assert_int_equal(audit_ring_finish(rig.ring, slots[7], numbered(in, 64, 1)), 0);
	assert_true(audit_ring_has_room(rig.ring, 0));
	assert_true(audit_ring_open(rig.ring, numbered(in, 64, 1)) >= 0);
	rig_close(&rig);
}

/** Two take what they can, one after the other: each time something is left for the next. */
static void one_sandbox_leaves_slots_for_others(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[64];
	unsigned held[3] = {0};
	rig_open(&rig);
	for (size_t i = 0; i < array_size(held); i++) {
		while (audit_ring_has_room(rig.ring, held[i])) {
			assert_true(audit_ring_open(rig.ring, numbered(in, 64, 1)) >= 0);
			held[i]++;
		}
	}
	unsigned usable = AUDIT_RING_SLOTS - 1;
	assert_int_equal(held[0], usable * AUDIT_RING_SHARE / (AUDIT_RING_SHARE + 1) + 1);
	assert_true(held[1] > 90 && held[2] > 5);
	assert_true(audit_ring_has_room(rig.ring, 0));
	rig_close(&rig);
}

static void a_full_ring_keeps_what_was_decided_and_counts_what_was_not(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[AUDIT_PACKED_BYTES_MAX], out[AUDIT_PACKED_BYTES_MAX];
	struct slice got;
	unsigned written = 0, read = 0, last = 0;
	rig_open(&rig);
	int slot = audit_ring_open(rig.ring, numbered(in, 64, 99999));
	while (audit_ring_finish(rig.ring, -1, numbered(in, sizeof(in), written)) == 0)
		written++;
	assert_int_equal(written, AUDIT_RING_BYTES / (AUDIT_PACKED_BYTES_MAX + 8));
	assert_false(audit_ring_has_room(rig.ring, 0));
	assert_int_equal(audit_ring_lost(rig.ring), 1);
	assert_int_equal(audit_ring_finish(rig.ring, slot, numbered(in, sizeof(in), 77777)),
		-EMSGSIZE); /* it would have to wait in a slot */
	assert_int_equal(
		audit_ring_finish(rig.ring, slot, numbered(in, AUDIT_SLOT_BYTES_MAX, 77777)), 0);
	for (; audit_ring_peek(rig.ring, out, &got) == 1; read++) {
		last = number_of(got);
		audit_ring_advance(rig.ring);
	}
	assert_int_equal(read, written + 1);
	assert_int_equal(last, 77777);
	assert_int_equal(audit_ring_take_open(rig.ring, out, &got), 0);
	assert_true(audit_ring_has_room(rig.ring, 0));
	rig_close(&rig);
}

static void a_stalled_recorder_leaves_no_room(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	assert_true(audit_ring_has_room(rig.ring, 0));
	audit_ring_set_stalled(rig.ring, true);
	assert_false(audit_ring_has_room(rig.ring, 0));
	audit_ring_set_stalled(rig.ring, false);
	assert_true(audit_ring_has_room(rig.ring, 0));
	rig_close(&rig);
}

static void a_sleeper_is_told_once(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	assert_false(audit_ring_wants_wake(rig.ring));
	audit_ring_will_sleep(rig.ring);
	assert_true(audit_ring_wants_wake(rig.ring));
	assert_false(audit_ring_wants_wake(rig.ring));
	rig_close(&rig);
}

/** Every 32-bit word of the file's first page, and of the ring's first record, set to nonsense in turn. */
static void nonsense_in_the_memory_is_refused(void **state)
{
	(void)state;
	static char in[64], out[AUDIT_PACKED_BYTES_MAX];
	static const uint32_t values[] = {1, 7, 0x7fffffff, 0xffffffff, AUDIT_RING_BYTES + 1};
	for (off_t at = 64; at < 512; at += 4) {
		for (size_t v = 0; v < array_size(values); v++) {
			struct audit_rig rig;
			struct slice got;
			int lines = 0;
			rig_open(&rig);
			assert_int_equal(audit_ring_finish(rig.ring, -1, numbered(in, 64, 1)), 0);
			assert_int_equal(pwrite(rig.ring_fd, &values[v], 4, at), 4);
			while (audit_ring_peek(rig.ring, out, &got) != 0 && lines++ < MANY)
				audit_ring_advance(rig.ring);
			assert_true(lines < MANY);
			(void)audit_ring_has_room(rig.ring, 0);
			rig_close(&rig);
		}
	}
}

static void other_files_are_no_rings(void **state)
{
	(void)state;
	struct audit_rig rig;
	rig_open(&rig);
	assert_null(audit_ring_map(rig.segment_fd));
	assert_int_equal(pwrite(rig.ring_fd, "x", 1, 0), 1);
	assert_null(audit_ring_map(rig.ring_fd));
	rig_close(&rig);
}

/** Two processes: every line arrives, in order, and the consumer never misses a wake. */
static void producer_and_consumer_run_at_once(void **state)
{
	(void)state;
	struct audit_rig rig;
	static char in[600], out[AUDIT_PACKED_BYTES_MAX];
	int wake[2];
	rig_open(&rig);
	assert_int_equal(pipe2(wake, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (unsigned i = 0; i < MANY; i++) {
			struct slice entry = numbered(in, 100 + i % 500, i);
			int slot = audit_ring_open(rig.ring, entry);
			while (slot < 0 || !audit_ring_has_room(rig.ring, 0))
				slot = slot < 0 ? audit_ring_open(rig.ring, entry) : slot;
			if (audit_ring_finish(rig.ring, slot, entry) < 0)
				_exit(1);
			if (audit_ring_wants_wake(rig.ring) && write(wake[1], "", 1) != 1)
				_exit(2);
		}
		_exit(0);
	}
	for (unsigned next = 0; next < MANY;) {
		struct slice got;
		char byte;
		int r = audit_ring_peek(rig.ring, out, &got);
		if (r == 0) {
			audit_ring_will_sleep(rig.ring);
			r = audit_ring_peek(rig.ring, out, &got);
			if (r == 0)
				assert_int_equal(read(wake[0], &byte, 1), 1);
		}
		if (r == 0)
			continue;
		assert_int_equal(r, 1);
		assert_int_equal(number_of(got), next++);
		audit_ring_advance(rig.ring);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fd_close(&wake[0]);
	fd_close(&wake[1]);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_come_out_whole_and_in_order_around_the_end),
		cmocka_unit_test(a_peeked_line_stays_until_advanced),
		cmocka_unit_test(an_open_decision_is_there_until_it_is_finished),
		cmocka_unit_test(slots_run_out_with_an_error_and_come_back),
		cmocka_unit_test(one_sandbox_leaves_slots_for_others),
		cmocka_unit_test(a_full_ring_keeps_what_was_decided_and_counts_what_was_not),
		cmocka_unit_test(a_stalled_recorder_leaves_no_room),
		cmocka_unit_test(a_sleeper_is_told_once),
		cmocka_unit_test(nonsense_in_the_memory_is_refused),
		cmocka_unit_test(other_files_are_no_rings),
		cmocka_unit_test(producer_and_consumer_run_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
