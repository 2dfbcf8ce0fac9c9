/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules between the elements of a configuration: names, NSIDs, identities, files, port IDs and
 * addresses are unique, and a port offers only existing subsystems. Also the few changes that the
 * daemon itself makes: the well-known discovery port, and the private subsystem of the self-check.
 * Control thread only.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "config/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct config_subsystem *config_find_subsystem(const struct config *config, const char *nqn)
{
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		if (strcmp(config->subsystems[i].nqn, nqn) == 0)
			return &config->subsystems[i];
	}
	return NULL;
}

static bool addr_clash(const struct net_addr *a, const struct net_addr *b)
{
	if (net_addr_port(a) != net_addr_port(b) || net_addr_port(a) == 0)
		return false;
	if (net_addr_is_ipv6(a) == net_addr_is_ipv6(b))
		return net_addr_same_host(a, b) || net_addr_is_any(a) || net_addr_is_any(b);
	return false;
}

bool config_ports_clash(const struct config_port *a, const struct config_port *b)
{
	return a->transport == b->transport && addr_clash(&a->listen, &b->listen);
}

/* Properties that must differ between any two namespaces. */
enum ns_trait {
	NS_TRAIT_NSID, /* compared within a subsystem */
	NS_TRAIT_UUID,
	NS_TRAIT_PATH,
	NS_TRAIT_COUNT,
};

/* A namespace with its place in the document, its file, and the namespaces that it repeats. */
struct ns_place {
	const struct config_ns *ns;
	unsigned subsystem;
	unsigned index;
	char *path;                                     /* NULL: no file */
	const struct ns_place *repeats[NS_TRAIT_COUNT]; /* first one with the same value, or NULL */
};

static int nsid_order(const struct ns_place *a, const struct ns_place *b)
{
	if (a->subsystem != b->subsystem)
		return a->subsystem < b->subsystem ? -1 : 1;
	return a->ns->nsid < b->ns->nsid ? -1 : a->ns->nsid > b->ns->nsid;
}

static int uuid_order(const struct ns_place *a, const struct ns_place *b)
{
	return memcmp(a->ns->uuid.bytes, b->ns->uuid.bytes, sizeof(a->ns->uuid.bytes));
}

static int path_order(const struct ns_place *a, const struct ns_place *b)
{
	return strcmp(a->path, b->path);
}

static int (*const trait_orders[])(const struct ns_place *a, const struct ns_place *b) = {
	[NS_TRAIT_NSID] = nsid_order,
	[NS_TRAIT_UUID] = uuid_order,
	[NS_TRAIT_PATH] = path_order,
};

static bool ns_has_trait(const struct ns_place *place, enum ns_trait trait)
{
	switch (trait) {
	case NS_TRAIT_UUID:
		return !uuid_is_nil(&place->ns->uuid);
	case NS_TRAIT_PATH:
		return place->path != NULL;
	default:
		return true;
	}
}

/* Orders equal values as in the document, which is the order of their addresses. */
static int by_trait(const void *a, const void *b, void *trait)
{
	const struct ns_place *x = *(struct ns_place *const *)a, *y = *(struct ns_place *const *)b;
	int order = trait_orders[*(enum ns_trait *)trait](x, y);

	return order != 0 ? order : x < y ? -1 : x > y;
}

/* Sorts, so that equal values are neighbours: a document may have many thousands. */
static void repeats_find(struct ns_place *places, unsigned count, enum ns_trait trait,
			 struct ns_place **sorted)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		if (ns_has_trait(&places[i], trait))
			sorted[n++] = &places[i];
	}
	qsort_r(sorted, n, sizeof(struct ns_place *), by_trait, &trait);
	for (unsigned i = 1; i < n; i++) {
		const struct ns_place *before = sorted[i - 1];

		if (trait_orders[trait](before, sorted[i]) == 0)
			sorted[i]->repeats[trait] =
				before->repeats[trait] ? before->repeats[trait] : before;
	}
}

static void repeats_complain(struct config_cursor *at, const struct ns_place *place)
{
	const struct ns_place *by_nsid = place->repeats[NS_TRAIT_NSID];
	const struct ns_place *by_uuid = place->repeats[NS_TRAIT_UUID];
	const struct ns_place *by_path = place->repeats[NS_TRAIT_PATH];
	size_t mark;

	if (!by_nsid && !by_uuid && !by_path)
		return;
	mark = config_cursor_enter(at, "subsystems", place->subsystem);
	config_cursor_enter(at, "namespaces", place->index);
	if (by_nsid)
		config_complain(at, "nsid", "%u is used by namespaces[%u] too", place->ns->nsid,
				by_nsid->index);
	if (by_uuid)
		config_complain(at, "uuid",
				"is that of subsystems[%u].namespaces[%u] too; every namespace "
				"needs its own",
				by_uuid->subsystem, by_uuid->index);
	if (by_path)
		config_complain(at, "media",
				"%s is used by subsystems[%u].namespaces[%u] too; a file holds one "
				"namespace",
				place->path, by_path->subsystem, by_path->index);
	config_cursor_leave(at, mark);
}

static unsigned ns_total(const struct config *config)
{
	unsigned total = 0;

	for (unsigned i = 0; i < config->subsystem_count; i++)
		total += config->subsystems[i].ns_count;
	return total;
}

/* Fills in the order of the document. Returns the number of places. */
static unsigned places_fill(const struct config *config, struct ns_place *places)
{
	unsigned count = 0;

	for (unsigned s = 0; s < config->subsystem_count; s++) {
		const struct config_subsystem *subsystem = &config->subsystems[s];

		for (unsigned i = 0; i < subsystem->ns_count; i++) {
			places[count++] = (struct ns_place){
				.ns = &subsystem->namespaces[i],
				.subsystem = s,
				.index = i,
				.path = config_media_path(subsystem->namespaces[i].media),
			};
		}
	}
	return count;
}

static void namespaces_check(struct config_cursor *at, const struct config *config)
{
	unsigned total = ns_total(config);
	struct ns_place *places = calloc(total + 1, sizeof(*places));
	struct ns_place **sorted = calloc(total + 1, sizeof(struct ns_place *));
	unsigned count = 0;

	if (!places || !sorted) {
		config_complain_memory(at, NULL);
	} else {
		count = places_fill(config, places);
		for (enum ns_trait trait = 0; trait < NS_TRAIT_COUNT; trait++)
			repeats_find(places, count, trait, sorted);
	}
	for (unsigned i = 0; i < count; i++) {
		repeats_complain(at, &places[i]);
		free(places[i].path);
	}
	free(sorted);
	free(places);
}

static void subsystems_check(struct config_cursor *at, const struct config *config)
{
	for (unsigned s = 1; s < config->subsystem_count; s++) {
		size_t mark = config_cursor_enter(at, "subsystems", s);

		for (unsigned f = 0; f < s; f++) {
			if (config->subsystems[s].nqn[0] != 0 &&
			    strcmp(config->subsystems[f].nqn, config->subsystems[s].nqn) == 0)
				config_complain(at, "nqn", "%s is the name of subsystems[%u] too",
						config->subsystems[s].nqn, f);
		}
		config_cursor_leave(at, mark);
	}
}

static void port_check(struct config_cursor *at, const struct config *config, unsigned index)
{
	const struct config_port *port = &config->ports[index];
	char text[NET_ADDR_TEXT_BYTES];

	for (unsigned i = 0; i < index; i++) {
		if (config->ports[i].id == port->id)
			config_complain(at, "id", "%u is the id of ports[%u] too", port->id, i);
		if (config_ports_clash(&config->ports[i], port))
			config_complain(at, "address", "%s is covered by ports[%u] already",
					net_addr_format(&port->listen, text), i);
	}
	for (unsigned i = 0; i < port->subsystem_count; i++) {
		if (!config_find_subsystem(config, port->subsystems[i]))
			config_complain(at, "subsystems",
					"%s does not exist; define it under \"subsystems\", or "
					"correct the name",
					port->subsystems[i]);
	}
}

void config_cross_check(struct config_cursor *at, const struct config *config)
{
	subsystems_check(at, config);
	config_cluster_check(at, config);
	namespaces_check(at, config);
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		size_t mark = config_cursor_enter(at, "subsystems", i);

		config_pool_check(at, config, i);
		config_cursor_leave(at, mark);
	}
	for (unsigned i = 0; i < config->port_count; i++) {
		size_t mark = config_cursor_enter(at, "ports", i);

		port_check(at, config, i);
		config_cursor_leave(at, mark);
	}
}

static const struct config_port *config_find_port(const struct config *config, uint16_t id)
{
	for (unsigned i = 0; i < config->port_count; i++) {
		if (config->ports[i].id == id)
			return &config->ports[i];
	}
	return NULL;
}

bool config_add_discovery_port(struct config *config, const struct net_addr *addr)
{
	const struct config_port wanted = {.transport = DISCOVERY_TCP, .listen = *addr};
	struct config_port *grown;
	uint16_t id = CONFIG_DISCOVERY_PORT;
	unsigned at;

	for (unsigned i = 0; i < config->port_count; i++) {
		if (config_ports_clash(&config->ports[i], &wanted))
			return false;
	}
	if (config->port_count >= TARGET_PORTS_MAX)
		return false;
	grown = reallocarray(config->ports, config->port_count + 1, sizeof(*grown));
	if (!grown)
		return false;
	config->ports = grown;
	while (config_find_port(config, id))
		id--;
	for (at = 0; at < config->port_count && grown[at].id < id; at++)
		;
	memmove(&grown[at + 1], &grown[at], (config->port_count - at) * sizeof(*grown));
	grown[at] = wanted;
	config_port_init(&grown[at], id);
	grown[at].offers_all = false;
	grown[at].is_discovery_only = true;
	grown[at].is_implied = true;
	config->port_count++;
	return true;
}

/* The first ANA group that is optimized on this port, because the port does not list it. */
static uint32_t optimized_group(const struct config_port *port)
{
	for (uint32_t group = 1; group < CONFIG_ANA_GROUP_MAX; group++) {
		bool is_listed = false;

		for (unsigned i = 0; i < port->ana_count; i++)
			is_listed |= port->ana[i].group == group;
		if (!is_listed)
			return group;
	}
	return CONFIG_ANA_GROUP_MAX;
}

static int private_subsystem_init(struct config_subsystem *subsystem, const char *nqn,
				  const char *host_nqn, const char *media_spec,
				  const struct uuid *uuid)
{
	config_object_init(&config_subsystem_object, subsystem);
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), nqn);
	subsystem->is_implied = true;
	subsystem->hosts = calloc(1, sizeof(*subsystem->hosts));
	subsystem->namespaces = calloc(1, sizeof(*subsystem->namespaces));
	if (!subsystem->hosts || !subsystem->namespaces)
		return -ENOMEM;
	subsystem->ns_count = 1;
	config_object_init(&config_ns_object, &subsystem->namespaces[0]);
	subsystem->namespaces[0].nsid = 1;
	subsystem->namespaces[0].uuid = *uuid;
	memcpy(subsystem->namespaces[0].nguid, uuid->bytes, sizeof(uuid->bytes));
	config_serial_make(subsystem->serial);
	subsystem->namespaces[0].media = strdup(media_spec);
	if (!subsystem->namespaces[0].media)
		return -ENOMEM;
	text_copy(subsystem->hosts[0], NVME_NQN_BYTES, host_nqn);
	subsystem->host_count = 1;
	return 0;
}

static int port_offer(struct config_port *port, const char *nqn)
{
	char(*grown)[NVME_NQN_BYTES];

	if (port->offers_all)
		return 0;
	grown = reallocarray(port->subsystems, port->subsystem_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	port->subsystems = grown;
	text_copy(grown[port->subsystem_count++], NVME_NQN_BYTES, nqn);
	return 0;
}

int config_add_private_subsystem(struct config *config, const char *nqn, const char *host_nqn,
				 const char *media_spec, const struct uuid *uuid, uint16_t port_id)
{
	struct config_port *port = (struct config_port *)config_find_port(config, port_id);
	struct config_subsystem subsystem = {0};
	struct config_subsystem *grown;
	unsigned at = 0;

	if (!port || port->is_discovery_only)
		return -ENOENT;
	if (config_find_subsystem(config, nqn))
		return -EEXIST;
	if (private_subsystem_init(&subsystem, nqn, host_nqn, media_spec, uuid))
		goto no_memory;
	subsystem.namespaces[0].ana_group = optimized_group(port);
	grown = reallocarray(config->subsystems, config->subsystem_count + 1, sizeof(*grown));
	if (!grown)
		goto no_memory;
	config->subsystems = grown;
	if (port_offer(port, nqn))
		goto no_memory;
	while (at < config->subsystem_count && strcmp(grown[at].nqn, nqn) < 0)
		at++;
	memmove(&grown[at + 1], &grown[at], (config->subsystem_count - at) * sizeof(*grown));
	grown[at] = subsystem;
	config->subsystem_count++;
	return 0;
no_memory:
	config_subsystem_release(&subsystem);
	return -ENOMEM;
}

static void port_withdraw(struct config_port *port, const char *nqn)
{
	for (unsigned i = 0; i < port->subsystem_count; i++) {
		if (strcmp(port->subsystems[i], nqn) != 0)
			continue;
		port->subsystem_count--;
		memmove(&port->subsystems[i], &port->subsystems[i + 1],
			(port->subsystem_count - i) * sizeof(*port->subsystems));
		return;
	}
}

void config_remove_subsystem(struct config *config, const char *nqn)
{
	const struct config_subsystem *found = config_find_subsystem(config, nqn);
	unsigned at;

	if (!found)
		return;
	at = (unsigned)(found - config->subsystems);
	for (unsigned i = 0; i < config->port_count; i++)
		port_withdraw(&config->ports[i], nqn);
	config_subsystem_release(&config->subsystems[at]);
	config->subsystem_count--;
	memmove(&config->subsystems[at], &config->subsystems[at + 1],
		(config->subsystem_count - at) * sizeof(*config->subsystems));
}
