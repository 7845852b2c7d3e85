/*
 * See filter.h. First the architecture is compared, then the number is looked for by halving ranges of numbers that share an
 * answer, then the rows of that number are tried in their order.
 */
#include "sandbox-launcher/filter.h"

#include "common/cleanup.h"
#include "sandbox-launcher/filter_table.h"

#include <assert.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the table of system calls is for x86-64 and arm64"
#endif
static_assert(
	__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of an argument comes first");

#define KILL   SECCOMP_RET_KILL_PROCESS
#define ABSENT (SECCOMP_RET_ERRNO | ENOSYS)
/* The number is a mark for load_alone(): the kernel takes no notice of it. */
#define ANSWERED (SECCOMP_RET_USER_NOTIF | 1)

/* Numbers from @first on, up to the next range's, that share an answer. */
struct range {
	uint32_t first;
	const struct filter_row *row; /* of one number that has tests; else NULL, and */
	uint32_t answer;
};

enum { RANGES_MAX = FILTER_NUMBER_MAX + 5 };

static void emit(struct filter_program *p, uint16_t code, uint32_t k)
{
	assert(p->count < FILTER_CODE_MAX);
	p->code[p->count++] = (struct sock_filter)BPF_STMT(code, k);
}

static void emit_jump(struct filter_program *p, uint16_t code, uint32_t k, size_t yes, size_t no)
{
	assert(p->count < FILTER_CODE_MAX && yes <= UINT8_MAX && no <= UINT8_MAX);
	p->code[p->count++] =
		(struct sock_filter){.code = code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = k};
}

static void emit_load(struct filter_program *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static uint32_t answer_of(const struct filter_row *row)
{
	switch (row->verdict) {
	case FILTER_ALLOW:
		return SECCOMP_RET_ALLOW;
	case FILTER_QUIET:
		return SECCOMP_RET_ERRNO | (uint32_t)row->error;
	case FILTER_TELL:
		return SECCOMP_RET_USER_NOTIF;
	case FILTER_ANSWER:
		return ANSWERED;
	}
	return KILL;
}

static size_t test_length(const struct filter_test *test)
{
	return test->how == FILTER_ANY ? 0 : test->how == FILTER_GIVEN ? 4 : 2;
}

/* @rest: instructions of the row after this test, which a test that fails jumps over. */
static void emit_test(struct filter_program *p, const struct filter_test *test, size_t rest)
{
	size_t low = offsetof(struct seccomp_data, args) + 8 * (size_t)test->argument;
	switch (test->how) {
	case FILTER_ANY:
		return;
	case FILTER_IS:
		emit_load(p, low);
		emit_jump(p, BPF_JMP | BPF_JEQ | BPF_K, test->value, 0, rest);
		return;
	case FILTER_BITS:
		emit_load(p, low);
		emit_jump(p, BPF_JMP | BPF_JSET | BPF_K, test->value, 0, rest);
		return;
	case FILTER_GIVEN:
		emit_load(p, low);
		emit_jump(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2);
		emit_load(p, low + 4);
		emit_jump(p, BPF_JMP | BPF_JEQ | BPF_K, 0, rest, 0);
		return;
	}
}

static void emit_rows(struct filter_program *p, const struct filter_row *row)
{
	const struct filter_row *end = FILTER_ROWS + FILTER_ROW_COUNT;
	int number = row->number;
	for (; row < end && row->number == number; row++) {
		if (row->bound && !p->bound)
			continue;
		size_t rest = 1;
		for (size_t t = 0; t < FILTER_TESTS_MAX; t++)
			rest += test_length(&row->tests[t]);
		for (size_t t = 0; t < FILTER_TESTS_MAX; t++) {
			rest -= test_length(&row->tests[t]);
			emit_test(p, &row->tests[t], rest);
		}
		emit(p, BPF_RET | BPF_K, answer_of(row));
	}
	assert(row[-1].tests[0].how == FILTER_ANY); /* or it would run into the next number's */
}

/* Let the comparison at @jump go to what comes next when it holds. It reaches 255 instructions; beyond, it goes by a jump that does not compare. */
static void set_distance(struct filter_program *p, size_t jump)
{
	size_t over = p->count - jump - 1;
	struct sock_filter *at = &p->code[jump];
	if (over <= UINT8_MAX) {
		at->jt = (uint8_t)over;
		return;
	}
	emit(p, BPF_JMP | BPF_JA,
		0); /* room for it; what it goes over moves, whose own jumps are relative */
	memmove(at + 2, at + 1, over * sizeof(*at));
	at[1] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)over);
	at->jf = 1;
}

/* The number is in the accumulator. */
static void emit_ranges(struct filter_program *p, const struct range *ranges, size_t count)
{
	if (count == 1) {
		if (ranges->row != NULL)
			emit_rows(p, ranges->row);
		else
			emit(p, BPF_RET | BPF_K, ranges->answer);
		return;
	}
	size_t half = count / 2, jump = p->count;
	emit_jump(p, BPF_JMP | BPF_JGE | BPF_K, ranges[half].first, 0, 0);
	emit_ranges(p, ranges, half);
	set_distance(p, jump);
	emit_ranges(p, ranges + half, count - half);
}

static size_t find_ranges(struct range ranges[static RANGES_MAX], bool bound)
{
	const struct filter_row *first[FILTER_NUMBER_MAX + 1] = {NULL};
	for (size_t i = FILTER_ROW_COUNT; i-- > 0;)
		if (FILTER_ROWS[i].number >= 0 && (bound || !FILTER_ROWS[i].bound)) {
			assert(FILTER_ROWS[i].number <= FILTER_NUMBER_MAX);
			first[FILTER_ROWS[i].number] = &FILTER_ROWS[i];
		}
	size_t count = 0;
	for (uint32_t n = 0; n <= FILTER_NUMBER_MAX; n++) {
		struct range range = {.first = n, .answer = ABSENT};
		if (first[n] != NULL && first[n]->tests[0].how != FILTER_ANY)
			range.row = first[n];
		else if (first[n] != NULL)
			range.answer = answer_of(first[n]);
		bool same = count > 0 && range.row == NULL && ranges[count - 1].row == NULL &&
			ranges[count - 1].answer == range.answer;
		if (!same)
			ranges[count++] = range;
	}
	ranges[count++] = (struct range){.first = FILTER_NUMBER_MAX + 1, .answer = ABSENT};
#ifdef __x86_64__
	ranges[count++] = (struct range){.first = FILTER_X32_BIT, .answer = KILL};
	ranges[count++] = (struct range){.first = FILTER_X32_BIT << 1, .answer = ABSENT};
#endif
	return count;
}

void filter_build(struct filter_program *ret, bool bound)
{
	struct range ranges[RANGES_MAX];
	size_t count = find_ranges(ranges, bound);
	ret->count = 0;
	ret->bound = bound;
	emit_load(ret, offsetof(struct seccomp_data, arch));
	emit_jump(ret, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	emit(ret, BPF_RET | BPF_K, KILL);
	emit_load(ret, offsetof(struct seccomp_data, nr));
	emit_ranges(ret, ranges, count);
}

static int load(const struct sock_fprog *program, unsigned flags)
{
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
	return r < 0 ? -errno : (int)r;
}

/* Nobody is there to answer for the kernel, so it does. */
static int load_alone(const struct filter_program *program)
{
	struct filter_program alone = *program;
	for (unsigned short i = 0; i < alone.count; i++)
		if (alone.code[i].code == (BPF_RET | BPF_K) && alone.code[i].k == ANSWERED)
			alone.code[i].k = SECCOMP_RET_ALLOW;
	const struct sock_fprog fprog = {.len = alone.count, .filter = alone.code};
	return load(&fprog, 0);
}

int filter_load(const struct filter_program *program, int *ret_listener)
{
	const struct sock_fprog fprog = {
		.len = program->count,
		.filter = (struct sock_filter *)(uintptr_t)program->code, /* it only reads it */
	};
	int r = load(
		&fprog, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
	if (r == -EINVAL) /* before Linux 5.19 */
		r = load(&fprog, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (r >= 0) {
		*ret_listener = r;
		return 0;
	}
	if (r != -EBUSY) /* there is a listener: who started us reads our refusals */
		return r;
	r = load_alone(program);
	if (r == 0)
		*ret_listener = -1;
	return r;
}
