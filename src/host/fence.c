/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fence of a lost controller: holds its commands that change data until none of them can run
 * any more. Runs on the mpath's reactor. NVMe Base 2.1, section 9.6 (communication loss); Base 2.3,
 * Cross-Controller Reset (TP8028).
 *
 * A fence starts when the kernel has released all buffers and all connections are reset, so that
 * only the network can still hold bytes for the controller. It ends when another live controller
 * reports that the lost one was reset (FENCE_RESET), or when the lost controller must have ended by
 * itself (FENCE_TIME): see fence_start. Each lost controller has a fence of its own, allocated
 * before the controller is used. Losing a controller allocates nothing except the reset request.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "wire/ctrl_reset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FENCE_POLL_MS 50
/* Without keep alive a lost controller never ends by itself. When no reset succeeds for this time,
 * the commands end with MPATH_UNKNOWN, and may still run later. */
#define FENCE_UNTIMED_MS 120000
#define FENCE_NEVER      UINT64_MAX

/* One command of a fence on a path. When the fence no longer waits for the answer, the command
 * outlives the fence. */
struct fence_ask {
	struct mpath *mpath;
	struct path *path;
	struct fence *fence; /* NULL: no fence waits for the answer */
	bool is_poll;
	struct host_cmd cmd;
	uint8_t page[LOG_CTRL_RESET_BYTES];
};

struct fence {
	struct mpath *mpath;
	struct path *path; /* the lost path; NULL if it was removed */
	struct list node;  /* in mpath->fences once the fence has started */
	struct list ios;
	struct ctrl_identity identity;
	uint16_t cntlid;
	uint64_t begun_ns;
	uint64_t end_ns; /* when the lost controller has ended by itself */
	bool is_untimed;
	/* State of the reset request. */
	struct path *asked; /* NULL: no path is being asked */
	bool is_accepted;   /* accepted: the log will report the result */
	struct fence_ask *ask;
	uint64_t asked_until_ns;
	uint64_t again_ns; /* next poll or next attempt; FENCE_NEVER: none */
	/* By slot: the path's generation when it was last asked without success. */
	uint32_t tried[MPATH_PATHS_MAX];
	struct reactor_timer timer;
};

static void fence_next(struct fence *fence);

static uint64_t fence_now(const struct fence *fence)
{
	return reactor_now_ns(fence->mpath->reactor);
}

static void fence_arm(struct fence *fence)
{
	uint64_t at_ns = fence->end_ns;

	if (fence->asked != NULL && fence->asked_until_ns < at_ns)
		at_ns = fence->asked_until_ns;
	if (fence->again_ns < at_ns)
		at_ns = fence->again_ns;
	reactor_timer_arm(&fence->timer, at_ns);
}

/* ---- the end of a fence -----------------------------------------------------------------------
 */

static void ask_detach(struct fence *fence)
{
	if (fence->ask != NULL)
		fence->ask->fence = NULL;
	fence->ask = NULL;
	fence->asked = NULL;
	fence->is_accepted = false;
	fence->again_ns = FENCE_NEVER;
}

void fence_free(struct fence *fence)
{
	if (fence == NULL)
		return;
	ask_detach(fence);
	reactor_timer_cancel(&fence->timer);
	list_remove(&fence->node);
	free(fence);
}

static void fence_clear(struct fence *fence, enum fence_kind kind)
{
	struct mpath *mpath = fence->mpath;
	struct path *path = fence->path;
	unsigned long long took_ms = (fence_now(fence) - fence->begun_ns) / NS_PER_MS;
	struct list ios;
	struct list *node;

	list_init(&ios);
	list_splice_back(&ios, &fence->ios);
	if (path != NULL && kind == FENCE_RESET) {
		path->fences_by_reset++;
		mpath_say(mpath, path, "controller %u was reset (%llu ms): its commands continue",
			  fence->cntlid, took_ms);
	} else if (path != NULL && kind == FENCE_TIME) {
		path->fences_by_time++;
		mpath_say(mpath, path,
			  "controller %u has ended by time-out (%llu ms): its commands continue",
			  fence->cntlid, took_ms);
	} else if (path != NULL) {
		mpath_say(mpath, path,
			  "whether controller %u has ended is unknown (%llu ms, no keep alive): "
			  "its commands end with unknown outcome",
			  fence->cntlid, took_ms);
	}
	fence_free(fence);
	while ((node = list_pop_front(&ios)) != NULL)
		io_after_fence(list_entry(node, struct mpath_io, node), kind != FENCE_NONE);
}

/* ---- reset requests ---------------------------------------------------------------------------
 */

/* Applies a log page of this path to every fence that has asked there. */
static void log_take(struct path *path, const uint8_t *page)
{
	uint32_t count = log_ctrl_reset_count(page, LOG_CTRL_RESET_BYTES);

	list_for_each_safe(node, &path->mpath->fences) {
		struct fence *fence = list_entry(node, struct fence, node);

		/* Ignore the log until the request was accepted: an entry from before may be about
		 * another instance with the same CNTLID. */
		for (uint32_t i = 0; fence->asked == path && fence->is_accepted && i < count; i++) {
			struct log_ctrl_reset_entry entry;

			log_ctrl_reset_entry_decode(page, i, &entry);
			if (entry.cntlid != fence->cntlid ||
			    entry.uniquifier != fence->identity.uniquifier)
				continue;
			if (entry.state == LOG_CTRL_RESET_SUCCESS) {
				fence_clear(fence, FENCE_RESET);
				break;
			}
			if (entry.state == LOG_CTRL_RESET_FAILED)
				fence_next(fence);
		}
	}
}

static void ask_answered(struct fence *fence, const struct host_cmd *cmd)
{
	struct path *asked = fence->asked;

	if (nvme_status_is_ok(cmd->status) && ctrl_reset_result_decode((uint32_t)cmd->result)) {
		fence_clear(fence, FENCE_RESET);
	} else if (nvme_status_is_ok(cmd->status)) {
		fence->is_accepted = true;
		fence->again_ns = fence_now(fence) + FENCE_POLL_MS * NS_PER_MS;
		fence_arm(fence);
	} else if (nvme_status_same(cmd->status, NVME_SC_CTRL_RESET_IN_PROGRESS) ||
		   nvme_status_same(cmd->status, NVME_SC_CTRL_RESET_LIMIT) ||
		   nvme_status_same(cmd->status, NVME_SC_CTRL_RESET_LOG_FULL)) {
		/* The controller is busy with other resets, or its log is full. Or it is resetting
		 * this controller for another host or path, whose log gets the result, for example
		 * when the path asked before was lost. Ask again later: after the reset has ended
		 * the answer is immediate. */
		ask_detach(fence);
		fence->tried[asked->slot] = 0;
		fence->again_ns = fence_now(fence) + FENCE_POLL_MS * NS_PER_MS;
		fence_arm(fence);
	} else {
		log_limited(LOG_LEVEL_INFO, "host",
			    "%s: path %s: Cross-Controller Reset of controller %u refused: %s",
			    fence->mpath->config.subsystem_nqn, asked->name, fence->cntlid,
			    nvme_status_name(cmd->status));
		fence_next(fence);
	}
}

static void on_ask_done(struct host_cmd *cmd)
{
	struct fence_ask *ask = container_of(cmd, struct fence_ask, cmd);
	struct mpath *mpath = ask->mpath;
	struct fence *fence = ask->fence;

	mpath->asks--;
	if (fence != NULL)
		fence->ask = NULL;
	/* Reading the log removes its entries, so a page serves all fences, even if this fence no
	 * longer waits. */
	if (ask->is_poll && nvme_status_is_ok(cmd->status))
		log_take(ask->path, ask->page);
	else if (fence != NULL && ask->is_poll)
		fence_next(fence);
	else if (fence != NULL)
		ask_answered(fence, cmd);
	free(ask);
	if (mpath->is_closing)
		reactor_defer(mpath->reactor, &mpath->settle);
}

static int ask_create(struct fence *fence, struct path *path, struct fence_ask **ret_ask)
{
	struct fence_ask *ask = calloc(1, sizeof(*ask));

	if (ask == NULL)
		return -ENOMEM;
	ask->mpath = fence->mpath;
	ask->path = path;
	ask->fence = fence;
	fence->ask = ask;
	fence->mpath->asks++;
	*ret_ask = ask;
	return 0;
}

static void fence_ask_reset(struct fence *fence, struct path *path)
{
	struct fence_ask *ask;

	fence->tried[path->slot] = path->generation;
	if (ask_create(fence, path, &ask) != 0)
		return;
	fence->asked = path;
	fence->asked_until_ns =
		fence_now(fence) + fence->mpath->config.timeouts.reset_ms * NS_PER_MS;
	host_cmd_ctrl_reset(&ask->cmd, fence->cntlid, fence->identity.uniquifier,
			    fence->identity.random_number);
	ask->cmd.done = on_ask_done;
	host_submit_admin(path->ctrl, &ask->cmd);
}

static void fence_poll(struct fence *fence)
{
	struct log_cmd log = {.log_id = LOG_CTRL_RESET,
			      .specific = LOG_CTRL_RESET_REMOVE,
			      .len_bytes = LOG_CTRL_RESET_BYTES};
	struct fence_ask *ask;

	fence->again_ns = fence_now(fence) + FENCE_POLL_MS * NS_PER_MS;
	if (fence->ask != NULL || ask_create(fence, fence->asked, &ask) != 0)
		return;
	ask->is_poll = true;
	log_cmd_encode(&ask->cmd.sqe, 0, &log);
	ask->cmd.direction = HOST_DATA_FROM_CTRL;
	ask->cmd.data = ask->page;
	ask->cmd.data_bytes = LOG_CTRL_RESET_BYTES;
	ask->cmd.done = on_ask_done;
	host_submit_admin(fence->asked->ctrl, &ask->cmd);
}

/* Whether this path can be asked and its answer counts. A controller of another subsystem would
 * confirm that it knows no such controller. A path with other namespaces belongs to another
 * subsystem, even if it reports the same name. */
static bool path_can_reset(const struct fence *fence, const struct path *path)
{
	return path->is_usable && path->identity.reset_limit > 0 && path->other_count == 0 &&
	       fence->tried[path->slot] != path->generation &&
	       join_same_subsystem(&fence->identity, &path->identity);
}

/* The lost controller must support the reset as well: otherwise its instance has no name to
 * send. */
static struct path *fence_choose(const struct fence *fence)
{
	struct path *same = NULL;

	if (fence->identity.reset_limit == 0)
		return NULL;
	for (unsigned i = 0; i < fence->mpath->path_count; i++) {
		struct path *path = fence->mpath->paths[i];

		if (!path_can_reset(fence, path))
			continue;
		if (path != fence->path)
			return path;
		same = path;
	}
	return same;
}

static void fence_next(struct fence *fence)
{
	struct path *path;

	ask_detach(fence);
	while (fence->asked == NULL && (path = fence_choose(fence)) != NULL)
		fence_ask_reset(fence, path);
	fence_arm(fence);
}

/* The path that was asked takes longer than it should. Another path may be faster. Without another
 * path keep waiting: the reset may take long because a peer must be fenced first. */
static void fence_overdue(struct fence *fence)
{
	if (fence_choose(fence) != NULL) {
		fence_next(fence);
		return;
	}
	fence->asked_until_ns =
		fence_now(fence) + fence->mpath->config.timeouts.reset_ms * NS_PER_MS;
	fence_arm(fence);
}

static void on_fence_timer(struct reactor_timer *timer)
{
	struct fence *fence = container_of(timer, struct fence, timer);
	uint64_t now_ns = fence_now(fence);

	if (now_ns >= fence->end_ns) {
		fence_clear(fence, fence->is_untimed ? FENCE_NONE : FENCE_TIME);
	} else if (fence->asked == NULL) {
		fence_next(fence);
	} else if (now_ns >= fence->asked_until_ns) {
		fence_overdue(fence);
	} else {
		if (fence->is_accepted)
			fence_poll(fence);
		fence_arm(fence);
	}
}

void fence_on_event(struct path *path)
{
	list_for_each(node, &path->mpath->fences) {
		struct fence *fence = list_entry(node, struct fence, node);

		if (fence->asked == path && fence->is_accepted) {
			fence_poll(fence);
			return; /* one reading serves all fences */
		}
	}
}

void fence_on_path_live(struct mpath *mpath)
{
	list_for_each_safe(node, &mpath->fences) {
		struct fence *fence = list_entry(node, struct fence, node);

		if (fence->asked == NULL)
			fence_next(fence);
	}
}

void fence_on_path_lost(struct path *path)
{
	list_for_each_safe(node, &path->mpath->fences) {
		struct fence *fence = list_entry(node, struct fence, node);

		if (fence->asked == path)
			fence_next(fence);
	}
}

void fence_on_path_gone(struct path *path)
{
	list_for_each(node, &path->mpath->fences) {
		struct fence *fence = list_entry(node, struct fence, node);

		fence->tried[path->slot] = 0;
		if (fence->path == path)
			fence->path = NULL;
	}
}

/* ---- the start of a fence ---------------------------------------------------------------------
 */

int fence_create(struct path *path)
{
	struct fence *fence = calloc(1, sizeof(*fence));

	if (fence == NULL)
		return -ENOMEM;
	fence->mpath = path->mpath;
	fence->path = path;
	fence->again_ns = FENCE_NEVER;
	list_init(&fence->node);
	list_init(&fence->ios);
	reactor_timer_init(path->mpath->reactor, &fence->timer, on_fence_timer);
	path->fence = fence;
	return 0;
}

void fence_hold(struct path *path, struct mpath_io *io)
{
	list_push_back(&path->fence->ios, &io->node);
}

/* How long a controller may still run commands of its host after it received its last byte; 0: for
 * ever. The controller stays alive for kato_ms (see host_ctrl_kato_ms), then has CQT to end its
 * running commands. */
static uint64_t fence_time_ms(const struct fence *fence, uint64_t kato_ms)
{
	if (kato_ms == 0)
		return 0;
	return kato_ms + (fence->identity.quiesce_ms ? fence->identity.quiesce_ms
						     : fence->mpath->config.timeouts.quiesce_ms);
}

void fence_start(struct path *path, uint64_t last_sent_ns)
{
	struct fence *fence = path->fence;
	struct mpath *mpath = path->mpath;
	uint64_t wait_ms;

	if (list_empty(&fence->ios))
		return;
	path->fence = NULL;
	fence->identity = path->identity;
	fence->cntlid = path->identity.cntlid;
	fence->begun_ns = fence_now(fence);
	wait_ms = fence_time_ms(fence, path->kato_ms);
	fence->is_untimed = wait_ms == 0;
	if (fence->is_untimed)
		fence->end_ns = fence->begun_ns + FENCE_UNTIMED_MS * NS_PER_MS;
	else
		fence->end_ns = last_sent_ns + wait_ms * NS_PER_MS;
	list_push_back(&mpath->fences, &fence->node);
	fence_next(fence);
	if (fence->asked != NULL)
		mpath_say(mpath, path, "writes of controller %u wait for its reset through %s",
			  fence->cntlid, fence->asked->name);
	else
		mpath_say(mpath, path,
			  "writes of controller %u wait %llu ms (KATO + CQT), or for a path that "
			  "can reset it",
			  fence->cntlid,
			  (unsigned long long)(wait_ms ? wait_ms : FENCE_UNTIMED_MS));
}

void fence_free_all(struct mpath *mpath)
{
	while (!list_empty(&mpath->fences))
		fence_free(list_entry(mpath->fences.next, struct fence, node));
}
