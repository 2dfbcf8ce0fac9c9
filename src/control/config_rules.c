/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the elements of a configuration owe each other: names, NSIDs, identities, files, port ids
 * and addresses are used once; a port offers only subsystems that exist. Also the few changes that
 * the daemon makes to a configuration itself: the well-known discovery port, and the private
 * subsystem of the self-check.
 *
 * Control thread only.
 */
#include "base/text.h"
#include "control/config_parse.h"
#include "media/spec.h"

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

bool config_addr_clash(const struct net_addr *a, const struct net_addr *b)
{
	if (net_addr_port(a) != net_addr_port(b) || net_addr_port(a) == 0)
		return false;
	if (net_addr_is_ipv6(a) == net_addr_is_ipv6(b))
		return net_addr_same_host(a, b) || net_addr_is_any(a) || net_addr_is_any(b);
	return false;
}

/* Every namespace of the configuration in the order of the document, with its place. */
struct ns_walk {
	const struct config *config;
	unsigned subsystem;
	unsigned ns;
};

static const struct config_ns *ns_walk_at(const struct ns_walk *walk)
{
	return &walk->config->subsystems[walk->subsystem].namespaces[walk->ns];
}

static bool ns_walk_next(struct ns_walk *walk)
{
	const struct config *config = walk->config;

	walk->ns++;
	while (walk->subsystem < config->subsystem_count &&
	       walk->ns >= config->subsystems[walk->subsystem].ns_count) {
		walk->subsystem++;
		walk->ns = 0;
	}
	return walk->subsystem < config->subsystem_count;
}

static bool ns_walk_begin(struct ns_walk *walk, const struct config *config)
{
	*walk = (struct ns_walk){.config = config, .ns = UINT32_MAX};
	return ns_walk_next(walk);
}

/* The file under a medium, or NULL; the caller frees it. */
static char *media_file_path(const char *spec)
{
	struct media_spec parsed;
	const struct media_spec *at = &parsed;
	char *path;

	if (!spec || media_spec_parse(spec, &parsed, NULL))
		return NULL;
	while (at->inner)
		at = at->inner;
	path = at->path ? strdup(at->path) : NULL;
	media_spec_free(&parsed);
	return path;
}

static void ns_pair_check(struct config_cursor *at, const struct ns_walk *first,
			  const struct ns_walk *second, const char *first_path,
			  const char *second_path)
{
	const struct config_ns *a = ns_walk_at(first), *b = ns_walk_at(second);
	size_t mark = config_cursor_enter(at, "subsystems", second->subsystem);

	config_cursor_enter(at, "namespaces", second->ns);
	if (first->subsystem == second->subsystem && a->nsid == b->nsid)
		config_complain(at, "nsid", "%u is used by namespaces[%u] too", b->nsid, first->ns);
	if (!uuid_is_nil(&b->uuid) && uuid_equal(&a->uuid, &b->uuid))
		config_complain(at, "uuid",
				"is that of subsystems[%u].namespaces[%u] too; every namespace "
				"needs its own",
				first->subsystem, first->ns);
	if (first_path && second_path && strcmp(first_path, second_path) == 0)
		config_complain(at, "media",
				"%s is used by subsystems[%u].namespaces[%u] too; a file holds one "
				"namespace",
				second_path, first->subsystem, first->ns);
	config_cursor_leave(at, mark);
}

static unsigned ns_total(const struct config *config)
{
	unsigned total = 0;

	for (unsigned i = 0; i < config->subsystem_count; i++)
		total += config->subsystems[i].ns_count;
	return total;
}

/* Quadratic in the namespaces, which a person wrote down: a few, at most some thousands. */
static void namespaces_check(struct config_cursor *at, const struct config *config)
{
	char **paths = calloc(ns_total(config) + 1, sizeof(*paths));
	struct ns_walk first, second;
	unsigned f = 0, s = 0;

	if (!paths) {
		config_complain(at, NULL, "out of memory");
		return;
	}
	for (bool more = ns_walk_begin(&second, config); more; more = ns_walk_next(&second), s++) {
		paths[s] = media_file_path(ns_walk_at(&second)->media);
		ns_walk_begin(&first, config);
		for (f = 0; f < s; f++, ns_walk_next(&first))
			ns_pair_check(at, &first, &second, paths[f], paths[s]);
	}
	for (f = 0; f < s; f++)
		free(paths[f]);
	free(paths);
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
		if (config_addr_clash(&config->ports[i].listen, &port->listen))
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
	namespaces_check(at, config);
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
	struct config_port *grown;
	uint16_t id = CONFIG_DISCOVERY_PORT;
	unsigned at;

	for (unsigned i = 0; i < config->port_count; i++) {
		if (config_addr_clash(&config->ports[i].listen, addr))
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
	grown[at] = (struct config_port){.id = id, .listen = *addr, .is_discovery_only = true};
	config->port_count++;
	return true;
}

/* A group that nobody has declared anything but optimized on this port. */
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

void config_subsystem_release(struct config_subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		free(subsystem->namespaces[i].media);
	free(subsystem->namespaces);
	free(subsystem->hosts);
}

static int private_subsystem_init(struct config_subsystem *subsystem, const char *nqn,
				  const char *host_nqn, const char *media_spec)
{
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), nqn);
	text_copy(subsystem->model, sizeof(subsystem->model), CONFIG_DEFAULT_MODEL);
	subsystem->hosts = calloc(1, sizeof(*subsystem->hosts));
	subsystem->namespaces = calloc(1, sizeof(*subsystem->namespaces));
	if (!subsystem->hosts || !subsystem->namespaces)
		return -ENOMEM;
	subsystem->ns_count = 1;
	subsystem->namespaces[0].nsid = 1;
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
				 const char *media_spec, uint16_t port_id)
{
	struct config_port *port = (struct config_port *)config_find_port(config, port_id);
	struct config_subsystem subsystem = {0};
	struct config_subsystem *grown;
	unsigned at = 0;

	if (!port || port->is_discovery_only)
		return -ENOENT;
	if (config_find_subsystem(config, nqn))
		return -EEXIST;
	if (private_subsystem_init(&subsystem, nqn, host_nqn, media_spec))
		goto no_memory;
	subsystem.namespaces[0].ana_group = optimized_group(port);
	config_subsystem_derive(&subsystem);
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
