/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery client of the cluster world: a process with the first host's NQN, connected to
 * every node's discovery port. At the end its log pages must match the nodes without a further
 * request: this finds a change that no event announced. Runs on its own reactor.
 */
#include "cluster_world.h"

#include "sim_discovery_client.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

struct cluster_discovery {
	struct sim_process *process;
	struct reactor *reactor;
	struct sim_discovery_client *clients[CLUSTER_NODES_MAX];
	unsigned left; /* clients not destroyed yet */
	bool is_stopping;
};

static void on_read(void *arg, struct sim_discovery_client *client)
{
	struct cluster *world = arg;

	cluster_count(world, "discovery logs", 1);
	cluster_hash(world, sim_discovery_client_generation(client));
	sim_trace(world->sim, "discovery: generation %llu",
		  (unsigned long long)sim_discovery_client_generation(client));
}

void cluster_discovery_start(struct cluster *world)
{
	struct reactor_config config = {.cpu = -1, .index = 0};
	struct cluster_discovery *discovery;

	if (!cluster_has(world, CF_DISCOVERY))
		return;
	discovery = sim_alloc(sizeof(*discovery));
	world->discovery = discovery;
	discovery->process = sim_process_create(world->sim, "discovery");
	sim_process_enter(discovery->process);
	CHECK(reactor_create(&config, &discovery->reactor) == 0);
	sim_process_leave(discovery->process);
	sim_enter(discovery->reactor);
	for (unsigned i = 0; i < world->node_count; i++) {
		struct sim_discovery_options options = {.addr = world->nodes[i].discovery,
							.host_id = world->hosts[0].id,
							.has_digests = true,
							.read = on_read,
							.arg = world};

		text_copy(options.host_nqn, sizeof(options.host_nqn), world->hosts[0].nqn);
		discovery->clients[i] = sim_discovery_client_create(discovery->reactor, &options);
		CHECK(discovery->clients[i] != NULL);
		discovery->left++;
	}
	sim_leave(discovery->reactor);
}

static bool log_has(const struct discovery_entry *entries, unsigned count, const char *nqn,
		    const struct net_addr *addr)
{
	char address[NET_ADDR_TEXT_BYTES];
	char service[8];

	net_addr_format_host(addr, address);
	snprintf(service, sizeof(service), "%u", net_addr_port(addr));
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(entries[i].subsystem_nqn, nqn) == 0 &&
		    strcmp(entries[i].address, address) == 0 &&
		    strcmp(entries[i].service, service) == 0)
			return true;
	}
	return false;
}

bool cluster_discovery_knows(const struct cluster *world, unsigned sub, const struct net_addr *addr)
{
	for (unsigned i = 0; world->discovery != NULL && i < world->node_count; i++) {
		const struct discovery_entry *entries;
		unsigned count;

		entries = sim_discovery_client_entries(world->discovery->clients[i], &count);
		if (log_has(entries, count, world->subs[sub].nqn, addr))
			return true;
	}
	return false;
}

/* The log has every port with every subsystem of the node, and no other I/O subsystem. */
static bool log_is_right(struct cluster *world, unsigned node, char why[200])
{
	const struct sim_discovery_client *client = world->discovery->clients[node];
	const struct discovery_entry *entries;
	unsigned count;
	unsigned wanted = 0;
	unsigned found = 0;

	entries = sim_discovery_client_entries(client, &count);
	for (unsigned s = 0; s < world->sub_count; s++) {
		if (!cluster_node_has(world, node, s) || world->desired.host_revoked[s] & 1)
			continue;
		for (unsigned p = 0; p < world->nodes[node].port_count; p++) {
			wanted++;
			if (!log_has(entries, count, world->subs[s].nqn,
				     &world->nodes[node].addrs[p])) {
				snprintf(why, 200, "the log of node %u lacks subsystem %u, port %u",
					 node, s, p);
				return false;
			}
		}
	}
	for (unsigned i = 0; i < count; i++)
		found += entries[i].subtype == DISCOVERY_NVM;
	snprintf(why, 200, "the log of node %u has %u subsystems, not %u", node, found, wanted);
	return found == wanted;
}

bool cluster_discovery_is_well(struct cluster *world, char why[200])
{
	for (unsigned i = 0; world->discovery != NULL && i < world->node_count; i++) {
		snprintf(why, 200, "the discovery controller of node %u is not there", i);
		if (!sim_discovery_client_is_current(world->discovery->clients[i]) ||
		    !log_is_right(world, i, why))
			return false;
	}
	return true;
}

static void on_gone(void *arg)
{
	((struct cluster_discovery *)arg)->left--;
}

void cluster_discovery_stop(struct cluster *world)
{
	struct cluster_discovery *discovery = world->discovery;

	if (discovery == NULL)
		return;
	discovery->is_stopping = true;
	sim_enter(discovery->reactor);
	for (unsigned i = 0; i < world->node_count; i++)
		sim_discovery_client_destroy(discovery->clients[i], on_gone, discovery);
	sim_leave(discovery->reactor);
}

bool cluster_discovery_is_gone(const struct cluster *world)
{
	return world->discovery == NULL || world->discovery->left == 0;
}

void cluster_discovery_free(struct cluster *world)
{
	if (world->discovery != NULL)
		sim_process_kill(world->discovery->process, SIM_DEATH_KILLED);
}
