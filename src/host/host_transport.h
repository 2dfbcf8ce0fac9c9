/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the host side and a transport: a queue and its slots, the functions that a
 * transport offers (struct host_transport), and the reports that a transport makes. Runs on the
 * controller's reactor.
 *
 * The host side owns commands, slots, time-outs and the controller. A transport owns the connection
 * and moves commands and their data: by PDUs and R2T on a byte stream, or by SEND and the target's
 * RDMA READ and WRITE with keys. docs/adr/0037 walks through verbs.
 */
#ifndef WEFT_HOST_HOST_TRANSPORT_H
#define WEFT_HOST_HOST_TRANSPORT_H

#include "host/host.h"
#include "wire/fabrics.h"

struct host_queue;

/* One command in flight. A transport's slot begins with this struct. */
struct host_slot {
	struct host_queue *queue;
	struct host_cmd *cmd; /* NULL: the slot is free */
	uint64_t deadline_ns; /* 0: no time-out (asynchronous events) */
	uint64_t sent_ns;     /* when the command took the slot */
	uint16_t index;       /* fixed index in the queue's slots: the CID of its commands */
	bool is_forgotten;    /* cmd is queue->forgotten; the caller owns its command again */
	bool has_answer;      /* cmd has the controller's status */
	/* Set by the transport, valid in host_queue_on_closed: some bytes of the command left, or
	 * may have left. */
	bool is_begun;
};

enum host_queue_phase {
	HOST_QUEUE_IDLE,    /* no connection yet */
	HOST_QUEUE_OPENING, /* the transport connects, then Connect is sent */
	HOST_QUEUE_LIVE,
	HOST_QUEUE_CLOSED,
};

/* A transport's queue begins with this struct. */
struct host_queue {
	const struct host_transport *transport;
	const struct host_config *config;
	struct reactor *reactor;
	struct host_ctrl *ctrl;
	enum host_queue_phase phase;
	uint16_t qid;
	bool was_ready; /* host_queue_on_ready was called */
	/* The transport maintains these three. */
	bool is_open;      /* a command sent now goes out */
	uint64_t heard_ns; /* when the last byte was received; 0: never connected */
	uint64_t sent_ns;  /* when the last byte was sent */

	uint32_t in_capsule_max_bytes;
	uint32_t slot_count;
	uint32_t reserved_slots; /* only the controller's own commands may take these */
	void *slots;             /* slot_count of transport->slot_bytes: see host_queue_slot */
	uint32_t *free_slots;    /* a stack of slot indexes */
	uint32_t free_count;
	uint32_t untimed_count; /* taken slots whose command has no time-out */
	struct list waiting;    /* commands that wait for a slot; of a fused pair, the first */
	uint64_t answered;
	struct host_cmd forgotten; /* stands in the slot for a forgotten command */
	struct host_cmd connect_cmd;
	uint8_t connect_data[NVMF_CONNECT_DATA_BYTES];
};

struct host_transport {
	const char *name;                /* at most HOST_TRANSPORT_NAME_MAX characters */
	enum discovery_transport trtype; /* identifies the transport */
	const char *connect_step;        /* names the step `connect`, for error texts */
	size_t queue_bytes;              /* size of the transport's queue */
	size_t slot_bytes;               /* size of the transport's slot */
	/* Starts to connect to config->addr.net. 0 or -ENOMEM. host_queue_on_ready or
	 * host_queue_on_closed follows, never from inside this call. */
	int (*connect)(struct host_queue *queue);
	/* Sends slot->cmd, whose CID is set: fills in its SGL and moves its data. Called only while
	 * the queue is open. Then either host_slot_answer and host_slot_finish follow, or
	 * host_queue_on_closed, never from inside this call. */
	void (*send)(struct host_slot *slot);
	/* The caller takes back the buffer of this read: the transport must not write to the buffer
	 * after this call. The slot stays taken until the controller has answered. */
	void (*forget)(struct host_slot *slot);
	/* Orderly: bytes that were sent before go out first. Otherwise closes at once, and discards
	 * bytes that have not left. is_open is false on return. host_queue_on_closed follows, never
	 * from inside this call. May be called when the connection is already ending. */
	void (*close)(struct host_queue *queue, bool is_orderly, const char *why);
	/* Fills in the fields that only the transport knows: rtt_ns. */
	void (*get_stats)(struct host_queue *queue, struct host_queue_stats *stats);
};

/* transport_tcp.c */
extern const struct host_transport host_transport_tcp;

static inline struct host_slot *host_queue_slot(const struct host_queue *queue, uint32_t index)
{
	return (void *)((uint8_t *)queue->slots + index * queue->transport->slot_bytes);
}

/* ---- what a transport reports (host_queue.c) ------------------------------------------------ */

/* The connection is established and is_open is set: commands may be sent, Connect first. */
void host_queue_on_ready(struct host_queue *queue);
/* The last report: the connection is closed, and neither the transport nor the peer uses any buffer
 * of the queue's commands. cause: 0 when the controller closed in order, -ESHUTDOWN after an
 * orderly `close`, -EPROTO for a violation, else -errno. The queue may be freed in this call. */
void host_queue_on_closed(struct host_queue *queue, int cause, const char *why);
/* The controller has answered, and the transport holds nothing of the slot. On return the slot is
 * free and the command's done was called. */
void host_slot_finish(struct host_slot *slot);

/* The controller has answered. The answer counts even if the connection ends before
 * host_slot_finish. The transport calls host_slot_finish once it holds nothing of the slot. */
static inline void host_slot_answer(struct host_slot *slot, nvme_status status, uint64_t result)
{
	struct host_cmd *cmd = slot->cmd;

	cmd->status = status;
	cmd->result = result;
	/* For every status, even one that only hosts may use. */
	cmd->may_have_run = true;
	slot->has_answer = true;
	slot->queue->answered++;
}

#endif
