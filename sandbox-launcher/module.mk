sandbox_launcher_SOURCES := sandbox-launcher/cgroup.c sandbox-launcher/cgroup_v1.c \
	sandbox-launcher/cgroup_v2.c sandbox-launcher/collect.c sandbox-launcher/cpu_sampler.c sandbox-launcher/env.c \
	sandbox-launcher/filter.c sandbox-launcher/init.c sandbox-launcher/input.c \
	sandbox-launcher/launch.c sandbox-launcher/limits.c sandbox-launcher/mounts.c \
	sandbox-launcher/network.c sandbox-launcher/overlay.c sandbox-launcher/plan.c sandbox-launcher/program.c \
	sandbox-launcher/record.c sandbox-launcher/result.c \
	sandbox-launcher/result_text.c sandbox-launcher/hint.c \
	sandbox-launcher/run.c sandbox-launcher/spec.c sandbox-launcher/spec_json.c \
	sandbox-launcher/stream.c sandbox-launcher/supervise.c sandbox-launcher/userns.c \
	sandbox-launcher/view.c
sandbox_launcher_SOURCES += sandbox-launcher/network.c sandbox-launcher/program.c

# The system call filter is compiled while Eclusa is built: libseccomp takes 2 ms, a start has 4.
$(BUILD)/generated/filter_gen: sandbox-launcher/filter_gen.c common/cleanup.h
	@mkdir -p $(@D)
	@[ "$(V)" = 1 ] || echo "  CC      $<"
	$(Q)$(CC) -D_GNU_SOURCE -I. -std=gnu17 $(WARN) -O1 -o $@ $< $$(pkg-config --libs libseccomp)
$(BUILD)/generated/filter_program.h: $(BUILD)/generated/filter_gen
	$(Q)$< >$@.new && mv $@.new $@
$(BUILD)/obj/sandbox-launcher/filter.o: $(BUILD)/generated/filter_program.h
