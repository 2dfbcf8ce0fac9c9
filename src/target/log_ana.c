/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Asymmetric Namespace Access log page (0Ch) of one subsystem, as one host sees it through one
 * port, written as a stream of pieces. Reads only the snapshot: any thread that holds the snapshot
 * may call. NVMe Base 2.1, section 5.1.12.1.13.
 *
 * The page lists in ascending order the groups that have a namespace the host sees, with or without
 * their NSIDs. A host that sees no namespace gets group 1, because the page must have a descriptor.
 * A host that reads the page in parts compares the change counts of the header, so the caller's
 * count must belong to the same snapshot.
 */
#include "target/ana_index.h"
#include "target/log.h"

#include "base/le.h"

/* Writes the NSIDs of a group, from position `at` of the page on. NSIDs outside of the window are
 * only counted. */
static void nsids_write(const struct log_ana_view *view, const struct ana_index_group *group,
			uint64_t at, const struct log_window *window)
{
	const struct subsystem *subsystem = view->subsystem;
	const uint32_t *places = subsystem->ana->places + group->first;
	bool has_masks = subsystem->ana->has_masks;
	uint64_t end = window->offset + window->len_bytes;
	uint32_t i = 0;

	if (!has_masks && at < window->offset) {
		uint64_t skip = (window->offset - at) / sizeof(le32);

		i = skip < group->ns_count ? (uint32_t)skip : group->ns_count;
		at += i * sizeof(le32);
	}
	for (; i < group->ns_count && at < end; i++) {
		const struct ns *ns = &subsystem->namespaces[places[i]];
		le32 nsid = le32_of(ns->nsid);

		if (has_masks && !ns_mask_has(ns->mask, view->host_index))
			continue;
		log_window_put(window, at, &nsid, sizeof(nsid));
		at += sizeof(nsid);
	}
}

static void descriptor_write(const struct log_ana_view *view, uint32_t group, uint32_t ns_count,
			     uint64_t members_count, uint64_t at, const struct log_window *window)
{
	uint8_t descriptor[LOG_ANA_GROUP_BYTES];

	if (at >= window->offset + window->len_bytes || at + sizeof(descriptor) <= window->offset)
		return;
	log_ana_group_encode(group, ns_count,
			     ana_index_change_count(view->port, group, members_count),
			     port_ana_state(view->port, group), descriptor);
	log_window_put(window, at, descriptor, sizeof(descriptor));
}

uint64_t log_ana_write(const struct log_ana_view *view, bool is_groups_only,
		       const struct log_window *window)
{
	const struct ana_index *index = view->subsystem->ana;
	uint8_t header[LOG_ANA_HEADER_BYTES];
	uint64_t at = LOG_ANA_HEADER_BYTES;
	uint16_t group_count = 0;

	for (unsigned i = 0; i < index->group_count; i++) {
		const struct ana_index_group *group = &index->groups[i];
		uint32_t ns_count = ana_index_count(view->subsystem, group, view->host_index);

		if (ns_count == 0)
			continue;
		descriptor_write(view, group->group, is_groups_only ? 0 : ns_count,
				 group->change_count, at, window);
		at += LOG_ANA_GROUP_BYTES;
		if (!is_groups_only) {
			nsids_write(view, group, at, window);
			at += ns_count * sizeof(le32);
		}
		group_count++;
	}
	if (group_count == 0) {
		descriptor_write(view, 1, 0, view->subsystem->ana_change_count, at, window);
		at += LOG_ANA_GROUP_BYTES;
		group_count = 1;
	}
	log_ana_header_encode(view->change_count, group_count, header);
	log_window_put(window, 0, header, sizeof(header));
	return at;
}
