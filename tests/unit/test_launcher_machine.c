/* /proc/cpuinfo as a sandbox sees it: so many processors like the host's first one, or nothing. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "sandbox-launcher/machine.h"

#define X86                                                                                            \
	"processor\t: 3\nmodel name\t: Some: Model\nphysical id\t: 1\nsiblings\t: 8\ncore id\t\t: 5\n" \
	"cpu cores\t: 4\napicid\t\t: 9\ninitial apicid\t: 9\nflags\t\t: fpu avx2\npower management:\n"
#define ARM "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n"

static void processors_are_like_the_first(void **state)
{
	(void)state;
	static const struct {
		const char *host;
		unsigned count;
		const char *want;
	} cases[] = {
		{X86 "\nprocessor\t: 4\nflags\t\t: other\n\n", 1,
			"processor\t: 0\nmodel name\t: Some: Model\nphysical id\t: 0\nsiblings\t: 1\n"
			"core id\t\t: 0\ncpu cores\t: 1\napicid\t\t: 0\ninitial apicid\t: 0\n"
			"flags\t\t: fpu avx2\npower management:\n\n"},
		{ARM "\n", 2,
			ARM "\nprocessor\t: 1\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n"
			    "CPU part\t: 0xd0c\n\n"},
		{"vendor_id       : IBM/S390\nprocessor 0: version = 00\n", 2, ""},
		{"", 1, ""},
		{"processor\t: 0\nflags\t\t: cut", 1, "processor\t: 0\n\n"},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct buf text;
		buf_init(&text, 4096);
		assert_int_equal(
			machine_cpuinfo(slice_of(cases[i].host), cases[i].count, &text), 0);
		assert_int_equal(buf_append(&text, (struct slice){"", 1}), 0);
		assert_string_equal(buf_slice(&text).ptr, cases[i].want);
		buf_fini(&text);
	}
}

static void what_does_not_fit_is_an_error(void **state)
{
	(void)state;
	struct buf text;
	buf_init(&text, 64);
	assert_true(machine_cpuinfo(SLICE(ARM "\n"), 2, &text) < 0);
	buf_fini(&text);
}

static void processors_round_up_to_those_that_are_there(void **state)
{
	(void)state;
	assert_int_equal(machine_processors(1), 1);
	assert_int_equal(machine_processors(1000), 1);
	assert_true(machine_processors(1001) <= 2);
	assert_true(machine_processors(1024000) >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processors_are_like_the_first),
		cmocka_unit_test(what_does_not_fit_is_an_error),
		cmocka_unit_test(processors_round_up_to_those_that_are_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
