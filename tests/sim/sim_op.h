/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command of a simulated host: chosen at random, entered in the model when it begins, judged
 * when it ends. One thread; runs on the host's simulated reactor.
 */
#ifndef WEFT_TESTS_SIM_OP_H
#define WEFT_TESTS_SIM_OP_H

#include "sim_world.h"

#include "host/host.h"

#define OP_BLOCKS_MAX   32
#define OP_BLOCKS_LARGE 48 /* of large blocks: two PDUs */
#define OP_EXTENTS_MAX  4
#define OP_COPY_MAX     16
/* Bit in the value of a block that was marked bad. */
#define OP_VALUE_BAD  (1ull << 62)
#define OP_DATA_BYTES (OP_BLOCKS_LARGE * 4096)

enum op_kind {
	OP_READ,
	OP_WRITE,
	OP_WRITE_ZEROES,
	OP_DEALLOCATE,
	OP_COMPARE,
	OP_FUSED, /* Compare and Write: two consecutive commands */
	OP_UNCORRECTABLE,
	OP_COPY,
	OP_MISFIT, /* a Write with less data than its blocks */
	OP_FLUSH,
	OP_RESERVE,
	OP_ODD_IO, /* sim_odd.c */
	OP_IDENTIFY_CTRL,
	OP_IDENTIFY_NS,
	OP_LOG,
	OP_LOG_DISCOVERY,
	OP_ODD_ADMIN,
};

struct op_extent {
	uint64_t first_block;
	uint32_t block_count;
};

/* What a command changes. Outlives the command when its outcome is unknown. */
struct op_change {
	struct list node;
	struct world_ns *ns;
	uint64_t start;
	uint64_t value; /* of the first block, then counting up; 0: zeroes */
	struct op_extent extents[OP_EXTENTS_MAX];
	unsigned extent_count;
	/* Copy: the new value of each block. */
	bool has_values;
	uint64_t values[OP_COPY_MAX];
	bool is_reserve;    /* a reservation instead of blocks */
	bool writes_quarry; /* no other command may meanwhile */
	bool reads_quarry;
	struct world_ghost ghost;
};

struct sim_op {
	struct world *world;
	struct host_cmd cmd;
	enum op_kind kind;
	struct world_ns *ns;
	unsigned queue;
	uint64_t start;
	uint64_t sent_ns;
	uint64_t generation_before; /* Discovery: the settled generation when it began */
	bool is_busy;
	unsigned host_index;
	struct uuid host_id;
	/* When Preempt and Abort excluded the command's host: the command took effect before, or
	 * never will. Valid while no other reservation command has begun. Of a read: the host lost
	 * the right to read, and the answer was made before. */
	uint64_t over_at;
	uint64_t over_number;
	/* sim_fence.c: the host lost the right to write before the command began. It must not. */
	bool is_fenced;
	uint64_t held_before; /* bit per block that held the command's value then */
	/* Reservation commands. */
	bool is_preempt_and_abort;
	bool is_reserve_alone;
	unsigned registered_before; /* bit per host */
	uint64_t reserve_number;
	uint64_t target_epoch;
	bool can_fuse;        /* the queue has room for two commands */
	uint64_t misdirected; /* the disk's count when the command began */
	bool is_fua;
	nvme_status odd_status; /* the status that an odd command must get */
	bool must_be_aborted;   /* an Abort reported success */
	bool may_be_aborted;    /* an Abort was in flight at the same time */
	struct op_change change;
	uint64_t expected[OP_BLOCKS_LARGE]; /* Compare */
	uint8_t *data;
	/* The Write of a fused pair; the Compare is `cmd`. */
	struct host_cmd second;
	unsigned cmds_busy;
	uint8_t *second_data;
};

/* Chooses and fills op->cmd, and enters its start in the model. */
void op_begin_random(struct sim_op *op, struct prng *prng);
void op_begin_read(struct sim_op *op, struct world_ns *ns, uint64_t first_block, uint32_t count);
void op_begin_discovery(struct sim_op *op);
/* False: the words of the block do not match. */
bool op_block_parse(const struct world *world, const uint8_t *at, size_t bytes,
		    uint64_t *ret_value);
/* The block's value after the change. */
uint64_t op_change_value(const struct op_change *change, uint64_t block);

/* sim_judge.c */
/* Judges the answer. A change of unknown outcome is in `ghosts` until its controller has ended. */
void op_end(struct sim_op *op, struct list *ghosts, const struct world_ghost *session);
/* Enters in the model the ghosts whose controller has ended at the target. */
void op_ghosts_settle(struct world *world, struct list *ghosts);
/* The session's controller was reset. Returns how many of its commands were ghosts. */
unsigned op_ghosts_reset(struct world *world, struct list *ghosts,
			 const struct world_ghost *session);
bool op_is_admin(const struct sim_op *op);

/* Clears the former command. */
void op_reset(struct sim_op *op, enum op_kind kind, struct world_ns *ns);

/* sim_odd.c */
void odd_begin(struct sim_op *op, struct prng *prng, struct world_ns *ns);

/* sim_reserve.c */
void reserve_begin(struct sim_op *op, struct prng *prng);
void reserve_end(struct sim_op *op);
/* A reservation command of a lost controller can have no effect any more. */
void reserve_over(struct world *world, struct world_ns *ns);
bool reserve_explains(const struct sim_op *op, nvme_status status);
/* Fails the run if the command was executed or refused against the reservation. */
void reserve_check(const struct sim_op *op, nvme_status status);
/* By the current reservation. */
bool reserve_has_right(const struct world_ns *ns, const struct uuid *host_id, bool is_write);

/* sim_fence.c: commands that wait at the target while their host loses the right to write. */
/* Call when a reservation command was answered and no other is in flight. */
void fence_begin(const struct sim_op *by);
/* The command has ended. is_done: its answer reports that the write took effect. */
void fence_check(struct sim_op *op, bool is_done);

#endif
