/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the host side and a transport: a queue and its slots, what the host side asks of
 * a transport (struct host_transport), and what a transport reports. Runs on the controller's
 * reactor.
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

/* One command in flight. A transport's slot begins with it. */
struct host_slot {
	struct host_queue *queue;
	struct host_cmd *cmd; /* NULL: idle */
	uint64_t deadline_ns; /* 0: may take forever (asynchronous events) */
	uint64_t sent_ns;     /* when it was taken */
	uint16_t index;       /* among the queue's slots, always: the CID of its commands */
	bool is_forgotten;    /* cmd is queue->forgotten: the caller has its own back */
	bool has_answer;      /* cmd has the controller's status */
	/* The transport's, valid in host_queue_on_closed: some of the command left, or may have. */
	bool is_begun;
};

enum host_queue_phase {
	HOST_QUEUE_IDLE,    /* no connection yet */
	HOST_QUEUE_OPENING, /* the transport's connection, then Connect */
	HOST_QUEUE_LIVE,
	HOST_QUEUE_CLOSED,
};

/* A transport's queue begins with it. */
struct host_queue {
	const struct host_transport *transport;
	const struct host_config *config;
	struct reactor *reactor;
	struct host_ctrl *ctrl;
	enum host_queue_phase phase;
	uint16_t qid;
	bool was_ready; /* host_queue_on_ready was called */
	/* The transport keeps these three. */
	bool is_open;      /* a command that is sent now leaves */
	uint64_t heard_ns; /* when the last byte came; 0: never connected */
	uint64_t sent_ns;  /* when the last byte left */

	uint32_t in_capsule_max_bytes;
	uint32_t slot_count;
	uint32_t reserved_slots; /* that only the controller's own commands may take */
	void *slots;             /* slot_count of transport->slot_bytes: see host_queue_slot */
	uint32_t *free_slots;    /* a stack */
	uint32_t free_count;
	uint32_t untimed_count; /* slots whose command may take forever */
	struct list waiting;    /* of a fused pair, the first */
	uint64_t answered;
	struct host_cmd forgotten; /* stands for every command that was forgotten */
	struct host_cmd connect_cmd;
	uint8_t connect_data[NVMF_CONNECT_DATA_BYTES];
};

struct host_transport {
	const char *connect_step; /* what `connect` does, for error texts */
	size_t queue_bytes;       /* size of the transport's queue */
	size_t slot_bytes;        /* size of the transport's slot */
	/* Begins to connect to config->addr. 0 or -ENOMEM; host_queue_on_ready or
	 * host_queue_on_closed follows, never from inside this call. */
	int (*connect)(struct host_queue *queue);
	/* Sends slot->cmd, whose CID is set: fills in its SGL and moves its data. Only while the
	 * queue is open. host_slot_answer and host_slot_finish follow, never from inside this call;
	 * so does host_queue_on_closed instead. */
	void (*send)(struct host_slot *slot);
	/* The caller takes the buffer of this read back: nothing is written to it after this call.
	 * The slot stays taken until the controller has answered. */
	void (*forget)(struct host_slot *slot);
	/* Orderly: what was sent leaves first. Else at once, and what has not left never does.
	 * is_open is false on return; host_queue_on_closed follows, never from inside this call.
	 * Harmless when the connection ends already. */
	void (*close)(struct host_queue *queue, bool is_orderly, const char *why);
	/* Fills in what only the transport knows: rtt_ns. */
	void (*get_stats)(struct host_queue *queue, struct host_queue_stats *stats);
};

/* transport_tcp.c */
extern const struct host_transport host_transport_tcp;

static inline struct host_slot *host_queue_slot(const struct host_queue *queue, uint32_t index)
{
	return (void *)((uint8_t *)queue->slots + index * queue->transport->slot_bytes);
}

/* ---- what a transport reports (host_queue.c) ------------------------------------------------ */

/* The connection is made and is_open is set: commands may be sent, the first of them Connect. */
void host_queue_on_ready(struct host_queue *queue);
/* Last report: the connection is gone, and neither the transport nor the peer uses any buffer of
 * the queue's commands. cause: 0 when the controller closed in order, -ESHUTDOWN after an orderly
 * `close`, -EPROTO for a violation, else -errno. The queue may be freed in it. */
void host_queue_on_closed(struct host_queue *queue, int cause, const char *why);
/* The controller has answered, and the transport holds nothing of the slot: the slot is free on
 * return, and the caller was told. */
void host_slot_finish(struct host_slot *slot);

/* The controller has answered. host_slot_finish is due when the transport holds nothing of the slot
 * any more: the answer counts even if the connection ends before. */
static inline void host_slot_answer(struct host_slot *slot, nvme_status status, uint64_t result)
{
	struct host_cmd *cmd = slot->cmd;

	cmd->status = status;
	cmd->result = result;
	/* Whatever the status says, and be it one that only hosts may use. */
	cmd->may_have_run = true;
	slot->has_answer = true;
	slot->queue->answered++;
}

#endif
