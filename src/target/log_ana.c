/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Asymmetric Namespace Access log page (0Ch) of one subsystem as seen through one port, as a
 * stream of pieces. Pure: reads the snapshot only; any thread that holds one.
 * NVMe Base 2.1, section 5.1.12.1.13.
 *
 * Groups that hold a namespace are listed in ascending order, with or without their NSIDs; a
 * subsystem without namespaces lists group 1, because the page may not be without a descriptor.
 */
#include "target/log.h"

#include "base/le.h"

#define ANA_GROUP_CHANGE_COUNT 0 /* not reported per group: the host compares the descriptors */

/* The smallest group above `after` that holds a namespace; 0 when there is none. */
static uint32_t ana_group_next(const struct subsystem *subsystem, uint32_t after,
			       uint32_t *ret_ns_count)
{
	uint32_t group = 0, count = 0;

	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		uint32_t candidate = subsystem->namespaces[i].ana_group;

		if (candidate <= after)
			continue;
		if (group == 0 || candidate < group) {
			group = candidate;
			count = 0;
		}
		if (candidate == group)
			count++;
	}
	*ret_ns_count = count;
	return group;
}

static uint64_t ana_nsids_write(const struct subsystem *subsystem, uint32_t group, uint64_t at,
				const struct log_window *window)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];
		le32 nsid = le32_of(ns->nsid);

		if (ns->ana_group != group)
			continue;
		log_window_put(window, at, &nsid, sizeof(nsid));
		at += sizeof(nsid);
	}
	return at;
}

uint64_t log_ana_write(const struct subsystem *subsystem, const struct port *port,
		       uint64_t change_count, bool is_groups_only, const struct log_window *window)
{
	uint8_t header[LOG_ANA_HEADER_BYTES], descriptor[LOG_ANA_GROUP_BYTES];
	uint64_t at = LOG_ANA_HEADER_BYTES;
	uint32_t ns_count, group_count = 0;
	uint32_t group = ana_group_next(subsystem, 0, &ns_count);

	if (group == 0)
		group = 1;
	while (group != 0) {
		uint32_t next_count;
		uint32_t next = ana_group_next(subsystem, group, &next_count);

		log_ana_group_encode(group, is_groups_only ? 0 : ns_count, ANA_GROUP_CHANGE_COUNT,
				     port_ana_state(port, group), descriptor);
		log_window_put(window, at, descriptor, sizeof(descriptor));
		at += sizeof(descriptor);
		if (!is_groups_only)
			at = ana_nsids_write(subsystem, group, at, window);
		group_count++;
		group = next;
		ns_count = next_count;
	}
	log_ana_header_encode(change_count, (uint16_t)group_count, header);
	log_window_put(window, 0, header, sizeof(header));
	return at;
}
