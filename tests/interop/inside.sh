#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest as root, started by tools/interop-inside: weft itself on the guest's kernel,
# over the guest's loopback, TAP on standard output. A row is a function in a subshell with
# `set -e`. After each row the kernel's log is searched. It is kept in dmesg-ROW, the row's output
# in log-ROW and the target's in target-ROW. Programs that a row kills must not write to the shared
# folder: on Linux 6.12 that can leave a 9p file in a state where the next writer hangs.
# Environment: ONLY, the names of the rows to run, separated by commas; empty for all.
# FAILOVER_ROUNDS, how often the failover rows repeat their faults.
set -uo pipefail
here=$(dirname "$0")
# shellcheck source=tests/interop/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/interop/inside_admin.sh
. "$here/inside_admin.sh"
# shellcheck source=tests/interop/inside_attach.sh
. "$here/inside_attach.sh"
# shellcheck source=tests/interop/inside_failover.sh
. "$here/inside_failover.sh"

HOST=127.0.0.1
TARGET_PORT=4430
NQN=nqn.2026-11.io.weft:inside
FIO_SIZE=4M
NVMET_PORT=4420 # lib.sh's nvmet_start listens there
NVMET_ADDRESS=127.0.0.1
NVMET_NQN=nqn.2026-11.io.weft:kernel
UUID_FIRST=0f8e5a3c-52a1-4a57-9d3f-6a2b1c0d4e5f
export HOST TARGET_PORT NQN FIO_SIZE NVMET_ADDRESS UUID_FIRST
weft=/tmp/weft/weft
row=none count=0 failures=0

# NAME ALLOWED-IN-DMESG (beside what DMESG_ALWAYS forbids).
ROWS='
info
memory
huge-pages
files
ring-coop
ring-plain
kernel-host
kernel-host-digests
nvmet-discover
nvmet-sizes
nvmet-digests
nvmet-mixed
nvmet-gone
block-512
block-4096
idle
stop-load
'

# ---- weft ----------------------------------------------------------------------------------------

# target_start [serve option...]: sets $target; returns when it listens. $wrap runs it, if set.
target_start() {
	${wrap:-} "$weft" serve --listen "$HOST:$TARGET_PORT" --nqn "$NQN" --discovery none \
		--state "/tmp/state-$row" "$@" >"/tmp/target-$row" 2>&1 &
	target=$!
	wait_for 20 nc -z "$HOST" "$TARGET_PORT"
}

# SIGTERM; the target must exit with status 0.
target_stop() {
	kill "$target"
	wait_for 20 zombie_or_gone "$target"
	wait "$target"
}

# User and system time of a process so far, in clock ticks (of 10 ms).
ticks_of() { sed 's/.*) //' "/proc/$1/stat" | awk '{print $12 + $13}'; }
worked() { [ "$(ticks_of "$1")" -gt $(($2 + 5)) ]; }

# A block device's counters so far: 1 reads, 5 writes, 7 sectors written, 12 discards.
stat_of() { awk -v column="$2" '{print $column}' "/sys/block/$1/stat"; }
stat_past() { [ "$(stat_of "$1" "$2")" -gt "$3" ]; }

zombie_or_gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }

# perf [option...]: transfers data to and from our target; fails on any I/O or verify error.
perf() { "$weft" perf -s "$TARGET_PORT" -n "$NQN" --quiet --depth 8 "$@"; }

# client [option...]: perf in the background until it is killed; adds to $clients.
client() {
	"$weft" perf -s "$TARGET_PORT" -n "$NQN" --quiet --time 300s "$@" &
	clients+=($!)
}

# Bytes that one pass of perf moves: more queues and sizes, not more data.
LITTLE=2M

# client_lost PID: the client has exited by itself with an error status.
client_lost() {
	local status=0
	wait_for 60 zombie_or_gone "$1"
	wait "$1" || status=$?
	[ "$status" -eq 1 ]
}

# perf_some [option...]: one queue and four, both digests, data in the capsule and by R2T.
perf_some() {
	perf "$@" --rw write --bs 4k --size 2M --bytes $LITTLE --verify
	perf "$@" --rw randrw --bs 128k --bytes $LITTLE --verify --queues 4 -g -G
}

# perf_all [option...]: every way through a namespace of our own.
perf_all() {
	perf_some "$@"
	perf "$@" --rw randread --bs 4k --bytes $LITTLE
	perf "$@" --rw write --bs 128k --bytes $LITTLE --verify --queues 2
	perf "$@" --rw randwrite --bs 16k --bytes $LITTLE --verify --queues 4 -G
	perf "$@" --rw randread --bs 64k --bytes $LITTLE --queues 4 -g
}

# has JSON FILTER: the jq filter must be true for the JSON.
has() {
	jq -e "$2" <<<"$1" >/dev/null || {
		echo "not so: $2 in: $1"
		return 1
	}
}

kernel_since() { printf '%s\n' "$1" "$(uname -r | grep -oE '^[0-9]+\.[0-9]+')" | sort -CV; }

# `weft info` reports a feature of io_uring exactly where the kernel is new enough.
feature() {
	local there=false
	! kernel_since "$2" || there=true
	has "$info" "[.io_uring_features[] | select(.name == \"$1\")][0].supported == $there"
}

row_info() {
	"$weft" info
	info=$("$weft" info -o json)
	has "$info" '.io_uring and (.io_uring_features | length > 10)'
	feature DEFER_TASKRUN 6.1
	feature SINGLE_ISSUER 6.0
	feature SENDMSG_ZC 6.1
	feature "NAPI busy poll" 6.9
	feature "registered waits" 6.13
	# Every feature that weft requires is supported.
	has "$info" '[.io_uring_features[] | select(.used and (.supported | not))] | length == 0'
}

row_memory() {
	target_start --reactors 2 --ns mem:16M --ns mem:16M,block=512
	perf_all --nsid 1
	perf_some --nsid 2
	perf --nsid 2 --rw randrw --bs 512 --size 1M --bytes 256k --verify --queues 2
	target_stop
}

# Memory in huge pages: the pool of huge pages shrinks by the size of the namespace.
row_huge_pages() {
	local free
	sysctl -q vm.nr_hugepages=12
	free=$(awk '/HugePages_Free/ {print $2}' /proc/meminfo)
	[ "$free" -ge 8 ]
	target_start --reactors 2 --ns mem:16M,huge
	perf_all
	[ "$(awk '/HugePages_Free/ {print $2}' /proc/meminfo)" -eq $((free - 8)) ]
	target_stop
	[ "$(awk '/HugePages_Free/ {print $2}' /proc/meminfo)" -eq "$free" ]
	sysctl -q vm.nr_hugepages=0
}

row_files() {
	target_start --reactors 2 --ns "file:/var/tmp/inside.img,size=16M" --ns "file:/dev/shm/inside.img,size=16M"
	perf_all --nsid 1
	perf_some --nsid 2
	target_stop
	# The next target finds the written data in the files.
	target_start --reset --reactors 2 --ns file:/var/tmp/inside.img --ns file:/dev/shm/inside.img
	not cmp -n 2097152 /var/tmp/inside.img /dev/zero
	perf_some
	target_stop
	rm /var/tmp/inside.img /dev/shm/inside.img
}

# ring WHICH: starts one reactor while these attempts to set up a ring fail. The control thread's
# ring comes first, the reactor's after it: $setup is the reactor's final setup.
ring() {
	wrap="strace -D -f --seccomp-bpf -o /tmp/strace -e trace=io_uring_setup"
	wrap+=" -e inject=io_uring_setup:error=EINVAL:when=$1"
	target_start --reactors 1 --ns mem:16M --ns file:/var/tmp/ring.img,size=16M
	perf_some
	perf_some --nsid 2
	target_stop
	rm /var/tmp/ring.img
	cat /tmp/strace
	grep -q INJECTED /tmp/strace
	setup=$(grep io_uring_setup /tmp/strace | tail -n 1)
	[[ $setup != *INJECTED* && $setup != *DEFER_TASKRUN* ]]
}

# As on kernels before 6.1 ...
row_ring_coop() {
	ring 1+2
	[[ $setup == *COOP_TASKRUN* ]]
}

# ... and before 5.19.
row_ring_plain() {
	ring 2..3
	[[ $setup != *COOP_TASKRUN* ]]
}

row_kernel_host() {
	target_start --reactors 2 --ns mem:32M
	connect -i 4
	fio_verify inside --bsrange=4k-256k
	disconnect
	target_stop
}

row_kernel_host_digests() {
	target_start --reactors 2 --ns mem:32M
	connect -i 2 -g -G
	fio_verify inside-digests --bsrange=4k-256k
	disconnect
	target_stop
}

# ---- weft's host, the kernel's target ------------------------------------------------------------

nvmet_need() { [ -d /sys/kernel/config/nvmet/ports/1 ] || nvmet_start "$NVMET_NQN"; }

nvmet_perf() { TARGET_PORT=$NVMET_PORT NQN=$NVMET_NQN perf --bytes $LITTLE "$@"; }

row_nvmet_discover() {
	local text
	nvmet_need
	"$weft" discover -s $NVMET_PORT
	text=$("$weft" discover -s $NVMET_PORT -o json)
	has "$text" "[.records[] | select(.subnqn == \"$NVMET_NQN\" and .trsvcid == \"$NVMET_PORT\" and
		.traddr == \"$HOST\" and .trtype == \"tcp\" and .subtype == \"nvme subsystem\")] | length == 1"
	"$weft" identify -s $NVMET_PORT -n $NVMET_NQN
	text=$("$weft" identify -s $NVMET_PORT -n $NVMET_NQN -o json)
	has "$text" ".controller.subnqn == \"$NVMET_NQN\" and .controller.in_capsule_bytes == 16384"
	has "$text" '.namespaces == [.namespaces[0]] and .namespaces[0].nsid == 1'
	has "$text" ".namespaces[0].bytes == $((256 << 20)) and .namespaces[0].block_bytes == 512"
	# A wrong name gives an error message, not a hang.
	not "$weft" identify -s $NVMET_PORT -n "$NVMET_NQN:no-such-subsystem"
}

# Data in the capsule, exactly filling it, and by R2T.
row_nvmet_sizes() {
	local bs queues
	nvmet_need
	for queues in 1 4; do
		for bs in 4k 16k 128k 1M; do
			nvmet_perf --rw write --bs $bs --queues $queues --verify
		done
	done
	nvmet_perf --rw write --bs 512 --bytes 128k --size 128k --verify
	nvmet_perf --rw randread --bs 4k --queues 4
}

row_nvmet_digests() {
	local bs digests
	nvmet_need
	for digests in "-g" "-G" "-g -G"; do
		for bs in 4k 16k 128k; do
			# shellcheck disable=SC2086 # two flags
			nvmet_perf $digests --rw randwrite --bs $bs --queues 2 --verify
		done
	done
}

row_nvmet_mixed() {
	nvmet_need
	nvmet_perf --rw randrw --bs 4k --size 4M --verify
	nvmet_perf --rw randrw --bs 64k --size 8M --queues 4 --verify
	nvmet_perf --rw randrw --bs 16k --size 4M --queues 4 --verify -g -G
	not nvmet_perf --rw randread --nsid 7
}

# The namespace is removed under load, then the subsystem.
row_nvmet_gone() {
	local clients=() subsystem=/sys/kernel/config/nvmet/subsystems/$NVMET_NQN
	local link=/sys/kernel/config/nvmet/ports/1/subsystems/$NVMET_NQN
	nvmet_need
	TARGET_PORT=$NVMET_PORT NQN=$NVMET_NQN client --rw randread --time 4s --json >/tmp/gone.json
	wait_for 30 stat_past loop1 1 "$(stat_of loop1 1)"
	echo 0 >"$subsystem/namespaces/1/enable"
	client_lost "${clients[0]}"
	has "$(cat /tmp/gone.json)" '.io_errors > 0 and .read.ios > 0 and (.errors | length == 1)'
	echo 1 >"$subsystem/namespaces/1/enable"
	TARGET_PORT=$NVMET_PORT NQN=$NVMET_NQN client --rw randwrite --bs 128k --queues 4
	wait_for 30 stat_past loop1 5 "$(stat_of loop1 5)"
	rm "$link"
	client_lost "${clients[1]}"
	ln -s "$subsystem" "$link"
	nvmet_perf --rw randrw --size 4M --verify
}

# ---- block devices -------------------------------------------------------------------------------

# null_device NAME BLOCK-BYTES: makes a device of 32 MiB that keeps data and supports discard; sets
# $null.
null_device() {
	local cfg=/sys/kernel/config/nullb/$1
	modprobe null_blk nr_devices=0
	mkdir "$cfg"
	echo 32 >"$cfg/size"
	echo "$2" >"$cfg/blocksize"
	echo 1 >"$cfg/memory_backed"
	echo 1 >"$cfg/discard"
	echo 1 >"$cfg/power"
	null=/dev/$1
	[ -b "$null" ] || null=/dev/nullb$(cat "$cfg/index")
	wait_for 20 test -b "$null"
	udevadm settle -t 20
}

# reads_as FILE: the namespace's first MiB equals the file, read through the kernel's host.
reads_as() {
	dd if="$dev" of=/tmp/back bs=64k count=16 iflag=direct
	cmp -n 1048576 /tmp/back "$1"
}

block_device() {
	local bs=$1 before
	null_device "inside$bs" "$bs"
	target_start --reactors 2 --ns "file:$null"
	[ "$("$weft" identify -s "$TARGET_PORT" -n "$NQN" -o json | jq '.namespaces[0].block_bytes')" = "$bs" ]
	perf_some
	perf --rw randrw --bs "$bs" --size 1M --bytes 256k --verify --queues 2
	[ "$(stat_of "${null##*/}" 7)" -ge 4096 ]
	connect -i 2
	[ "$(blockdev --getss "$dev")" -eq "$bs" ]
	fio_verify "block-$bs"
	dd if=/dev/urandom of=/tmp/random bs=1M count=1
	dd if=/tmp/random of="$dev" bs=64k oflag=direct
	reads_as /tmp/random
	before=$(stat_of "${null##*/}" 12)
	blkdiscard -o 0 -l 1048576 "$dev"
	[ "$(stat_of "${null##*/}" 12)" -gt "$before" ]
	reads_as /dev/zero
	# Write Zeroes, with and without DEAC; the neighbouring blocks stay.
	dd if=/tmp/random of="$dev" bs=64k oflag=direct
	nvme write-zeroes "$dev" -s 0 -c $((65536 / bs - 1)) --deac
	nvme write-zeroes "$dev" -s $((65536 / bs)) -c $((65536 / bs - 1))
	dd if=/dev/zero of=/tmp/random bs=64k count=2 conv=notrunc
	reads_as /tmp/random
	blkdiscard -z -o 0 -l 1048576 "$dev"
	reads_as /dev/zero
	nvme flush "$dev" -n 1
	disconnect
	# No other program can use a device that we serve.
	not mkfs.ext4 -q -F "$null"
	target_stop
	echo 0 >"/sys/kernel/config/nullb/inside$bs/power"
	rmdir "/sys/kernel/config/nullb/inside$bs"
}

row_block_512() { block_device 512; }
row_block_4096() { block_device 4096; }

# ---- at rest, and the end ------------------------------------------------------------------------

# The target has this many established connections.
conns() { [ "$(ss -Htn state established "( sport = :$TARGET_PORT )" | wc -l)" -eq "$1" ]; }

at_rest() {
	local ticks
	ticks=$(ticks_of "$target")
	sleep 0.5 # the interval of the measurement
	[ "$(ticks_of "$target")" -eq "$ticks" ]
}

# 100 queues without a command: 0.5 % of a core over 5 s is 2.5 ticks. A guest counts time in which
# it gets no CPU as its own work, and nothing makes the count smaller: the least of several
# intervals is the target's work.
row_idle() {
	local clients=() before after least=1000
	target_start --reactors 2 --ns mem:16M
	for _ in 1 2 3 4; do
		client --rw randread --depth 1 --queues 25 -Q 8 -k 0
	done
	wait_for 60 conns 104
	kill -STOP "${clients[@]}"
	wait_for 20 at_rest
	for _ in 1 2 3 4 5; do
		before=$(ticks_of "$target")
		sleep 5 # the interval of the measurement
		after=$(ticks_of "$target")
		echo "ticks over 5 s: $((after - before))"
		[ $((after - before)) -ge "$least" ] || least=$((after - before))
		[ "$least" -gt 2 ] || break
	done
	conns 104
	[ "$least" -le 2 ]
	# The connections still work.
	kill -CONT "${clients[@]}"
	wait_for 20 worked "$target" "$after"
	kill "${clients[@]}"
	wait_for 20 conns 0
	target_stop
}

row_stop_load() {
	local clients=() pid
	target_start --reactors 2 --ns mem:16M --ns file:/var/tmp/load.img,size=16M
	client --rw randrw --bs 16k --queues 4 --size 16M --verify
	client --rw randwrite --nsid 2 --bs 128k --queues 2 -g -G
	wait_for 30 conns 8
	wait_for 30 worked "$target" "$(ticks_of "$target")"
	target_stop
	# The clients exit too, with an error status.
	for pid in "${clients[@]}"; do
		client_lost "$pid"
	done
	rm /var/tmp/load.img
}

# ---- running them --------------------------------------------------------------------------------

# Ends all targets and connections, whatever the row left.
clean_up() {
	nvme disconnect-all
	pkill -KILL -f /tmp/weft/lib/weft
} >/dev/null 2>&1

run_row() {
	local allowed=$2 log=$here/log-$1 rc bad began=$SECONDS
	row=$1
	if [ -n "$ONLY" ] && [[ ",$ONLY," != *",$row,"* ]]; then return; fi
	count=$((count + 1))
	dmesg --clear
	(
		set -Eeuo pipefail
		trap 'echo "failed at line $LINENO: $BASH_COMMAND"' ERR
		"row_${row//-/_}"
	) >"$log" 2>&1
	rc=$?
	clean_up
	cp /tmp/{target,load,host}-"$row"* "$here" 2>/dev/null
	dmesg >"$here/dmesg-$row" || rc=1
	bad=$(grep -E "$DMESG_ALWAYS" "$here/dmesg-$row" | grep -vE "${allowed:-^$}")
	if [ "$rc" -eq 0 ] && [ -z "$bad" ]; then
		echo "ok $count - $row ($((SECONDS - began)) s)"
		return
	fi
	failures=$((failures + 1))
	tail -n 30 "$log" | sed 's/^/# /'
	[ ! -e "$here/target-$row" ] || tail -n 5 "$here/target-$row" | sed 's/^/# target: /'
	[ -z "$bad" ] || head -n 20 <<<"$bad" | sed 's/^/# dmesg: /'
	echo "not ok $count - $row ($((SECONDS - began)) s)"
}

cp -a "$here/weft" /tmp/weft
modprobe -a nvme-tcp nvme-fabrics
echo "# kernel $(uname -r), $("$weft" --version)"
while read -r name allowed; do
	[ -z "$name" ] || run_row "$name" "$allowed" </dev/null
done <<<"$ROWS$ADMIN_ROWS$ATTACH_ROWS$FAILOVER_ROWS"
echo "1..$count"
[ "$failures" -eq 0 ]
