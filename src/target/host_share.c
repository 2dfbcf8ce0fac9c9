/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, keeps and frees the shares of hosts. See host_share.h.
 *
 * Runs on the registry only. A search walks the whole list: there is a share per connected host,
 * and a share is looked for only when a connection or controller comes or goes.
 */
#include "target/host_share.h"

#include "base/text.h"
#include "target/local.h"

#include <stdlib.h>
#include <string.h>

#define SHARES_IDLE_MAX 1024 /* shares kept with all counts at 0 */

static bool share_is(const struct host_share *share, const struct net_addr *addr, const char *nqn)
{
	if (nqn)
		return strcmp(share->nqn, nqn) == 0;
	return share->nqn[0] == 0 && net_addr_same_host(&share->addr, addr);
}

static struct host_share *share_find(struct list *head, const struct net_addr *addr,
				     const char *nqn)
{
	list_for_each(node, head) {
		struct host_share *share = list_entry(node, struct host_share, node);

		if (share_is(share, addr, nqn))
			return share;
	}
	return NULL;
}

static struct host_share *share_get(struct target *target, const struct net_addr *addr,
				    const char *nqn)
{
	struct host_share *share = share_find(&target->shares, addr, nqn);

	if (share)
		return share;
	share = share_find(&target->idle_shares, addr, nqn);
	if (share) {
		list_remove(&share->node);
		target->idle_share_count--;
	} else {
		share = calloc(1, sizeof(*share));
		if (!share)
			return NULL;
		if (nqn)
			text_copy(share->nqn, sizeof(share->nqn), nqn);
		else
			share->addr = *addr;
	}
	list_push_back(&target->shares, &share->node);
	return share;
}

struct host_share *host_share_of_addr(struct target *target, const struct net_addr *addr)
{
	return share_get(target, addr, NULL);
}

struct host_share *host_share_of_nqn(struct target *target, const char *nqn)
{
	return share_get(target, NULL, nqn);
}

void host_share_settle(struct target *target, struct host_share *share)
{
	struct host_share *oldest;

	if (share->connections > 0 || share->io_ctrls > 0 || share->discovery_ctrls > 0)
		return;
	list_remove(&share->node);
	/* Log lines are limited per address only, so the share of an NQN holds nothing to keep. */
	if (share->nqn[0] != 0) {
		free(share);
		return;
	}
	list_push_back(&target->idle_shares, &share->node);
	if (++target->idle_share_count <= SHARES_IDLE_MAX)
		return;
	oldest = list_entry(list_pop_front(&target->idle_shares), struct host_share, node);
	target->idle_share_count--;
	free(oldest);
}

void host_shares_destroy(struct target *target)
{
	while (!list_empty(&target->idle_shares))
		free(list_entry(list_pop_front(&target->idle_shares), struct host_share, node));
	while (!list_empty(&target->shares))
		free(list_entry(list_pop_front(&target->shares), struct host_share, node));
}
