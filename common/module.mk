common_SOURCES := common/address.c common/buf.c common/call_filter.c common/clock.c common/digest.c common/exposition.c common/failure.c \
	common/file.c common/id.c common/json.c common/log.c common/privilege.c common/reason.c common/resident.c \
	common/resolver.c common/slice.c common/uids.c common/upstream.c common/upstream_proxy.c
common_SOURCES += common/sign.c
