/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue: one connection of a host and its slots. Owned by one reactor for its whole life.
 *
 * A new queue has one slot, for the Connect command. Connect binds the queue to a controller, which
 * belongs to the reactor of its admin queue, and gives the queue as many slots as its size. Closing
 * is one way: queue_close stops the transport, waits until every slot is free, notifies the
 * controller, and frees the queue. Nothing of a closed queue reaches the medium afterwards.
 */
#ifndef WEFT_TARGET_QUEUE_H
#define WEFT_TARGET_QUEUE_H

#include "base/block_guard.h"
#include "reactor/reactor.h"
#include "target/slot.h"
#include "target/transport.h"

struct ctrl;
struct delta;
struct local;

enum queue_state {
	QUEUE_NEW,        /* waits for Connect; a deadline runs */
	QUEUE_CONNECTING, /* Connect is on the controller's reactor */
	QUEUE_LIVE,
	QUEUE_CLOSING,   /* no new commands; waits for slots and transport */
	QUEUE_DETACHING, /* the controller is being notified; its answer frees the queue */
};

struct queue {
	struct reactor *reactor;
	struct local *local;
	const struct transport_ops *transport;
	enum queue_state state;
	uint16_t port_id;
	struct net_addr peer;
	struct net_addr local_addr;
	/* Set by queue_on_ready. The guard is for the blocks of memory media that the transport
	 * moves in place; NULL: one reactor has all of them. */
	struct block_guard *in_place_guard;
	bool moves_in_place;

	/* Set by Connect. */
	uint16_t qid;
	uint32_t size; /* entries */
	uint32_t sq_head;
	bool has_sq_flow_control;
	struct ctrl *ctrl; /* owned by ctrl->reactor: only its atomic fields may be read here */
	const struct subsystem *subsystem; /* in local->snapshot; NULL when removed */
	const struct port *port;           /* in local->snapshot; NULL when removed */
	/* Index of the host for struct ns_mask; NS_MASK_HOST_OTHER before Connect. */
	uint32_t host_index;

	/* An array of slots with the transport's stride. Slots from slots_fresh on were never
	 * used. */
	uint8_t *slots;
	uint32_t slot_count;
	uint32_t slots_fresh;
	struct list free;
	struct list busy;
	uint32_t busy_count;
	uint8_t *connected_slots; /* the full array, in force once the Connect response is sent */
	/* The share that buffers are taken from: local->strangers before Connect, then
	 * `share`'s. */
	struct buf_share *buf_share;
	struct local_share *share;
	struct turn_host *turn_host;  /* of the same share: target/turn.h */
	struct turn_queue turn_queue; /* commands that wait for a later turn */

	/*
	 * Room for one capsule when the reactor's pool is empty. A capsule that waits for a buffer
	 * blocks everything received behind it, including data for commands that already have a
	 * buffer. Without the reserve, the capsule and those commands would wait for each other.
	 * Allocated at the first need, and again when a larger one is needed.
	 */
	struct buf reserve;
	size_t reserve_bytes;
	bool is_reserve_used;
	struct slot *starved; /* the slot whose capsule waits for room */

	/* Fused operations: target/fused.h. */
	bool is_fused_open;       /* the last command was the first of a fused pair */
	struct slot *fused_first; /* the first command until it ends; NULL when it was refused */

	/* Set by the transport: a command waits for a slot or a buffer, and then for `resume`. */
	bool is_paused;
	bool is_spare;                 /* beyond the connection limits: for discovery only */
	bool is_admin;                 /* counted in local->admin_count; set by Connect */
	bool is_conn_closed;           /* the transport called queue_on_closed */
	bool holds_end;                /* a function on the stack still uses the queue */
	bool is_close_asked;           /* transport->close was called */
	bool is_quiet;                 /* closing, and no command runs or will run */
	struct reactor_timer deadline; /* for Connect */
	const char *close_why;
	struct list node;             /* in local->queues */
	struct list swap_node;        /* in local->swap_queues */
	struct reactor_msg close_msg; /* the controller asks the queue to close */
	struct reactor_msg detach_msg;
	struct reactor_msg quiet_msg;
	struct reactor_msg port_msg;   /* notifies port.c that the connection ended */
	struct reactor_msg cancel_msg; /* the controller's host is gone */
	atomic_bool is_ending;         /* closing; read by the control reactor */
	/* The next two belong to the controller's reactor. */
	bool is_close_posted;
	bool is_cancel_posted;
};

/* Called by a transport for a new connection, with a zeroed queue of the transport's own type. 0 or
 * -ENOMEM. */
int queue_init(struct queue *queue, struct local *local, const struct transport_ops *transport,
	       uint16_t port_id);
/*
 * Called by a transport before the first command. moves_in_place: the data of a command may be the
 * memory of a medium (BUF_MAPPED). The transport then receives into that memory or sends from it,
 * holds each block's granule of in_place_guard meanwhile, and has cut_off, take_back and send_copy
 * for a configuration that changes during the transfer. Otherwise all data goes through buffers.
 */
void queue_on_ready(struct queue *queue, bool moves_in_place);
struct slot *queue_slot(struct queue *queue, uint32_t index);
/* Allocates slots for a queue of `size`. They come into use after the Connect response. 0 or
 * -ENOMEM. */
int queue_alloc_slots(struct queue *queue, uint32_t size);
/* Frees the allocated slots when the Connect was refused: another Connect may follow. */
void queue_discard_slots(struct queue *queue);
/* Ends the queue: see the head of this file. Does nothing when the queue is ending already. */
void queue_close(struct queue *queue, const char *why);
/* Asks all commands of the queue to end early. */
void queue_cancel_all(struct queue *queue);
/* Called by the transport when the connection is closed. The transport makes no further calls. */
void queue_on_closed(struct queue *queue);
/* Points queue->subsystem and ->port into a new snapshot; finds the host's index there. */
void queue_rebind(struct queue *queue, const struct snapshot *snapshot);
/*
 * As queue_rebind, for a swap, without looking up again what the queue already has. Returns false
 * for an I/O queue whose port, subsystem or host's right to connect is gone. The caller must close
 * such a queue before the change is reported. The controller ends too, but on another reactor, and
 * closes the queue only by a message.
 */
bool queue_swap(struct queue *queue, const struct delta *delta);
/* True when an I/O queue has its port, its subsystem and its host's right to connect. True for any
 * other queue. */
bool queue_has_place(const struct queue *queue);
/* The namespace with this NSID, or NULL when the queue's host sees none. */
static inline const struct ns *queue_find_ns(const struct queue *queue, uint32_t nsid)
{
	const struct ns *ns = queue->subsystem ? subsystem_find_ns(queue->subsystem, nsid) : NULL;

	return ns && ns_mask_has(ns->mask, queue->host_index) ? ns : NULL;
}
/* The rare part of queue_on_slot_free and queue_on_responding: the queue closes, goes live, or has
 * a command that waits. */
void queue_go_on(struct queue *queue);

/* A slot became free: continues the end of the queue, or a command that waits for a slot. */
static inline void queue_on_slot_free(struct queue *queue)
{
	if (queue->state != QUEUE_LIVE || queue->connected_slots || queue->is_paused)
		queue_go_on(queue);
}

/* A response is with the transport: continues the end of a queue that waited for this command. */
static inline void queue_on_responding(struct queue *queue)
{
	if (queue->state == QUEUE_CLOSING)
		queue_go_on(queue);
}

#endif
