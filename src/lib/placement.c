/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where reactors run, and how far each path is from them. The kernel's route names the network card
 * of a path, and sysfs the card's memory node (host/numa.h). The first subsystem that is opened
 * moves the reactors of an instance with is_numa_aware to the CPUs of one node, unless the user has
 * chosen CPUs: the node of the first path whose card is known. The caller's thread finds the node;
 * a reactor moves itself and informs its mpath.
 */
#include "host/numa.h"
#include "lib/lib.h"

#include <ifaddrs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Finds this host's own address on the route to addr. Connecting a datagram socket sends
 * nothing. */
static int local_addr_find(const struct net_addr *addr, struct net_addr *ret_local)
{
	int fd = socket(addr->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int res;

	if (fd < 0)
		return -1;
	ret_local->len_bytes = sizeof(ret_local->storage);
	res = connect(fd, (const struct sockaddr *)&addr->storage, addr->len_bytes);
	if (res == 0)
		res = getsockname(fd, (struct sockaddr *)&ret_local->storage,
				  &ret_local->len_bytes);
	close(fd);
	return res;
}

static bool ifaddr_is(const struct ifaddrs *ifaddr, const struct net_addr *local)
{
	struct net_addr own = {0};

	if (ifaddr->ifa_addr == NULL || ifaddr->ifa_addr->sa_family != local->storage.ss_family)
		return false;
	own.len_bytes = local->len_bytes;
	memcpy(&own.storage, ifaddr->ifa_addr, local->len_bytes);
	return net_addr_same_host(&own, local);
}

static int placement_node_of(const char *sysfs, const struct net_addr *addr)
{
	struct net_addr local = {0};
	struct ifaddrs *all;
	int node = -1;

	if (local_addr_find(addr, &local) != 0 || getifaddrs(&all) != 0)
		return -1;
	for (const struct ifaddrs *ifaddr = all; ifaddr != NULL; ifaddr = ifaddr->ifa_next) {
		if (ifaddr_is(ifaddr, &local)) {
			node = numa_node_of_interface(sysfs, ifaddr->ifa_name);
			break;
		}
	}
	freeifaddrs(all);
	return node;
}

static bool placement_is_wanted(const struct weft_subsystem *subsystem)
{
	return subsystem->weft->is_numa_aware || subsystem->config.policy == PATH_POLICY_NUMA;
}

/* The memory node for the reactors: that of the first path whose card is known, or -1. */
static int home_node_find(const struct weft_subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->addr_count; i++) {
		int node = placement_node_of(subsystem->weft->sysfs, &subsystem->addrs[i].net);

		if (node >= 0)
			return node;
	}
	return -1;
}

void placement_prepare(struct weft_subsystem *subsystem)
{
	struct weft *weft = subsystem->weft;

	subsystem->home_node = -1;
	if (!placement_is_wanted(subsystem))
		return;
	if (weft->is_numa_aware && !weft->has_cpus)
		subsystem->home_node = home_node_find(subsystem);
}

static void reactor_move(struct lib_reactor *own, int node)
{
	int *cpus = calloc(NUMA_CPUS_MAX, sizeof(*cpus));
	cpu_set_t set;
	int count;

	if (cpus == NULL)
		return;
	CPU_ZERO(&set);
	count = numa_cpus(own->weft->sysfs, node, cpus, NUMA_CPUS_MAX);
	for (int i = 0; i < count && i < NUMA_CPUS_MAX; i++) {
		if (cpus[i] >= 0 && cpus[i] < CPU_SETSIZE)
			CPU_SET((unsigned)cpus[i], &set);
	}
	free(cpus);
	/* A failure is not an error: the reactor stays where it is. */
	if (CPU_COUNT(&set) > 0 && pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0)
		own->is_placed = true;
}

void placement_apply(struct part *part)
{
	struct weft_subsystem *subsystem = part->subsystem;
	struct lib_reactor *own = &subsystem->weft->reactors[part->index];

	if (subsystem->home_node >= 0 && !own->is_placed)
		reactor_move(own, subsystem->home_node);
	for (unsigned i = 0; placement_is_wanted(subsystem) && i < subsystem->addr_count; i++)
		placement_tell(part, &subsystem->addrs[i]);
}

void placement_tell(struct part *part, const struct host_addr *addr)
{
	struct weft_subsystem *subsystem = part->subsystem;
	const char *sysfs = subsystem->weft->sysfs;
	int own_node, node;
	uint32_t distance;

	if (!placement_is_wanted(subsystem))
		return;
	node = placement_node_of(sysfs, &addr->net);
	own_node = numa_node_of_cpu(sysfs, sched_getcpu());
	if (node < 0 || own_node < 0)
		return;
	distance = numa_distance(sysfs, own_node, node);
	(void)mpath_set_path_numa(part->mpath, addr, node, distance);
}
