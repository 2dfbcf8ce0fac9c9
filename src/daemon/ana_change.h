/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving an ANA group of a port to another state. NVMe Base 2.1, sections 8.1.1.4 to 8.1.1.9.
 *
 * Towards a state that refuses commands there are two steps: the group is in `change` until the
 * commands that began before have ended, at the longest for ANATT, and then in the state that was
 * asked for; hosts are told of both. The document has that state from the first step on. That the
 * group is on its way is kept beside it, in memory only: a target that is killed in between starts
 * with the final state. Towards an accessible state one step is enough.
 *
 * Control reactor only.
 */
#ifndef WEFT_DAEMON_ANA_CHANGE_H
#define WEFT_DAEMON_ANA_CHANGE_H

#include "daemon/daemon.h"

struct ana_change {
	uint16_t port_id;
	uint32_t group;
	enum ana_state to;            /* not ANA_CHANGE, which nobody asks for */
	uint64_t expected_generation; /* as in struct change */
	bool is_dry_run;
	const char *origin;
	/* In force and kept; or nothing has changed. An error of the second step reverts the first.
	 * One that another change of the same group overtook is a success. */
	void (*done)(void *arg, struct change_result *result);
	void *arg;
};

/* Copies *change. done is never called from inside. 0, or -ENOMEM: it will not be called. */
int ana_change(struct daemon *daemon, const struct ana_change *change);

/* For those who build snapshots: the groups of this port that are on their way are in `change`.
 * `transitions` is of media_registry_ana_transitions. */
void ana_transitions_apply(const struct list *transitions, struct port *port);
/* At the end of the process. */
void ana_transitions_forget(struct list *transitions);

#endif
