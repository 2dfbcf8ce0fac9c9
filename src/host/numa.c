/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory nodes of interfaces and CPUs, from sysfs; see numa.h. Runs on the thread that opens a
 * subsystem or adds a path, or on a reactor at that time, never for a command. Contents that make
 * no sense count as unknown. A machine without nodes works like a machine whose nodes are all near.
 */
#include "host/numa.h"

#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NUMA_PATH_BYTES 512
#define NUMA_TEXT_BYTES 16384 /* the list of CPUs, or the distances to all nodes */
#define NUMA_DEPTH_MAX  4     /* nested interfaces: VLAN on a bond on ... */

/* Reads a small file, without white space at the end. 0 or -errno. */
static int numa_read(const char *path, char *text, size_t text_bytes)
{
	ssize_t len;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	len = read(fd, text, text_bytes - 1);
	if (len < 0) {
		int res = -errno;

		close(fd);
		return res;
	}
	close(fd);
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	text[len] = 0;
	return 0;
}

static int numa_node_of_device(const char *root, const char *interface)
{
	char path[NUMA_PATH_BYTES], text[32];
	uint64_t node;

	if ((size_t)snprintf(path, sizeof(path), "%s/class/net/%s/device/numa_node", root,
			     interface) >= sizeof(path))
		return -1;
	/* The file contains -1 if the firmware reports no node. */
	if (numa_read(path, text, sizeof(text)) != 0 ||
	    text_parse_u64(text, NUMA_NODES_MAX - 1, &node) != 0)
		return -1;
	return (int)node;
}

static bool numa_is_interface_name(const char *name)
{
	size_t len = strnlen(name, IFNAMSIZ);

	return len > 0 && len < IFNAMSIZ && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

static int numa_node_below(const char *root, const char *interface, unsigned depth)
{
	char path[NUMA_PATH_BYTES];
	struct dirent *entry;
	int node, found = -1;
	DIR *dir;

	if (!numa_is_interface_name(interface))
		return -1;
	node = numa_node_of_device(root, interface);
	if (node >= 0 || depth == 0 ||
	    (size_t)snprintf(path, sizeof(path), "%s/class/net/%s", root, interface) >=
		    sizeof(path))
		return node;
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, "lower_", 6) != 0)
			continue;
		node = numa_node_below(root, entry->d_name + 6, depth - 1);
		if (node < 0 || (found >= 0 && node != found)) {
			found = -1;
			break;
		}
		found = node;
	}
	closedir(dir);
	return found;
}

int numa_node_of_interface(const char *root, const char *interface)
{
	return numa_node_below(root, interface, NUMA_DEPTH_MAX);
}

uint32_t numa_distance(const char *root, int from_node, int to_node)
{
	char path[NUMA_PATH_BYTES], text[NUMA_TEXT_BYTES], *rest = text, *word;
	uint64_t distance;

	if (from_node < 0 || to_node < 0 || from_node >= NUMA_NODES_MAX ||
	    to_node >= NUMA_NODES_MAX)
		return UINT32_MAX;
	if (from_node == to_node)
		return 0;
	if ((size_t)snprintf(path, sizeof(path), "%s/devices/system/node/node%d/distance", root,
			     from_node) >= sizeof(path) ||
	    numa_read(path, text, sizeof(text)) != 0)
		return UINT32_MAX;
	/* One number for each online node, in ascending order. The position counts as the node
	 * number, which assumes that no node is offline: machines with network cards on their nodes
	 * have none. */
	for (int node = 0; (word = strsep(&rest, " ")) != NULL; node++) {
		if (node != to_node)
			continue;
		if (text_parse_u64(word, 1000000, &distance) != 0)
			return UINT32_MAX;
		return distance > NUMA_DISTANCE_SAME ? (uint32_t)distance - NUMA_DISTANCE_SAME : 1;
	}
	return UINT32_MAX;
}

int numa_node_of_cpu(const char *root, int cpu)
{
	char path[NUMA_PATH_BYTES];

	if (cpu < 0 || cpu >= NUMA_CPUS_MAX)
		return -1;
	for (int node = 0; node < NUMA_NODES_MAX; node++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%d/node%d", root,
				     cpu, node) >= sizeof(path))
			return -1;
		if (access(path, F_OK) == 0)
			return node;
	}
	return -1;
}

int numa_cpulist_parse(const char *text, int *cpus, unsigned max)
{
	char copy[NUMA_TEXT_BYTES], *rest = copy, *word;
	unsigned count = 0;
	uint64_t next = 0;

	if (text_copy(copy, sizeof(copy), text) >= sizeof(copy))
		return -EINVAL;
	if (copy[0] == 0)
		return 0; /* the node has memory but no CPUs */
	while ((word = strsep(&rest, ",")) != NULL) {
		char *dash = strchr(word, '-');
		uint64_t first, last;

		if (dash)
			*dash = 0;
		if (text_parse_u64(word, NUMA_CPUS_MAX - 1, &first) != 0 || first < next)
			return -EINVAL;
		last = first;
		if (dash &&
		    (text_parse_u64(dash + 1, NUMA_CPUS_MAX - 1, &last) != 0 || last < first))
			return -EINVAL;
		for (uint64_t cpu = first; cpu <= last; cpu++, count++)
			if (count < max)
				cpus[count] = (int)cpu;
		next = last + 1;
	}
	return (int)count;
}

int numa_cpus(const char *root, int node, int *cpus, unsigned max)
{
	char path[NUMA_PATH_BYTES], text[NUMA_TEXT_BYTES];
	int res;

	if (node < 0 || node >= NUMA_NODES_MAX ||
	    (size_t)snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", root,
			     node) >= sizeof(path))
		return -ENOENT;
	res = numa_read(path, text, sizeof(text));
	return res != 0 ? res : numa_cpulist_parse(text, cpus, max);
}
