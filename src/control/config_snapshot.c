/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a configuration into the snapshot that the target swaps to: opens the media that are not
 * open yet, resolves the names that ports use, and copies everything, so that the snapshot owns
 * what it refers to and the configuration may go.
 *
 * Control thread only; opening media may block. Either all media open or nothing changes.
 */
#include "base/text.h"
#include "control/config.h"
#include "control/media_registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Files are known by their spec wherever they appear; memory belongs to one namespace. */
static char *media_key(const char *nqn, const struct config_ns *ns)
{
	char *key;

	if (strncmp(ns->media, "file:", 5) == 0)
		return strdup(ns->media);
	return asprintf(&key, "%s\n%u\n%s", nqn, ns->nsid, ns->media) < 0 ? NULL : key;
}

static int ns_build(const struct config_subsystem *from, unsigned index,
		    struct media_registry *registry, struct ns *ns, struct media_error *error)
{
	const struct config_ns *wanted = &from->namespaces[index];
	char *key = media_key(from->nqn, wanted);
	struct ns_store *store;
	int res;

	if (!key)
		return -ENOMEM;
	res = media_registry_get(registry, key, wanted->media, &store, error);
	free(key);
	if (res < 0)
		return res;
	ns->nsid = wanted->nsid;
	ns->uuid = wanted->uuid;
	memcpy(ns->nguid, wanted->nguid, sizeof(ns->nguid));
	ns->is_read_only = wanted->is_read_only;
	ns->ana_group = wanted->ana_group;
	ns_bind(ns, store);
	return 0;
}

/* Fills a subsystem that the snapshot already owns, counting up as it goes. */
static int subsystem_build(const struct config_subsystem *from, struct media_registry *registry,
			   struct subsystem *to, struct config_errors *errors)
{
	struct media_error error;
	int first_failure = 0;

	text_copy(to->nqn, sizeof(to->nqn), from->nqn);
	text_copy(to->serial, sizeof(to->serial), from->serial);
	text_copy(to->model, sizeof(to->model), from->model);
	to->allows_any_host = from->allows_any_host;
	to->ana_group_max = 1;
	to->host_nqns = calloc(from->host_count + 1, sizeof(*to->host_nqns));
	to->namespaces = ns_array_create(from->ns_count);
	if (!to->host_nqns || !to->namespaces)
		return -ENOMEM;
	if (from->host_count > 0)
		memcpy(to->host_nqns, from->hosts, from->host_count * sizeof(*to->host_nqns));
	to->host_count = from->host_count;
	for (unsigned i = 0; i < from->ns_count; i++) {
		struct ns *ns = &to->namespaces[to->ns_count];
		int res;

		text_copy(error.text, sizeof(error.text), "out of memory");
		res = ns_build(from, i, registry, ns, &error);
		if (res < 0) {
			config_errors_add(errors, "%s, namespace %u (%s): %s", from->nqn,
					  from->namespaces[i].nsid, from->namespaces[i].media,
					  error.text);
			first_failure = first_failure ? first_failure : res;
			continue;
		}
		to->ns_count++;
		if (ns->ana_group > to->ana_group_max)
			to->ana_group_max = ns->ana_group;
	}
	return first_failure;
}

static bool port_wants(const struct config_port *port, const char *nqn)
{
	if (port->is_discovery_only)
		return false;
	for (unsigned i = 0; !port->offers_all && i < port->subsystem_count; i++) {
		if (strcmp(port->subsystems[i], nqn) == 0)
			return true;
	}
	return port->offers_all;
}

static int port_build(const struct config_port *from, const struct snapshot *snapshot,
		      struct port *to)
{
	to->id = from->id;
	to->listen = from->listen;
	text_copy(to->advertise_address, sizeof(to->advertise_address), from->advertise);
	to->is_discovery_only = from->is_discovery_only;
	to->zero_copy = from->zero_copy;
	to->zero_copy_min_bytes = from->zero_copy_min_bytes;
	to->subsystems = calloc(snapshot->subsystem_count + 1, sizeof(struct subsystem *));
	to->ana = calloc(from->ana_count + 1, sizeof(*to->ana));
	if (!to->subsystems || !to->ana)
		return -ENOMEM;
	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		if (port_wants(from, snapshot->subsystems[i]->nqn))
			to->subsystems[to->subsystem_count++] = snapshot->subsystems[i];
	}
	/* The snapshot lists only what is not optimized. */
	for (unsigned i = 0; i < from->ana_count; i++) {
		if (from->ana[i].state != ANA_OPTIMIZED)
			to->ana[to->ana_count++] = from->ana[i];
	}
	return 0;
}

static int snapshot_fill(const struct config *config, struct media_registry *registry,
			 struct snapshot *snapshot, struct config_errors *errors)
{
	int first_failure = 0;

	snapshot->limits = config->limits;
	snapshot->subsystems = calloc(config->subsystem_count + 1, sizeof(struct subsystem *));
	snapshot->ports = calloc(config->port_count + 1, sizeof(*snapshot->ports));
	if (!snapshot->subsystems || !snapshot->ports)
		return -ENOMEM;
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		struct subsystem *subsystem = calloc(1, sizeof(*subsystem));
		int res;

		if (!subsystem)
			return -ENOMEM;
		snapshot->subsystems[snapshot->subsystem_count++] = subsystem;
		res = subsystem_build(&config->subsystems[i], registry, subsystem, errors);
		if (res < 0)
			first_failure = first_failure ? first_failure : res;
	}
	for (unsigned i = 0; i < config->port_count; i++) {
		int res = port_build(&config->ports[i], snapshot,
				     &snapshot->ports[snapshot->port_count++]);

		if (res < 0)
			return res;
	}
	return first_failure;
}

int config_build_snapshot(const struct config *config, struct media_registry *registry,
			  uint64_t discovery_generation, struct snapshot **ret_snapshot,
			  struct config_errors *errors)
{
	struct snapshot *snapshot = snapshot_create();
	unsigned before = errors->count;
	int res = -ENOMEM;

	media_registry_begin(registry);
	if (snapshot) {
		snapshot->discovery_generation = discovery_generation;
		res = snapshot_fill(config, registry, snapshot, errors);
	}
	if (res == 0) {
		*ret_snapshot = snapshot;
		return 0;
	}
	if (errors->count == before)
		config_errors_add(errors, "%s", strerror(-res));
	if (snapshot)
		snapshot_destroy(snapshot);
	media_registry_rollback(registry);
	return res;
}
