/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that fill in struct host_cmd: the commands that the host side and the tools send, in
 * block units and bytes. They clear the submission entry and the data fields and leave `done`
 * alone. Any thread: no shared state. NVMe Base 2.1, section 5; NVM Command Set 1.1, section 3.
 */
#include "base/check.h"
#include "host/host.h"
#include "wire/ctrl_reset.h"
#include "wire/io_cmd.h"

static void cmd_clear(struct host_cmd *cmd, enum host_data_direction direction, void *data,
		      uint32_t data_bytes)
{
	memset(&cmd->sqe, 0, sizeof(cmd->sqe));
	cmd->direction = data_bytes > 0 ? direction : HOST_DATA_NONE;
	cmd->data = data;
	cmd->data_bytes = data_bytes;
	cmd->iov = NULL;
	cmd->iov_count = 0;
	cmd->fused_next = NULL;
}

static void cmd_blocks(struct host_cmd *cmd, uint8_t opcode, uint32_t nsid, uint64_t first_block,
		       uint32_t block_count)
{
	struct io_cmd io = {.first_block = first_block, .block_count = block_count};

	io_cmd_encode(&cmd->sqe, opcode, nsid, &io);
}

void host_cmd_read(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block, uint32_t block_count,
		   void *data, uint32_t data_bytes)
{
	cmd_clear(cmd, HOST_DATA_FROM_CTRL, data, data_bytes);
	cmd_blocks(cmd, NVME_IO_READ, nsid, first_block, block_count);
}

/* The engine only reads from the buffer of a HOST_DATA_TO_CTRL command, hence the casts. */
void host_cmd_write(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block, uint32_t block_count,
		    const void *data, uint32_t data_bytes)
{
	cmd_clear(cmd, HOST_DATA_TO_CTRL, (void *)(uintptr_t)data, data_bytes);
	cmd_blocks(cmd, NVME_IO_WRITE, nsid, first_block, block_count);
}

void host_cmd_compare(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block,
		      uint32_t block_count, const void *data, uint32_t data_bytes)
{
	cmd_clear(cmd, HOST_DATA_TO_CTRL, (void *)(uintptr_t)data, data_bytes);
	cmd_blocks(cmd, NVME_IO_COMPARE, nsid, first_block, block_count);
}

void host_cmd_set_fua(struct host_cmd *cmd)
{
	cmd->sqe.cdw12 = le32_of(le32_get(cmd->sqe.cdw12) | 1u << 30);
}

void host_cmd_flush(struct host_cmd *cmd, uint32_t nsid)
{
	cmd_clear(cmd, HOST_DATA_NONE, NULL, 0);
	cmd->sqe.opcode = NVME_IO_FLUSH;
	cmd->sqe.nsid = le32_of(nsid);
}

void host_cmd_write_zeroes(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block,
			   uint32_t block_count, bool wants_deallocate)
{
	struct io_cmd io = {.first_block = first_block,
			    .block_count = block_count,
			    .wants_deallocate = wants_deallocate};

	cmd_clear(cmd, HOST_DATA_NONE, NULL, 0);
	io_cmd_encode(&cmd->sqe, NVME_IO_WRITE_ZEROES, nsid, &io);
}

void host_cmd_deallocate(struct host_cmd *cmd, uint32_t nsid, const void *data,
			 uint32_t range_count)
{
	struct dsm_cmd dsm = {.range_count = range_count, .is_deallocate = true};

	CHECK(range_count >= 1 && range_count <= NVME_DSM_RANGES_MAX);
	cmd_clear(cmd, HOST_DATA_TO_CTRL, (void *)(uintptr_t)data,
		  range_count * NVME_DSM_RANGE_BYTES);
	dsm_cmd_encode(&cmd->sqe, nsid, &dsm);
}

void host_cmd_identify(struct host_cmd *cmd, uint32_t nsid, uint8_t cns, void *page)
{
	struct identify_cmd identify = {.cns = cns};

	cmd_clear(cmd, HOST_DATA_FROM_CTRL, page, NVME_PAGE_BYTES);
	identify_cmd_encode(&cmd->sqe, nsid, &identify);
}

void host_cmd_log(struct host_cmd *cmd, uint32_t nsid, uint8_t log_id, uint64_t offset, void *data,
		  uint32_t data_bytes)
{
	struct log_cmd log = {.log_id = log_id, .len_bytes = data_bytes, .offset = offset};

	CHECK(data_bytes > 0 && data_bytes % 4 == 0 && offset % 4 == 0);
	cmd_clear(cmd, HOST_DATA_FROM_CTRL, data, data_bytes);
	log_cmd_encode(&cmd->sqe, nsid, &log);
}

void host_cmd_abort(struct host_cmd *cmd, uint16_t sqid, uint16_t cid)
{
	struct abort_cmd abort_args = {.sqid = sqid, .cid = cid};

	cmd_clear(cmd, HOST_DATA_NONE, NULL, 0);
	abort_cmd_encode(&cmd->sqe, &abort_args);
}

void host_cmd_ctrl_reset(struct host_cmd *cmd, uint16_t cntlid, uint8_t uniquifier,
			 uint64_t random_number)
{
	struct ctrl_reset_cmd reset = {
		.cntlid = cntlid, .uniquifier = uniquifier, .random_number = random_number};

	cmd_clear(cmd, HOST_DATA_NONE, NULL, 0);
	ctrl_reset_cmd_encode(&cmd->sqe, &reset);
}
