/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory node a network interface belongs to, how far nodes are from each other, and which
 * CPUs a node has: read from sysfs when a subsystem is opened or a path is added. `root` is the
 * folder that contains class/ and devices/, "/sys" except in tests. The only part of host/ that
 * reads files. The engine never calls these functions: the users of an mpath call them and pass it
 * the numbers.
 */
#ifndef WEFT_HOST_NUMA_H
#define WEFT_HOST_NUMA_H

#include <stdint.h>

#define NUMA_NODES_MAX     1024
#define NUMA_CPUS_MAX      4096
#define NUMA_DISTANCE_SAME 10 /* distance of a node to itself in the firmware (ACPI SLIT) */

/* The node of the card behind an interface. For a bond or VLAN: the node of the interfaces below,
 * if they agree. -1: unknown, or the machine has no nodes. */
int numa_node_of_interface(const char *root, const char *interface);
/* 0: the same node; otherwise the distance minus NUMA_DISTANCE_SAME, at least 1. UINT32_MAX:
 * unknown. */
uint32_t numa_distance(const char *root, int from_node, int to_node);
/* The node of this CPU. -1: unknown. */
int numa_node_of_cpu(const char *root, int cpu);
/* Fills in up to max CPUs of a node in ascending order. Returns their number, or -errno (-ENOENT:
 * the node does not exist). */
int numa_cpus(const char *root, int node, int *cpus, unsigned max);
/* Parses "0-3,8,10-11". Returns as numa_cpus. -EINVAL: the list is malformed. */
int numa_cpulist_parse(const char *text, int *cpus, unsigned max);

#endif
