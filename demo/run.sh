#!/usr/bin/env bash
# `make demo`: an analyst's job in a sandbox, and what an injected instruction could not do. See story.py for
# what is told and checked; exit status 0 only if everything that should fail failed.
#
# A network namespace without an uplink plays the host, so nothing here touches a real network. The HTTPS
# origin, a collector, a metadata endpoint and an admin page live in another one. Works as root and as an ordinary user.
# ONLINE=1 also installs a package with npm, through the proxy, from the registry that npm is configured for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=build/demo
readonly eclusa=${BUILD:-build}/eclusa
readonly python=/usr/bin/python3

# Into a namespace that plays the host. An ordinary user gets the right to build it from a user namespace, in which
# the uid stays what it is. The token is what the program's parent has and the sandbox must not see.
enter() {
	local unshare=(unshare --net --mount)
	[ "$(id -u)" -eq 0 ] || unshare+=(--user --map-current-user --keep-caps)
	"${unshare[@]}" true || {
		echo "demo: this host refuses namespaces to user $(id -un): run it as root, or allow user namespaces" >&2
		return 1
	}
	INVOICE_SERVICE_TOKEN=demo-token-of-the-caller "${unshare[@]}" -- "$0" inside
}

make_certificates() { # a test CA, and a certificate for both hosts
	local lab=$work/lab
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj '/CN=Demo test CA' \
		-keyout "$lab/ca.key" -out "$lab/ca.pem" -addext 'keyUsage=critical,keyCertSign,cRLSign'
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=rates.example.com' \
		-keyout "$lab/origin.key" -out "$lab/origin.csr"
	openssl x509 -req -in "$lab/origin.csr" -CA "$lab/ca.pem" -CAkey "$lab/ca.key" -days 2 -out "$lab/origin.pem" \
		-extfile <(echo 'subjectAltName=DNS:rates.example.com,DNS:collector.example.net')
}

wait_for() { # description, command...: at most 10 s
	local what=$1 turn
	shift
	for ((turn = 0; turn < 200; turn++)); do
		"$@" && return
		sleep 0.05
	done
	echo "demo: $what did not happen within 10 s" >&2
	return 1
}

other_namespace() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

start_world() { # sets holder, which keeps the other namespace, and world_pid, the origin in it
	local lab=$work/lab
	unshare --net -- sleep 600 &
	holder=$!
	wait_for "a namespace for the origin" other_namespace "$holder"
	ip link set lo up
	ip link add lab0 type veth peer name lab1 netns "$holder"
	ip addr add 198.51.100.1/24 dev lab0
	ip link set lab0 up
	ip route add 169.254.169.254/32 dev lab0
	ip route add 192.168.77.0/24 dev lab0
	local there=(nsenter --net="/proc/$holder/ns/net" --)
	"${there[@]}" ip link set lo up
	"${there[@]}" ip link set lab1 up
	local address
	for address in 198.51.100.10/24 198.51.100.20/24 169.254.169.254/32 192.168.77.1/24; do
		"${there[@]}" ip addr add "$address" dev lab1
	done
	"${there[@]}" "$python" demo/origin.py "$lab/requests.jsonl" "$lab/origin.pem" "$lab/origin.key" "$lab/ready" &
	world_pid=$!
	wait_for "the origin" test -e "$lab/ready"
}

# The same program without a sandbox, in the same world: proof that the targets answer and the token can be read.
run_bare() {
	mkdir -p "$work/bare"
	mount --bind "$work/lab/hosts" /etc/hosts # in a mount namespace of this demo's own
	(cd demo && env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY SSL_CERT_FILE="../$work/lab/ca.pem" \
		MPLCONFIGDIR="$PWD/../$work/bare/matplotlib" OUT="../$work/bare" "$python" report.py) >"$work/bare/stdout" 2>"$work/bare/stderr" || {
		echo "demo: the report program fails even without a sandbox:" >&2
		cat "$work/bare/stderr" >&2
		return 1
	}
	umount /etc/hosts
	wc -l <"$work/lab/requests.jsonl" >"$work/bare/requests" # what comes later is the sandbox's
}

# What a person would type; as an ordinary user without the capabilities that built the world.
run_sandboxed() {
	local plain=()
	[ "$(id -u)" -eq 0 ] || plain=(setpriv --inh-caps -all --ambient-caps -all --)
	local command=("$eclusa" run
		--in demo/invoices.csv --in demo/report.py --out "$work/results" --overwrite
		--allow 'rates.example.com GET /v1/** addr=198.51.100.10/32'
		--upstream-ca "$work/lab/ca.pem" --hosts "$work/lab/hosts" --audit-dir "$work/audit"
		--timeout 60s --json -- python3 report.py)
	printf '%s\0' "${command[@]}" >"$work/command"
	local status=0
	"${plain[@]}" "${command[@]}" >"$work/result.json" 2>"$work/stderr" || status=$?
	echo "$status" >"$work/status"
}

inside() {
	holder='' world_pid=''
	trap 'kill $world_pid $holder 2>/dev/null || true' EXIT
	start_world
	run_bare
	run_sandboxed
}

# The registry as npm names it, without user and password; only this is passed on, never the user's files.
registry_url() {
	npm config get registry | sed -E 's#^(https?://)[^/@]*@#\1#'
}

run_online() {
	command -v npm >/dev/null || { echo "demo: ONLINE=1 needs npm" >&2; return 1; }
	local url authority host rule address
	url=$(registry_url)
	authority=${url#*://} authority=${authority%%/*}
	host=${authority%%:*}
	[[ $url != http://* || $authority == *:* ]] || authority+=:80 # a rule without a port means 443
	# enc-slash: npm asks for scoped packages as /@scope%2fname.
	rule="$authority GET,HEAD /** enc-slash=literal"
	# A mirror inside a company has a private address, which has to be opened by name.
	address=$(getent ahostsv4 "$host" | awk '{ print $1; exit }')
	[ -z "$address" ] || "$python" -c 'import ipaddress, sys
sys.exit(not ipaddress.ip_address(sys.argv[1]).is_global)' "$address" || rule+=" addr=$address/32"
	local status=0
	"$eclusa" run --out "$work/npm" --overwrite --allow "$rule" --audit-dir "$work/audit-npm" --timeout 120s --memory 1G \
		--json -- sh -c "npm install --no-audit --no-fund --no-update-notifier --registry '$url' is-number &&
			cp node_modules/is-number/package.json /out/" \
		>"$work/npm.json" 2>"$work/npm.stderr" || status=$?
	echo "$status" >"$work/npm.status"
}

if [ "${1:-}" = inside ]; then
	inside
	exit
fi
[ -x "$eclusa" ] || { echo "demo: no $eclusa; run make first" >&2; exit 1; }
rm -rf "$work"
mkdir -p "$work/lab" "$work/results"
make_certificates 2>"$work/lab/openssl.log" || { cat "$work/lab/openssl.log" >&2; exit 1; }
printf '127.0.0.1 localhost\n198.51.100.10 rates.example.com\n198.51.100.20 collector.example.net\n' >"$work/lab/hosts"
enter
[ "${ONLINE:-}" != 1 ] || run_online
exec "$python" demo/story.py "$work"
