/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flush of one namespace or, with NSID FFFFFFFFh, of all namespaces that the host sees. NVMe Base
 * 2.1, section 7.2. Runs on the queue's reactor.
 *
 * Flush of all namespaces: FLUSH_ALL_DEPTH flushes are in flight at a time, and the list is walked
 * in parts, so that ten thousand namespaces do not hold the reactor. ANA states are ignored: writes
 * through other paths go to stable storage, too. A flush that fails makes the command fail after
 * the other flushes have ended.
 */
#include "target/io.h"
#include "target/loss.h"

#include <errno.h>
#include <stdlib.h>

#define FLUSH_ALL_DEPTH    32  /* flushes in flight */
#define FLUSH_ALL_PER_TURN 256 /* namespaces visited */

struct flush_io {
	struct media_io io;
	struct flush_all *all;
	bool is_busy;
};

struct flush_all {
	struct slot *slot;
	const struct subsystem *subsystem; /* of the slot's snapshot */
	uint32_t host_index;
	unsigned next; /* index of the next namespace */
	unsigned busy_count;
	bool is_walking; /* flush_all_go is on the stack or posted */
	int error;       /* of the first flush that failed */
	bool has_loss;   /* a medium has lost writes */
	struct flush_io ios[FLUSH_ALL_DEPTH];
};

static void flush_all_go(struct flush_all *all);

static void flush_all_resume(struct reactor_msg *msg)
{
	struct slot *slot = container_of(msg, struct slot, msg);

	flush_all_go(slot->other);
}

static void flush_all_end(struct flush_all *all)
{
	struct slot *slot = all->slot;
	nvme_status status = status_from_errno(all->error, MEDIA_FLUSH);
	bool has_loss = all->has_loss;

	free(all);
	if (has_loss)
		loss_answer(slot, status);
	else
		slot_complete(slot, status);
}

static void flush_all_io_done(struct media_io *io, int res)
{
	struct flush_io *flush = container_of(io, struct flush_io, io);
	struct flush_all *all = flush->all;

	flush->is_busy = false;
	all->busy_count--;
	all->has_loss |= res < 0 && media_loss(io->media) != 0;
	if (res != 0 && all->error == 0)
		all->error = res;
	if (!all->is_walking)
		flush_all_go(all);
}

static void flush_all_submit(struct flush_all *all, struct media *media)
{
	struct flush_io *flush = all->ios;

	while (flush->is_busy)
		flush++;
	flush->all = all;
	flush->is_busy = true;
	all->busy_count++;
	flush->io.reactor = all->slot->queue->reactor;
	flush->io.media = media;
	flush->io.kind = MEDIA_FLUSH;
	flush->io.done = flush_all_io_done;
	media_submit(&flush->io);
}

static void flush_all_go(struct flush_all *all)
{
	const struct subsystem *subsystem = all->subsystem;
	struct slot *slot = all->slot;
	unsigned looked = 0;

	all->is_walking = true;
	while (all->next < subsystem->ns_count && all->busy_count < FLUSH_ALL_DEPTH) {
		const struct ns *ns;

		if (slot->is_abort_requested) {
			all->next = subsystem->ns_count;
			all->error = all->error ? all->error : -ECANCELED;
			break;
		}
		if (looked++ == FLUSH_ALL_PER_TURN) {
			reactor_post(slot->queue->reactor, &slot->msg, flush_all_resume);
			return;
		}
		ns = &subsystem->namespaces[all->next++];
		if (ns_mask_has(ns->mask, all->host_index) && ns->media->has_volatile_cache)
			flush_all_submit(all, ns->media);
	}
	all->is_walking = false;
	if (all->busy_count == 0)
		flush_all_end(all);
}

/* Cancels the flushes in flight where their medium can do that. No other flush is begun. */
void flush_all_cancel(struct slot *slot)
{
	struct flush_all *all = slot->other;
	bool was_walking = all->is_walking;

	all->is_walking = true;
	for (unsigned i = 0; i < FLUSH_ALL_DEPTH; i++) {
		struct media_io *io = &all->ios[i].io;

		if (all->ios[i].is_busy && io->media->ops->cancel)
			io->media->ops->cancel(io);
	}
	if (!was_walking)
		flush_all_go(all);
}

static void flush_all_execute(struct slot *slot)
{
	struct flush_all *all = calloc(1, sizeof(*all));

	if (!all) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	all->slot = slot;
	all->subsystem = slot->steps.subsystem;
	all->host_index = slot->steps.host_index;
	slot->other = all;
	slot->wait = SLOT_WAIT_MEDIA;
	flush_all_go(all);
}

static void flush_done(struct media_io *io, int res)
{
	struct slot *slot = container_of(io, struct slot, io);

	if (res != 0 || !loss_is_missed(slot))
		io_done(io, res);
	else if (loss_is_news(slot->ns))
		loss_answer(slot, NVME_SC_WRITE_FAULT);
	else
		slot_complete(slot, NVME_SC_WRITE_FAULT);
}

static void flush_execute(struct slot *slot)
{
	slot->loss = media_loss(slot->ns->media);
	if (slot->ns->media->has_volatile_cache)
		io_submit(slot, slot->ns, MEDIA_FLUSH, 0, flush_done);
	else
		slot_complete(slot, NVME_SC_SUCCESS);
}

nvme_status flush_prepare(struct slot *slot)
{
	if (!slot->ns && !slot->queue->subsystem)
		return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	slot->steps.subsystem = slot->queue->subsystem;
	slot->steps.host_index = slot->queue->host_index;
	slot->execute = slot->ns ? flush_execute : flush_all_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
