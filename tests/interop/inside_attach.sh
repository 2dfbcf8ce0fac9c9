# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
#
# Rows of inside.sh about `weft attach`: the namespace as a block device of the guest's kernel, by
# ublk and by the kernel's NBD client. Sourced in the guest by inside.sh.

# NAME ALLOWED-IN-DMESG, as in inside.sh.
ATTACH_ROWS='
attach-ublk
attach-ublk-path
attach-nbd
'

# attach [option...]: attaches namespace $nsid over both ports; sets $attached; returns when the
# device or the socket exists.
attach() {
	"$weft" attach -n "$NQN" --path "$HOST:$TARGET_PORT" --nsid "$nsid" "$@" \
		>"/tmp/attach-$row" 2>"/tmp/attach-$row.err" &
	attached=$!
	# Remove the device when the row fails.
	trap 'kill -KILL "$attached" 2>/dev/null || true' EXIT
	wait_for 20 grep -Eq '^(Block device|Connect with): ' "/tmp/attach-$row" || {
		cat "/tmp/attach-$row" "/tmp/attach-$row.err"
		return 1
	}
}

# SIGTERM; weft attach must exit with status 0.
detach() {
	kill "$attached"
	wait_for 60 zombie_or_gone "$attached"
	wait "$attached" || {
		cat "/tmp/attach-$row.err"
		return 1
	}
}

has_ublk() { modprobe ublk_drv && [ -c /dev/ublk-control ]; }

# file_system TYPE: makes, fills, unmounts, mounts and compares a file system on $dev.
file_system() {
	case $1 in
	ext4) mkfs.ext4 -q -F "$dev" ;;
	xfs) mkfs.xfs -q -f "$dev" ;;
	esac
	mount -o discard "$dev" /mnt/test
	random_file /mnt/test/random 4096
	sha256sum /mnt/test/random >/tmp/sum
	umount /mnt/test
	mount "$dev" /mnt/test
	sha256sum -c /tmp/sum
	rm /mnt/test/random
	fstrim /mnt/test
	umount /mnt/test
}

# Checks reads, writes, discards and zeroes of $dev.
device_works() {
	fio_verify "$row"
	random_file /tmp/random 256
	write_blocks /tmp/random 16
	same_blocks 16 256 /tmp/random
	blkdiscard -o 65536 -l 65536 "$dev"
	blkdiscard -z -o 131072 -l 65536 "$dev"
	same_blocks 32 16 <(head -c 65536 /dev/zero)
	same_blocks 48 16 <(dd if=/tmp/random bs=4096 skip=32 count=16 status=none)
}

# A ublk device: verified data, two file systems, both block sizes, read-only, orderly detach.
row_attach_ublk() {
	local nsid
	mkdir -p /mnt/test
	target_start --reactors 2 --ns mem:512M --ns mem:64M,block=512
	nsid=1
	if ! has_ublk; then
		not "$weft" attach -n "$NQN" --path "$HOST:$TARGET_PORT" --nsid 1 --ublk 2>/tmp/said
		grep 'modprobe ublk_drv' /tmp/said
		target_stop
		return
	fi
	attach --ublk
	dev=/dev/ublkb0
	size_is $dev $((512 << 20))
	block_is $dev 4096
	device_works
	file_system xfs
	file_system ext4
	detach
	[ ! -e $dev ]
	[ ! -e /dev/ublkc0 ]
	nsid=2
	attach --ublk=5
	dev=/dev/ublkb5
	block_is $dev 512
	device_works
	# The device number is in use.
	not timeout 20 "$weft" attach -n "$NQN" --path "$HOST:$TARGET_PORT" --nsid 1 --ublk=5
	detach
	attach --ublk=5 --read-only
	blockdev_is_ro 1
	not write_blocks /dev/zero 0 count=1
	detach
	target_stop
}

# The target ends under load and is restarted: no I/O fails.
row_attach_ublk_path() {
	local nsid=1 load
	has_ublk || return 0
	target_start --reactors 2 --ns file:/var/tmp/path.img,size=64M
	attach --ublk
	dev=/dev/ublkb0
	fio --name=path --filename=$dev --rw=randwrite --bs=16k --iodepth=16 --ioengine=libaio --direct=1 \
		--size=16M --loops=4 --rate_iops=400 --verify=crc32c --output=/tmp/fio-path &
	load=$!
	wait_for 20 stat_past ublkb0 5 100
	kill -KILL "$target"
	wait "$target" || true
	target_start --reactors 2 --ns file:/var/tmp/path.img,size=64M
	wait "$load"
	detach
	target_stop
	rm /var/tmp/path.img
}

# The kernel's own NBD client on our socket, with two connections.
row_attach_nbd() {
	local nsid=1
	mkdir -p /mnt/test
	modprobe nbd
	target_start --reactors 2 --ns mem:512M
	attach --nbd /tmp/attach.sock
	dev=/dev/nbd0
	nbd-client -unix /tmp/attach.sock $dev -C 2 -b 4096
	wait_for 20 size_is $dev $((512 << 20))
	block_is $dev 4096
	device_works
	file_system ext4
	nbd-client -d $dev
	detach
	[ ! -e /tmp/attach.sock ]
	target_stop
}
