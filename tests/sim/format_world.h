/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format world: one node with the true control plane (tests/sim/sim_node.h), hosts that write,
 * mark, reserve and format its namespaces with Format NVM, and an operator who changes block sizes,
 * replaces and removes namespaces and gives and takes the right to format. The node is killed,
 * stopped and started again at any moment. One thread.
 *
 * A disk is judged in cells of 512 bytes, whatever its block size is at the time: each cell is a
 * register with a history (sim_model.h). A block size that changes leaves the cells as they are; an
 * erasure writes zeroes to all of them. A disk has one UUID for ever, and hosts go by what they
 * have read: NSID, UUID and block size.
 */
#ifndef WEFT_TESTS_FORMAT_WORLD_H
#define WEFT_TESTS_FORMAT_WORLD_H

#include "sim.h"
#include "sim_disk.h"
#include "sim_model.h"
#include "sim_node.h"
#include "sim_run.h"

#include "base/clock.h"
#include "host/host.h"

#define FORMAT_NS_MAX      2
#define FORMAT_DISKS       (2 * FORMAT_NS_MAX) /* two for each NSID, of which one is served */
#define FORMAT_HOSTS_MAX   3
#define FORMAT_WORKERS_MAX 4
#define FORMAT_CELL_BYTES  512
#define FORMAT_CELLS       64
/* The first cells are marked bad, and judged by that and not by what they hold. */
#define FORMAT_AREA_CELLS 8
#define FORMAT_OP_CELLS   32
#define FORMAT_GHOSTS_MAX 512
#define FORMAT_NQN        "nqn.2026-11.io.weft:format"

/* In the order of format_feature_names. */
enum format_feature {
	FF_HOSTS,
	FF_NAMESPACES,
	FF_ERASE,
	FF_ALL, /* FFFFFFFFh */
	FF_BAD_BLOCKS,
	FF_RESERVE,
	FF_RIGHTS,
	FF_BLOCK,
	FF_REPLACE,
	FF_REMOVE,
	FF_CUT,
	FF_HALF_CLOSE,
	FF_KILL,
	FF_POWER,
	FF_RESTART,
	FF_STORE_ERROR,
	FF_DISK_ERROR,
	FF_DISK_SPIKE,
	FF_COUNT,
};

struct fworld;

struct fdisk {
	struct fworld *world;
	unsigned index;
	char name[8];
	struct uuid uuid;
	struct sim_disk *disk;
	struct model *model;
	/* Its block size is `shift` for sure as long as shift_epoch is epoch. Counted whenever
	 * something begins or ends that may change it. */
	uint64_t epoch;
	uint64_t shift_epoch;
	uint64_t shift_since; /* step */
	unsigned shift;
	/* The cells that are marked. Whether they are bad is known while area_epoch is known_epoch.
	 */
	uint64_t area_epoch;
	uint64_t known_epoch;
	uint64_t known_since; /* step */
	bool is_bad;
	unsigned area_busy;
	unsigned formats_busy;
};

enum fop_kind {
	FOP_READ,
	FOP_WRITE,
	FOP_ZEROES,
	FOP_COMPARE,
	FOP_MARK, /* Write Uncorrectable */
	FOP_FLUSH,
	FOP_REGISTER,
	FOP_ACQUIRE,
	FOP_PREEMPT,
	FOP_CLEAR,
	FOP_FORMAT,
};

/* What a command may do to one disk. */
struct feffect {
	bool is_on;
	bool is_sure; /* when it succeeds: the namespace was this disk all the time */
	bool touches_area;
	bool is_only_change; /* of these cells, when it began */
	bool is_only_format; /* likewise */
	uint64_t over_at;    /* its host was shut out then; MODEL_NEVER: it was not */
	uint64_t over_number;
	uint64_t disk_epoch; /* of this command alone: nothing else has begun since */
	uint64_t area_epoch;
};

/* A command; outlives its session as a ghost. */
struct fop {
	enum fop_kind kind;
	uint64_t start; /* step */
	uint32_t nsid;  /* NVME_NSID_ALL: of all */
	uint32_t first_cell;
	uint32_t cell_count;
	uint64_t value; /* of the first cell, counting up; 0: zeroes */
	bool erases;
	bool is_last_look; /* at everything, after the troubles */
	unsigned shift;    /* Format: the new one */
	uint64_t operator_epoch;
	unsigned victim; /* Preempt: host */
	bool victim_registered;
	struct feffect effects[FORMAT_DISKS];
	uint64_t expected[FORMAT_OP_CELLS]; /* Compare */
	uint64_t life;                      /* of the node */
	uint16_t cntlid;
	unsigned host;
};

struct fworker {
	struct host_cmd cmd; /* first: found from it */
	struct fhost *host;
	struct reactor_timer timer;
	bool is_busy;
	struct fop op;
	uint8_t data[FORMAT_OP_CELLS * FORMAT_CELL_BYTES];
};

/* What a host knows of an NSID. */
struct fview {
	struct fdisk *disk; /* NULL: not there */
	unsigned shift;
	bool is_stale;
	unsigned busy;      /* its commands under way */
	uint32_t read_cell; /* of the last look at everything */
};

struct fhost {
	struct fworld *world;
	unsigned index;
	char nqn[NVME_NQN_BYTES];
	struct uuid id;
	struct reactor *reactor;
	struct prng prng;
	struct host_ctrl *ctrl;
	bool is_live;
	bool is_away;
	uint64_t life;
	struct reactor_timer retry;
	struct fview views[FORMAT_NS_MAX];
	/* One look at a time: the identity, then the format. */
	struct host_cmd look;
	bool is_looking;
	unsigned look_ns;
	uint64_t look_again_ns;
	uint64_t look_epoch;
	uint64_t look_start; /* step */
	struct fdisk *look_disk;
	uint8_t page[NVME_PAGE_BYTES];
	unsigned worker_count;
	struct fworker workers[FORMAT_WORKERS_MAX];
};

struct fworld {
	const struct sim_scenario *scenario;
	struct sim_counters *counters;
	struct sim_verdict *verdict;
	uint64_t features;
	struct sim *sim;
	struct prng prng; /* events */
	uint64_t step;
	uint64_t hash;
	uint64_t next_value;
	bool is_failed;
	bool is_healed;
	bool is_ending;
	uint64_t commands_left;
	unsigned events_left;
	unsigned event_count;
	uint64_t next_event_ns;
	struct net_addr addr;
	struct sim_node *node;
	uint64_t start_at_ns; /* 0: it is up */
	unsigned ns_count;
	unsigned host_count;
	struct fdisk disks[FORMAT_DISKS];
	struct fhost hosts[FORMAT_HOSTS_MAX];
	struct fop ghosts[FORMAT_GHOSTS_MAX];
	unsigned ghost_count;
	uint64_t reserve_begun[FORMAT_NS_MAX];
	unsigned reserve_busy[FORMAT_NS_MAX];
	/* Operator. The epoch counts when a change begins, ends, or is lost. */
	bool is_changing;
	bool is_restored; /* after the troubles: all namespaces are there */
	unsigned change_kind;
	uint64_t change_draws[3];
	uint64_t operator_epoch;
	unsigned without_right; /* a bit for each host */
	unsigned next_without_right;
};

/* format_world.c */
void format_fail(struct fworld *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void format_count(struct fworld *world, const char *name);
bool format_has(const struct fworld *world, enum format_feature feature);
uint64_t format_step(struct fworld *world);
void format_hash(struct fworld *world, uint64_t value);
/* Whether the NSID is that disk, for the target. */
bool format_is_served(struct fworld *world, uint32_t nsid, const struct fdisk *disk);
/* Whether the host is registered with the namespace that the NSID has now. */
bool format_is_registered(struct fworld *world, uint32_t nsid, const struct uuid *host_id);

/* format_host.c */
void format_host_create(struct fworld *world, unsigned index);
void format_host_wake(struct fhost *host);
/* What it waits for after the troubles; NULL: nothing. */
const char *format_host_lack(const struct fhost *host);
void format_host_leave(struct fhost *host);
bool format_host_is_gone(const struct fhost *host);

/* format_judge.c */
void format_op_begin(struct fhost *host, struct fop *op);
void format_op_end(struct fhost *host, struct fworker *worker, nvme_status status);
void format_ghosts_settle(struct fworld *world);
void format_cell_fill(uint8_t *at, uint64_t value);
bool format_cell_parse(const uint8_t *at, uint64_t *ret_value);

#endif
