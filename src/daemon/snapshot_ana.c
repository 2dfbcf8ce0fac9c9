/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the snapshot in force with other ANA states: see daemon/snapshot_build.h. Nothing is
 * opened, and the transaction of a change under way is left alone.
 *
 * Control thread only.
 */
#include "daemon/snapshot_build.h"

#include "ns/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A copy of an array with room for one more element. NULL: out of memory. */
static void *array_copy(const void *from, size_t count, size_t bytes)
{
	void *copy = calloc(count + 1, bytes);

	if (copy && count > 0)
		memcpy(copy, from, count * bytes);
	return copy;
}

static int masks_copy(const struct snapshot *from, struct snapshot *to)
{
	to->mask_hosts =
		array_copy(from->mask_hosts, from->mask_host_count, sizeof(*to->mask_hosts));
	to->masks = calloc(from->mask_count + 1, sizeof(*to->masks));
	if (!to->mask_hosts || !to->masks)
		return -ENOMEM;
	to->mask_host_count = from->mask_host_count;
	for (unsigned i = 0; i < from->mask_count; i++) {
		const struct ns_mask *mask = from->masks[i];
		size_t bytes =
			sizeof(*mask) + (mask->host_count + 63) / 64 * sizeof(mask->words[0]);
		struct ns_mask *copy = malloc(bytes);

		if (!copy)
			return -ENOMEM;
		memcpy(copy, mask, bytes);
		to->masks[to->mask_count++] = copy;
	}
	return 0;
}

/* Namespaces that follow each other often share a mask, or have masks that follow each other. */
static const struct ns_mask *mask_of(const struct snapshot *from, const struct snapshot *to,
				     const struct ns_mask *mask, unsigned *cursor)
{
	while (from->masks[*cursor % from->mask_count] != mask)
		++*cursor;
	*cursor %= from->mask_count;
	return to->masks[*cursor];
}

/* Without what the target sets. */
static int ns_copy(const struct snapshot *from, struct snapshot *to, const struct ns *was,
		   struct ns *ns, unsigned *cursor)
{
	*ns = *was;
	ns->format_generation = 0;
	ns->identity_generation = 0;
	ns_backing_get(ns->backing);
	if (was->mask)
		ns->mask = mask_of(from, to, was->mask, cursor);
	if (!was->label)
		return 0;
	ns->label = strdup(was->label);
	if (!ns->label)
		return -ENOMEM;
	to->labels[to->label_count++] = (char *)ns->label;
	return 0;
}

static int subsystem_copy(const struct snapshot *from, struct snapshot *to,
			  const struct subsystem *was, struct subsystem *subsystem,
			  unsigned *cursor)
{
	int res = 0;

	*subsystem = (struct subsystem){
		.allows_any_host = was->allows_any_host,
		.rights_of_all = was->rights_of_all,
		.ana_group_max = was->ana_group_max,
		.capacity_bytes = was->capacity_bytes,
		.capacity_unused_bytes = was->capacity_unused_bytes,
	};
	memcpy(subsystem->nqn, was->nqn, sizeof(was->nqn));
	memcpy(subsystem->serial, was->serial, sizeof(was->serial));
	memcpy(subsystem->model, was->model, sizeof(was->model));
	subsystem->host_nqns = array_copy(was->host_nqns, was->host_count, sizeof(*was->host_nqns));
	subsystem->host_rights =
		array_copy(was->host_rights, was->host_rights_count, sizeof(*was->host_rights));
	subsystem->namespaces = ns_array_create(was->ns_count);
	if (!subsystem->host_nqns || !subsystem->host_rights || !subsystem->namespaces)
		return -ENOMEM;
	subsystem->host_count = was->host_count;
	subsystem->host_rights_count = was->host_rights_count;
	subsystem->live = was->live ? subsystem_live_get(was->live) : NULL;
	for (unsigned i = 0; res == 0 && i < was->ns_count; i++)
		res = ns_copy(from, to, &was->namespaces[i],
			      &subsystem->namespaces[subsystem->ns_count++], cursor);
	return res;
}

static const struct config_port *config_port_of(const struct config *config, uint16_t id)
{
	for (unsigned i = 0; i < config->port_count; i++) {
		if (config->ports[i].id == id)
			return &config->ports[i];
	}
	return NULL;
}

/* Without what the target sets. */
static int port_copy(const struct snapshot *to, const struct port *was,
		     const struct config_port *config, struct port *port)
{
	unsigned count = config ? config->ana_count : 0;

	*port = *was;
	port->offers = NULL;
	port->ana_group_counts = NULL;
	port->ana_change_count = 0;
	port->ana_count = 0;
	port->subsystems = calloc(was->subsystem_count + 1, sizeof(*port->subsystems));
	port->ana = calloc(count + 2, sizeof(*port->ana));
	if (!port->subsystems || !port->ana)
		return -ENOMEM;
	for (unsigned i = 0; i < was->subsystem_count; i++)
		port->subsystems[i] = to->subsystems[was->subsystems[i]->index];
	for (unsigned i = 0; i < count; i++) {
		if (config->ana[i].state != ANA_OPTIMIZED)
			port->ana[port->ana_count++] = config->ana[i];
	}
	if (was->ana_count > 0 && was->ana[was->ana_count - 1].group == TARGET_ANA_GROUP_LOST)
		port->ana[port->ana_count++] = was->ana[was->ana_count - 1];
	return 0;
}

static unsigned labels_max(const struct snapshot *from)
{
	unsigned count = 0;

	for (unsigned i = 0; i < from->subsystem_count; i++)
		count += from->subsystems[i]->ns_count;
	return count;
}

static int snapshot_copy(const struct snapshot *from, const struct config *config,
			 struct snapshot *to)
{
	unsigned cursor = 0;
	int res;

	to->limits = from->limits;
	to->subsystems = calloc(from->subsystem_count + 1, sizeof(struct subsystem *));
	to->ports = calloc(from->port_count + 1, sizeof(*to->ports));
	to->labels = calloc(labels_max(from) + 1, sizeof(*to->labels));
	if (!to->subsystems || !to->ports || !to->labels)
		return -ENOMEM;
	res = masks_copy(from, to);
	for (unsigned i = 0; res == 0 && i < from->subsystem_count; i++) {
		struct subsystem *subsystem = calloc(1, sizeof(*subsystem));

		if (!subsystem)
			return -ENOMEM;
		to->subsystems[to->subsystem_count++] = subsystem;
		res = subsystem_copy(from, to, from->subsystems[i], subsystem, &cursor);
	}
	for (unsigned i = 0; res == 0 && i < from->port_count; i++)
		res = port_copy(to, &from->ports[i], config_port_of(config, from->ports[i].id),
				&to->ports[to->port_count++]);
	return res;
}

int snapshot_with_ana(const struct snapshot *in_force, const struct config *config,
		      struct media_registry *registry, uint64_t discovery_generation,
		      struct snapshot **ret_snapshot)
{
	struct snapshot *snapshot = snapshot_create();
	int res = -ENOMEM;

	if (snapshot) {
		snapshot->discovery_generation = discovery_generation;
		res = snapshot_copy(in_force, config, snapshot);
	}
	if (res == 0)
		res = snapshot_fill_ana(registry, snapshot);
	if (res == 0)
		*ret_snapshot = snapshot;
	else
		snapshot_destroy(snapshot);
	return res;
}
