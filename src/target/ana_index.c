/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of a subsystem by ANA group. See ana_index.h.
 *
 * The index is made on the control reactor. All reactors read the index as part of the snapshot
 * that they hold. NVMe Base 2.1, sections 5.1.12.1.13 and 8.1.1.
 */
#include "target/ana_index.h"

#include "base/check.h"
#include "base/sorted.h"

#include <errno.h>
#include <stdlib.h>

/* Counts the namespaces of each group into `counts`. Returns the number of groups in use. */
static unsigned groups_count(const struct subsystem *subsystem, uint32_t *counts)
{
	unsigned group_count = 0;

	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		uint32_t group = subsystem->namespaces[i].ana_group;

		CHECK(group >= 1 && group <= TARGET_ANA_GROUP_MAX);
		group_count += counts[group]++ == 0;
	}
	return group_count;
}

static void index_fill(const struct subsystem *subsystem, uint32_t *counts, struct ana_index *index)
{
	uint32_t first = 0;

	for (uint32_t group = 1; group <= TARGET_ANA_GROUP_MAX; group++) {
		if (counts[group] == 0)
			continue;
		index->groups[index->group_count++] = (struct ana_index_group){
			.group = group, .first = first, .ns_count = counts[group]};
		first += counts[group];
		/* From here on counts[group] is the next free place of the group. */
		counts[group] = first - counts[group];
	}
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		index->places[counts[subsystem->namespaces[i].ana_group]++] = i;
		index->has_masks |= subsystem->namespaces[i].mask != NULL;
	}
}

int ana_index_create(const struct subsystem *subsystem, struct ana_index **ret_index)
{
	struct ana_index *index = calloc(1, sizeof(*index));
	uint32_t *counts = calloc(TARGET_ANA_GROUP_MAX + 1, sizeof(*counts));

	if (index && counts) {
		unsigned group_count = groups_count(subsystem, counts);

		index->groups = calloc(group_count + 1, sizeof(*index->groups));
		index->places = calloc(subsystem->ns_count + 1, sizeof(*index->places));
	}
	if (!index || !counts || !index->groups || !index->places) {
		free(counts);
		ana_index_destroy(index);
		return -ENOMEM;
	}
	index_fill(subsystem, counts, index);
	free(counts);
	*ret_index = index;
	return 0;
}

void ana_index_destroy(struct ana_index *index)
{
	if (!index)
		return;
	free(index->groups);
	free(index->places);
	free(index);
}

struct ana_index_group *ana_index_find(const struct ana_index *index, uint32_t group)
{
	struct ana_index_group *groups = index->groups;
	unsigned at = SORTED_PLACE(i, index->group_count, groups[i].group < group);

	return at < index->group_count && groups[at].group == group ? &groups[at] : NULL;
}

uint32_t ana_index_count(const struct subsystem *subsystem, const struct ana_index_group *group,
			 uint32_t host_index)
{
	const uint32_t *places = subsystem->ana->places + group->first;
	uint32_t count = 0;

	if (!subsystem->ana->has_masks)
		return group->ns_count;
	for (uint32_t i = 0; i < group->ns_count; i++)
		count += ns_mask_has(subsystem->namespaces[places[i]].mask, host_index);
	return count;
}

bool ana_index_has(const struct subsystem *subsystem, uint32_t group, uint32_t host_index)
{
	const struct ana_index_group *found = ana_index_find(subsystem->ana, group);

	for (uint32_t i = 0; found && i < found->ns_count; i++) {
		uint32_t place = subsystem->ana->places[found->first + i];

		if (ns_mask_has(subsystem->namespaces[place].mask, host_index))
			return true;
	}
	return false;
}

uint64_t ana_index_change_count(const struct port *port, uint32_t group, uint64_t members_count)
{
	return 1 + members_count + (port->ana_group_counts ? port->ana_group_counts[group] : 0);
}
