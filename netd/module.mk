netd_SOURCES := netd/address_plan.c netd/confine.c netd/gateway.c netd/guard.c netd/lease.c netd/link.c \
	netd/listener.c netd/netns.c netd/nft.c netd/nft_rule.c netd/probe.c netd/ruleset.c netd/sample.c netd/server.c netd/sysctl.c
