/*
 * See sysctl.h. A new namespace inherits IPv4 settings from the host (src_valid_mark=1, as VPN
 * tools set it, kills tproxy), so nothing is left to inheritance: `all`, `default` and `lo` get the
 * same values.
 */
#include "netd/sysctl.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SYSCTL_V4 "/proc/sys/net/ipv4"
#define SYSCTL_V6 "/proc/sys/net/ipv6"

struct sysctl_setting {
	const char *name;
	const char *value;
};

/* ip_forward first: changing it resets others. */
static const struct sysctl_setting common_settings[] = {
	{"ip_forward", "0"},
	{"tcp_rmem", "4096\t131072\t262144"},
	{"tcp_wmem", "4096\t16384\t262144"},
};

static const struct sysctl_setting gateway_settings[] = {
	/* refusals are limited a sandbox by nft; the kernel's limit left probes unanswered */
	{"icmp_ratelimit", "0"},
	{"icmp_ratemask", "0"},
	{"ip_nonlocal_bind", "0"},
	/* DNS listens at 53 without one more capability: nobody else makes sockets here */
	{"ip_unprivileged_port_start", "53"},
	/* a queue of half-open connections that is full keeps nobody out */
	{"tcp_syncookies", "1"},
	/* neighbours are permanent entries: ARP teaches the gateway nothing */
	{"conf/all/arp_ignore", "8"},
};

/* Under conf/all, conf/default and conf/lo. */
static const struct sysctl_setting device_settings[] = {
	{"forwarding", "0"},
	{"rp_filter", "0"},
	{"src_valid_mark", "0"},
	{"accept_redirects", "0"},
	{"send_redirects", "0"},
	{"accept_source_route", "0"},
	{"route_localnet", "0"},
};

static const struct sysctl_setting gateway_device_settings[] = {
	{"accept_local", "0"},
	{"proxy_arp", "0"},
	{"arp_accept", "0"},
};

/* With IPv6 off its other settings have nothing to rule. */
static const struct sysctl_setting device_settings_v6[] = {
	{"disable_ipv6", "1"},
};

static const char *const devices[] = {"all", "default", "lo"};

/** A family's folder of settings, in the namespace that was current when it was opened. */
struct sysctl_folder {
	int fd;
	const char *path;
};

/** Whether the file says @value and a newline. */
static bool sysctl_has(int fd, const char *value)
{
	char text[128];
	ssize_t got = pread(fd, text, sizeof(text), 0);
	size_t len = strlen(value);
	return got == (ssize_t)len + 1 && memcmp(text, value, len) == 0 && text[len] == '\n';
}

/**
 * Make a setting that is not so already: many writes take the kernel's rtnl lock for nothing, and
 * where /proc/sys is read-only (a container's) what is right already is right.
 */
static int sysctl_write(const struct sysctl_folder *folder, const char *name, const char *value,
	struct failure *why)
{
	int r = 0;
	auto_fd fd = openat(folder->fd, name, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		r = -errno;
		fd = openat(folder->fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	}
	if (fd >= 0 && sysctl_has(fd, value))
		return 0;
	if (r == 0) {
		ssize_t put;
		do {
			put = pwrite(fd, value, strlen(value), 0);
		} while (put < 0 && errno == EINTR);
		r = put < 0 ? -errno : 0;
	}
	if (r == 0 && !sysctl_has(fd, value)) /* a value that the kernel bent */
		r = -ERANGE;
	return r < 0 ? failure_errno(why, r, "can't set %s/%s to %s", folder->path, name, value)
		     : 0;
}

static int sysctl_write_all(const struct sysctl_folder *folder,
	const struct sysctl_setting *settings, size_t count, struct failure *why)
{
	for (size_t i = 0; i < count; i++) {
		int r = sysctl_write(folder, settings[i].name, settings[i].value, why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int sysctl_write_devices(const struct sysctl_folder *folder,
	const struct sysctl_setting *settings, size_t count, struct failure *why)
{
	for (size_t d = 0; d < array_size(devices); d++) {
		for (size_t i = 0; i < count; i++) {
			char name[96];
			(void)snprintf(
				name, sizeof(name), "conf/%s/%s", devices[d], settings[i].name);
			int r = sysctl_write(folder, name, settings[i].value, why);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int sysctl_apply_v4(int fd, enum sysctl_place place, struct failure *why)
{
	const struct sysctl_folder folder = {fd, SYSCTL_V4};
	int r = sysctl_write_all(&folder, common_settings, array_size(common_settings), why);
	if (r == 0)
		r = sysctl_write_devices(
			&folder, device_settings, array_size(device_settings), why);
	if (r == 0 && place == SYSCTL_GATEWAY)
		r = sysctl_write_all(&folder, gateway_settings, array_size(gateway_settings), why);
	if (r == 0 && place == SYSCTL_GATEWAY)
		r = sysctl_write_devices(
			&folder, gateway_device_settings, array_size(gateway_device_settings), why);
	return r;
}

int sysctl_apply(enum sysctl_place place, struct failure *why)
{
	/* one look-up a family: the kernel walks past every live namespace's folder of that name */
	auto_fd v4 = open(SYSCTL_V4, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (v4 < 0)
		return failure_errno(why, -errno, "can't open %s", SYSCTL_V4);
	int r = sysctl_apply_v4(v4, place, why);
	if (r < 0)
		return r;
	auto_fd v6 = open(SYSCTL_V6, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (v6 < 0 && errno == ENOENT)
		return 0; /* a kernel without IPv6 */
	if (v6 < 0)
		return failure_errno(why, -errno, "can't open %s", SYSCTL_V6);
	const struct sysctl_folder folder = {v6, SYSCTL_V6};
	return sysctl_write_devices(
		&folder, device_settings_v6, array_size(device_settings_v6), why);
}
