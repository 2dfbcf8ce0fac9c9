# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
#
# Rows of inside.sh about administration: what nvme-cli and the Linux host see when a target is
# managed, in band and by `weft ctl`. Sourced in the guest by inside.sh.

# NAME ALLOWED-IN-DMESG, as in inside.sh.
ADMIN_ROWS='
nvm-commands      I/O error|critical medium error|Unrecovered|operation.not.supported|nvme[0-9]+n1: I/O Cmd
resize
device-growth
ns-management     I/O error|nvme[0-9]+n2
format            I/O error|nvme[0-9]+n1: I/O Cmd
masking           I/O error|nvme[0-9]+n2
reservations      reservation conflict|I/O error|nvme[0-9]+n1: I/O Cmd|failed|reset|error recovery|lost
ana               I/O error|rescheduling|no usable path
identify-pages
log-pages
feature-pages
kept              reset|error recovery|failed|lost|I/O error
'

ctl() { "$weft" ctl --state "/tmp/state-$row" "$@"; }
# says PATTERN COMMAND...: the output has such a line. grep reads all of it, so that the program
# gets no SIGPIPE.
says() { "${@:2}" | grep -e "$1" >/dev/null; }
size_is() { [ "$(blockdev --getsize64 "$1")" -eq "$2" ]; }
block_is() { [ "$(blockdev --getss "$1")" -eq "$2" ]; }
random_file() { dd if=/dev/urandom of="$1" bs=4096 count="$2" status=none; }
write_blocks() { dd if="$1" of="$dev" bs=4096 seek="$2" oflag=direct conv=notrunc status=none "${@:3}"; }
read_blocks() { dd if="$dev" bs=4096 skip="$1" count="$2" iflag=direct status=none; }
# same_blocks FIRST COUNT FILE [FROM]: the namespace's blocks equal those of the file from block
# FROM.
same_blocks() { read_blocks "$1" "$2" | cmp -n $(($2 * 4096)) -i "0:$((${4:-0} * 4096))" - "$3"; }

# Compare, Verify, Copy, Write Uncorrectable and Write Zeroes as nvme-cli sends them.
row_nvm_commands() {
	local where
	for where in mem:16M file:/var/tmp/commands.img,size=16M; do
		rm -rf "/tmp/state-$row"
		target_start --reactors 2 --ns "$where"
		connect
		random_file /tmp/random 16
		write_blocks /tmp/random 0
		nvme compare "$dev" -s 0 -c 15 -z 65536 -d /tmp/random
		not nvme compare "$dev" -s 1 -c 15 -z 65536 -d /tmp/random
		nvme verify "$dev" -s 0 -c 15
		not nvme verify "$dev" -s 4096 -c 0
		# Two ranges are copied to one: blocks 8..15 and then 0..7.
		nvme copy "$dev" --sdlba=64 --slbs=8,0 --blocks=7,7 --format=0
		same_blocks 64 8 /tmp/random 8
		same_blocks 72 8 /tmp/random
		not nvme copy "$dev" --sdlba=4090 --slbs=0 --blocks=7 --format=0
		nvme write-uncor "$dev" -s 3 -c 0
		not nvme verify "$dev" -s 0 -c 15
		not read_blocks 3 1
		same_blocks 2 1 /tmp/random 2
		nvme write-zeroes "$dev" -s 3 -c 0
		nvme verify "$dev" -s 0 -c 15
		same_blocks 3 1 /dev/zero
		nvme flush "$dev"
		disconnect
		target_stop
	done
	rm /var/tmp/commands.img
}

# The host sees the new size without a new connection.
row_resize() {
	local cntlid
	target_start --reactors 2 --ns file:/var/tmp/resize.img,size=16M
	connect
	cntlid=$(cat "/sys/class/nvme/$ctrl/cntlid")
	size_is "$dev" $((16 << 20))
	ctl ns resize "$NQN" 1 48M
	wait_for 20 size_is "$dev" $((48 << 20))
	random_file /tmp/random 4
	write_blocks /tmp/random $((48 * 256 - 4))
	same_blocks $((48 * 256 - 4)) 4 /tmp/random
	[ "$(cat "/sys/class/nvme/$ctrl/cntlid")" = "$cntlid" ]
	disconnect
	target_stop
	rm /var/tmp/resize.img
}

# A block device grows by itself. Requesting its present size, or applying the same document again,
# makes the target check the device. The host sees the new size on its existing connection.
row_device_growth() {
	local image=/var/tmp/growth.img loop cntlid
	truncate -s 16M $image
	loop=$(losetup -f --show $image)
	target_start --reactors 2 --ns "file:$loop"
	connect
	cntlid=$(cat "/sys/class/nvme/$ctrl/cntlid")
	size_is "$dev" $((16 << 20))
	truncate -s 48M $image
	losetup -c "$loop"
	not ctl ns resize "$NQN" 1 64M
	size_is "$dev" $((16 << 20))
	ctl ns resize "$NQN" 1 48M
	wait_for 20 size_is "$dev" $((48 << 20))
	block=$(blockdev --getss "$dev")
	random_file /tmp/random 4
	write_blocks /tmp/random $((48 * 256 - 4))
	same_blocks $((48 * 256 - 4)) 4 /tmp/random
	truncate -s 64M $image
	losetup -c "$loop"
	ctl export /tmp/growth.json
	ctl apply /tmp/growth.json
	wait_for 20 size_is "$dev" $((64 << 20))
	block_is "$dev" "$block"
	[ "$(cat "/sys/class/nvme/$ctrl/cntlid")" = "$cntlid" ]
	disconnect
	target_stop
	losetup -d "$loop"
	rm $image
}

row_ns_management() {
	local cntlid id pool=/var/tmp/pool
	mkdir -p $pool
	target_start --reactors 2 --rights any=namespaces --ns mem:16M
	ctl subsystem set "$NQN" --pool-folder $pool --pool-capacity 64M
	connect
	cntlid=$(cat "/sys/class/nvme/$ctrl/cntlid")
	id=$(nvme id-ctrl "/dev/$ctrl" -o json)
	has "$id" '(.tnvmcap | tonumber) == 67108864 + 16777216 and (.unvmcap | tonumber) == 67108864'
	nvme create-ns "/dev/$ctrl" --nsze=4096 --ncap=4096 --flbas=0 --nmic=1
	[ "$(find $pool -name '*.img' | wc -l)" -eq 1 ]
	says 0x2 nvme list-ns "/dev/$ctrl" --all
	not says 0x2 nvme list-ns "/dev/$ctrl"
	nvme attach-ns "/dev/$ctrl" -n 2 -c "$cntlid"
	not nvme attach-ns "/dev/$ctrl" -n 2 -c "$cntlid"
	wait_for 20 ns_of "$NQN" 2
	dev=$(ns_of "$NQN" 2)
	wait_for 20 test -b "$dev"
	udevadm settle -t 20
	random_file /tmp/random 16
	write_blocks /tmp/random 0
	same_blocks 0 16 /tmp/random
	has "$(nvme id-ctrl "/dev/$ctrl" -o json)" '(.unvmcap | tonumber) < 67108864'
	# More than is left.
	not nvme create-ns "/dev/$ctrl" --nsze=4194304 --ncap=4194304 --flbas=0 --nmic=1
	nvme detach-ns "/dev/$ctrl" -n 2 -c "$cntlid"
	wait_for 20 not ns_of "$NQN" 2
	nvme delete-ns "/dev/$ctrl" -n 2
	has "$(nvme id-ctrl "/dev/$ctrl" -o json)" '(.unvmcap | tonumber) == 67108864'
	[ "$(find $pool -name '*.img' | wc -l)" -eq 0 ]
	disconnect
	target_stop
}

row_format() {
	local small large
	target_start --reactors 2 --rights any=format --ns file:/var/tmp/format.img,size=16M
	connect
	block_is "$dev" 4096
	small=$(nvme id-ns "$dev" -o json | jq '[.lbafs[].ds] | index(9)')
	large=$(nvme id-ns "$dev" -o json | jq '[.lbafs[].ds] | index(12)')
	random_file /tmp/random 16
	write_blocks /tmp/random 0
	nvme format "$dev" --lbaf="$small" --ses=1 --force
	wait_for 20 block_is "$dev" 512
	size_is "$dev" $((16 << 20))
	same_blocks 0 16 <(head -c 65536 /dev/zero)
	nvme format "$dev" --lbaf="$large" --ses=0 --force
	wait_for 20 block_is "$dev" 4096
	not nvme format "$dev" --lbaf=9 --force
	disconnect
	target_stop
	rm /var/tmp/format.img
}

# A host does not see another host's namespace; it appears and disappears without a new connection.
row_masking() {
	local me
	target_start --reactors 2 --ns mem:16M
	ctl ns add "$NQN" --media mem:16M --host nqn.2026-11.io.weft:somebody-else
	connect
	me=$(cat "/sys/class/nvme/$ctrl/hostnqn")
	not ns_of "$NQN" 2
	not says 0x2 nvme list-ns "/dev/$ctrl"
	not says 0x2 nvme list-ns "/dev/$ctrl" --all
	ctl ns set "$NQN" 2 --host nqn.2026-11.io.weft:somebody-else --host "$me"
	wait_for 20 ns_of "$NQN" 2
	ctl ns set "$NQN" 2 --host nqn.2026-11.io.weft:somebody-else
	wait_for 20 not ns_of "$NQN" 2
	disconnect
	target_stop
}

other_host_write() {
	perf --rw write --bs 4k --size 1M --bytes 64k -q nqn.2026-11.io.weft:other \
		-I 5b2f6f44-2f0b-4f0a-9c9e-0a54a0f6d1c2
}

# The kernel is one host, weft perf the other. A reservation with PTPL survives SIGKILL.
row_reservations() {
	target_start --reactors 2 --ns file:/var/tmp/reserved.img,size=16M
	connect
	other_host_write
	nvme resv-register "$dev" --nrkey=0xabc --rrega=0 --cptpl=3
	nvme resv-acquire "$dev" --crkey=0xabc --rtype=1 --racqa=0
	has "$(nvme resv-report "$dev" --eds -o json)" '.rtype == 1 and .regctl == 1 and .ptpls == 1'
	not other_host_write
	write_blocks /dev/zero 0 count=1
	says "$NQN" ctl reservations
	kill -KILL "$target"
	wait "$target" || true
	target_start --reactors 2 --ns file:/var/tmp/reserved.img,size=16M
	not other_host_write
	wait_for 60 ctrl_is "$ctrl" live
	has "$(nvme resv-report "$dev" --eds -o json)" '.rtype == 1 and .regctl == 1 and .ptpls == 1'
	nvme resv-release "$dev" --crkey=0xabc --rtype=1 --rrela=0
	other_host_write
	nvme resv-register "$dev" --crkey=0xabc --rrega=1
	has "$(nvme resv-report "$dev" --eds -o json)" '.regctl == 0'
	disconnect
	target_stop
	rm /var/tmp/reserved.img
}

ana_states() { cat /sys/block/nvme*c*n1/ana_state | sort | paste -sd ' '; }
ana_states_are() { [ "$(ana_states)" = "$1" ]; }

# Two ports; one becomes inaccessible under load and then optimized again, and no I/O fails.
row_ana() {
	local load
	target_start --reactors 2 --ns mem:32M
	ctl port add --id 2 --address "$HOST" --service 4431
	connect
	nvme connect -t tcp -a "$HOST" -s 4431 -n "$NQN"
	wait_for 20 ana_states_are "optimized optimized"
	fio --name=ana --filename="$dev" --rw=randrw --bs=4k --iodepth=8 --ioengine=libaio --direct=1 --size=8M \
		--time_based --runtime=20 --verify=crc32c --output=/tmp/fio-ana &
	load=$!
	for state in non-optimized inaccessible optimized persistent-loss optimized; do
		ctl ana set 1 1 "$state"
		if [ "$state" = optimized ]; then
			wait_for 20 ana_states_are "optimized optimized"
		else
			wait_for 20 ana_states_are "$(printf '%s\noptimized\n' "$state" | sort | paste -sd ' ')"
		fi
	done
	wait "$load"
	ctl ana list
	disconnect
	target_stop
}

row_identify_pages() {
	target_start --reactors 2 --rights any=all --ns mem:16M --ns mem:16M,block=512
	connect
	says 'Reservations Supported' nvme id-ctrl "/dev/$ctrl" -H
	says 0x2 nvme list-ns "/dev/$ctrl" --all
	says "$(printf '0x%x' "$(cat "/sys/class/nvme/$ctrl/cntlid")")" nvme list-ctrl "/dev/$ctrl"
	says "$(printf '0x%x' "$(cat "/sys/class/nvme/$ctrl/cntlid")")" nvme list-ctrl "/dev/$ctrl" -n 1
	nvme ns-descs "$dev"
	nvme nvm-id-ctrl "/dev/$ctrl"
	nvme nvm-id-ns "$dev"
	nvme cmdset-ind-id-ns "$dev"
	nvme id-iocs "/dev/$ctrl"
	nvme id-ns-granularity "/dev/$ctrl"
	nvme id-uuid "/dev/$ctrl"
	nvme id-ns "$dev" -n 2
	disconnect
	target_stop
}

row_log_pages() {
	local smart
	target_start --reactors 2 --ns mem:16M
	connect
	random_file /tmp/random 256
	write_blocks /tmp/random 0
	smart=$(nvme smart-log "/dev/$ctrl" -o json)
	has "$smart" '(.host_write_commands | tonumber) > 0 and (.data_units_written | tonumber) > 0 and
		(.power_cycles | tonumber) == 1'
	not nvme get-log "/dev/$ctrl" --log-id=0x99 --log-len=512
	has "$(nvme error-log "/dev/$ctrl" -o json)" '[.errors[] | select(.error_count > 0)] | length > 0'
	nvme supported-log-pages "/dev/$ctrl"
	nvme effects-log "/dev/$ctrl"
	nvme fw-log "/dev/$ctrl"
	nvme changed-ns-list-log "/dev/$ctrl"
	nvme ana-log "/dev/$ctrl"
	nvme fid-support-effects-log "/dev/$ctrl"
	nvme resv-notif-log "/dev/$ctrl"
	nvme persistent-event-log "/dev/$ctrl" -a 1 -l 4096
	nvme persistent-event-log "/dev/$ctrl" -a 0 -l 4096
	nvme persistent-event-log "/dev/$ctrl" -a 2 -l 512
	disconnect
	target_stop
}

blockdev_is_ro() { [ "$(blockdev --getro "$dev")" -eq "$1" ]; }

row_feature_pages() {
	local fid
	target_start --reactors 2 --rights any=write-protect --ns mem:16M
	connect
	for fid in 1 2 4 6 7 8 0xa 0xb 0xe 0xf 0x16; do
		nvme get-feature "/dev/$ctrl" -f $fid -H
	done
	for fid in 5 0x82 0x83 0x84; do
		nvme get-feature "$dev" -f $fid
	done
	nvme set-feature "$dev" -f 0x84 -V 1
	wait_for 20 blockdev_is_ro 1
	not write_blocks /dev/zero 0 count=1
	nvme set-feature "$dev" -f 0x84 -V 0
	wait_for 20 blockdev_is_ro 0
	write_blocks /dev/zero 0 count=1
	not nvme set-feature "/dev/$ctrl" -f 6 -V 0
	disconnect
	target_stop
}

# All successful changes survive SIGKILL, and the kernel's host reconnects.
row_kept() {
	local before
	target_start --reactors 2 --ns file:/var/tmp/kept.img,size=16M
	ctl subsystem add nqn.2026-11.io.weft:kept-second --allow-any-host yes
	ctl ns add nqn.2026-11.io.weft:kept-second --media file:/var/tmp/kept2.img,size=8M
	ctl ns add "$NQN" --media file:/var/tmp/kept3.img,size=8M --label "the second"
	connect
	before=$(ctl --json export)
	kill -KILL "$target"
	wait "$target" || true
	target_start --reactors 2 --ns file:/var/tmp/kept.img,size=16M
	[ "$(ctl --json export)" = "$before" ]
	wait_for 60 ctrl_is "$ctrl" live
	wait_for 20 ns_of "$NQN" 2
	disconnect
	target_stop
	rm /var/tmp/kept.img /var/tmp/kept2.img /var/tmp/kept3.img
}
