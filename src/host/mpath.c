/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an mpath: opened with all its paths at once, paths added and removed, closed. Runs on
 * the reactor given to mpath_open, like the whole engine.
 *
 * mpath_settle calls done of ended commands at the end of the turn, so that no caller's function
 * runs inside a function of the engine. It also completes a close, when the last path is gone.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MPATH_CONNECT_MS 10000
/* The time-outs of the paths must expire first, so that `ready` can report the cause. */
#define MPATH_READY_SLACK_MS 50

static unsigned path_index(const struct mpath *mpath, const struct path *path)
{
	unsigned i = 0;

	while (i < mpath->path_count && mpath->paths[i] != path)
		i++;
	return i;
}

void mpath_say(struct mpath *mpath, const struct path *path, const char *format, ...)
{
	unsigned index = path_index(mpath, path);
	char text[384];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (mpath->callbacks.path_changed != NULL && index < mpath->path_count &&
	    !mpath->is_closing)
		mpath->callbacks.path_changed(mpath, mpath->arg, index, text);
	else
		log_limited(LOG_LEVEL_INFO, "host", "%s: path %s: %s", mpath->config.subsystem_nqn,
			    path->name, text);
}

static void mpath_free(struct mpath *mpath)
{
	reactor_defer_cancel(&mpath->settle);
	reactor_timer_cancel(&mpath->ready_timer);
	reactor_timer_cancel(&mpath->starve_timer);
	reactor_timer_cancel(&mpath->delay_timer);
	fence_free_all(mpath);
	for (unsigned i = 0; i < mpath->path_count; i++)
		path_free(mpath->paths[i]);
	ns_free_all(mpath);
	hedge_close(mpath);
	join_put(mpath->join);
	free(mpath);
}

static void mpath_settle(struct reactor_defer *defer)
{
	struct mpath *mpath = container_of(defer, struct mpath, settle);
	struct list ended;
	struct list *node;

	list_init(&ended);
	list_splice_back(&ended, &mpath->ended);
	while ((node = list_pop_front(&ended)) != NULL) {
		struct mpath_io *io = list_entry(node, struct mpath_io, node);

		io->done(io);
	}
	/* A done callback that submitted again may have deferred another round. */
	if (mpath->is_closing && mpath->path_count == 0 && mpath->asks == 0 &&
	    list_empty(&mpath->ended)) {
		void (*gone)(void *arg) = mpath->gone;
		void *gone_arg = mpath->gone_arg;

		mpath_free(mpath);
		if (gone != NULL)
			gone(gone_arg);
	}
}

/* ---- ready ---------------------------------------------------------------------------------- */

static void on_ready_timer(struct reactor_timer *timer)
{
	struct mpath *mpath = container_of(timer, struct mpath, ready_timer);
	struct host_error error = mpath->error;

	if (mpath->is_ready_told)
		return;
	mpath->is_ready_told = true;
	if (error.text[0] == '\0')
		snprintf(error.text, sizeof(error.text),
			 "no path to %s answered within %u ms: check the addresses and the network",
			 mpath->config.subsystem_nqn, mpath->config.timeouts.connect_ms);
	mpath->callbacks.ready(mpath, mpath->arg, mpath->error_res ? mpath->error_res : -ETIMEDOUT,
			       &error);
}

void mpath_on_path_live(struct path *path)
{
	struct mpath *mpath = path->mpath;

	if (!mpath->has_identity) {
		mpath->identity = path->identity;
		mpath->has_identity = true;
	}
	ns_recompute_all(mpath);
	fence_on_path_live(mpath);
	if (mpath->is_ready_told)
		return;
	mpath->is_ready_told = true;
	reactor_timer_cancel(&mpath->ready_timer);
	mpath->callbacks.ready(mpath, mpath->arg, 0, NULL);
}

void mpath_on_path_failed(struct path *path, int res, const struct host_error *error)
{
	path->mpath->error_res = res;
	path->mpath->error = *error;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static struct path *path_find(const struct mpath *mpath, const struct host_addr *addr)
{
	for (unsigned i = 0; i < mpath->path_count; i++) {
		if (!mpath->paths[i]->is_removed && host_addr_same(&mpath->paths[i]->addr, addr))
			return mpath->paths[i];
	}
	return NULL;
}

static unsigned slot_free_find(const struct mpath *mpath)
{
	uint64_t taken = 0;
	unsigned slot = 0;

	for (unsigned i = 0; i < mpath->path_count; i++)
		taken |= 1ull << mpath->paths[i]->slot;
	while ((taken >> slot & 1) != 0)
		slot++;
	return slot;
}

int mpath_add_path(struct mpath *mpath, const struct host_addr *addr)
{
	struct path *path;
	int res;

	CHECK_OWNER(mpath);
	CHECK(!mpath->is_closing);
	if (path_find(mpath, addr) != NULL)
		return -EEXIST;
	if (mpath->path_count == MPATH_PATHS_MAX)
		return -ENOSPC;
	res = path_create(mpath, addr, slot_free_find(mpath), &path);
	if (res != 0)
		return res;
	mpath->paths[mpath->path_count++] = path;
	path_connect(path);
	return 0;
}

int mpath_remove_path(struct mpath *mpath, const struct host_addr *addr)
{
	struct path *path;

	CHECK_OWNER(mpath);
	path = path_find(mpath, addr);
	if (path == NULL)
		return -ENOENT;
	path_leave(path);
	return 0;
}

int mpath_set_path_numa(struct mpath *mpath, const struct host_addr *addr, int node,
			uint32_t distance)
{
	struct path *path = path_find(mpath, addr);

	if (path == NULL)
		return -ENOENT;
	path->numa_node = node;
	path->numa_distance = distance;
	return 0;
}

void mpath_on_path_gone(struct path *path)
{
	struct mpath *mpath = path->mpath;
	unsigned index = path_index(mpath, path);

	CHECK(index < mpath->path_count);
	ns_forget_path(path);
	fence_on_path_gone(path);
	mpath->path_count--;
	for (unsigned i = index; i < mpath->path_count; i++)
		mpath->paths[i] = mpath->paths[i + 1];
	path_free(path);
	if (!mpath->is_closing)
		ns_recompute_all(mpath);
	reactor_defer(mpath->reactor, &mpath->settle);
}

/* ---- open and close ------------------------------------------------------------------------- */

static void config_set_defaults(struct mpath_config *config)
{
	if (config->io_queues == 0)
		config->io_queues = 1;
	if (config->io_queues > MPATH_IO_QUEUES_MAX)
		config->io_queues = MPATH_IO_QUEUES_MAX;
	if (config->timeouts.connect_ms == 0)
		config->timeouts.connect_ms = MPATH_CONNECT_MS;
	if (config->timeouts.reconnect_min_ms == 0)
		config->timeouts.reconnect_min_ms = 1;
	if (config->timeouts.reconnect_max_ms < config->timeouts.reconnect_min_ms)
		config->timeouts.reconnect_max_ms = config->timeouts.reconnect_min_ms;
	if (config->timeouts.jitter_percent > 100)
		config->timeouts.jitter_percent = 100;
}

static bool addrs_are_different(const struct host_addr *addrs, unsigned addr_count)
{
	for (unsigned i = 0; i < addr_count; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (host_addr_same(&addrs[i], &addrs[k]))
				return false;
		}
	}
	return true;
}

int mpath_open(struct reactor *reactor, const struct mpath_config *config,
	       const struct host_addr *addrs, unsigned addr_count,
	       const struct mpath_callbacks *callbacks, void *arg, struct mpath **ret_mpath)
{
	struct mpath *mpath;
	int res;

	CHECK(callbacks->ready != NULL);
	if (addr_count == 0 || addr_count > MPATH_PATHS_MAX ||
	    !addrs_are_different(addrs, addr_count))
		return -EINVAL;
	mpath = calloc(1, sizeof(*mpath));
	if (mpath == NULL)
		return -ENOMEM;
	mpath->reactor = reactor;
	mpath->join = config->join != NULL ? join_get(config->join) : join_create();
	if (mpath->join == NULL) {
		free(mpath);
		return -ENOMEM;
	}
	mpath->config = *config;
	config_set_defaults(&mpath->config);
	mpath->callbacks = *callbacks;
	mpath->arg = arg;
	prng_seed(&mpath->prng, config->seed);
	list_init(&mpath->fences);
	list_init(&mpath->ended);
	reactor_defer_init(&mpath->settle, mpath_settle);
	reactor_timer_init(reactor, &mpath->ready_timer, on_ready_timer);
	io_init(mpath);
	res = ns_init(mpath);
	if (res == 0)
		res = hedge_open(mpath);
	for (unsigned i = 0; res == 0 && i < addr_count; i++)
		res = mpath_add_path(mpath, &addrs[i]);
	if (res != 0) {
		mpath_free(mpath);
		return res;
	}
	reactor_timer_arm(&mpath->ready_timer,
			  reactor_now_ns(reactor) +
				  (mpath->config.timeouts.connect_ms + MPATH_READY_SLACK_MS) *
					  NS_PER_MS);
	*ret_mpath = mpath;
	return 0;
}

void mpath_close(struct mpath *mpath, void (*gone)(void *arg), void *arg)
{
	CHECK_OWNER(mpath);
	CHECK(!mpath->is_closing && list_empty(&mpath->starved) && list_empty(&mpath->delayed) &&
	      list_empty(&mpath->ended));
	mpath->is_closing = true;
	mpath->gone = gone;
	mpath->gone_arg = arg;
	reactor_timer_cancel(&mpath->ready_timer);
	for (unsigned i = 0; i < mpath->path_count; i++)
		path_leave(mpath->paths[i]);
	reactor_defer(mpath->reactor, &mpath->settle);
}

/* ---- reports -------------------------------------------------------------------------------- */

unsigned mpath_path_count(const struct mpath *mpath)
{
	return mpath->path_count;
}

void mpath_path_info(const struct mpath *mpath, unsigned index, struct path_info *ret_info)
{
	const struct path *path;
	struct host_queue_stats stats = {0};

	CHECK(index < mpath->path_count);
	path = mpath->paths[index];
	*ret_info = (struct path_info){
		.addr = path->addr,
		.state = path->state == PATH_LIVE && !path->is_usable ? PATH_WAITING : path->state,
		.is_stable = path->is_stable,
		.is_given_up = path->is_given_up,
		.quiesce_ms = path->identity.quiesce_ms ? path->identity.quiesce_ms
							: mpath->config.timeouts.quiesce_ms,
		.numa_node = path->numa_node,
		.in_flight = path->in_flight_count,
		.latency_ns = path->latency.mean_ns,
		.commands = path->commands,
		.answered_ns = path->answered_ns,
		.losses = path->losses,
		.fences_by_reset = path->fences_by_reset,
		.fences_by_time = path->fences_by_time,
	};
	text_copy(ret_info->last_error, sizeof(ret_info->last_error), path->last_error);
	text_copy(ret_info->refusal, sizeof(ret_info->refusal), path->refusal);
	if (path->state != PATH_LIVE)
		return;
	ret_info->cntlid = host_ctrl_cntlid(path->ctrl);
	ret_info->has_reset = path->identity.reset_limit > 0;
	ret_info->queue_count = path->queue_count;
	ret_info->queue_depth = host_ctrl_io_depth(path->ctrl);
	if (path->queue_count > 0)
		host_ctrl_queue_stats(path->ctrl, 0, &stats);
	ret_info->rtt_ns = stats.rtt_ns;
}

void mpath_path_queue_info(const struct mpath *mpath, unsigned index, unsigned queue,
			   struct path_queue_info *ret_info)
{
	struct host_queue_stats stats;
	const struct path *path;

	CHECK(index < mpath->path_count);
	path = mpath->paths[index];
	CHECK(path->state == PATH_LIVE && queue < path->queue_count);
	host_ctrl_queue_stats(path->ctrl, queue, &stats);
	*ret_info = (struct path_queue_info){
		.in_flight = path->queue_in_flight[queue],
		.latency_ns = path->queue_count > 1 ? path->queue_latency[queue].mean_ns
						    : path->latency.mean_ns,
		.commands = stats.commands,
	};
}

enum ana_state mpath_path_ana(const struct mpath *mpath, unsigned index, uint32_t nsid)
{
	struct mpath_ns *ns = mpath_ns_find((struct mpath *)(uintptr_t)mpath, nsid);

	CHECK(index < mpath->path_count);
	return ns != NULL ? ns_path_state(ns, mpath->paths[index]) : ANA_INACCESSIBLE;
}

enum path_policy mpath_policy(const struct mpath *mpath)
{
	return mpath->config.policy;
}

const struct ctrl_identity *mpath_identity(const struct mpath *mpath)
{
	return mpath->has_identity ? &mpath->identity : NULL;
}
