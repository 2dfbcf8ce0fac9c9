/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What target/ needs of a transport: the table of functions, and the halves of a listener and of an
 * arrival that target/ knows. What a transport calls is in queue.h, slot.h and at the end here.
 *
 * Written for byte streams and for verbs alike: the target names memory and asks for it to be
 * filled (fetch) or sent (respond); how the bytes move, by R2T and C2HData or by RDMA READ and
 * WRITE with keys, is the transport's affair. docs/adr/0009 walks through verbs.
 */
#ifndef WEFT_TARGET_TRANSPORT_H
#define WEFT_TARGET_TRANSPORT_H

#include "base/net_addr.h"
#include "reactor/reactor.h"
#include "wire/log_page.h"

#include <stddef.h>
#include <stdint.h>

struct local;
struct port;
struct queue;
struct slot;
struct target;

/* A connection that came to a listener and has no queue yet, in the words of its transport. */
union incoming {
	int fd;        /* TCP: a connected socket */
	void *request; /* verbs: a connection request */
};

/* On its way from the listener to the reactor that will own it (port.c). */
struct arrival {
	struct reactor_msg msg;
	struct local *local;
	const struct transport_ops *transport;
	struct net_addr peer;
	uint16_t port_id;
	bool is_spare; /* beyond the limits: for discovery alone */
	union incoming incoming;
};

/* Where connections of a port arrive; the registry's. A transport's listener begins with it. */
struct listener {
	const struct transport_ops *transport;
	struct target *target;
	struct reactor *reactor;
	struct net_addr asked; /* as configured */
	struct net_addr bound; /* the transport's: known even when any port was asked for */
	uint16_t port_id;
	bool is_new; /* opened for a snapshot that is not in force yet */
	struct list node;
};

enum data_sent {
	DATA_SENT_NOTHING,
	DATA_SENT_PART,
	DATA_SENT_ALL,
};

struct transport_ops {
	const char *name;
	enum discovery_transport trtype; /* for logs */
	size_t listener_bytes;           /* size of the transport's listener */
	size_t slot_bytes; /* size of the transport's slot, which begins with a struct slot */
	/* Begins to listen at listener->asked and fills in `bound`. 0 or -errno;
	 * listener_on_arrival follows for each connection, never from inside this call. */
	int (*listen)(struct listener *listener);
	/* Nothing arrives any more. listener_on_closed follows, never from inside this call. */
	void (*unlisten)(struct listener *listener);
	/* Ends what arrived and gets no queue: TCP resets it. On any reactor. */
	void (*refuse)(union incoming incoming);
	/* What arrived becomes a queue on `local`. 0, or -ENOMEM: arrival->incoming is still the
	 * caller's. */
	int (*accept)(struct local *local, const struct arrival *arrival);
	/* Bring slot->data_bytes from the host into slot->data, then slot_data_arrived. */
	void (*fetch)(struct slot *slot);
	/* What of the data has not come yet goes nowhere when it comes: slot->data may be used
	 * otherwise. The command goes on as if it had come. */
	void (*cut_off)(struct slot *slot);
	/* Send the data of a successful DATA_TO_HOST and the completion, then slot_release. */
	void (*respond)(struct slot *slot);
	/* Of a response with data: how much of the data has left. If nothing has, the response is
	 * taken back: slot->data is not needed, and respond may be called again. */
	enum data_sent (*take_back)(struct slot *slot);
	/* The rest of such data is sent from `copy`, which has all of it. NULL: the rest must not
	 * leave, and the connection ends at once. */
	void (*send_copy)(struct slot *slot, uint8_t *copy);
	/* queue->ctrl or queue->subsystem is another one. May be NULL. */
	void (*rebound)(struct queue *queue);
	/* Room for the held capsule, or a free slot, has come. */
	void (*resume)(struct queue *queue);
	/* Take no more commands; responses still go out. */
	void (*stop)(struct queue *queue);
	/* No command runs any more: send what is queued, close, then queue_on_closed. Slots that
	 * wait for the host are released by queue_on_closed. */
	void (*close)(struct queue *queue, const char *why);
	/* Free the queue's memory: last call. */
	void (*destroy)(struct queue *queue);
};

extern const struct transport_ops transport_tcp;

/* ---- what a transport reports (port.c) ------------------------------------------------------ */

void listener_on_arrival(struct listener *listener, union incoming incoming,
			 const struct net_addr *from);
/* Last report: the listener is freed in it. */
void listener_on_closed(struct listener *listener);

/* The port's own, or TCP. */
const struct transport_ops *port_transport(const struct port *port);

#endif
