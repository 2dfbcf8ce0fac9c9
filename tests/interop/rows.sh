# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
#
# The interop rows: what a Linux host does with a target. Sourced in the guest by guest.sh.

# NAME NEEDS ALLOWED-IN-DMESG. NEEDS: any; weft = steers our target, not for the self-test;
# long = not in the smoke run. The last column lifts DMESG_QUIET for rows that break things.
export ROWS='
discover          any
connect           any
list-subsys       any
id-ctrl           any
id-ns             any
ns-descs          any
logs              any
features          any
connect-all       any
denied-host       weft       failed
ext4              any
xfs               long
fio-1             any
fio-1-digests     long
fio-4             long
fio-4-digests     any
digests           any
block-commands    any        operation.not.supported
reset-load        any        reset|error recovery|failed|I/O error
disconnect-load   any        .
namespace-live    weft       n2: I/O Cmd.*sct 0x0 / sc 0x2|dev nvme[0-9]+n2
clean-stop        weft       .
target-killed     weft       .
link-cut          weft       .
weft-host         weft
'

discovery_log() { nvme discover -t tcp -a "$HOST" -s "$TARGET_PORT" -o json; }

# has JSON FILTER: the jq filter must be true for the JSON.
has() {
	jq -e "$2" <<<"$1" >/dev/null || {
		echo "not so: $2 in: $1"
		return 1
	}
}

row_discover() {
	local log nqn
	log=$(discovery_log)
	for nqn in "$NQN" "$NQN_SECOND"; do
		has "$log" "[.records[] | select(.subnqn == \"$nqn\" and .traddr == \"$HOST\" and
			.trsvcid == \"$TARGET_PORT\" and .trtype == \"tcp\" and .adrfam == \"ipv4\" and
			.subtype == \"nvme subsystem\")] | length == 1"
	done
	has "$log" ".genctr >= 1"
	has "$log" "[.records[] | select(.subnqn == \"$NQN_CLOSED\")] | length == 0"
}

row_connect() {
	connect
	nvme list -o json | grep -q "$dev"
	[ "$(cat "/sys/class/nvme/$ctrl/transport")" = tcp ]
	[ "$SELF_TEST" = 1 ] || [ "$(tr -d ' ' <"/sys/class/nvme/$ctrl/serial")" = WEFTINTEROP1 ]
	dd if="$dev" of=/dev/null bs=4k count=16 iflag=direct
	disconnect
	not ns_of "$NQN" 1
}

row_list_subsys() {
	local text
	connect
	text=$(nvme list-subsys -o json)
	has "$text" "[.. | objects | select(.NQN? == \"$NQN\") | .Paths[] |
		select(.Transport == \"tcp\" and .State == \"live\")] | length == 1"
}

row_id_ctrl() {
	local id
	connect
	id=$(nvme id-ctrl "/dev/$ctrl" -o json)
	has "$id" ".subnqn == \"$NQN\""
	has "$id" ".cntlid >= 1 and .nn >= 1 and .ver >= 65536 and .sqes == 102 and .cqes == 68"
	has "$id" ".ioccsz >= 4 and .iorcsz == 1 and .maxcmd >= 1 and .kas >= 1"
	[ "$SELF_TEST" = 1 ] || has "$id" '(.sn | startswith("WEFTINTEROP1")) and (.mn | startswith("weft interop"))'
}

row_id_ns() {
	local id size
	connect
	id=$(nvme id-ns "$dev" -o json)
	size=$(blockdev --getsize64 "$dev")
	[ "$size" -eq $((256 << 20)) ]
	has "$id" ".nsze * (.lbafs[.flbas % 16].ds | if . == 9 then 512 else 4096 end) == $size"
	has "$id" '.ncap == .nsze'
}

row_ns_descs() {
	local text
	connect
	text=$(nvme ns-descs "$dev" -o json)
	grep -qi "$UUID_FIRST" <<<"$text"
	[ "$(cat "/sys/block/${dev##*/}/uuid")" = "$UUID_FIRST" ]
	nvme list-ns "/dev/$ctrl" | grep -q '0x1$'
}

row_logs() {
	local smart before after
	connect
	nvme error-log "/dev/$ctrl" -o json | jq -e '.errors | length >= 1'
	smart=$(nvme smart-log "/dev/$ctrl" -o json)
	has "$smart" '.critical_warning == 0 or (.critical_warning | type == "object")'
	before=$(jq '.host_read_commands | tonumber' <<<"$smart")
	dd if="$dev" of=/dev/null bs=4k count=64 iflag=direct
	after=$(nvme smart-log "/dev/$ctrl" -o json | jq '.host_read_commands | tonumber')
	[ "$SELF_TEST" = 1 ] || [ "$after" -ge $((before + 64)) ]
	nvme changed-ns-list-log "/dev/$ctrl"
	# Without --csi nvme-cli also requests zoned commands where CAP.CSS has the bit for command sets.
	nvme effects-log "/dev/$ctrl" --csi=0 -o json | jq -e . >/dev/null
	nvme ana-log "/dev/$ctrl" -o json | jq -e . >/dev/null
	[ "$SELF_TEST" = 1 ] || {
		nvme fw-log "/dev/$ctrl" -o json | jq -e . >/dev/null
		nvme supported-log-pages "/dev/$ctrl" -o json | jq -e . >/dev/null
	}
	# An unknown log page gives an error status, never success.
	not nvme get-log "/dev/$ctrl" --log-id=0x7f --log-len=16
}

row_features() {
	local id
	connect
	nvme show-regs "/dev/$ctrl"
	nvme show-regs "/dev/$ctrl" -o json | jq -e '.cap > 0 and .csts % 2 == 1'
	for id in 0x07 0x0b 0x0f; do
		nvme get-feature "/dev/$ctrl" -f "$id"
	done
	not nvme get-feature "/dev/$ctrl" -f 0x7f
}

row_connect_all() {
	nvme connect-all -t tcp -a "$HOST" -s "$TARGET_PORT"
	wait_for 20 ns_of "$NQN" 1
	wait_for 20 ns_of "$NQN_SECOND" 1
	not ctrl_of "$NQN_CLOSED"
	nvme disconnect-all
	wait_for 20 ctrl_gone "$NQN"
	wait_for 20 ctrl_gone "$NQN_SECOND"
}

row_denied_host() {
	not nvme connect -t tcp -a "$HOST" -s "$TARGET_PORT" -n "$NQN_CLOSED"
	not nvme connect -t tcp -a "$HOST" -s "$TARGET_PORT" -n "$NQN:no-such-subsystem"
	not ctrl_of "$NQN_CLOSED"
}

# copy_tree: copies files to $dev and compares them after a new mount.
copy_tree() {
	mount "$dev" /mnt/test
	cp -a /etc /usr/share/zoneinfo /mnt/test/
	dd if=/dev/urandom of=/mnt/test/random bs=1M count=16
	sha256sum /mnt/test/random >/tmp/sum
	umount /mnt/test
	mount "$dev" /mnt/test
	sha256sum -c /tmp/sum
	diff -r --no-dereference /etc /mnt/test/etc
	rm -r /mnt/test/zoneinfo
	fstrim /mnt/test
	umount /mnt/test
}

row_ext4() {
	connect
	mkfs.ext4 -q -F "$dev"
	copy_tree
	fsck.ext4 -f -n "$dev"
}

row_xfs() {
	connect
	# mkfs.xfs refuses 256 MiB without these variables.
	TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q -f "$dev"
	copy_tree
	xfs_repair -n "$dev"
}

# queues N: the controller has N I/O queues and the admin queue.
queues() { [ "$(cat "/sys/class/nvme/$ctrl/queue_count")" -eq $(($1 + 1)) ]; }

row_fio_1() {
	connect -i 1
	queues 1
	fio_verify one
}

row_fio_1_digests() {
	connect -i 1 -g -G
	fio_verify one-digests
}

row_fio_4() {
	connect -i 4
	queues 4
	fio_verify four --numjobs=4 --offset_increment="$FIO_SIZE" --cpus_allowed=0-3 --cpus_allowed_policy=split
}

row_fio_4_digests() {
	connect -i 4 -g -G
	queues 4
	fio_verify four-digests --numjobs=4 --offset_increment="$FIO_SIZE" --cpus_allowed=0-3 \
		--cpus_allowed_policy=split
}

# Little data with both digests, every kind of transfer: for tests/interop/dissect.
row_digests() {
	connect -i 1 -g -G
	dd if=/dev/urandom of=/tmp/data bs=64k count=4
	dd if=/tmp/data of="$dev" bs=4k count=64 oflag=direct
	dd if=/tmp/data of="$dev" bs=64k count=4 oflag=direct
	dd if="$dev" of=/tmp/back bs=64k count=4 iflag=direct
	cmp /tmp/data /tmp/back
	disconnect
}

row_block_commands() {
	local bs
	connect
	bs=$(blockdev --getss "$dev")
	dd if=/dev/urandom of=/tmp/block bs=64k count=1
	dd if=/tmp/block of="$dev" bs=64k count=1 oflag=direct conv=fsync
	nvme flush "$dev" -n 1
	[ "$SELF_TEST" = 1 ] || {
		nvme compare "$dev" -s 0 -c $((65536 / bs - 1)) -z 65536 -d /tmp/block
		not nvme compare "$dev" -s 1 -c $((65536 / bs - 1)) -z 65536 -d /tmp/block
	}
	nvme write-zeroes "$dev" -s 0 -c $((32768 / bs - 1))
	dd if="$dev" of=/tmp/back bs=64k count=1 iflag=direct
	cmp -n 32768 /tmp/back /dev/zero
	cmp -n 32768 -i 32768 /tmp/back /tmp/block
	blkdiscard -o 0 -l 1048576 "$dev"
	blkdiscard -z -o 0 -l 1048576 "$dev"
	dd if="$dev" of=/tmp/back bs=64k count=16 iflag=direct
	cmp -n 1048576 /tmp/back /dev/zero
	nvme dsm "$dev" -n 1 -d -s 2048 -b 128
	# Beyond the end: LBA Out of Range, never success.
	not nvme read "$dev" -s "$(blockdev --getsz "$dev")" -c 0 -z "$bs" -d /tmp/back
}

# load SECONDS: fio in the background, $load is its process; returns when it has written.
load() {
	local before
	before=$(sectors_written "$dev")
	fio --name=load --filename="$dev" --ioengine=libaio --direct=1 --rw=randrw --bs=16k --iodepth=16 \
		--size=64M --time_based --runtime="$1" --output=/tmp/fio-load &
	load=$!
	wait_for 30 has_written "$dev" "$before"
}

row_reset_load() {
	local _
	connect
	load 10
	for _ in 1 2 3; do
		nvme reset "/dev/$ctrl"
		wait_for 30 ctrl_is "$ctrl" live
	done
	wait "$load"
	disconnect
}

row_disconnect_load() {
	connect
	load 60
	disconnect
	not wait "$load"
	connect
	dd if="$dev" of=/dev/null bs=64k count=16 iflag=direct
	disconnect
}

row_namespace_live() {
	local second
	connect
	not ns_of "$NQN" 2
	control reload two-ns
	wait_for 20 ns_of "$NQN" 2
	second=$(ns_of "$NQN" 2)
	wait_for 20 test -b "$second"
	dd if=/dev/zero of="$second" bs=64k count=16 oflag=direct
	[ "$(blockdev --getsize64 "$second")" -eq $((64 << 20)) ]
	# The host may still probe the second one (its writer has just closed it). Such a read gets
	# Invalid Namespace, which is right, and the kernel logs it.
	control reload base
	wait_for 20 not ns_of "$NQN" 2
	# The first namespace is not affected.
	dd if="$dev" of=/dev/null bs=64k count=16 iflag=direct
	disconnect
}

# SIGTERM under load: the target exits with status 0, the host reconnects to the next target.
row_clean_stop() {
	connect -c 1 -l 120
	load 12
	control stop
	control start
	wait_for 60 ctrl_is "$ctrl" live
	wait "$load"
	disconnect
}

row_target_killed() {
	local fio_pid before step
	connect -c 1 -l 120
	before=$(sectors_written "$dev")
	fio_verify killed --size=64M --bsrange=4k-32k &
	fio_pid=$!
	for step in 16384 65536; do
		wait_for 120 has_written "$dev" $((before + step))
		control kill
		control start
		wait_for 60 ctrl_is "$ctrl" live
	done
	wait "$fio_pid"
	disconnect
}

uptime_past() { awk -v t="$1" '{exit !($1 > t)}' /proc/uptime; }

row_link_cut() {
	local kato=5 end
	connect -k "$kato" -c 1 -l 120
	control mark
	end=$(awk -v k="$kato" '{print $1 + 3 * k}' /proc/uptime)
	ip link set eth0 down
	wait_for 60 not ctrl_is "$ctrl" live
	wait_for 60 uptime_past "$end"
	ip link set eth0 up
	wait_for 20 control ping
	control wait-log 10 'keep.?alive.*(expir|timeout|timed out)|kato.*expir'
	wait_for 60 ctrl_is "$ctrl" live
	dd if="$dev" of=/dev/null bs=64k count=16 iflag=direct
	disconnect
}

# Our host side against the kernel's target.
row_weft_host() {
	export NVMET_ADDRESS=0.0.0.0
	nvmet_start "$NQN"
	control weft-host "$NQN"
	nvmet_stop
}
