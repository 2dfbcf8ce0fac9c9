/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster as a whole: the listener, requests from other members, and which peer is asked for a
 * controller. Reactor of the peers, except that any thread may call has_cntlid of peers_ops. Calls
 * from control are posted to that reactor, and answers are posted back; functions named control_*
 * run on control.
 *
 * Any process that reaches the address can connect without proof. Such connections are few, each
 * has little memory and two seconds, and the oldest makes room for the next.
 */
#include "cluster/peers_private.h"

#include "base/boot_id.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define INCOMING_MAX    256
#define UNPROVEN_MAX    32
#define SERVED_PER_LINK 64

/* A connection made to us by another member, or by an unknown process. */
struct incoming {
	struct list node; /* oldest first */
	struct peers *peers;
	struct peer_link link;
	struct peer_listener listener; /* receives the peer's list of namespaces */
	unsigned served_count;
	bool is_closed; /* freed when its last request is done */
};

/* A reset requested by another member, in flight at the target. */
struct served {
	struct ctrl_reset reset;
	struct incoming *incoming;
	uint64_t id;
};

static struct peer *peer_find(struct peers *peers, const char *name)
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		if (strcmp(peers->config.peers[i].name, name) == 0)
			return &peers->peers[i];
	}
	return NULL;
}

/* ---- requests from other members --------------------------------------------------------------
 */

static void incoming_free(struct incoming *incoming)
{
	struct peers *peers = incoming->peers;

	list_remove(&incoming->node);
	peers->incoming_count--;
	free(incoming);
	peers_maybe_gone(peers);
}

static void control_target_over(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, leave_msg);

	peers->target_over(peers->target_over_arg);
}

static void target_maybe_over(struct peers *peers)
{
	if (!peers->is_target_over || peers->has_told_over || peers->served_count > 0)
		return;
	peers->has_told_over = true;
	reactor_post(peers->control, &peers->leave_msg, control_target_over);
}

static void served_done(struct ctrl_reset *reset, enum ctrl_reset_result result)
{
	struct served *served = container_of(reset, struct served, reset);
	struct incoming *incoming = served->incoming;
	struct peers *peers = incoming->peers;
	uint8_t body[PEER_DONE_BYTES];

	incoming->served_count--;
	peers->served_count--;
	if (!incoming->is_closed) {
		peer_done_encode(served->id, result, body);
		peer_link_send(&incoming->link, PEER_RESET_DONE, body);
	} else if (incoming->served_count == 0) {
		incoming_free(incoming);
	}
	free(served);
	target_maybe_over(peers);
}

static void peer_reset_answer(struct incoming *incoming, uint64_t id, enum ctrl_reset_result result)
{
	uint8_t body[PEER_DONE_BYTES];

	peer_done_encode(id, result, body);
	peer_link_send(&incoming->link, PEER_RESET_DONE, body);
}

static void on_reset(struct incoming *incoming, const struct peer_frame *frame)
{
	struct peers *peers = incoming->peers;
	struct peer *peer = peer_find(peers, incoming->link.peer_name);
	struct peer_reset asked;
	struct served *served;

	if (peer_reset_decode(frame->body, &asked) < 0 ||
	    incoming->served_count >= SERVED_PER_LINK) {
		peer_link_close(&incoming->link,
				"malformed reset request, or too many requests at once");
		return;
	}
	if (peer)
		peer->info.resets_served++;
	if (asked.cntlid < peers->config.cntlid_first || asked.cntlid > peers->config.cntlid_last) {
		peer_reset_answer(incoming, asked.id, CTRL_RESET_FORBIDDEN);
		return;
	}
	served = peers->served ? calloc(1, sizeof(*served)) : NULL;
	if (!served) {
		peer_reset_answer(incoming, asked.id,
				  peers->is_target_over ? CTRL_RESET_DONE : CTRL_RESET_FAILED);
		return;
	}
	served->incoming = incoming;
	served->id = asked.id;
	served->reset = (struct ctrl_reset){
		.host_id = asked.host_id,
		.cntlid = asked.cntlid,
		.uniquifier = asked.uniquifier,
		.random_number = asked.random_number,
		.is_exclusive = asked.is_exclusive,
		.reactor = peers->reactor,
		.done = served_done,
	};
	text_copy(served->reset.subsystem_nqn, NVME_NQN_BYTES, asked.subsystem_nqn);
	text_copy(served->reset.host_nqn, NVME_NQN_BYTES, asked.host_nqn);
	incoming->served_count++;
	peers->served_count++;
	log_info("control", "peer %s asks for a reset of controller %u", incoming->link.peer_name,
		 asked.cntlid);
	target_ctrl_reset(peers->served, &served->reset);
}

static void on_lost_host(struct incoming *incoming, const struct peer_frame *frame)
{
	struct peers *peers = incoming->peers;
	const struct peer *peer = peer_find(peers, incoming->link.peer_name);
	struct lost_host lost;

	if (peer_lost_decode(frame->body, &lost) < 0 || !peer ||
	    lost.cntlid < peer->config->cntlid_first || lost.cntlid > peer->config->cntlid_last) {
		peer_link_close(
			&incoming->link,
			"malformed report of a lost host, or the controller is of another member");
		return;
	}
	if (peers->served)
		target_tell_lost(peers->served, &lost);
}

static void incoming_on_up(struct peer_link *link)
{
	struct incoming *incoming = container_of(link, struct incoming, link);
	struct peer *peer = peer_find(incoming->peers, link->peer_name);

	log_info("control", "peer %s has connected (process %u)", link->peer_name, link->peer_pid);
	if (!peer)
		return;
	peer->back_link = link;
	peer->back_number = incoming->listener.link;
	peer_linked(peer);
	peer_dial_now(peer);
	peer_tell_now(peer);
}

static void on_ping(struct incoming *incoming)
{
	uint8_t body[PEER_PONG_BYTES];
	struct peer_pulse pulse;

	peer_probes_ask(incoming->peers, &pulse);
	peer_pong_encode(&pulse, body);
	peer_link_send(&incoming->link, PEER_PONG, body);
}

static void incoming_on_message(struct peer_link *link, const struct peer_frame *frame)
{
	struct incoming *incoming = container_of(link, struct incoming, link);
	struct peer *peer = peer_find(incoming->peers, link->peer_name);

	peer_listener_heard(peer, &incoming->listener);
	switch (frame->type) {
	case PEER_PING:
		on_ping(incoming);
		return;
	case PEER_RESET:
		on_reset(incoming, frame);
		return;
	case PEER_LOST_HOST:
		on_lost_host(incoming, frame);
		return;
	case PEER_SERVED:
		if (peer)
			peer_hear(peer, &incoming->listener, link, frame);
		return;
	case PEER_SEEN:
		if (peer)
			peer_seen(peer, incoming->listener.link, link, frame);
		return;
	default:
		peer_link_close(link, "unexpected message");
		return;
	}
}

/* `ended` is closed. Another link dialled by the peer may still be up. */
static void back_link_end(struct peer *peer, const struct incoming *ended)
{
	struct peers *peers = peer->peers;

	peer_unlinked(peer);
	/* The ended link may have brought our list last; the peer forgets that list with the
	 * link. */
	if (peer->tell_link != ended->listener.link)
		peer_tell_again(peer);
	if (peer->back_link != &ended->link)
		return;
	peer->back_link = NULL;
	list_for_each(node, &peers->incoming) {
		struct incoming *incoming = list_entry(node, struct incoming, node);

		if (incoming->link.state != PEER_LINK_UP ||
		    peer_find(peers, incoming->link.peer_name) != peer)
			continue;
		peer->back_link = &incoming->link;
		peer->back_number = incoming->listener.link;
	}
}

static void incoming_on_closed(struct peer_link *link)
{
	struct incoming *incoming = container_of(link, struct incoming, link);
	struct peer *peer = peer_find(incoming->peers, link->peer_name);

	if (!link->was_up)
		log_limited(LOG_LEVEL_WARN, "control",
			    "a connection to the cluster's address%s%s "
			    "was refused: %s",
			    link->peer_name[0] ? " by " : "", link->peer_name, link->error);
	else
		log_info("control", "peer %s has disconnected: %s", link->peer_name, link->error);
	incoming->is_closed = true;
	if (peer && link->was_up)
		back_link_end(peer, incoming);
	peer_listener_end(peer, &incoming->listener);
	if (incoming->served_count == 0)
		incoming_free(incoming);
}

static const struct peer_link_handler incoming_handler = {
	.up = incoming_on_up,
	.message = incoming_on_message,
	.closed = incoming_on_closed,
};

static bool incoming_is_unproven(const struct incoming *incoming)
{
	return !incoming->is_closed && !incoming->link.was_up &&
	       incoming->link.state != PEER_LINK_CLOSING;
}

/* Closes the oldest unproven connection when there are too many. */
static void incoming_evict(struct peers *peers)
{
	struct incoming *oldest = NULL;
	unsigned count = 0;

	list_for_each(node, &peers->incoming) {
		struct incoming *incoming = list_entry(node, struct incoming, node);

		if (!incoming_is_unproven(incoming))
			continue;
		oldest = oldest ? oldest : incoming;
		count++;
	}
	if (count >= UNPROVEN_MAX)
		peer_link_close(&oldest->link, "too many unauthenticated connections");
}

static void on_accepted(struct reactor_listener *listener, int taken_fd,
			const struct net_addr *peer)
{
	struct peers *peers = container_of(listener, struct peers, listener);
	struct incoming *incoming = NULL;

	incoming_evict(peers);
	/* Closing connections count too, so that memory stays bounded. */
	if (!peers->is_stopping && peers->incoming_count < INCOMING_MAX)
		incoming = calloc(1, sizeof(*incoming));
	if (!incoming) {
		reactor_refuse_fd(taken_fd);
		return;
	}
	incoming->peers = peers;
	incoming->listener.link = ++peers->link_count;
	list_push_back(&peers->incoming, &incoming->node);
	peers->incoming_count++;
	peer_link_accept(&incoming->link, peers->reactor, &peers->self, taken_fd,
			 &incoming_handler);
}

static void kick_here(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, kick_msg);

	atomic_store(&peers->is_kick_out, false);
	list_for_each_safe(node, &peers->incoming) {
		struct incoming *incoming = list_entry(node, struct incoming, node);
		struct peer *peer = peer_find(peers, incoming->link.peer_name);

		if (peer && incoming->link.state == PEER_LINK_UP)
			peer_ack(peer, &incoming->listener, &incoming->link);
	}
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		struct peer *peer = &peers->peers[i];

		if (peer->link.state == PEER_LINK_UP)
			peer_ack(peer, &peer->listener, &peer->link);
		peer_tell_now(peer);
	}
}

void peers_kick(struct peers *peers)
{
	if (!atomic_exchange(&peers->is_kick_out, true))
		reactor_post(peers->reactor, &peers->kick_msg, kick_here);
}

/* ---- requests from the target -----------------------------------------------------------------
 */

static struct peer *peer_of_cntlid(struct peers *peers, uint16_t cntlid)
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		const struct peer_config *config = &peers->config.peers[i];

		if (cntlid >= config->cntlid_first && cntlid <= config->cntlid_last)
			return &peers->peers[i];
	}
	return NULL;
}

static bool ops_has_cntlid(void *arg, uint16_t cntlid)
{
	return peer_of_cntlid(arg, cntlid) != NULL;
}

static void ops_reset(void *arg, struct ctrl_reset *reset)
{
	struct peers *peers = arg;
	struct peer *peer = peer_of_cntlid(peers, reset->cntlid);

	if (!peer || peers->asks_no_more)
		peer_reset_end(reset, CTRL_RESET_FAILED);
	else
		peer_ask_reset(peer, reset);
}

/* A peer that is not linked, or whose queue is full, is skipped: hosts detect the loss
 * themselves. */
static void ops_tell_lost(void *arg, const struct lost_host *lost)
{
	struct peers *peers = arg;
	uint8_t body[PEER_LOST_BYTES];

	peer_lost_encode(lost, body);
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		if (peer_link_is_free(&peers->peers[i].link))
			peer_link_send(&peers->peers[i].link, PEER_LOST_HOST, body);
	}
}

void peers_note_loss(struct peers *peers)
{
	peers_notice(peers);
}

static void ops_note_loss(void *arg)
{
	peers_note_loss(arg);
}

struct target_peers peers_ops(struct peers *peers)
{
	return (struct target_peers){.reactor = peers->reactor,
				     .has_cntlid = ops_has_cntlid,
				     .reset = ops_reset,
				     .tell_lost = ops_tell_lost,
				     .note_loss = ops_note_loss,
				     .arg = peers};
}

/* ---- requests from the operator ---------------------------------------------------------------
 */

unsigned peers_read(const struct peers *peers, struct peer_info infos[PEERS_MAX])
{
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		const struct peer *peer = &peers->peers[i];

		infos[i] = peer->info;
		infos[i].is_up = peer->link.state == PEER_LINK_UP && !peer->is_silent;
		infos[i].pid = infos[i].is_up ? peer->pid : 0;
		infos[i].can_fence = peer->config->may_kill && peer->pidfd >= 0;
		infos[i].cntlid_first = peer->config->cntlid_first;
		infos[i].cntlid_last = peer->config->cntlid_last;
	}
	return peers->config.peer_count;
}

struct peer_listing {
	struct reactor_msg msg;
	struct peers *peers;
	void (*done)(void *arg, const struct peer_info *infos, unsigned count);
	void *arg;
	unsigned count;
	struct peer_info infos[PEERS_MAX];
};

static void control_listed(struct reactor_msg *msg)
{
	struct peer_listing *listing = container_of(msg, struct peer_listing, msg);

	listing->done(listing->arg, listing->infos, listing->count);
	free(listing);
}

static void listing_fill(struct reactor_msg *msg)
{
	struct peer_listing *listing = container_of(msg, struct peer_listing, msg);

	listing->count = peers_read(listing->peers, listing->infos);
	reactor_post(listing->peers->control, &listing->msg, control_listed);
}

void peers_list(struct peers *peers,
		void (*done)(void *arg, const struct peer_info *infos, unsigned count), void *arg)
{
	struct peer_listing *listing = calloc(1, sizeof(*listing));

	if (!listing) {
		done(arg, NULL, 0);
		return;
	}
	listing->peers = peers;
	listing->done = done;
	listing->arg = arg;
	reactor_post(peers->reactor, &listing->msg, listing_fill);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static int peers_listen(struct peers *peers, char *error, size_t error_bytes)
{
	const struct peer_addr *listen = &peers->config.listen;
	char text[NET_ADDR_TEXT_BYTES];
	struct net_addr addr;
	int folder;
	int res = peer_addr_to_net(listen, &addr, &folder);

	if (listen->path[0] != 0)
		(void)unix_socket_clear(listen->path); /* in use: open fails below */
	if (res == 0)
		res = reactor_listener_open(peers->reactor, &peers->listener, &addr, on_accepted);
	if (folder >= 0)
		close(folder);
	if (res < 0) {
		snprintf(error, error_bytes, "cluster.listen: %s: %s",
			 listen->path[0] ? listen->path : net_addr_format(&addr, text),
			 strerror(-res));
		return res;
	}
	if (listen->path[0] != 0)
		unix_name_note(listen->path, &peers->name);
	if (listen->path[0] != 0 && chmod(listen->path, 0600) < 0)
		log_warn("control", "%s: cannot set mode 0600: %s", listen->path, strerror(errno));
	peers->is_listening = true;
	return 0;
}

int peers_create(const struct peers_reactors *reactors, const struct peers_config *config,
		 const struct keeper *keeper, struct peers **ret_peers)
{
	struct peers *peers = calloc(1, sizeof(*peers));

	if (!peers)
		return -ENOMEM;
	peers->reactor = reactors->peers;
	peers->control = reactors->control;
	peers->registry = reactors->data[0];
	peers->config = *config;
	peers->keeper = *keeper;
	list_init(&peers->incoming);
	list_init(&peers->files);
	list_init(&peers->tables);
	peers->self.config = &peers->config;
	peers->self.pid = (uint32_t)getpid();
	boot_id_read(&peers->self.boot_id);
	peers_compare_init(peers);
	for (unsigned i = 0; i < config->peer_count; i++)
		peer_init(&peers->peers[i], peers, &peers->config.peers[i]);
	if (peer_probes_init(peers, reactors->data, reactors->data_count) < 0) {
		peers_discard(peers);
		return -ENOMEM;
	}
	*ret_peers = peers;
	return 0;
}

static void control_started(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, start_msg);

	if (peers->start_res == 0)
		peers_compare_start(peers);
	else
		peers->hooks.started(peers->hooks.arg, peers->start_res, peers->start_error);
}

static void start_here(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, start_msg);

	peers->served = peers->target;
	peers->start_res = peers_listen(peers, peers->start_error, sizeof(peers->start_error));
	for (unsigned i = 0; peers->start_res == 0 && i < peers->config.peer_count; i++)
		peer_begin(&peers->peers[i]);
	reactor_post(peers->control, &peers->start_msg, control_started);
}

void peers_start(struct peers *peers, struct target *target, const struct peers_hooks *hooks)
{
	int res = peer_auth_hash_members(&peers->config, peers->self.members);

	if (res < 0) {
		hooks->started(hooks->arg, res, "cluster: SHA-256 is not available");
		return;
	}
	peers->target = target;
	peers->hooks = *hooks;
	peers_look(peers);
	reactor_post(peers->reactor, &peers->start_msg, start_here);
}

static void control_gone(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, end_msg);
	void (*gone)(void *arg) = peers->gone;
	void *arg = peers->gone_arg;

	peers_discard(peers);
	gone(arg);
}

void peers_maybe_gone(struct peers *peers)
{
	/* A link with requests in flight at the target stays in incoming_count until they are
	 * done. */
	if (!peers->is_stopping || peers->is_listening || peers->incoming_count > 0 ||
	    peers->has_posted_gone || peers->probes.timer.armed || peer_probes_are_out(peers))
		return;
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		if (!peer_is_stopped(&peers->peers[i]))
			return;
	}
	peers->has_posted_gone = true;
	reactor_post(peers->control, &peers->end_msg, control_gone);
}

void peers_discard(struct peers *peers)
{
	if (!peers)
		return;
	peers_compare_free(peers);
	peers_files_free(peers);
	peer_probes_free(peers);
	explicit_bzero(&peers->config, sizeof(peers->config));
	free(peers);
}

static void on_listener_closed(struct reactor_listener *listener)
{
	struct peers *peers = container_of(listener, struct peers, listener);

	peers->is_listening = false;
	peers_maybe_gone(peers);
}

static void deaf_here(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, deaf_msg);

	peers->asks_no_more = true;
	for (unsigned i = 0; i < peers->config.peer_count; i++)
		peer_fail_all(&peers->peers[i]);
}

void peers_stop_asking(struct peers *peers)
{
	reactor_post(peers->reactor, &peers->deaf_msg, deaf_here);
}

static void leave_here(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, leave_msg);

	peers->is_target_over = true;
	peers->served = NULL;
	/* Before our locks are free, so that no peer mistakes our files for other ones. */
	for (unsigned i = 0; i < peers->config.peer_count; i++)
		(void)peer_tell(&peers->peers[i]);
	target_maybe_over(peers);
}

/* On the registry: its posts to the peers about lost hosts arrive before this message. */
static void leave_registry(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, leave_msg);

	reactor_post(peers->reactor, &peers->leave_msg, leave_here);
}

void peers_leave_target(struct peers *peers, void (*over)(void *arg), void *arg)
{
	peers_compare_losses(peers);
	peers_compare_stop(peers);
	peers->target = NULL;
	peers->target_over = over;
	peers->target_over_arg = arg;
	reactor_post(peers->registry, &peers->leave_msg, leave_registry);
}

static void end_here(struct reactor_msg *msg)
{
	struct peers *peers = container_of(msg, struct peers, end_msg);

	peers->asks_no_more = true;
	peers->is_stopping = true;
	if (peers->is_listening) {
		unix_name_remove(&peers->name);
		reactor_listener_close(&peers->listener, on_listener_closed);
	}
	list_for_each_safe(node, &peers->incoming)
		peer_link_close(&list_entry(node, struct incoming, node)->link,
				"this member is stopping");
	for (unsigned i = 0; i < peers->config.peer_count; i++) {
		peer_fail_all(&peers->peers[i]);
		peer_stop(&peers->peers[i]);
	}
	peers_maybe_gone(peers);
}

void peers_destroy(struct peers *peers, void (*gone)(void *arg), void *arg)
{
	peers_compare_stop(peers);
	peers->target = NULL;
	peers->gone = gone;
	peers->gone_arg = arg;
	reactor_post(peers->reactor, &peers->end_msg, end_here);
}
