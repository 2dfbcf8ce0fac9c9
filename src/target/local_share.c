/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts' shares of a reactor's buffers. See local_share.h. Owned by one reactor. Nothing here
 * is on the path of a command: shares change only when hosts connect, disconnect or become slow.
 */
#include "target/local_share.h"

#include "base/text.h"
#include "target/local.h"

#include <stdlib.h>
#include <string.h>

/* The shares of a subsystem are adjacent in the list: a new share is inserted beside them. */
static struct list *place_of_subsystem(struct local *local, const char *subsystem_nqn)
{
	list_for_each(node, &local->shares) {
		if (strcmp(list_entry(node, struct local_share, node)->subsystem_nqn,
			   subsystem_nqn) == 0)
			return node;
	}
	return &local->shares;
}

static unsigned subsystem_count(const struct local *local)
{
	const char *last = "";
	unsigned count = 0;

	list_for_each(node, &local->shares) {
		const struct local_share *share = list_entry(node, struct local_share, node);

		count += strcmp(share->subsystem_nqn, last) != 0;
		last = share->subsystem_nqn;
	}
	return count;
}

static unsigned host_count(const struct local *local, struct list *first)
{
	const char *nqn = list_entry(first, struct local_share, node)->subsystem_nqn;
	unsigned count = 0;

	for (struct list *node = first; node != &local->shares; node = node->next) {
		if (strcmp(list_entry(node, struct local_share, node)->subsystem_nqn, nqn) != 0)
			break;
		count++;
	}
	return count;
}

/* Recomputes the minimum of every share. Called when a share is added or removed. */
static void shares_split(struct local *local)
{
	unsigned subsystems = subsystem_count(local) + 1; /* one more for the strangers */
	const char *last = "";
	unsigned hosts = 0;

	buf_pool_keep(local->buffers, &local->strangers, subsystems);
	list_for_each(node, &local->shares) {
		struct local_share *share = list_entry(node, struct local_share, node);

		if (strcmp(share->subsystem_nqn, last) != 0)
			hosts = host_count(local, node);
		last = share->subsystem_nqn;
		buf_pool_keep(local->buffers, &share->buffers, subsystems * hosts);
	}
	buf_pool_serve(local->buffers);
}

static struct local_share *share_find(const struct local *local, const char *subsystem_nqn,
				      const char *host_nqn)
{
	list_for_each(node, &local->shares) {
		struct local_share *share = list_entry(node, struct local_share, node);

		if (strcmp(share->host_nqn, host_nqn) == 0 &&
		    strcmp(share->subsystem_nqn, subsystem_nqn) == 0)
			return share;
	}
	return NULL;
}

static void share_limit(struct local_share *share)
{
	bool is_of_strangers = strcmp(share->host_nqn, SHARE_OF_STRANGERS) == 0;

	share->buffers.may_not_borrow = share->slow_queues > 0 || is_of_strangers;
}

struct local_share *local_share_get(struct local *local, const char *subsystem_nqn,
				    const char *host_nqn)
{
	struct local_share *share = share_find(local, subsystem_nqn, host_nqn);

	if (!share) {
		share = calloc(1, sizeof(*share));
		if (!share)
			return NULL;
		text_copy(share->subsystem_nqn, sizeof(share->subsystem_nqn), subsystem_nqn);
		text_copy(share->host_nqn, sizeof(share->host_nqn), host_nqn);
		buf_pool_join(local->buffers, &share->buffers);
		turn_host_init(&share->turn);
		share_limit(share);
		list_push_back(place_of_subsystem(local, subsystem_nqn), &share->node);
		shares_split(local);
	}
	share->queue_count++;
	return share;
}

void local_share_put(struct local *local, struct local_share *share)
{
	if (!share || --share->queue_count > 0)
		return;
	list_remove(&share->node);
	turn_host_end(&local->turn, &share->turn);
	buf_pool_leave(local->buffers, &share->buffers);
	free(share);
	shares_split(local);
}

void local_share_note_slow(struct local_share *share, bool is_slow)
{
	share->slow_queues += is_slow ? 1u : -1u;
	share_limit(share);
}
