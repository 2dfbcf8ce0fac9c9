/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of a subsystem by ANA group. With this index, writing the ANA log and reporting a
 * change of a group's state does not search through thousands of namespaces. Part of a snapshot:
 * made on the control reactor when the snapshot is applied, read on all reactors.
 */
#ifndef WEFT_TARGET_ANA_INDEX_H
#define WEFT_TARGET_ANA_INDEX_H

#include "target/target.h"

struct ana_index_group {
	uint32_t group;
	uint32_t first; /* index in places */
	uint32_t ns_count;
	uint64_t change_count; /* subsystem->ana_change_count at the last change of members */
};

struct ana_index {
	unsigned group_count;
	struct ana_index_group *groups; /* groups with at least one namespace, ascending */
	uint32_t *places; /* indices in subsystem->namespaces: by group, then by NSID */
	bool has_masks;   /* some host does not see every namespace */
};

/* Control reactor. Returns 0 or -ENOMEM. */
int ana_index_create(const struct subsystem *subsystem, struct ana_index **ret_index);
void ana_index_destroy(struct ana_index *index);
/* NULL when the group has no namespace. */
struct ana_index_group *ana_index_find(const struct ana_index *index, uint32_t group);
/* How many namespaces of the group the host sees. */
uint32_t ana_index_count(const struct subsystem *subsystem, const struct ana_index_group *group,
			 uint32_t host_index);
/* Whether the host sees any namespace of the group. */
bool ana_index_has(const struct subsystem *subsystem, uint32_t group, uint32_t host_index);
/* The change count of the group that the ANA log reports on this port. Never 0: 0 would mean that
 * the target keeps no count. */
uint64_t ana_index_change_count(const struct port *port, uint32_t group, uint64_t members_count);

#endif
