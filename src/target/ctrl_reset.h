/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset: ends a controller on behalf of its host, which has lost it, and tells
 * when nothing of it can reach a medium any more. Base 2.3, section 5.4.3 (TP8028).
 *
 * A request travels as a message: from the reactor of the controller that was asked, or from the
 * reactor of the peers (another process asks, cluster/peers.h), to the registry, to the reactor of
 * the impacted controller, and back when that one has left the registry with all its queues
 * drained. Identifiers outside of this process's range belong to peers: those requests go to the
 * reactor of the peers. The control reactor takes no part.
 */
#ifndef WEFT_TARGET_CTRL_RESET_H
#define WEFT_TARGET_CTRL_RESET_H

#include "base/uuid.h"
#include "reactor/reactor.h"
#include "wire/nvme.h"

struct ctrl;
struct target;

enum ctrl_reset_result {
	CTRL_RESET_DONE, /* it is gone, or was before */
	/* Nothing can tell: a peer did not answer and could not be fenced, or it was of a process
	 * before this one that had another file. */
	CTRL_RESET_FAILED,
	CTRL_RESET_FORBIDDEN, /* it belongs to another host, or is no I/O controller */
	CTRL_RESET_BUSY,      /* is_exclusive: another reset of it is under way */
};

struct ctrl_reset {
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES]; /* who asks: only its own controllers */
	struct uuid host_id;
	uint16_t cntlid;
	uint8_t uniquifier;      /* CIU */
	uint64_t random_number;  /* CIRN */
	bool is_exclusive;       /* else it shares the end of one that is under way */
	struct reactor *reactor; /* `done` is called there */
	void (*done)(struct ctrl_reset *reset, enum ctrl_reset_result result);
	/* The target's. */
	struct target *target;
	struct ctrl *ctrl; /* from here until done: the impacted one, registered meanwhile */
	enum ctrl_reset_result result;
	uint64_t asked_ns; /* of a peer: when it was asked for; clock of the reactor of the peers */
	struct list node;
	struct reactor_msg msg;
};

/* Of a controller in this process; from any reactor. Cannot fail; `done` follows, however long the
 * media take. */
void target_ctrl_reset(struct target *target, struct ctrl_reset *reset);

#endif
