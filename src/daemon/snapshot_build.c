/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the snapshot that the target swaps to out of a configuration. Opens the media that are not
 * open yet, resolves the names that ports use, and copies everything: the snapshot owns what it
 * refers to, so the configuration may be freed.
 *
 * Control thread only; opening media may block. Either all media open or nothing changes. Media
 * that open late are begun, and the snapshot is built anew when they are open.
 */
#include "daemon/snapshot_build.h"
#include "base/clock.h"
#include "base/text.h"
#include "cluster/peers.h"
#include "config/config_mask.h"
#include "config/config_parse.h"
#include "config/fields.h"
#include "daemon/ana_change.h"
#include "daemon/ana_hold.h"
#include "daemon/media_registry.h"
#include "daemon/pool.h"
#include "target/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Shared by all namespaces of one snapshot. */
struct builder {
	struct media_registry *registry;
	struct snapshot *snapshot;
	struct mask_builder masks;
	struct config_errors *errors;
	unsigned member; /* this member's lock, when the document has a cluster */
	bool has_lost;   /* a namespace has a lost medium, or is withheld */
};

/* Copies the label for the snapshot, which has room for one per namespace. */
static int label_copy(struct snapshot *snapshot, const char *label, const char **ret_label)
{
	char *copy;

	*ret_label = NULL;
	if (!label)
		return 0;
	copy = strdup(label);
	if (!copy)
		return -ENOMEM;
	snapshot->labels[snapshot->label_count++] = copy;
	*ret_label = copy;
	return 0;
}

static int ns_build(struct builder *builder, const struct config_subsystem *from, unsigned index,
		    struct subsystem *subsystem, struct media_error *error)
{
	const struct config_ns *wanted = &from->namespaces[index];
	struct ns *ns = &subsystem->namespaces[subsystem->ns_count];
	const struct media_wish wish = {
		.nqn = from->nqn,
		.nsid = wanted->nsid,
		.spec = wanted->media,
		.uuid = &wanted->uuid,
		.owner = subsystem->live,
		.is_protected = wanted->write_protect == NS_WRITE_PROTECT_PERMANENT,
		.lifts_protection = wanted->is_protect_given &&
				    wanted->write_protect != NS_WRITE_PROTECT_PERMANENT,
		.is_clustered = wanted->is_clustered,
		.member = builder->member,
		.must_not_wait = media_registry_has_started(builder->registry),
	};
	struct ns_backing *backing;
	bool has_passed;
	int res = mask_builder_get(&builder->masks, wanted, &ns->mask);

	if (res == 0)
		res = label_copy(builder->snapshot, wanted->label, &ns->label);
	if (res == 0)
		res = media_registry_get(builder->registry, &wish, &backing, &has_passed, error);
	if (res < 0)
		return res;
	config_object_serve(&config_ns_object, wanted, ns);
	ns->is_read_only |= wanted->write_protect != NS_WRITE_PROTECT_NONE;
	ns->is_formatting = media_registry_is_formatting(builder->registry, &wanted->uuid);
	ns_bind(ns, backing);
	if (wanted->is_clustered && !media_is_lost(ns->media) &&
	    media_registry_peers(builder->registry))
		ns->is_withheld = !peers_may_serve(media_registry_peers(builder->registry), ns);
	if (ns->is_withheld)
		media_registry_hold(builder->registry, &wish);
	ns->is_withheld |= has_passed;
	if (media_is_lost(ns->media) || ns->is_withheld) {
		ns->ana_group = TARGET_ANA_GROUP_LOST;
		builder->has_lost = true;
	}
	return 0;
}

/* A failure counts more than a medium that is still opening; the first failure counts. */
static int result_join(int first, int res)
{
	return first == 0 || first == -EINPROGRESS ? (res != 0 ? res : first) : first;
}

static int namespaces_build(struct builder *builder, const struct config_subsystem *from,
			    struct subsystem *to)
{
	struct media_error error;
	int joined = 0;

	for (unsigned i = 0; i < from->ns_count; i++) {
		struct ns *ns = &to->namespaces[to->ns_count];
		int res;

		text_copy(error.text, sizeof(error.text), "out of memory");
		res = ns_build(builder, from, i, to, &error);
		joined = result_join(joined, res);
		if (res == -EINPROGRESS)
			continue;
		if (res < 0) {
			config_errors_add(builder->errors, "%s, namespace %u (%s): %s", from->nqn,
					  from->namespaces[i].nsid, from->namespaces[i].media,
					  error.text);
			continue;
		}
		to->ns_count++;
		if (ns->ana_group > to->ana_group_max)
			to->ana_group_max = ns->ana_group;
	}
	return joined;
}

/*
 * TNVMCAP is all capacity of the subsystem, in the pool or not. Only the unused part of the pool
 * can become a namespace. The sizes are those of the media, because a file may be larger than its
 * spec.
 */
static void capacity_account(const struct config_subsystem *from, struct subsystem *to)
{
	uint64_t used = 0, outside = 0;

	for (unsigned i = 0; i < to->ns_count; i++) {
		const struct media *media = to->namespaces[i].media;
		char *path = from->pool_folder ? config_media_path(media->spec) : NULL;

		if (path && config_path_in_folder(path, from->pool_folder))
			used += media->size_bytes;
		else
			outside += media->size_bytes;
		free(path);
	}
	to->capacity_bytes = (used > from->pool_bytes ? used : from->pool_bytes) + outside;
	to->capacity_unused_bytes = used < from->pool_bytes ? from->pool_bytes - used : 0;
}

/* Fills a subsystem that the snapshot already owns. Its counts grow on the way. */
static int subsystem_build(struct builder *builder, const struct config_subsystem *from,
			   struct subsystem *to)
{
	int res = 0;

	config_object_serve(&config_subsystem_object, from, to);
	to->ana_group_max = 1;
	to->host_nqns = calloc(from->host_count + 1, sizeof(*to->host_nqns));
	to->host_rights = calloc(from->host_rights_count + 1, sizeof(*to->host_rights));
	to->namespaces = ns_array_create(from->ns_count);
	if (!to->host_nqns || !to->host_rights || !to->namespaces)
		return -ENOMEM;
	to->rights_of_all = from->rights_of_all;
	to->host_rights_count = from->host_rights_count;
	for (unsigned i = 0; i < from->host_rights_count; i++)
		to->host_rights[i] = from->host_rights[i];
	if (from->host_count > 0)
		memcpy(to->host_nqns, from->hosts, from->host_count * sizeof(*to->host_nqns));
	to->host_count = from->host_count;
	/* A subsystem that the program adds by itself keeps no live state. */
	if (!from->is_implied)
		res = media_registry_get_subsystem(builder->registry, from->nqn, &to->live);
	if (res < 0) {
		config_errors_add(builder->errors, "%s: cannot read its saved state: %s", from->nqn,
				  strerror(-res));
		return res;
	}
	if (from->pool_folder)
		res = pool_folder_prepare(from->pool_folder);
	if (res < 0) {
		config_errors_add(builder->errors, "%s, pool %s: %s", from->nqn, from->pool_folder,
				  strerror(-res));
		return res;
	}
	res = namespaces_build(builder, from, to);
	capacity_account(from, to);
	return res;
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

static int port_build(const struct config_port *from, const struct builder *builder,
		      struct port *to)
{
	const struct snapshot *snapshot = builder->snapshot;

	config_object_serve(&config_port_object, from, to);
	to->transport = transport_of(from->transport);
	/* A port without a transport would be served as TCP. */
	if (!to->transport) {
		config_errors_add(builder->errors,
				  "port %u: the target has no transport of type %d; use "
				  "\"transport\": \"tcp\"",
				  from->id, from->transport);
		return -EPROTONOSUPPORT;
	}
	to->listen = from->listen;
	to->subsystems = calloc(snapshot->subsystem_count + 1, sizeof(struct subsystem *));
	to->ana = calloc(from->ana_count + 2, sizeof(*to->ana));
	if (!to->subsystems || !to->ana)
		return -ENOMEM;
	for (unsigned i = 0; i < snapshot->subsystem_count; i++) {
		if (port_wants(from, snapshot->subsystems[i]->nqn))
			to->subsystems[to->subsystem_count++] = snapshot->subsystems[i];
	}
	/* The snapshot lists only groups that are not optimized. */
	for (unsigned i = 0; i < from->ana_count; i++) {
		if (from->ana[i].state != ANA_OPTIMIZED)
			to->ana[to->ana_count++] = from->ana[i];
	}
	if (builder->has_lost)
		to->ana[to->ana_count++] =
			(struct ana_group_state){TARGET_ANA_GROUP_LOST, ANA_INACCESSIBLE};
	return 0;
}

static int subsystems_build(struct builder *builder, const struct config *config)
{
	struct snapshot *snapshot = builder->snapshot;
	int joined = 0;

	for (unsigned i = 0; i < config->subsystem_count; i++) {
		struct subsystem *subsystem = calloc(1, sizeof(*subsystem));

		if (!subsystem)
			return -ENOMEM;
		snapshot->subsystems[snapshot->subsystem_count++] = subsystem;
		joined = result_join(joined,
				     subsystem_build(builder, &config->subsystems[i], subsystem));
	}
	return joined;
}

int snapshot_fill_ana(struct media_registry *registry, struct snapshot *snapshot)
{
	struct list *holds = media_registry_ana_holds(registry);
	uint64_t now_ns = clock_monotonic_ns();
	int res = 0;

	ana_holds_begin(holds);
	for (unsigned i = 0; res == 0 && i < snapshot->port_count; i++)
		res = ana_holds_apply(holds, &snapshot->ports[i], now_ns);
	for (unsigned i = 0; res == 0 && i < snapshot->port_count; i++)
		ana_transitions_apply(media_registry_ana_transitions(registry),
				      &snapshot->ports[i]);
	return res;
}

static int snapshot_fill(struct builder *builder, const struct config *config)
{
	struct snapshot *snapshot = builder->snapshot;
	int res;

	snapshot->limits = config->limits;
	snapshot->subsystems = calloc(config->subsystem_count + 1, sizeof(struct subsystem *));
	snapshot->ports = calloc(config->port_count + 1, sizeof(*snapshot->ports));
	if (!snapshot->subsystems || !snapshot->ports)
		return -ENOMEM;
	res = mask_builder_init(&builder->masks, config, snapshot);
	if (res == 0)
		res = subsystems_build(builder, config);
	mask_builder_end(&builder->masks);
	for (unsigned i = 0; res == 0 && i < config->port_count; i++)
		res = port_build(&config->ports[i], builder,
				 &snapshot->ports[snapshot->port_count++]);
	return res == 0 ? snapshot_fill_ana(builder->registry, snapshot) : res;
}

int snapshot_from_config(const struct config *config, struct media_registry *registry,
			 uint64_t discovery_generation, struct snapshot **ret_snapshot,
			 struct config_errors *errors)
{
	struct builder builder = {
		.registry = registry,
		.snapshot = snapshot_create(),
		.errors = errors,
		.member = config->cluster ? config->cluster->peers.lock : 0,
	};
	bool is_transaction = media_registry_begin(registry);
	unsigned before = errors->count;
	struct media_error error;
	int res = -ENOMEM;

	if (builder.snapshot) {
		builder.snapshot->discovery_generation = discovery_generation;
		res = snapshot_fill(&builder, config);
	}
	if (res == 0 && is_transaction && config->cluster && !media_registry_has_started(registry))
		media_registry_settle(registry, builder.member);
	if (res == 0) {
		res = media_registry_sync(registry, &error);
		if (res < 0)
			config_errors_add(errors, "%s", error.text);
	}
	if (res == 0) {
		*ret_snapshot = builder.snapshot;
		return 0;
	}
	if (res != -EINPROGRESS && errors->count == before)
		config_errors_add(errors, "%s", strerror(-res));
	if (builder.snapshot)
		snapshot_destroy(builder.snapshot);
	if (is_transaction && res != -EINPROGRESS)
		media_registry_rollback(registry);
	return res;
}
