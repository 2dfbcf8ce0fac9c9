/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are longer than one command may be: split into children from the part's pool, which
 * run in parallel, and joined. Runs on the reactor. When the pool is empty, the request waits in
 * line. A child that ends goes to the first request in line. After the first failure no more
 * children start, and the request ends when all children in flight have ended. Children are cut at
 * block boundaries. Nothing is allocated.
 */
#include "lib/lib.h"

uint32_t split_blocks_max(const struct request_state *state, const struct weft_request *request)
{
	const struct lib_limits *limits = &state->ns->subsystem->limits;
	uint32_t block_bytes = state->block_bytes;
	uint32_t bytes = 0;
	uint32_t blocks;

	switch (request->op) {
	case WEFT_READ:
	case WEFT_WRITE:
	case WEFT_COMPARE:
		bytes = limits->transfer_max_bytes;
		break;
	case WEFT_WRITE_ZEROES:
		bytes = limits->write_zeroes_max_bytes;
		break;
	case WEFT_VERIFY:
		bytes = limits->verify_max_bytes;
		break;
	case WEFT_DEALLOCATE:
		return limits->deallocate_blocks_max != 0 ? limits->deallocate_blocks_max
							  : UINT32_MAX;
	default:
		return UINT32_MAX;
	}
	blocks = bytes != 0 ? bytes / block_bytes : COMMAND_BLOCKS_MAX;
	if (blocks == 0)
		return 1;
	return blocks < COMMAND_BLOCKS_MAX ? blocks : COMMAND_BLOCKS_MAX;
}

/* Takes the next pieces of the request's data into the child: up to `bytes`, and as many whole
 * blocks as the child's iov has room for. Returns the number of bytes taken. */
static uint32_t child_take_data(struct split_child *child, uint32_t bytes, uint32_t block_bytes)
{
	struct split *split = &child->state->split;
	const struct weft_request *request = request_of(child->state);
	uint32_t taken = 0;
	unsigned count = 0;

	while (taken < bytes && count < CHILD_IOV_MAX) {
		const struct iovec *from = &request->iov[split->iov_index];
		size_t left = from->iov_len - split->iov_offset;
		size_t len = left < bytes - taken ? left : bytes - taken;

		if (len > 0)
			child->iov[count++] =
				(struct iovec){(uint8_t *)from->iov_base + split->iov_offset, len};
		taken += (uint32_t)len;
		split->iov_offset += len;
		if (len == left) {
			split->iov_index++;
			split->iov_offset = 0;
		}
	}
	/* Give back the bytes after the last whole block. They are in the last pieces. */
	for (uint32_t rest = taken % block_bytes; rest > 0;) {
		struct iovec *last = &child->iov[count - 1];
		uint32_t len = last->iov_len < rest ? (uint32_t)last->iov_len : rest;

		if (split->iov_offset == 0) {
			do
				split->iov_index--;
			while (request->iov[split->iov_index].iov_len == 0);
			split->iov_offset = request->iov[split->iov_index].iov_len;
		}
		split->iov_offset -= len;
		last->iov_len -= len;
		count -= last->iov_len == 0;
		taken -= len;
		rest -= len;
	}
	child->io.iov = child->iov;
	child->io.iov_count = count;
	child->io.data_bytes = taken;
	return taken;
}

static void child_done(struct mpath_io *io);

static void child_encode_blocks(struct split_child *child, uint8_t opcode, uint32_t blocks)
{
	const struct weft_request *request = request_of(child->state);
	struct io_cmd cmd = {
		.first_block = child->state->split.block,
		.block_count = blocks,
		.is_fua = (request->flags & WEFT_FUA) != 0,
		.wants_deallocate = (request->flags & WEFT_DEALLOCATE_OK) != 0,
	};

	io_cmd_encode(&child->io.sqe, opcode, 0, &cmd);
}

/* Encodes the child's command. Returns its number of blocks. */
static uint32_t child_encode(struct split_child *child)
{
	struct request_state *state = child->state;
	struct split *split = &state->split;
	uint32_t blocks =
		split->blocks_left < split->child_blocks ? split->blocks_left : split->child_blocks;
	uint32_t block_bytes = state->block_bytes;
	static const struct dsm_cmd deallocate = {.range_count = 1, .is_deallocate = true};
	struct dsm_range range = {.first_block = split->block, .block_count = blocks};

	child->io = (struct mpath_io){.block_bytes = block_bytes, .done = child_done};
	switch (request_of(state)->op) {
	case WEFT_READ:
		child->io.direction = HOST_DATA_FROM_CTRL;
		blocks = child_take_data(child, blocks * block_bytes, block_bytes) / block_bytes;
		child_encode_blocks(child, NVME_IO_READ, blocks);
		break;
	case WEFT_WRITE:
	case WEFT_COMPARE:
		child->io.direction = HOST_DATA_TO_CTRL;
		blocks = child_take_data(child, blocks * block_bytes, block_bytes) / block_bytes;
		child_encode_blocks(child,
				    request_of(state)->op == WEFT_WRITE ? NVME_IO_WRITE
									: NVME_IO_COMPARE,
				    blocks);
		break;
	case WEFT_WRITE_ZEROES:
		child_encode_blocks(child, NVME_IO_WRITE_ZEROES, blocks);
		break;
	case WEFT_VERIFY:
		child_encode_blocks(child, NVME_IO_VERIFY, blocks);
		break;
	default:
		dsm_cmd_encode(&child->io.sqe, 0, &deallocate);
		dsm_range_encode(child->range, 0, &range);
		child->iov[0] = (struct iovec){child->range, sizeof(child->range)};
		child->io.direction = HOST_DATA_TO_CTRL;
		child->io.iov = child->iov;
		child->io.iov_count = 1;
		child->io.data_bytes = sizeof(child->range);
		break;
	}
	return blocks;
}

static void child_start(struct request_state *state, struct split_child *child)
{
	struct split *split = &state->split;
	uint32_t blocks;

	child->state = state;
	blocks = child_encode(child);
	split->block += blocks;
	split->blocks_left -= blocks;
	split->in_flight++;
	mpath_submit(request_ns(state), &child->io);
}

/* Starts as many children as the pool has. The rest of the request waits in line. */
static void split_go_on(struct request_state *state)
{
	struct part *part = state->part;

	while (state->split.blocks_left > 0) {
		struct list *node = list_pop_front(&part->free_children);

		if (node == NULL) {
			list_push_back(&part->split_waiting, &state->node);
			return;
		}
		child_start(state, list_entry(node, struct split_child, node));
	}
}

static void child_give(struct part *part, struct split_child *child)
{
	struct list *node = list_pop_front(&part->split_waiting);
	struct request_state *first;

	list_push_front(&part->free_children, &child->node);
	if (node == NULL)
		return;
	first = list_entry(node, struct request_state, node);
	split_go_on(first);
}

static void child_done(struct mpath_io *io)
{
	struct split_child *child = container_of(io, struct split_child, io);
	struct request_state *state = child->state;
	struct split *split = &state->split;

	split->in_flight--;
	if (io->attempts > split->attempts)
		split->attempts = io->attempts;
	if (io->result != MPATH_OK && split->result == MPATH_OK) {
		split->result = io->result;
		split->status = io->result == MPATH_STATUS ? io->status : NVME_SC_SUCCESS;
	}
	if (split->result != MPATH_OK) {
		split->blocks_left = 0;
		list_remove(&state->node);
	}
	child_give(state->part, child);
	if (split->in_flight == 0 && split->blocks_left == 0)
		request_end(state, lib_result(split->result, split->status), split->status,
			    split->attempts);
}

void split_start(struct request_state *state)
{
	const struct weft_request *request = request_of(state);

	state->split = (struct split){
		.block = request->block,
		.blocks_left = request->block_count,
		.child_blocks = split_blocks_max(state, request),
		.result = MPATH_OK,
	};
	list_init(&state->node);
	split_go_on(state);
}
