/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for tests of simulated nodes: one or two nodes, two disks, one host process with an
 * mpath over all ports of the nodes. Two nodes form a cluster over Unix sockets and share the first
 * disk. One thread; only the seed is random.
 */
#ifndef WEFT_TESTS_NODE_WORLD_H
#define WEFT_TESTS_NODE_WORLD_H

#include "sim.h"
#include "sim_disk.h"
#include "sim_node.h"

#include "host/mpath.h"

#define NWORLD_NODES       2
#define NWORLD_DISKS       2
#define NWORLD_BLOCK_BYTES 4096
#define NWORLD_BLOCKS      64
#define NWORLD_NQN         "nqn.2026-11.io.weft:node"
#define NWORLD_HOST_NQN    "nqn.2026-11.io.weft:host"
#define NWORLD_LANDINGS    4096

/* Result of a change. */
struct nchange {
	bool is_done;
	int res;
	uint64_t generation;
	char why[256];
};

struct nlanding {
	uint64_t at_ns;
	uint64_t block;
	uint64_t value;
	const struct sim_process *writer;
	bool is_late;
};

struct nworld_node {
	struct nworld *world;
	struct sim_node *node;
	struct net_addr addr;
	unsigned started;
	unsigned stopped;
	unsigned died;
	int start_res;
	char why[256];
	enum sim_death how;
};

struct nworld {
	struct sim *sim;
	unsigned node_count;
	struct nworld_node nodes[NWORLD_NODES];
	struct sim_disk *disks[NWORLD_DISKS];
	struct nlanding landings[NWORLD_LANDINGS]; /* writes that reached the first disk */
	unsigned landing_count;
	struct sim_process *host;
	struct reactor *reactor;
	struct mpath_config config;
	struct mpath *mpath;
	bool is_ready;
	bool is_gone;
};

struct nop {
	struct mpath_io io;
	struct iovec iov;
	struct nworld *world;
	bool is_done;
	uint8_t data[NWORLD_BLOCK_BYTES];
};

/* The nodes are not started. disk: options of both disks except name, size and seed; NULL: no
 * delays or faults. */
void nworld_create(struct nworld *world, uint64_t seed, unsigned node_count,
		   const struct sim_disk_options *disk);
/* Closes the mpath and stops the nodes. Returns the number of leaked objects. */
unsigned nworld_destroy(struct nworld *world);
void nworld_run_ms(struct nworld *world, uint64_t ms);
/* Runs until fn returns true. False: limit_ms passed first. */
bool nworld_until(struct nworld *world, bool (*fn)(struct nworld *world, void *arg), void *arg,
		  uint64_t limit_ms);
/* Starts the node and waits. True: the node serves; false: it could not start. */
bool nworld_start(struct nworld *world, unsigned node);
bool nworld_stop(struct nworld *world, unsigned node);
/* Starts both nodes, waits for the links between them, and opens the mpath over both. */
bool nworld_cluster_open(struct nworld *world);
bool nworld_until_peers(struct nworld *world, uint64_t limit_ms);
/* Opens the mpath and waits until `paths` paths are live. */
bool nworld_connect(struct nworld *world, unsigned paths);
bool nworld_until_live(struct nworld *world, unsigned paths, uint64_t limit_ms);
void nworld_close(struct nworld *world);
struct path_info nworld_path(struct nworld *world, unsigned path);

/* Submits the change and does not wait. */
void nworld_change(struct nworld *world, unsigned node, struct nchange *change,
		   int (*edit)(json_t *document, void *arg, struct config_errors *errors));
/* Submits the change and waits for its result. */
bool nworld_change_wait(struct nworld *world, unsigned node, struct nchange *change,
			int (*edit)(json_t *document, void *arg, struct config_errors *errors));
bool nworld_kept_is_in_force(struct nworld *world, unsigned node);

void nop_write(struct nworld *world, struct nop *nop, uint64_t block, uint64_t value);
void nop_read(struct nworld *world, struct nop *nop, uint64_t block);
void nop_flush(struct nworld *world, struct nop *nop);
/* An admin command without data, on any path. */
void nop_admin(struct nworld *world, struct nop *nop, const struct nvme_sqe *sqe);
/* Reads a log page, on any path. */
void nop_log(struct nworld *world, struct nop *nop, uint8_t log_id);
bool nop_wait(struct nop *nop, uint64_t limit_ms);
uint64_t nop_value(const struct nop *nop);
/* The value that a read of the block returns; UINT64_MAX: the read did not end. */
uint64_t nworld_read(struct nworld *world, uint64_t block);
/* The document's only subsystem. */
json_t *nworld_subsystem(json_t *document);
uint64_t nworld_block_value(const struct nworld *world, uint64_t block);

#endif
