/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the host in the world of multipath tests: one struct mop each. One thread.
 */
#include "mpath_world.h"

#include <string.h>

static void on_mop_done(struct mpath_io *io)
{
	struct mop *mop = container_of(io, struct mop, io);

	CHECK(!mop->is_done);
	mop->is_done = true;
	mop->done_ns = sim_now(mop->world->sim);
	if (mop->then != NULL)
		mop->then(mop);
}

static void mop_fill(struct mworld *world, struct mop *mop)
{
	void (*then)(struct mop * mop_then) = mop->then;

	memset(mop, 0, sizeof(*mop));
	mop->world = world;
	mop->then = then;
	mop->iov = (struct iovec){mop->data, sizeof(mop->data)};
	mop->second_iov = (struct iovec){mop->second_data, sizeof(mop->second_data)};
	mop->io.iov = &mop->iov;
	mop->io.iov_count = 1;
	mop->io.data_bytes = sizeof(mop->data);
	mop->io.done = on_mop_done;
}

static void value_put(uint8_t *data, uint64_t value)
{
	for (unsigned i = 0; i < MWORLD_BLOCK_BYTES / sizeof(value); i++)
		memcpy(data + i * sizeof(value), &value, sizeof(value));
}

static void mop_submit(struct mop *mop)
{
	struct mworld *world = mop->world;
	bool is_inside = reactor_current() == world->reactor;

	if (!is_inside)
		sim_enter(world->reactor);
	mpath_submit(world->handle != NULL ? world->handle : mworld_handle(world, 1), &mop->io);
	if (!is_inside)
		sim_leave(world->reactor);
}

void mop_write(struct mworld *world, struct mop *mop, uint64_t block, uint64_t value)
{
	struct host_cmd cmd = {0};

	mop_fill(world, mop);
	value_put(mop->data, value);
	host_cmd_write(&cmd, 1, block, 1, mop->data, sizeof(mop->data));
	mop->io.sqe = cmd.sqe;
	mop->io.direction = HOST_DATA_TO_CTRL;
	mop_submit(mop);
}

void mop_read(struct mworld *world, struct mop *mop, uint64_t block)
{
	struct host_cmd cmd = {0};

	mop_fill(world, mop);
	host_cmd_read(&cmd, 1, block, 1, mop->data, sizeof(mop->data));
	mop->io.sqe = cmd.sqe;
	mop->io.direction = HOST_DATA_FROM_CTRL;
	mop_submit(mop);
}

void mop_identify(struct mworld *world, struct mop *mop)
{
	struct host_cmd cmd = {0};

	mop_fill(world, mop);
	host_cmd_identify(&cmd, 0, IDENTIFY_CTRL, mop->data);
	mop->io.sqe = cmd.sqe;
	mop->io.direction = HOST_DATA_FROM_CTRL;
	sim_enter(world->reactor);
	mpath_submit_admin(world->mpath, &mop->io);
	sim_leave(world->reactor);
}

void mop_fused(struct mworld *world, struct mop *mop, uint64_t block, uint64_t expected,
	       uint64_t value)
{
	struct host_cmd cmd = {0};

	mop_fill(world, mop);
	value_put(mop->data, expected);
	value_put(mop->second_data, value);
	host_cmd_compare(&cmd, 1, block, 1, mop->data, sizeof(mop->data));
	mop->io.sqe = cmd.sqe;
	mop->io.direction = HOST_DATA_TO_CTRL;
	host_cmd_write(&cmd, 1, block, 1, mop->second_data, sizeof(mop->second_data));
	mop->second.sqe = cmd.sqe;
	mop->second.direction = HOST_DATA_TO_CTRL;
	mop->second.iov = &mop->second_iov;
	mop->second.iov_count = 1;
	mop->second.data_bytes = sizeof(mop->second_data);
	mop->io.fused_write = &mop->second;
	mop_submit(mop);
}

uint64_t mop_value(const struct mop *mop)
{
	uint64_t value;

	memcpy(&value, mop->data, sizeof(value));
	return value;
}

void mop_flush(struct mworld *world, struct mop *mop, uint64_t losses_told, uint64_t flush_failed)
{
	struct host_cmd cmd = {0};

	mop_fill(world, mop);
	host_cmd_flush(&cmd, 1);
	mop->io.sqe = cmd.sqe;
	mop->io.iov_count = 0;
	mop->io.data_bytes = 0;
	mop->io.losses_told = losses_told;
	mop->io.flush_failed = flush_failed;
	mop_submit(mop);
}
