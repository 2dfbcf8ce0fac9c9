/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controller properties and what they start: enable, reset (CC.EN 1 to 0) and shutdown (CC.SHN).
 * NVMe Base 2.1, sections 3.1.4, 3.5, 3.6.
 *
 * Reset and shutdown close the I/O queues. CSTS shows their result only when the last I/O queue is
 * drained. A shutdown also flushes every medium of the subsystem first. Runs on the controller's
 * reactor.
 */
#include "base/log.h"
#include "target/host_share.h"
#include "target/local.h"
#include "target/loss.h"
#include "target/manage.h"

#include <stdlib.h>

static struct ctrl_capabilities ctrl_capabilities(const struct ctrl *ctrl)
{
	return (struct ctrl_capabilities){
		.queue_size_max = ctrl->local->snapshot->limits.queue_size_max,
		.ready_timeout_ms = CTRL_READY_TIMEOUT_MS,
		.has_ready_with_media = true,
		.supports_nvm = true,
		.supports_io_command_sets = true,
	};
}

uint64_t ctrl_cap(const struct ctrl *ctrl)
{
	struct ctrl_capabilities cap = ctrl_capabilities(ctrl);

	return cap_encode(&cap);
}

uint32_t ctrl_crto(const struct ctrl *ctrl)
{
	struct ctrl_capabilities cap = ctrl_capabilities(ctrl);

	return crto_encode(&cap);
}

static bool config_is_usable(const struct ctrl *ctrl, const struct ctrl_config *config)
{
	bool has_entry_sizes = config->sq_entry_shift == 6 && config->cq_entry_shift == 4;
	bool has_no_entry_sizes = config->sq_entry_shift == 0 && config->cq_entry_shift == 0;

	return config->page_shift == 12 && config->arbitration == 0 &&
	       (config->command_set == 0 || config->command_set == 6) &&
	       (has_entry_sizes || (ctrl->type == CTRL_TYPE_DISCOVERY && has_no_entry_sizes));
}

/* ---- shutdown ------------------------------------------------------------------------------- */

#define SHUTDOWN_FLUSHES_MAX 64

struct shutdown_flush {
	struct media_io io;
	struct list node; /* in ctrl->flushes, while the medium has the flush */
	struct loss_note note;
	struct snapshot *snapshot;
};

static void shutdown_complete(struct ctrl *ctrl)
{
	/* A reset came in between. */
	if (!ctrl->is_shutting_down)
		return;
	ctrl->is_shutting_down = false;
	ctrl->csts &= ~(uint32_t)(CSTS_SHST_OCCURRING | CSTS_SHST_COMPLETE);
	ctrl->csts |= CSTS_SHST_COMPLETE;
}

static void shutdown_flush_more(struct ctrl *ctrl);

static void shutdown_flush_end(struct loss_note *note)
{
	struct shutdown_flush *flush = container_of(note, struct shutdown_flush, note);
	struct ctrl *ctrl = note->ctrl;
	struct snapshot *snapshot = flush->snapshot;
	struct local *local = ctrl->local;

	free(flush);
	if (--snapshot->inflight[local->index].count == 0 && snapshot != local->snapshot)
		local_snapshot_idle(snapshot);
	CHECK(ctrl->flushes_left > 0);
	ctrl->flushes_left--;
	/* A reset may have come in between, and another shutdown after that. */
	if (ctrl->is_shutting_down && ctrl->io_queue_count == 0)
		shutdown_flush_more(ctrl);
	if (ctrl->flushes_left == 0)
		ctrl_flushed(ctrl);
}

/* The host is not told that the flush failed. Other hosts must learn of lost writes. */
static void shutdown_flushed(struct media_io *io, int res)
{
	struct shutdown_flush *flush = container_of(io, struct shutdown_flush, io);

	if (res != 0)
		log_limited(LOG_LEVEL_ERROR, "target",
			    "controller %u: flush at shutdown failed: error %d",
			    flush->note.ctrl->cntlid, -res);
	list_remove(&flush->node);
	if (loss_is_news(flush->note.ns))
		loss_note(&flush->note);
	else
		shutdown_flush_end(&flush->note);
}

static void shutdown_flush_one(struct ctrl *ctrl, const struct ns *ns)
{
	struct shutdown_flush *flush = calloc(1, sizeof(*flush));

	if (!flush) {
		log_limited(LOG_LEVEL_ERROR, "target",
			    "controller %u: out of memory: no flush at shutdown", ctrl->cntlid);
		return;
	}
	flush->note = (struct loss_note){.ctrl = ctrl, .ns = ns, .done = shutdown_flush_end};
	flush->snapshot = ctrl->local->snapshot;
	flush->snapshot->inflight[ctrl->local->index].count++;
	flush->io = (struct media_io){
		.reactor = ctrl->reactor,
		.media = ns->media,
		.kind = MEDIA_FLUSH,
		.done = shutdown_flushed,
	};
	ctrl->flushes_left++;
	list_push_back(&ctrl->flushes, &flush->node);
	media_submit(&flush->io);
}

void ctrl_cancel_flushes(struct ctrl *ctrl)
{
	list_for_each_safe(node, &ctrl->flushes) {
		struct media_io *io = &list_entry(node, struct shutdown_flush, node)->io;

		if (io->media->ops->cancel)
			io->media->ops->cancel(io);
	}
}

/* Submits as many flushes as may be in flight: thousands of namespaces must not hold the
 * reactor. */
static void shutdown_flush_more(struct ctrl *ctrl)
{
	const struct subsystem *subsystem = ctrl->subsystem;
	unsigned at = subsystem ? subsystem_ns_after(subsystem, ctrl->flushed_nsid) : 0;

	/* A flush that ends inside its submit calls this function again. */
	if (ctrl->is_flushing)
		return;
	ctrl->is_flushing = true;
	for (; subsystem && at < subsystem->ns_count; at++) {
		if (ctrl->flushes_left == SHUTDOWN_FLUSHES_MAX)
			break;
		ctrl->flushed_nsid = subsystem->namespaces[at].nsid;
		if (subsystem->namespaces[at].media->has_volatile_cache)
			shutdown_flush_one(ctrl, &subsystem->namespaces[at]);
	}
	ctrl->is_flushing = false;
	if (ctrl->flushes_left == 0)
		shutdown_complete(ctrl);
}

static void shutdown_go_on(struct ctrl *ctrl)
{
	if (ctrl->io_queue_count == 0)
		shutdown_flush_more(ctrl);
}

/* ---- CC ------------------------------------------------------------------------------------- */

static void disable_complete(struct ctrl *ctrl)
{
	ctrl->is_disabling = false;
	ctrl->is_shutting_down = false;
	ctrl->csts = 0;
	ctrl->io_queues_granted = ctrl->io_queues_max;
	ctrl_events_reset(ctrl);
}

static void enable(struct ctrl *ctrl)
{
	struct ctrl_config config = cc_decode(ctrl->cc);

	if (config_is_usable(ctrl, &config)) {
		ctrl->csts = CSTS_RDY;
	} else {
		log_of_peer(&ctrl->share_of_addr->lines, LOG_LEVEL_WARN, "target",
			    "controller %u: cannot be enabled with CC %08xh", ctrl->cntlid,
			    ctrl->cc);
		ctrl->csts = CSTS_CFS;
	}
	ctrl_keep_alive_start(ctrl);
}

void ctrl_property_on_detach(struct ctrl *ctrl)
{
	if (ctrl->io_queue_count > 0 || ctrl->state != CTRL_LIVE)
		return;
	if (ctrl->is_disabling) {
		/* Base 3.7.2: nothing of the host continues after a reset. */
		if (ctrl->admin && manage_is_busy(ctrl->admin))
			return;
		disable_complete(ctrl);
		/* The host has set CC.EN again without waiting for CSTS.RDY to become 0. */
		if (cc_decode(ctrl->cc).is_enabled)
			enable(ctrl);
	} else if (ctrl->is_shutting_down) {
		shutdown_go_on(ctrl);
	}
}

void ctrl_set_cc(struct ctrl *ctrl, uint32_t cc)
{
	struct ctrl_config old = cc_decode(ctrl->cc);
	struct ctrl_config now = cc_decode(cc);

	CHECK_OWNER(ctrl);
	ctrl->cc = cc;
	if (now.is_enabled && !old.is_enabled && !ctrl->is_disabling)
		enable(ctrl);
	if (!now.is_enabled && old.is_enabled) {
		ctrl->is_disabling = true;
		ctrl_events_flush(ctrl, NVME_SC_ABORT_SQ_DELETION);
		ctrl_resets_release(ctrl);
		ctrl_close_io_queues(ctrl);
		/* Base 3.7.2: a reset stops the processing of outstanding commands. */
		ctrl_cancel_io_queues(ctrl);
		if (ctrl->admin)
			manage_cancel_queue(ctrl->admin);
		ctrl_property_on_detach(ctrl);
	} else if (now.shutdown != 0 && old.shutdown == 0) {
		ctrl->is_shutting_down = true;
		ctrl->flushed_nsid = 0;
		ctrl->csts |= CSTS_SHST_OCCURRING;
		ctrl_close_io_queues(ctrl);
		ctrl_property_on_detach(ctrl);
	}
}
