/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to one peer: the link (dialled again after each failure, with heartbeats), resets of the
 * peer's controllers, and fencing when the peer does not answer. Reactor of the peers.
 *
 * A reset ends in one of three ways: the peer answers; the peer is found dead, or is killed and
 * then found dead; or the reset fails, because neither can be established. A peer is killed only
 * when its data path stands still: it answers and reports a stuck reactor, or it is silent and the
 * kernel shows that none of its threads runs. Killing a peer with slow media would not make them
 * faster. A peer that is only busy, or gets no CPU, will answer.
 */
#include "cluster/peers_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEP_BUSY_NS     (2 * NS_PER_MS)
#define BACKOFF_MIN_MS   20
#define BACKOFF_MAX_MS   1000
#define RESET_GIVE_UP_NS (30 * NS_PER_S) /* since the request, whatever the peer does */
#define FENCE_GIVE_UP_NS (10 * NS_PER_S) /* the peer's locks stay held */

static uint64_t peer_now_ns(const struct peer *peer)
{
	return reactor_now_ns(peer->peers->reactor);
}

static uint64_t answer_ns(const struct peer *peer)
{
	return peer->peers->config.answer_ms * NS_PER_MS;
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

void peer_error(struct peer *peer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(peer->info.last_error, sizeof(peer->info.last_error), format, args);
	va_end(args);
}

/* ---- the end of a reset -----------------------------------------------------------------------
 */

static void reset_deliver(struct reactor_msg *msg)
{
	struct ctrl_reset *reset = container_of(msg, struct ctrl_reset, msg);

	reset->done(reset, reset->result);
}

void peer_reset_end(struct ctrl_reset *reset, enum ctrl_reset_result result)
{
	reset->result = result;
	reactor_post(reset->reactor, &reset->msg, reset_deliver);
}

/* How long the peer has been silent. */
static uint64_t silent_ns(const struct peer *peer)
{
	uint64_t since_ns =
		peer->link.state == PEER_LINK_UP ? peer->link.heard_ns : peer->down_since_ns;

	return peer_now_ns(peer) - later(peer->owed_since_ns, since_ns);
}

static bool has_resets(const struct peer *peer)
{
	if (!list_empty(&peer->waiting))
		return true;
	for (unsigned i = 0; i < PEER_ASKED_MAX; i++) {
		if (peer->asked[i].reset)
			return true;
	}
	return false;
}

/* Puts requests that were sent but not answered back in front of those not sent yet. */
static void asked_take_back(struct peer *peer)
{
	for (unsigned i = 0; i < PEER_ASKED_MAX; i++) {
		struct ctrl_reset *reset = peer->asked[i].reset;

		if (!reset)
			continue;
		/* The peer may be working on this reset: a repeated request shares its end. */
		reset->is_exclusive = false;
		list_push_front(&peer->waiting, &reset->node);
		peer->asked[i].reset = NULL;
	}
}

/* Ends the resets of subsystems for which the evidence is `evidence`. */
static void resets_end(struct peer *peer, enum peer_evidence evidence,
		       enum ctrl_reset_result result)
{
	asked_take_back(peer);
	list_for_each_safe(node, &peer->waiting) {
		struct ctrl_reset *reset = list_entry(node, struct ctrl_reset, node);

		if (peer_evidence(peer, reset->subsystem_nqn) != evidence)
			continue;
		list_remove(&reset->node);
		peer_reset_end(reset, result);
	}
}

static void resets_end_all(struct peer *peer, enum ctrl_reset_result result)
{
	struct list *node;

	asked_take_back(peer);
	while ((node = list_pop_front(&peer->waiting)))
		peer_reset_end(list_entry(node, struct ctrl_reset, node), result);
}

/* ---- the link ---------------------------------------------------------------------------------
 */

static void pidfd_set(struct peer *peer, int taken_pidfd)
{
	if (peer->pidfd >= 0)
		close(peer->pidfd);
	peer->pidfd = taken_pidfd;
}

static void link_on_up(struct peer_link *link)
{
	struct peer *peer = container_of(link, struct peer, link);

	pidfd_set(peer, link->pidfd);
	link->pidfd = -1;
	peer->pid = link->peer_pid;
	peer->backoff_ms = BACKOFF_MIN_MS;
	peer->info.is_fenced = false;
	peer->is_silent = false;
	peer->pulse = (struct peer_pulse){0};
	/* A process answers for a member only while it holds the member's locks, so the former
	 * process is dead. Resets asked of the former process are sent to the new one, which has
	 * not seen them. */
	peer_fence_end(peer);
	peer->owed_since_ns = peer_now_ns(peer);
	peer_error(peer, "%s", "");
	log_info("control", "peer %s: the link is up (process %u)", peer->config->name, peer->pid);
	peer->listener.link = ++peer->peers->link_count;
	peer_linked(peer);
	peer_set_reach(peer, PEER_REACH_UP);
	reactor_timer_arm(&peer->timer, peer_now_ns(peer));
}

static void on_done(struct peer *peer, const struct peer_frame *frame)
{
	uint64_t id;
	uint32_t result;

	if (peer_done_decode(frame->body, &id, &result) < 0) {
		peer_link_close(&peer->link, "malformed answer to a reset");
		return;
	}
	/* No match: the reset was given up meanwhile. */
	for (unsigned i = 0; i < PEER_ASKED_MAX; i++) {
		struct ctrl_reset *reset = peer->asked[i].reset;

		if (!reset || peer->asked[i].id != id)
			continue;
		peer->asked[i].reset = NULL;
		peer_reset_end(reset, (enum ctrl_reset_result)result);
	}
}

static void link_on_message(struct peer_link *link, const struct peer_frame *frame)
{
	struct peer *peer = container_of(link, struct peer, link);

	if (peer->is_silent)
		log_info("control", "peer %s answers again", peer->config->name);
	peer->is_silent = false;
	peer_listener_heard(peer, &peer->listener);
	if (frame->type == PEER_RESET_DONE)
		on_done(peer, frame);
	else if (frame->type == PEER_SERVED)
		peer_hear(peer, &peer->listener, link, frame);
	else if (frame->type == PEER_SEEN)
		peer_seen(peer, peer->listener.link, link, frame);
	else if (frame->type != PEER_PONG)
		peer_link_close(link, "unexpected message");
	else if (peer_pong_decode(frame->body, &peer->pulse) < 0)
		peer_link_close(link, "malformed answer to a heartbeat");
}

static void link_on_closed(struct peer_link *link)
{
	struct peer *peer = container_of(link, struct peer, link);

	if (link->pidfd >= 0)
		close(link->pidfd);
	link->pidfd = -1;
	peer->down_since_ns = link->was_up ? peer_now_ns(peer) : peer->down_since_ns;
	peer->pulse = (struct peer_pulse){0};
	if (link->was_up) {
		peer_unlinked(peer);
		peer_listener_end(peer, &peer->listener);
	}
	peer_set_reach(peer, PEER_REACH_DOWN);
	asked_take_back(peer);
	if (link->was_up)
		log_warn("control", "peer %s: the link is down: %s", peer->config->name,
			 link->error);
	else if (strcmp(peer->info.last_error, link->error) != 0)
		log_info("control", "peer %s: no link: %s", peer->config->name, link->error);
	peer_error(peer, "%s", link->error);
	if (peer->peers->is_stopping) {
		peers_maybe_gone(peer->peers);
		return;
	}
	peer->dial_ns = peer_now_ns(peer) + peer->backoff_ms * NS_PER_MS;
	peer->backoff_ms =
		peer->backoff_ms * 2 < BACKOFF_MAX_MS ? peer->backoff_ms * 2 : BACKOFF_MAX_MS;
	reactor_timer_arm(&peer->timer, has_resets(peer) ? peer_now_ns(peer) : peer->dial_ns);
}

static const struct peer_link_handler link_handler = {
	.up = link_on_up,
	.message = link_on_message,
	.closed = link_on_closed,
};

/* ---- asking -----------------------------------------------------------------------------------
 */

static struct peer_asked *asked_free(struct peer *peer)
{
	for (unsigned i = 0; i < PEER_ASKED_MAX; i++) {
		if (!peer->asked[i].reset)
			return &peer->asked[i];
	}
	return NULL;
}

static void reset_send(struct peer *peer, struct peer_asked *asked)
{
	const struct ctrl_reset *reset = asked->reset;
	struct peer_reset message = {
		.id = asked->id,
		.host_id = reset->host_id,
		.cntlid = reset->cntlid,
		.uniquifier = reset->uniquifier,
		.random_number = reset->random_number,
		.is_exclusive = reset->is_exclusive,
	};
	uint8_t body[PEER_RESET_BYTES];

	memcpy(message.subsystem_nqn, reset->subsystem_nqn, sizeof(message.subsystem_nqn));
	memcpy(message.host_nqn, reset->host_nqn, sizeof(message.host_nqn));
	peer_reset_encode(&message, body);
	peer_link_send(&peer->link, PEER_RESET, body);
}

static void waiting_send(struct peer *peer)
{
	struct peer_asked *asked;

	while (peer->link.state == PEER_LINK_UP && !list_empty(&peer->waiting) &&
	       (asked = asked_free(peer))) {
		asked->reset = list_entry(list_pop_front(&peer->waiting), struct ctrl_reset, node);
		asked->id = ++peer->next_id;
		reset_send(peer, asked);
	}
}

static bool reset_is_late(const struct peer *peer, const struct ctrl_reset *reset)
{
	return peer_now_ns(peer) - reset->asked_ns >= RESET_GIVE_UP_NS;
}

static void reset_give_up(const struct peer *peer, struct ctrl_reset *reset)
{
	log_warn("control", "peer %s: controller %u could not be reset in time", peer->config->name,
		 reset->cntlid);
	peer_reset_end(reset, CTRL_RESET_FAILED);
}

/* Bounds every reset, sent or not: the peer may make no progress, or this thread may get too little
 * CPU to judge the peer. */
static void late_give_up(struct peer *peer)
{
	for (unsigned i = 0; i < PEER_ASKED_MAX; i++) {
		struct ctrl_reset *reset = peer->asked[i].reset;

		if (!reset || !reset_is_late(peer, reset))
			continue;
		peer->asked[i].reset = NULL;
		reset_give_up(peer, reset);
	}
	list_for_each_safe(node, &peer->waiting) {
		struct ctrl_reset *reset = list_entry(node, struct ctrl_reset, node);

		if (!reset_is_late(peer, reset))
			continue;
		list_remove(&reset->node);
		reset_give_up(peer, reset);
	}
}

/* ---- fencing ----------------------------------------------------------------------------------
 */

static void fence_fail(struct peer *peer, int res)
{
	const char *why = res == -EPERM   ? "killing the peer is not permitted"
			  : res == -ESRCH ? "the peer's process is unknown"
			  : res == -EBUSY ? "the peer's last I/O has not ended"
			  : res == -EAGAIN
				  ? "another member is fencing the peer and has not finished"
			  : res == -EINPROGRESS ? "the peer's data path is running"
			  : res == -ENODATA     ? "whether the peer's process runs is unknown"
						: strerror(-res);

	peer_error(peer, "does not answer, and cannot be fenced: %s", why);
	log_error("control",
		  "peer %s does not answer, and cannot be fenced: %s; hosts wait for "
		  "their own time-outs",
		  peer->config->name, why);
	peer_fence_end(peer);
	resets_end_all(peer, CTRL_RESET_FAILED);
}

/* The peer answers and reports a stuck reactor. */
static bool is_stuck(const struct peer *peer)
{
	return peer->link.state == PEER_LINK_UP &&
	       peer->pulse.stuck_ms >= peer->peers->config.answer_ms;
}

static void kill_log(const struct peer *peer)
{
	if (is_stuck(peer))
		log_warn("control",
			 "peer %s: its reactor %u has not run for %u ms: killed (process %u)",
			 peer->config->name, peer->pulse.reactor, peer->pulse.stuck_ms, peer->pid);
	else
		log_warn("control",
			 "peer %s has not answered for %llu ms, and no thread of its data path "
			 "runs: killed (process %u)",
			 peer->config->name, (unsigned long long)(silent_ns(peer) / NS_PER_MS),
			 peer->pid);
}

/* The peer's data path stands still. Resets without evidence fail; for all others the peer is
 * killed. */
static void fence_go_on(struct peer *peer)
{
	uint64_t now_ns = peer_now_ns(peer);
	bool was_killed = peer->is_killed;
	int res;

	if (!peer->waits_for_fence) {
		peer->waits_for_fence = true;
		peer->fence_began_ns = now_ns;
	}
	resets_end(peer, PEER_EVIDENCE_NONE, CTRL_RESET_FAILED);
	if (!has_resets(peer)) {
		peer_error(peer, "does not answer, and cannot be proven dead: the two members "
				 "share no file on this machine");
		log_error("control", "peer %s: %s", peer->config->name, peer->info.last_error);
		peer_fence_end(peer);
		return;
	}
	res = peer_fence_step(peer);
	if (peer->is_killed && !was_killed)
		kill_log(peer);
	if (res < 0 && res != -EAGAIN)
		fence_fail(peer, res);
	else if (now_ns - peer->fence_began_ns > FENCE_GIVE_UP_NS)
		fence_fail(peer, peer->is_killed || peer_process_is_over(peer) ? -EBUSY : -EAGAIN);
}

/* True when no reset waits any more. */
static bool dead_end(struct peer *peer)
{
	bool had_resets = has_resets(peer);
	bool was_killed = peer->is_killed;

	resets_end(peer, PEER_EVIDENCE_DEAD, CTRL_RESET_DONE);
	if (has_resets(peer))
		return false;
	if (!had_resets)
		return true;
	peer->info.is_fenced = true;
	if (was_killed)
		log_warn("control", "peer %s is dead: its last I/O ended %llu ms after the kill",
			 peer->config->name,
			 (unsigned long long)((peer_now_ns(peer) - peer->fence_began_ns) /
					      NS_PER_MS));
	else
		log_info("control",
			 "peer %s is dead: no lock of this peer is left on the shared files",
			 peer->config->name);
	peer_fence_end(peer);
	peer_link_close(&peer->link, "the peer is dead");
	return true;
}

/* The peer is silent but runs: it gets no CPU, or its answers are held up. Hosts have their own
 * time-outs. */
static void silent_wait(struct peer *peer)
{
	if (!peer->waits_for_fence) {
		peer->waits_for_fence = true;
		peer->fence_began_ns = peer_now_ns(peer);
		log_warn("control", "peer %s has not answered for %llu ms, but its data path runs",
			 peer->config->name, (unsigned long long)(silent_ns(peer) / NS_PER_MS));
	}
	if (peer_now_ns(peer) - peer->fence_began_ns > FENCE_GIVE_UP_NS)
		fence_fail(peer, -EINPROGRESS);
}

/* The peer is silent for half of answer_ms or longer. Two looks at its process, at least half of
 * answer_ms apart, show whether the process runs. */
static void silent_go_on(struct peer *peer)
{
	bool is_due = silent_ns(peer) > answer_ns(peer);
	struct peer_process process;

	if (!peer->config->may_kill || peer->pidfd < 0 || peer_process_is_over(peer)) {
		if (is_due)
			fence_go_on(peer);
		return;
	}
	if (peer_process_look(peer->pidfd, &process) < 0) {
		if (is_due)
			fence_fail(peer, -ENODATA);
		return;
	}
	if (peer->process_seen_ns == 0 || peer_process_runs(&peer->process, &process)) {
		if (is_due && peer->process_seen_ns != 0)
			silent_wait(peer);
		peer->process = process;
		peer->process_seen_ns = peer_now_ns(peer);
	} else if (is_due && peer_now_ns(peer) - peer->process_seen_ns > answer_ns(peer) / 2) {
		fence_go_on(peer);
	}
}

static void resets_go_on(struct peer *peer)
{
	bool is_up = peer->link.state == PEER_LINK_UP;

	/* This thread did not run: messages of the peer may be unread, so count its silence from
	 * now. */
	if (peer_now_ns(peer) - peer->stepped_ns > answer_ns(peer) / 2)
		peer->owed_since_ns = peer_now_ns(peer);
	peer->stepped_ns = peer_now_ns(peer);
	late_give_up(peer);
	if (!has_resets(peer)) {
		peer_fence_end(peer);
		return;
	}
	/* The locks show whether a peer is dead that was killed or has no link. A peer whose link
	 * is up is asked. */
	if ((!is_up || peer->is_killed) && dead_end(peer))
		return;
	if (peer->is_killed || is_stuck(peer)) {
		fence_go_on(peer);
		return;
	}
	if (silent_ns(peer) > answer_ns(peer) / 2)
		silent_go_on(peer);
	else
		peer->process_seen_ns = 0;
	if (silent_ns(peer) > answer_ns(peer))
		return;
	/* Only a message of the peer ends this wait. A pause of our own thread must not: on a busy
	 * machine the wait would never reach its end. */
	if (is_up && peer->link.heard_ns > peer->fence_began_ns)
		peer->waits_for_fence = false;
	waiting_send(peer);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void heartbeat(struct peer *peer)
{
	uint64_t now_ns = peer_now_ns(peer);
	uint64_t every_ns = answer_ns(peer) / (has_resets(peer) ? 8 : 2);

	if (now_ns - peer->pinged_ns >= every_ns) {
		peer->pinged_ns = now_ns;
		peer_link_send(&peer->link, PEER_PING, NULL);
	}
	if (!peer->is_silent && now_ns - peer->link.heard_ns > 2 * answer_ns(peer)) {
		peer->is_silent = true;
		peer_error(peer, "does not answer");
		log_warn("control", "peer %s does not answer", peer->config->name);
	}
}

static void peer_step(struct reactor_timer *timer)
{
	struct peer *peer = container_of(timer, struct peer, timer);
	bool is_told;
	uint64_t next_ns;

	if (peer->peers->is_stopping)
		return;
	if (peer->link.state == PEER_LINK_IDLE && peer_now_ns(peer) >= peer->dial_ns)
		peer_link_dial(&peer->link, peer->peers->reactor, &peer->peers->self, peer->config,
			       &link_handler);
	if (peer->link.state == PEER_LINK_UP)
		heartbeat(peer);
	is_told = peer_tell(peer);
	if (has_resets(peer))
		resets_go_on(peer);
	if (has_resets(peer) || !is_told)
		next_ns = peer_now_ns(peer) + STEP_BUSY_NS;
	else if (peer->link.state == PEER_LINK_IDLE)
		next_ns = peer->dial_ns;
	else
		next_ns = peer_now_ns(peer) + answer_ns(peer) / 2;
	reactor_timer_arm(&peer->timer, next_ns);
}

void peer_ask_reset(struct peer *peer, struct ctrl_reset *reset)
{
	peer->info.resets_asked++;
	reset->asked_ns = peer_now_ns(peer);
	if (!has_resets(peer)) {
		peer->owed_since_ns = peer->stepped_ns = peer_now_ns(peer);
		peer->waits_for_fence = false;
	}
	list_push_back(&peer->waiting, &reset->node);
	reactor_timer_arm(&peer->timer, peer_now_ns(peer));
}

void peer_init(struct peer *peer, struct peers *peers, const struct peer_config *config)
{
	peer->peers = peers;
	peer->config = config;
	peer->pidfd = -1;
	peer->link.pidfd = -1;
	peer->backoff_ms = BACKOFF_MIN_MS;
	list_init(&peer->waiting);
	snprintf(peer->info.name, sizeof(peer->info.name), "%s", config->name);
	reactor_timer_init(peers->reactor, &peer->timer, peer_step);
}

void peer_dial_now(struct peer *peer)
{
	if (peer->link.state != PEER_LINK_IDLE || peer->peers->is_stopping)
		return;
	peer->dial_ns = peer_now_ns(peer);
	reactor_timer_arm(&peer->timer, peer->dial_ns);
}

void peer_begin(struct peer *peer)
{
	peer->down_since_ns = peer_now_ns(peer);
	reactor_timer_arm(&peer->timer, peer_now_ns(peer));
}

void peer_fail_all(struct peer *peer)
{
	peer_fence_end(peer);
	resets_end_all(peer, CTRL_RESET_FAILED);
}

void peer_stop(struct peer *peer)
{
	reactor_timer_cancel(&peer->timer);
	peer_link_close(&peer->link, "this member is stopping");
	pidfd_set(peer, -1);
}

bool peer_is_stopped(const struct peer *peer)
{
	return peer->link.state == PEER_LINK_IDLE;
}
