# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
#
# Rows of inside.sh about failover: the Linux host's native multipath between two targets of weft,
# weft's host between targets of the kernel and one of ours, and Cross-Controller Reset by nvme-cli.
# Each target has its own network namespace behind a veth, so that a link can be cut silently
# (netem). Sourced in the guest by inside.sh. FAILOVER_ROUNDS: how often a row repeats its faults.

FAILOVER_ROWS='
failover-native
failover-nvmet
failover-reset
'

FAILOVER_UUID=7c1f5a0e-3b7d-4a64-9d0f-2e8b6c4a1d55
FAILOVER_SERIAL=FAILOVER
declare -A pids=()
# Each target's link number: the third number of its address, also its port number.
declare -A links=([a]=1 [b]=2 [c]=3)

# ---- links ---------------------------------------------------------------------------------------

addr_of() { echo "10.91.${links[$1]}.2"; }

# link_make WHO: a namespace for a target, and a veth to it.
link_make() {
	ip netns add "t$1"
	ip link add "w$1" type veth peer name eth0 netns "t$1"
	ip addr add "10.91.${links[$1]}.1/24" dev "w$1"
	ip link set "w$1" up
	ip -n "t$1" addr add "$(addr_of "$1")/24" dev eth0
	ip -n "t$1" link set eth0 up
	ip -n "t$1" link set lo up
}

# inside WHO COMMAND...: runs in the target's network namespace, with our mounts and so our
# configfs.
inside() { nsenter --net="/run/netns/t$1" "${@:2}"; }

# Drops every packet in both directions; no connection is reset.
link_cut() {
	tc qdisc replace dev "w$1" root netem loss 100%
	inside "$1" tc qdisc replace dev eth0 root netem loss 100%
}

link_heal() {
	tc qdisc del dev "w$1" root
	inside "$1" tc qdisc del dev eth0 root
}

listens() { nc -z -w 2 "$(addr_of "$1")" 4420; }

# ---- two targets of weft that serve one file -----------------------------------------------------

other_of() { if [ "$1" = a ]; then echo b; else echo a; fi; }

# member_config WHO OTHER MEDIA: writes the member's document to /tmp/WHO.json.
member_config() {
	jq -n --arg who "$1" --arg other "$2" --arg media "$3" --arg nqn "$NQN" --arg addr "$(addr_of "$1")" \
		--arg uuid $FAILOVER_UUID --arg serial $FAILOVER_SERIAL --argjson port "${links[$1]}" '
		def range: {a: [1001, 1999], b: [2001, 2999], c: [3001, 3999]}[.];
		{version: 1,
		 cluster: {name: $who, listen: "unix:/tmp/peer-\($who).sock", secret_file: "/tmp/failover-secret",
			   cntlids: ($who | range), fence: "kill", answer_ms: 2000,
			   peers: [{name: $other, address: "unix:/tmp/peer-\($other).sock", cntlids: ($other | range)}]},
		 subsystems: [{nqn: $nqn, serial: $serial, allow_any_host: true,
			       namespaces: [{nsid: 1, media: $media, uuid: $uuid, clustered: true}]}],
		 ports: [{id: $port, address: $addr, service: "4420", subsystems: [$nqn]}]}' >"/tmp/$1.json"
}

member_start() {
	nsenter --net="/run/netns/t$1" "$weft" serve -c "/tmp/$1.json" --state "/tmp/state-$row-$1" \
		--discovery none --reactors 1 >>"/tmp/target-$row-$1" 2>&1 &
	pids[$1]=$!
	wait_for 60 listens "$1"
}

member_end() {
	local status=0
	kill "-$2" "${pids[$1]}"
	wait_for 60 zombie_or_gone "${pids[$1]}"
	wait "${pids[$1]}" || status=$?
	[ "$2" = KILL ] || [ "$status" -eq 0 ]
}

member_ctl() { "$weft" ctl --state "/tmp/state-$row-$1" "${@:2}"; }

secret_make() { (umask 077 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >/tmp/failover-secret); }

# Starts targets a and b on one file and connects the Linux host to both: $dev, ${ctrls[a]},
# ${ctrls[b]}.
declare -A ctrls=()
pair_start() {
	local who
	trap failover_clean EXIT
	secret_make
	truncate -s 32M /var/tmp/failover.img
	for who in a b; do
		link_make $who
		member_config $who "$(other_of $who)" file:/var/tmp/failover.img,block=4096
	done
	for who in a b; do
		member_start $who
	done
	for who in a b; do
		HOST=$(addr_of $who) TARGET_PORT=4420 connect -i 2 -k "$1" --reconnect-delay=1 --ctrl-loss-tmo=300 \
			--fast_io_fail_tmo=120
		ctrls[$who]=$(ctrl_at "$(addr_of $who)")
	done
	paths_are 2 live
}

pair_stop() {
	disconnect
	member_end a TERM
	member_end b TERM
}

# Cleans up after a row, however it ended.
failover_clean() {
	local cfg=/sys/kernel/config/nvmet nqn=$NQN who
	set +e
	nvme disconnect-all
	kill -KILL "${pids[@]}"
	[ ! -d "$cfg/subsystems/$nqn" ] || {
		rm "$cfg"/ports/2[0-9]/subsystems/"$nqn"
		rmdir "$cfg"/ports/2[0-9]
		echo 0 >"$cfg/subsystems/$nqn/namespaces/1/enable"
		rmdir "$cfg/subsystems/$nqn/namespaces/1" "$cfg/subsystems/$nqn"
	}
	for who in "${!links[@]}"; do
		ip link del "w$who"
		ip netns del "t$who"
	done
	rm -f /var/tmp/failover.img /tmp/peer-*.sock
} >/dev/null 2>&1

# ---- what the Linux host sees --------------------------------------------------------------------

# Prints the controller connected to an address.
ctrl_at() {
	local c
	for c in /sys/class/nvme/nvme*; do
		[[ $(cat "$c/address") == *traddr=$1,* ]] || continue
		echo "${c##*/}"
		return
	done
	return 1
}

# paths_are COUNT STATE: `nvme list-subsys` shows this many paths in the state.
paths_are() {
	[ "$(nvme list-subsys -o json | jq --arg nqn "$NQN" --arg state "$2" \
		'[.. | objects | select(.NQN? == $nqn) | .Paths[] | select(.State == $state)] | length')" -eq "$1" ]
}

subsystem_folder() { dirname "$(grep -lxF "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)"; }

# Sectors written to the namespace by one path.
path_sectors() { awk '{print $7}' /sys/block/nvme*c"${ctrls[$1]#nvme}n1/stat"; }
path_carries() { [ "$(path_sectors "$1")" -gt "$2" ]; }

# Writes use this path now.
carried_by() { wait_for 60 path_carries "$1" $(($(path_sectors "$1") + 256)); }

# fio in the background, in rounds that each verify what they wrote, until load_end.
load_start() {
	rm -f /tmp/load-end
	(
		until [ -e /tmp/load-end ]; do
			fio_verify failover --size=8M --bsrange=4k-32k --verify_backlog=64 --verify_state_save=0 \
				--randrepeat=0 --output-format=json
			# Everything written was read back.
			has "$(cat /tmp/fio-failover)" '.jobs[0] | .error == 0 and .write.total_ios > 0 and
				.read.total_ios == .write.total_ios'
			jq -c '.jobs[0] | [.write.total_ios, .read.total_ios, .write.clat_ns.max]' /tmp/fio-failover
		done
	) >"/tmp/load-$row" 2>&1 &
	load=$!
}

load_end() {
	local status=0
	touch /tmp/load-end
	wait "$load" || status=$?
	tail -n 20 "/tmp/load-$row"
	return $status
}

# The faults, each under load: a path is lost, all I/O uses the other, then the path is restored and
# used again.
back_to_two() {
	wait_for 60 paths_are 2 live
	carried_by "$1"
}

native_kill() {
	member_end a KILL
	carried_by b
	member_start a
	back_to_two a
}

native_restart() {
	member_end b TERM
	carried_by a
	member_start b
	back_to_two b
}

path_ana_is() { [ "$(cat /sys/block/nvme*c"${ctrls[$1]#nvme}n1/ana_state")" = "$2" ]; }

# ana_move FROM TO: all I/O uses TO, and none uses FROM once the host knows the states.
ana_move() {
	local before
	member_ctl "$2" ana set "${links[$2]}" 1 optimized
	wait_for 60 path_ana_is "$2" optimized
	member_ctl "$1" ana set "${links[$1]}" 1 inaccessible
	wait_for 60 path_ana_is "$1" inaccessible
	carried_by "$2" # what had been sent before has ended
	before=$(path_sectors "$1")
	carried_by "$2"
	[ "$(path_sectors "$1")" -eq "$before" ]
}

native_ana() {
	ana_move a b
	ana_move b a
	member_ctl b ana set "${links[b]}" 1 optimized
	back_to_two b
}

native_cut() {
	link_cut b
	wait_for 60 not ctrl_is "${ctrls[b]}" live
	carried_by a
	link_heal b
	back_to_two b
}

# Target a is stopped for longer than KATO and then continued.
native_stop() {
	kill -STOP "${pids[a]}"
	wait_for 60 not ctrl_is "${ctrls[a]}" live
	carried_by b
	kill -CONT "${pids[a]}"
	back_to_two a
	not zombie_or_gone "${pids[a]}"
}

row_failover_native() {
	local round fault
	[ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ]
	pair_start 2
	echo round-robin >"$(subsystem_folder)/iopolicy"
	nvme list-subsys
	load_start
	for ((round = 0; round < FAILOVER_ROUNDS; round++)); do
		for fault in kill ana cut stop restart; do
			echo "$SECONDS: $fault"
			carried_by a
			carried_by b
			"native_$fault"
		done
	done
	echo "$SECONDS: end"
	load_end
	nvme list-subsys
	paths_are 2 live
	# Paths may have errors; the device that fio uses may not.
	not grep -E "I/O error.*(dev|device) ${dev##*/}\\b" <(dmesg)
	pair_stop
}

# ---- weft's host between two ports of the kernel's target and one of ours ------------------------

# kernel_port WHO: makes the kernel's target listen in that network namespace.
kernel_port() {
	local port=/sys/kernel/config/nvmet/ports/2${links[$1]}
	mkdir "$port"
	echo tcp >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	addr_of "$1" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
}

kernel_link() {
	local cfg=/sys/kernel/config/nvmet
	inside "$1" ln -s "$cfg/subsystems/$NQN" "$cfg/ports/2${links[$1]}/subsystems/$NQN"
}
kernel_unlink() { rm "/sys/kernel/config/nvmet/ports/2${links[$1]}/subsystems/$NQN"; }

kernel_subsystem() {
	local subsystem=/sys/kernel/config/nvmet/subsystems/$NQN
	modprobe -a nvmet nvmet-tcp
	mkdir -p "$subsystem/namespaces/1"
	echo 1 >"$subsystem/attr_allow_any_host"
	echo $FAILOVER_SERIAL >"$subsystem/attr_serial"
	echo 1 >"$subsystem/attr_cntlid_min"
	echo 999 >"$subsystem/attr_cntlid_max"
	echo "$null" >"$subsystem/namespaces/1/device_path"
	echo $FAILOVER_UUID >"$subsystem/namespaces/1/device_uuid"
	echo 1 >"$subsystem/namespaces/1/enable"
}

# ask ORDER: the answer of weft_torture, in $said.
ask() {
	echo "$1" >&"${torture[1]}"
	read -r -t 120 said <&"${torture[0]}"
	echo "$1: $said"
}

host_says() {
	ask report
	has "$said" "$1"
}

# Commands complete, with one path less.
host_goes_on() {
	local sum
	ask report
	sum=$(jq '.reads + .writes' <<<"$said")
	wait_for 60 host_says ".reads + .writes > $sum + 500"
}

# host_loses COMMAND...: the command costs a path; the load goes on.
host_loses() {
	local losses
	echo "$SECONDS: $*"
	ask report
	losses=$(jq .losses <<<"$said")
	"$@"
	wait_for 60 host_says ".losses > $losses and .live == 2"
	host_goes_on
}

host_regains() {
	echo "$SECONDS: $*"
	"$@"
	wait_for 60 host_says '.live == 3'
	host_goes_on
}

log_says() { grep -E "$1" "/tmp/host-$row"; }

nvmet_faults() {
	local by_time
	ask report
	by_time=$(jq .fences_by_time <<<"$said")
	# The kernel's target knows no Cross-Controller Reset: its writes wait for KATO.
	host_loses link_cut a
	wait_for 60 host_says ".fences_by_time > $by_time"
	host_regains link_heal a
	host_loses kernel_unlink b
	host_regains kernel_link b
	# Our target does, but no other member can do it for c; c can after its restart.
	host_loses member_end c KILL
	host_regains member_start c
	host_loses link_cut c
	host_regains link_heal c
}

row_failover_nvmet() {
	local who round status=0
	trap failover_clean EXIT
	secret_make
	null_device failover 4096
	kernel_subsystem
	for who in a b c; do
		link_make $who
	done
	for who in a b; do
		kernel_port $who
		kernel_link $who
		wait_for 60 listens $who
	done
	member_config c a "file:$null"
	member_start c
	coproc torture {
		exec "${weft}_torture" --nqn "$NQN" --path "$(addr_of a):4420" --path "$(addr_of b):4420" \
			--path "$(addr_of c):4420" --blocks 1024 --depth 32 --profile default --set keep-alive=2s \
			--set silence=1500ms --set quiesce=1s --set reconnect-max=1s --set fast-io-fail=0 2>"/tmp/host-$row"
	}
	pids[torture]=$torture_PID # bash forgets it when the process has ended
	read -r -t 60 said <&"${torture[0]}"
	[ "$said" = ready ]
	wait_for 60 host_says '.live == 3'
	log_says "$(addr_of a).*live, controller [0-9]{1,3},.*target without Cross-Controller Reset"
	log_says "$(addr_of b).*live, controller [0-9]{1,3},.*target without Cross-Controller Reset"
	log_says "$(addr_of c).*live, controller 3[0-9]{3},"
	not log_says "$(addr_of c).*without Cross-Controller Reset"
	for ((round = 0; round < FAILOVER_ROUNDS; round++)); do
		nvmet_faults
		ask verify
		has "$said" '.wrong == 0 and .failed == 0'
	done
	log_says 'writes of controller [0-9]{1,3} wait [0-9]+ ms \(KATO \+ CQT\)'
	log_says 'controller [0-9]{1,3} has ended by time'
	not log_says 'controller [0-9]{1,3} (was reset|wait for its reset)'
	ask stop
	has "$said" '.wrong == 0 and .failed == 0 and .resent > 0 and .live == 3'
	wait "${pids[torture]}" || status=$?
	[ "$status" -eq 0 ]
	member_end c TERM
	failover_clean
	echo 0 >/sys/kernel/config/nullb/failover/power
	rmdir /sys/kernel/config/nullb/failover
}

# ---- Cross-Controller Reset by nvme-cli ----------------------------------------------------------

# id_read WHO: its Identify Controller, for id_number.
id_read() { nvme id-ctrl "/dev/${ctrls[$1]}" -o binary >/tmp/id-ctrl; }

# id_number OFFSET BYTES: little endian, unsigned.
id_number() { od -An -v "-tu$2" -j "$1" -N "$2" /tmp/id-ctrl | tr -d ' '; }

# instance_of WHO: CNTLID, CIU and CIRN, which name a controller in a reset.
instance_of() { id_read "$1" && echo "$(id_number 78 2) $(id_number 135 1) $(id_number 136 8)"; }
instance_is() { [ "$(instance_of "$1")" = "$2" ]; }
is_another() { ctrl_is "${ctrls[$1]}" live && ! instance_is "$1" "$2"; }

# reset_by WHO CNTLID CIU CIRN: asks target WHO to reset that controller; $said is nvme-cli's
# output.
reset_by() {
	local low high
	low=$(($4 & 0xffffffff))
	high=$((($4 >> 32) & 0xffffffff))
	said=$(nvme admin-passthru "/dev/${ctrls[$1]}" --opcode=0x38 --cdw10=$(($2 | $3 << 16)) \
		--cdw12=$low --cdw13=$high 2>&1) || {
		echo "$said"
		return 1
	}
	echo "$said"
}
is_immediate() { [[ $said =~ result:\ 0x0*1$ ]]; }

# reset_log WHO: the entries of log 1Eh, one a line: ICID CIU ACID CCRS CCRF.
reset_log() {
	nvme get-log "/dev/${ctrls[$1]}" --log-id=0x1e --log-len=512 --raw-binary >/tmp/log-1e
	python3 -c 'import struct
page = open("/tmp/log-1e", "rb").read()
for i in range(struct.unpack_from("<H", page)[0]):
    print(*struct.unpack_from("<HBxHBB", page, 8 + 8 * i))'
}
log_has_reset() { reset_log "$1" | grep -E "^$2 $3 [0-9]+ 1 "; }

# was_reset VIA CNTLID CIU: the reset is done, by its answer or by the log.
was_reset() { is_immediate || wait_for 60 log_has_reset "$@"; }

row_failover_reset() {
	local who was other new
	pair_start 5
	nvme list-subsys
	for who in a b; do
		was=$(instance_of $who)
		echo "$who: CNTLID, CIU, CIRN $was; CQT $(id_number 386 2); CCRL $(id_number 1807 1)"
		[ "$(id_number 78 2)" -eq "$(cat "/sys/class/nvme/${ctrls[$who]}/cntlid")" ]
		[ "$(id_number 135 1)" -gt 0 ]
		[ "$(id_number 136 8)" != 0 ]
		[ "$(id_number 386 2)" -gt 0 ]
		[ "$(id_number 1807 1)" -gt 0 ]
		has "$(nvme id-ctrl "/dev/${ctrls[$who]}" -o json)" ".cqt == $(id_number 386 2)"
		nvme get-log "/dev/${ctrls[$who]}" --log-id=0x1f --log-len=64
		[ -z "$(reset_log $who)" ]
		# A controller cannot be asked to reset itself.
		# shellcheck disable=SC2086 # three numbers
		not reset_by $who $was
	done
	# Each target resets a controller of the other process; Linux reconnects that controller.
	for who in a b; do
		other=$(other_of $who)
		was=$(instance_of "$other")
		# shellcheck disable=SC2086
		reset_by $who $was
		# shellcheck disable=SC2086
		was_reset $who ${was% *}
		wait_for 60 is_another "$other" "$was"
		# The old controller is gone: success at once, and its successor stays.
		new=$(instance_of "$other")
		# shellcheck disable=SC2086
		reset_by $who $was
		is_immediate
		instance_is "$other" "$new"
	done
	# A stopped target is killed before its controller is reported reset.
	was=$(instance_of a)
	kill -STOP "${pids[a]}"
	# shellcheck disable=SC2086
	reset_by b $was
	# shellcheck disable=SC2086
	was_reset b ${was% *}
	wait_for 60 zombie_or_gone "${pids[a]}"
	wait "${pids[a]}" || true
	random_file /tmp/random 16
	write_blocks /tmp/random 0
	same_blocks 0 16 /tmp/random
	member_start a
	wait_for 60 paths_are 2 live
	nvme list-subsys
	pair_stop
}
