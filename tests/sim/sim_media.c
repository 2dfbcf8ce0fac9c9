/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated medium. Implements media_ops with timers of the reactor that submits, so that
 * commands overlap and finish out of order; a block is always read and written whole.
 *
 * The cache: `blocks` is what reads see, `stable` what survives a loss of power. A flush makes
 * all stable that was written when the flush ENDS or, chosen by the seed, when it began, which is
 * the least that is promised. An operation that fails did none, some or all of its blocks.
 */
#include "sim_media.h"
#include "sim_iov.h"

#include "base/clock.h"
#include "base/prng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sim_medium {
	struct media media;
	struct sim_media_options options;
	struct prng prng;
	uint8_t *blocks;
	uint8_t *stable;
	uint64_t losses; /* power losses so far; each fails the operations in flight */
	unsigned under_way;
};

static unsigned open_count;

/* The context of an operation. */
struct sim_work {
	struct reactor_timer timer;
	int result;
	uint64_t losses; /* the medium's count when the operation began */
	unsigned stage;
};
MEDIA_IO_FITS(struct sim_work);

static struct sim_work *work_of(const struct media_io *io)
{
	return (struct sim_work *)(void *)io->context;
}

static struct media_io *io_of(struct reactor_timer *timer)
{
	return container_of(container_of(timer, struct sim_work, timer), struct media_io, context);
}

static uint64_t at_block(const struct sim_medium *medium, const struct media_io *io)
{
	return io->offset / medium->options.block_bytes;
}

static void block_settle(struct sim_medium *medium, uint64_t block)
{
	size_t bytes = medium->options.block_bytes;

	memcpy(medium->stable + block * bytes, medium->blocks + block * bytes, bytes);
}

static void settle_all(struct sim_medium *medium)
{
	for (uint64_t i = 0; i < medium->options.block_count; i++)
		block_settle(medium, i);
}

static void block_perform(struct sim_medium *medium, struct media_io *io, uint64_t index)
{
	size_t bytes = medium->options.block_bytes;
	uint64_t block = at_block(medium, io) + index;
	uint8_t *here = medium->blocks + block * bytes;

	switch (io->kind) {
	case MEDIA_READ:
	case MEDIA_WRITE:
		sim_iov_copy(io, index * bytes, here, bytes);
		break;
	case MEDIA_WRITE_ZEROES:
		memset(here, 0, bytes);
		break;
	case MEDIA_DISCARD:
		if (medium->options.reads_zero_after_discard || prng_one_in(&medium->prng, 2))
			memset(here, 0, bytes);
		break;
	case MEDIA_FLUSH:
	case MEDIA_EXTENTS: /* unused: knows_extents is false */
		break;
	}
	if (io->is_fua || !medium->options.has_volatile_cache || prng_one_in(&medium->prng, 16))
		block_settle(medium, block);
}

static void sim_media_finish(struct reactor_timer *timer)
{
	struct media_io *io = io_of(timer);
	struct sim_medium *medium = container_of(io->media, struct sim_medium, media);
	uint64_t count = io->len_bytes / medium->options.block_bytes;
	int res = work_of(io)->result;

	medium->under_way--;
	if (work_of(io)->losses != medium->losses) {
		io->done(io, -EIO);
		return;
	}
	if (res == -EIO)
		count = prng_below(&medium->prng, count + 1);
	else if (res != 0)
		count = 0;
	for (uint64_t i = 0; i < count; i++)
		block_perform(medium, io, i);
	if (io->kind == MEDIA_FLUSH && res == 0 && work_of(io)->stage == 0)
		settle_all(medium);
	io->done(io, res);
}

static void sim_media_submit(struct media_io *io)
{
	struct sim_medium *medium = container_of(io->media, struct sim_medium, media);
	uint64_t delay_us = prng_below(&medium->prng, medium->options.delay_max_us + 1);

	if (medium->options.spike_one_in &&
	    prng_one_in(&medium->prng, medium->options.spike_one_in))
		delay_us *= 100;
	work_of(io)->result = 0;
	if (medium->options.error_one_in &&
	    prng_one_in(&medium->prng, medium->options.error_one_in))
		work_of(io)->result = -EIO;
	work_of(io)->losses = medium->losses;
	work_of(io)->stage = prng_one_in(&medium->prng, 2); /* flush: 1 covers what is there now */
	if (io->kind == MEDIA_FLUSH && work_of(io)->stage == 1)
		settle_all(medium);
	medium->under_way++;
	reactor_timer_init(io->reactor, &work_of(io)->timer, sim_media_finish);
	reactor_timer_arm(&work_of(io)->timer, reactor_now_ns(io->reactor) + delay_us * NS_PER_US);
}

static void sim_media_cancel(struct media_io *io)
{
	struct sim_medium *medium = container_of(io->media, struct sim_medium, media);

	if (medium->options.cancel_deaf_one_in &&
	    prng_one_in(&medium->prng, medium->options.cancel_deaf_one_in))
		return;
	if (work_of(io)->timer.armed) {
		work_of(io)->result = -ECANCELED;
		reactor_timer_arm(&work_of(io)->timer, reactor_now_ns(io->reactor));
	}
}

static void sim_media_close(struct media *media)
{
	struct sim_medium *medium = container_of(media, struct sim_medium, media);

	CHECK(medium->under_way == 0);
	free(medium->blocks);
	free(medium->stable);
	free(medium);
	open_count--;
}

static const struct media_ops sim_media_ops = {
	.name = "sim",
	.submit = sim_media_submit,
	.cancel = sim_media_cancel,
	.close = sim_media_close,
};

struct media *sim_media_open(const struct sim_media_options *options)
{
	struct sim_medium *medium = calloc(1, sizeof(*medium));

	CHECK(medium != NULL);
	medium->options = *options;
	prng_seed(&medium->prng, options->seed);
	medium->blocks = calloc(options->block_count, options->block_bytes);
	medium->stable = calloc(options->block_count, options->block_bytes);
	CHECK(medium->blocks != NULL && medium->stable != NULL);
	medium->media = (struct media){
		.ops = &sim_media_ops,
		.spec = strdup("sim"),
		.size_bytes = options->block_count * options->block_bytes,
		.block_bytes = options->block_bytes,
		.buffer_align_bytes = 1,
		.has_volatile_cache = options->has_volatile_cache,
		.can_discard = options->can_discard,
		.reads_zero_after_discard =
			options->can_discard && options->reads_zero_after_discard,
	};
	CHECK(medium->media.spec != NULL);
	open_count++;
	return &medium->media;
}

void sim_media_power_loss(struct media *media)
{
	struct sim_medium *medium = container_of(media, struct sim_medium, media);
	size_t bytes = medium->options.block_bytes;

	medium->losses++;
	for (uint64_t i = 0; i < medium->options.block_count; i++) {
		if (prng_one_in(&medium->prng, 2))
			memcpy(medium->blocks + i * bytes, medium->stable + i * bytes, bytes);
		else
			block_settle(medium, i);
	}
}

void sim_media_heal(struct media *media)
{
	struct sim_medium *medium = container_of(media, struct sim_medium, media);

	medium->options.spike_one_in = 0;
	medium->options.error_one_in = 0;
}

unsigned sim_media_open_count(void)
{
	return open_count;
}
