sandbox_launcher_SOURCES := sandbox-launcher/cgroup.c sandbox-launcher/cgroup_v1.c \
	sandbox-launcher/cgroup_v2.c sandbox-launcher/cgroup_io.c sandbox-launcher/collect.c sandbox-launcher/cpu_sampler.c sandbox-launcher/env.c sandbox-launcher/event_lines.c \
	sandbox-launcher/filter.c sandbox-launcher/filter_table.c sandbox-launcher/init.c sandbox-launcher/input.c \
	sandbox-launcher/landlock.c sandbox-launcher/launch.c sandbox-launcher/layer.c sandbox-launcher/limits.c sandbox-launcher/mounts.c \
	sandbox-launcher/network.c sandbox-launcher/overlay.c sandbox-launcher/machine.c sandbox-launcher/plan.c sandbox-launcher/proc.c sandbox-launcher/point.c sandbox-launcher/probe.c sandbox-launcher/receipt.c \
	sandbox-launcher/notify.c sandbox-launcher/record.c sandbox-launcher/result.c \
	sandbox-launcher/result_text.c sandbox-launcher/hint.c \
	sandbox-launcher/rootfs.c sandbox-launcher/run.c sandbox-launcher/spec.c sandbox-launcher/spec_mounts.c sandbox-launcher/spec_json.c \
	sandbox-launcher/stream.c sandbox-launcher/supervise.c sandbox-launcher/userns.c \
	sandbox-launcher/alias.c sandbox-launcher/certificate.c sandbox-launcher/der.c sandbox-launcher/java_store.c \
	sandbox-launcher/nss_store.c sandbox-launcher/pem.c sandbox-launcher/sqlite_page.c sandbox-launcher/trust_files.c \
	sandbox-launcher/trust_places.c sandbox-launcher/variables.c \
	sandbox-launcher/view.c sandbox-launcher/violation.c
sandbox_launcher_SOURCES += sandbox-launcher/leased.c sandbox-launcher/network.c
