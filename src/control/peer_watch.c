/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that we have shared, whether we still serve them or not. Control reactor.
 *
 * A peer whose document still has a namespace that ours no longer has, or whose last commands of
 * it are under way, may write to a file that no namespace of ours leads to. Such a file is kept
 * open, through a description without any lock, until no other member holds it: what the locks on
 * it say counts as long as they can say anything.
 */
#include "control/peers_private.h"

#include "base/log.h"
#include "media/member_lock.h"

#include <stdlib.h>
#include <string.h>

struct peer_watch {
	struct list node;
	struct uuid uuid; /* of the namespace */
	int fd;
	bool is_served;
};

static void watch_free(struct peer_watch *watch)
{
	list_remove(&watch->node);
	member_lock_unwatch(watch->fd);
	free(watch);
}

void peers_watch_free(struct peers *peers)
{
	list_for_each_safe(node, &peers->watches)
		watch_free(list_entry(node, struct peer_watch, node));
}

/* Those that were found in this look are at the end of the list: namespaces mostly come in the same
 * order again, and there may be very many. */
static struct peer_watch *watch_find(struct peers *peers, const struct uuid *uuid)
{
	list_for_each(node, &peers->watches) {
		struct peer_watch *watch = list_entry(node, struct peer_watch, node);

		if (watch->is_served)
			break;
		if (uuid_equal(&watch->uuid, uuid))
			return watch;
	}
	return NULL;
}

/* Without it the namespace is watched only while it is served, as one that is told. */
static void watch_add(struct peers *peers, const struct ns *ns)
{
	struct peer_watch *watch = calloc(1, sizeof(*watch));
	int fd = watch ? media_member_watch(ns->media) : -1;

	if (fd < 0) {
		log_warn("control",
			 "%s: cannot be watched once it is removed: remove it from all members "
			 "while they are healthy",
			 ns->media->spec);
		free(watch);
		return;
	}
	watch->uuid = ns->uuid;
	watch->fd = fd;
	watch->is_served = true;
	list_push_back(&peers->watches, &watch->node);
}

static void ns_look(struct peers *peers, const struct ns *ns)
{
	struct peer_watch *watch;

	if (!ns->is_clustered)
		return;
	watch = watch_find(peers, &ns->uuid);
	if (!watch) {
		watch_add(peers, ns);
		return;
	}
	watch->is_served = true;
	list_remove(&watch->node);
	list_push_back(&peers->watches, &watch->node);
}

/* No other member can write to it. One that takes it up again has it in a document that ours does
 * not agree with, as if we had never shared it. */
static bool watch_is_over(const struct peers *peers, const struct peer_watch *watch)
{
	unsigned index = peers->config.index;
	bool is_held = true;

	if (member_lock_is_held(watch->fd, 0, index, &is_held) < 0 || is_held)
		return false;
	return member_lock_is_held(watch->fd, index + 1, MEMBER_LOCK_MAX - index - 1, &is_held) ==
		       0 &&
	       !is_held;
}

void peers_look(struct peers *peers)
{
	const struct snapshot *snapshot = peers->target ? target_snapshot(peers->target) : NULL;

	if (!snapshot)
		return;
	list_for_each(node, &peers->watches)
		list_entry(node, struct peer_watch, node)->is_served = false;
	for (unsigned s = 0; s < snapshot->subsystem_count; s++) {
		const struct subsystem *subsystem = snapshot->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++)
			ns_look(peers, &subsystem->namespaces[i]);
	}
	list_for_each_safe(node, &peers->watches) {
		struct peer_watch *watch = list_entry(node, struct peer_watch, node);

		if (!watch->is_served && watch_is_over(peers, watch))
			watch_free(watch);
	}
}

bool peer_can_write_elsewhere(const struct peer *peer)
{
	list_for_each(node, &peer->peers->watches) {
		const struct peer_watch *watch = list_entry(node, struct peer_watch, node);
		bool is_held = true;

		if (!watch->is_served &&
		    (member_lock_is_held(watch->fd, peer->config->index, 1, &is_held) < 0 ||
		     is_held))
			return true;
	}
	return false;
}
