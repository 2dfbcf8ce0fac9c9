# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Helpers of the interop rows; sourced in the guest by guest.sh. A row is a function that runs in
# a subshell with `set -e`: any command that fails fails the row, and its output is shown.

HOST=10.0.2.2
# Kernel messages that no row may cause.
DMESG_ALWAYS='WARNING:|BUG:|Call Trace|Oops|general protection|hung_task|blocked for more than|rcu.*stall'
DMESG_ALWAYS+='|protocol error|sequence number|invalid (opcode|id|tag|namespace)|unexpected (pdu|r2t|data|size)'
DMESG_ALWAYS+='|(header|data) digest (error|flag)|(got|received) bad|duplicate (cntlid|IDs)|identifiers changed'
DMESG_ALWAYS+='|bad (icresp|hdr|pdu|data|digest)|wrong|corrupt|XFS.*(error|shutdown)|EXT4-fs error'
# Kernel messages allowed only in rows that break something on purpose.
export DMESG_QUIET='I/O error|timeout|error recovery|reset|failed|lost'
# The host logs this on a slow machine: an answer took over half of the keep alive time.
export DMESG_HARMLESS='long keepalive RTT'

# control COMMAND...: sends a command to the machine outside; prints the answer, fails on an error.
control() {
	local reply
	exec {control_fd}<>"/dev/tcp/$HOST/$CONTROL_PORT"
	echo "$*" >&"$control_fd"
	read -r reply <&"$control_fd"
	exec {control_fd}>&-
	echo "control $*: $reply"
	[[ $reply == ok* ]]
}

# wait_for SECONDS COMMAND...: until it succeeds; fails after the deadline.
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "waited in vain for: $*"
			return 1
		fi
		sleep 0.1 # polls the condition
	done
}

not() { ! "$@"; }

# The controller (nvme0) of a subsystem, the newest where there are several.
ctrl_of() {
	local c name=""
	for c in /sys/class/nvme/nvme*; do
		[ -r "$c/subsysnqn" ] && [ "$(cat "$c/subsysnqn")" = "$1" ] && name=${c##*/}
	done
	[ -n "$name" ] && echo "$name"
}

# The block device node of a subsystem's namespace: ns_of NQN NSID.
ns_of() {
	local b
	for b in /sys/block/nvme*; do
		[[ ${b##*/} =~ ^nvme[0-9]+n[0-9]+$ ]] || continue
		[ "$(cat "$b/device/subsysnqn" 2>/dev/null)" = "$1" ] || continue
		[ "$(cat "$b/nsid" 2>/dev/null)" = "$2" ] || continue
		echo "/dev/${b##*/}"
		return 0
	done
	return 1
}

ctrl_state() { cat "/sys/class/nvme/$1/state" 2>/dev/null; }
ctrl_is() { [ "$(ctrl_state "$1")" = "$2" ]; }
ctrl_gone() { ! ctrl_of "$1"; }

# connect [nvme-cli option...]: sets $ctrl and $dev of the first subsystem's first namespace.
connect() {
	nvme connect -t tcp -a "$HOST" -s "$TARGET_PORT" -n "$NQN" "$@"
	wait_for 60 ctrl_of "$NQN"
	ctrl=$(ctrl_of "$NQN")
	wait_for 60 ctrl_is "$ctrl" live
	wait_for 60 ns_of "$NQN" 1
	dev=$(ns_of "$NQN" 1)
	wait_for 60 test -b "$dev"
	udevadm settle -t 60
}

disconnect() {
	# When a writer closes the device, udev reads it once more; that must end before the device
	# goes.
	udevadm settle -t 60
	nvme disconnect -n "$NQN"
	wait_for 60 ctrl_gone "$NQN"
}

# fio_verify NAME [fio option...]: writes, then reads everything back and checks its CRC32C.
fio_verify() {
	local name=$1
	shift
	fio --name="$name" --filename="$dev" --ioengine=libaio --direct=1 --rw=randwrite --bsrange=4k-128k \
		--iodepth=16 --size="$FIO_SIZE" --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--group_reporting --output="/tmp/fio-$name" "$@"
}

# Sectors written to a namespace so far. Kernel 6.1 counts only on the hidden devices of the paths.
sectors_written() {
	local name=${1##*/} files
	files=("/sys/block/${name%n*}"c*"n${name##*n}/stat")
	[ -e "${files[0]}" ] || files=("/sys/block/$name/stat")
	awk '{sum += $7} END {print sum}' "${files[@]}"
}
has_written() { [ "$(sectors_written "$1")" -gt "$2" ]; }

# The kernel's own target in the guest, for the rows' self-test and for our host side.
nvmet_start() {
	local cfg=/sys/kernel/config/nvmet nqn id=0 image
	modprobe -a nvmet nvmet-tcp loop
	for nqn in "$@"; do
		id=$((id + 1))
		image=/tmp/nvmet-$id.img
		truncate -s 256M "$image"
		mkdir -p "$cfg/subsystems/$nqn/namespaces/1"
		echo 1 >"$cfg/subsystems/$nqn/attr_allow_any_host"
		losetup "/dev/loop$id" "$image"
		echo "/dev/loop$id" >"$cfg/subsystems/$nqn/namespaces/1/device_path"
		[ "$id" -ne 1 ] || echo "$UUID_FIRST" >"$cfg/subsystems/$nqn/namespaces/1/device_uuid"
		echo 1 >"$cfg/subsystems/$nqn/namespaces/1/enable"
	done
	mkdir "$cfg/ports/1"
	echo tcp >"$cfg/ports/1/addr_trtype"
	echo ipv4 >"$cfg/ports/1/addr_adrfam"
	echo "$NVMET_ADDRESS" >"$cfg/ports/1/addr_traddr"
	echo 4420 >"$cfg/ports/1/addr_trsvcid"
	for nqn in "$@"; do
		ln -s "$cfg/subsystems/$nqn" "$cfg/ports/1/subsystems/$nqn"
	done
}

nvmet_stop() {
	local cfg=/sys/kernel/config/nvmet s
	rm -f "$cfg"/ports/1/subsystems/*
	rmdir "$cfg/ports/1"
	for s in "$cfg"/subsystems/*; do
		echo 0 >"$s/namespaces/1/enable"
		rmdir "$s/namespaces/1" "$s"
	done
}
