/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a request to a command of the NVM command set: opcode, dwords, and the data that the library
 * encodes itself (ranges, reservation keys). Any thread: touches only the request. NVM Command Set
 * 1.1, chapter 3; reservations: NVMe Base 2.1, sections 7.6 to 7.9.
 */
#include "lib/lib.h"
#include "wire/lba_status.h"
#include "wire/reservation.h"

#include <string.h>

static void blocks_encode(struct request_state *state, struct mpath_io *io, uint8_t opcode)
{
	const struct weft_request *request = request_of(state);
	struct io_cmd cmd = {
		.first_block = request->block,
		.block_count = request->block_count,
		.is_fua = (request->flags & WEFT_FUA) != 0,
		.wants_deallocate = (request->flags & WEFT_DEALLOCATE_OK) != 0,
	};

	io_cmd_encode(&io->sqe, opcode, 0, &cmd);
}

static void data_encode(struct request_state *state, struct mpath_io *io, uint8_t opcode,
			enum host_data_direction direction)
{
	const struct weft_request *request = request_of(state);

	blocks_encode(state, io, opcode);
	io->direction = direction;
	io->iov = request->iov;
	io->iov_count = request->iov_count;
	io->data_bytes = request->block_count * state->block_bytes;
}

static void fused_encode(struct request_state *state)
{
	const struct weft_request *request = request_of(state);
	struct mpath_io *compare = &state->io;
	struct mpath_io *write = &state->write;

	*write = (struct mpath_io){0};
	data_encode(state, compare, NVME_IO_COMPARE, HOST_DATA_TO_CTRL);
	data_encode(state, write, NVME_IO_WRITE, HOST_DATA_TO_CTRL);
	write->iov = request->write_iov;
	write->iov_count = request->write_iov_count;
	compare->fused_write = write;
}

/* Makes the library's own encoded data the command's data. */
static void own_data_set(struct request_state *state, uint8_t *bytes, uint32_t len_bytes)
{
	state->iov = (struct iovec){bytes, len_bytes};
	state->io.direction = HOST_DATA_TO_CTRL;
	state->io.iov = &state->iov;
	state->io.iov_count = 1;
	state->io.data_bytes = len_bytes;
}

static void deallocate_encode(struct request_state *state, uint8_t *bytes)
{
	const struct weft_request *request = request_of(state);
	struct dsm_cmd cmd = {.range_count = request->range_count > 0 ? request->range_count : 1,
			      .is_deallocate = true};
	struct dsm_range one = {.first_block = request->block, .block_count = request->block_count};

	dsm_cmd_encode(&state->io.sqe, 0, &cmd);
	if (request->range_count == 0)
		dsm_range_encode(bytes, 0, &one);
	for (unsigned i = 0; i < request->range_count; i++) {
		struct dsm_range range = {.first_block = request->ranges[i].block,
					  .block_count = request->ranges[i].block_count};

		dsm_range_encode(bytes, i, &range);
	}
	own_data_set(state, bytes, cmd.range_count * NVME_DSM_RANGE_BYTES);
}

static void copy_encode(struct request_state *state, uint8_t *bytes)
{
	const struct weft_request *request = request_of(state);
	struct copy_cmd cmd = {.first_block = request->block,
			       .range_count = request->range_count,
			       .format = COPY_FORMAT_ONE_NS,
			       .is_fua = (request->flags & WEFT_FUA) != 0};

	copy_cmd_encode(&state->io.sqe, 0, &cmd);
	for (unsigned i = 0; i < request->range_count; i++) {
		struct copy_range range = {.first_block = request->ranges[i].block,
					   .block_count = request->ranges[i].block_count};

		copy_range_encode(bytes, i, COPY_FORMAT_ONE_NS, &range);
	}
	own_data_set(state, bytes, request->range_count * NVME_COPY_RANGE_BYTES);
}

void request_encode_ranges(struct request_state *state, uint8_t *bytes)
{
	if (request_of(state)->op == WEFT_COPY)
		copy_encode(state, bytes);
	else
		deallocate_encode(state, bytes);
}

static void ranges_encode(struct request_state *state)
{
	const struct weft_request *request = request_of(state);
	size_t bytes = request->range_count *
		       (request->op == WEFT_COPY ? NVME_COPY_RANGE_BYTES : NVME_DSM_RANGE_BYTES);

	if (bytes <= sizeof(state->data))
		request_encode_ranges(state, state->data);
	else
		state->plan = REQUEST_RANGES;
}

static void reservation_encode(struct request_state *state)
{
	const struct weft_request *request = request_of(state);
	bool ignores_key = (request->flags & WEFT_IGNORE_KEY) != 0;
	struct nvme_sqe *sqe = &state->io.sqe;

	if (request->op == WEFT_RESERVATION_REGISTER) {
		struct register_cmd cmd = {.action = request->action,
					   .ignores_key = ignores_key,
					   .persist = request->persist,
					   .current_key = request->key,
					   .new_key = request->new_key};

		register_cmd_encode(sqe, 0, &cmd, state->data);
		own_data_set(state, state->data, REGISTER_DATA_BYTES);
	} else if (request->op == WEFT_RESERVATION_ACQUIRE) {
		struct acquire_cmd cmd = {.action = request->action,
					  .ignores_key = ignores_key,
					  .type = request->reservation_type,
					  .current_key = request->key,
					  .preempt_key = request->new_key};

		acquire_cmd_encode(sqe, 0, &cmd, state->data);
		own_data_set(state, state->data, ACQUIRE_DATA_BYTES);
	} else {
		struct release_cmd cmd = {.action = request->action,
					  .ignores_key = ignores_key,
					  .type = request->reservation_type,
					  .current_key = request->key};

		release_cmd_encode(sqe, 0, &cmd, state->data);
		own_data_set(state, state->data, RELEASE_DATA_BYTES);
	}
}

static void report_encode(struct request_state *state)
{
	const struct weft_request *request = request_of(state);
	struct report_cmd cmd = {.is_extended = true};

	for (unsigned i = 0; i < request->iov_count; i++)
		cmd.len_bytes += request->iov[i].iov_len;
	report_cmd_encode(&state->io.sqe, 0, &cmd);
	state->io.direction = HOST_DATA_FROM_CTRL;
	state->io.iov = request->iov;
	state->io.iov_count = request->iov_count;
	state->io.data_bytes = (uint32_t)cmd.len_bytes;
}

static void lba_status_encode(struct request_state *state)
{
	const struct weft_request *request = request_of(state);
	struct lba_status_cmd cmd = {.first_block = request->block, .action = LBA_STATUS_ALLOCATED};

	for (unsigned i = 0; i < request->iov_count; i++)
		cmd.len_bytes += request->iov[i].iov_len;
	/* The field cannot hold a larger count: 0 means to the end of the namespace. */
	if (request->block_count <= LBA_STATUS_RANGE_MAX)
		cmd.block_count = request->block_count;
	lba_status_cmd_encode(&state->io.sqe, state->ns->ns->nsid, &cmd);
	state->io.direction = HOST_DATA_FROM_CTRL;
	state->io.iov = request->iov;
	state->io.iov_count = request->iov_count;
	state->io.data_bytes = (uint32_t)cmd.len_bytes;
	state->plan = REQUEST_ADMIN;
}

/* Other requests mean the same in every format. For admin commands request_start checks the
 * format. */
static bool request_names_blocks(const struct weft_request *request)
{
	return request->op != WEFT_FLUSH && request->op < WEFT_RESERVATION_REGISTER;
}

void request_encode(struct request_state *state)
{
	const struct weft_request *request = request_of(state);

	/* The mpath sets its own members, from `ns` on. */
	memset(&state->io, 0, offsetof(struct mpath_io, ns));
	if (request_names_blocks(request))
		state->io.block_bytes = state->block_bytes;
	state->plan = REQUEST_PLAIN;
	if (request->range_count == 0 && split_is_needed(state, request)) {
		state->plan = REQUEST_SPLIT;
		return;
	}
	switch (request->op) {
	case WEFT_READ:
		data_encode(state, &state->io, NVME_IO_READ, HOST_DATA_FROM_CTRL);
		break;
	case WEFT_WRITE:
		data_encode(state, &state->io, NVME_IO_WRITE, HOST_DATA_TO_CTRL);
		break;
	case WEFT_COMPARE:
		data_encode(state, &state->io, NVME_IO_COMPARE, HOST_DATA_TO_CTRL);
		break;
	case WEFT_COMPARE_WRITE:
		fused_encode(state);
		break;
	case WEFT_WRITE_ZEROES:
		blocks_encode(state, &state->io, NVME_IO_WRITE_ZEROES);
		break;
	case WEFT_VERIFY:
		blocks_encode(state, &state->io, NVME_IO_VERIFY);
		break;
	case WEFT_FLUSH:
		state->io.sqe.opcode = NVME_IO_FLUSH;
		/* Each of several flushes in flight must fail when a loss is found, so each carries
		 * the counts of the moment when it was submitted. */
		state->io.losses_told = atomic_load(&state->ns->losses_told);
		state->io.flush_failed = atomic_load(&state->ns->flush_failed);
		break;
	case WEFT_DEALLOCATE:
	case WEFT_COPY:
		ranges_encode(state);
		break;
	case WEFT_RESERVATION_REGISTER:
	case WEFT_RESERVATION_ACQUIRE:
	case WEFT_RESERVATION_RELEASE:
		reservation_encode(state);
		break;
	case WEFT_RESERVATION_REPORT:
		report_encode(state);
		break;
	case WEFT_LBA_STATUS:
		lba_status_encode(state);
		break;
	}
}
