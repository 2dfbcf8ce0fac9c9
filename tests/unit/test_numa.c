/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NUMA nodes from sysfs, on a made-up tree: cards on two nodes, a bond, a VLAN on the bond,
 * interfaces without a node, distances, lists of CPUs, and invalid files.
 */
#include "host/numa.h"
#include "tap.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/weft-numa-XXXXXX";

static void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	/* Create every parent folder. */
	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *slash = full + sizeof(root); (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	file = fopen(full, "w");
	EXPECT(file != NULL);
	if (file) {
		fputs(text, file);
		EXPECT_EQ(0, fclose(file));
	}
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
	return remove(path);
}

static void interface_has_the_node_of_its_card(void)
{
	put("class/net/eth0/device/numa_node", "0\n");
	put("class/net/eth1/device/numa_node", "1\n");
	put("class/net/virt0/device/numa_node", "-1\n");
	put("class/net/lo/address", "00:00:00:00:00:00\n");
	EXPECT_EQ(0, numa_node_of_interface(root, "eth0"));
	EXPECT_EQ(1, numa_node_of_interface(root, "eth1"));
	EXPECT_EQ(-1, numa_node_of_interface(root, "virt0"));
	EXPECT_EQ(-1, numa_node_of_interface(root, "lo"));
	EXPECT_EQ(-1, numa_node_of_interface(root, "eth7"));
	EXPECT_EQ(-1, numa_node_of_interface("/nowhere/at/all", "eth0"));
}

static void what_lies_below_counts(void)
{
	put("class/net/bond0/lower_eth1", "");
	put("class/net/bond0/mtu", "9000\n");
	put("class/net/bond0.7/lower_bond0", "");
	put("class/net/bond1/lower_eth0", "");
	put("class/net/bond1/lower_eth1", "");
	put("class/net/bond2/lower_eth1", "");
	put("class/net/bond2/lower_virt0", "");
	put("class/net/loop0/lower_loop0", "");
	EXPECT_EQ(1, numa_node_of_interface(root, "bond0"));
	EXPECT_EQ(1, numa_node_of_interface(root, "bond0.7"));
	/* Interfaces that disagree, or one without a node; a cycle ends. */
	EXPECT_EQ(-1, numa_node_of_interface(root, "bond1"));
	EXPECT_EQ(-1, numa_node_of_interface(root, "bond2"));
	EXPECT_EQ(-1, numa_node_of_interface(root, "loop0"));
}

static void nonsense_is_unknown(void)
{
	static const char *const texts[] = {"", "one\n", "1 2\n", "99999999999999999999\n",
					    "1024\n"};
	static const char *const names[] = {"", ".", "..", "a/b", "../eth0", "sixteen-chars-xx"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put("class/net/odd0/device/numa_node", texts[i]);
		EXPECT_EQ(-1, numa_node_of_interface(root, "odd0"));
	}
	put("class/device/numa_node", "1\n");
	put("class/net/device/numa_node", "1\n");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		EXPECT_EQ(-1, numa_node_of_interface(root, names[i]));
}

static void distances_are_read(void)
{
	put("devices/system/node/node0/distance", "10 21 31\n");
	put("devices/system/node/node1/distance", "21 10 x\n");
	EXPECT_EQ(0, numa_distance(root, 0, 0));
	EXPECT_EQ(11, numa_distance(root, 0, 1));
	EXPECT_EQ(21, numa_distance(root, 0, 2));
	EXPECT_EQ(UINT32_MAX, numa_distance(root, 0, 3));
	EXPECT_EQ(UINT32_MAX, numa_distance(root, 1, 2));
	EXPECT_EQ(UINT32_MAX, numa_distance(root, 2, 0));
	EXPECT_EQ(UINT32_MAX, numa_distance(root, -1, 0));
	EXPECT_EQ(UINT32_MAX, numa_distance(root, 0, -1));
	EXPECT_EQ(UINT32_MAX, numa_distance(root, 0, NUMA_NODES_MAX));
	/* Firmware that reports another node as near as its own: it is another node anyway. */
	put("devices/system/node/node2/distance", "10 10 10\n");
	EXPECT_EQ(1, numa_distance(root, 2, 0));
}

static void cpus_of_a_node_are_listed(void)
{
	int cpus[4];

	put("devices/system/node/node0/cpulist", "0-2,8,10-11\n");
	put("devices/system/node/node1/cpulist", "\n");
	EXPECT_EQ(6, numa_cpus(root, 0, cpus, 4));
	EXPECT_EQ(0, cpus[0]);
	EXPECT_EQ(2, cpus[2]);
	EXPECT_EQ(8, cpus[3]);
	EXPECT_EQ(0, numa_cpus(root, 1, cpus, 4));
	EXPECT_EQ(-ENOENT, numa_cpus(root, 5, cpus, 4));
	EXPECT_EQ(-ENOENT, numa_cpus(root, -1, cpus, 4));
}

static void cpu_has_a_node(void)
{
	put("devices/system/cpu/cpu3/node1/cpulist", "3\n");
	put("devices/system/cpu/cpu4/online", "1\n");
	EXPECT_EQ(1, numa_node_of_cpu(root, 3));
	EXPECT_EQ(-1, numa_node_of_cpu(root, 4));
	EXPECT_EQ(-1, numa_node_of_cpu(root, -1));
	EXPECT_EQ(-1, numa_node_of_cpu(root, NUMA_CPUS_MAX));
}

static void lists_that_are_none_are_refused(void)
{
	static const char *const texts[] = {"a",   "1-",     "-1",    "3-1", "1,,2", "1,1",
					    "2,1", "0-9999", "1-2-3", " 1",  "1, 2", ","};
	int cpus[4];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		EXPECT_EQ(-EINVAL, numa_cpulist_parse(texts[i], cpus, 4));
	EXPECT_EQ(1, numa_cpulist_parse("4095", cpus, 4));
	EXPECT_EQ(4095, cpus[0]);
	EXPECT_EQ(4096, numa_cpulist_parse("0-4095", cpus, 4));
	EXPECT_EQ(2, numa_cpulist_parse("0-1", NULL, 0));
}

int main(void)
{
	if (!mkdtemp(root)) {
		printf("Bail out! no temporary folder\n");
		return 1;
	}
	TAP_RUN(interface_has_the_node_of_its_card);
	TAP_RUN(what_lies_below_counts);
	TAP_RUN(nonsense_is_unknown);
	TAP_RUN(distances_are_read);
	TAP_RUN(cpus_of_a_node_are_listed);
	TAP_RUN(cpu_has_a_node);
	TAP_RUN(lists_that_are_none_are_refused);
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return tap_end();
}
