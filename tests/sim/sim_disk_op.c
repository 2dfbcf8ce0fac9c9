/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in flight on a simulated disk, and its blocks. One thread.
 *
 * `blocks` is what reads return, `stable` what survives a power loss. An operation lands in an
 * event that belongs to no reactor, so that it lands although its process is frozen or dead; it
 * completes for the submitter in a turn of the submitter's reactor. Bytes of a write are taken when
 * it lands, as by a device, so that a buffer released too early is noticed. Bytes of a dying
 * process are copied before its memory is freed. Operations and bytes are the disk's own memory.
 */
#include "sim_disk_private.h"
#include "sim_iov.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_ONE_IN 16 /* blocks that a cache writes back by itself */
#define EARLY_ONE_IN  4  /* writes of several blocks of which some land early */

enum block_flag {
	BLOCK_HAS_SPACE = 1,
	BLOCK_IS_DIRTY = 2, /* may differ from what is stable */
};

/* ---- blocks --------------------------------------------------------------------------------- */

static uint8_t *block_at(const struct sim_disk *disk, uint64_t block)
{
	return disk->blocks + block * disk->options.block_bytes;
}

static void block_settle(struct sim_disk *disk, uint64_t block)
{
	size_t bytes = disk->options.block_bytes;

	memcpy(disk->stable + block * bytes, block_at(disk, block), bytes);
	disk->flags[block] &= (uint8_t)~BLOCK_IS_DIRTY;
}

static void disk_settle(struct sim_disk *disk)
{
	for (uint64_t i = 0; i < disk->block_count; i++) {
		if (disk->flags[i] & BLOCK_IS_DIRTY)
			block_settle(disk, i);
	}
}

static bool op_is_late(const struct disk_op *op)
{
	const struct sim_process *process = op->handle->process;

	return process != NULL &&
	       (op->handle->is_dead || !sim_process_is_alive(process) ||
		sim_process_frozen_until(process) > sim_now(op->handle->disk->sim));
}

static void block_fill(struct disk_op *op, uint64_t index, uint8_t *here)
{
	struct sim_disk *disk = op->handle->disk;
	size_t bytes = disk->options.block_bytes;

	if (op->kind == MEDIA_WRITE && op->data)
		memcpy(here, op->data + index * bytes, bytes);
	else if (op->kind == MEDIA_WRITE)
		sim_iov_copy(op->io, index * bytes, here, bytes);
	else if (op->kind == MEDIA_WRITE_ZEROES || disk->options.reads_zero_after_discard ||
		 prng_one_in(&disk->prng, 2))
		memset(here, 0, bytes);
}

static void block_land(struct disk_op *op, uint64_t index)
{
	struct sim_disk *disk = op->handle->disk;
	uint64_t block = op->first + index;

	if (op->has_landed[index])
		return;
	op->has_landed[index] = 1;
	block_fill(op, index, block_at(disk, block));
	if (op->kind == MEDIA_DISCARD || (op->kind == MEDIA_WRITE_ZEROES && op->may_discard))
		disk->flags[block] &= (uint8_t)~BLOCK_HAS_SPACE;
	else
		disk->flags[block] |= BLOCK_HAS_SPACE;
	disk->flags[block] |= BLOCK_IS_DIRTY;
	if (op->is_fua || !disk->options.has_volatile_cache ||
	    prng_one_in(&disk->prng, SETTLE_ONE_IN))
		block_settle(disk, block);
	if (disk->watch)
		disk->watch(disk->watch_arg, disk, block, block_at(disk, block),
			    op->handle->process, op_is_late(op));
}

/* ---- what an operation does ----------------------------------------------------------------- */

static bool op_changes(const struct disk_op *op)
{
	return op->kind == MEDIA_WRITE || op->kind == MEDIA_WRITE_ZEROES ||
	       op->kind == MEDIA_DISCARD;
}

static bool block_has_room(const struct disk_op *op, uint64_t index)
{
	const struct sim_disk *disk = op->handle->disk;
	uint64_t block = op->first + index;

	if (block >= disk->cut_at)
		return false;
	if (!disk->is_full || op->kind == MEDIA_DISCARD ||
	    (op->kind == MEDIA_WRITE_ZEROES && op->may_discard))
		return true;
	return disk->flags[block] & BLOCK_HAS_SPACE;
}

/* 0, or the error that the disk's condition causes. */
static int op_condition(const struct disk_op *op)
{
	const struct sim_disk *disk = op->handle->disk;

	if (op->first + op->count > disk->cut_at)
		return -EIO;
	for (uint64_t i = 0; op_changes(op) && i < op->count; i++) {
		if (!block_has_room(op, i))
			return -ENOSPC;
	}
	return 0;
}

/* Any of the blocks land, each whole. */
static void op_land_some(struct disk_op *op)
{
	for (uint64_t i = 0; i < op->count; i++) {
		if (prng_one_in(&op->handle->disk->prng, 2) && block_has_room(op, i))
			block_land(op, i);
	}
}

static void op_read(struct disk_op *op)
{
	struct sim_disk *disk = op->handle->disk;
	size_t bytes = disk->options.block_bytes;
	uint64_t first = op->first;

	if (disk->options.misdirect_one_in > 0 && op->count < disk->block_count &&
	    prng_one_in(&disk->prng, disk->options.misdirect_one_in)) {
		first = prng_below(&disk->prng, disk->block_count - op->count);
		first += first >= op->first;
		disk->misdirected++;
		sim_trace(disk->sim, "disk %s: a read of %llu gets %llu", disk->name,
			  (unsigned long long)op->first, (unsigned long long)first);
	}
	op->data = sim_alloc(op->count * bytes + 1);
	memcpy(op->data, block_at(disk, first), op->count * bytes);
}

static void op_perform(struct disk_op *op)
{
	struct sim_disk *disk = op->handle->disk;

	if (op->result == 0)
		op->result = op_condition(op);
	if (op->result == 0 && op->kind == MEDIA_READ)
		op_read(op);
	else if (op->result == 0 && op->kind == MEDIA_FLUSH && !op->is_early_flush)
		disk_settle(disk);
	else if (op->result == 0 && op_changes(op))
		for (uint64_t i = 0; i < op->count; i++)
			block_land(op, i);
	else if ((op->result == -EIO || op->result == -ENOSPC) && op_changes(op))
		op_land_some(op);
	op->has_performed = true;
}

static const char *kind_name(enum media_kind kind)
{
	static const char *const names[] = {
		[MEDIA_READ] = "read",       [MEDIA_WRITE] = "write",
		[MEDIA_FLUSH] = "flush",     [MEDIA_WRITE_ZEROES] = "write zeroes",
		[MEDIA_DISCARD] = "discard",
	};

	return names[kind];
}

/* ---- the life of an operation --------------------------------------------------------------- */

static void op_free(struct disk_op *op)
{
	list_remove(&op->node);
	op->handle->under_way--;
	free(op->data);
	free(op);
}

static void op_done(struct sim_event *event)
{
	struct disk_op *op = event->arg;
	struct media_io *io = op->io;
	int res = op->result;

	if (res == 0 && op->kind == MEDIA_READ && op->count > 0)
		sim_iov_copy(io, 0, op->data, op->count * op->handle->disk->options.block_bytes);
	op_free(op);
	io->done(io, res);
}

/* The operation has had its effect: completes it for the submitter, if that is alive. */
static void op_end(struct disk_op *op)
{
	struct sim_disk *disk = op->handle->disk;

	sim_trace(disk->sim, "disk %s: %s of %llu+%llu ends with %d%s", disk->name,
		  kind_name(op->kind), (unsigned long long)op->first, (unsigned long long)op->count,
		  op->result, op->io ? "" : ", nobody hears it");
	if (op->io) {
		op->event =
			sim_event_add(disk->sim, op->io->reactor, sim_now(disk->sim), op_done, op);
		return;
	}
	op_free(op);
	disk_handles_reap(disk);
}

static void op_due(struct sim_event *event)
{
	struct disk_op *op = event->arg;

	op->event = NULL;
	op_perform(op);
	op_end(op);
}

static void op_land_early(struct sim_event *event)
{
	struct disk_op *op = event->arg;
	struct sim *sim = op->handle->disk->sim;

	if (op_condition(op) == 0 && op->result == 0)
		op_land_some(op);
	op->event = sim_event_add(sim, NULL, op->due_ns, op_due, op);
}

static void op_schedule(struct disk_op *op, uint64_t delay_ns)
{
	struct sim_disk *disk = op->handle->disk;
	uint64_t now_ns = sim_now(disk->sim);

	op->due_ns = now_ns + delay_ns;
	if (op_changes(op) && op->count > 1 && prng_one_in(&disk->prng, EARLY_ONE_IN))
		op->event = sim_event_add(disk->sim, NULL,
					  now_ns + prng_below(&disk->prng, delay_ns + 1),
					  op_land_early, op);
	else
		op->event = sim_event_add(disk->sim, NULL, op->due_ns, op_due, op);
}

static struct disk_op *op_create(struct disk_handle *handle, struct media_io *io)
{
	struct sim_disk *disk = handle->disk;
	uint64_t count = io->len_bytes / disk->options.block_bytes;
	struct disk_op *op = sim_alloc(sizeof(*op) + count);

	CHECK(io->kind == MEDIA_FLUSH || io->offset + io->len_bytes <= handle->media.size_bytes);
	op->handle = handle;
	op->io = io;
	op->kind = io->kind;
	op->first = io->kind == MEDIA_FLUSH ? 0 : io->offset / disk->options.block_bytes;
	op->count = count;
	op->is_fua = io->is_fua;
	op->may_discard = io->may_discard;
	list_push_back(&disk->ops, &op->node);
	handle->under_way++;
	return op;
}

/* As file_check_write. False: the write would be lost, because opening was undone. */
static bool op_keeps(struct disk_op *op)
{
	struct disk_handle *handle = op->handle;
	bool is_new = handle->has_recreated ||
		      (handle->grown_from > 0 && op->first + op->count > handle->grown_from);

	if (!op_changes(op) || !is_new)
		return true;
	handle->has_new_data |= !handle->is_undone;
	return !handle->is_undone;
}

void disk_submit(struct media_io *io)
{
	struct disk_handle *handle = container_of(io->media, struct disk_handle, media);
	struct sim_disk *disk = handle->disk;
	const struct sim_disk_options *options = &disk->options;
	uint64_t delay_us = prng_below(&disk->prng, (uint64_t)options->delay_max_us + 1);
	struct disk_op *op;

	if (!sim_process_operate(handle->process))
		return;
	op = op_create(handle, io);
	if (!op_keeps(op))
		op->result = -EIO;
	if (options->spike_one_in > 0 && prng_one_in(&disk->prng, options->spike_one_in))
		delay_us += prng_below(&disk->prng, (uint64_t)options->spike_max_us + 1);
	if (options->error_one_in > 0 && prng_one_in(&disk->prng, options->error_one_in))
		op->result = -EIO;
	if (op_changes(op) && io->deadline_ns != 0 &&
	    reactor_clock_ns(io->reactor) > io->deadline_ns)
		op->result = -ECANCELED;
	if (op->kind == MEDIA_FLUSH && op->result == 0 && prng_one_in(&disk->prng, 2)) {
		/* A flush must cover at least what is written now. */
		op->is_early_flush = true;
		disk_settle(disk);
	}
	op_schedule(op, delay_us * NS_PER_US);
}

static struct disk_op *op_find(struct sim_disk *disk, const struct media_io *io)
{
	list_for_each(node, &disk->ops) {
		struct disk_op *op = list_entry(node, struct disk_op, node);

		if (op->io == io)
			return op;
	}
	return NULL;
}

const struct sim_process *sim_disk_slow_writer(const struct sim_disk *disk, uint64_t after_ns)
{
	list_for_each(node, &disk->ops) {
		const struct disk_op *op = list_entry(node, struct disk_op, node);

		if (op->io && op_changes(op) && !op->has_performed && op->due_ns > after_ns)
			return op->handle->process;
	}
	return NULL;
}

static bool op_has_begun(const struct disk_op *op)
{
	for (uint64_t i = 0; i < op->count; i++) {
		if (op->has_landed[i])
			return true;
	}
	return op->has_performed;
}

/* May be ignored. A cancelled operation has had no effect. */
void disk_cancel(struct media_io *io)
{
	struct disk_handle *handle = container_of(io->media, struct disk_handle, media);
	struct sim_disk *disk = handle->disk;
	struct disk_op *op = op_find(disk, io);

	if (op == NULL || op_has_begun(op))
		return;
	if (disk->options.cancel_deaf_one_in > 0 &&
	    prng_one_in(&disk->prng, disk->options.cancel_deaf_one_in))
		return;
	sim_event_cancel(&op->event);
	op->result = -ECANCELED;
	op->has_performed = true;
	op_end(op);
}

/* ---- ends by death and power loss ----------------------------------------------------------- */

/* The process is gone: all, some or none of the operation's blocks will land. */
static void op_orphan(struct disk_op *op)
{
	struct sim_disk *disk = op->handle->disk;
	size_t bytes = disk->options.block_bytes;

	if (op->has_performed || !op_changes(op) || prng_one_in(&disk->prng, 4)) {
		/* The event of a performed operation is its reactor's, and is dropped with the
		 * reactor. */
		if (!op->has_performed)
			sim_event_cancel(&op->event);
		op_free(op);
		return;
	}
	if (op->kind == MEDIA_WRITE) {
		op->data = sim_alloc(op->count * bytes);
		sim_iov_copy(op->io, 0, op->data, op->count * bytes);
	}
	if (op->result == 0 && prng_one_in(&disk->prng, 4))
		op->result = -EIO;
	op->io = NULL;
}

void disk_ops_orphan(struct disk_handle *handle)
{
	list_for_each_safe(node, &handle->disk->ops) {
		struct disk_op *op = list_entry(node, struct disk_op, node);

		if (op->handle == handle)
			op_orphan(op);
	}
}

void disk_ops_settle(struct disk_handle *handle)
{
	list_for_each_safe(node, &handle->disk->ops) {
		struct disk_op *op = list_entry(node, struct disk_op, node);

		if (op->handle != handle)
			continue;
		sim_event_cancel(&op->event);
		op_perform(op);
		op_free(op);
	}
}

void disk_ops_drop(struct disk_handle *handle)
{
	list_for_each_safe(node, &handle->disk->ops) {
		struct disk_op *op = list_entry(node, struct disk_op, node);

		if (op->handle != handle)
			continue;
		sim_event_cancel(&op->event);
		op_free(op);
	}
}

void sim_disk_power_loss(struct sim_disk *disk)
{
	size_t bytes = disk->options.block_bytes;

	sim_trace(disk->sim, "disk %s loses its power", disk->name);
	list_for_each_safe(node, &disk->ops) {
		struct disk_op *op = list_entry(node, struct disk_op, node);
		bool has_performed = op->has_performed;

		op->result = -EIO;
		if (has_performed)
			continue; /* the submitter gets the result in its next turn */
		sim_event_cancel(&op->event);
		op_perform(op);
		op_end(op);
	}
	for (uint64_t i = 0; i < disk->block_count; i++) {
		if (!(disk->flags[i] & BLOCK_IS_DIRTY))
			continue;
		if (prng_one_in(&disk->prng, 2)) {
			block_settle(disk, i);
			continue;
		}
		memcpy(block_at(disk, i), disk->stable + i * bytes, bytes);
		disk->flags[i] &= (uint8_t)~BLOCK_IS_DIRTY;
		if (disk->watch)
			disk->watch(disk->watch_arg, disk, i, block_at(disk, i), NULL, false);
	}
}

uint64_t disk_used_bytes(const struct sim_disk *disk)
{
	uint64_t used = 0;

	for (uint64_t i = 0; i < disk->block_count; i++)
		used += disk->flags[i] & BLOCK_HAS_SPACE ? disk->options.block_bytes : 0;
	return used;
}
