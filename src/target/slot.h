/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot: one command from its capsule to its response. Owned by its queue's reactor.
 *
 * Life: the transport calls slot_take. slot_prepare decodes and judges the command and sets
 * direction, data_bytes and execute. The transport receives in-capsule data. slot_start gets a
 * buffer and requests the data that the host still has. The command executes and ends with
 * slot_complete. The transport sends the response and calls slot_release. For a command refused
 * early, slot_start calls slot_complete directly. Waiting for a buffer is a state, not an error.
 */
#ifndef WEFT_TARGET_SLOT_H
#define WEFT_TARGET_SLOT_H

#include "base/list.h"
#include "media/media.h"
#include "reactor/buf_pool.h"
#include "reactor/range_guard.h"
#include "target/owed.h"
#include "target/rota.h"
#include "target/target.h"
#include "target/turn.h"
#include "wire/io_cmd.h"
#include "wire/nvme.h"
#include "wire/sgl.h"

struct control_read;
struct control_work;
struct queue;
struct slot;

enum slot_state {
	SLOT_FREE,
	SLOT_RECEIVING,      /* capsule decoded, its data arriving; until slot_start */
	SLOT_WAITING_BUFFER, /* until buf_pool_put of another slot */
	SLOT_FETCHING,       /* the host owes data; until slot_data_arrived */
	SLOT_EXECUTING,      /* until slot_complete */
	SLOT_RESPONDING,     /* until the response is sent: slot_release */
	SLOT_STATES,
};

/*
 * What a command waits for, in the states WAITING_BUFFER and EXECUTING. slot_wait.c has how each
 * wait is cancelled. For a wait without cancel, the reason and the bound are below.
 *
 * The states RECEIVING and FETCHING wait for the host's data, and have no cancel either: a host
 * that was asked for data sends the data, which needs a place until it has arrived. The bound is
 * data_timeout_ms for FETCHING (target/owed.h), and the end of the connection for RECEIVING, which
 * holds up no other queue. A command that is cancelled meanwhile ends when its data has arrived
 * (slot_end_unwanted).
 */
enum slot_wait {
	SLOT_WAIT_NONE,
	/* A buffer for the data of its capsule. No cancel: the transport must receive that data
	 * before the command can end. Bound: the end of any command that has a buffer or the
	 * queue's reserve. */
	SLOT_WAIT_CAPSULE_ROOM,
	SLOT_WAIT_BUFFER,          /* a buffer for data that the host still has */
	SLOT_WAIT_HOLD,            /* its range, or its gate: io_hold */
	SLOT_WAIT_MEDIUM,          /* slot->io */
	SLOT_WAIT_MEDIA,           /* Flush of all namespaces: cmd_flush.c */
	SLOT_WAIT_PARTNER,         /* the other command of its fused pair */
	SLOT_WAIT_GATE_OF_PARTNER, /* the gate, which its fused partner waits for */
	/* The operation of its fused partner. No cancel: fused_judge looks at is_abort_requested
	 * between the two operations. Bound: the partner's medium. */
	SLOT_WAIT_PAIR,
	/* Its next turn on its own reactor: target/steps.h. No cancel: steps_run looks at
	 * is_abort_requested. Bound: one turn. */
	SLOT_WAIT_TURN,
	SLOT_WAIT_BUDGET,  /* a turn in which its host may work: io_take_turn */
	SLOT_WAIT_CONTROL, /* its turn on the control reactor, and its answer: control_work.h */
	SLOT_WAIT_MANAGE,  /* a change of the configuration: target/manage.h */
	SLOT_WAIT_EVENT,   /* an event of the controller: cmd_async_event.c */
	SLOT_WAIT_RESET,   /* the end of another controller: cmd_ctrl_reset.c */
	/* Abort, Cancel: the end of the commands that it cancels. No cancel: such a command may
	 * have ended as aborted already, and the answer must say so. Bound: those commands, whose
	 * queue lets the Abort or Cancel go when it closes (slot_on_closing). */
	SLOT_WAIT_VICTIMS,
	/* slot_visit. No cancel: a message cannot be taken back. Bound: the next turn of the other
	 * reactor, which is late only while the control reactor blocks. */
	SLOT_WAIT_VISIT,
	/* Connect: the registry, and the controller's reactor. No cancel: no command can name it,
	 * because its queue takes no other one before the answer. Bound: as for a visit. */
	SLOT_WAIT_CONNECT,
	SLOT_WAITS,
};

enum data_direction {
	DATA_NONE,
	DATA_TO_CTRL,
	DATA_TO_HOST,
};

/* The progress of a command of several steps: target/steps.h. */
struct slot_steps {
	/* Called after a step that ended with res. Submits the next step and returns true, or ends
	 * the command and returns false. */
	bool (*next)(struct slot *slot, int res);
	const struct subsystem *subsystem; /* in the slot's snapshot, not in a later one */
	uint64_t done_blocks;              /* sum of the ranges before this one */
	uint32_t at_block;                 /* blocks of this range that are done */
	uint32_t step_blocks;              /* blocks of the step under way */
	uint32_t index;                    /* index of the range */
	uint32_t host_index;               /* index of the host in that snapshot */
	int res;
};

struct slot {
	struct queue *queue;
	uint16_t index; /* the transfer tag */
	enum slot_state state;
	enum slot_wait wait;
	enum data_direction direction;
	bool is_abort_requested; /* an Abort named the command, or its queue ends in a hurry */
	bool is_awaited;         /* a barrier waits for this command: target/barrier.h */
	bool is_preempted;       /* cancelled by Preempt and Abort */
	bool is_displaced;       /* cancelled by a change of the configuration */
	bool has_changed;        /* perhaps some blocks, of a pair or a command with steps */
	bool must_judge_again;   /* refused while waiting: target/judge_again.h */
	bool is_cut_off;         /* the rest of its data is discarded; then it is refused */
	bool is_in_submit;       /* media_submit is on the stack: steps_run continues */
	bool is_fused;           /* one of a fused pair that has not ended */
	bool is_fused_ready;     /* has its data and waits for its partner */
	bool heals_bad;          /* writes blocks marked bad: ns/bad_blocks.h */
	atomic_bool is_unwanted; /* cancelled while on the control reactor: target/control_work.h */
	uint64_t bad_stamp;      /* stamp of the marks that the command heals */
	uint64_t loss;           /* Flush: media_loss when the command began */
	struct nvme_sqe sqe;
	struct sgl sgl;
	uint32_t capsule_bytes; /* data that came in the capsule */
	uint32_t data_bytes;    /* data that the command moves */
	uint32_t extra_bytes;   /* room behind the data for execute (Compare) */
	/* Why the command was refused: by slot_prepare, by a second judgement before it began, or
	 * before one of its pieces (target/reach.h). */
	nvme_status early_status;
	void (*execute)(struct slot *slot);

	struct buf buf;  /* from the reactor's pool, or the queue's reserve; or empty */
	struct buf data; /* where data_bytes are: buf, or the memory of a medium; or empty */
	struct iovec iov;
	struct buf_waiter waiter;
	struct owed_data owed; /* in FETCHING */

	/* The snapshot under which the command was judged. The command is counted in
	 * snapshot->inflight. */
	struct snapshot *snapshot;
	uint64_t rules; /* local->rules when the command was judged */
	const struct ns *ns;
	struct io_cmd io_cmd;
	struct media_io io;
	void (*io_done)(struct media_io *io, int res); /* called after the hold is dropped */
	struct range_hold hold;                        /* for media that are not memory */
	struct turn_wait turn_wait;                    /* for a later turn: target/turn.h */
	struct slot *fused_with;                       /* the partner: target/fused.h */
	nvme_status fused_status;                      /* why the command may not run */
	struct slot_steps steps;

	/* completion */
	nvme_status status;
	uint64_t result;     /* DW0, DW1 */
	uint16_t error_byte; /* byte of the command at fault, 0xffff when none */
	uint64_t started_ns;
	struct list node;       /* in queue->busy, or in a list of held event requests */
	struct reactor_msg msg; /* while another reactor works on it */
	struct rota_entry turn; /* control reactor only: target/control_work.h */
	struct control_work *work;
	const struct control_read *read; /* NULL: the command changes something */
	void *other;                     /* an object of the reactor that works on the slot */
	struct {
		void (*there)(struct slot *slot);
		void (*home)(struct slot *slot);
	} visit;              /* slot_visit */
	struct slot *aborter; /* the Abort or Cancel that waits for this command */
	uint32_t aborted;     /* of an Abort or Cancel: how many commands were aborted */
};

/*
 * The only function that changes the state. An illegal change means that two owners use the slot.
 * All changes are checked where CHECK_COSTLY is on. Release builds have only the few CHECKs of the
 * state in slot.c.
 */
static inline void slot_set_state(struct slot *slot, enum slot_state state)
{
	/* allowed[new state]: the legal old states, as bits. */
	static const uint8_t allowed[SLOT_STATES] = {
		/* Without a response: the connection closed before the command ran. */
		[SLOT_FREE] = 1u << SLOT_RECEIVING | 1u << SLOT_WAITING_BUFFER |
			      1u << SLOT_FETCHING | 1u << SLOT_RESPONDING,
		/* From WAITING_BUFFER: a buffer for the capsule's data is free. */
		[SLOT_RECEIVING] = 1u << SLOT_FREE | 1u << SLOT_WAITING_BUFFER,
		[SLOT_WAITING_BUFFER] = 1u << SLOT_RECEIVING,
		[SLOT_FETCHING] = 1u << SLOT_RECEIVING | 1u << SLOT_WAITING_BUFFER,
		/* From RESPONDING: the response was taken back, target/judge_again.h. */
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

/* A free slot, or NULL when all are in use. When one becomes free, queue_on_slot_free calls
 * transport->resume if the queue is paused. */
struct slot *slot_take(struct queue *queue);
/*
 * Judges the command and finds a place for in-capsule data. The caller has set sqe and
 * capsule_bytes. Returns false when the data must wait: transport->resume is called when there is
 * room.
 */
bool slot_prepare(struct slot *slot);
/* The address for in-capsule data: slot->data, or NULL when the command was refused early. */
uint8_t *slot_capsule_dest(struct slot *slot, uint32_t *ret_granule_bytes);
/* The capsule is complete. is_data_ok is false when the data digest did not match. */
void slot_start(struct slot *slot, bool is_data_ok);
/* The data that transport->fetch requested is in slot->data. */
void slot_data_arrived(struct slot *slot, bool is_data_ok);
/* Ends execution. The transport sends the data (DATA_TO_HOST, on success) and the completion. A
 * refusal that names a byte of the command passes the result of command_refuse as `status`. */
void slot_complete(struct slot *slot, nvme_status status);
/* Frees the slot. The response is sent, or the connection is closed. */
void slot_release(struct slot *slot);
/* Asks a running command to end early. The command still completes by slot_complete. */
void slot_cancel(struct slot *slot);
/* The queue begins to close: ends the waits that must not delay the end of the queue. */
void slot_on_closing(struct slot *slot);
/*
 * Carries an executing slot to another reactor, calls `there` on that reactor, carries the slot
 * home and calls `home`. NULL: home completes the command with slot->status. The slot's queue,
 * controller and snapshot exist until then.
 */
void slot_visit(struct slot *slot, struct reactor *reactor, void (*there)(struct slot *slot),
		void (*home)(struct slot *slot));
/* For slot_wait.c. */
void slot_cancel_buffer(struct slot *slot);
/* Reports to the Abort or Cancel that waits for this command, if any, that the command was not
 * aborted. */
void slot_let_aborter_go(struct slot *slot);

/* The only mapping of -errno to status in target/. */
nvme_status status_from_errno(int error, enum media_kind kind);

#endif
