/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the lists of namespaces received from peers (peer_tell.c), for peer_compare.c and
 * peer_loss.c. A list belongs to the link that brought it. The list is current only while that link
 * is up and messages arrive over it; an older list shows what was. Control reactor.
 */
#include "cluster/peers_private.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define REACH_MAX_NS (5 * NS_PER_S) /* how long a new file waits for a silent peer */

uint64_t peers_silence_max_ns(const struct peers *peers)
{
	uint64_t ns = 4 * peers->config.answer_ms * NS_PER_MS;

	return ns > REACH_MAX_NS ? ns : REACH_MAX_NS;
}

const struct peer_told *peer_told_of(const struct peers *peers, unsigned peer)
{
	const struct peer_told *told = peers->told[peer];
	const struct peer *of = &peers->peers[peer];

	if (!told || told->link != atomic_load(&of->list_link) ||
	    reactor_now_ns(peers->control) >
		    atomic_load(&of->list_heard_ns) + peers_silence_max_ns(peers))
		return NULL;
	return told;
}

int peer_served_order(const void *a, const void *b)
{
	return memcmp(&((const struct peer_served *)a)->uuid,
		      &((const struct peer_served *)b)->uuid, sizeof(struct uuid));
}

const struct peer_served *peer_told_entry(const struct peer_told *told, const struct uuid *uuid)
{
	const struct peer_served key = {.uuid = *uuid};

	return bsearch(&key, told->entries, told->count, sizeof(key), peer_served_order);
}

bool peer_told_is_near(const struct peers *peers, const struct peer_told *told)
{
	return !uuid_is_nil(&told->boot_id) && uuid_equal(&told->boot_id, &peers->self.boot_id);
}
