/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue: one connection of a host and its slots. Owned by one reactor for its whole life.
 *
 * It is born with one slot for the Connect command; Connect binds it to a controller, which lives
 * on the reactor of its admin queue, and gives it as many slots as its size. Closing is one way:
 * queue_close stops the transport, waits until every slot is back, tells the controller, and is
 * gone. Nothing of a closed queue reaches the medium afterwards.
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
	QUEUE_CONNECTING, /* Connect is with the controller's reactor */
	QUEUE_LIVE,
	QUEUE_CLOSING,   /* no new commands; waits for slots and transport */
	QUEUE_DETACHING, /* the controller is being told; freed when it answers */
};

struct queue {
	struct reactor *reactor;
	struct local *local;
	const struct transport_ops *transport;
	enum queue_state state;
	uint16_t port_id;
	struct net_addr peer;
	struct net_addr local_addr;
	struct block_guard *guard; /* the target's, of memory media */
	bool can_map_media; /* no data digests: media memory may be received into and sent from */

	/* From Connect on. */
	uint16_t qid;
	uint32_t size; /* entries */
	uint32_t sq_head;
	bool has_sq_flow_control;
	struct ctrl *ctrl; /* on ctrl->reactor; only its atomic fields may be read here */
	const struct subsystem *subsystem; /* in local->snapshot; NULL when it was removed */
	const struct port *port;           /* likewise */
	uint32_t
		host_index; /* of the host, for struct ns_mask; NS_MASK_HOST_OTHER before Connect */

	/* Slots: an array with the transport's stride; those at or above slots_fresh were never
	 * used. */
	uint8_t *slots;
	uint32_t slot_count;
	uint32_t slots_fresh;
	struct list free;
	struct list busy;
	uint32_t busy_count;
	uint8_t *connected_slots; /* the full array, in force once the Connect response is sent */
	/* In whose name buffers are taken: the strangers' before Connect, then `share`'s. */
	struct buf_share *buf_share;
	struct local_share *share;

	/*
	 * Room for one capsule when the reactor's pool is empty. A capsule that waits stops all
	 * that is behind it, also the data that commands with a buffer wait for: without this, they
	 * and it would wait for each other. Made at the first need, as large as that.
	 */
	struct buf reserve;
	size_t reserve_bytes;
	bool is_reserve_used;
	struct slot *starved; /* whose capsule waits for room */

	/* Fused operations: target/fused.h. */
	bool is_fused_open;       /* the last command was the first of two */
	struct slot *fused_first; /* that one, until it ends; NULL when it was refused */

	bool is_paused; /* the transport's: a command waits for a slot or a buffer, and for resume
			 */
	bool is_spare;  /* beyond the limits of connections: for discovery alone */
	bool is_admin;  /* counted as such; set by Connect */
	bool is_conn_closed;           /* the transport called queue_on_closed */
	bool holds_end;                /* a function on the stack still uses the queue */
	bool is_close_asked;           /* transport->close was called */
	bool is_quiet;                 /* closing, and none of its commands runs or will */
	struct reactor_timer deadline; /* for Connect */
	const char *close_why;
	struct list node;             /* in local->queues */
	struct list swap_node;        /* in local->swap_queues */
	struct reactor_msg close_msg; /* the controller asks for the end */
	struct reactor_msg detach_msg;
	struct reactor_msg quiet_msg;
	struct reactor_msg port_msg;   /* tells the port's owner that a connection ended */
	struct reactor_msg cancel_msg; /* the controller's host is gone */
	atomic_bool is_ending;         /* closing; control reads it */
	bool is_close_posted;          /* these two are the controller's reactor's */
	bool is_cancel_posted;
};

/* Called by a transport for a new connection, with a zeroed queue of its own type. 0 or -ENOMEM. */
int queue_init(struct queue *queue, struct local *local, const struct transport_ops *transport,
	       uint16_t port_id);
struct slot *queue_slot(struct queue *queue, uint32_t index);
/* Slots for a queue of `size`, in force after the Connect response. 0 or -ENOMEM. */
int queue_alloc_slots(struct queue *queue, uint32_t size);
/* The Connect was refused: another may follow. */
void queue_discard_slots(struct queue *queue);
/* Ends the queue: see the head of this file. Harmless when already ending. */
void queue_close(struct queue *queue, const char *why);
/* Asks all its commands to end early. */
void queue_cancel_all(struct queue *queue);
/* The transport's connection is closed and will not call again. */
void queue_on_closed(struct queue *queue);
/* Points queue->subsystem and ->port into a new snapshot; finds the host's index there. */
void queue_rebind(struct queue *queue, const struct snapshot *snapshot);
/*
 * The same for a swap, without looking up what it has already. False: an I/O queue whose port,
 * subsystem or host's right to connect is gone. It is to be closed before the change is told of:
 * its controller, on another reactor, ends too, but asks for that by a message.
 */
bool queue_swap(struct queue *queue, const struct delta *delta);
/* Whether an I/O queue has all of these. True of any other. */
bool queue_has_place(const struct queue *queue);
/* The namespace that this queue's host sees under that number, or NULL. */
static inline const struct ns *queue_find_ns(const struct queue *queue, uint32_t nsid)
{
	const struct ns *ns = queue->subsystem ? subsystem_find_ns(queue->subsystem, nsid) : NULL;

	return ns && ns_mask_has(ns->mask, queue->host_index) ? ns : NULL;
}
/* The rare part of the next two: the queue closes, goes live, or has a command that waits. */
void queue_go_on(struct queue *queue);

/* A slot came back: go on with closing, or with a command that waits for it. */
static inline void queue_on_slot_free(struct queue *queue)
{
	if (queue->state != QUEUE_LIVE || queue->connected_slots || queue->is_paused)
		queue_go_on(queue);
}

/* A response is with the transport: a queue that closes may have waited for its command. */
static inline void queue_on_responding(struct queue *queue)
{
	if (queue->state == QUEUE_CLOSING)
		queue_go_on(queue);
}

#endif
