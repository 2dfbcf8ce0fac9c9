/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One weft target as a simulated process: the true store, configuration, change engine, media
 * registry, peers, discovery and target (src/control without its sockets for people), on simulated
 * reactors. It is started, changed, stopped, killed and started again from what it kept. One
 * thread; callbacks run on the control reactor of the node.
 *
 * This file's implementation takes the place of daemon/daemon.c: it defines struct daemon and the
 * daemon_ functions that the rest of the control plane uses.
 */
#ifndef WEFT_TESTS_SIM_NODE_H
#define WEFT_TESTS_SIM_NODE_H

#include "sim.h"

#include "cluster/peers.h"
#include "daemon/daemon.h"

#define SIM_NODES_MAX 4

struct sim_node;

struct sim_node_options {
	const char *name;       /* of the member, and of its folder "/node/NAME"; copied */
	unsigned reactor_count; /* that do the work */
	uint64_t seed;
	const json_t *document; /* of its first start; with "cluster" where it has peers; copied */
	uint64_t clock_offset_ns;
	int32_t clock_drift_ppm;
	unsigned buf_counts[3]; /* as target_config's */
	bool has_discovery; /* a port of its own for discovery: the first listener's address, 8009
			     */
	/* The node serves, or could not start (res < 0, with why). May be NULL. */
	void (*started)(void *arg, struct sim_node *node, int res, const char *why);
	/* It ended in good order, by sim_node_stop: the process is gone. May be NULL. */
	void (*stopped)(void *arg, struct sim_node *node);
	/* It was killed: by sim_node_kill, by a peer that fenced it, or by sim_node_crash_after.
	 * From inside of the death: sim_node_start comes later, from sim_at. May be NULL. */
	void (*died)(void *arg, struct sim_node *node, enum sim_death how);
	void *arg;
};

enum sim_node_state {
	SIM_NODE_DOWN,
	SIM_NODE_STARTING,
	SIM_NODE_SERVING,
	SIM_NODE_STOPPING,
};

struct sim_node *sim_node_create(struct sim *sim, const struct sim_node_options *options);
/* Down. */
void sim_node_destroy(struct sim_node *node);

/* Of a node that is down, from outside of all turns or from sim_at. */
void sim_node_start(struct sim_node *node);
/* Likewise, with a file of -c or flags. The document stays the caller's, until the process is gone.
 */
struct sim_node_source {
	const json_t *document;
	const char *hash;
	enum daemon_start start;
};
void sim_node_start_from(struct sim_node *node, const struct sim_node_source *source);
/* Of one that serves. */
void sim_node_stop(struct sim_node *node);
/* Of any that is not down; POWER: its folder loses what was not synced. Disks are the caller's. */
void sim_node_kill(struct sim_node *node, enum sim_death how);
void sim_node_crash_after(struct sim_node *node, uint64_t operations, enum sim_death how);
void sim_node_freeze(struct sim_node *node, uint64_t until_ns);
/* One thread of it: its control reactor, or one of its data reactors (index modulo their number).
 */
void sim_node_freeze_control(struct sim_node *node, uint64_t until_ns);
void sim_node_freeze_reactor(struct sim_node *node, unsigned index, uint64_t until_ns);

enum sim_node_state sim_node_state(const struct sim_node *node);
struct sim_process *sim_node_process(struct sim_node *node); /* NULL: down */
struct sim_folder *sim_node_folder(struct sim_node *node);
struct target *sim_node_target(struct sim_node *node); /* NULL: not there */
uint64_t sim_node_lives(const struct sim_node *node);
/* Its links to the other members, as peers_list; 0 of a node that has none, or is down. */
unsigned sim_node_peers(struct sim_node *node, struct peer_info infos[PEERS_MAX]);

/*
 * An operator's change of a node that serves: `edit` gets a copy of the document when its turn has
 * come (as struct change). `done`: res 0 with the generation when it is in force and kept, -errno
 * when nothing has changed (of -ENOTRECOVERABLE, store/store.h, the next life may have it all the
 * same); not called when the node dies before: then it may have been kept, or not, and the next
 * life tells. A change that is refused for the store's sake has a log line only.
 */
struct sim_node_change {
	/* Its memory is the node's: what it puts into the document it copies (json_deep_copy). */
	int (*edit)(json_t *document, void *arg, struct config_errors *errors);
	void (*done)(void *arg, int res, uint64_t generation, const char *why);
	void *arg;
	const char *origin;
	bool is_forced; /* as of struct change */
};
void sim_node_change(struct sim_node *node, const struct sim_node_change *change);
/* Of a node that serves: what stands beside its document, and what it keeps. */
struct media_registry *sim_node_registry(struct sim_node *node);
struct store *sim_node_store(struct sim_node *node);
/* What is in force, a new reference; NULL when it does not serve. */
json_t *sim_node_document(struct sim_node *node);
uint64_t sim_node_generation(const struct sim_node *node);
/* What the store has, a new reference; of a node that serves. */
json_t *sim_node_kept_document(struct sim_node *node);

#endif
