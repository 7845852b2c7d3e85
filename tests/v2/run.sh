#!/usr/bin/env bash
# Runs eclusa where all control groups are in the unified hierarchy: in an emulated machine with Debian's cloud
# kernel, as an ordinary user too. The last line is `N passed, N failed, N skipped`.
#
#   tests/v2/run.sh        programs from $BUILD (build)
#
# Needs packaging/deps.sh deps deps-v2; the kernel is fetched once into build/v2. Log: build/test-logs/v2.log.
# Exit status: 0 all passed; 1 something failed, or the machine could not be made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$(realpath "${BUILD:-build}")
work=$PWD/build/v2
log=$PWD/build/test-logs/v2.log
root=$work/root
kernel=$work/kernel

# What linux-image-cloud-amd64 stands for today.
kernel_package() {
	apt-cache depends linux-image-cloud-amd64 2>/dev/null |
		sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -n 1
}

download_kernel() { # folder
	local name
	name=$(kernel_package)
	[ -n "$name" ] && (cd "$1" && apt-get -q -o Dpkg::Use-Pty=0 download "$name")
}

fetch_kernel() {
	local folder
	[ ! -e "$kernel/complete" ] || return 0
	rm -rf "$kernel"
	folder=$(mktemp -d)
	chmod 0777 "$folder" # apt fetches as a user of its own
	download_kernel "$folder" || { apt-get -q update && download_kernel "$folder"; } || true
	if dpkg -x "$folder"/linux-image-*.deb "$kernel"; then
		touch "$kernel/complete"
	fi
	rm -rf "$folder"
	[ -e "$kernel/complete" ] || { echo "v2: can't fetch linux-image-cloud-amd64" >&2; return 1; }
}

put_program() { # file, where: with the libraries it loads
	local library
	install -D -m 0755 "$1" "$root$2"
	for library in $(ldd "$1" 2>/dev/null | grep -oE '/[^ ]+'); do
		install -D -m 0755 "$library" "$root/usr${library#/usr}"
	done
}

put_modules() {
	local folder version
	folder=$(echo "$kernel"/lib/modules/*)
	version=${folder##*/}
	mkdir -p "$root/usr/lib/modules/$version/kernel"
	cp "$folder"/modules.{builtin,builtin.modinfo,order} "$root/usr/lib/modules/$version/"
	(cd "$folder/kernel" && cp --parents -R lib crypto fs/overlayfs drivers/block/loop.ko drivers/net/{dummy,veth}.ko \
		net/netfilter net/ipv4 net/ipv6 net/netlink "$root/usr/lib/modules/$version/kernel")
	depmod -b "$root" "$version"
}

make_initramfs() {
	local name
	rm -rf "$root"
	mkdir -p "$root"/usr/{bin,lib,lib64} "$root"/{etc,new,proc,sys,dev}
	for name in bin lib lib64; do
		ln -s "usr/$name" "$root/$name"
	done
	ln -s bin "$root/usr/sbin"
	ln -s usr/bin "$root/sbin"
	install -m 0755 "$(command -v busybox)" "$root/bin/busybox"
	for name in $(busybox --list); do
		[ "$name" = busybox ] || ln -s busybox "$root/bin/$name"
	done
	for name in eclusa eclusa-netd eclusa-proxy; do
		put_program "$build/$name" "/eclusa/$name"
	done
	rm -f "$root"/bin/{modprobe,kmod}
	put_program "$(command -v kmod)" /usr/bin/kmod
	ln -s kmod "$root/bin/modprobe"
	rm -f "$root/bin/setpriv" # busybox's can't change the user
	put_program "$(command -v setpriv)" /usr/bin/setpriv
	install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
	put_modules
	install -m 0755 tests/v2/guest.sh "$root/init"
	(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initramfs"
}

start_guest() {
	timeout -k 5 300 qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1024 -nodefaults -no-reboot \
		-display none -serial stdio -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/initramfs" \
		-append 'console=ttyS0 quiet panic=-1 cgroup_no_v1=all' </dev/null 2>&1 |
		tr -d '\r' >"$log" || true
}

mkdir -p "$work" "${log%/*}"
fetch_kernel
make_initramfs
start_guest
grep -aE '^(pass|fail) ' "$log" || true
passed=$(grep -ac '^pass ' "$log" || true)
failed=$(grep -ac '^fail ' "$log" || true)
if ! grep -aqx end "$log"; then
	echo "fail the guest came to no end; the end of $log:"
	tail -n 20 "$log"
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
