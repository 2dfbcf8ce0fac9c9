/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One weft target as a simulated process: the real store, configuration, change engine, media
 * registry, peers, discovery and target (the control plane without the REST API), on simulated
 * reactors. The node is started, changed, stopped, killed and started again from what it kept. One
 * thread; callbacks run on the node's control reactor.
 *
 * Uses sim_daemon.c in place of daemon/daemon.c.
 */
#ifndef WEFT_TESTS_SIM_NODE_H
#define WEFT_TESTS_SIM_NODE_H

#include "sim.h"

#include "cluster/peers.h"
#include "daemon/daemon.h"

#define SIM_NODES_MAX 4

struct sim_node;

struct sim_node_options {
	const char *name;       /* of the member, and of the folder "/node/NAME"; copied */
	unsigned reactor_count; /* data reactors */
	uint64_t seed;
	const json_t *document; /* of the first start; has "cluster" if it has peers; copied */
	uint64_t clock_offset_ns;
	int32_t clock_drift_ppm;
	unsigned buf_counts[3]; /* as in target_config */
	bool has_discovery; /* on a port of its own: the first listener's address, service 8009 */
	/* The node serves, or could not start (res < 0, `why` is the reason). May be NULL. */
	void (*started)(void *arg, struct sim_node *node, int res, const char *why);
	/* The node stopped after sim_node_stop; its process is gone. May be NULL. */
	void (*stopped)(void *arg, struct sim_node *node);
	/* The node was killed: by sim_node_kill, by a peer that fenced it, or by
	 * sim_node_crash_after. Called during the death: call sim_node_start later, from sim_at.
	 * May be NULL. */
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
/* The node must be down. */
void sim_node_destroy(struct sim_node *node);

/* The node must be down. Call outside of all turns or from sim_at. */
void sim_node_start(struct sim_node *node);
/* sim_node_start with the file of -c or with flags. The document must stay valid until the process
 * is gone. */
struct sim_node_source {
	const json_t *document;
	const char *hash;
	enum daemon_start start;
};
void sim_node_start_from(struct sim_node *node, const struct sim_node_source *source);
/* The node must serve. */
void sim_node_stop(struct sim_node *node);
/* The node must not be down. POWER: the folder loses unsynced data; disks are the caller's. */
void sim_node_kill(struct sim_node *node, enum sim_death how);
void sim_node_crash_after(struct sim_node *node, uint64_t operations, enum sim_death how);
void sim_node_freeze(struct sim_node *node, uint64_t until_ns);
/* Freezes one thread: the control reactor, or a data reactor (index modulo their number). */
void sim_node_freeze_control(struct sim_node *node, uint64_t until_ns);
void sim_node_freeze_reactor(struct sim_node *node, unsigned index, uint64_t until_ns);

enum sim_node_state sim_node_state(const struct sim_node *node);
struct sim_process *sim_node_process(struct sim_node *node); /* NULL: down */
struct sim_folder *sim_node_folder(struct sim_node *node);
struct target *sim_node_target(struct sim_node *node); /* NULL: none */
uint64_t sim_node_lives(const struct sim_node *node);
/* Links to the other members, as peers_list; 0 when the node is down or has no peers. */
unsigned sim_node_peers(struct sim_node *node, struct peer_info infos[PEERS_MAX]);

/*
 * An operator's change of a node that serves. `edit` gets a copy of the document when the change's
 * turn comes (as struct change). `done`: res 0 and the generation when the change is in force and
 * kept; -errno when nothing changed (after -ENOTRECOVERABLE, store/store.h, the next life may have
 * the change nevertheless). `done` is not called when the node dies first: the change may have been
 * kept or not. A change that the store refuses gets only a log line.
 */
struct sim_node_change {
	/* Runs with the node's memory: copy (json_deep_copy) what goes into the document. */
	int (*edit)(json_t *document, void *arg, struct config_errors *errors);
	void (*done)(void *arg, int res, uint64_t generation, const char *why);
	void *arg;
	const char *origin;
	bool is_forced; /* as in struct change */
};
void sim_node_change(struct sim_node *node, const struct sim_node_change *change);
/* The node must serve. */
struct media_registry *sim_node_registry(struct sim_node *node);
struct store *sim_node_store(struct sim_node *node);
/* The document in force, a new reference; NULL when the node does not serve. */
json_t *sim_node_document(struct sim_node *node);
uint64_t sim_node_generation(const struct sim_node *node);
/* The document in the store, a new reference. The node must serve. */
json_t *sim_node_kept_document(struct sim_node *node);

#endif
