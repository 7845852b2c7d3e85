#!/usr/bin/env bash
# Installs the Debian packages that Eclusa needs: only what is missing, and no service is started.
#
#   packaging/deps.sh deps          what builds and runs, the demo included
#   packaging/deps.sh deps-test     what the tests need beyond that
#   packaging/deps.sh deps-bench    what the benchmarks need beyond that
#   packaging/deps.sh deps-clients  the clients that `make clients` tries, beyond deps-test; npm brings some more of them
#   packaging/deps.sh deps-programs the programs that `make programs` runs in sandboxes, beyond deps
#   packaging/deps.sh deps-v2       what the tests under cgroup v2, in an emulated machine, need beyond deps
#
# Several sets may be named. Exit status: 0 nothing is missing (any more); 1 something is missing and could
# not be installed (not root, or apt failed): what would be installed is printed; 2 usage.
set -euo pipefail

set_deps=(build-essential pkg-config git ca-certificates
	libnl-3-dev libnl-route-3-dev libnftnl-dev libmnl-dev libssl-dev libc-ares-dev
	libseccomp-dev libuv1-dev libjansson-dev libpsl-dev libidn2-dev libunistring-dev libyaml-dev
	libcurl4-openssl-dev zlib1g-dev
	iproute2 openssl jq util-linux procps
	python3 python3-numpy python3-pandas python3-matplotlib)
set_deps_test=(libcmocka-dev python3-pytest python3-requests python3-cryptography python3-pip
	python3-setuptools python3-wheel python3-yaml python3-h11 libhttp-parser-dev chromium nftables curl strace rsyslog rsyslog-openssl systemd
	clang clang-format libclang-rt-14-dev shellcheck mandoc groff-base universal-ctags python3-dnspython musl-tools)
set_deps_clients=(wget openssh-client golang-go default-jdk-headless php-cli ruby libwww-perl liblwp-protocol-https-perl
	python3-aiohttp python3-httpx)
set_deps_bench=(bubblewrap crun linux-perf haproxy squid-openssl tinyproxy-bin)
set_deps_programs=(python3-scipy python3-sklearn libpython3.11-testsuite g++ git)
set_deps_v2=(qemu-system-x86 busybox-static kmod cpio)

usage() {
	sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# A file that tells invoke-rc.d to start nothing; one that an administrator put there is kept.
forbid_services() {
	[ -e /usr/sbin/policy-rc.d ] && return
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 0755 /usr/sbin/policy-rc.d
}

# apt-get update only if the lists know nothing of some package, or are too old to fetch from.
install_packages() {
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	local apt=(apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends install)
	forbid_services
	if ! apt-cache show "$@" >/dev/null 2>&1; then
		apt-get -q update
	fi
	if ! "${apt[@]}" "$@"; then
		apt-get -q update
		"${apt[@]}" "$@"
	fi
}

[ $# -gt 0 ] || usage
packages=()
for set_name in "$@"; do
	case $set_name in
	deps) packages+=("${set_deps[@]}") ;;
	deps-test)
		packages+=("${set_deps_test[@]}")
		# A node that is there already, from wherever it came, is not replaced.
		command -v npm >/dev/null || packages+=(nodejs npm)
		;;
	deps-programs)
		packages+=("${set_deps_programs[@]}")
		command -v node >/dev/null || packages+=(nodejs)
		;;
	deps-clients) packages+=("${set_deps_clients[@]}") ;;
	deps-bench) packages+=("${set_deps_bench[@]}") ;;
	deps-v2) packages+=("${set_deps_v2[@]}") ;;
	*) usage ;;
	esac
done

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; needed are the equivalents of: ${packages[*]}" >&2
	exit 1
fi
missing=()
for package in "${packages[@]}"; do
	installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "deps: missing, and only root can install them:" >&2
	echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "deps: installing ${missing[*]}"
install_packages "${missing[@]}"
