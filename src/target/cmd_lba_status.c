/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get LBA Status: which blocks are allocated (ATYPE 02h). NVM Command Set 1.1, section 4.2.1. Runs
 * on the controller's reactor; a helper thread queries the medium.
 *
 * A block that is not listed reads as zeroes. Therefore the whole range is listed as allocated when
 * the medium does not know its extents, and when a block of the range is marked bad and so reads as
 * an error. A host that has not read the block size of the namespace is refused, as for every
 * command that names blocks without data (ctrl_known.c): the host would take data for a hole.
 */
#include "ns/bad_blocks.h"
#include "target/command.h"
#include "target/local.h"
#include "wire/lba_status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Extents that one command looks for. The host continues from the last one. */
#define STATUS_EXTENTS_MAX 1024

struct status_task {
	struct slot *slot;
	uint64_t first_block;
	uint64_t block_count;
	struct media_io io;
	struct iovec iov;
	struct media_extent extents[STATUS_EXTENTS_MAX];
};

/* Writes the extents that fit. An extent may be longer than LBA_STATUS_RUN_MAX. */
static void list_write(struct slot *slot, const struct media_extent *extents, unsigned count,
		       bool is_all)
{
	uint32_t room =
		slot->data_bytes >= LBA_STATUS_HEADER_BYTES
			? (slot->data_bytes - LBA_STATUS_HEADER_BYTES) / LBA_STATUS_DESCRIPTOR_BYTES
			: 0;
	struct lba_status_list list = {.end = is_all ? LBA_STATUS_DONE : LBA_STATUS_FULL};
	unsigned shift = slot->ns->block_shift;
	uint64_t told_end = 0; /* behind the last listed block */
	uint8_t header[LBA_STATUS_HEADER_BYTES];

	for (unsigned i = 0; i < count; i++) {
		/* A partly allocated block is allocated. */
		uint64_t at = extents[i].offset >> shift;
		uint64_t end =
			(extents[i].offset + extents[i].len_bytes + (1u << shift) - 1) >> shift;

		if (at < told_end)
			at = told_end;
		while (at < end && list.count < room) {
			struct lba_status_run run = {
				.first_block = at,
				.block_count = end - at > LBA_STATUS_RUN_MAX ? LBA_STATUS_RUN_MAX
									     : end - at,
			};

			lba_status_run_encode(slot->data.addr, list.count++, &run);
			at += run.block_count;
			told_end = at;
		}
		if (at < end)
			list.end = LBA_STATUS_FULL;
	}
	lba_status_list_encode(header, &list);
	memcpy(slot->data.addr, header,
	       slot->data_bytes < sizeof(header) ? slot->data_bytes : sizeof(header));
}

static void status_finish(struct status_task *task, int res)
{
	struct slot *slot = task->slot;
	unsigned count = (unsigned)task->io.result;
	const struct ns_view *view = slot->ns->locals[slot->queue->local->index].view;
	uint64_t bad_block;
	bool has_bad = view && view->bad &&
		       bad_view_find_block(view->bad, slot->ns->block_shift, task->first_block,
					   task->block_count, &bad_block);

	memset(slot->data.addr, 0, slot->data_bytes);
	if (res == 0 && !has_bad) {
		list_write(slot, task->extents, count, count < STATUS_EXTENTS_MAX);
	} else {
		struct media_extent all = {task->first_block << slot->ns->block_shift,
					   task->block_count << slot->ns->block_shift};

		list_write(slot, &all, 1, true);
	}
	free(task);
	slot_complete(slot, NVME_SC_SUCCESS);
}

static void status_done(struct media_io *io, int res)
{
	status_finish(container_of(io, struct status_task, io), res);
}

/* End of the range, at most that of the namespace. 0: the range begins behind the namespace. */
static uint64_t range_end(const struct ns *ns, const struct lba_status_cmd *cmd)
{
	if (cmd->first_block >= ns->block_count)
		return 0;
	if (cmd->block_count == 0 || cmd->block_count > ns->block_count - cmd->first_block)
		return ns->block_count;
	return cmd->first_block + cmd->block_count;
}

static nvme_status status_judge(struct slot *slot, const struct lba_status_cmd *cmd)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t nsid = le32_get(slot->sqe.nsid);
	nvme_status status;

	if (!ctrl->subsystem || !ctrl->port)
		return NVME_SC_INTERNAL;
	slot->ns = ctrl_find_ns(ctrl, nsid);
	if (!slot->ns)
		return command_refuse_nsid(slot, nsid);
	status = ctrl_check_identity(ctrl, ctrl->subsystem, slot->ns);
	if (nvme_status_is_ok(status))
		status = port_ana_status(ctrl->port, slot->ns->ana_group);
	if (!nvme_status_is_ok(status))
		return status;
	if (slot->ns->is_formatting)
		return NVME_SC_FORMAT_IN_PROGRESS;
	if (!ctrl_knows_format(ctrl, slot->ns))
		return NVME_SC_NS_NOT_READY;
	if (range_end(slot->ns, cmd) == 0)
		return command_refuse(slot, NVME_SC_LBA_RANGE, SQE_BYTE_CDW10);
	return NVME_SC_SUCCESS;
}

static void status_execute(struct slot *slot)
{
	struct lba_status_cmd cmd;
	struct status_task *task;
	nvme_status status;

	lba_status_cmd_decode(&slot->sqe, &cmd);
	status = status_judge(slot, &cmd);
	task = nvme_status_is_ok(status) ? malloc(sizeof(*task)) : NULL;
	if (!task) {
		slot_complete(slot, nvme_status_is_ok(status) ? NVME_SC_INTERNAL : status);
		return;
	}
	task->slot = slot;
	task->first_block = cmd.first_block;
	task->block_count = range_end(slot->ns, &cmd) - cmd.first_block;
	task->iov = (struct iovec){task->extents, sizeof(task->extents)};
	task->io = (struct media_io){
		.reactor = slot->queue->reactor,
		.media = slot->ns->media,
		.kind = MEDIA_EXTENTS,
		.offset = task->first_block << slot->ns->block_shift,
		.len_bytes = task->block_count << slot->ns->block_shift,
		.iov = &task->iov,
		.iov_count = 1,
		.done = status_done,
	};
	if (slot->ns->media->knows_extents)
		media_submit(&task->io);
	else
		status_finish(task, -EOPNOTSUPP);
}

nvme_status lba_status_prepare(struct slot *slot)
{
	struct lba_status_cmd cmd;

	lba_status_cmd_decode(&slot->sqe, &cmd);
	if (cmd.action != LBA_STATUS_ALLOCATED)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW13 + 3);
	if (cmd.len_bytes > slot->snapshot->limits.transfer_max_bytes)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12);
	slot->execute = status_execute;
	return command_expect_data(slot, DATA_TO_HOST, (uint32_t)cmd.len_bytes);
}
