/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command of a simulated host: chosen at random, told to the model when it begins, judged when
 * it ends. One thread; runs on the host's simulated reactor.
 */
#ifndef WEFT_TESTS_SIM_OP_H
#define WEFT_TESTS_SIM_OP_H

#include "sim_world.h"

#include "host/host.h"

#define OP_BLOCKS_MAX   32
#define OP_BLOCKS_LARGE 48 /* of the large blocks: two PDUs */
#define OP_EXTENTS_MAX  4
#define OP_COPY_MAX     16
/* In the value of a block that was marked bad. */
#define OP_VALUE_BAD  (1ull << 62)
#define OP_DATA_BYTES (OP_BLOCKS_LARGE * 4096)

enum op_kind {
	OP_READ,
	OP_WRITE,
	OP_WRITE_ZEROES,
	OP_DEALLOCATE,
	OP_COMPARE,
	OP_FUSED, /* Compare and Write: two commands, one behind the other */
	OP_UNCORRECTABLE,
	OP_COPY,
	OP_MISFIT, /* a Write with less data than it names */
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

/* What a command changes; outlives it when its outcome is not known. */
struct op_change {
	struct list node;
	struct world_ns *ns;
	uint64_t start;
	uint64_t value; /* of the first block, counting up; 0: zeroes */
	struct op_extent extents[OP_EXTENTS_MAX];
	unsigned extent_count;
	/* Copy: what each block becomes. */
	bool has_values;
	uint64_t values[OP_COPY_MAX];
	bool is_reserve;    /* no blocks, but a reservation */
	bool writes_quarry; /* nobody else may while it is under way */
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
	uint64_t generation_before; /* Discovery: that was settled when it began */
	bool is_busy;
	unsigned host_index;
	struct uuid host_id;
	/* Preempt and Abort has shut its host out: it took effect before, or never; true as long as
	 * no other reservation command has begun. Of a read: its host may not read any more, and
	 * the answer was made before. */
	uint64_t over_at;
	uint64_t over_number;
	/* sim_fence.c: it had not begun when its host lost the right to write, and must not. */
	bool is_fenced;
	uint64_t held_before; /* a bit for each block that had its value by then */
	/* Reservation commands. */
	bool is_preempt_and_abort;
	bool is_reserve_alone;
	unsigned registered_before; /* a bit for each host */
	uint64_t reserve_number;
	uint64_t target_epoch;
	bool can_fuse;        /* the queues have room for two */
	uint64_t misdirected; /* of its medium, when it began */
	bool is_fua;
	nvme_status odd_status; /* what an odd one must be refused with */
	bool must_be_aborted;   /* an Abort said that it was */
	bool may_be_aborted;    /* an Abort was under way while it was */
	struct op_change change;
	uint64_t expected[OP_BLOCKS_LARGE]; /* Compare */
	uint8_t *data;
	/* The Write of a fused operation; the Compare is `cmd`. */
	struct host_cmd second;
	unsigned cmds_busy;
	uint8_t *second_data;
};

/* Chooses and fills op->cmd, and tells the model that it begins. */
void op_begin_random(struct sim_op *op, struct prng *prng);
void op_begin_read(struct sim_op *op, struct world_ns *ns, uint64_t first_block, uint32_t count);
void op_begin_discovery(struct sim_op *op);
/* False when the words do not belong together. */
bool op_block_parse(const struct world *world, const uint8_t *at, size_t bytes,
		    uint64_t *ret_value);
/* What a block becomes by it. */
uint64_t op_change_value(const struct op_change *change, uint64_t block);

/* sim_judge.c */
/* Judges the answer. Changes of unknown outcome are put on `ghosts` for a while. */
void op_end(struct sim_op *op, struct list *ghosts, const struct world_ghost *session);
/* Tells the model of those whose session is over at the target. */
void op_ghosts_settle(struct world *world, struct list *ghosts);
/* The controller of that session was reset. Returns how many of its commands were still about. */
unsigned op_ghosts_reset(struct world *world, struct list *ghosts,
			 const struct world_ghost *session);
bool op_is_admin(const struct sim_op *op);

/* Forgets the command before. */
void op_reset(struct sim_op *op, enum op_kind kind, struct world_ns *ns);

/* sim_odd.c */
void odd_begin(struct sim_op *op, struct prng *prng, struct world_ns *ns);

/* sim_reserve.c */
void reserve_begin(struct sim_op *op, struct prng *prng);
void reserve_end(struct sim_op *op);
/* One of a lost session can have no effect any more. */
void reserve_over(struct world *world, struct world_ns *ns);
bool reserve_explains(const struct sim_op *op, nvme_status status);
/* Whether the command was rightly let through, or refused. */
void reserve_check(const struct sim_op *op, nvme_status status);
/* By the reservation of now. */
bool reserve_has_right(const struct world_ns *ns, const struct uuid *host_id, bool is_write);

/* sim_fence.c: commands that wait at the target while their host loses the right to write. */
/* A reservation command was answered, and no other one is under way. */
void fence_begin(const struct sim_op *by);
/* The command has ended; is_done: its write took effect, as its answer says. */
void fence_check(struct sim_op *op, bool is_done);

#endif
