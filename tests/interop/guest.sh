#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest as root, started by tools/interop: every row once, TAP on standard output. After
# each row the kernel's log since the row's start is searched, and kept in dmesg-ROW.
# Environment: CONTROL_PORT TARGET_PORT NQN NQN_SECOND NQN_CLOSED UUID_FIRST ONLY SMOKE SELF_TEST
set -uo pipefail
here=$(dirname "$0")
# shellcheck source=tests/interop/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/interop/rows.sh
. "$here/rows.sh"

export FIO_SIZE=64M
[ "$SMOKE" = 0 ] || FIO_SIZE=16M
count=0 failures=0

# dmesg_judge ROW ALLOWED: prints the lines that the row must not cause.
dmesg_judge() {
	local always quiet
	dmesg >"$here/dmesg-$1"
	always=$(grep -E "$DMESG_ALWAYS" "$here/dmesg-$1")
	quiet=$(grep -E 'nvme|blk|I/O' "$here/dmesg-$1" | grep -vE "$DMESG_HARMLESS" | grep -Ei "$DMESG_QUIET")
	[ -z "$2" ] || quiet=$(grep -vEi "$2" <<<"$quiet")
	printf '%s\n%s\n' "$always" "$quiet" | grep -v '^$' | sort -u
}

# Disconnects and unmounts everything, whatever the row left.
clean_up() {
	umount /mnt/test
	udevadm settle -t 20
	ip link set eth0 up
	nvme disconnect-all
	[ "$SELF_TEST" = 1 ] || control alive || control start
} >/dev/null 2>&1

run_row() {
	local name=$1 needs=$2 allowed=$3 log=/tmp/row.log rc bad began=$SECONDS
	if [ -n "$ONLY" ] && [[ ",$ONLY," != *",$name,"* ]]; then return; fi
	if [ "$SMOKE" = 1 ] && [[ $needs == *long* ]]; then return; fi
	if [ "$SELF_TEST" = 1 ] && [[ $needs == *weft* ]]; then return; fi
	count=$((count + 1))
	dmesg --clear
	(
		set -Eeuo pipefail
		trap 'echo "failed at line $LINENO: $BASH_COMMAND"' ERR
		"row_${name//-/_}"
	) >"$log" 2>&1
	rc=$?
	clean_up
	bad=$(dmesg_judge "$name" "$allowed")
	if [ "$rc" -eq 0 ] && [ -z "$bad" ]; then
		echo "ok $count - $name ($((SECONDS - began)) s)"
		return
	fi
	failures=$((failures + 1))
	tail -n 40 "$log" | sed 's/^/# /'
	[ -z "$bad" ] || head -n 20 <<<"$bad" | sed 's/^/# dmesg: /'
	echo "not ok $count - $name ($((SECONDS - began)) s)"
}

modprobe -a nvme-tcp nvme-fabrics
mkdir -p /mnt/test
if [ "$SELF_TEST" = 1 ]; then
	HOST=127.0.0.1 TARGET_PORT=4420 NVMET_ADDRESS=127.0.0.1
	nvmet_start "$NQN" "$NQN_SECOND" >/dev/null || exit 1
fi
echo "# kernel $(uname -r), $(nvme version | head -n 1), $(fio --version)"
while read -r name needs allowed; do
	case $name in '' | '#'*) continue ;; esac
	run_row "$name" "$needs" "$allowed" </dev/null
done <<<"$ROWS"
echo "1..$count"
[ "$failures" -eq 0 ]
