#!/bin/sh
# The guest's first process: mounts what a host has, all controllers in the unified hierarchy, and runs eclusa
# there. Tells `pass NAME` or `fail NAME: why` over the serial line, `end` when it came that far; then stops.
# shellcheck disable=SC2016 # programs for other shells are quoted on purpose

# An initramfs can't be left by pivot_root, a tmpfs can.
if [ "$1" != moved ]; then
	mount -t tmpfs -o mode=0755 tmpfs /new
	cp -a /usr /bin /sbin /lib /lib64 /etc /eclusa /init /new
	exec switch_root /new /init moved
fi

groups=/sys/fs/cgroup
mkdir -p /proc /sys /dev /tmp /root /audit /user
chmod 1777 /tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 $groups
echo 1 >/proc/sys/kernel/printk
echo '+memory +pids +cpu +io' >$groups/cgroup.subtree_control
ip link set lo up

told() { # name, status of what was checked, what to tell when it is not 0
	if [ "$2" -eq 0 ]; then
		echo "pass $1"
	else
		echo "fail $1: $3"
	fi
}

# One run: its JSON result in $result, its exit status in $status.
run() {
	result=$(/eclusa/eclusa run --audit-dir /audit --json "$@" 2>/tmp/errors)
	status=$?
}

has() { # texts that the result must hold
	for text; do
		case $result in
		*"$text"*) ;;
		*) return 1 ;;
		esac
	done
}

# A run's end: how it must be judged, under v2's limits.
ends() { # name, exit status (any: whatever), verdict, options and program
	name=$1 want=$2 verdict=$3
	shift 3
	run "$@"
	[ "$want" = any ] || [ $status -eq "$want" ] && has "\"verdict\":\"$verdict\"" '"cgroup":"v2"'
	told "$name" $? "status $status, $(cat /tmp/errors) $result"
}

left() { find $groups /user -type d -name 'eclusa-*' 2>/dev/null; }
# Waits for at most half a minute.
within() {
	for _ in $(seq 300); do
		"$@" && return
		usleep 100000
	done
	return 1
}
number() { echo "$result" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

ends 'a program ends well' 0 ok -- true
result=$(/eclusa/eclusa doctor --json 2>&1)
has '"name":"cgroup","state":"ok"' 'v2: memory, pids and cpu: a run takes rung v2'
told 'doctor finds the unified hierarchy' $? "$result"
ends 'too much memory' 137 oom --memory 64M -- dd if=/dev/zero of=/dev/null bs=200M count=1
ends 'memory of a child' 137 oom --memory 64M -- \
	sh -c 'dd if=/dev/zero of=/dev/null bs=200M count=1; echo went on; false'
has 'went on'
told 'the whole group dies of it' $((!$?)) "$result"
ends 'too many processes' 2 pids --pids-limit 16 -- \
	sh -c 'i=0; while [ $i -lt 40 ]; do sleep 30 & i=$((i + 1)); done'
ends 'a fork bomb' any pids --pids-limit 32 --timeout 60s -- sh -c 'f() { f | f & f; }; f'
ends 'processor time' 152 cpu --cpu-time 1s --timeout 60s -- sh -c 'while :; do :; done'
ends 'wall clock' 124 wall --timeout 1s -- sleep 60
ends 'what one of several children used' 152 cpu --cpu-time 1s --timeout 60s -- \
	sh -c '(while :; do :; done) & wait'

ends 'a quarter of a processor' 124 wall --cpus 0.25 --timeout 4s -- sh -c 'while :; do :; done'
used=$(number cpu_ms)
[ "${used:-9999}" -ge 300 ] && [ "${used:-9999}" -le 1600 ]
told 'no more than a quarter is used' $? "$result"

ends 'memory is counted' 0 ok --memory 128M -- dd if=/dev/zero of=/dev/null bs=48M count=1
[ "$(number memory_peak_bytes)" -ge $((48 << 20)) ]
told 'the peak is told' $? "$result"

# The group's own counters, read while the program waits for its input; processor time at the end, as what a group above has
# more than the launcher's, so that the end itself is in it.
counting=$groups/counting
mkdir -p $counting/shell
echo '+memory +pids +cpu +io' >$counting/cgroup.subtree_control
fresh() { ls -d $counting/eclusa-* 2>/dev/null; }
used_by() { sed -n 's/^usage_usec //p' "$1/cpu.stat"; }
near() { [ "$1" -gt 0 ] && [ $((($1 - $2) * 100)) -le "$2" ] && [ $((($2 - $1) * 100)) -le "$2" ]; } # within 1 %
mkdir -p /disk /counted && mknod /dev/loop0 b 7 0 2>/dev/null
modprobe loop && dd if=/dev/zero of=/image bs=1M count=24 2>/dev/null && losetup /dev/loop0 /image &&
	mke2fs -F /dev/loop0 >/dev/null 2>&1 && mount -t ext4 /dev/loop0 /disk && dd if=/dev/zero of=/disk/file bs=1M count=4 2>/dev/null
sync
told 'a disk is there' $? "$(dmesg | tail -n 3)"
chown 1000:1000 /disk
mkfifo /tmp/wait
sh -c 'echo 0 >"$0/cgroup.procs" && exec /eclusa/eclusa run --audit-dir /counted --json -i "$@"' $counting/shell --timeout 60s --memory 128M --bind /disk:/disk:rw -- sh -c '
	dd if=/dev/zero of=/dev/null bs=32M count=2; i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done
	sleep 0.1 & sleep 0.1 & wait; dd if=/disk/file of=/dev/null bs=1M count=3 iflag=direct
	dd if=/dev/zero of=/disk/own bs=1M count=2 oflag=direct conv=fsync; echo waits >/disk/mark; read line' </tmp/wait >/tmp/counted 2>&1 &
exec 7>/tmp/wait
waits() { [ -s /disk/mark ]; }
within waits
told 'a program that is counted came to its end' $? "$(cat /tmp/counted)"
group=$(fresh)
usleep 300000
peak=$(cat "$group/memory.peak") pids=$(cat "$group/pids.peak" 2>/dev/null)
read_bytes=$(grep -o 'rbytes=[0-9]*' "$group/io.stat" | cut -d= -f2)
written=$(grep -o 'wbytes=[0-9]*' "$group/io.stat" | cut -d= -f2)
echo >&7
exec 7>&-
wait
result=$(cat /tmp/counted)
usec=$(($(used_by $counting) - $(used_by $counting/shell)))
rmdir $counting/shell $counting
near "$((usec / 1000))" "$(number cpu_ms)" && [ "$usec" -gt 300000 ]
told 'processor time is what the kernel counted' $? "$usec $result"
near "$peak" "$(number memory_peak_bytes)"
told 'memory is what the kernel counted' $? "$peak $result"
[ -z "$pids" ] || has "\"peaks\":{\"memory_bytes\":$(number memory_peak_bytes),\"pids\":$pids," # Linux 6.12 on
told 'processes are what the kernel counted' $? "$pids $result"
[ "$read_bytes" -eq "$(number io_read_bytes)" ] && [ "$read_bytes" -ge $((3 << 20)) ]
told 'bytes read are what the kernel counted' $? "$read_bytes $result"
[ "$written" -le "$(number io_written_bytes)" ] && near "$written" "$(number io_written_bytes)" && [ "$written" -ge $((2 << 20)) ]
told 'bytes written are what the kernel counted' $? "$written $result"

run --io-rate 1M --timeout 60s --bind /disk:/disk:rw -- sh -c 'cat /proc/uptime >/dev/null
	dd if=/disk/file of=/dev/null bs=256K count=12 iflag=direct'
[ $status -eq 0 ] && [ "$(number wall_ms)" -ge 1500 ] && has '"io_rate_bytes":1048576'
told 'three megabytes at one in a second' $? "status $status, $(cat /tmp/errors) $result"
run --io-rate 64M --timeout 60s --bind /disk:/disk:rw -- dd if=/disk/file of=/dev/null bs=256K count=12 iflag=direct
[ $status -eq 0 ] && [ "$(number io_read_bytes)" -ge $((3 << 20)) ]
told 'at more in a second it is not held up' $? "status $status, $(cat /tmp/errors) $result"
run -- true
has '"io_read_bytes":0,"io_written_bytes":0' '"io_rate_bytes":null'
told 'who touches no disk has no bytes' $? "$result"
umount /disk && losetup -d /dev/loop0 && rm /image

run --require cgroup,uid,notify -- true
[ $status -eq 0 ] && has '"cgroup":{"active":true,"verified"' '"pids":2,"cpu_ms"'
told 'the receipt tells of it' $? "status $status, $(cat /tmp/errors) $result"

run -- cat /proc/self/cgroup
has '"stdout":"0::/\u000a"'
told 'the sandbox sees no path of its group' $? "$result"

for _ in 1 2 3 4 5; do
	run -- true
done
[ -z "$(left)" ]
told 'no group is left after runs' $? "$(left)"

for i in 1 2 3 4 5 6 7 8; do
	/eclusa/eclusa run --audit-dir /audit --json -- true >/tmp/result.$i 2>&1 &
done
wait
count=$(grep -l '"verdict":"ok".*"cgroup":"v2"' /tmp/result.? | wc -l)
[ "$count" -eq 8 ] && [ -z "$(left)" ]
told 'runs that start and sweep at the same time' $? "$(cat /tmp/result.?) $(left)"

/eclusa/eclusa run --audit-dir /audit -- sleep 300 >/dev/null 2>&1 &
killed=$!
holds_program() { group=$(left) && [ -n "$group" ] && [ "$(wc -l <"$group/cgroup.procs")" -ge 2 ]; }
within holds_program
told 'a group holds the program' $? "$(left)"
limits="$(cat "$group/memory.max") $(cat "$group/memory.swap.max" 2>/dev/null || echo 0)"
limits="$limits $(cat "$group/memory.oom.group") $(cat "$group/pids.max") $(cat "$group/cpu.max")"
[ "$limits" = '536870912 0 1 65 100000 100000' ]
told 'every limit is set' $? "$limits"
run -- true
[ -d "$group" ]
told 'a start leaves the groups of others alone' $? "$result"
kill -9 $killed
wait $killed
is_empty() { [ -n "$group" ] && [ -z "$(cat "$group/cgroup.procs")" ]; }
within is_empty
told 'nothing survives a killed launcher' $? "$(cat "$group/cgroup.procs")"
[ -d "$group" ]
told 'a killed launcher leaves its group' $? 'it is gone'
run -- true
[ -z "$(left)" ]
told 'the next start removes it' $? "$(left)"

echo '-io' >$groups/cgroup.subtree_control
run --io-rate 1M -- touch /out/ran
[ $status -eq 125 ] && has '"verdict":"setup"' '--io-rate needs a control group of version 2 with io'
told 'a rate that can not be had' $? "status $status, $(cat /tmp/errors) $result"
run -- true
[ $status -eq 0 ] && has '"io_read_bytes":null'
told 'without io nothing is told of disks' $? "$result"

# What `systemd-run --user --scope -p Delegate=yes` gives: a folder of the user's, who runs in a group below.
mkdir -p $groups/user/shell
echo '+memory +pids +cpu' >$groups/user/cgroup.subtree_control
chown 1000:1000 $groups/user $groups/user/cgroup.procs $groups/user/shell $groups/user/shell/cgroup.procs
chown 1000:1000 /user
as_user() { # group, options and program
	result=$(sh -c 'echo 0 >"$0/cgroup.procs" && exec /usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups \
		/eclusa/eclusa run --audit-dir /user --json "$@"' "$@" 2>/tmp/errors)
	status=$?
}
as_user $groups/user/shell --require cgroup -- true
[ $status -eq 0 ] && has '"verdict":"ok"' '"cgroup":"v2"' '"cgroup":"v2-delegated"' '"cgroup":{"active":true'
told 'a user with a delegated group' $? "status $status, $(cat /tmp/errors) $result"
as_user $groups/user/shell --memory 64M -- dd if=/dev/zero of=/dev/null bs=200M count=1
[ $status -eq 137 ] && has '"verdict":"oom"' '"cgroup":"v2"'
told "a user's memory limit" $? "status $status, $(cat /tmp/errors) $result"
[ -z "$(left)" ]
told "no group of the user's is left" $? "$(left)"

as_user $groups -- true
[ $status -eq 0 ] && has '"verdict":"ok"' '"cgroup":"none"'
told 'a user without a delegated group' $? "status $status, $(cat /tmp/errors) $result"
as_user $groups --require cgroup -- true
[ $status -eq 125 ] && has '"verdict":"setup"' 'Delegate=yes'
told 'who requires one' $? "status $status, $(cat /tmp/errors) $result"

# The network, on this kernel: an origin on this machine, opened by addr=.
ip link add origin type dummy && ip address add 198.51.100.1/32 dev origin && ip link set origin up
mkdir -p /origin
echo 'from the origin' >/origin/page
httpd -p 198.51.100.1:8080 -h /origin
echo '198.51.100.1 allowed.example' >/etc/eclusa-hosts
run --hosts /etc/eclusa-hosts --allow 'allowed.example:8080 scheme=http addr=198.51.100.1/32' -- sh -c '
	wget -q -O - http://allowed.example:8080/page; wget -O - http://denied.example/'
has '"cgroup":"v2"' 'server returned error: HTTP/1.1 403' '"reason":"deny.default"'
told 'a denied request gets 403' $? "status $status, $(cat /tmp/errors) $result"
has 'from the origin' '"allowed":1,"denied":1'
told 'an allowed request gets its answer' $? "$result"
[ -z "$(left)" ]
told 'no group is left after a run with network' $? "$(left)"
as_user $groups/user/shell --allow allowed.example -- wget -O - http://denied.example/
has '"cgroup":"v2"' 'server returned error: HTTP/1.1 403' '"reason":"deny.default"'
told "a user's denied request gets 403" $? "status $status, $(cat /tmp/errors) $result"

# A host that gives no processor time by groups: told, not hidden.
rmdir $groups/user/shell $groups/user
echo '-cpu' >$groups/cgroup.subtree_control
run -- true
[ $status -eq 0 ] && has '"cgroup":"none"'
told 'root where a controller is not given' $? "status $status, $(cat /tmp/errors) $result"
run --require cgroup -- true
[ $status -eq 125 ] && has 'no control group with memory, pids and cpu'
told 'root who requires it' $? "status $status, $(cat /tmp/errors) $result"

echo end
sync
poweroff -f
