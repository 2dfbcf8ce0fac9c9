/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks and heals bad blocks for a command. The slot travels to the control reactor
 * (target/control_work.h), where the new marks are kept and published. The slot comes back and is
 * completed when every reactor uses the new marks. See ns/bad_blocks.h.
 */
#include "ns/reservation.h"
#include "target/bad_blocks_command.h"
#include "target/io.h"
#include "target/ns_publish.h"

#include <errno.h>
#include <stdlib.h>

static void change_published(void *arg)
{
	struct slot *slot = arg;

	control_work_answer(slot, slot->status);
}

/*
 * slot->ns has the block size that the command was checked against, even when the operator has
 * changed the block size since.
 */
static int heal_blocks(struct bad_blocks *bad, const struct slot *slot, uint64_t first_block,
		       uint64_t block_count)
{
	struct bad_range range = bad_range_of(slot->ns->block_shift, first_block, block_count);

	return bad_blocks_heal_seen(bad, range.first_sector, range.end_sector - range.first_sector,
				    slot->bad_stamp);
}

/* Heals the ranges that a Dataset Management command has finished: those before steps.index. */
static int heal_dsm(struct bad_blocks *bad, const struct slot *slot)
{
	int res = 0;

	for (uint32_t i = 0; i < slot->steps.index && res == 0; i++) {
		struct dsm_range range = dsm_range_decode(slot->data.addr, i);

		if (range.block_count > 0)
			res = heal_blocks(bad, slot, range.first_block, range.block_count);
	}
	return res;
}

static int change_apply(struct bad_blocks *bad, const struct slot *slot)
{
	struct bad_range range = bad_range_of(slot->ns->block_shift, slot->io_cmd.first_block,
					      slot->io_cmd.block_count);

	if (slot->sqe.opcode == NVME_IO_WRITE_UNCORRECTABLE)
		return bad_blocks_mark(bad, range.first_sector,
				       range.end_sector - range.first_sector);
	if (slot->sqe.opcode == NVME_IO_DATASET_MANAGEMENT)
		return heal_dsm(bad, slot);
	return heal_blocks(bad, slot, slot->io_cmd.first_block, slot->io_cmd.block_count);
}

static int bad_keep(struct target *target, const struct ns_live *live, const struct bad_blocks *bad)
{
	size_t bytes;
	uint8_t *value;
	int res;

	if (bad_blocks_count(bad) == 0)
		return ns_live_keep(&target->keeper, live, NS_LIVE_KEPT_BAD_BLOCKS, NULL, 0);
	value = bad_blocks_encode(bad, &bytes);
	if (!value)
		return -ENOMEM;
	res = ns_live_keep(&target->keeper, live, NS_LIVE_KEPT_BAD_BLOCKS, value, bytes);
	free(value);
	return res;
}

/* Replaces the marks by `taken_bad`: keeps the new marks, then publishes them. On error the former
 * marks stay in force. */
static int truth_replace(struct target *target, struct ns_live *live, struct bad_blocks *taken_bad,
			 void (*done)(void *arg), void *arg)
{
	struct bad_blocks *former = ns_live_bad_blocks(live);
	struct publication *publication;
	int res;

	ns_live_set_bad_blocks(live, taken_bad);
	res = ns_live_publish_prepare(target, live, &publication);
	if (res == 0) {
		res = bad_keep(target, live, taken_bad);
		if (res != 0)
			ns_live_publish_drop(publication);
	}
	if (res != 0) {
		ns_live_set_bad_blocks(live, former);
		bad_blocks_destroy(taken_bad);
		return res;
	}
	bad_blocks_destroy(former);
	ns_live_publish_start(publication, done, arg);
	return 0;
}

/* A Write Uncorrectable has not begun yet, and the reservation may have changed since the command
 * was judged. Commands that heal marks have already written. */
static nvme_status change_judge(const struct slot *slot, const struct ns_live *live)
{
	if (slot->sqe.opcode != NVME_IO_WRITE_UNCORRECTABLE)
		return NVME_SC_SUCCESS;
	return reservation_judge(ns_live_reservation(live), &slot->queue->ctrl->host_id,
				 RESERVATION_GROUP_WRITE);
}

static int change_try(struct slot *slot, struct ns_live *live)
{
	struct bad_blocks *bad = bad_blocks_copy(ns_live_bad_blocks(live));
	int res = bad ? change_apply(bad, slot) : -ENOMEM;

	if (res == 0)
		return truth_replace(slot->queue->local->target, live, bad, change_published, slot);
	bad_blocks_destroy(bad);
	return res;
}

static void change_serve(struct slot *slot)
{
	struct ns_live *live = ns_backing_live(slot->ns->backing);
	nvme_status status = change_judge(slot, live);
	int res;

	if (!nvme_status_is_ok(status)) {
		control_work_answer(slot, status);
		return;
	}
	res = change_try(slot, live);
	/* -ESTALE: the namespace was removed. A Write Uncorrectable then fails with Invalid
	 * Namespace, because the command has not begun. A write that should have healed a mark has
	 * been done and must not be reported as refused. -ENOSPC (too many ranges) gets DNR,
	 * because a retry has as many ranges. After other errors a retry may find memory or the
	 * disk available again. */
	if (res == -ESTALE && slot->sqe.opcode == NVME_IO_WRITE_UNCORRECTABLE)
		control_work_answer(slot, nvme_status_dnr(NVME_SC_INVALID_NS));
	else if (res != 0)
		control_work_answer(slot, res == -ENOSPC ? nvme_status_dnr(NVME_SC_INTERNAL)
							 : NVME_SC_INTERNAL);
}

void bad_blocks_mark_for(struct slot *slot)
{
	bad_blocks_heal_for(slot, NVME_SC_SUCCESS);
}

void bad_blocks_heal_for(struct slot *slot, nvme_status status)
{
	slot->status = status;
	control_work_submit(&slot->queue->local->target->bad_blocks_work, slot);
}

/* One command at a time per host: each command holds a copy of the marks and a view of them, up to
 * 3 MiB, until every reactor uses the view. */
void bad_blocks_init(struct target *target)
{
	static const struct rota_limits limits = {
		.running_per_host = 1,
		.waiting_per_host = 1024,
		.waiting_min = 16,
		.waiting_total = 8192,
	};

	control_work_init(&target->bad_blocks_work, target, &limits, change_serve);
}

int bad_blocks_clear(struct target *target, struct ns_live *live, void (*done)(void *arg),
		     void *arg)
{
	struct bad_blocks *bad = bad_blocks_copy(ns_live_bad_blocks(live));
	int res = bad ? bad_blocks_heal(bad, 0, UINT64_MAX) : -ENOMEM;

	if (res == 0)
		return truth_replace(target, live, bad, done, arg);
	bad_blocks_destroy(bad);
	return res;
}
