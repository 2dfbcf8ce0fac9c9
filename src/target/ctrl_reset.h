/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset: ends a controller on behalf of its host, which has lost it, and reports
 * when nothing of the controller can reach a medium any more. Base 2.3, section 5.4.3 (TP8028).
 *
 * A request travels as a message. It begins on the reactor of the controller that was asked, or on
 * the reactor of the peers when another process asks (cluster/peers.h). It goes to the registry, to
 * the reactor of the impacted controller, and back when the impacted controller has quiesced.
 * Identifiers outside of this process's range belong to peers: requests for those go to the reactor
 * of the peers. The control reactor takes no part.
 */
#ifndef WEFT_TARGET_CTRL_RESET_H
#define WEFT_TARGET_CTRL_RESET_H

#include "base/uuid.h"
#include "reactor/reactor.h"
#include "wire/nvme.h"

struct ctrl;
struct target;

enum ctrl_reset_result {
	CTRL_RESET_DONE, /* the controller has ended, now or before */
	/* The end is not certain: a peer did not answer and could not be fenced, or the controller
	 * was of a process before this one that had another file. */
	CTRL_RESET_FAILED,
	CTRL_RESET_FORBIDDEN, /* the controller is another host's, or no I/O controller */
	CTRL_RESET_BUSY,      /* is_exclusive: another reset of the controller is under way */
};

struct ctrl_reset {
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES]; /* asking host; may reset only its own controllers */
	struct uuid host_id;
	uint16_t cntlid;
	uint8_t uniquifier;      /* CIU */
	uint64_t random_number;  /* CIRN */
	bool is_exclusive;       /* false: may join a reset that is under way */
	struct reactor *reactor; /* `done` is called there */
	void (*done)(struct ctrl_reset *reset, enum ctrl_reset_result result);
	/* Owned by the target. */
	struct target *target;
	struct ctrl *ctrl; /* the impacted controller, registered; set until `done` */
	enum ctrl_reset_result result;
	uint64_t asked_ns; /* when a peer asked, on the clock of the reactor of the peers */
	struct list node;
	struct reactor_msg msg;
};

/* Resets a controller of this process. Any reactor. Cannot fail. `done` follows, however long the
 * media take. */
void target_ctrl_reset(struct target *target, struct ctrl_reset *reset);

#endif
