/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between two snapshots, computed once on the control reactor when the second
 * snapshot is applied. A reactor that swaps then follows pointers: it looks up no names and walks
 * no list of namespaces. A controller looks only at what has changed.
 *
 * A delta points into both snapshots. It exists from target_apply until every reactor has swapped
 * and notified its hosts. Immutable while reactors see it.
 */
#ifndef WEFT_TARGET_DELTA_H
#define WEFT_TARGET_DELTA_H

#include "target/target.h"

struct ns_change {
	const struct ns *was; /* NULL: added */
	const struct ns *is;  /* NULL: removed */
	bool has_attributes;  /* Identify reports other attributes, or another namespace */
	bool has_visibility;  /* some host sees the namespace that did not, or the reverse */
	bool has_group;       /* moved to another ANA group */
};

/* A subsystem of the old snapshot. */
struct subsystem_delta {
	const struct subsystem *is; /* NULL: removed */
	bool has_hosts;             /* the hosts that may connect have changed */
	struct ns_change *changes;  /* ascending NSID */
	unsigned change_count;
};

/* A port of the old snapshot. */
struct port_delta {
	const struct port *is; /* NULL: removed */
	uint32_t *groups;      /* groups whose ANA state has changed, ascending */
	unsigned group_count;
};

struct delta {
	const struct snapshot *old;
	const struct snapshot *now;
	struct subsystem_delta *subsystems; /* by index in old */
	unsigned subsystem_count;
	struct port_delta *ports; /* by index in old->ports */
	unsigned port_count;
	bool has_same_mask_hosts;
	uint32_t *mask_hosts; /* index in now, by index in old */
	const char **mask_hosts_added;
	unsigned mask_hosts_added_count;
};

/*
 * Completes `now` before reactors see it (indices, order, ANA counts that continue from `old`), and
 * creates the delta. `old` is NULL for the first snapshot, which has no delta. 0 or -ENOMEM.
 */
int delta_prepare(const struct snapshot *old, struct snapshot *now, struct delta **ret_delta);
void delta_destroy(struct delta *delta);
/* The index in the new snapshot of a host that had `index_before` in the old snapshot. */
uint32_t delta_host_index(const struct delta *delta, uint32_t index_before, const char *host_nqn);

#endif
