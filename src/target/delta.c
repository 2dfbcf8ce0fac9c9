/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differences between two snapshots. See delta.h.
 *
 * Runs on the control reactor, except delta_host_index. Cost: one walk over both lists of
 * namespaces per change of the configuration, however many controllers exist.
 */
#include "target/delta.h"

#include "target/ana_index.h"
#include "target/nsid_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- hosts that masks name ------------------------------------------------------------------ */

static int mask_hosts_build(struct delta *delta)
{
	const struct snapshot *old = delta->old, *now = delta->now;
	unsigned i = 0, k = 0;

	delta->mask_hosts = calloc(old->mask_host_count + 1, sizeof(*delta->mask_hosts));
	delta->mask_hosts_added = calloc(now->mask_host_count + 1, sizeof(char *));
	if (!delta->mask_hosts || !delta->mask_hosts_added)
		return -ENOMEM;
	delta->has_same_mask_hosts = true;
	while (i < old->mask_host_count || k < now->mask_host_count) {
		int order = i == old->mask_host_count
				    ? 1
				    : (k == now->mask_host_count
					       ? -1
					       : strcmp(old->mask_hosts[i], now->mask_hosts[k]));

		delta->has_same_mask_hosts &= order == 0;
		if (order == 0)
			delta->mask_hosts[i++] = k++;
		else if (order < 0)
			delta->mask_hosts[i++] = NS_MASK_HOST_OTHER;
		else
			delta->mask_hosts_added[delta->mask_hosts_added_count++] =
				now->mask_hosts[k++];
	}
	return 0;
}

static int compare_names(const void *key, const void *entry)
{
	return strcmp(key, *(const char *const *)entry);
}

uint32_t delta_host_index(const struct delta *delta, uint32_t index_before, const char *host_nqn)
{
	const char **found;

	if (delta->has_same_mask_hosts)
		return index_before;
	if (index_before < delta->old->mask_host_count)
		return delta->mask_hosts[index_before];
	found = bsearch(host_nqn, delta->mask_hosts_added, delta->mask_hosts_added_count,
			sizeof(char *), compare_names);
	return found ? snapshot_host_index(delta->now, host_nqn) : NS_MASK_HOST_OTHER;
}

static bool masks_words_same(const struct ns_mask *a, const struct ns_mask *b)
{
	return a && b && a->host_count == b->host_count && a->has_others == b->has_others &&
	       memcmp(a->words, b->words, (a->host_count + 63) / 64 * sizeof(a->words[0])) == 0;
}

/* Whether each host, named or not, sees the same with both masks. */
static bool masks_same(const struct delta *delta, const struct ns_mask *was,
		       const struct ns_mask *is)
{
	if (!was && !is)
		return true;
	if (delta->has_same_mask_hosts && masks_words_same(was, is))
		return true;
	if (ns_mask_has(was, NS_MASK_HOST_OTHER) != ns_mask_has(is, NS_MASK_HOST_OTHER))
		return false;
	for (uint32_t i = 0; i < delta->old->mask_host_count; i++)
		if (ns_mask_has(was, i) != ns_mask_has(is, delta->mask_hosts[i]))
			return false;
	for (unsigned i = 0; i < delta->mask_hosts_added_count; i++) {
		uint32_t index = snapshot_host_index(delta->now, delta->mask_hosts_added[i]);

		if (ns_mask_has(was, NS_MASK_HOST_OTHER) != ns_mask_has(is, index))
			return false;
	}
	return true;
}

/* ---- namespaces ----------------------------------------------------------------------------- */

/* is_withheld counts: a namespace that is withheld or released gets another ANAGRPID. Hosts that
 * read only the states of groups learn of the ANAGRPID from Identify. */
static bool ns_attributes_differ(const struct ns *a, const struct ns *b)
{
	return a->block_count != b->block_count || a->block_shift != b->block_shift ||
	       a->backing != b->backing || a->is_read_only != b->is_read_only ||
	       a->is_private != b->is_private || a->is_withheld != b->is_withheld ||
	       !uuid_equal(&a->uuid, &b->uuid) || memcmp(a->nguid, b->nguid, sizeof(a->nguid)) != 0;
}

/* The last two masks that were compared. Saves work, because namespaces share masks. */
struct mask_memo {
	const struct ns_mask *was;
	const struct ns_mask *is;
	bool is_same;
};

/* Returns false when nothing has changed. */
static bool ns_compare(const struct delta *delta, const struct ns *was, const struct ns *is,
		       struct mask_memo *memo, struct ns_change *ret_change)
{
	*ret_change = (struct ns_change){.was = was, .is = is};
	if (!was || !is) {
		ret_change->has_visibility = true;
		return true;
	}
	ret_change->has_attributes = ns_attributes_differ(was, is);
	ret_change->has_group = was->ana_group != is->ana_group;
	if (was->mask || is->mask) {
		if (memo->was != was->mask || memo->is != is->mask)
			*memo = (struct mask_memo){was->mask, is->mask,
						   masks_same(delta, was->mask, is->mask)};
		ret_change->has_visibility = !memo->is_same;
	}
	return ret_change->has_attributes || ret_change->has_group || ret_change->has_visibility;
}

/* Walks both lists side by side, in ascending order of NSID. Returns the number of changes. Writes
 * the changes if `to` is not NULL. */
static unsigned changes_collect(const struct delta *delta, const struct subsystem *a,
				const struct subsystem *b, struct ns_change *to)
{
	struct mask_memo memo = {.is_same = true};
	unsigned i = 0, k = 0, count = 0;

	while (i < a->ns_count || k < b->ns_count) {
		const struct ns *was = i < a->ns_count ? &a->namespaces[i] : NULL;
		const struct ns *is = k < b->ns_count ? &b->namespaces[k] : NULL;
		struct ns_change change;

		if (was && is && was->nsid < is->nsid)
			is = NULL;
		else if (was && is && is->nsid < was->nsid)
			was = NULL;
		i += was != NULL;
		k += is != NULL;
		if (!ns_compare(delta, was, is, &memo, &change))
			continue;
		if (to)
			to[count] = change;
		count++;
	}
	return count;
}

/* ---- subsystems ----------------------------------------------------------------------------- */

static bool hosts_differ(const struct subsystem *a, const struct subsystem *b)
{
	if (a->allows_any_host != b->allows_any_host || a->host_count != b->host_count)
		return true;
	for (unsigned i = 0; i < a->host_count; i++)
		if (strcmp(a->host_nqns[i], b->host_nqns[i]) != 0)
			return true;
	return false;
}

static int subsystem_compare(const struct delta *delta, const struct subsystem *was,
			     const struct subsystem *is, struct subsystem_delta *ret_delta)
{
	ret_delta->is = is;
	ret_delta->has_hosts = hosts_differ(was, is);
	ret_delta->change_count = changes_collect(delta, was, is, NULL);
	if (ret_delta->change_count == 0)
		return 0;
	ret_delta->changes = calloc(ret_delta->change_count, sizeof(*ret_delta->changes));
	if (!ret_delta->changes)
		return -ENOMEM;
	changes_collect(delta, was, is, ret_delta->changes);
	return 0;
}

/* Gives a group whose members changed the subsystem's new count. Other groups keep their count. */
static void group_touch(const struct subsystem *subsystem, uint32_t group)
{
	struct ana_index_group *found = ana_index_find(subsystem->ana, group);

	if (found)
		found->change_count = subsystem->ana_change_count;
}

static void ana_counts_carry(const struct subsystem *was, const struct subsystem_delta *change,
			     struct subsystem *is)
{
	bool is_touched = false;

	for (unsigned i = 0; i < change->change_count; i++)
		is_touched |= change->changes[i].has_visibility || change->changes[i].has_group;
	is->ana_change_count = was->ana_change_count + is_touched;
	for (unsigned i = 0; i < is->ana->group_count; i++) {
		struct ana_index_group *group = &is->ana->groups[i];
		const struct ana_index_group *before = ana_index_find(was->ana, group->group);

		group->change_count = before ? before->change_count : is->ana_change_count;
	}
	for (unsigned i = 0; is_touched && i < change->change_count; i++) {
		const struct ns_change *ns = &change->changes[i];

		if (!ns->has_visibility && !ns->has_group)
			continue;
		if (ns->was)
			group_touch(is, ns->was->ana_group);
		if (ns->is)
			group_touch(is, ns->is->ana_group);
	}
}

/* Sets the generation since which the block size of each namespace has not changed. */
static void formats_carry(const struct subsystem *was, struct subsystem *is, uint64_t generation)
{
	unsigned i = 0;

	for (unsigned k = 0; k < is->ns_count; k++) {
		struct ns *ns = &is->namespaces[k];

		while (i < was->ns_count && was->namespaces[i].nsid < ns->nsid)
			i++;
		ns->format_generation = generation;
		if (i < was->ns_count && was->namespaces[i].nsid == ns->nsid &&
		    was->namespaces[i].block_shift == ns->block_shift)
			ns->format_generation = was->namespaces[i].format_generation;
	}
}

static int subsystems_compare(struct delta *delta, struct snapshot *now)
{
	const struct snapshot *old = delta->old;
	unsigned k = 0;

	delta->subsystems = calloc(old->subsystem_count + 1, sizeof(*delta->subsystems));
	if (!delta->subsystems)
		return -ENOMEM;
	for (unsigned i = 0; i < old->subsystem_count; i++) {
		const struct subsystem *was = old->subsystems[i];
		int res;

		while (k < now->subsystem_count && strcmp(now->subsystems[k]->nqn, was->nqn) < 0)
			k++;
		if (k == now->subsystem_count || strcmp(now->subsystems[k]->nqn, was->nqn) != 0)
			continue;
		res = subsystem_compare(delta, was, now->subsystems[k], &delta->subsystems[i]);
		if (res != 0)
			return res;
		ana_counts_carry(was, &delta->subsystems[i], now->subsystems[k]);
		formats_carry(was, now->subsystems[k], now->generation);
		res = nsid_history_carry(was, now->subsystems[k], now->generation);
		if (res != 0)
			return res;
	}
	return 0;
}

/* ---- ports ---------------------------------------------------------------------------------- */

/* Walks both lists side by side, in ascending order of groups. */
static unsigned groups_collect(const struct port *a, const struct port *b, uint32_t *groups)
{
	unsigned i = 0, k = 0, count = 0;

	while (i < a->ana_count || k < b->ana_count) {
		uint32_t was = i < a->ana_count ? a->ana[i].group : UINT32_MAX;
		uint32_t is = k < b->ana_count ? b->ana[k].group : UINT32_MAX;
		uint32_t group = was < is ? was : is;

		if (port_ana_state(a, group) != port_ana_state(b, group))
			groups[count++] = group;
		i += was == group;
		k += is == group;
	}
	return count;
}

static int port_compare(const struct port *was, struct port *is, struct port_delta *ret_delta)
{
	const size_t counts_bytes = (TARGET_ANA_GROUP_MAX + 1) * sizeof(*is->ana_group_counts);

	ret_delta->is = is;
	ret_delta->groups = calloc(was->ana_count + is->ana_count + 1, sizeof(uint32_t));
	if (!ret_delta->groups)
		return -ENOMEM;
	ret_delta->group_count = groups_collect(was, is, ret_delta->groups);
	is->ana_change_count = was->ana_change_count + (ret_delta->group_count > 0);
	if (!was->ana_group_counts && ret_delta->group_count == 0)
		return 0;
	is->ana_group_counts = calloc(1, counts_bytes);
	if (!is->ana_group_counts)
		return -ENOMEM;
	if (was->ana_group_counts)
		memcpy(is->ana_group_counts, was->ana_group_counts, counts_bytes);
	for (unsigned i = 0; i < ret_delta->group_count; i++)
		is->ana_group_counts[ret_delta->groups[i]] = is->ana_change_count;
	return 0;
}

static int ports_compare(struct delta *delta, struct snapshot *now)
{
	const struct snapshot *old = delta->old;

	delta->ports = calloc(old->port_count + 1, sizeof(*delta->ports));
	if (!delta->ports)
		return -ENOMEM;
	for (unsigned i = 0; i < old->port_count; i++) {
		for (unsigned k = 0; k < now->port_count; k++) {
			int res;

			if (now->ports[k].id != old->ports[i].id)
				continue;
			res = port_compare(&old->ports[i], &now->ports[k], &delta->ports[i]);
			if (res != 0)
				return res;
		}
	}
	return 0;
}

/* ---- completing a snapshot ------------------------------------------------------------------ */

static int compare_nqns(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int snapshot_complete(struct snapshot *snapshot)
{
	unsigned words = snapshot->subsystem_count / 64 + 1;

	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		struct subsystem *subsystem = snapshot->subsystems[i];

		subsystem->index = i;
		if (subsystem->host_count > 0)
			qsort(subsystem->host_nqns, subsystem->host_count,
			      sizeof(*subsystem->host_nqns), compare_nqns);
		subsystem->has_ordered_host_nqns = true;
		if (ana_index_create(subsystem, &subsystem->ana) != 0)
			return -ENOMEM;
	}
	for (unsigned i = 0; i < snapshot->port_count; i++) {
		struct port *port = &snapshot->ports[i];
		uint64_t *offers = calloc(words, sizeof(*offers));

		if (!offers)
			return -ENOMEM;
		for (unsigned k = 0; k < port->subsystem_count; k++) {
			unsigned index = port->subsystems[k]->index;

			offers[index / 64] |= 1ull << (index % 64);
		}
		port->offers = offers;
	}
	return 0;
}

int delta_prepare(const struct snapshot *old, struct snapshot *now, struct delta **ret_delta)
{
	struct delta *delta;

	*ret_delta = NULL;
	if (snapshot_complete(now) != 0)
		return -ENOMEM;
	if (!old)
		return 0;
	delta = calloc(1, sizeof(*delta));
	if (!delta)
		return -ENOMEM;
	delta->old = old;
	delta->now = now;
	delta->subsystem_count = old->subsystem_count;
	delta->port_count = old->port_count;
	if (mask_hosts_build(delta) != 0 || subsystems_compare(delta, now) != 0 ||
	    ports_compare(delta, now) != 0) {
		delta_destroy(delta);
		return -ENOMEM;
	}
	*ret_delta = delta;
	return 0;
}

void delta_destroy(struct delta *delta)
{
	if (!delta)
		return;
	for (unsigned i = 0; delta->subsystems && i < delta->subsystem_count; i++)
		free(delta->subsystems[i].changes);
	for (unsigned i = 0; delta->ports && i < delta->port_count; i++)
		free(delta->ports[i].groups);
	free(delta->subsystems);
	free(delta->ports);
	free(delta->mask_hosts);
	free(delta->mask_hosts_added);
	free(delta);
}
