/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot: one command from its capsule to its response. Owned by its queue's reactor.
 *
 * Life: slot_take (transport) -> slot_prepare decodes and judges the command, sets direction,
 * data_bytes and execute -> the transport brings in-capsule data -> slot_start gets a buffer and
 * fetches what the host must still send -> execute -> slot_complete -> the transport responds ->
 * slot_release. A command that is refused early goes from slot_prepare to slot_start straight to
 * slot_complete. Waiting for a buffer is a state, not an error.
 */
#ifndef WEFT_TARGET_SLOT_H
#define WEFT_TARGET_SLOT_H

#include "base/list.h"
#include "media/media.h"
#include "reactor/buf_pool.h"
#include "target/range_guard.h"
#include "target/rota.h"
#include "target/target.h"
#include "wire/io_cmd.h"
#include "wire/nvme.h"
#include "wire/sgl.h"

struct queue;
struct slot;

enum slot_state {
	SLOT_FREE,
	SLOT_RECEIVING,      /* capsule decoded, its data on the way; moved on by slot_start */
	SLOT_WAITING_BUFFER, /* moved on by buf_pool_put of another slot */
	SLOT_FETCHING,       /* the host owes data; moved on by slot_data_arrived */
	SLOT_EXECUTING,      /* moved on by slot_complete */
	SLOT_RESPONDING,     /* moved on by slot_release when the response is sent */
	SLOT_STATES,
};

enum data_direction {
	DATA_NONE,
	DATA_TO_CTRL,
	DATA_TO_HOST,
};

/* Where a command of several steps stands: target/steps.h. */
struct slot_steps {
	/* Goes on after a step that ended with res: submits the next one and returns true, or ends
	 * the command and returns false. */
	bool (*next)(struct slot *slot, int res);
	const struct subsystem *subsystem; /* of the slot's snapshot, not of a later one */
	uint64_t done_blocks;              /* of the ranges before this one */
	uint32_t at_block;                 /* blocks of this range that are done */
	uint32_t step_blocks;              /* blocks of the step under way */
	uint32_t index;                    /* of the range */
	uint32_t host_index;               /* as in that snapshot */
	int res;
};

struct slot {
	struct queue *queue;
	uint16_t index; /* the transfer tag */
	enum slot_state state;
	enum data_direction direction;
	bool is_abort_requested; /* an Abort command named it, or its queue ends in a hurry */
	bool is_awaited;         /* a barrier waits for its end: target/barrier.h */
	bool is_preempted;       /* cancelled by Preempt and Abort */
	bool is_displaced;       /* cancelled by a change of the configuration */
	bool must_judge_again;   /* refused while it waited: target/judge_again.h */
	bool is_cut_off;         /* its data lands nowhere any more: it will be refused */
	bool is_in_submit;       /* media_submit is on the stack: done continues its loop */
	bool is_fused;           /* one of two that run as one, and not over yet */
	bool is_fused_ready;     /* has its data and waits for the other one */
	bool heals_bad;          /* writes blocks that are marked bad: ns/bad_blocks.h */
	atomic_bool is_unwanted; /* cancelled while control has it: target/control_work.h */
	uint64_t bad_stamp;      /* of the marks that it heals */
	uint64_t loss;           /* of a Flush: media_loss when it began */
	struct nvme_sqe sqe;
	struct sgl sgl;
	uint32_t capsule_bytes;   /* data that came in the capsule */
	uint32_t data_bytes;      /* data that the command moves */
	uint32_t extra_bytes;     /* room behind the data that execute needs (Compare) */
	nvme_status early_status; /* why slot_prepare refused it */
	void (*execute)(struct slot *slot);
	/*
	 * Ends the wait that the command is in, now or soon. Set by whoever makes the command wait,
	 * and NULL as soon as that wait is over. NULL: the command goes on by itself and looks at
	 * is_abort_requested, or cannot end early.
	 */
	void (*cancel)(struct slot *slot);

	struct buf buf;  /* of the reactor's pool, or the queue's reserve; or none */
	struct buf data; /* where data_bytes are: buf, or a medium's memory; or none */
	struct iovec iov;
	struct buf_waiter waiter;

	struct snapshot *snapshot; /* the one in force when it was prepared; counted in it */
	uint64_t rules;            /* local->rules when it was judged */
	const struct ns *ns;
	struct io_cmd io_cmd;
	struct media_io io;
	void (*io_done)(struct media_io *io, int res); /* after the hold is dropped */
	struct range_hold hold;                        /* on media that are not memory */
	struct slot *fused_with;                       /* target/fused.h */
	nvme_status fused_status;                      /* why it may not run */
	struct slot_steps steps;

	/* completion */
	nvme_status status;
	uint64_t result;     /* DW0, DW1 */
	uint16_t error_byte; /* byte of the command at fault, 0xffff when none */
	uint64_t started_ns;
	struct list node;       /* in queue->busy, or in a list of execute's (held events) */
	struct reactor_msg msg; /* while another reactor works on it */
	struct rota_entry turn; /* the control reactor's: target/control_work.h */
	void *other;            /* that reactor's object */
	struct slot *aborter;   /* the Abort that waits for this one's end */
	uint32_t aborted;       /* an Abort's or Cancel's own: how many victims were aborted */
};

/*
 * The only way to another state. A wrong move means that two owners believe to have the slot.
 * Every move is checked where CHECK_COSTLY is on; release builds pay for the few CHECKs of the
 * state in slot.c alone.
 */
static inline void slot_set_state(struct slot *slot, enum slot_state state)
{
	/* By the new state: the old ones, as bits. */
	static const uint8_t allowed[SLOT_STATES] = {
		/* Without a response when the connection went before the command ran. */
		[SLOT_FREE] = 1u << SLOT_RECEIVING | 1u << SLOT_WAITING_BUFFER |
			      1u << SLOT_FETCHING | 1u << SLOT_RESPONDING,
		/* Again when there is room for the data in its capsule. */
		[SLOT_RECEIVING] = 1u << SLOT_FREE | 1u << SLOT_WAITING_BUFFER,
		[SLOT_WAITING_BUFFER] = 1u << SLOT_RECEIVING,
		[SLOT_FETCHING] = 1u << SLOT_RECEIVING | 1u << SLOT_WAITING_BUFFER,
		/* Again when its response was taken back: target/judge_again.h. */
		[SLOT_EXECUTING] = 1u << SLOT_RECEIVING | 1u << SLOT_WAITING_BUFFER |
				   1u << SLOT_FETCHING | 1u << SLOT_RESPONDING,
		[SLOT_RESPONDING] = 1u << SLOT_EXECUTING,
	};

	CHECK_COSTLY((allowed[state] & 1u << slot->state) != 0);
	slot->state = state;
}

/* The data is in the medium's own memory, not in a buffer. */
static inline bool slot_is_mapped(const struct slot *slot)
{
	return slot->data.kind == BUF_MAPPED;
}

/* NULL when all are busy; queue_on_slot_free tells the transport when one is free again. */
struct slot *slot_take(struct queue *queue);
/*
 * The sqe and capsule_bytes are filled in: judge the command and find a place for in-capsule data.
 * False: the data must wait; transport->resume is called when there is room.
 */
bool slot_prepare(struct slot *slot);
/* Where in-capsule data goes: slot->data, or nowhere when it was refused early. */
uint8_t *slot_capsule_dest(struct slot *slot, uint32_t *ret_granule_bytes);
/* The capsule is complete. is_data_ok is false when its data digest did not match. */
void slot_start(struct slot *slot, bool is_data_ok);
/* The data that transport->fetch asked for is in slot->data. */
void slot_data_arrived(struct slot *slot, bool is_data_ok);
/* Ends execution; the transport sends data (on success, DATA_TO_HOST) and completion. */
void slot_complete(struct slot *slot, nvme_status status);
/* With the byte of the command that is at fault, for the error log. */
static inline void slot_complete_at(struct slot *slot, nvme_status status, uint16_t error_byte)
{
	slot->error_byte = error_byte;
	slot_complete(slot, status);
}

/* The response is sent or the connection is gone: back to the free ones. */
void slot_release(struct slot *slot);
/* Asks a running command to end early; it still completes by itself. */
void slot_cancel(struct slot *slot);
/* Tells the Abort or Cancel that waits for this command, if one does, that it was not aborted. */
void slot_let_aborter_go(struct slot *slot);

/* One mapping of -errno to status for all of target/. */
nvme_status status_from_errno(int error, enum media_kind kind);

#endif
