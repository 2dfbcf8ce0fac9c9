/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of a subsystem by ANA group, so that the ANA log is written, and a change of a
 * group's state is told, without searching through thousands of them. Part of a snapshot: made on
 * the control reactor when it is applied, read by all.
 */
#ifndef WEFT_TARGET_ANA_INDEX_H
#define WEFT_TARGET_ANA_INDEX_H

#include "target/target.h"

struct ana_index_group {
	uint32_t group;
	uint32_t first; /* in places */
	uint32_t ns_count;
	uint64_t change_count; /* subsystem->ana_change_count when its members last changed */
};

struct ana_index {
	unsigned group_count;
	struct ana_index_group *groups; /* that hold a namespace, ascending */
	uint32_t *places; /* in subsystem->namespaces: by group, then in order of NSID */
	bool has_masks;   /* some host does not see all */
};

/* Control reactor. 0 or -ENOMEM. */
int ana_index_create(const struct subsystem *subsystem, struct ana_index **ret_index);
void ana_index_destroy(struct ana_index *index);
/* NULL when no namespace is in it. */
struct ana_index_group *ana_index_find(const struct ana_index *index, uint32_t group);
/* How many namespaces of the group this host sees. */
uint32_t ana_index_count(const struct subsystem *subsystem, const struct ana_index_group *group,
			 uint32_t host_index);
/* Whether it sees any. */
bool ana_index_has(const struct subsystem *subsystem, uint32_t group, uint32_t host_index);
/* What the ANA log tells as the group's change count on this port: never 0, which would mean that
 * none is kept. */
uint64_t ana_index_change_count(const struct port *port, uint32_t group, uint64_t members_count);

#endif
