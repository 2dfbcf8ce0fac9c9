/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One simulated run: a target on its reactors, the namespaces with their models, the hosts, and the
 * troubles that the seed chose. One thread; `world_step` is the models' time. sim_plan.c makes the
 * choices; sim_world.c owns the target and the troubles; sim_change.c has changes by an operator
 * and the state kept over restarts; sim_workload.c has the hosts, sim_op.c their commands;
 * sim_judge.c judges the answers; sim_reserve.c has reservations.
 */
#ifndef WEFT_TESTS_SIM_WORLD_H
#define WEFT_TESTS_SIM_WORLD_H

#include "sim.h"
#include "sim_late.h"
#include "sim_model.h"
#include "sim_neighbour.h"
#include "sim_run.h"
#include "sim_wreck.h"

#include "target/target.h"

#define WORLD_NS_MAX       4
#define WORLD_HOSTS_MAX    4 /* the last one is the discovery client */
#define WORLD_REACTORS_MAX 3

/* Features that shrinking can switch off; sim_plan.c has the names in this order. */
enum world_feature {
	FEATURE_HOSTS, /* more than one */
	FEATURE_REACTORS,
	FEATURE_NAMESPACES,
	FEATURE_DISCOVERY,
	FEATURE_CUTS,
	FEATURE_PARTITIONS,
	FEATURE_SWAPS,
	FEATURE_RESTARTS,
	FEATURE_POWER_LOSSES,
	FEATURE_CRASHES,
	FEATURE_LEAVES,
	FEATURE_ABORTS,
	FEATURE_ADMIN,
	FEATURE_SMALL_POOLS,
	FEATURE_NET_RESETS,
	FEATURE_STALLS,
	FEATURE_HALF_CLOSES,
	FEATURE_REFUSALS,
	FEATURE_SMALL_WINDOWS,
	FEATURE_SEGMENTS,
	FEATURE_SHORT_RECVS,
	FEATURE_ZERO_COPY,
	FEATURE_CHANGES,
	FEATURE_RESERVATIONS,
	FEATURE_DUEL,
	FEATURE_BAD_BLOCKS,
	FEATURE_COPIES,
	FEATURE_MASKS,
	FEATURE_ANA,
	FEATURE_GROWTH,
	FEATURE_KEEP_FAILURES,
	FEATURE_CTRL_RESETS,
	FEATURE_MEDIA_ERRORS,
	FEATURE_MEDIA_SPIKES,
	FEATURE_DEAF_MEDIA,
	FEATURE_VOLATILE_CACHES,
	FEATURE_NEWS,
	FEATURE_MISFITS,
	FEATURE_ODDS,
	FEATURE_IDLE,
	FEATURE_LARGE,
	FEATURE_LATE,                                       /* the first of enum late_feature */
	FEATURE_WRECK = FEATURE_LATE + LATE_FEATURES,       /* of enum wreck_feature */
	FEATURE_NEIGHBOUR = FEATURE_WRECK + WRECK_FEATURES, /* of enum neighbour_kind */
	FEATURE_LATE_DATA = FEATURE_NEIGHBOUR + NEIGHBOUR_KINDS,
};

enum world_medium {
	WORLD_MEDIUM_MEM,
	WORLD_MEDIUM_FAULT,
	WORLD_MEDIUM_SIM,
	WORLD_MEDIUM_NULL, /* has no model */
};

#define WORLD_NS_BLOCKS_MAX 256
#define WORLD_QUARRY_BLOCKS 8

struct world_ns {
	uint32_t nsid;
	enum world_medium kind;
	struct ns_backing *backing;
	struct media *media;
	struct sim_disk *disk; /* of WORLD_MEDIUM_SIM if the target is a process; else NULL */
	struct media traits;   /* copy that media points to while the target is down */
	struct model *model;   /* NULL: any read is right */
	uint64_t block_count;
	uint32_t block_shift;
	bool can_fail; /* its medium can return errors */
	bool is_present;
	bool is_read_only;
	/* When every reactor had the namespace's present state; MODEL_NEVER while it changes. */
	uint64_t settled_at;
	/* The value that the last fused pair on a block replaced: no pair may replace it again. */
	uint64_t fused_from[WORLD_NS_BLOCKS_MAX];
	/* When the cache was last lost: outcomes of commands in flight then are unknown. */
	uint64_t lost_at;

	/* Only in worlds with changes (plan.has_changes). */
	struct uuid uuid;
	unsigned hidden_from; /* bit per host */
	enum ana_state ana;
	uint64_t first_block_count; /* before the namespace grew */
	/* The quarry: blocks with known values, the source of Copies. One writer at a time, not
	 * while a Copy reads. */
	uint64_t quarry_first; /* 0: none */
	unsigned quarry_readers;
	bool is_quarry_written;
	unsigned reserve_busy;     /* reservation commands in flight, also of lost controllers */
	uint64_t reserve_begun;    /* how many have begun */
	uint64_t reserve_quiet_at; /* when the last of them ended */
	bool has_fenced;           /* has commands that must not begin: sim_fence.c */
};

/* What the seed chose. Numbers mean "once in"; 0: never. */
struct world_plan {
	unsigned data_reactors;
	unsigned hosts;
	bool has_discovery;
	uint64_t commands_max;
	uint32_t think_max_us;
	uint32_t chaos_max_us; /* time between two troubles */
	uint32_t cut_one_in;   /* chance per trouble, for each */
	uint32_t partition_one_in;
	uint32_t swap_one_in;
	uint32_t restart_one_in;
	uint32_t power_loss_one_in;
	uint32_t crash_one_in; /* of a host, per command */
	uint32_t leave_one_in; /* clean disconnect, per command */
	uint32_t abort_one_in; /* per command */
	uint32_t admin_one_in;
	bool has_small_pools;
	enum zero_copy zero_copy;
	/* Later additions are chosen separately, so that older seeds do not change. */
	bool has_changes;
	bool has_reservations;
	bool is_duel;       /* hosts exclude each other all the time */
	bool has_late_data; /* in a duel: also by plain Preempt, while data is in flight */
	bool has_bad_blocks;
	bool has_copies;
	uint32_t mask_one_in; /* chance per trouble, for each */
	uint32_t ana_one_in;
	uint32_t grow_one_in;
	uint32_t keep_fail_one_in; /* failure of the full store, per value that is kept */
	bool has_resets;           /* hosts have their lost controllers reset */
	bool has_news;             /* hosts read the changed namespaces log after a notice */
	bool has_large;            /* data of more than one PDU */
	bool is_narrow;            /* connections have small windows */
	uint32_t odd_one_in;       /* invalid commands, per command */
	uint32_t misfit_one_in;    /* commands whose data is too short, per command */
	uint32_t idle_one_in;      /* a host idles for seconds, per command */
	struct sim_faults faults;
};

struct world_stats {
	uint64_t commands;
	uint64_t aborts;
	uint64_t aborted;
	uint64_t connects;
	uint64_t connect_failures;
	uint64_t losses;
	uint64_t crashes;
	uint64_t cuts;
	uint64_t partitions;
	uint64_t swaps;
	uint64_t restarts;
	uint64_t power_losses;
	uint64_t keep_alive_expiries;
	uint64_t blocks_checked;
	uint64_t changes;      /* of masks, ANA states and sizes */
	uint64_t reservations; /* commands that changed a reservation */
	uint64_t recalled;     /* reservations restored after a restart */
	uint64_t preempted;    /* changes in flight of hosts excluded by Preempt and Abort */
	uint64_t reads_fenced; /* reads answered, partly received when the host lost the right */
	uint64_t fenced;       /* changes that had not begun when the host lost the right */
	uint64_t copies;
	uint64_t odds;
	uint64_t keep_failures;
	uint64_t resets;       /* Cross-Controller Resets that succeeded */
	uint64_t resets_fence; /* of these, with commands of the lost controller still unknown */
	uint64_t statuses[SIM_STATUS_MAX];
};

enum world_phase {
	WORLD_TROUBLED,
	WORLD_HEALED, /* no more troubles; every host reads all blocks once more */
	WORLD_LEAVING,
};

struct sim_host;

/* A lost controller that has not ended at the target: its commands may still land. */
struct world_ghost {
	uint64_t target_epoch;
	uint16_t cntlid;
	bool is_reset; /* by a Cross-Controller Reset: no command may land any more */
};

/* sim_duty.c: notices that hosts must get. */
struct world_duties {
	/* Changed namespaces that the host has not read yet: bit per NSID. */
	uint32_t news[WORLD_HOSTS_MAX];
	uint64_t generation_built;   /* of the discovery log in the last snapshot */
	uint64_t generation_settled; /* of the log that every reactor has */
};

struct world_value {
	uint32_t block;
	bool is_copied;
};

struct world {
	struct sim *sim;
	struct prng prng;
	struct world_plan plan;
	struct late late;
	struct wreck wreck;
	struct neighbours neighbours;
	const struct sim_scenario *scenario;
	struct sim_verdict *verdict;
	struct sim_counters *counters;
	struct world_stats *stats; /* of this run */
	unsigned event_count;      /* troubles so far, left out or not */
	enum world_phase phase;
	uint64_t step;
	uint64_t next_value;
	uint64_t commands_left;
	unsigned troubles_left;
	uint64_t hash;
	bool is_failed;

	struct reactor *control;
	struct reactor *data[WORLD_REACTORS_MAX];
	struct target *target; /* NULL during a restart */
	uint64_t target_epoch;
	struct net_addr addr;
	bool is_applying;
	bool is_stopping;
	bool is_partitioned;
	bool is_done;
	struct reactor_timer chaos_timer;
	struct reactor_timer heal_timer;
	struct reactor_timer start_timer;

	struct world_ns ns[WORLD_NS_MAX];
	unsigned ns_count;
	unsigned media_before; /* media that failed runs left open */
	struct prng change_prng;
	struct list kept; /* sim_change.c */
	struct world_duties duties;
	/* By value: the block it was first written to, and whether a Copy spread it. */
	struct world_value *values;
	uint64_t value_room;
	struct sim_host *hosts[WORLD_HOSTS_MAX];
	unsigned host_count;
};

uint64_t world_step(struct world *world);
void world_hash(struct world *world, uint64_t value);
/* Records the first violation of the run. */
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Call when a trouble strikes, after its random draws, so that a left-out trouble does not change
 * others. False: the scenario leaves it out. */
bool world_event(struct world *world);
/* is_chosen: the seed chose the feature. Returns whether the world has it. Call after all its
 * draws. */
bool world_feature(struct world *world, enum world_feature feature, bool is_chosen);
/* True: no command of that controller can reach a medium any more. */
bool world_ghost_is_gone(struct world *world, const struct world_ghost *ghost);

/* For sim_wreck.c: the target's process died with all it had; its disks lose their caches; the
 * target starts again in its next process. */
void world_die(struct world *world);
void world_disks_lose_power(struct world *world);
void world_live_again(struct world *world);

/* For sim_neighbour.c: applies the unchanged configuration; as target_apply_and_drain. */
void world_apply_and_drain(struct world *world, const struct target_scope *scope,
			   void (*drained)(void *arg, int res));

/* sim_plan.c: what a seed chooses. */
extern const char *const world_feature_names[];
void world_plan_choose(struct world *world, struct sim_options *options);
/* Removes from the plan what the scenario switches off. */
void world_plan_shrink(struct world *world, struct sim_options *options);
void world_ns_create(struct world *world);
void world_ns_destroy(struct world *world);
/* Next life of the target: reopens the same disks and restores what was kept. */
void world_ns_reopen(struct world *world);
struct snapshot *world_snapshot_build(struct world *world);

/* sim_change.c: the simulated target's state store, and changes by an operator. */
void world_changes_choose(struct world *world, uint64_t seed);
struct keeper world_keeper(struct world *world);
void world_kept_free(struct world *world);
/* Creates the backing and restores what was kept of the namespace. */
struct ns_backing *world_backing_create(struct world *world, const struct world_ns *ns);
/* The target has ended: drops the live state of namespaces except what was kept. */
void world_ns_restart(struct world *world);
/* Chooses a change for the next snapshot. False: none was due. */
bool world_change(struct world *world);
bool world_ns_is_seen(const struct world_ns *ns, unsigned host_index);
/* Adds namespace masks and the port's ANA states to the snapshot. */
void world_masks_build(struct world *world, struct snapshot *snapshot);
void world_ana_build(struct world *world, struct port *port);

/* sim_odd.c */
void odd_choose(struct world *world, uint64_t seed);

/* sim_workload.c */
const char *sim_host_name(unsigned index, char name[64]);
struct sim_op;
void sim_host_for_each_op(struct sim_host *host, void (*fn)(struct sim_op *op, void *arg),
			  void *arg);
struct sim_host *sim_host_create(struct world *world, unsigned index, bool is_discovery);
void sim_host_destroy(struct sim_host *host);
/* Call when the phase changed: idle workers look for work. */
void sim_host_wake(struct sim_host *host);
/* The earliest start of the commands in flight, or MODEL_NEVER. */
uint64_t sim_host_oldest(const struct sim_host *host);
/* What the host still waits for after the troubles; NULL: nothing. */
const char *sim_host_lack(const struct sim_host *host);
void sim_host_leave(struct sim_host *host);
bool sim_host_is_gone(const struct sim_host *host);
/* True: the host is connected to this controller. */
bool sim_host_has_ctrl(const struct sim_host *host, uint16_t cntlid);
/* When the last command that this controller answered was sent; 0: not the host's controller. */
uint64_t sim_host_proven_ns(const struct sim_host *host, uint16_t cntlid);
/* True: the host is connected and has enabled notices of changed namespaces. */
bool sim_host_hears(const struct sim_host *host);

/* sim_fence.c */
void late_data_choose(struct world *world, struct sim_options *options);
/* Call between two events: finds hosts that have the right to write again. */
void fence_watch(struct world *world);

/* sim_duty.c: what the target owes its hosts beyond answers. */
struct ctrl_reset_cmd;
struct discovery_header;
void duty_choose(struct world *world, uint64_t seed);
/* Call between two events. */
void duty_ctrls(struct world *world);
/* A Cross-Controller Reset of this instance was reported as done. */
void duty_reset_done(struct world *world, const struct ctrl_reset_cmd *instance);
/* Bit per host that sees the namespace. */
unsigned duty_seen_by(const struct world *world, const struct world_ns *ns);
/* A change of the namespace begins, of which these hosts must get a notice. */
void duty_ns_changed(struct world *world, const struct world_ns *ns, unsigned hosts);
void duty_session_begun(struct world *world, unsigned host_index);
/* The host has read the changed namespaces log. */
void duty_changed_log(struct world *world, unsigned host_index, const uint8_t *page,
		      size_t page_bytes);
bool duty_is_told(const struct world *world, unsigned host_index);
/* Judges a log header. `before`: the settled generation when the host sent the command. */
void duty_discovery(struct world *world, uint64_t before, const struct discovery_header *header);

#endif
