/*
 * See sysctl.h. A new namespace inherits IPv4 settings from the host (src_valid_mark=1, as VPN tools set it,
 * kills tproxy), so nothing is left to inheritance: `all`, `default` and `lo` get the same values.
 */
#include "netd/sysctl.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>

#define SYSCTL_ROOT "/proc/sys/net/"

struct sysctl_setting {
	const char *name;
	const char *value;
};

/* ip_forward first: changing it resets others. */
static const struct sysctl_setting common_settings[] = {
	{"ipv4/ip_forward", "0"},
	{"ipv4/ip_nonlocal_bind", "0"},
	{"ipv4/icmp_echo_ignore_broadcasts", "1"},
	{"ipv4/tcp_rmem", "4096 131072 262144"},
	{"ipv4/tcp_wmem", "4096 16384 262144"},
};

static const struct sysctl_setting gateway_settings[] = {
	/* refusals are limited a sandbox by nft; the kernel's limit left probes unanswered */
	{"ipv4/icmp_ratelimit", "0"},
	{"ipv4/icmp_ratemask", "0"},
	/* neighbours are permanent entries: ARP teaches the gateway nothing */
	{"ipv4/conf/all/arp_ignore", "8"},
};

/* Under conf/all, conf/default and conf/lo. */
static const struct sysctl_setting device_settings[] = {
	{"forwarding", "0"},
	{"rp_filter", "0"},
	{"src_valid_mark", "0"},
	{"accept_redirects", "0"},
	{"secure_redirects", "0"},
	{"send_redirects", "0"},
	{"accept_source_route", "0"},
	{"route_localnet", "0"},
	{"accept_local", "0"},
	{"proxy_arp", "0"},
	{"arp_accept", "0"},
};

static const struct sysctl_setting device_settings_v6[] = {
	{"disable_ipv6", "1"},
	{"forwarding", "0"},
	{"accept_ra", "0"},
	{"accept_redirects", "0"},
	{"accept_source_route", "0"},
};

static const char *const devices[] = {"all", "default", "lo"};

/** Where /proc/sys can't be written (a container's), a value that is right already is right. */
static bool sysctl_has(const char *path, const char *value)
{
	struct buf text;
	buf_init(&text, 256);
	bool same = file_read(AT_FDCWD, path, 255, &text) == 0 &&
		slice_equal(slice_trim(slice_part(buf_slice(&text), 0, strlen(value))),
			slice_of(value)) &&
		buf_len(&text) == strlen(value) + 1;
	buf_fini(&text);
	return same;
}

static int sysctl_write(const char *name, const char *value, struct failure *why)
{
	char path[128];
	(void)snprintf(path, sizeof(path), SYSCTL_ROOT "%s", name);
	int r = file_write_text(AT_FDCWD, path, value);
	if (r == 0 || ((r == -EROFS || r == -EACCES || r == -EPERM) && sysctl_has(path, value)))
		return 0;
	return failure_errno(why, r, "can't set %s to %s", path, value);
}

static int sysctl_write_all(
	const struct sysctl_setting *settings, size_t count, struct failure *why)
{
	for (size_t i = 0; i < count; i++) {
		int r = sysctl_write(settings[i].name, settings[i].value, why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int sysctl_write_devices(const char *family, const struct sysctl_setting *settings,
	size_t count, struct failure *why)
{
	for (size_t d = 0; d < array_size(devices); d++) {
		for (size_t i = 0; i < count; i++) {
			char name[96];
			(void)snprintf(name, sizeof(name), "%s/conf/%s/%s", family, devices[d],
				settings[i].name);
			int r = sysctl_write(name, settings[i].value, why);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int sysctl_apply(enum sysctl_place place, struct failure *why)
{
	int r = sysctl_write_all(common_settings, array_size(common_settings), why);
	if (r == 0)
		r = sysctl_write_devices("ipv4", device_settings, array_size(device_settings), why);
	if (r == 0 && place == SYSCTL_GATEWAY)
		r = sysctl_write_all(gateway_settings, array_size(gateway_settings), why);
	if (r < 0)
		return r;
	if (access(SYSCTL_ROOT "ipv6", F_OK) < 0 && errno == ENOENT)
		return 0; /* a kernel without IPv6 */
	return sysctl_write_devices(
		"ipv6", device_settings_v6, array_size(device_settings_v6), why);
}
