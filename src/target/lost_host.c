/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost Host Communication. When a controller loses its host (keep alive expired, or a connection
 * ended without a shutdown), the host's other controllers in the subsystem are notified. The host
 * thus learns of a dead path through a path that still works. Log 1Fh and notice F5h, Base 2.3
 * (TP8028).
 *
 * The note goes from the lost controller's reactor to the registry, and from there to the reactor
 * of each other controller of the host. Then the note goes to the reactor of the peers, which
 * forwards it to the other processes that serve the subsystem. Notes of other processes arrive
 * through target_tell_lost. When out of memory a note is dropped and logged: a note only speeds up
 * what the host finds out anyway.
 */
#include "base/log.h"
#include "target/local.h"
#include "target/log.h"

#include <stdlib.h>
#include <string.h>

struct lost_note {
	struct reactor_msg msg;
	struct target *target;
	struct target_peers peers; /* zeroed: no other process is notified */
	struct ctrl *to;           /* NULL on the way to the registry and to the peers */
	struct lost_host lost;
};

static void note_arrived(struct reactor_msg *msg)
{
	struct lost_note *note = container_of(msg, struct lost_note, msg);
	struct ctrl *ctrl = note->to;

	if (ctrl->state == CTRL_LIVE) {
		if (ctrl->lost_count == CTRL_LOST_MAX) {
			ctrl->lost_count--;
			memmove(&ctrl->lost[0], &ctrl->lost[1],
				ctrl->lost_count * sizeof(ctrl->lost[0]));
		}
		ctrl->lost[ctrl->lost_count++] = (struct log_lost_host_entry){
			.cntlid = note->lost.cntlid,
			.reason = note->lost.reason,
			.uniquifier = note->lost.uniquifier,
		};
		ctrl_event_raise(ctrl, CTRL_EVENT_LOST_HOST);
	}
	free(note);
}

static void note_send(const struct lost_note *note, struct ctrl *to)
{
	struct lost_note *copy = malloc(sizeof(*copy));

	if (!copy) {
		log_limited(
			LOG_LEVEL_WARN, "target",
			"out of memory: controller %u is not notified that controller %u is lost",
			to->cntlid, note->lost.cntlid);
		return;
	}
	*copy = *note;
	copy->to = to;
	/* `to` is registered, so it cannot be freed before the message arrives. */
	reactor_post(to->reactor, &copy->msg, note_arrived);
}

/* On the reactor of the peers. The peers outlive the target. */
static void note_at_peers(struct reactor_msg *msg)
{
	struct lost_note *note = container_of(msg, struct lost_note, msg);

	note->peers.tell_lost(note->peers.arg, &note->lost);
	free(note);
}

static bool is_of_host(const struct ctrl *ctrl, const struct lost_host *lost)
{
	return ctrl->type == CTRL_TYPE_IO && strcmp(ctrl->host_nqn, lost->host_nqn) == 0 &&
	       strcmp(ctrl->subsystem_nqn, lost->subsystem_nqn) == 0 &&
	       uuid_equal(&ctrl->host_id, &lost->host_id);
}

/* On the registry. The names of a controller do not change while it is registered. */
static void note_here(struct reactor_msg *msg)
{
	struct lost_note *note = container_of(msg, struct lost_note, msg);
	const struct target *target = note->target;
	uint32_t seen = 0;

	for (uint32_t id = target->cntlid_first;
	     id <= target->cntlid_last && seen < target->ctrl_count; id++) {
		struct ctrl *ctrl = target->ctrls[id];

		seen += ctrl != NULL;
		if (ctrl && id != note->lost.cntlid && is_of_host(ctrl, &note->lost))
			note_send(note, ctrl);
	}
	if (note->peers.tell_lost)
		reactor_post(note->peers.reactor, &note->msg, note_at_peers);
	else
		free(note);
}

static struct lost_note *note_create(struct target *target, uint16_t cntlid)
{
	struct lost_note *note = calloc(1, sizeof(*note));

	if (!note)
		log_limited(LOG_LEVEL_WARN, "target",
			    "out of memory: no host is notified that controller %u is lost",
			    cntlid);
	else
		note->target = target;
	return note;
}

void ctrl_tell_lost(struct ctrl *ctrl, enum lost_host_reason reason)
{
	struct lost_note *note;

	CHECK_OWNER(ctrl);
	if (ctrl->type != CTRL_TYPE_IO)
		return;
	note = note_create(ctrl->target, ctrl->cntlid);
	if (!note)
		return;
	note->peers = ctrl->target->cluster;
	note->lost = (struct lost_host){
		.host_id = ctrl->host_id,
		.cntlid = ctrl->cntlid,
		.uniquifier = ctrl->uniquifier,
		.reason = (uint8_t)reason,
	};
	memcpy(note->lost.subsystem_nqn, ctrl->subsystem_nqn, sizeof(note->lost.subsystem_nqn));
	memcpy(note->lost.host_nqn, ctrl->host_nqn, sizeof(note->lost.host_nqn));
	reactor_post(target_registry(ctrl->target)->reactor, &note->msg, note_here);
}

void target_tell_lost(struct target *target, const struct lost_host *lost)
{
	struct lost_note *note = note_create(target, lost->cntlid);

	if (!note)
		return;
	note->lost = *lost;
	reactor_post(target_registry(target)->reactor, &note->msg, note_here);
}

uint64_t log_lost_host_write(const struct ctrl *ctrl, const struct log_window *window)
{
	uint64_t at = LOG_CTRL_RESET_HEADER_BYTES;
	uint8_t piece[LOG_CTRL_RESET_ENTRY_BYTES];

	log_ctrl_reset_header_encode((uint16_t)ctrl->lost_count, piece);
	log_window_put(window, 0, piece, sizeof(piece));
	for (uint32_t i = 0; i < ctrl->lost_count; i++) {
		log_lost_host_entry_encode(&ctrl->lost[i], piece);
		log_window_put(window, at, piece, sizeof(piece));
		at += sizeof(piece);
	}
	return at;
}
