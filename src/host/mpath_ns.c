/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of an mpath: found by the scans of its paths and kept in order of their NSIDs,
 * each with the state of every path and the paths that may carry its commands now. Runs on the
 * mpath's reactor. NVMe Base 2.1, sections 2.4 (multipath) and 8.1.1 (ANA).
 *
 * The join decides for all reactors what an NSID means: the same NSID with another UUID, NGUID or
 * EUI64 than elsewhere is another namespace. A path with such a namespace is not used for it and is
 * asked for no reset. A namespace is gone when no path has it and no path may have it. A path that
 * is down counts with its last state until it is back.
 */
#include "host/mpath_internal.h"

#include "base/log.h"
#include "base/sorted.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_ROOM_MIN  16
#define CLASS_NONE   4
#define CLASS_DAMPED 2

/* ---- the table ------------------------------------------------------------------------------- */

/* Index of the first namespace whose NSID is not below nsid. */
static unsigned ns_index(const struct mpath *mpath, uint32_t nsid)
{
	return SORTED_PLACE(i, mpath->ns_count, mpath->ns[i]->nsid < nsid);
}

struct mpath_ns *mpath_ns_find(struct mpath *mpath, uint32_t nsid)
{
	unsigned index = ns_index(mpath, nsid);

	if (index == mpath->ns_count || mpath->ns[index]->nsid != nsid)
		return NULL;
	return mpath->ns[index];
}

struct mpath_ns *mpath_ns_next(struct mpath *mpath, uint32_t nsid)
{
	unsigned index = nsid == UINT32_MAX ? mpath->ns_count : ns_index(mpath, nsid + 1);

	return index < mpath->ns_count ? mpath->ns[index] : NULL;
}

void mpath_ns_info(const struct mpath_ns *ns, struct ns_info *ret_info)
{
	*ret_info = (struct ns_info){
		.nsid = ns->nsid,
		.identity = ns->identity,
		.is_gone = ns->is_gone || ns_is_stale(ns),
		.joined = ns->joined,
	};
}

static void ns_setup(struct mpath *mpath, struct mpath_ns *ns, uint32_t nsid)
{
	ns->mpath = mpath;
	ns->nsid = nsid;
	ns->no_path_since_ns = reactor_now_ns(mpath->reactor);
	list_init(&ns->waiting);
	list_init(&ns->waiting_node);
	list_init(&ns->retired_node);
	path_policy_init(&ns->policy, mpath->config.policy, prng_next(&mpath->prng));
}

int ns_init(struct mpath *mpath)
{
	list_init(&mpath->retired);
	ns_setup(mpath, &mpath->admin, 0);
	return 0;
}

void ns_free_all(struct mpath *mpath)
{
	struct list *node;

	for (unsigned i = 0; i < mpath->ns_count; i++)
		free(mpath->ns[i]);
	while ((node = list_pop_front(&mpath->retired)) != NULL)
		free(list_entry(node, struct mpath_ns, retired_node));
	free(mpath->ns);
}

static int ns_create(struct mpath *mpath, struct join_ns *joined,
		     const struct ns_identity *identity, struct mpath_ns **ret_ns)
{
	uint32_t nsid = joined->nsid;
	unsigned index = ns_index(mpath, nsid);
	struct mpath_ns *ns;

	if (mpath->ns_count == mpath->ns_room) {
		unsigned room = mpath->ns_room > 0 ? mpath->ns_room * 2 : NS_ROOM_MIN;
		struct mpath_ns **table = realloc(mpath->ns, room * sizeof(struct mpath_ns *));

		if (table == NULL)
			return -ENOMEM;
		mpath->ns = table;
		mpath->ns_room = room;
	}
	ns = calloc(1, sizeof(*ns));
	if (ns == NULL)
		return -ENOMEM;
	ns_setup(mpath, ns, nsid);
	ns->joined = joined;
	ns->identity = *identity;
	for (unsigned i = mpath->ns_count; i > index; i--)
		mpath->ns[i] = mpath->ns[i - 1];
	mpath->ns[index] = ns;
	mpath->ns_count++;
	*ret_ns = ns;
	return 0;
}

static void ns_tell(struct mpath_ns *ns)
{
	struct mpath *mpath = ns->mpath;

	if (!mpath->is_ready_told || mpath->is_closing)
		return;
	if (mpath->callbacks.ns_changed != NULL)
		mpath->callbacks.ns_changed(mpath, mpath->arg, ns->nsid);
	else
		log_limited(LOG_LEVEL_INFO, "host", "%s: namespace %u %s",
			    mpath->config.subsystem_nqn, ns->nsid,
			    ns->is_gone ? "is gone" : "is new or has changed");
}

/* ---- the paths that may carry commands --------------------------------------------------------
 */

enum ana_state ns_path_state(const struct mpath_ns *ns, const struct path *path)
{
	const struct ns_on_path *on = &ns->on[path->slot];

	if (!path->is_usable || !on->is_there || on->is_other || on->is_avoided)
		return ANA_INACCESSIBLE;
	return path_ana_state(path, on->ana_group);
}

/* Lower is better: optimized, non-optimized, then the same on damped paths. */
static unsigned path_class(const struct mpath_ns *ns, const struct path *path)
{
	unsigned damped = path->is_stable ? 0 : CLASS_DAMPED;
	enum ana_state state;

	if (ns->nsid == 0)
		return path->is_usable ? damped : CLASS_NONE;
	/* The path's target interprets the LBAs as other bytes until the path has seen the new
	 * format. */
	if (ns->on[path->slot].block_bytes != ns->identity.block_bytes)
		return CLASS_NONE;
	state = ns_path_state(ns, path);
	if (state == ANA_OPTIMIZED)
		return damped;
	return state == ANA_NON_OPTIMIZED ? damped + 1 : CLASS_NONE;
}

static void ns_end_waiting(struct mpath_ns *ns)
{
	struct list *node;

	while ((node = list_pop_front(&ns->waiting)) != NULL)
		io_end(list_entry(node, struct mpath_io, node), MPATH_GONE, NVME_SC_INVALID_NS);
	list_remove(&ns->waiting_node);
}

static bool ns_is_anywhere(const struct mpath_ns *ns)
{
	for (unsigned i = 0; i < ns->mpath->path_count; i++) {
		const struct path *path = ns->mpath->paths[i];

		if (ns->on[path->slot].is_there && !ns->on[path->slot].is_other)
			return true;
	}
	return false;
}

static bool ns_may_be_anywhere(const struct mpath_ns *ns)
{
	for (unsigned i = 0; i < ns->mpath->path_count; i++) {
		if (ns->on[ns->mpath->paths[i]->slot].is_unsure)
			return true;
	}
	return false;
}

static bool has_usable_path(const struct mpath *mpath)
{
	for (unsigned i = 0; i < mpath->path_count; i++) {
		if (mpath->paths[i]->is_usable)
			return true;
	}
	return false;
}

static void ns_set_gone(struct mpath_ns *ns)
{
	ns->is_gone = true;
	join_ns_gone(ns->mpath->join, ns->joined);
	ns_end_waiting(ns);
}

void ns_recompute(struct mpath_ns *ns)
{
	struct mpath *mpath = ns->mpath;
	unsigned best = CLASS_NONE;

	ns->candidate_count = 0;
	for (unsigned i = 0; i < mpath->path_count; i++) {
		unsigned class = path_class(ns, mpath->paths[i]);

		if (class < best) {
			best = class;
			ns->candidate_count = 0;
		}
		if (class == best && class < CLASS_NONE)
			ns->candidates[ns->candidate_count++] = mpath->paths[i];
	}
	if (ns->candidate_count > 0) {
		ns->no_path_since_ns = 0;
		io_wake(ns);
		return;
	}
	if (ns->no_path_since_ns == 0)
		ns->no_path_since_ns = reactor_now_ns(mpath->reactor);
	if (ns->nsid != 0 && !ns->is_gone && has_usable_path(mpath) && !ns_is_anywhere(ns) &&
	    !ns_may_be_anywhere(ns)) {
		ns_set_gone(ns);
		ns_tell(ns);
	}
	if (list_linked(&ns->waiting_node))
		io_starve_arm(mpath);
}

void ns_recompute_all(struct mpath *mpath)
{
	ns_recompute(&mpath->admin);
	/* A callback may add namespaces to the table, but never removes one. */
	for (unsigned i = 0; i < mpath->ns_count; i++)
		ns_recompute(mpath->ns[i]);
}

/* ---- the results of scans ---------------------------------------------------------------------
 */

static bool identity_changed(const struct ns_identity *a, const struct ns_identity *b)
{
	return a->block_count != b->block_count || a->block_bytes != b->block_bytes ||
	       a->is_write_protected != b->is_write_protected ||
	       a->capacity_bytes != b->capacity_bytes || a->ana_group_id != b->ana_group_id;
}

/* The path does not have the namespace any more. */
static void ns_unsee(const struct mpath_ns *ns, const struct path *path)
{
	if (!ns->on[path->slot].is_other)
		join_ns_unsee(path->mpath->join, &path->joined, ns->joined);
}

static void other_recount(struct path *path)
{
	path->other_count = path->scan.refused_unknown;
	for (unsigned i = 0; i < path->mpath->ns_count; i++)
		path->other_count += path->mpath->ns[i]->on[path->slot].is_other;
	if (path->other_count == 0)
		path->refusal[0] = '\0';
}

/* Schedules scans of all namespaces on all paths but `but`. Includes connecting paths, which may
 * have looked at the namespaces already. */
static void rescan_others(const struct mpath *mpath, const struct path *but)
{
	for (unsigned i = 0; i < mpath->path_count; i++) {
		struct path *path = mpath->paths[i];

		if (path != but && (path->is_usable || path->state == PATH_CONNECTING))
			path_scan_later(path);
	}
}

/* Another namespace gets the NSID. Handles of the old namespace stay valid. The new namespace is
 * complete before any caller can find it. */
static int ns_retire(struct mpath_ns *ns, struct join_ns *joined,
		     const struct ns_identity *identity, struct mpath_ns **ret_new)
{
	struct mpath *mpath = ns->mpath;
	struct mpath_ns *fresh = calloc(1, sizeof(*fresh));

	if (fresh == NULL)
		return -ENOMEM;
	ns_setup(mpath, fresh, ns->nsid);
	fresh->joined = joined;
	fresh->identity = *identity;
	mpath->ns[ns_index(mpath, ns->nsid)] = fresh;
	list_push_back(&mpath->retired, &ns->retired_node);
	memset(ns->on, 0, sizeof(ns->on));
	ns->candidate_count = 0;
	ns_set_gone(ns);
	*ret_new = fresh;
	return 0;
}

void ns_on_stale(struct mpath_ns *ns)
{
	if (!ns_is_stale(ns) || ns->has_rescanned || list_linked(&ns->retired_node))
		return;
	ns->has_rescanned = true;
	rescan_others(ns->mpath, NULL);
}

static void ns_refuse(struct path *path, struct mpath_ns *ns, uint32_t number, const char *why)
{
	bool was_other = false;

	text_copy(path->refusal, sizeof(path->refusal), why);
	if (ns != NULL) {
		struct ns_on_path *on = &ns->on[path->slot];

		was_other = on->is_other;
		*on = (struct ns_on_path){
			.is_there = true, .is_other = true, .scan_number = number};
		ns_recompute(ns);
	} else {
		path->scan.refused_unknown++;
	}
	if (was_other)
		return;
	path->other_count++;
	mpath_say(path->mpath, path, "%s", why);
	/* Perhaps this path only was the first to learn of a change. */
	rescan_others(path->mpath, path);
}

int ns_seen(struct path *path, uint32_t nsid, const struct ns_identity *identity, uint32_t number)
{
	struct mpath *mpath = path->mpath;
	struct mpath_ns *ns = mpath_ns_find(mpath, nsid);
	bool is_new = ns == NULL || ns->is_gone || identity_changed(&ns->identity, identity);
	struct join_sight sight = {.nsid = nsid,
				   .identity = identity,
				   .is_event = ns != NULL && ns->on[path->slot].is_doubted};
	struct join_ns *joined;
	char why[JOIN_WHY_BYTES];
	int res = join_ns_see(mpath->join, &path->joined, &sight, &joined, why);

	if (res == -EUCLEAN) {
		ns_refuse(path, ns, number, why);
	} else if (res == 0 && ns == NULL) {
		res = ns_create(mpath, joined, identity, &ns);
	} else if (res == 0 && ns->joined != joined) {
		res = ns_retire(ns, joined, identity, &ns);
		is_new = true;
		/* Other paths may have been refused because they had the new namespace already. */
		rescan_others(mpath, path);
	}
	if (res != 0)
		return res;
	ns->is_gone = false;
	ns->identity = *identity;
	ns->on[path->slot] = (struct ns_on_path){.is_there = true,
						 .ana_group = identity->ana_group_id,
						 .loss_source = identity->loss_source,
						 .scan_number = number,
						 .block_bytes = identity->block_bytes};
	ns_recompute(ns);
	if (is_new)
		ns_tell(ns);
	return 0;
}

void ns_set_group(struct path *path, uint32_t nsid, uint32_t group)
{
	struct mpath_ns *ns = mpath_ns_find(path->mpath, nsid);
	struct ns_on_path *on = ns != NULL ? &ns->on[path->slot] : NULL;

	/* A namespace that is unsure will be asked about, and then reports its group itself. */
	if (on == NULL || !on->is_there || on->is_other || on->ana_group == group)
		return;
	on->ana_group = group;
	ns->identity.ana_group_id = group;
	if (path->state == PATH_LIVE)
		mpath_say(path->mpath, path, "namespace %u is in ANA group %u now", nsid, group);
}

/* Until the path has asked about the namespace again, the path is not used for it, and the
 * namespace does not count as gone. In the join the path still vouches for it. */
static void ns_on_path_doubt(struct ns_on_path *on)
{
	if (!on->is_there || on->is_other)
		return;
	on->is_there = false;
	on->is_unsure = true;
	on->is_doubted = true;
}

void ns_doubt(struct path *path, uint32_t nsid)
{
	struct mpath_ns *ns = mpath_ns_find(path->mpath, nsid);

	if (ns == NULL)
		return;
	ns_on_path_doubt(&ns->on[path->slot]);
	ns_recompute(ns);
}

void ns_doubt_all(struct path *path)
{
	for (unsigned i = 0; i < path->mpath->ns_count; i++)
		ns_doubt(path, path->mpath->ns[i]->nsid);
}

void ns_still_there(struct path *path, uint32_t nsid, uint32_t number)
{
	struct mpath_ns *ns = mpath_ns_find(path->mpath, nsid);

	if (ns != NULL)
		ns->on[path->slot].scan_number = number;
}

void ns_unsure(struct path *path, uint32_t nsid, uint32_t number)
{
	struct mpath_ns *ns = mpath_ns_find(path->mpath, nsid);

	if (ns == NULL)
		return;
	ns_unsee(ns, path);
	ns->on[path->slot] = (struct ns_on_path){.is_unsure = true,
						 .is_doubted = ns->on[path->slot].is_doubted,
						 .scan_number = number};
	ns_recompute(ns);
}

void ns_sweep(struct path *path, uint32_t number)
{
	struct mpath *mpath = path->mpath;

	for (unsigned i = 0; i < mpath->ns_count; i++) {
		struct ns_on_path *on = &mpath->ns[i]->on[path->slot];

		if ((!on->is_there && !on->is_unsure) || on->scan_number == number)
			continue;
		ns_unsee(mpath->ns[i], path);
		*on = (struct ns_on_path){0};
		ns_recompute(mpath->ns[i]);
	}
	other_recount(path);
}

void ns_missing(struct mpath_ns *ns, struct path *path)
{
	ns_on_path_doubt(&ns->on[path->slot]);
	ns_recompute(ns);
	/* Perhaps the namespace was formatted, or the path is only a moment behind, or the status
	 * was wrong. */
	path_scan_later(path);
}

void ns_forget_path(struct path *path)
{
	for (unsigned i = 0; i < path->mpath->ns_count; i++)
		path->mpath->ns[i]->on[path->slot] = (struct ns_on_path){0};
}

void ns_stop_avoiding(struct path *path)
{
	for (unsigned i = 0; i < path->mpath->ns_count; i++) {
		struct mpath_ns *ns = path->mpath->ns[i];

		if (!ns->on[path->slot].is_avoided)
			continue;
		ns->on[path->slot].is_avoided = false;
		ns_recompute(ns);
	}
}
