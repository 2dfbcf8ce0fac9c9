/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hedged reads: a read that has waited longer than most is sent on a second path too, and the first
 * answer wins. Runs on the mpath's reactor. hedge.c decides when and how often.
 *
 * A twin reads into a buffer of its own, because two controllers may send at the same time, and
 * late data of the loser must not reach memory that the caller has again. The loser is forgotten
 * (host_cmd_forget). Twins and their buffers are allocated when the mpath is opened. When all are
 * in use, or the bound is reached, a read just waits. A read whose first copy was lost while its
 * twin is in flight is not sent a third time: the twin decides.
 *
 * Reads that may get a twin wait on one list, oldest first. All get a twin at the same age, so one
 * timer serves all.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "host/hedge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEDGE_TWINS 32
#define HEDGE_READ_BYTES                                                                           \
	(128 * 1024) /* longer reads get no twin: sending them twice costs too much                \
		      */

/* The second copy of a read. */
struct hedge {
	struct host_cmd cmd;
	struct mpath *mpath;
	struct mpath_io *io; /* NULL: free */
	struct path *path;
	uint16_t queue;
	bool is_first_gone; /* the first copy was lost: this copy decides */
	uint64_t sent_ns;
	struct list node; /* in hedge_engine.free */
	uint8_t *buf;     /* HEDGE_READ_BYTES long */
};

struct hedge_engine {
	struct hedge_gauge gauge;
	struct reactor_timer timer;
	struct mpath *mpath;
	struct list waiting; /* mpath_io.hedge_node, oldest first */
	struct list free;
	uint64_t reads; /* answered reads */
	uint64_t twins; /* twins that were sent */
	uint64_t wins;  /* twins that answered first */
	struct hedge all[HEDGE_TWINS];
	uint8_t *bufs;
};

static void on_twin_done(struct host_cmd *cmd);

static uint64_t hedge_now(const struct mpath *mpath)
{
	return reactor_now_ns(mpath->reactor);
}

static void hedge_arm(struct hedge_engine *engine)
{
	uint64_t threshold_ns = hedge_gauge_threshold_ns(&engine->gauge);

	if (list_empty(&engine->waiting) || threshold_ns == HEDGE_NEVER)
		return;
	reactor_timer_arm(&engine->timer,
			  list_entry(engine->waiting.next, struct mpath_io, hedge_node)->sent_ns +
				  threshold_ns);
}

/* ---- a twin --------------------------------------------------------------------------------- */

/* The usable path with the fewest commands in flight, other than the read's first path. */
static struct path *hedge_path_pick(const struct mpath_io *io)
{
	const struct mpath_ns *ns = io->ns;
	struct path *best = NULL;

	for (unsigned i = 0; i < ns->candidate_count; i++) {
		struct path *path = ns->candidates[i];

		if (path != io->path &&
		    (best == NULL || path->in_flight_count < best->in_flight_count))
			best = path;
	}
	return best;
}

static void hedge_start(struct hedge_engine *engine, struct mpath_io *io)
{
	struct path *path = hedge_path_pick(io);
	struct hedge *twin;

	if (path == NULL || ns_is_stale(io->ns) || list_empty(&engine->free) ||
	    !hedge_gauge_take(&engine->gauge))
		return;
	twin = list_entry(list_pop_front(&engine->free), struct hedge, node);
	twin->io = io;
	twin->path = path;
	twin->is_first_gone = false;
	twin->sent_ns = hedge_now(engine->mpath);
	twin->cmd = (struct host_cmd){
		.sqe = io->cmd.sqe,
		.direction = HOST_DATA_FROM_CTRL,
		.data = twin->buf,
		.data_bytes = io->data_bytes,
		.done = on_twin_done,
	};
	io->hedge = twin;
	io->is_hedged = true;
	engine->twins++;
	path->picked_ns = twin->sent_ns;
	twin->queue = (uint16_t)io_queue_pick(path);
	path->queue_in_flight[twin->queue]++;
	path->in_flight_count++;
	host_submit_io(path->ctrl, twin->queue, &twin->cmd);
}

/* The twin is not in flight any more. */
static void hedge_release(struct hedge *twin)
{
	struct path *path = twin->path;

	path->in_flight_count--;
	path->queue_in_flight[twin->queue]--;
	twin->io->hedge = NULL;
	twin->io = NULL;
	twin->path = NULL;
	list_push_back(&twin->mpath->hedge->free, &twin->node);
	path_command_ended(path);
}

static void hedge_copy(const struct hedge *twin, const struct mpath_io *io)
{
	uint32_t offset = 0;

	for (unsigned i = 0; i < io->iov_count && offset < io->data_bytes; i++) {
		uint32_t rest = io->data_bytes - offset;
		size_t len = io->iov[i].iov_len < rest ? io->iov[i].iov_len : rest;

		memcpy(io->iov[i].iov_base, twin->buf + offset, len);
		offset += (uint32_t)len;
	}
}

/* Forgets the first copy. Data that its controller still sends is discarded. */
static void hedge_forget_first(struct mpath_io *io, uint64_t now_ns)
{
	struct path *path = io->path;

	host_cmd_forget(path->ctrl, io->queue, &io->cmd);
	list_remove(&io->node);
	path->in_flight_count--;
	path->queue_in_flight[io->queue]--;
	/* The first copy would have taken even longer, so this time is a lower bound for the
	 * policy. */
	if (now_ns - io->sent_ns > path->latency.mean_ns)
		path_latency_add(&path->latency, now_ns - io->sent_ns, now_ns);
	path_command_ended(path);
}

static void hedge_win(struct hedge *twin)
{
	struct hedge_engine *engine = twin->mpath->hedge;
	struct mpath_io *io = twin->io;
	struct path *path = twin->path;
	uint64_t now_ns = hedge_now(twin->mpath);
	uint64_t result = twin->cmd.result;

	engine->wins++;
	path->commands++;
	path->answered_ns += now_ns - twin->sent_ns;
	path_latency_add(&path->latency, now_ns - twin->sent_ns, now_ns);
	hedge_gauge_add(&engine->gauge, now_ns - io->sent_ns, now_ns);
	if (!twin->is_first_gone)
		hedge_forget_first(io, now_ns);
	hedge_copy(twin, io);
	hedge_release(twin);
	io->cmd.status = NVME_SC_SUCCESS;
	io->cmd.result = result;
	io->cmds_busy = 0;
	io_end_answered(io);
}

static void on_twin_done(struct host_cmd *cmd)
{
	struct hedge *twin = container_of(cmd, struct hedge, cmd);
	struct mpath_io *io = twin->io;
	bool is_first_gone = twin->is_first_gone;

	if (nvme_status_is_ok(cmd->status)) {
		hedge_win(twin);
		return;
	}
	/* Ignore the status: the first copy, or a new one, gets it too. */
	if (io_is_lost(cmd, twin->path))
		path_losing(twin->path);
	hedge_release(twin);
	if (is_first_gone)
		io_send(io);
}

/* ---- for mpath_io.c ------------------------------------------------------------------------- */

void hedge_on_sent(struct mpath_io *io)
{
	struct hedge_engine *engine = io->ns->mpath->hedge;

	if (io->sqe.opcode != NVME_IO_READ || io->fused_write != NULL ||
	    io->data_bytes > HEDGE_READ_BYTES || io->is_hedged)
		return;
	list_push_back(&engine->waiting, &io->hedge_node);
	if (!engine->timer.armed)
		hedge_arm(engine);
}

bool hedge_on_back(struct mpath_io *io, bool is_lost)
{
	struct hedge_engine *engine = io->ns->mpath->hedge;
	struct hedge *twin = io->hedge;
	uint64_t now_ns = hedge_now(engine->mpath);

	list_remove(&io->hedge_node);
	if (io->sqe.opcode == NVME_IO_READ && nvme_status_is_ok(io->cmd.status)) {
		engine->reads++;
		hedge_gauge_add(&engine->gauge, now_ns - io->sent_ns, now_ns);
	}
	if (twin == NULL)
		return false;
	if (is_lost) {
		twin->is_first_gone = true;
		return true;
	}
	host_cmd_forget(twin->path->ctrl, twin->queue, &twin->cmd);
	hedge_release(twin);
	return false;
}

static void on_hedge_timer(struct reactor_timer *timer)
{
	struct hedge_engine *engine = container_of(timer, struct hedge_engine, timer);
	uint64_t now_ns = hedge_now(engine->mpath);
	uint64_t threshold_ns = hedge_gauge_threshold_ns(&engine->gauge);

	while (!list_empty(&engine->waiting) && threshold_ns != HEDGE_NEVER) {
		struct mpath_io *io = list_entry(engine->waiting.next, struct mpath_io, hedge_node);

		if (now_ns - io->sent_ns < threshold_ns)
			break;
		list_remove(&io->hedge_node);
		hedge_start(engine, io);
	}
	hedge_arm(engine);
}

/* ---- life ----------------------------------------------------------------------------------- */

int hedge_open(struct mpath *mpath)
{
	const struct mpath_hedge *config = &mpath->config.hedge;
	struct hedge_engine *engine;

	if (config->percentile == 0)
		return 0;
	if (config->percentile >= 10000 || config->extra_percent > 100)
		return -EINVAL;
	engine = calloc(1, sizeof(*engine));
	if (engine == NULL)
		return -ENOMEM;
	mpath->hedge = engine;
	engine->mpath = mpath;
	list_init(&engine->waiting);
	list_init(&engine->free);
	reactor_timer_init(mpath->reactor, &engine->timer, on_hedge_timer);
	hedge_gauge_init(&engine->gauge, config->percentile, config->min_us, config->extra_percent);
	engine->bufs = malloc((size_t)HEDGE_TWINS * HEDGE_READ_BYTES);
	if (engine->bufs == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < HEDGE_TWINS; i++) {
		engine->all[i].mpath = mpath;
		engine->all[i].buf = engine->bufs + (size_t)i * HEDGE_READ_BYTES;
		list_push_back(&engine->free, &engine->all[i].node);
	}
	return 0;
}

void hedge_close(struct mpath *mpath)
{
	struct hedge_engine *engine = mpath->hedge;

	if (engine == NULL)
		return;
	reactor_timer_cancel(&engine->timer);
	free(engine->bufs);
	free(engine);
	mpath->hedge = NULL;
}

void mpath_hedge_stats(const struct mpath *mpath, struct mpath_hedge_stats *ret_stats)
{
	const struct hedge_engine *engine = mpath->hedge;

	*ret_stats = (struct mpath_hedge_stats){0};
	if (engine == NULL)
		return;
	ret_stats->reads = engine->reads + engine->wins;
	ret_stats->twins = engine->twins;
	ret_stats->wins = engine->wins;
	ret_stats->threshold_ns = hedge_gauge_threshold_ns(&engine->gauge);
}
