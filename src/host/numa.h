/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory node a network interface belongs to, how far nodes are from each other, and which
 * CPUs a node has: read from sysfs when a subsystem is opened. `root` is the folder that holds
 * class/ and devices/, "/sys" but in tests. The one part of host/ that reads files: the engine
 * never calls it, those who open an mpath do, and hand it the numbers.
 */
#ifndef WEFT_HOST_NUMA_H
#define WEFT_HOST_NUMA_H

#include <stdint.h>

#define NUMA_NODES_MAX     1024
#define NUMA_CPUS_MAX      4096
#define NUMA_DISTANCE_SAME 10 /* what the firmware calls no distance (ACPI SLIT) */

/* The node of the card behind an interface; of a bond or VLAN that of the interfaces below it when
 * they agree. -1: unknown, or the machine has none. */
int numa_node_of_interface(const char *root, const char *interface);
/* 0: the same node; else how much more than NUMA_DISTANCE_SAME it is. UINT32_MAX: unknown. */
uint32_t numa_distance(const char *root, int from_node, int to_node);
/* The node that has this CPU; -1: unknown. */
int numa_node_of_cpu(const char *root, int cpu);
/* CPUs of a node, ascending: how many there are, up to max are filled in; -errno (-ENOENT: no such
 * node). */
int numa_cpus(const char *root, int node, int *cpus, unsigned max);
/* "0-3,8,10-11"; as numa_cpus. -EINVAL: no such list. */
int numa_cpulist_parse(const char *text, int *cpus, unsigned max);

#endif
