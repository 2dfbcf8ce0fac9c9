/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of I/O commands share. See io.h. Runs on the queue's reactor.
 *
 * Commands reach their medium through io_submit, which makes them atomic, or take their hold
 * themselves and submit with IO_IS_HELD. Memory media guard themselves, block by block
 * (media/mem.c, tcp/). For all other media, the command's whole range is held
 * (reactor/range_guard.h) while the medium works: shared with other readers, or exclusively to
 * change the blocks.
 *
 * A deallocation of more than IO_HELD_DISCARD_MAX_BYTES holds the gate of its store instead,
 * exclusively; fused pairs share the gate. The range of such a deallocation may be a whole device,
 * and holding each granule would cost more than the work. Plain reads and writes run unguarded
 * beside a large deallocation: each block is old, new or deallocated, and NVMe promises no more
 * there.
 */
#include "target/io.h"

#include "base/log.h"
#include "target/bad_blocks_command.h"
#include "target/loss.h"
#include "target/reach.h"

#include <errno.h>
#include <string.h>

#define IO_HELD_DISCARD_MAX_BYTES (4u << 20)

void io_note_error(const struct slot *slot, const struct ns *ns, int res, nvme_status status)
{
	struct ns_local *counters = &ns->locals[slot->queue->local->index];

	if (res < 0 && res != -ECANCELED && res != IO_REFUSED)
		log_limited(LOG_LEVEL_ERROR, "target", "%s: %s of %llu bytes at %llu failed: %s",
			    ns->media->spec, nvme_io_opcode_name(slot->sqe.opcode),
			    (unsigned long long)slot->io.len_bytes,
			    (unsigned long long)slot->io.offset, strerror(-res));
	/* SMART counts lost data. A full medium or a lack of memory loses no data. */
	if (nvme_status_same(status, NVME_SC_UNRECOVERED_READ) ||
	    nvme_status_same(status, NVME_SC_WRITE_FAULT))
		io_counter_add(&counters->media_errors, 1);
	else if (nvme_status_same(status, NVME_SC_CAPACITY_EXCEEDED))
		io_counter_add(&counters->space_errors, 1);
}

nvme_status io_status(const struct slot *slot, int res)
{
	/* A block device returns the same -errno for a reservation of its own. */
	if (res == IO_REFUSED && !nvme_status_is_ok(slot->early_status))
		return slot->early_status;
	return status_from_errno(res, slot->io.kind);
}

/* Not inlined, so that the path of a success stays short. */
static __attribute__((noinline)) void io_fail(struct slot *slot, int res)
{
	nvme_status status = io_status(slot, res);

	io_note_error(slot, slot->ns, res, status);
	if (loss_is_news(slot->ns))
		loss_answer(slot, status);
	else
		slot_complete(slot, status);
}

void io_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	if (res != 0)
		io_fail(slot, res);
	else if (slot->heals_bad)
		bad_blocks_heal_for(slot, NVME_SC_SUCCESS);
	else
		slot_complete(slot, NVME_SC_SUCCESS);
}

void io_cancel_hold(struct slot *slot)
{
	if (range_hold_cancel(&slot->hold))
		slot->hold.granted(&slot->hold);
}

void io_cancel_medium(struct slot *slot)
{
	if (slot->io.media->ops->cancel)
		slot->io.media->ops->cancel(&slot->io);
}

void io_cancel_turn(struct slot *slot)
{
	turn_leave(&slot->turn_wait);
	slot->turn_wait.go(&slot->turn_wait);
}

bool io_hold(struct slot *slot, const struct ns *ns, enum io_hold_kind kind)
{
	/* Of the store, not of the namespace: commands of a namespace that had the file before
	 * exclude those of the namespace that has it now. */
	struct range_guard *guard = ns->media->range_guard;

	if (kind == IO_HOLD_GATE
		    ? range_hold_take_gate(&slot->hold, guard)
		    : range_hold_take(&slot->hold, guard,
				      slot->io_cmd.first_block << ns->block_shift,
				      (uint64_t)slot->io_cmd.block_count << ns->block_shift))
		return true;
	slot->wait = SLOT_WAIT_HOLD;
	return false;
}

bool io_take_turn(struct slot *slot, void (*go)(struct turn_wait *wait))
{
	struct queue *queue = slot->queue;
	struct turn *turn = &queue->local->turn;

	if (turn_may(turn, queue->turn_host))
		return true;
	slot->turn_wait.go = go;
	slot->wait = SLOT_WAIT_BUDGET;
	turn_wait(turn, queue->turn_host, &queue->turn_queue, &slot->turn_wait);
	return false;
}

int io_end_wait(struct slot *slot)
{
	slot->wait = SLOT_WAIT_NONE;
	if (slot->is_abort_requested)
		return -ECANCELED;
	return nvme_status_is_ok(slot_judge_piece(slot)) ? 0 : IO_REFUSED;
}

/*
 * Every operation of a command on a medium starts here.
 *
 * The target may have stood still while the command waited for its hold or between two steps. The
 * host may then have sent the command on another path, so KATO is checked first. The target may
 * also stand still after this check, before the kernel has the operation. The medium therefore gets
 * a deadline for starting the operation, from the caller: mapped memory needs none.
 */
static inline void io_start_in_time(struct slot *slot)
{
	const struct queue *queue = slot->queue;

	if (ctrl_is_in_time(queue->ctrl, reactor_now_ns(queue->reactor)))
		media_submit(&slot->io);
	else
		slot->io.done(&slot->io, -ECANCELED);
}

_Static_assert(MEDIA_READ < MEDIA_WRITE && MEDIA_WRITE < MEDIA_FLUSH, "used as a range");

static inline bool io_has_credit(const struct media_io *io)
{
	return io->kind <= MEDIA_WRITE;
}

/* Starts an operation that the medium executes inside submit, and charges it. A wrapper of the
 * medium may still end the operation later: therefore the wait and the deadline. */
static void io_work_and_charge(struct slot *slot)
{
	const struct media_io *io = &slot->io;
	struct turn *turn = &slot->queue->local->turn;
	struct turn_host *host = slot->queue->turn_host;
	uint64_t cost_ns = turn_copy_ns(io->len_bytes);
	struct turn_measure measure;

	slot->wait = SLOT_WAIT_MEDIUM;
	slot->io.deadline_ns = ctrl_deadline_ns(slot->queue->ctrl);
	if (io_has_credit(io) && io->len_bytes <= TURN_CREDIT_BYTES) {
		turn_charge_credit(turn, host, io->len_bytes);
		io_start_in_time(slot);
		return;
	}
	if (io->kind == MEDIA_DISCARD || io->may_discard)
		cost_ns = turn_release_ns(io->len_bytes);
	turn_charge(turn, host, cost_ns);
	turn_measure_begin(turn, &measure, host);
	io_start_in_time(slot); /* the slot, and its queue, may be gone afterwards */
	turn_measure_end(turn, &measure, cost_ns);
}

static void io_on_turn(struct turn_wait *wait)
{
	struct slot *slot = container_of(wait, struct slot, turn_wait);
	int res = io_end_wait(slot);

	if (res == 0)
		io_work_and_charge(slot);
	else
		slot->io.done(&slot->io, res);
}

/* Not inlined, so that the path with credit stays short. */
static __attribute__((noinline)) void io_work_or_wait_turn(struct slot *slot)
{
	if (io_take_turn(slot, io_on_turn))
		io_work_and_charge(slot);
}

/* Starts an operation. Where the medium works inside submit, the operation may have to wait for a
 * turn with budget. */
static inline void io_start_within_budget(struct slot *slot)
{
	const struct media_io *io = &slot->io;

	if (io->media->works_in_submit &&
	    !(io_has_credit(io) && turn_take_credit(slot->queue->turn_host, io->len_bytes))) {
		io_work_or_wait_turn(slot);
		return;
	}
	slot->wait = SLOT_WAIT_MEDIUM;
	slot->io.deadline_ns = ctrl_deadline_ns(slot->queue->ctrl);
	io_start_in_time(slot);
}

static void io_on_guarded_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	range_hold_drop(&slot->hold);
	slot->io_done(io, res);
}

static void io_on_granted(struct range_hold *hold)
{
	struct slot *slot = container_of(hold, struct slot, hold);

	if (slot->is_abort_requested)
		io_on_guarded_done(&slot->io, -ECANCELED);
	else if (!nvme_status_is_ok(slot_judge_piece(slot)))
		io_on_guarded_done(&slot->io, IO_REFUSED);
	else
		io_start_within_budget(slot);
}

uint32_t ns_atomic_blocks(const struct ns *ns, const struct target_limits *limits)
{
	uint32_t blocks = limits->transfer_max_bytes >> ns->block_shift;

	return ns->mapped || ns->is_clustered || blocks == 0 ? 1 : blocks;
}

uint32_t ns_fused_blocks(const struct ns *ns, const struct target_limits *limits)
{
	uint32_t room = BUF_POOL_MAX_BYTES / 2 >> ns->block_shift;
	uint32_t blocks = ns_atomic_blocks(ns, limits);

	return blocks < room ? blocks : room;
}

void io_submit(struct slot *slot, const struct ns *ns, enum media_kind kind, unsigned flags,
	       void (*done)(struct media_io *io, int res))
{
	uint64_t bytes = (uint64_t)slot->io_cmd.block_count << ns->block_shift;

	slot->io.reactor = slot->queue->reactor;
	slot->io.media = ns->media;
	slot->io.kind = kind;
	slot->io.is_fua = slot->io_cmd.is_fua;
	slot->io.may_discard = slot->io_cmd.wants_deallocate;
	slot->io.offset = slot->io_cmd.first_block << ns->block_shift;
	slot->io.len_bytes = kind == MEDIA_FLUSH ? 0 : bytes;
	slot->io.iov = &slot->iov;
	slot->io.iov_count = 1;
	slot->io.done = done;
	if (ns->mapped) { /* guards its own memory, cannot be cancelled, has no deadline */
		if (kind <= MEDIA_WRITE &&
		    turn_take_credit(slot->queue->turn_host, slot->io.len_bytes))
			io_start_in_time(slot);
		else
			io_work_or_wait_turn(slot);
		return;
	}
	if (kind != MEDIA_FLUSH && !(flags & IO_IS_HELD)) {
		bool is_large =
			kind == MEDIA_DISCARD && slot->io.len_bytes > IO_HELD_DISCARD_MAX_BYTES;

		slot->io_done = done;
		slot->io.done = io_on_guarded_done;
		slot->hold.is_exclusive = kind != MEDIA_READ;
		slot->hold.granted = io_on_granted;
		if (!io_hold(slot, ns, is_large ? IO_HOLD_GATE : IO_HOLD_RANGE))
			return;
	}
	io_start_within_budget(slot);
}

nvme_status io_check_directive(struct slot *slot)
{
	/* DTYPE is bits 23:20. */
	if (slot->io_cmd.directive_type != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_AT(SQE_BYTE_CDW12 + 2, 4));
	return NVME_SC_SUCCESS;
}
