/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: the immutable configuration that reactors read without locks.
 *
 * Built and freed on the control reactor. The find functions run on any reactor. apply.c puts a
 * snapshot in force and decides when a former one can be freed.
 */
#include "base/sorted.h"
#include "ns/health.h"
#include "target/ana_index.h"
#include "target/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(struct ns, uuid) == CACHE_LINE_BYTES, "an I/O reads one line of an ns");
_Static_assert(sizeof(struct ns) % CACHE_LINE_BYTES == 0, "which begins a line in arrays");

struct ns *ns_array_create(unsigned count)
{
	return cache_line_alloc((count + 1) * sizeof(struct ns));
}

void ns_bind(struct ns *ns, struct ns_backing *taken_backing)
{
	struct media *media = ns_backing_media(taken_backing);

	ns->backing = taken_backing;
	ns->media = media;
	ns->locals = ns_live_locals(ns_backing_live(taken_backing));
	ns->mapped = media->ops->map ? media->ops->map(media, 0, media->size_bytes) : NULL;
	ns->block_shift = (uint32_t)__builtin_ctz(media->block_bytes);
	ns->block_count = media->size_bytes >> ns->block_shift;
	ns->is_read_only |= media->is_read_only;
}

void target_limits_default(struct target_limits *limits)
{
	*limits = (struct target_limits){
		.connections_max = 10000,
		.connections_per_host_max = 2048,
		.ctrls_max = 4096,
		.ctrls_per_host_max = 512,
		.io_queues_max = 128,
		.queue_size_max = 1024,
		.in_capsule_bytes = 8192,
		.transfer_max_bytes = 512 * 1024,
		.ic_timeout_ms = 10000,
		.connect_timeout_ms = 10000,
		.data_timeout_ms = 30000,
		.quiesce_ms = 1000,
		.kato_max_ms = 0,
		.idle_timeout_ms = 600000,
		.allows_header_digest = true,
		.allows_data_digest = true,
	};
}

struct snapshot *snapshot_create(void)
{
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

	if (!snapshot)
		return NULL;
	target_limits_default(&snapshot->limits);
	list_init(&snapshot->node);
	return snapshot;
}

static void subsystem_destroy(struct subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		ns_backing_put(subsystem->namespaces[i].backing);
	subsystem_live_put(subsystem->live);
	ana_index_destroy(subsystem->ana);
	free(subsystem->namespaces);
	free(subsystem->formers);
	free(subsystem->host_nqns);
	free(subsystem->host_rights);
	free(subsystem);
}

void snapshot_destroy(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	for (unsigned i = 0; i < snapshot->port_count; i++) {
		free(snapshot->ports[i].subsystems);
		free(snapshot->ports[i].ana);
		free(snapshot->ports[i].offers);
		free(snapshot->ports[i].ana_group_counts);
	}
	for (unsigned i = 0; i < snapshot->subsystem_count; i++)
		subsystem_destroy(snapshot->subsystems[i]);
	free(snapshot->ports);
	free(snapshot->subsystems);
	free(snapshot->inflight);
	for (unsigned i = 0; i < snapshot->mask_count; i++)
		free(snapshot->masks[i]);
	for (unsigned i = 0; i < snapshot->label_count; i++)
		free(snapshot->labels[i]);
	free(snapshot->masks);
	free(snapshot->labels);
	free(snapshot->mask_hosts);
	free(snapshot);
}

const struct subsystem *snapshot_find_subsystem(const struct snapshot *snapshot, const char *nqn)
{
	struct subsystem *const *all = snapshot->subsystems;
	unsigned count = snapshot->subsystem_count;
	unsigned at = SORTED_PLACE(i, count, strcmp(all[i]->nqn, nqn) < 0);

	return at < count && strcmp(all[at]->nqn, nqn) == 0 ? all[at] : NULL;
}

const struct port *snapshot_find_port(const struct snapshot *snapshot, uint16_t port_id)
{
	for (unsigned i = 0; i < snapshot->port_count; i++) {
		if (snapshot->ports[i].id == port_id)
			return &snapshot->ports[i];
	}
	return NULL;
}

const struct ns *subsystem_search_ns(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned at;

	if (nsid == 0)
		return NULL;
	at = subsystem_ns_after(subsystem, nsid - 1);
	if (at < subsystem->ns_count && subsystem->namespaces[at].nsid == nsid)
		return &subsystem->namespaces[at];
	return NULL;
}

unsigned subsystem_ns_after(const struct subsystem *subsystem, uint32_t nsid)
{
	return SORTED_PLACE(i, subsystem->ns_count, subsystem->namespaces[i].nsid <= nsid);
}

/* The index of `name` in an ascending list, or `count` when the name is missing. */
static unsigned names_find(char (*names)[NVME_NQN_BYTES], unsigned count, const char *name)
{
	unsigned at = SORTED_PLACE(i, count, strcmp(names[i], name) < 0);

	return at < count && strcmp(names[at], name) == 0 ? at : count;
}

bool subsystem_allows_host(const struct subsystem *subsystem, const char *host_nqn)
{
	if (subsystem->allows_any_host)
		return true;
	if (subsystem->has_ordered_host_nqns)
		return names_find(subsystem->host_nqns, subsystem->host_count, host_nqn) !=
		       subsystem->host_count;
	for (unsigned i = 0; i < subsystem->host_count; i++) {
		if (strcmp(subsystem->host_nqns[i], host_nqn) == 0)
			return true;
	}
	return false;
}

bool snapshot_allows_host(const struct snapshot *snapshot, const char *host_nqn)
{
	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		if (subsystem_allows_host(snapshot->subsystems[i], host_nqn))
			return true;
	}
	return false;
}

uint32_t snapshot_host_index(const struct snapshot *snapshot, const char *host_nqn)
{
	unsigned at = names_find(snapshot->mask_hosts, snapshot->mask_host_count, host_nqn);

	return at == snapshot->mask_host_count ? NS_MASK_HOST_OTHER : at;
}

bool ns_is_allocated_for(const struct ns *ns, uint32_t host_index)
{
	const struct ns_mask *mask = ns->mask;

	if (ns_mask_has(mask, host_index))
		return true;
	if (mask->has_others)
		return false;
	for (uint32_t i = 0; i < (mask->host_count + 63) / 64; i++) {
		if (mask->words[i] != 0)
			return false;
	}
	return true;
}

bool port_offers(const struct port *port, const struct subsystem *subsystem)
{
	if (port->offers)
		return (port->offers[subsystem->index / 64] >> (subsystem->index % 64) & 1) != 0;
	for (unsigned i = 0; i < port->subsystem_count; i++) {
		if (port->subsystems[i] == subsystem)
			return true;
	}
	return false;
}

enum ana_state port_ana_state(const struct port *port, uint32_t group)
{
	unsigned at = SORTED_PLACE(i, port->ana_count, port->ana[i].group < group);

	return at < port->ana_count && port->ana[at].group == group ? port->ana[at].state
								    : ANA_OPTIMIZED;
}

nvme_status port_ana_status(const struct port *port, uint32_t group)
{
	if (port->ana_count == 0)
		return NVME_SC_SUCCESS;
	switch (port_ana_state(port, group)) {
	case ANA_INACCESSIBLE:
		return NVME_SC_ANA_INACCESSIBLE;
	case ANA_PERSISTENT_LOSS:
		return NVME_SC_ANA_PERSISTENT_LOSS;
	case ANA_CHANGE:
		return NVME_SC_ANA_TRANSITION;
	case ANA_OPTIMIZED:
	case ANA_NON_OPTIMIZED:
		break;
	}
	return NVME_SC_SUCCESS;
}
