# Tests. A unit test is tests/unit/test_<folder>_<what>.c and links that folder's library with those it
# stands on; a fuzz target is tests/fuzz/fuzz_<folder>_<what>.c with its corpus in tests/fuzz/corpus/<folder>_<what>/.

LIBS_common := common
LIBS_policy := policy common
LIBS_audit := audit common
LIBS_ipc := ipc common
LIBS_netd := netd policy audit ipc common
LIBS_proxy := proxy policy audit ipc common
LIBS_gateway := netd proxy policy audit ipc common
LINK_gateway := -lcmocka
LIBS_export := export policy audit ipc common
LINK_export := -lcurl -lz
LINK_proxy := -Wl,--as-needed -lresolv -lhttp_parser -Wl,--no-as-needed
LIBS_launcher := sandbox-launcher policy audit ipc common
LIBS_report := report audit common
LIBS_cli := cli report sandbox-launcher policy audit ipc common

UNIT_SOURCES := $(wildcard tests/unit/test_*.c)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
UNIT_BINARIES := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/tests/%)
REPLAY_BINARIES := $(FUZZ_SOURCES:tests/fuzz/%.c=$(BUILD)/tests/replay_%)
FUZZER_BINARIES := $(FUZZ_SOURCES:tests/fuzz/%.c=build/fuzz/%)

# folder name in tests/unit/test_<folder>_<what>.c
test_folder = $(word 2,$(subst _, ,$(1)))
test_link = $(LINK_$(call test_folder,$(1)))
test_libs = $(foreach l,$(LIBS_$(call test_folder,$(1))),$(call lib,$(l)))

define unit_test
$(BUILD)/tests/$(1): $(BUILD)/obj/tests/unit/$(1).o $(call test_libs,$(1))
	@[ "$$(V)" = 1 ] || echo "  LINK    $$@"
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ $(call test_link,$(1)) $$(PKG_LIBS) -lcmocka
endef
$(foreach t,$(UNIT_SOURCES:tests/unit/%.c=%),$(eval $(call unit_test,$(t))))

define fuzz_replay
$(BUILD)/tests/replay_$(1): $(BUILD)/obj/tests/fuzz/$(1).o $(BUILD)/obj/tests/fuzz/replay.o $(call test_libs,$(1))
	@[ "$$(V)" = 1 ] || echo "  LINK    $$@"
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ $(call test_link,$(1)) $$(PKG_LIBS)
endef
$(foreach t,$(FUZZ_SOURCES:tests/fuzz/%.c=%),$(eval $(call fuzz_replay,$(t))))

# Coverage-guided fuzzing: `make fuzz FUZZ=fuzz_proxy_http1 FUZZ_SECONDS=60`
FUZZ_SECONDS ?= 60
define fuzzer
build/fuzz/$(1): tests/fuzz/$(1).c $(foreach l,$(LIBS_$(call test_folder,$(1))),$$($(subst -,_,$(l))_SOURCES))
	@mkdir -p $$(@D)
	clang $$(CPPFLAGS_ALL) -std=gnu17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $$@ $$^ $(call test_link,$(1)) $$(PKG_LIBS)
endef
$(foreach t,$(FUZZ_SOURCES:tests/fuzz/%.c=%),$(eval $(call fuzzer,$(t))))

.PHONY: unit san-test fuzz
unit: $(UNIT_BINARIES)
san-test:
	@tests/run.sh san
fuzz: build/fuzz/$(FUZZ)
	mkdir -p build/fuzz/work/$(FUZZ)
	build/fuzz/$(FUZZ) -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/work/$(FUZZ) tests/fuzz/corpus/$(FUZZ:fuzz_%=%)

# Run in a sandbox: static, so that it is one file, and never with sanitizers.
$(BUILD)/tests/probe_calls: tests/lab/probe_calls.c sandbox-launcher/filter_table.c sandbox-launcher/filter_table.h
	@[ "$(V)" = 1 ] || echo "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu17 $(WARN) -O1 -static -o $@ $(filter %.c,$^)

# Preloaded into a proxy whose clock a test sets.
$(BUILD)/tests/clock_step.so: tests/lab/clock_step.c
	@[ "$(V)" = 1 ] || echo "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu17 $(WARN) -O1 -shared -fPIC -o $@ $<

# What `make escape` runs in sandboxes; static for the same reason.
ESCAPE_SOURCES := $(wildcard tests/escape/*.c)
$(BUILD)/tests/escape_probe: $(ESCAPE_SOURCES) tests/escape/probe.h
	@[ "$(V)" = 1 ] || echo "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu17 $(WARN) -O1 -static -o $@ $(ESCAPE_SOURCES)

FAULT_SOURCES := $(wildcard tests/faults/*.c)
$(BUILD)/tests/fault: $(FAULT_SOURCES) tests/faults/fault.h
	@[ "$(V)" = 1 ] || echo "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu17 $(WARN) -O1 -static -o $@ $(FAULT_SOURCES)

# A benchmark is tests/bench/<folder>_bench.c; tests/bench/run.sh runs it.
BENCH_SOURCES := $(wildcard tests/bench/*_bench.c)
BENCH_BINARIES := $(BENCH_SOURCES:tests/bench/%.c=$(BUILD)/tests/%)
define bench_program
$(BUILD)/tests/$(1)_bench: $(BUILD)/obj/tests/bench/$(1)_bench.o $(foreach l,$(LIBS_$(1)),$(call lib,$(l)))
	@[ "$$(V)" = 1 ] || echo "  LINK    $$@"
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_ALL) $$(LDFLAGS_ALL) -o $$@ $$^ $(LINK_$(1)) $$(PKG_LIBS)
endef
$(foreach b,$(BENCH_SOURCES:tests/bench/%_bench.c=%),$(eval $(call bench_program,$(b))))

# The proxy without its log, for the row on recording: the object stands for the library's record.o. Never installed.
$(BUILD)/tests/eclusa-proxy-unrecorded: $(BUILD)/obj/proxy/main.o $(BUILD)/obj/tests/bench/unrecorded.o $(foreach l,$(LIBS_proxy),$(call lib,$(l)))
	@[ "$(V)" = 1 ] || echo "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)

# Both ends of a proxy's benchmark: proxies.py.
$(BUILD)/tests/load: $(patsubst %,$(BUILD)/obj/tests/bench/%.o,load load_client load_origin)
	@[ "$(V)" = 1 ] || echo "  LINK    $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)

.PHONY: bench-build
bench-build: $(BENCH_BINARIES) $(BUILD)/tests/eclusa-proxy-unrecorded $(BUILD)/tests/load

.PHONY: tests-build replay-build
tests-build: all unit $(BUILD)/tests/probe_calls $(BUILD)/tests/clock_step.so $(BUILD)/tests/escape_probe $(BUILD)/tests/fault
replay-build: $(REPLAY_BINARIES)

.PHONY: test test-v2 clients programs escape check bench soak
test:
	@packaging/deps.sh deps deps-test
	@tests/run.sh
# Control groups of version 2, in an emulated machine: not part of `test`.
test-v2:
	@packaging/deps.sh deps deps-v2
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/v2/run.sh
# What people fetch with, by variables and by capture, in a table: five minutes. NAMES="curl java" tries some.
clients:
	@packaging/deps.sh deps deps-test deps-clients
	@$(MAKE) --no-print-directory all
	@BUILD=$(abspath $(BUILD)) PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/clients/run.py $(NAMES)
# Real programs and CPython's own tests under the filter of system calls: a quarter of an hour.
programs:
	@packaging/deps.sh deps deps-programs
	@$(MAKE) --no-print-directory all
	@/usr/bin/python3 tests/programs/run.py $(BUILD)/eclusa $(NAMES)
# Classes of published escapes, in Eclusa and in what other sandboxes are installed: one table. PEERS=eclusa,bwrap WHY=1 JSON=1
escape:
	@packaging/deps.sh deps
	@$(MAKE) --no-print-directory all $(BUILD)/tests/escape_probe
	@PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/escape/run.py $(BUILD)/eclusa $(BUILD)/tests/escape_probe \
		$(if $(PEERS),--only $(PEERS)) $(if $(WHY),--why) $(if $(JSON),--json)
# Long: 1,000 kills under load, of which `test` does 50.
soak:
	@packaging/deps.sh deps deps-test
	@$(MAKE) --no-print-directory all
	@BUILD=$(abspath $(BUILD)) ECLUSA_AUDIT_KILLS=1000 ECLUSA_KILL_SEEDS=200 PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest \
		tests/integration/test_audit_kills.py tests/integration/test_kill.py -p no:cacheprovider -q
check:
	@tests/check.sh
bench:
	@packaging/deps.sh deps deps-bench
	@$(MAKE) --no-print-directory all bench-build
	@BUILD=$(BUILD) tests/bench/run.sh
