/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster world: one to three nodes (tests/sim/sim_node.h) with shared disks or disks of their
 * own, one to three host processes with the real multipath engine, a discovery client and an
 * operator. cluster_plan.c plans all events from the scenario before the run. cluster_world.c plays
 * the plan. The checkers report what must not happen. One thread.
 *
 * The world's state outlives processes: its memory comes from sim_alloc, never from a process.
 */
#ifndef WEFT_TESTS_CLUSTER_WORLD_H
#define WEFT_TESTS_CLUSTER_WORLD_H

#include "sim.h"
#include "sim_disk.h"
#include "sim_model.h"
#include "sim_node.h"
#include "sim_run.h"

#include "base/clock.h"
#include "host/mpath.h"

#define CLUSTER_NODES_MAX   3
#define CLUSTER_PORTS_MAX   2 /* of a node */
#define CLUSTER_HOSTS_MAX   3
#define CLUSTER_WORKERS_MAX 5 /* of a host */
#define CLUSTER_SUBS_MAX    2
#define CLUSTER_NS_MAX      2 /* of a subsystem; each has a disk of its own */
/* Each namespace has a second disk for replacements (CF_REMAKE). */
#define CLUSTER_DISKS_MAX      (2 * CLUSTER_SUBS_MAX * CLUSTER_NS_MAX)
#define CLUSTER_IDENTITIES_MAX 128
#define CLUSTER_PAST_MAX       64 /* generations of a node that the world remembers */
/* Each worker has its own blocks in the first part of a disk, and as many in the second part, which
 * exists once the namespace has grown. A resent command may run twice in a row there: hosts promise
 * no more. The last blocks of each part are for the fused pairs of all workers. */
#define CLUSTER_REGION_BLOCKS 8
/* Blocks from the source of a Copy to its destination. */
#define CLUSTER_COPY_DISTANCE (CLUSTER_REGION_BLOCKS / 2)
#define CLUSTER_SHARED_BLOCKS 4
#define CLUSTER_PART_BLOCKS                                                                        \
	(CLUSTER_HOSTS_MAX * CLUSTER_WORKERS_MAX * CLUSTER_REGION_BLOCKS + CLUSTER_SHARED_BLOCKS)
#define CLUSTER_BLOCKS_MAX      (2 * CLUSTER_PART_BLOCKS)
#define CLUSTER_BLOCK_BYTES_MAX 4096
#define CLUSTER_DATA_BYTES      (CLUSTER_REGION_BLOCKS * CLUSTER_BLOCK_BYTES_MAX)
#define CLUSTER_EVENTS_MAX      48 /* in a quarter of the seeds, with events of cluster_edges.c */
#define CLUSTER_GHOSTS_MAX      256
#define CLUSTER_ACTIONS_MAX     256
/* Two clocks may drift apart by twice this. The time rule assumes equal clocks; CQT has room for
 * the difference. */
#define CLUSTER_DRIFT_PPM 500
/* Longer than the slowest write of a disk: else a target could not keep CQT. */
#define CLUSTER_QUIESCE_MS   400
#define CLUSTER_SPIKE_MAX_US 300000

/* In the order of cluster_feature_names. */
enum cluster_feature {
	CF_CUT,
	CF_PARTITION,
	CF_ONE_WAY,
	CF_HALF_CLOSE,
	CF_NET_FAULTS,
	CF_LIMIT,
	CF_FLIP,
	CF_SLOW,
	CF_NODE_KILL,
	CF_NODE_POWER,
	CF_NODE_CRASH,
	CF_NODE_RESTART,
	CF_NODE_FREEZE,
	CF_NODE_MEMORY,
	CF_NODE_JUMP,
	CF_HOST_KILL,
	CF_HOST_CRASH,
	CF_HOST_CLOSE,
	CF_HOST_FREEZE,
	CF_HOST_MEMORY,
	CF_DRIFT,
	CF_DISK_ERROR,
	CF_DISK_SPIKE,
	CF_DISK_FULL,
	CF_DISK_CUT,
	CF_DISK_MISDIRECT,
	CF_DISK_POWER,
	CF_STORE_FULL,
	CF_STORE_ERROR,
	CF_ANA,
	CF_NS,
	CF_GROW,
	CF_REVOKE,
	CF_READ_ONLY,
	CF_ZEROES,
	CF_DEALLOCATE,
	CF_COMPARE,
	CF_FUSED,
	CF_COPY,
	CF_RESERVE,
	CF_DIGEST,
	CF_ZERO_COPY,
	CF_HEDGE,
	CF_FAST_FAIL,
	CF_PATHS,
	CF_DISCOVERY,
	CF_DISCOVERED,
	CF_PEERS,
	CF_WALL,
	CF_PORTS,
	CF_SUBSYSTEM,
	CF_MASK,
	CF_ADMIN,
	CF_FEW_BUFFERS,
	CF_CONTROL_BUSY,
	CF_REACTOR_STUCK,
	CF_EDGES, /* by seed: cluster_edges_is_on */
	CF_IMAGE, /* by seed, as the next three: cluster_remake.c */
	CF_REMAKE,
	CF_LONG_APPLY,
	CF_ROLLBACK,
	CF_SOURCE, /* cluster_start.c */
	CF_TWIN,   /* cluster_twin.c */
	CF_COUNT,
};

extern const char *const cluster_feature_names[];

struct cluster;

/* ---- what operators want --------------------------------------------------------------------- */

struct cluster_desired {
	uint64_t version; /* in the document as the model of the first subsystem */
	uint8_t ns_absent[CLUSTER_SUBS_MAX];                 /* a bit for each NSID - 1 */
	uint8_t ns_grown[CLUSTER_SUBS_MAX];                  /* likewise: it has both parts */
	uint8_t ns_read_only[CLUSTER_SUBS_MAX];              /* likewise */
	uint8_t host_revoked[CLUSTER_SUBS_MAX];              /* a bit for each host */
	uint8_t ns_hidden[CLUSTER_SUBS_MAX][CLUSTER_NS_MAX]; /* hidden from these hosts */
	struct uuid ns_uuid[CLUSTER_SUBS_MAX][CLUSTER_NS_MAX];
	uint8_t ns_other[CLUSTER_SUBS_MAX]; /* a bit for each NSID - 1: it is on the other medium */
	uint8_t sub_absent;                 /* a bit for each subsystem; never the first */
	uint8_t port_absent[CLUSTER_NODES_MAX]; /* a bit for each port; never the first of a node */
	enum ana_state ana[CLUSTER_NODES_MAX][CLUSTER_PORTS_MAX][CLUSTER_NS_MAX]; /* group: NSID */
};

struct cluster_disk {
	struct cluster *world;
	struct sim_disk *disk;
	struct model *model;
	struct sim_disk_options options;
	unsigned index;
	unsigned subsystem;
	uint32_t nsid;
	bool is_losing;                       /* power is being lost: older blocks come back */
	uint64_t content[CLUSTER_BLOCKS_MAX]; /* what each block holds */
	uint64_t fused_from[CLUSTER_BLOCKS_MAX];
	/* Reservation, as acknowledged; see cluster_reserve.c. */
	unsigned holder;        /* host + 1; 0: none or unknown */
	uint64_t held_since;    /* step of the acknowledgement */
	uint64_t holder_number; /* of the last change of the reservation that began */
	unsigned reserve_busy;  /* reservation commands in flight */
	uint64_t lost_at;       /* step of the last loss of power */
	struct uuid uuid;       /* of the last namespace on it */
	uint64_t born_at;       /* step; the model does not judge earlier commands */
	bool is_given_up;       /* a recreate was requested and is not known to have failed */
	bool was_given_up;      /* a recreate was requested, whatever its result */
};

struct cluster_sub {
	char nqn[NVME_NQN_BYTES];
	bool is_shared; /* all nodes have it, its namespaces are clustered */
	unsigned node;  /* of a subsystem that is not shared */
	unsigned ns_count;
	struct cluster_disk *disks[CLUSTER_NS_MAX];
	struct cluster_disk *others[CLUSTER_NS_MAX]; /* to replace them; NULL without CF_REMAKE */
};

/* What a node had in force at a generation. */
struct cluster_past {
	uint64_t generation;
	uint64_t history; /* of the state: see struct cluster_node */
	struct cluster_desired desired;
	char *text; /* NULL: unknown */
};

/* How a node is started: see cluster_start.c. */
enum cluster_start {
	START_PLAIN,  /* without a source: the saved state is used */
	START_SAME,   /* with the source of the saved state */
	START_OTHER,  /* with another source, without --merge or --reset */
	START_MERGE,  /* --merge: another source adds to the saved state */
	START_RESET,  /* --reset: another source replaces the saved state */
	START_BACKUP, /* with a state restored from a backup */
	START_GONE,   /* the state is missing */
	START_KINDS,
};

/* A copy of a node's state, and what that state has in force. */
struct cluster_backup {
	struct sim_backup *files; /* NULL: no backup */
	struct cluster_desired desired;
	char *text;
	uint64_t generation;
	uint64_t history;
	struct uuid owners[CLUSTER_DISKS_MAX];
};

struct cluster_node {
	struct cluster *world;
	struct sim_node *node;
	unsigned index;
	char name[16];
	unsigned port_count;
	struct net_addr addrs[CLUSTER_PORTS_MAX];
	struct net_addr discovery;
	struct net_addr peer;    /* where other members connect */
	bool is_restarting;      /* a start is planned */
	uint64_t down_ns;        /* extra delay before the next start */
	unsigned start_failures; /* consecutive */
	/* Control plane: see cluster_change.c. */
	struct cluster_desired acked;
	struct cluster_desired pending;
	char *acked_text; /* the document, sorted; NULL: not read yet */
	bool is_changing;
	bool may_have_pending; /* the next life may have `pending` in force */
	bool is_store_behind;  /* the store differs from what is in force */
	uint64_t change_again_ns;
	/* Former generations: see cluster_source.c. */
	struct cluster_past past[CLUSTER_PAST_MAX];
	/* Generations count anew after a loss of the state: each state has its history number. */
	uint64_t history;
	uint64_t last_history;
	uint64_t rollback_to;                  /* generation; 0: none */
	const char *pending_text;              /* document after `pending`; NULL: unknown */
	struct uuid owners[CLUSTER_DISKS_MAX]; /* UUID last served from each disk */
	/* The next start and the current one: see cluster_start.c. */
	enum cluster_start next_start;
	enum cluster_start start;
	uint64_t start_crash;                  /* operations until it dies; 0: it does not */
	bool is_start_again;                   /* with the refused source */
	uint64_t start_number;                 /* of the last new source */
	uint64_t source;                       /* number of the source of its state */
	struct cluster_desired source_desired; /* of the source that was tried last */
	json_t *source_document;               /* of the current start */
	char source_hash[32];
	char *start_text;    /* document after a start with --merge or --reset */
	uint64_t generation; /* of acked_text */
	unsigned resets;
	struct cluster_desired first; /* of the first start */
	struct cluster_backup backup;
	/* A lost image that the next change rechecks or recreates: see cluster_image.c. */
	struct cluster_disk *retry_disk; /* NULL: none */
	bool retry_is_recreate;
	bool retry_gives_up; /* the first recreate requested for the disk */
	unsigned retries;    /* since cluster_heal */
	bool retry_pending;  /* part of the change in progress */
	/* When the node reported the UUID of `acked` as in force. */
	uint64_t uuid_since_ns[CLUSTER_SUBS_MAX][CLUSTER_NS_MAX];
	/* Counters of the target in this life. */
	uint64_t expiries;
	uint64_t protocol_errors;
	uint64_t stats_life;
};

/* ---- hosts ----------------------------------------------------------------------------------- */

enum cluster_op_kind {
	COP_READ,
	COP_WRITE,
	COP_ZEROES,
	COP_DEALLOCATE,
	COP_COMPARE,
	COP_FUSED,
	COP_COPY,
	COP_FLUSH,
	COP_VERIFY,
	COP_REGISTER,
	COP_ACQUIRE,
	COP_PREEMPT,
	COP_RELEASE,
	COP_CLEAR,
	COP_ADMIN,
};

/* What a command changes; outlives the process that sent it. */
struct cluster_change_set {
	struct cluster_disk *disk;
	uint64_t first_block;
	uint32_t block_count;
	uint64_t start; /* step */
	uint64_t values[CLUSTER_REGION_BLOCKS];
	bool is_copy;
	bool is_reserve;
	bool may_run_twice; /* the command was resent before its host died */
	unsigned host;
	unsigned worker;
	uint64_t over_ns; /* of a ghost: no part of it can run after this */
};

struct cluster_worker {
	struct mpath_io io; /* on_io_done finds the worker from it */
	struct mpath_io second;
	struct iovec iov;
	struct iovec second_iov;
	struct cluster_host *host;
	unsigned index;
	struct reactor_timer timer;
	bool is_busy;
	bool is_idle; /* no work is left, or the host leaves */
	enum cluster_op_kind kind;
	bool is_fua;
	unsigned sub;
	unsigned identity;             /* of its handle's namespace, in world->identities */
	struct cluster_change_set set; /* also blocks of reads and compares */
	uint64_t expected[CLUSTER_REGION_BLOCKS];
	uint64_t start_ns;
	uint64_t misdirected; /* reads that the disk had misdirected at the begin */
	uint64_t reserve_number;
	bool is_reserve_alone; /* no other one was in flight at its begin */
	unsigned swept_disk;
	uint64_t swept_block;
	unsigned settle_step; /* of clearing reservations after the troubles */
	/* What its blocks are known to hold, by disk and part; MODEL_NEVER: unknown. */
	uint64_t known[CLUSTER_DISKS_MAX][2][CLUSTER_REGION_BLOCKS];
	uint8_t data[CLUSTER_DATA_BYTES];
	uint8_t second_data[CLUSTER_DATA_BYTES];
};

struct cluster_mpath {
	struct cluster_host *host;
	unsigned sub;
	struct mpath *mpath; /* of this life; NULL: not open */
	bool is_ready;
	bool is_closing;
	/* Known ports, by node, a bit for each. Discovery adds others. */
	uint8_t known_ports[CLUSTER_NODES_MAX];
};

struct cluster_host {
	struct cluster *world;
	unsigned index;
	char nqn[NVME_NQN_BYTES];
	struct uuid id;
	struct sim_process *process; /* NULL: down */
	struct reactor *reactor;
	struct sim_mourner mourner;
	uint64_t life;
	uint64_t allocations; /* before its mpaths were opened */
	bool is_leaving;      /* clean shutdown: its workers end first */
	bool is_restarting;
	bool had_memory_trouble;
	uint32_t kato_ms;
	unsigned worker_count;
	struct mpath_config configs[CLUSTER_SUBS_MAX];
	struct cluster_mpath mpaths[CLUSTER_SUBS_MAX];
	struct cluster_worker *workers[CLUSTER_WORKERS_MAX];
	struct reactor_timer paths_timer;
};

/* ---- discovery ------------------------------------------------------------------------------- */

struct cluster_discovery;

/* ---- events ---------------------------------------------------------------------------------- */

enum cluster_event_kind {
	CEV_CUT,
	CEV_PARTITION,
	CEV_PARTITION_TO,
	CEV_PARTITION_FROM,
	CEV_HALF_CLOSE,
	CEV_LIMIT,
	CEV_FLIPS,
	CEV_SLOW,
	CEV_NODE_KILL,
	CEV_NODE_POWER,
	CEV_NODE_CRASH,
	CEV_NODE_RESTART,
	CEV_NODE_FREEZE,
	CEV_NODE_MEMORY,
	CEV_NODE_JUMP,
	CEV_HOST_KILL,
	CEV_HOST_CRASH,
	CEV_HOST_CLOSE,
	CEV_HOST_FREEZE,
	CEV_HOST_MEMORY,
	CEV_DISK_FULL,
	CEV_DISK_CUT,
	CEV_DISK_POWER,
	CEV_STORE_FULL,
	CEV_STORE_ERROR,
	CEV_ANA,
	CEV_NS,
	CEV_GROW,
	CEV_REVOKE,
	CEV_READ_ONLY,
	CEV_PEER_CUT,
	CEV_PEER_PARTITION,
	CEV_WALL,
	CEV_PORT,
	CEV_SUBSYSTEM,
	CEV_MASK,
	CEV_CONTROL_BUSY,
	CEV_REACTOR_STUCK,
	CEV_EDGE_FREEZE,
	CEV_IMAGE,
	CEV_REMAKE,
	CEV_LONG_APPLY,
	CEV_ROLLBACK,
	CEV_SOURCE,
	CEV_TWIN,
	CEV_COUNT,
};

struct cluster_event {
	enum cluster_event_kind kind;
	uint64_t at_ns;
	uint64_t last_ns; /* duration, or time until the restart */
	uint64_t draws[4];
	bool is_off;        /* the scenario leaves it out */
	unsigned aims_left; /* how often it may still be postponed */
};

/* A function to call at a time, outside of all turns. */
struct cluster_action {
	uint64_t at_ns;
	uint64_t number; /* unused; cluster_do_at keeps the order of equal times */
	void (*fn)(struct cluster *world, uint64_t arg);
	uint64_t arg;
};

/* ---- the world ------------------------------------------------------------------------------- */

/* A write. The upper bits of its value are its index in world->values. */
struct cluster_value {
	uint8_t disk;
	uint8_t host;
	bool is_over;
	bool is_revoked; /* its host was not allowed when it began */
	uint16_t block;
	uint16_t copies; /* Copy commands in flight that read it */
	uint32_t allow_epoch;
	uint64_t begin_ns;
	uint8_t identity; /* index of the namespace that it is for */
};

/* The disk of a UUID; NULL: its data were given up. */
struct cluster_identity {
	struct uuid uuid;
	struct cluster_disk *disk;
};

struct cluster {
	const struct sim_scenario *scenario;
	struct sim_counters *counters;
	struct sim_verdict *verdict;
	uint64_t seed;
	uint64_t features;
	uint64_t features_drawn; /* before the scenario removed some */
	struct sim *sim;
	struct prng prng; /* workload */
	uint64_t step;    /* time of the models */
	uint64_t hash;
	bool is_failed;
	bool is_healed;
	struct sim_disk *twin;          /* opened in place of a shared disk; NULL: not made */
	struct cluster_node *twin_node; /* the member that opens it; NULL: none */
	bool is_twin_parted;            /* members cannot reach each other */
	const struct cluster_event *long_apply; /* in progress; NULL: none */
	uint64_t long_apply_next_ns;            /* earliest begin of the next one */

	unsigned node_count;
	unsigned host_count;
	unsigned sub_count;
	unsigned disk_count;
	struct cluster_node nodes[CLUSTER_NODES_MAX];
	struct cluster_host hosts[CLUSTER_HOSTS_MAX];
	struct cluster_sub subs[CLUSTER_SUBS_MAX];
	struct cluster_disk disks[CLUSTER_DISKS_MAX];
	struct cluster_identity identities[CLUSTER_IDENTITIES_MAX];
	unsigned identity_count;
	struct cluster_desired desired;
	uint64_t allow_epochs[CLUSTER_SUBS_MAX][CLUSTER_HOSTS_MAX];
	struct cluster_discovery *discovery;

	uint32_t block_bytes;
	uint32_t think_max_us;
	uint32_t pause_max_us; /* between bursts of commands */
	uint64_t troubled_ns;
	uint64_t commands_left;
	struct sim_faults faults; /* of the whole troubled time */
	uint32_t quiesce_ms;      /* CQT of every node */
	uint32_t spike_max_us;    /* of every disk */
	unsigned peer_kind;       /* 0: Unix sockets and kill, 1: Unix sockets, 2: TCP */
	uint64_t live_kills;      /* of sim_posix_live_kills, already reported */

	struct cluster_event events[CLUSTER_EVENTS_MAX];
	unsigned event_count;
	struct cluster_action actions[CLUSTER_ACTIONS_MAX]; /* sorted by time */
	unsigned action_count;

	struct cluster_value *values;
	uint64_t value_count;
	uint64_t value_room;
	struct cluster_change_set ghosts[CLUSTER_GHOSTS_MAX];
	unsigned ghost_count;

	uint64_t last_fault_ns; /* end of the last fault that may end a controller */
	uint64_t flip_until_ns;
	uint64_t flip_one_in; /* sends */
	struct prng flip_prng;
	uint64_t slices;
	bool is_ending; /* hosts and nodes that end stay down */
};

static inline bool cluster_has(const struct cluster *world, enum cluster_feature feature)
{
	return world->features >> feature & 1;
}

/* cluster_world.c */
void cluster_fail(struct cluster *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void cluster_hash(struct cluster *world, uint64_t value);
void cluster_count(struct cluster *world, const char *name, uint64_t value);
/* fn runs outside of all turns, at at_ns or a little later. */
void cluster_do_at(struct cluster *world, uint64_t at_ns,
		   void (*fn)(struct cluster *world, uint64_t arg), uint64_t arg);
/* Until until_ns a fault may end controllers. */
void cluster_fault(struct cluster *world, uint64_t until_ns);

/* cluster_plan.c */
void cluster_plan(struct cluster *world);
void cluster_plan_host(struct cluster *world, struct cluster_host *host);
/* A generator for one purpose, independent of all others. */
struct prng cluster_prng(const struct cluster *world, uint64_t purpose, uint64_t number);

/* cluster_change.c: documents and operators */
json_t *cluster_document(const struct cluster *world, unsigned node,
			 const struct cluster_desired *desired);
void cluster_node_create(struct cluster *world, struct cluster_node *node);
void cluster_node_start_later(struct cluster_node *node, uint64_t delay_ns);
/* Submits the desired state to each serving node that lacks it. Called in every slice. */
void cluster_operate(struct cluster *world);
bool cluster_nodes_are_settled(const struct cluster *world);
/* Whether every node is known to refuse the host. */
bool cluster_is_revoked(const struct cluster *world, unsigned sub, unsigned host);
bool cluster_node_has(const struct cluster *world, unsigned node, unsigned sub);
/* Before a change: the hosts that it allows may write again. */
void cluster_epochs_count(struct cluster_node *node);
/* After a change: takes the node's document as acknowledged, or notes the refusal. */
void cluster_acked_take(struct cluster_node *node);
void cluster_change_refused(struct cluster_node *node, int res);
/* The document that a node in this state returns. For free(). */
char *cluster_document_text(struct cluster *world, unsigned node,
			    const struct cluster_desired *desired);
/* Fails unless the kept document is the one in force. */
void cluster_check_kept(struct cluster_node *node);
/* Fails unless the target has the acknowledged version in force. */
void cluster_check_in_force(struct cluster_node *node);

/* cluster_host.c */
void cluster_host_start(struct cluster_host *host);
void cluster_host_kill(struct cluster_host *host, enum sim_death how);
void cluster_host_start_later(struct cluster_host *host, uint64_t delay_ns);
/* A clean shutdown, once its commands are done. */
void cluster_host_leave(struct cluster_host *host);
/* Continues shutdowns and discovery. Called in every slice. */
void cluster_hosts_look(struct cluster *world);
void cluster_host_wake(struct cluster_host *host);
bool cluster_host_is_well(struct cluster_host *host, char why[200]);

/* cluster_work.c: commands */
void cluster_worker_init(struct cluster_worker *worker);
void cluster_worker_fill(struct cluster_worker *worker);
/* Marks what its blocks on the disk hold as unknown. */
void cluster_worker_forget(struct cluster_worker *worker, unsigned disk);
void cluster_block_fill(const struct cluster *world, uint64_t value, uint8_t *bytes);
/* False: not a whole block of one write. */
bool cluster_block_parse(const struct cluster *world, const uint8_t *bytes, uint64_t *ret_value);
uint64_t cluster_value_new(struct cluster_worker *worker, uint64_t block);
struct cluster_value *cluster_value_find(struct cluster *world, uint64_t value);

/* cluster_judge.c */
void cluster_judge(struct cluster_worker *worker);
/* The worker's host died while its command was in flight. */
void cluster_ghost_add(struct cluster_worker *worker);
void cluster_ghosts_settle(struct cluster *world);
/* Whether a ghost may still land on one of the blocks, whatever was written since. */
bool cluster_ghost_may_land(const struct cluster *world, const struct cluster_disk *disk,
			    uint64_t first_block, uint32_t block_count);
bool cluster_has_ghost(const struct cluster *world, const struct cluster_disk *disk,
		       uint64_t first_block, uint32_t block_count);
void cluster_forget(struct cluster *world);
void cluster_on_landed(void *arg, struct sim_disk *disk, uint64_t block, const uint8_t *bytes,
		       const struct sim_process *writer, bool is_late);
bool cluster_status_is_explained(const struct cluster_worker *worker, nvme_status status);
void cluster_set_begin(struct cluster_worker *worker);
void cluster_set_end(struct cluster *world, const struct cluster_change_set *set, bool is_done,
		     bool is_stable);

/* cluster_reserve.c */
bool cluster_reserve_begin(struct cluster_worker *worker, struct prng *prng);
void cluster_reserve_end(struct cluster_worker *worker);
/* Of a command that succeeded: fails if another host held the reservation. */
void cluster_reserve_check(const struct cluster_worker *worker);
/* After the troubles: fills in the next command that frees the disk. False: it is free. */
bool cluster_reserve_settle(struct cluster_worker *worker, struct cluster_disk *disk);

/* cluster_events.c */
void cluster_events_plan(struct cluster *world);
void cluster_events_begin(struct cluster *world);
/* The disk loses power: each block of its cache is lost or not. */
void cluster_disk_lose(struct cluster_disk *disk);
void cluster_heal(struct cluster *world);

/* cluster_edges.c */
bool cluster_edges_is_on(uint64_t seed);
void cluster_edges_features(struct cluster *world);
void cluster_edges_shape(struct cluster *world);
void cluster_edges_disk(struct cluster *world, struct sim_disk_options *options);
void cluster_edges_timeouts(struct cluster *world, unsigned host, struct host_timeouts *timeouts);
void cluster_edges_plan(struct cluster *world);
/* False: postpone the event. */
bool cluster_edges_aim(struct cluster *world, struct cluster_event *event);
void cluster_edges_freeze(struct cluster *world, const struct cluster_event *event);
void cluster_edges_thaw(struct cluster *world, const struct cluster_event *event);

/* cluster_image.c: UUIDs of namespaces, lost and recreated files */
struct cluster_disk *cluster_medium(const struct cluster *world,
				    const struct cluster_desired *desired, unsigned sub,
				    unsigned ns);
void cluster_identity_add(struct cluster *world, const struct uuid *uuid,
			  struct cluster_disk *disk);
int cluster_identity_find(const struct cluster *world, const struct uuid *uuid); /* -1: unknown */
void cluster_image_begin(struct cluster *world, const struct cluster_event *event);
void cluster_image_end(struct cluster *world, const struct cluster_event *event);
/* In a change: the operator's recheck or recreate of a lost image, and its result. */
void cluster_image_edit(struct cluster_node *node, json_t *document, struct config_errors *errors);
void cluster_image_done(struct cluster_node *node, int res);
void cluster_image_started(struct cluster_node *node);
void cluster_image_heal(struct cluster *world);
/* No image is lost, cut or being recreated. */
bool cluster_images_are_whole(const struct cluster *world);
/* After the troubles. False: an image is lost; the operator rechecks or recreates it. */
bool cluster_images_are_served(struct cluster *world);

/* cluster_remake.c */
bool cluster_remake_is_on(uint64_t seed);
void cluster_remake_features(struct cluster *world);
void cluster_remake_shape(struct cluster *world);
void cluster_remake_plan(struct cluster *world);
/* False: postpone the event. */
bool cluster_remake_aim(struct cluster *world, struct cluster_event *event);
void cluster_remake_begin(struct cluster *world, const struct cluster_event *event);
void cluster_remake_end(struct cluster *world, const struct cluster_event *event);
void cluster_remake_note(struct cluster_node *node, const struct cluster_desired *former);
void cluster_remake_check(const struct cluster_disk *disk, const struct cluster_value *value,
			  const struct sim_process *writer);
void cluster_long_apply_begin(struct cluster *world, const struct cluster_event *event);
void cluster_long_apply_end(struct cluster *world, const struct cluster_event *event);

/* cluster_source.c */
void cluster_past_note(struct cluster_node *node);
void cluster_past_free(struct cluster_node *node);
/* The node has an older state, of node->history: forgets all later generations. */
void cluster_past_forget(struct cluster_node *node, uint64_t generation);
void cluster_rollback_begin(struct cluster *world, const struct cluster_event *event);
void cluster_rollback_submit(struct cluster_node *node);

/* cluster_twin.c: members that find another file under the name */
bool cluster_twin_is_on(uint64_t seed);
/* Whether nodes record which file they served last. */
bool cluster_twin_is_recorded(const struct cluster *world);
void cluster_twin_features(struct cluster *world);
void cluster_twin_plan(struct cluster *world);
void cluster_twin_begin(struct cluster *world, const struct cluster_event *event);
void cluster_twin_end(struct cluster *world, const struct cluster_event *event);
/* Fails if a node's first start waited for members that it can reach. */
void cluster_twin_started(const struct cluster_node *node);
void cluster_twin_free(struct cluster *world);

/* cluster_start.c */
bool cluster_start_is_on(uint64_t seed);
void cluster_start_features(struct cluster *world);
void cluster_start_plan(struct cluster *world);
void cluster_start_begin(struct cluster *world, const struct cluster_event *event);
/* Starts a node that is down, in the planned way. */
void cluster_start(struct cluster_node *node);
/* The node serves. Called before its document is checked. */
void cluster_start_served(struct cluster_node *node);
/* The node could not start. True: the refusal was right. */
bool cluster_start_refused(struct cluster_node *node, int res);
void cluster_start_free(struct cluster_node *node);

/* cluster_discovery.c */
void cluster_discovery_start(struct cluster *world);
/* Whether any node's discovery log has the port for the subsystem. */
bool cluster_discovery_knows(const struct cluster *world, unsigned sub,
			     const struct net_addr *addr);
bool cluster_discovery_is_well(struct cluster *world, char why[200]);
void cluster_discovery_stop(struct cluster *world);
bool cluster_discovery_is_gone(const struct cluster *world);
void cluster_discovery_free(struct cluster *world);

/* cluster_check.c */
void cluster_check_stats(struct cluster *world);
void cluster_check_path(struct cluster_mpath *mpath, unsigned path, const char *what);
bool cluster_check_targets_are_empty(struct cluster *world, char why[200]);

#endif
