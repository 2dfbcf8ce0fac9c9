/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between two snapshots, worked out once on the control reactor when the second one
 * is applied, so that a reactor that swaps looks nothing up by name and walks no list of
 * namespaces: it follows pointers, and a controller looks at what has changed and no more.
 *
 * Refers to both snapshots; lives from target_apply until every reactor has swapped and told its
 * hosts. Immutable while reactors see it.
 */
#ifndef WEFT_TARGET_DELTA_H
#define WEFT_TARGET_DELTA_H

#include "target/target.h"

struct ns_change {
	const struct ns *was; /* NULL: added */
	const struct ns *is;  /* NULL: removed */
	bool has_attributes;  /* of what Identify tells; or it is another namespace */
	bool has_visibility;  /* some host may see it that did not, or the other way round */
	bool has_group;       /* it moved to another ANA group */
};

/* A subsystem of the old snapshot. */
struct subsystem_delta {
	const struct subsystem *is; /* NULL: removed */
	bool has_hosts;             /* who may connect has changed */
	struct ns_change *changes;  /* ascending NSID */
	unsigned change_count;
};

/* A port of the old snapshot. */
struct port_delta {
	const struct port *is; /* NULL: removed */
	uint32_t *groups;      /* whose ANA state changed, ascending */
	unsigned group_count;
};

struct delta {
	const struct snapshot *old;
	const struct snapshot *now;
	struct subsystem_delta *subsystems; /* by index in old */
	unsigned subsystem_count;
	struct port_delta *ports; /* by place in old */
	unsigned port_count;
	bool has_same_mask_hosts;
	uint32_t *mask_hosts; /* by index in old: the index now */
	const char **mask_hosts_added;
	unsigned mask_hosts_added_count;
};

/*
 * Makes what a snapshot needs before reactors may see it (indices, order, ANA counts that go on
 * from `old`), and the delta. `old` NULL: the first one, without a delta. 0 or -ENOMEM.
 */
int delta_prepare(const struct snapshot *old, struct snapshot *now, struct delta **ret_delta);
void delta_destroy(struct delta *delta);
/* What a host's index in the old snapshot has become. */
uint32_t delta_host_index(const struct delta *delta, uint32_t index_before, const char *host_nqn);

#endif
