/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of a request: submitted on any thread, posted to its reactor inside its own memory (or
 * started at once when the caller is that reactor), given to the mpath, and delivered. No lock, no
 * allocation, no copy of data. A request whose ranges need a buffer waits for one.
 */
#include "lib/lib.h"

#include <errno.h>

/* ---- the end of a request ------------------------------------------------------------------- */

static void sleeper_wake(struct sleeper *sleeper)
{
	pthread_mutex_lock(&sleeper->lock);
	sleeper->has_ended = true;
	pthread_cond_signal(&sleeper->ended);
	pthread_mutex_unlock(&sleeper->lock);
}

void request_end(struct request_state *state, int result, nvme_status status, uint8_t attempts)
{
	struct weft_request *request = request_of(state);
	struct weft *weft = state->part->subsystem->weft;

	request->result = result;
	request->status = status.value & 0x7ff;
	request->attempts = attempts;
	if (state->sleeper != NULL)
		sleeper_wake(state->sleeper);
	else if (weft->callbacks == WEFT_CALLBACKS_POLL)
		completion_push(weft, state);
	else
		request->done(request);
}

/* Returns the command of a fused pair that carries the reason. A command that failed only because
 * its partner failed carries none. */
static const struct mpath_io *pair_judge(const struct mpath_io *compare)
{
	const struct mpath_io *write = compare->fused_write;

	if (write == NULL)
		return compare;
	if (compare->result == MPATH_OK)
		return write;
	if (compare->result == MPATH_STATUS && write->result == MPATH_STATUS &&
	    nvme_status_same(compare->status, NVME_SC_FUSED_FAIL))
		return write;
	return compare;
}

static void range_buf_give(struct part *part, struct range_buf *buf);

/* From such a failure the user learns that earlier writes are not stable. */
static bool is_failed_flush(const struct mpath_io *io)
{
	return io->sqe.opcode == NVME_IO_FLUSH &&
	       (nvme_status_same(io->status, NVME_SC_WRITE_FAULT) ||
		nvme_status_same(io->status, NVME_SC_CAPACITY_EXCEEDED));
}

static void io_done(struct mpath_io *io)
{
	struct request_state *state = container_of(io, struct request_state, io);
	const struct mpath_io *telling = pair_judge(io);
	enum mpath_result result = telling->result;
	nvme_status status = result == MPATH_STATUS ? telling->status : NVME_SC_SUCCESS;

	if (result == MPATH_LOST) {
		loss_raise(&state->ns->losses_told, io->losses_told);
		loss_told_late(&state->ns->ns->joined->loss, state->ns->untold_at_open);
	} else if (result == MPATH_STATUS && is_failed_flush(io)) {
		loss_raise(&state->ns->flush_failed, io->flush);
	}
	if (state->buf != NULL)
		range_buf_give(state->part, state->buf);
	request_end(state, lib_result(result, status), status, io->attempts);
}

/* ---- the start of a request, on the reactor ------------------------------------------------- */

struct mpath_ns *request_ns(struct request_state *state)
{
	struct part *part = state->part;
	struct mpath_ns **at = &state->ns->at[part->index];
	struct mpath_ns *found;
	struct ns_info info;

	if (*at != NULL)
		return *at;
	found = mpath_ns_find(part->mpath, state->ns->ns->nsid);
	if (found == NULL)
		return NULL;
	mpath_ns_info(found, &info);
	if (info.joined == state->ns->ns->joined)
		*at = found;
	return *at;
}

/* Requires that request_start has found the namespace. */
static void io_start(struct request_state *state)
{
	state->io.done = io_done;
	mpath_submit(state->ns->at[state->part->index], &state->io);
}

static void range_buf_use(struct request_state *state, struct range_buf *buf)
{
	state->buf = buf;
	request_encode_ranges(state, buf->bytes);
	io_start(state);
}

/* Gives the buffer to the request that has waited longest, else back to the pool. */
static void range_buf_give(struct part *part, struct range_buf *buf)
{
	struct list *node = list_pop_front(&part->range_waiting);

	if (node != NULL)
		range_buf_use(list_entry(node, struct request_state, node), buf);
	else
		list_push_front(&part->free_bufs, &buf->node);
}

static void ranges_start(struct request_state *state)
{
	struct list *node = list_pop_front(&state->part->free_bufs);

	if (node != NULL)
		range_buf_use(state, list_entry(node, struct range_buf, node));
	else
		list_push_back(&state->part->range_waiting, &state->node);
}

/* The mpath sends admin commands for no particular namespace, so it does not compare block sizes.
 * The controller compares them: it refuses hosts that have not seen the new format. This reactor
 * compares them before sending and after the answer, because an answer about other blocks than the
 * caller meant must not be delivered. */
static bool is_current(struct request_state *state)
{
	struct ns_info info;

	mpath_ns_info(request_ns(state), &info);
	return !info.is_gone && info.identity.block_bytes == state->block_bytes;
}

static void admin_done(struct mpath_io *io)
{
	struct request_state *state = container_of(io, struct request_state, io);
	nvme_status status = io->result == MPATH_STATUS ? io->status : NVME_SC_SUCCESS;
	int res = lib_result(io->result, status);

	request_end(state, res == 0 && !is_current(state) ? -ESTALE : res, status, io->attempts);
}

static void stale_msg(struct reactor_msg *msg)
{
	struct request_state *state = container_of(msg, struct request_state, msg);

	request_end(state, lib_result(MPATH_STALE, NVME_SC_SUCCESS), NVME_SC_SUCCESS, 0);
}

static void admin_start(struct request_state *state)
{
	if (!is_current(state)) {
		reactor_post(state->part->reactor, &state->msg, stale_msg);
		return;
	}
	state->io.done = admin_done;
	mpath_submit_admin(state->part->mpath, &state->io);
}

static void gone_msg(struct reactor_msg *msg)
{
	struct request_state *state = container_of(msg, struct request_state, msg);

	bool is_stale = join_ns_is_replaced(state->ns->ns->joined);

	request_end(state, lib_result(is_stale ? MPATH_STALE : MPATH_GONE, NVME_SC_SUCCESS),
		    NVME_SC_SUCCESS, 0);
}

static void request_start(struct request_state *state)
{
	CHECK_OWNER(state->part);
	/* This reactor does not know the namespace yet, or another namespace has its NSID. */
	if (request_ns(state) == NULL) {
		reactor_post(state->part->reactor, &state->msg, gone_msg);
		return;
	}
	switch (state->plan) {
	case REQUEST_PLAIN:
		io_start(state);
		break;
	case REQUEST_SPLIT:
		split_start(state);
		break;
	case REQUEST_RANGES:
		ranges_start(state);
		break;
	case REQUEST_ADMIN:
		admin_start(state);
		break;
	}
}

static void start_msg(struct reactor_msg *msg)
{
	request_start(container_of(msg, struct request_state, msg));
}

int request_submit(struct weft_ns *ns, struct weft_request *request, struct sleeper *sleeper)
{
	struct weft_subsystem *subsystem = ns->subsystem;
	struct request_state *state = request_state_of(request);
	unsigned index = request->reactor;
	int res;

	state->ns = ns;
	state->block_bytes = ns->block_bytes;
	/* The reactor compares again each time it sends a command of the request. */
	if (atomic_load_explicit(&ns->ns->block_bytes, memory_order_relaxed) != ns->block_bytes)
		return -ESTALE;
	res = request_check(state, request);
	if (res == 0 && request->op == WEFT_LBA_STATUS && !subsystem->limits.has_lba_status)
		res = -EOPNOTSUPP;
	if (res != 0)
		return res;
	if (index >= subsystem->part_count)
		index %= subsystem->part_count;
	state->part = &subsystem->parts[index];
	state->sleeper = sleeper;
	state->buf = NULL;
	request_encode(state);
	if (reactor_current() == state->part->reactor)
		request_start(state);
	else
		reactor_post(state->part->reactor, &state->msg, start_msg);
	return 0;
}

int weft_submit(struct weft_ns *ns, struct weft_request *request)
{
	return request->done != NULL ? request_submit(ns, request, NULL) : -EINVAL;
}
