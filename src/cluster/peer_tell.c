/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of shared namespaces: sends our list to each linked member, and passes received lists to
 * control (peer_compare.c). Reactor of the peers.
 *
 * A list goes over the link that we dialled, or over one that the peer dialled while ours is down,
 * so both sides know each other's files even if connections work in one direction only. A list is
 * sent in parts of a few namespaces, as many as the link has room for, the rest a moment later. A
 * newer list starts again at its first part. Control answers a complete list with PEER_SEEN after
 * comparing it.
 *
 * Links keep no order between each other. A list that arrives after a newer one of the same kernel,
 * over the other link, is dropped: generations start at the kernel's clock, so those of a process
 * are above those of former processes. Of equal generations the last to arrive counts, and is
 * forgotten with its link. So a list is sent again when a link other than tell_link brought one, or
 * when such a link closes.
 */
#include "cluster/peers_private.h"

#include <stdlib.h>
#include <string.h>

void peer_set_reach(struct peer *peer, enum peer_reach reach)
{
	atomic_store(&peer->reach, (int)reach);
	peers_notice(peer->peers);
}

/* ---- sending our list ------------------------------------------------------------------------ */

/* The link for our list; NULL: none is up in either direction. */
static struct peer_link *tell_link(struct peer *peer, uint64_t *ret_number)
{
	if (peer->link.state == PEER_LINK_UP) {
		*ret_number = peer->listener.link;
		return &peer->link;
	}
	*ret_number = peer->back_number;
	return peer->back_link && peer->back_link->state == PEER_LINK_UP ? peer->back_link : NULL;
}

static void part_send(struct peer *peer, struct peer_link *link, const struct peer_served *entries,
		      uint32_t total)
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
	peer_link_send(link, PEER_SERVED, body);
}

bool peer_tell(struct peer *peer)
{
	struct peers *peers = peer->peers;
	const struct peer_file_table *table =
		atomic_load_explicit(&peers->file_table, memory_order_acquire);
	const struct peer_served *entries = table ? table->told : NULL;
	uint64_t generation = table ? table->generation : 0;
	uint32_t total = table ? table->told_count : 0;
	uint64_t number;
	struct peer_link *link = tell_link(peer, &number);

	if (!link)
		return true;
	if (peer->tell_link != number) {
		peer->tell_link = number;
		peer->tell_generation = 0;
		peer->has_told = false;
		atomic_store(&peer->seen_generation, 0);
	}
	if (peers->is_target_over) {
		generation = PEER_LIST_OVER;
		total = 0;
	}
	/* A configuration that is about to be in force has no list yet; the next table has one. */
	if (generation == 0)
		return true;
	if (peer->tell_generation != generation) {
		peer->tell_generation = generation;
		peer->tell_next = 0;
		peer->has_told = false;
	}
	while (!peer->has_told && peer_link_is_free(link))
		part_send(peer, link, entries, total);
	return peer->has_told;
}

void peer_tell_now(struct peer *peer)
{
	if (!peer->peers->is_stopping && !peer_tell(peer))
		reactor_timer_arm(&peer->timer, reactor_now_ns(peer->peers->reactor));
}

void peer_tell_again(struct peer *peer)
{
	peer->tell_generation = 0;
	peer->has_told = false;
	peer_tell_now(peer);
}

void peer_seen(struct peer *peer, uint64_t number, struct peer_link *link,
	       const struct peer_frame *frame)
{
	uint64_t generation;

	if (peer_seen_decode(frame->body, &generation) < 0) {
		peer_link_close(link, "malformed answer to a list of namespaces");
		return;
	}
	/* The peer took this list, sent over a former link, after the one sent over tell_link, and
	 * counts it now: send again. */
	if (number != peer->tell_link) {
		peer_tell_again(peer);
		return;
	}
	atomic_store(&peer->seen_generation, generation);
	peers_notice(peer->peers);
}

/* ---- receiving a peer's list ----------------------------------------------------------------- */

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

/* Whether a newer list of the same kernel arrived over another link. */
static bool list_is_outdated(const struct peer *peer, const struct peer_told *list)
{
	return list->generation < peer->heard_generation &&
	       uuid_equal(&list->boot_id, &peer->heard_boot_id);
}

bool peer_hear(struct peer *peer, struct peer_listener *listener, struct peer_link *link,
	       const struct peer_frame *frame)
{
	struct peer_served_part part;
	struct peer_told *list;

	if (peer_served_decode(frame->body, &part) < 0) {
		peer_link_close(link, "malformed list of namespaces");
		return false;
	}
	if (part.first == 0) {
		free(listener->list);
		listener->list = list_begin(peer, listener, link, &part);
	}
	list = listener->list;
	if (!list || list->generation != part.generation || list->total != part.total ||
	    list->count != part.first) {
		peer_link_close(link, "a part of another list of namespaces, or out of memory");
		return false;
	}
	memcpy(&list->entries[list->count], part.entries, part.count * sizeof(part.entries[0]));
	list->count += part.count;
	if (list->count < list->total)
		return true;
	listener->list = NULL;
	if (list_is_outdated(peer, list)) {
		free(list);
		return true;
	}
	/* A list after PEER_LIST_OVER comes from another process. */
	if (list->generation != PEER_LIST_OVER)
		peer->heard_generation = list->generation;
	peer->heard_boot_id = list->boot_id;
	atomic_store(&peer->list_heard_ns, reactor_now_ns(peer->peers->reactor));
	atomic_store(&peer->list_link, list->link);
	reactor_post(peer->peers->control, &list->msg, peers_compare_told);
	return true;
}

void peer_linked(struct peer *peer)
{
	atomic_store(&peer->heard_ns, reactor_now_ns(peer->peers->reactor));
	atomic_fetch_add(&peer->links_up, 1);
}

void peer_unlinked(struct peer *peer)
{
	if (atomic_fetch_sub(&peer->links_up, 1) == 1)
		peer->heard_generation = 0;
	peers_notice(peer->peers);
}

void peer_listener_heard(struct peer *peer, const struct peer_listener *listener)
{
	uint64_t now_ns;

	if (!peer)
		return;
	now_ns = reactor_now_ns(peer->peers->reactor);
	atomic_store(&peer->heard_ns, now_ns);
	if (atomic_load(&peer->list_link) == listener->link)
		atomic_store(&peer->list_heard_ns, now_ns);
}

void peer_listener_end(struct peer *peer, struct peer_listener *listener)
{
	uint64_t link = listener->link;

	free(listener->list);
	listener->list = NULL;
	if (peer && atomic_compare_exchange_strong(&peer->list_link, &link, 0))
		peers_notice(peer->peers);
}

static void compared_ack(struct peer_compared *compared, const struct peer_listener *listener,
			 struct peer_link *link)
{
	bool is_here = atomic_load(&compared->link) == listener->link;
	uint64_t generation = atomic_load(&compared->generation);
	uint8_t body[PEER_SEEN_BYTES];

	/* Read twice: control may reuse the entry for another link in between. */
	if (!is_here || generation == 0 || atomic_load(&compared->link) != listener->link ||
	    (compared->acked_link == listener->link && compared->acked_generation == generation))
		return;
	compared->acked_link = listener->link;
	compared->acked_generation = generation;
	peer_seen_encode(generation, body);
	peer_link_send(link, PEER_SEEN, body);
}

void peer_ack(struct peer *peer, const struct peer_listener *listener, struct peer_link *link)
{
	for (unsigned i = 0; i < PEER_LINKS; i++)
		compared_ack(&peer->compared[i], listener, link);
}
