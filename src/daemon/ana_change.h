/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves an ANA group of a port to another state. NVMe Base 2.1, sections 8.1.1.4 to 8.1.1.9.
 *
 * A move to a state that refuses commands takes two steps. First the group is in `change` until the
 * commands that began before have ended, for at most ANATT. Then the group has the requested state.
 * Hosts are notified of both steps. The document has the requested state from the first step on.
 * The state `change` is kept in memory only: a target that is killed in between starts with the
 * final state. A move to an accessible state takes one step.
 *
 * Control reactor only.
 */
#ifndef WEFT_DAEMON_ANA_CHANGE_H
#define WEFT_DAEMON_ANA_CHANGE_H

#include "daemon/daemon.h"

struct ana_change {
	uint16_t port_id;
	uint32_t group;
	enum ana_state to;            /* ANA_CHANGE is refused */
	uint64_t expected_generation; /* as in struct change */
	bool is_dry_run;
	const char *origin;
	/* With res 0 the new state is in force and kept. With an error nothing has changed: an
	 * error of the second step reverts the first. A transition that another change of the same
	 * group overtook is a success. */
	void (*done)(void *arg, struct change_result *result);
	void *arg;
};

/* Copies *change. Returns 0, or -ENOMEM without calling `done`. `done` is not called from inside
 * this call, except without memory to queue the first step. */
int ana_change(struct daemon *daemon, const struct ana_change *change);

/* Called while a snapshot is built: sets the groups of this port that are in transition to
 * `change`. `transitions` comes from media_registry_ana_transitions. */
void ana_transitions_apply(const struct list *transitions, struct port *port);
/* Frees all transitions without calling `done`. At the end of the process. */
void ana_transitions_forget(struct list *transitions);

#endif
