#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest as root, started by tools/blktests: the nvme group of blktests, with weft as its
# external target (NVME_TARGET_CONTROL, see blktests-control beside this file). One TAP line per
# test; a test whose requirements are missing is a SKIP with blktests' own reason.
# Environment: TESTS, numbers separated by blanks, empty for all; IMAGE_SIZE of a namespace.
set -uo pipefail
here=$(dirname "$0")
export WEFT=/tmp/weft/weft WEFT_STATE=/tmp/blktests-state WEFT_FOLDER=/tmp/blktests-images
export IMAGE_SIZE

# Tests that no external target can serve, though blktests runs them: NUMBER REASON.
CANNOT='
041 authentication, which weft does not have yet
042 authentication, which weft does not have yet
043 authentication, which weft does not have yet
044 authentication, which weft does not have yet
045 authentication, which weft does not have yet
062 TLS, which weft does not have yet
063 TLS and authentication, which weft does not have yet
031 its subsystem names are not NQNs, which weft insists on
051 it switches the namespace off and on through the kernel target'"'"'s configfs
057 it moves ANA states through the kernel target'"'"'s configfs, so that nothing would be tested
058 it remaps namespaces through the kernel target'"'"'s configfs
'
cannot() {
	local reason
	reason=$(sed -n "s/^$1 //p" <<<"$CANNOT")
	[ "$1" != 068 ] || kernel_since 6.17 || reason="delayed_removal_secs is of newer kernels"
	[ -z "$reason" ] || echo "$reason"
	[ -n "$reason" ]
}
kernel_since() { printf '%s\n' "$1" "$(uname -r | grep -oE '^[0-9]+\.[0-9]+')" | sort -CV; }

# Works around assumptions of blktests: kernels called +deb13, where its parser takes the suffix for
# a part of the number, and systemd.
prepare() {
	cp -a "$here/weft" /tmp/weft
	cp -a "$here/suite" /tmp/blktests
	mkdir -p "$WEFT_FOLDER"
	modprobe -a nvme-tcp nvme-fabrics loop
	cat >/tmp/blktests/config <<-CONFIG
		NVME_TARGET_CONTROL=$here/blktests-control
		NVME_IMG_SIZE=$IMAGE_SIZE
		nvme_num_iter=10
		TIMEOUT=30
		NORMAL_USER=blktests
	CONFIG
	ln -sf "/usr/lib/modules/$(uname -r)/config" "/boot/config-$(uname -r | sed 's/+.*//')"
	mkdir -p /tmp/fake
	# shellcheck disable=SC2016 # the expressions are that script's
	printf '#!/bin/sh\nif [ "$1" = -r ]; then /usr/bin/uname -r | sed "s/+.*//"; else exec /usr/bin/uname "$@"; fi\n' \
		>/tmp/fake/uname
	# shellcheck disable=SC2016 # likewise
	printf '#!/bin/sh\nexec "$@"\n' >/tmp/fake/sudo
	chmod +x /tmp/fake/uname /tmp/fake/sudo
	useradd -m -s /bin/bash blktests
	export PATH=/tmp/fake:$PATH
}

target_start() {
	"$WEFT" serve -c "$here/blktests.json" --discovery none --state "$WEFT_STATE" >"$here/target.log" 2>&1 &
	target=$!
	for _ in $(seq 200); do
		nc -z 127.0.0.1 4429 && return
		sleep 0.1 # polls the condition
	done
	echo "Bail out! weft does not listen"
	exit 1
}

# Tests with test_device() need a device: a namespace of weft, connected for that test alone.
device_nqn=nqn.2026-11.io.weft:blktests-device
device_attach() {
	local ctl=("$WEFT" ctl --state "$WEFT_STATE") node
	"${ctl[@]}" subsystem show $device_nqn >/dev/null 2>&1 || {
		"${ctl[@]}" subsystem add $device_nqn
		"${ctl[@]}" ns add $device_nqn --media "file:$WEFT_FOLDER/device.img,size=$IMAGE_SIZE,block=4096"
	} >/dev/null
	nvme connect -t tcp -a 127.0.0.1 -s 4429 -n $device_nqn >/dev/null
	udevadm settle -t 20
	for node in /sys/block/nvme*; do
		[[ ${node##*/} =~ ^nvme[0-9]+n[0-9]+$ ]] || continue
		[ "$(cat "$node/device/subsysnqn")" = $device_nqn ] || continue
		echo "TEST_DEVS=(/dev/${node##*/})" >>config
	done
}

# Prints a test's verdict from the output of ./check: results/*/nvme/NUMBER.
judge() {
	local test=$1 file status reason
	file=$(find /tmp/blktests/results -path "*nvme/$test" -type f | head -n 1)
	status=$(sed -n 's/^status\t//p' "${file:-/dev/null}")
	reason=$(sed -n 's/^reason\t//p' "${file:-/dev/null}")
	case $status in
	pass) echo "ok $count - nvme/$test" ;;
	fail)
		failures=$((failures + 1))
		sed 's/^/# /' "/tmp/check-$test"
		find /tmp/blktests/results -path "*nvme/$test.*" -name '*.bad' -exec sed 's/^/# out: /' {} +
		echo "not ok $count - nvme/$test ${reason:-}"
		;;
	*)
		reason=$(sed -n 's/^ \{4\}//p' "/tmp/check-$test" | grep -v '^runtime' | sort -u | paste -sd ';')
		echo "ok $count - nvme/$test # SKIP ${reason:-of its own accord}"
		;;
	esac
}

prepare
target_start
cd /tmp/blktests || exit 1
[ -n "$TESTS" ] || TESTS=$(cd tests/nvme && printf '%s ' [0-9][0-9][0-9])
count=0 failures=0
for test in $TESTS; do
	count=$((count + 1))
	if reason=$(cannot "$test"); then
		echo "ok $count - nvme/$test # SKIP $reason"
		continue
	fi
	sed -i /TEST_DEVS/d config
	! grep -q '^test_device()' "tests/nvme/$test" || device_attach
	dmesg --clear
	./check "nvme/$test" >"/tmp/check-$test" 2>&1
	judge "$test"
	nvme disconnect-all >/dev/null 2>&1
	kill -0 "$target" || {
		echo "# weft has ended:"
		tail -n 20 "$here/target.log" | sed 's/^/# /'
		target_start
	}
done
mkdir -p "$here/results" && cp -a results/. "$here/results/"
kill "$target" && wait "$target"
echo "1..$count"
[ "$failures" -eq 0 ]
