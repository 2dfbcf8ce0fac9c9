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

#include "base/check.h"
#include "base/le.h"

#define ANA_GROUP_CHANGE_COUNT 0 /* not reported per group: the host compares the descriptors */

/* How many namespaces each group holds, and where its descriptor is in the page. */
struct ana_layout {
	uint32_t ns_counts[TARGET_ANA_GROUP_MAX + 1];
	uint64_t offsets[TARGET_ANA_GROUP_MAX + 1];
};

static bool ana_group_is_listed(const struct subsystem *subsystem, const struct ana_layout *layout,
				uint32_t group)
{
	return layout->ns_counts[group] > 0 || (group == 1 && subsystem->ns_count == 0);
}

static void ana_namespaces_count(const struct subsystem *subsystem, struct ana_layout *layout)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		CHECK(subsystem->namespaces[i].ana_group <= TARGET_ANA_GROUP_MAX);
		layout->ns_counts[subsystem->namespaces[i].ana_group]++;
	}
}

/* In ascending order of NSID, each behind the last one of its group. */
static void ana_nsids_write(const struct subsystem *subsystem, struct ana_layout *layout,
			    const struct log_window *window)
{
	for (uint32_t group = 1; group <= TARGET_ANA_GROUP_MAX; group++)
		layout->offsets[group] += LOG_ANA_GROUP_BYTES;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		const struct ns *ns = &subsystem->namespaces[i];
		le32 nsid = le32_of(ns->nsid);

		log_window_put(window, layout->offsets[ns->ana_group], &nsid, sizeof(nsid));
		layout->offsets[ns->ana_group] += sizeof(nsid);
	}
}

uint64_t log_ana_write(const struct subsystem *subsystem, const struct port *port,
		       uint64_t change_count, bool is_groups_only, const struct log_window *window)
{
	uint8_t header[LOG_ANA_HEADER_BYTES], descriptor[LOG_ANA_GROUP_BYTES];
	struct ana_layout layout = {0};
	uint64_t at = LOG_ANA_HEADER_BYTES;
	uint16_t group_count = 0;

	ana_namespaces_count(subsystem, &layout);
	for (uint32_t group = 1; group <= TARGET_ANA_GROUP_MAX; group++) {
		uint32_t ns_count = is_groups_only ? 0 : layout.ns_counts[group];

		if (!ana_group_is_listed(subsystem, &layout, group))
			continue;
		layout.offsets[group] = at;
		log_ana_group_encode(group, ns_count, ANA_GROUP_CHANGE_COUNT,
				     port_ana_state(port, group), descriptor);
		log_window_put(window, at, descriptor, sizeof(descriptor));
		at += sizeof(descriptor) + ns_count * sizeof(le32);
		group_count++;
	}
	if (!is_groups_only)
		ana_nsids_write(subsystem, &layout, window);
	log_ana_header_encode(change_count, group_count, header);
	log_window_put(window, 0, header, sizeof(header));
	return at;
}
