/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of shared namespaces between members: each member sends its own to those that it is
 * connected to, and hands what it is sent to control (peer_compare.c). Reactor of the peers.
 *
 * A list goes in parts of a few namespaces, as many as the link has room for, the rest a moment
 * later. A newer list begins again from its first part. Control answers a complete list once it was
 * compared (PEER_SEEN).
 */
#include "cluster/peers_private.h"

#include <stdlib.h>
#include <string.h>

#define NOTHING_GENERATION UINT64_MAX /* of the list of a member that serves no more */

void peer_set_reach(struct peer *peer, enum peer_reach reach)
{
	atomic_store(&peer->reach, (int)reach);
	peers_notice(peer->peers);
}

/* ---- ours ------------------------------------------------------------------------------------ */

static void part_send(struct peer *peer, const struct peer_served *entries, uint32_t total)
{
	struct peer_served_part part = {
		.generation = peer->tell_generation, .first = peer->tell_next, .total = total};
	uint8_t body[PEER_SERVED_BYTES];
	uint32_t left = total - part.first;

	part.count = left < PEER_SERVED_ENTRIES ? left : PEER_SERVED_ENTRIES;
	for (unsigned i = 0; i < part.count; i++)
		part.entries[i] = entries[part.first + i];
	peer_served_encode(&part, body);
	peer->tell_next += part.count;
	peer->has_told = peer->tell_next == total;
	peer_link_send(&peer->link, PEER_SERVED, body);
}

bool peer_tell(struct peer *peer)
{
	struct peers *peers = peer->peers;
	const struct peer_shares *shares =
		atomic_load_explicit(&peers->shares, memory_order_acquire);
	const struct peer_served *entries = shares ? shares->told : NULL;
	uint64_t generation = shares ? shares->generation : 0;
	uint32_t total = shares ? shares->told_count : 0;

	if (peers->is_target_over) {
		generation = NOTHING_GENERATION;
		total = 0;
	}
	/* Of a configuration that is about to be in force nothing is told: what follows is. */
	if (generation == 0)
		return true;
	if (peer->tell_generation != generation) {
		peer->tell_generation = generation;
		peer->tell_next = 0;
		peer->has_told = false;
	}
	while (!peer->has_told && peer_link_is_free(&peer->link))
		part_send(peer, entries, total);
	return peer->has_told;
}

/* ---- theirs ---------------------------------------------------------------------------------- */

static struct peer_told *list_begin(struct peer *peer, const struct peer_listener *listener,
				    const struct peer_link *link,
				    const struct peer_served_part *part)
{
	struct peer_told *list =
		calloc(1, sizeof(*list) + (size_t)part->total * sizeof(list->entries[0]));

	if (!list)
		return NULL;
	list->peers = peer->peers;
	list->peer = peer;
	list->link = listener->link;
	list->boot_id = link->peer_boot_id;
	list->generation = part->generation;
	list->total = part->total;
	return list;
}

bool peer_hear(struct peer *peer, struct peer_listener *listener, struct peer_link *link,
	       const struct peer_frame *frame)
{
	struct peer_served_part part;
	struct peer_told *list;

	if (peer_served_decode(frame->body, &part) < 0) {
		peer_link_close(link, "a list of namespaces that is none");
		return false;
	}
	if (part.first == 0) {
		free(listener->list);
		listener->list = list_begin(peer, listener, link, &part);
	}
	list = listener->list;
	if (!list || list->generation != part.generation || list->total != part.total ||
	    list->count != part.first) {
		peer_link_close(link, "a part of another list, or no memory for it");
		return false;
	}
	memcpy(&list->entries[list->count], part.entries, part.count * sizeof(part.entries[0]));
	list->count += part.count;
	if (list->count < list->total)
		return true;
	listener->list = NULL;
	atomic_store(&peer->list_heard_ns, reactor_now_ns(peer->peers->reactor));
	atomic_store(&peer->list_link, list->link);
	reactor_post(peer->peers->control, &list->msg, peers_compare_told);
	return true;
}

void peer_listener_heard(struct peer *peer, const struct peer_listener *listener)
{
	if (peer && atomic_load(&peer->list_link) == listener->link)
		atomic_store(&peer->list_heard_ns, reactor_now_ns(peer->peers->reactor));
}

void peer_listener_end(struct peer *peer, struct peer_listener *listener)
{
	uint64_t link = listener->link;

	free(listener->list);
	listener->list = NULL;
	if (peer && atomic_compare_exchange_strong(&peer->list_link, &link, 0))
		peers_notice(peer->peers);
}

void peer_ack(struct peer *peer, const struct peer_listener *listener, struct peer_link *link)
{
	uint64_t generation = atomic_load(&peer->compared_generation);
	uint8_t body[PEER_SEEN_BYTES];

	if (atomic_load(&peer->compared_link) != listener->link || generation == 0 ||
	    (peer->acked_link == listener->link && peer->acked_generation == generation))
		return;
	peer->acked_link = listener->link;
	peer->acked_generation = generation;
	peer_seen_encode(generation, body);
	peer_link_send(link, PEER_SEEN, body);
}
