/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a request before any part of it starts. Mistakes of the caller are refused at once with
 * -EINVAL; what only the controller can judge is left to the controller. Any thread. Reads the
 * namespace's size without a lock: when the size changes at this moment, the controller judges.
 */
#include "lib/lib.h"
#include "wire/lba_status.h"
#include "wire/reservation.h"

#include <errno.h>

/* Flags that the operation accepts. */
static uint32_t flags_known(enum weft_op op)
{
	switch (op) {
	case WEFT_READ:
	case WEFT_WRITE:
	case WEFT_COMPARE:
	case WEFT_COMPARE_WRITE:
	case WEFT_COPY:
	case WEFT_VERIFY:
		return WEFT_FUA;
	case WEFT_WRITE_ZEROES:
		return WEFT_FUA | WEFT_DEALLOCATE_OK;
	case WEFT_RESERVATION_REGISTER:
	case WEFT_RESERVATION_ACQUIRE:
	case WEFT_RESERVATION_RELEASE:
		return WEFT_IGNORE_KEY;
	default:
		return 0;
	}
}

static uint64_t iov_bytes(const struct iovec *iov, unsigned count)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

static bool range_fits(const struct weft_ns *ns, uint64_t block, uint64_t count)
{
	uint64_t all = atomic_load_explicit(&ns->ns->block_count, memory_order_relaxed);

	return count > 0 && block < all && count <= all - block;
}

/* A child has CHILD_IOV_MAX pieces. The first may be the rest of a larger piece. A child therefore
 * always holds a block if any CHILD_IOV_MAX - 1 consecutive pieces hold one. */
static bool iov_splits(const struct iovec *iov, unsigned count, uint32_t block_bytes)
{
	const unsigned window = CHILD_IOV_MAX - 1;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++) {
		bytes += iov[i].iov_len;
		if (i + 1 < window)
			continue;
		if (bytes < block_bytes)
			return false;
		bytes -= iov[i + 1 - window].iov_len;
	}
	return true;
}

static bool data_is_good(const struct request_state *state, const struct weft_request *request)
{
	uint32_t block_bytes = state->block_bytes;
	uint64_t bytes = (uint64_t)request->block_count * block_bytes;

	if (iov_bytes(request->iov, request->iov_count) != bytes)
		return false;
	if (request->op == WEFT_COMPARE_WRITE)
		return iov_bytes(request->write_iov, request->write_iov_count) == bytes &&
		       bytes <= state->ns->subsystem->limits.transfer_max_bytes &&
		       request->block_count <= COMMAND_BLOCKS_MAX;
	return !split_is_needed(state, request) ||
	       iov_splits(request->iov, request->iov_count, block_bytes);
}

static bool ranges_are_good(const struct weft_ns *ns, const struct weft_request *request)
{
	bool is_copy = request->op == WEFT_COPY;
	uint64_t total = 0;

	if (request->ranges == NULL || request->range_count == 0 ||
	    request->range_count > (is_copy ? NVME_COPY_RANGES_MAX : NVME_DSM_RANGES_MAX))
		return false;
	for (unsigned i = 0; i < request->range_count; i++) {
		const struct weft_range *range = &request->ranges[i];

		if (!range_fits(ns, range->block, range->block_count) ||
		    (is_copy && range->block_count > COMMAND_BLOCKS_MAX))
			return false;
		total += range->block_count;
	}
	return !is_copy || range_fits(ns, request->block, total);
}

/* Whether the buffer suits an answer whose length the host chooses. */
static bool answer_fits(const struct weft_ns *ns, const struct weft_request *request,
			uint64_t least_bytes)
{
	uint64_t bytes = iov_bytes(request->iov, request->iov_count);

	return bytes >= least_bytes && bytes % 4 == 0 &&
	       bytes <= ns->subsystem->limits.transfer_max_bytes;
}

int request_check(const struct request_state *state, const struct weft_request *request)
{
	const struct weft_ns *ns = state->ns;
	bool is_good = false;

	switch (request->op) {
	case WEFT_READ:
	case WEFT_WRITE:
	case WEFT_COMPARE:
	case WEFT_COMPARE_WRITE:
		is_good = range_fits(ns, request->block, request->block_count) &&
			  data_is_good(state, request);
		break;
	case WEFT_WRITE_ZEROES:
	case WEFT_VERIFY:
		is_good = range_fits(ns, request->block, request->block_count);
		break;
	case WEFT_DEALLOCATE:
		is_good = request->range_count > 0
				  ? ranges_are_good(ns, request)
				  : range_fits(ns, request->block, request->block_count);
		break;
	case WEFT_COPY:
		is_good = ranges_are_good(ns, request);
		break;
	case WEFT_FLUSH:
		is_good = true;
		break;
	case WEFT_RESERVATION_REGISTER:
	case WEFT_RESERVATION_ACQUIRE:
	case WEFT_RESERVATION_RELEASE:
		/* Only the widths of the fields are checked here. The controller judges the
		 * values. */
		is_good = request->action < 8 && request->persist < 4;
		break;
	case WEFT_RESERVATION_REPORT:
		is_good = answer_fits(ns, request, REPORT_HEADER_BYTES);
		break;
	case WEFT_LBA_STATUS:
		is_good = range_fits(ns, request->block, request->block_count) &&
			  answer_fits(ns, request, LBA_STATUS_HEADER_BYTES);
		break;
	}
	return is_good && (request->flags & ~flags_known(request->op)) == 0 ? 0 : -EINVAL;
}
