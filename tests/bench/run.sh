#!/usr/bin/env bash
# `make bench`: measurements, each beside something to compare with. tests/bench/run.sh [NAME...]: only these.
#
# policy: a decision beside a linear scan of all rules (policy_bench.c).
# passage: MB/s of bytes that are passed on unread, and of inspected ones, beside none of ours (passage.py).
# recording: what the log takes of a worker's time for a request (recording.py).
# proxies: tunnels, handshakes, certificates, requests, bytes and idle tunnels, beside the proxies that are installed (proxies.py).
#   ROUNDS=5 of MS=500 milliseconds; ROWS=S1,S4 only these; needs root for the peers' own users.
# audit: what an event costs a worker and the recorder, and verifying, beside sha256sum (audit_bench.c). How often a worker can have one: recording.
# tools: reading a log of LINES=1000000 lines with eclusa audit tail, grep, export and stats (audit_tools.py).
# gateway: a round trip to the proxy with 1 and with 1,000 sandboxes (gateway_bench.c).
# fairness: requests of one sandbox beside 10,000 connections of another (gateway_bench.c).
# export: eclusa-export to a receiver of syslog over TLS, to compare with a worker's requests of recording (export.py).
# start: what it costs to start a sandbox for `true`, beside bare fork+exec, bwrap and crun, in one run.
# Interleaved, so that other load falls on all alike: read the ratios. N=60 rounds, GAP_MS=0 between starts.
#
# Everything happens in network and mount namespaces of the benchmark's own. crun refuses a hybrid cgroup mount, so
# `unified` is hidden there. What the rows do differs: bwrap here sets no cgroup, no filter and no limits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export BUILD=${BUILD:-build}
inside() { # SCRIPT WORDS... in namespaces that end with it, and its servers with them
	local namespaces=(--net --pid --fork --kill-child --mount-proc) folder
	[ "$(id -u)" -eq 0 ] || namespaces+=(--user --map-root-user)
	folder=$(mktemp -d)
	# shellcheck disable=SC2016 # for the inner shell
	unshare "${namespaces[@]}" bash -c 'ip link set lo up && exec /usr/bin/python3 "tests/bench/$0" "$@"' "$1" "$folder" "${@:2}"
	rm -rf "$folder"
}
tools() {
	local folder
	folder=$(mktemp -d)
	/usr/bin/python3 tests/bench/audit_tools.py "$folder"
	rm -rf "$folder"
}
export_rows() {
	local namespaces=(--net --pid --fork --kill-child --mount-proc) folder
	[ "$(id -u)" -eq 0 ] || namespaces+=(--user --map-root-user)
	folder=$(mktemp -d)
	# shellcheck disable=SC2016 # for the inner shell
	unshare "${namespaces[@]}" bash -c 'ip link set lo up && exec /usr/bin/python3 tests/bench/export.py "$@"' export "$BUILD" "$folder" "${EVENTS:-200000}"
	rm -rf "$folder"
}
if [ -z "${BENCH_INSIDE:-}" ]; then
	[ $# -gt 0 ] || set -- policy passage recording proxies audit export tools gateway fairness start
	wants_start=
	for name in "$@"; do
		case $name in
		policy) "$BUILD/tests/policy_bench" ;;
		passage) inside passage.py "${MIB:-512}" ;;
		recording) inside recording.py ;;
		proxies)
			ulimit -n "$(ulimit -Hn)"
			inside proxies.py "${ROUNDS:-5}" "${MS:-500}"
			;;
		audit) "$BUILD/tests/audit_bench" ;;
		export) export_rows ;;
		tools) tools ;;
		gateway) "$BUILD/tests/gateway_bench" trip ;;
		fairness) "$BUILD/tests/gateway_bench" fairness ;;
		start) wants_start=1 ;;
		*) echo "bench: there is no '$name'; there are policy, passage, recording, proxies, audit, export, tools, gateway, fairness and start" >&2; exit 2 ;;
		esac
	done
	[ -n "$wants_start" ] || exit 0
fi
for program in bwrap "$BUILD/eclusa" "$BUILD/eclusa-proxy"; do
	command -v "$program" >/dev/null || { echo "bench: $program is missing" >&2; exit 1; }
done
if [ -z "${BENCH_INSIDE:-}" ]; then
	export BENCH_INSIDE=1
	if [ "$(id -u)" -eq 0 ]; then
		exec unshare --net --mount --propagation private -- "$0"
	fi
	exec unshare --user --map-current-user --keep-caps --net --mount --propagation private -- "$0"
fi
ip link set lo up
if mountpoint -q /sys/fs/cgroup/unified; then
	umount /sys/fs/cgroup/unified 2>/dev/null || true
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain=()
[ "$(id -u)" -eq 0 ] || plain=(setpriv --inh-caps -all --ambient-caps -all --)
"${plain[@]}" /usr/bin/python3 tests/bench/start.py "$work" "${N:-60}" "${GAP_MS:-0}"
