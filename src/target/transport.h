/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What target/ needs of a transport: the table of functions, and target/'s part of a listener and
 * of an arrival. The functions that a transport calls are in queue.h, slot.h, owed.h and at the end
 * of this file. One more, ctrl_is_late, is in ctrl.h.
 *
 * The contract suits byte streams and verbs alike. The target names memory and asks the transport
 * to fill it (fetch) or to send it (respond). How the bytes move is private to the transport: by
 * R2T and C2HData, or by RDMA READ and WRITE with keys. docs/adr/0009 applies the contract to
 * verbs.
 */
#ifndef WEFT_TARGET_TRANSPORT_H
#define WEFT_TARGET_TRANSPORT_H

#include "base/net_addr.h"
#include "reactor/buf.h"
#include "reactor/reactor.h"
#include "wire/log_page.h"

#include <stddef.h>
#include <stdint.h>

struct local;
struct port;
struct queue;
struct slot;
struct target;

/* A connection that arrived at a listener and has no queue yet, in the form that its transport
 * uses. */
union incoming {
	int fd;        /* TCP: a connected socket */
	void *request; /* verbs: a connection request */
};

/* An incoming connection on its way from the listener to the reactor that will own it (port.c). */
struct arrival {
	struct reactor_msg msg;
	struct local *local;
	const struct transport_ops *transport;
	struct net_addr peer;
	uint16_t port_id;
	bool is_spare; /* beyond the connection limits: for discovery only */
	union incoming incoming;
};

/* Where connections of a port arrive. Owned by the registry. A transport's listener begins with
 * this struct. */
struct listener {
	const struct transport_ops *transport;
	struct target *target;
	struct reactor *reactor;
	struct net_addr asked; /* as configured */
	struct net_addr bound; /* set by the transport, with the real port number */
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
	const char *name;                /* as in the configuration */
	enum discovery_transport trtype; /* in logs; identifies the transport */
	size_t listener_bytes;           /* size of the transport's listener */
	/* Size of the transport's slot, which begins with a struct slot. */
	size_t slot_bytes;
	/* Listens at listener->asked and fills in `bound`. 0 or -errno. listener_on_arrival is
	 * called for each connection, never from inside this call. */
	int (*listen)(struct listener *listener);
	/* Stops listening. listener_on_closed is called later, never from inside this call. */
	void (*unlisten)(struct listener *listener);
	/* Why payload cannot be sent without a copy here, for the log; NULL: it can. The function
	 * may be NULL too. */
	const char *(*zero_copy_problem)(const struct reactor *reactor);
	/* Ends an incoming connection that gets no queue: TCP resets the connection. Any
	 * reactor. */
	void (*refuse)(union incoming incoming);
	/* Makes a queue on `local` from an incoming connection. 0, or -ENOMEM: the caller keeps
	 * arrival->incoming. */
	int (*accept)(struct local *local, const struct arrival *arrival);
	/* Brings slot->data_bytes from the host into slot->data, then calls slot_data_arrived. */
	void (*fetch)(struct slot *slot);
	/* Discards the data that has not arrived yet when it arrives: slot->data may be reused. The
	 * command continues as if its data had arrived. cut_off, take_back and send_copy may be
	 * NULL in a transport whose queues never move data in place (queue_on_ready). */
	void (*cut_off)(struct slot *slot);
	/* Sends the data of a successful DATA_TO_HOST and the completion, then calls
	 * slot_release. */
	void (*respond)(struct slot *slot);
	/* Returns how much of a response's data was sent. If nothing was sent, takes the response
	 * back: slot->data is not used any more, and respond may be called again. */
	enum data_sent (*take_back)(struct slot *slot);
	/* Sends the rest of data that was partly sent from `copy`, which holds all of the data.
	 * BUF_NONE: the rest must not be sent, and the connection ends at once. */
	void (*send_copy)(struct slot *slot, struct buf copy);
	/* queue->ctrl or queue->subsystem has changed. May be NULL. */
	void (*rebound)(struct queue *queue);
	/* There is room for the capsule that waits, or a free slot: continue receiving. */
	void (*resume)(struct queue *queue);
	/* Accepts no more commands. Responses are still sent. */
	void (*stop)(struct queue *queue);
	/* No command of the queue runs any more. Sends what is queued, closes, then calls
	 * queue_on_closed, which releases slots that wait for the host. */
	void (*close)(struct queue *queue, const char *why);
	/* Frees the memory of the queue. Last call. */
	void (*destroy)(struct queue *queue);
};

extern const struct transport_ops transport_tcp;

/* ---- what a transport reports (port.c) ------------------------------------------------------ */

void listener_on_arrival(struct listener *listener, union incoming incoming,
			 const struct net_addr *from);
/* Last report of a listener. Frees the listener. */
void listener_on_closed(struct listener *listener);

/* The transport of the port: its own, or TCP. */
const struct transport_ops *port_transport(const struct port *port);
/* A transport of this build. NULL: this build does not have it. The configuration has a word for
 * each of them. */
const struct transport_ops *transport_of(enum discovery_transport trtype);

#endif
