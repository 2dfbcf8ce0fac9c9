/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused Compare and Write. See fused.h. Runs on the queue's reactor.
 *
 * Base 2.1, section 3.4.2: a first command without a second command, and a second without a first,
 * end as Missing Fused Command. When the two ranges differ, both commands end as Invalid Field.
 * When the first command fails, or the operation cannot run, the remaining command ends as Failed
 * Fused Command. A first command that succeeded stays a success when the write fails. The length is
 * limited to NACWU.
 *
 * On media that are not memory, the second command's hold is the gate of the store, which keeps
 * large deallocations away. The first command's hold is the range, taken after the gate.
 */
#include "target/fused.h"

#include "target/io.h"
#include "target/judge_again.h"
#include "target/reach.h"

#include <errno.h>
#include <string.h>

/* ---- the end of one, or of both ------------------------------------------------------------ */

/* Completes a command that waits for its partner. Otherwise marks the command to end when its data
 * has arrived: a host that was asked for data sends the data. */
static void fused_fail(struct slot *slot, nvme_status status)
{
	slot->fused_status = status;
	if (slot->is_fused_ready)
		slot_complete(slot, status);
}

/* Unlinks the two commands. Each then ends independently. */
static void fused_part(struct slot *slot)
{
	struct slot *other = slot->fused_with;

	slot->is_fused = false;
	slot->is_fused_ready = false;
	slot->fused_with = NULL;
	if (slot->queue->fused_first == slot)
		slot->queue->fused_first = NULL;
	if (other)
		other->fused_with = NULL;
}

void fused_on_end(struct slot *slot)
{
	struct slot *other = slot->fused_with;

	fused_part(slot);
	if (other)
		fused_fail(other, NVME_SC_FUSED_FAIL);
}

void fused_on_swap(struct queue *queue)
{
	if (queue->fused_first && queue->fused_first->is_fused_ready)
		slot_complete(queue->fused_first, NVME_SC_FUSED_FAIL);
}

/* Drops both holds and unlinks the two commands. Returns the second command. */
static struct slot *fused_dissolve(struct slot *first)
{
	struct slot *second = first->fused_with;

	range_hold_drop(&first->hold);
	range_hold_drop(&second->hold);
	fused_part(first);
	fused_part(second);
	return second;
}

/* Completes both commands, the first one first. */
static void fused_finish(struct slot *first, nvme_status status, nvme_status second_status)
{
	struct slot *second = fused_dissolve(first);

	slot_complete(first, status);
	slot_complete(second, second_status);
}

/* ---- execution ----------------------------------------------------------------------------- */

static void fused_count_write(const struct slot *second)
{
	io_counter_add(&io_counters(second)->write_commands, 1);
	io_counter_add(&io_counters(second)->bytes_written, second->data_bytes);
}

static void fused_write_done(struct media_io *io, int res)
{
	struct slot *first = container_of(io, struct slot, io)->fused_with;
	struct slot *second = fused_dissolve(first);

	slot_complete(first, NVME_SC_SUCCESS);
	io_done(&second->io, res);
}

/* Acts on the result of the comparison. Returns true when the write must follow; otherwise both
 * commands have ended. */
static bool fused_judge(struct slot *first, bool is_same)
{
	struct slot *second = first->fused_with;
	nvme_status status = slot_judge_piece(second);

	if (!is_same)
		fused_finish(first, nvme_status_dnr(NVME_SC_COMPARE_FAILED), NVME_SC_FUSED_FAIL);
	else if (second->is_abort_requested)
		fused_finish(first, NVME_SC_SUCCESS, NVME_SC_ABORT_REQUESTED);
	else if (!nvme_status_is_ok(status))
		fused_finish(first, NVME_SC_SUCCESS, status);
	else
		return true;
	return false;
}

static void fused_read_done(struct media_io *io, int res)
{
	struct slot *first = container_of(io, struct slot, io);
	struct slot *second = first->fused_with;

	first->wait = SLOT_WAIT_PAIR;
	if (res != 0) {
		fused_dissolve(first);
		io_done(&first->io, res);
		slot_complete(second, NVME_SC_FUSED_FAIL);
		return;
	}
	if (!fused_judge(first,
			 memcmp(first->data.addr, first->iov.iov_base, first->data_bytes) == 0))
		return;
	fused_count_write(second);
	second->has_changed = true; /* also when the write fails or is cancelled half way */
	second->iov = (struct iovec){.iov_base = second->data.addr, .iov_len = second->data_bytes};
	io_submit(second, second->ns, MEDIA_WRITE, IO_IS_HELD, fused_write_done);
}

static nvme_status slot_check_again(struct slot *slot)
{
	nvme_status status = slot_check_view(slot);

	return nvme_status_is_ok(status) ? slot_judge_piece(slot) : status;
}

/* Checks both commands against the configuration, reservation and bad-block marks in force now.
 * Returns true when one was refused: then both have ended. */
static bool fused_end_outdated(struct slot *first)
{
	nvme_status status = slot_check_again(first);

	if (!nvme_status_is_ok(status)) {
		fused_finish(first, status, NVME_SC_FUSED_FAIL);
		return true;
	}
	status = slot_check_again(first->fused_with);
	if (!nvme_status_is_ok(status))
		fused_finish(first, NVME_SC_FUSED_FAIL, status);
	return !nvme_status_is_ok(status);
}

static void fused_on_granted(struct range_hold *hold)
{
	struct slot *first = container_of(hold, struct slot, hold);

	if (first->is_abort_requested) {
		fused_finish(first, NVME_SC_ABORT_REQUESTED, NVME_SC_FUSED_FAIL);
		return;
	}
	if (fused_end_outdated(first))
		return;
	first->iov = (struct iovec){.iov_base = first->buf.addr + first->data_bytes,
				    .iov_len = first->data_bytes};
	io_submit(first, first->ns, MEDIA_READ, IO_IS_HELD, fused_read_done);
}

static void fused_on_gate(struct range_hold *hold)
{
	struct slot *second = container_of(hold, struct slot, hold);
	struct slot *first = second->fused_with;

	first->wait = SLOT_WAIT_PAIR;
	second->wait = SLOT_WAIT_PAIR;
	if (first->is_abort_requested) {
		fused_finish(first, NVME_SC_ABORT_REQUESTED, NVME_SC_FUSED_FAIL);
		return;
	}
	if (second->is_abort_requested) {
		fused_finish(first, NVME_SC_FUSED_FAIL, NVME_SC_ABORT_REQUESTED);
		return;
	}
	first->hold.is_exclusive = true;
	first->hold.granted = fused_on_granted;
	if (io_hold(first, first->ns, IO_HOLD_RANGE))
		fused_on_granted(&first->hold);
}

/* Cancels the first command while the second one waits for the gate. */
void fused_cancel_gate(struct slot *first)
{
	io_cancel_hold(first->fused_with);
}

/* Memory media: compares and writes one block. One block lies within one granule, and all commands
 * take the same guard. */
static void fused_run_mapped(struct slot *first, struct slot *second)
{
	const struct ns *ns = first->ns;
	uint8_t *at = ns->mapped + (first->io_cmd.first_block << ns->block_shift);
	struct block_guard *guard = ns->media->guard;
	atomic_uint *word = guard ? block_guard_word_at(guard, at) : NULL;
	bool is_same;

	if (word)
		block_guard_spin_exclusive(word);
	is_same = memcmp(first->data.addr, at, first->data_bytes) == 0;
	if (is_same && !second->is_abort_requested)
		memcpy(at, second->data.addr, second->data_bytes);
	if (word)
		block_guard_release_exclusive(word);
	if (!fused_judge(first, is_same))
		return;
	fused_count_write(second);
	fused_dissolve(first);
	slot_complete(first, NVME_SC_SUCCESS);
	io_done(&second->io, 0);
}

/* True when the configuration has changed since the command was judged, and the command is no
 * longer valid as judged. */
static bool slot_is_outdated(const struct slot *slot)
{
	return slot->snapshot != slot->queue->local->snapshot &&
	       (!slot->is_awaited || slot->is_displaced) && !slot_is_up_to_date(slot);
}

void fused_cancel_ready(struct slot *slot)
{
	slot_complete(slot, NVME_SC_ABORT_REQUESTED);
}

static void fused_execute(struct slot *slot)
{
	struct slot *other = slot->fused_with;
	struct slot *first = slot_fuse(slot) == SQE_FUSE_FIRST ? slot : other;
	struct slot *second;

	if (!nvme_status_is_ok(slot->fused_status)) {
		slot_complete(slot, slot->fused_status);
		return;
	}
	/* A first command without its second must not outlast its configuration: see
	 * fused_on_swap. */
	if (!other && slot->snapshot != slot->queue->local->snapshot) {
		slot_complete(slot, NVME_SC_FUSED_FAIL);
		return;
	}
	if (!other || !other->is_fused_ready) {
		slot->is_fused_ready = true;
		slot->wait = SLOT_WAIT_PARTNER;
		return;
	}
	other->is_fused_ready = false;
	other->wait = SLOT_WAIT_NONE;
	if (slot_is_outdated(slot) || slot_is_outdated(other)) {
		fused_finish(first, NVME_SC_FUSED_FAIL, NVME_SC_FUSED_FAIL);
		return;
	}
	if (fused_end_outdated(first))
		return;
	io_counter_add(&io_counters(first)->read_commands, 1);
	io_counter_add(&io_counters(first)->bytes_read, first->data_bytes);
	if (first->ns->mapped) {
		fused_run_mapped(first, first->fused_with);
		return;
	}
	second = first->fused_with;
	second->hold.is_exclusive = false;
	second->hold.granted = fused_on_gate;
	if (io_hold(second, first->ns, IO_HOLD_GATE))
		fused_on_gate(&second->hold);
	else
		first->wait = SLOT_WAIT_GATE_OF_PARTNER;
}

/* ---- judging ------------------------------------------------------------------------------- */

static void fused_adopt(struct slot *slot, struct slot *with)
{
	slot->is_fused = true;
	slot->fused_with = with;
	slot->fused_status = NVME_SC_SUCCESS;
	slot->execute = fused_execute;
}

static nvme_status fused_first_prepare(struct slot *slot)
{
	struct queue *queue = slot->queue;
	nvme_status status;

	/* Set before any refusal: the next command of the queue is checked as the second one even
	 * when this first command is refused. */
	queue->is_fused_open = true;
	if (slot->sqe.opcode != NVME_IO_COMPARE)
		return command_refuse(slot, NVME_SC_INVALID_FIELD,
				      offsetof(struct nvme_sqe, flags));
	status = command_prepare_alone(slot);
	if (!nvme_status_is_ok(status))
		return status;
	if (slot->ns->is_clustered)
		return command_refuse(slot, NVME_SC_INVALID_FIELD,
				      offsetof(struct nvme_sqe, flags));
	if (slot->io_cmd.block_count > ns_fused_blocks(slot->ns, &slot->snapshot->limits))
		return command_refuse(slot, NVME_SC_ATOMIC_WRITE_UNIT, SQE_BYTE_CDW12);
	fused_adopt(slot, NULL);
	queue->fused_first = slot;
	return NVME_SC_SUCCESS;
}

static bool is_same_range(const struct slot *a, const struct slot *b)
{
	struct io_cmd cmd_a, cmd_b;

	io_cmd_decode(&a->sqe, &cmd_a);
	io_cmd_decode(&b->sqe, &cmd_b);
	return le32_get(a->sqe.nsid) == le32_get(b->sqe.nsid) &&
	       cmd_a.first_block == cmd_b.first_block && cmd_a.block_count == cmd_b.block_count;
}

static nvme_status fused_second_prepare(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct slot *first = queue->fused_first;
	nvme_status status;

	if (!queue->is_fused_open)
		return NVME_SC_FUSED_MISSING;
	queue->is_fused_open = false;
	queue->fused_first = NULL;
	if (!first)
		return NVME_SC_FUSED_FAIL;
	if (slot->sqe.opcode != NVME_IO_WRITE || !is_same_range(slot, first)) {
		fused_fail(first, nvme_status_dnr(NVME_SC_INVALID_FIELD));
		return command_refuse(slot, NVME_SC_INVALID_FIELD,
				      slot->sqe.opcode != NVME_IO_WRITE
					      ? offsetof(struct nvme_sqe, opcode)
					      : SQE_BYTE_CDW10);
	}
	status = command_prepare_alone(slot);
	/* A change of the configuration between the two commands gave the NSID another medium. */
	if (nvme_status_is_ok(status) && slot->ns->backing != first->ns->backing)
		status = NVME_SC_FUSED_FAIL;
	if (!nvme_status_is_ok(status)) {
		fused_fail(first, NVME_SC_FUSED_FAIL);
		return status;
	}
	fused_adopt(slot, first);
	first->fused_with = slot;
	return NVME_SC_SUCCESS;
}

nvme_status fused_prepare(struct slot *slot)
{
	struct queue *queue = slot->queue;
	struct slot *first = queue->fused_first;
	enum sqe_fuse fuse = slot_fuse(slot);

	if (queue->is_fused_open && fuse != SQE_FUSE_SECOND) {
		queue->is_fused_open = false;
		queue->fused_first = NULL;
		if (first)
			fused_fail(first, NVME_SC_FUSED_MISSING);
	}
	if (fuse == SQE_FUSE_NONE)
		return command_prepare_alone(slot);
	/* Only commands of the NVM command set can be fused (FUSES). */
	if (queue->qid == 0 || slot->sqe.opcode == NVME_OPCODE_FABRICS ||
	    queue->state != QUEUE_LIVE || fuse == SQE_FUSE_RESERVED)
		return command_refuse(slot, NVME_SC_INVALID_FIELD,
				      offsetof(struct nvme_sqe, flags));
	return fuse == SQE_FUSE_FIRST ? fused_first_prepare(slot) : fused_second_prepare(slot);
}
