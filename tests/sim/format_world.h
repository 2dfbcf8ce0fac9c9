/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format world: one node with the real control plane (tests/sim/sim_node.h), hosts that write,
 * mark, reserve and format its namespaces with Format NVM, and an operator who changes block sizes,
 * replaces and removes namespaces, and grants and revokes the right to format. The node is killed,
 * stopped and started again at any moment. One thread.
 *
 * A disk is judged in cells of 512 bytes, whatever its current block size: each cell is a register
 * with a history (sim_model.h). A change of the block size keeps the cells; an erasure writes
 * zeroes to all of them. A disk keeps its UUID for ever. Hosts use the NSID, UUID and block size
 * that they read last.
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
/* The area: the first cells, which may be marked bad. They are judged by their mark, not by their
 * data. */
#define FORMAT_AREA_CELLS 8
#define FORMAT_OP_CELLS   32
#define FORMAT_GHOSTS_MAX 512
#define FORMAT_NQN        "nqn.2026-11.io.weft:format"

/* In the order of format_feature_names. */
enum format_feature {
	FF_HOSTS,
	FF_NAMESPACES,
	FF_ERASE,
	FF_ALL, /* NSID FFFFFFFFh */
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
	/* The block size is known to be `shift` while shift_epoch equals epoch. epoch counts begins
	 * and ends of everything that may change the block size. */
	uint64_t epoch;
	uint64_t shift_epoch;
	uint64_t shift_since; /* step */
	unsigned shift;
	/* The marked area. is_bad is valid while known_epoch equals area_epoch. */
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
	bool is_sure; /* on success the namespace was this disk all the time */
	bool touches_area;
	bool is_only_change; /* no other change of the area at its begin */
	bool is_only_format; /* no other Format at its begin */
	uint64_t over_at;    /* step when its host was shut out; MODEL_NEVER: it was not */
	uint64_t over_number;
	uint64_t disk_epoch; /* at its begin; unchanged while nothing else begins */
	uint64_t area_epoch;
};

/* A command; outlives its connection as a ghost. */
struct fop {
	enum fop_kind kind;
	uint64_t start; /* step */
	uint32_t nsid;  /* NVME_NSID_ALL: all */
	uint32_t first_cell;
	uint32_t cell_count;
	uint64_t value; /* of the first cell, counting up; 0: zeroes */
	bool erases;
	bool is_last_look; /* read of everything after the troubles */
	unsigned shift;    /* Format: the new block size */
	uint64_t operator_epoch;
	unsigned victim; /* Preempt: its index */
	bool victim_registered;
	struct feffect effects[FORMAT_DISKS];
	uint64_t expected[FORMAT_OP_CELLS]; /* Compare */
	uint64_t life;                      /* of the node */
	uint16_t cntlid;
	unsigned host;
};

struct fworker {
	struct host_cmd cmd; /* on_op_done finds the worker from it */
	struct fhost *host;
	struct reactor_timer timer;
	bool is_busy;
	struct fop op;
	uint8_t data[FORMAT_OP_CELLS * FORMAT_CELL_BYTES];
};

/* What a host knows of an NSID. */
struct fview {
	struct fdisk *disk; /* NULL: unknown */
	unsigned shift;
	bool is_stale;
	unsigned busy;      /* its commands in flight */
	uint32_t read_cell; /* next one of the last look */
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
	/* One look at a time: the descriptors, then Identify Namespace. */
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
	uint64_t start_at_ns; /* 0: no start is planned */
	unsigned ns_count;
	unsigned host_count;
	struct fdisk disks[FORMAT_DISKS];
	struct fhost hosts[FORMAT_HOSTS_MAX];
	struct fop ghosts[FORMAT_GHOSTS_MAX];
	unsigned ghost_count;
	uint64_t reserve_begun[FORMAT_NS_MAX];
	unsigned reserve_busy[FORMAT_NS_MAX];
	/* Operator. operator_epoch counts when a change begins, ends or is lost. */
	bool is_changing;
	bool is_restored; /* after the troubles: no namespace is missing */
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
/* Whether the target serves the disk under the NSID. */
bool format_is_served(struct fworld *world, uint32_t nsid, const struct fdisk *disk);
/* Whether the host is registered with the current namespace of the NSID. */
bool format_is_registered(struct fworld *world, uint32_t nsid, const struct uuid *host_id);

/* format_host.c */
void format_host_create(struct fworld *world, unsigned index);
void format_host_wake(struct fhost *host);
/* What the host still waits for after the troubles; NULL: nothing. */
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
