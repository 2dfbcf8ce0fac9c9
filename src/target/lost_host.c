/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost Host Communication: when a controller loses its host (keep alive, or a connection that ends
 * without a shutdown), the other controllers of that host in the subsystem are told, so that it
 * learns of a dead path where it is still heard. Log 1Fh and notice F5h, Base 2.3 (TP8028).
 *
 * The note goes from the lost controller's reactor to the registry, and from there to the reactor
 * of each of the others. Without memory a note is lost, and a line in the log says so. Controllers
 * of other processes are not told.
 */
#include "base/log.h"
#include "target/local.h"
#include "target/log.h"

#include <stdlib.h>
#include <string.h>

struct lost_note {
	struct reactor_msg msg;
	struct target *target;
	struct ctrl *to; /* NULL on the way to the registry */
	struct log_lost_host_entry entry;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
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
		ctrl->lost[ctrl->lost_count++] = note->entry;
		ctrl_event_raise(ctrl, CTRL_EVENT_LOST_HOST);
	}
	free(note);
}

static void note_send(const struct lost_note *note, struct ctrl *to)
{
	struct lost_note *copy = malloc(sizeof(*copy));

	if (!copy) {
		log_warn("target", "no memory to tell controller %u that controller %u is lost",
			 to->cntlid, note->entry.cntlid);
		return;
	}
	*copy = *note;
	copy->to = to;
	/* It is registered: it cannot go before this arrives. */
	reactor_post(to->reactor, &copy->msg, note_arrived);
}

/* On the registry. Names of controllers do not change while they are registered. */
static void note_here(struct reactor_msg *msg)
{
	struct lost_note *note = container_of(msg, struct lost_note, msg);
	const struct target *target = note->target;
	uint32_t seen = 0;

	for (uint32_t id = target->cntlid_first;
	     id <= target->cntlid_last && seen < target->ctrl_count; id++) {
		struct ctrl *ctrl = target->ctrls[id];

		seen += ctrl != NULL;
		if (ctrl && id != note->entry.cntlid && ctrl->type == CTRL_TYPE_IO &&
		    strcmp(ctrl->host_nqn, note->host_nqn) == 0 &&
		    strcmp(ctrl->subsystem_nqn, note->subsystem_nqn) == 0 &&
		    uuid_equal(&ctrl->host_id, &note->host_id))
			note_send(note, ctrl);
	}
	free(note);
}

void ctrl_tell_lost(struct ctrl *ctrl, enum lost_host_reason reason)
{
	struct lost_note *note;

	CHECK_OWNER(ctrl);
	if (ctrl->type != CTRL_TYPE_IO)
		return;
	note = calloc(1, sizeof(*note));
	if (!note) {
		log_warn("target", "no memory to tell that controller %u is lost", ctrl->cntlid);
		return;
	}
	note->target = ctrl->target;
	note->entry = (struct log_lost_host_entry){
		.cntlid = ctrl->cntlid,
		.reason = (uint8_t)reason,
		.uniquifier = ctrl->uniquifier,
	};
	memcpy(note->subsystem_nqn, ctrl->subsystem_nqn, sizeof(note->subsystem_nqn));
	memcpy(note->host_nqn, ctrl->host_nqn, sizeof(note->host_nqn));
	note->host_id = ctrl->host_id;
	reactor_post(target_registry(ctrl->target)->reactor, &note->msg, note_here);
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
