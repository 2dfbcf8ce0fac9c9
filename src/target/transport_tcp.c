/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP transport: makes slots of PDUs and PDUs of slots. NVMe/TCP Transport 1.1, chapter 3.
 *
 * A queue is one tcp_conn. A command's data arrives in its capsule, or is requested with one R2T
 * for all of it. Data for the host is sent in one C2HData, with the SUCCESS flag instead of a
 * response when the host disabled SQ flow control. The pace of requested data is in owed.c. Runs on
 * the queue's reactor.
 */
#include "base/log.h"
#include "target/local.h"
#include "target/transport.h"
#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVAL_MAX 64 /* commands to prefetch for before the first begins */

struct tcp_slot {
	struct slot slot;             /* first: target/'s part */
	struct pdu_transfer transfer; /* the data that the R2T requested */
	bool is_data_bad;             /* a data digest did not match */
	uint8_t *aside;               /* the transfer from aside_from on; NULL: received in place */
	uint32_t aside_from;
	uint8_t sends; /* tx not done yet */
	struct iovec iov;
	struct tcp_tx data_tx; /* R2T or C2HData */
	struct tcp_tx resp_tx;
};

struct tcp_listener {
	struct listener listener; /* first: target/'s part */
	struct reactor_listener sock;
};

struct tcp_queue {
	struct queue queue; /* first: target/'s part */
	struct tcp_conn conn;
	struct slot *capsule; /* the slot whose capsule is being received */
	bool is_closed;
	struct owed owed;
	uint64_t other_bytes; /* received bytes that are not owed data: headers and capsules */
};

static struct tcp_queue *tcp_queue_of(struct queue *queue)
{
	return container_of(queue, struct tcp_queue, queue);
}

static struct tcp_slot *tcp_slot_of(struct slot *slot)
{
	return container_of(slot, struct tcp_slot, slot);
}

/* ---- receive ------------------------------------------------------------------------------- */

static void on_ready(struct tcp_conn *conn)
{
	struct tcp_queue *tq = container_of(conn, struct tcp_queue, conn);

	/* A data digest is computed before the data is sent, and checked after it has arrived: the
	 * data must not change meanwhile, so it is never a medium's memory. */
	queue_on_ready(&tq->queue, !conn->rx_state.has_data_digest);
}

/* For a command with data in its capsule; commands without such data come to on_whole. */
static struct pdu_error on_capsule_header(struct tcp_queue *tq, const struct pdu *pdu,
					  struct tcp_sink *sink, bool *ret_pause)
{
	struct slot *slot = tq->capsule;

	if (!slot) {
		slot = slot_take(&tq->queue);
		if (!slot) {
			tq->queue.is_paused = true;
			*ret_pause = true;
			return PDU_OK;
		}
		slot->sqe = pdu->u.sqe;
		slot->capsule_bytes = pdu->data_bytes;
		tq->capsule = slot;
		if (!slot_prepare(slot)) {
			tq->queue.is_paused = true;
			*ret_pause = true;
			return PDU_OK;
		}
	} else if (slot->state == SLOT_WAITING_BUFFER) {
		/* Receiving was resumed for another reason. The buffer is still missing. */
		tq->queue.is_paused = true;
		*ret_pause = true;
		return PDU_OK;
	}
	sink->dest = slot_capsule_dest(slot, &sink->granule_bytes);
	if (slot_is_mapped(slot))
		sink->guard = slot->queue->in_place_guard;
	return PDU_OK;
}

/* A host cannot know the transfer tag of an R2T that was not sent: a PDU with that tag is a guess.
 * The slot must not continue while its R2T waits to be sent. */
static struct slot *find_fetching(struct tcp_queue *tq, uint16_t ttag)
{
	struct slot *slot;

	if (ttag >= tq->queue.slots_fresh)
		return NULL;
	slot = queue_slot(&tq->queue, ttag);
	return slot->state == SLOT_FETCHING && tcp_slot_of(slot)->sends == 0 ? slot : NULL;
}

static void aside_free(struct tcp_slot *ts)
{
	free(ts->aside);
	ts->aside = NULL;
}

/*
 * Memory media are written in whole blocks, but a host may end an H2CData inside a block; few hosts
 * do. From the first such PDU on, the rest of the transfer is gathered in a separate buffer. 0 or
 * -ENOMEM.
 */
static int gather_aside(struct tcp_slot *ts, const struct pdu *pdu)
{
	uint32_t end = pdu->u.data.offset + pdu->data_bytes;

	if (!slot_is_mapped(&ts->slot) || ts->aside ||
	    (end & ((1u << ts->slot.ns->block_shift) - 1)) == 0)
		return 0;
	ts->aside_from = pdu->u.data.offset;
	ts->aside = malloc(ts->transfer.end_offset - ts->aside_from);
	return ts->aside ? 0 : -ENOMEM;
}

static struct pdu_error on_data_header(struct tcp_queue *tq, const struct pdu *pdu,
				       struct tcp_sink *sink)
{
	struct slot *slot = find_fetching(tq, pdu->u.data.ttag);
	struct tcp_slot *ts = slot ? tcp_slot_of(slot) : NULL;
	struct pdu_error error = pdu_check_h2c_data(pdu, ts ? &ts->transfer : NULL);

	if (pdu_is_error(error))
		return error;
	sink->granule_bytes = 1;
	if (gather_aside(ts, pdu) != 0) {
		tcp_conn_abort(&tq->conn, -ENOMEM,
			       "out of memory for data that ends inside a block");
		return PDU_OK;
	}
	if (slot->is_abort_requested || slot->is_cut_off)
		return PDU_OK;
	if (ts->aside) {
		sink->dest = ts->aside + (pdu->u.data.offset - ts->aside_from);
		return PDU_OK;
	}
	if (slot_is_mapped(slot)) {
		sink->granule_bytes = 1u << slot->ns->block_shift;
		sink->guard = slot->queue->in_place_guard;
	}
	sink->dest = slot->data.addr + pdu->u.data.offset;
	return PDU_OK;
}

static void tcp_cut_off(struct slot *slot)
{
	struct tcp_queue *tq = container_of(slot->queue, struct tcp_queue, queue);
	const struct pdu *pdu = &tq->conn.pdu;

	if (tq->capsule == slot ||
	    (pdu->type == NVME_TCP_PDU_H2C_DATA && pdu->u.data.ttag == slot->index))
		tcp_conn_discard_rest(&tq->conn);
	aside_free(tcp_slot_of(slot));
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	struct tcp_queue *tq = container_of(conn, struct tcp_queue, conn);

	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD)
		return on_capsule_header(tq, pdu, sink, ret_pause);
	return on_data_header(tq, pdu, sink);
}

static void on_data_complete(struct tcp_queue *tq, const struct pdu *pdu, bool is_digest_ok)
{
	struct slot *slot = find_fetching(tq, pdu->u.data.ttag);
	struct tcp_slot *ts;
	bool is_all;

	if (!slot)
		return;
	ts = tcp_slot_of(slot);
	ts->transfer.next_offset += pdu->data_bytes;
	ts->is_data_bad |= !is_digest_ok;
	is_all = ts->transfer.next_offset >= ts->transfer.end_offset;
	owed_arrived(&tq->owed, &slot->owed, pdu->data_bytes, is_all);
	if (!is_all)
		return;
	ts->transfer.is_open = false;
	if (ts->aside && !slot->is_abort_requested)
		block_guard_copy_in(slot->queue->in_place_guard, slot->data.addr + ts->aside_from,
				    ts->aside, ts->transfer.end_offset - ts->aside_from);
	aside_free(ts);
	slot_data_arrived(slot, !ts->is_data_bad);
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct tcp_queue *tq = container_of(conn, struct tcp_queue, conn);

	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD) {
		struct slot *slot = tq->capsule;

		tq->capsule = NULL;
		tq->other_bytes += NVME_TCP_CMD_HDR_BYTES + pdu->data_bytes;
		slot_start(slot, is_digest_ok);
	} else {
		tq->other_bytes += NVME_TCP_DATA_HDR_BYTES;
		on_data_complete(tq, pdu, is_digest_ok);
	}
	return PDU_OK;
}

/* Handles a command without data in its capsule, the only such PDU that a host sends. */
static struct pdu_error on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	struct tcp_queue *tq = container_of(conn, struct tcp_queue, conn);
	struct slot *slot = slot_take(&tq->queue);
	bool is_prepared;

	if (!slot) {
		tq->queue.is_paused = true;
		*ret_pause = true;
		return PDU_OK;
	}
	slot->sqe = pdu->u.sqe;
	slot->capsule_bytes = 0;
	is_prepared = slot_prepare(slot);
	CHECK(is_prepared); /* without data, no buffer can be missing */
	tq->other_bytes += NVME_TCP_CMD_HDR_BYTES;
	slot_start(slot, true);
	return PDU_OK;
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct tcp_queue *tq = container_of(conn, struct tcp_queue, conn);

	if (cause == -EPROTO)
		atomic_fetch_add(&tq->queue.local->target->protocol_errors, 1);
	log_debug("target", "queue %u: connection closed: %s", tq->queue.qid, why);
	tq->is_closed = true;
	tq->capsule = NULL;
	owed_stop(&tq->owed);
	list_for_each(node, &tq->queue.busy)
		aside_free(tcp_slot_of(list_entry(node, struct slot, node)));
	queue_on_closed(&tq->queue);
}

/*
 * Prefetches for a batch of commands. With many namespaces, what commands read of them is not in
 * the cache. Requested at once, all of it comes from memory in the time of one access.
 */
static void on_arrival(struct tcp_conn *conn, const uint8_t *bytes, size_t len_bytes)
{
	const struct queue *queue = &container_of(conn, struct tcp_queue, conn)->queue;
	uint32_t nsids[ARRIVAL_MAX];
	unsigned count = 0;
	size_t at = 0;

	while (count < ARRIVAL_MAX && at < len_bytes) {
		size_t pdu_bytes = pdu_peek_cmd(bytes + at, len_bytes - at, &nsids[count]);

		if (pdu_bytes == 0)
			break;
		queue_prefetch_ns(queue, nsids[count++]);
		at += pdu_bytes;
	}
	for (unsigned i = 0; i < count; i++)
		queue_prefetch_counters(queue, nsids[i]);
}

static void on_too_late(struct tcp_conn *conn)
{
	ctrl_is_late(container_of(conn, struct tcp_queue, conn)->queue.ctrl);
}

static const struct tcp_conn_handler tcp_handler = {
	.on_ready = on_ready,
	.on_header = on_header,
	.on_pdu = on_pdu,
	.on_whole = on_whole,
	.on_closed = on_closed,
	.on_arrival = on_arrival,
	.on_too_late = on_too_late,
};

/* ---- data that the host owes ---------------------------------------------------------------- */

/* Includes the data of an incomplete PDU. */
static uint64_t owed_come_bytes(const struct owed *owed)
{
	const struct tcp_queue *tq = container_of(owed, struct tcp_queue, owed);

	return tq->conn.stats.bytes_received - tq->other_bytes;
}

static void on_overdue(struct owed *owed, const char *why)
{
	tcp_conn_abort(&container_of(owed, struct tcp_queue, owed)->conn, -ETIMEDOUT, why);
}

static const struct owed_ops tcp_owed = {
	.come_bytes = owed_come_bytes,
	.overdue = on_overdue,
	.unparsed_bytes = 256 * 1024,
};

static void r2t_sent(struct tcp_tx *tx, int res)
{
	container_of(tx, struct tcp_slot, data_tx)->sends--;
}

static void tcp_fetch(struct slot *slot)
{
	struct tcp_slot *ts = tcp_slot_of(slot);
	struct tcp_queue *tq = tcp_queue_of(slot->queue);
	struct pdu_data_args args = {
		.cccid = le16_get(slot->sqe.cid),
		.ttag = slot->index,
		.offset = 0,
		.data_bytes = slot->data_bytes,
	};

	ts->transfer = (struct pdu_transfer){
		.is_open = true,
		.cccid = args.cccid,
		.next_offset = 0,
		.end_offset = slot->data_bytes,
	};
	ts->is_data_bad = false;
	owed_begin(&tq->owed, &slot->owed, slot->data_bytes, owed_come_bytes(&tq->owed));
	ts->sends = 1;
	ts->data_tx.done = r2t_sent;
	ts->data_tx.iov_count = 0;
	tcp_send_r2t(&tq->conn, &ts->data_tx, &args);
}

/* ---- respond ------------------------------------------------------------------------------- */

static void slot_sent(struct tcp_slot *ts)
{
	CHECK(ts->sends > 0);
	if (--ts->sends == 0)
		slot_release(&ts->slot);
}

static void data_sent(struct tcp_tx *tx, int res)
{
	slot_sent(container_of(tx, struct tcp_slot, data_tx));
}

static void resp_sent(struct tcp_tx *tx, int res)
{
	slot_sent(container_of(tx, struct tcp_slot, resp_tx));
}

static void send_data(struct tcp_queue *tq, struct tcp_slot *ts, bool is_success)
{
	struct pdu_data_args args = {
		.cccid = le16_get(ts->slot.sqe.cid),
		.offset = 0,
		.data_bytes = ts->slot.data_bytes,
		.is_last = true,
		.is_success = is_success,
	};

	ts->iov = (struct iovec){.iov_base = ts->slot.data.addr, .iov_len = ts->slot.data_bytes};
	ts->data_tx.iov = &ts->iov;
	ts->data_tx.iov_count = 1;
	ts->data_tx.shared_block_bytes =
		slot_is_mapped(&ts->slot) ? 1u << ts->slot.ns->block_shift : 0;
	ts->data_tx.guard = slot_is_mapped(&ts->slot) ? ts->slot.queue->in_place_guard : NULL;
	ts->data_tx.done = data_sent;
	tcp_send_c2h_data(&tq->conn, &ts->data_tx, &args);
}

static void send_response(struct tcp_queue *tq, struct tcp_slot *ts)
{
	const struct slot *slot = &ts->slot;
	struct queue *queue = slot->queue;
	/* Without SQ flow control, SQHD is FFFFh in the Connect response and 0 in all other
	 * responses. */
	uint16_t sqhd = queue->has_sq_flow_control       ? (uint16_t)queue->sq_head
			: queue->connected_slots != NULL ? 0xffff
							 : 0;
	struct nvme_cqe cqe = {
		.dw0 = le32_of((uint32_t)slot->result),
		.dw1 = le32_of((uint32_t)(slot->result >> 32)),
		.sqhd = le16_of(sqhd),
		.sqid = le16_of(0), /* reserved over fabrics */
		.cid = slot->sqe.cid,
		.status = nvme_status_encode(slot->status),
	};

	ts->resp_tx.done = resp_sent;
	ts->resp_tx.iov_count = 0;
	tcp_send_resp(&tq->conn, &ts->resp_tx, &cqe);
}

static void tcp_respond(struct slot *slot)
{
	struct tcp_slot *ts = tcp_slot_of(slot);
	struct tcp_queue *tq = tcp_queue_of(slot->queue);
	bool has_data = slot->direction == DATA_TO_HOST && nvme_status_is_ok(slot->status);
	bool is_success = has_data && !slot->queue->has_sq_flow_control && slot->result == 0;

	if (tq->is_closed) {
		slot_release(slot);
		return;
	}
	ts->sends = (uint8_t)(has_data + !is_success);
	if (has_data)
		send_data(tq, ts, is_success);
	if (!is_success)
		send_response(tq, ts);
}

static enum data_sent tcp_take_back(struct slot *slot)
{
	struct tcp_slot *ts = tcp_slot_of(slot);
	bool is_behind_taken;

	if (!list_linked(&ts->data_tx.node))
		return DATA_SENT_ALL;
	if (!tcp_tx_take_back(&ts->data_tx))
		return DATA_SENT_PART;
	/* The completion, if it has a PDU of its own, is queued behind the data. */
	is_behind_taken = ts->sends == 1 || tcp_tx_take_back(&ts->resp_tx);
	CHECK(is_behind_taken);
	ts->sends = 0;
	return DATA_SENT_NOTHING;
}

static void tcp_send_copy(struct slot *slot, struct buf copy)
{
	struct tcp_slot *ts = tcp_slot_of(slot);
	struct tcp_queue *tq = tcp_queue_of(slot->queue);

	if (copy.kind == BUF_NONE) {
		tcp_conn_abort(&tq->conn, -ENOBUFS,
			       "no buffer to replace data that the host may no longer read");
		return;
	}
	ts->iov.iov_base = copy.addr;
	tcp_tx_move_payload(&ts->data_tx, &ts->iov, 1);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Sets what the connection reads at every receive, so that the receive path need not call the
 * target. */
static void tcp_rebound(struct queue *queue)
{
	struct tcp_conn *conn = &tcp_queue_of(queue)->conn;

	conn->silence = queue->ctrl ? &queue->ctrl->silence : NULL;
	conn->wants_arrival = queue_wants_prefetch(queue);
}

static void tcp_resume(struct queue *queue)
{
	struct tcp_queue *tq = tcp_queue_of(queue);

	if (!tq->queue.is_paused || tq->is_closed)
		return;
	tq->queue.is_paused = false;
	tcp_conn_resume(&tq->conn);
}

static void tcp_stop(struct queue *queue)
{
	struct tcp_queue *tq = tcp_queue_of(queue);

	owed_stop(&tq->owed);
	tcp_conn_ignore(&tq->conn);
}

static void tcp_close(struct queue *queue, const char *why)
{
	tcp_conn_close(&tcp_queue_of(queue)->conn, why);
}

static void tcp_destroy(struct queue *queue)
{
	free(tcp_queue_of(queue));
}

static void conn_config_fill(const struct snapshot *snapshot, uint16_t port_id,
			     struct tcp_conn_config *config)
{
	const struct target_limits *limits = &snapshot->limits;
	/* NULL: the port was removed while the connection was on its way to this reactor. */
	const struct port *port = snapshot_find_port(snapshot, port_id);
	/* Admin capsules carry up to 8 KiB. IOCCSZ reports the limit for I/O queues to the host. */
	uint32_t in_capsule = limits->in_capsule_bytes > 8192 ? limits->in_capsule_bytes : 8192;

	*config = (struct tcp_conn_config){
		.role = PDU_ROLE_TARGET,
		.allows_header_digest = limits->allows_header_digest,
		.allows_data_digest = limits->allows_data_digest,
		.data_align_bytes = 4,
		.data_max_bytes = 128 * 1024,
		.in_capsule_max_bytes = in_capsule,
		.ic_timeout_ms = limits->ic_timeout_ms,
		.term_timeout_ms = 1000,
		.send_timeout_ms = limits->data_timeout_ms,
	};
	if (port && port->zero_copy != ZERO_COPY_OFF) {
		config->zero_copy_min_bytes = port->zero_copy_min_bytes;
		config->is_zero_copy_forced = port->zero_copy == ZERO_COPY_ON;
	}
}

static void on_accepted(struct reactor_listener *sock, int taken_fd, const struct net_addr *from)
{
	struct tcp_listener *tl = container_of(sock, struct tcp_listener, sock);

	listener_on_arrival(&tl->listener, (union incoming){.fd = taken_fd}, from);
}

static int tcp_listen(struct listener *listener)
{
	struct tcp_listener *tl = container_of(listener, struct tcp_listener, listener);
	int res =
		reactor_listener_open(listener->reactor, &tl->sock, &listener->asked, on_accepted);

	listener->bound = tl->sock.addr;
	return res;
}

static void on_unlistened(struct reactor_listener *sock)
{
	listener_on_closed(&container_of(sock, struct tcp_listener, sock)->listener);
}

static void tcp_unlisten(struct listener *listener)
{
	reactor_listener_close(&container_of(listener, struct tcp_listener, listener)->sock,
			       on_unlistened);
}

static const char *tcp_zero_copy_problem(const struct reactor *reactor)
{
	return reactor_can_send_zc(reactor)
		       ? NULL
		       : "this kernel cannot send without a copy (needs Linux 6.2)";
}

static void tcp_refuse(union incoming incoming)
{
	reactor_refuse_fd(incoming.fd);
}

static int tcp_accept(struct local *local, const struct arrival *arrival)
{
	struct tcp_queue *tq = calloc(1, sizeof(*tq));
	struct tcp_conn_config config;

	if (!tq)
		return -ENOMEM;
	owed_init(&tq->owed, &tq->queue, local->reactor, &tcp_owed);
	conn_config_fill(local->snapshot, arrival->port_id, &config);
	tq->queue.peer = arrival->peer;
	tq->queue.is_spare = arrival->is_spare;
	if (queue_init(&tq->queue, local, &transport_tcp, arrival->port_id) != 0) {
		free(tq);
		return -ENOMEM;
	}
	if (tcp_conn_accept(&tq->conn, local->reactor, arrival->incoming.fd, &config,
			    &tcp_handler) != 0) {
		/* The queue exists already: it ends like any other queue, without a connection. */
		tcp_refuse(arrival->incoming);
		tq->is_closed = true;
		queue_on_closed(&tq->queue);
		return 0;
	}
	(void)tcp_conn_local(&tq->conn, &tq->queue.local_addr);
	return 0;
}

const struct transport_ops transport_tcp = {
	.name = "tcp",
	.trtype = DISCOVERY_TCP,
	.listener_bytes = sizeof(struct tcp_listener),
	.slot_bytes = sizeof(struct tcp_slot),
	.listen = tcp_listen,
	.unlisten = tcp_unlisten,
	.zero_copy_problem = tcp_zero_copy_problem,
	.refuse = tcp_refuse,
	.accept = tcp_accept,
	.fetch = tcp_fetch,
	.cut_off = tcp_cut_off,
	.respond = tcp_respond,
	.take_back = tcp_take_back,
	.send_copy = tcp_send_copy,
	.rebound = tcp_rebound,
	.resume = tcp_resume,
	.stop = tcp_stop,
	.close = tcp_close,
	.destroy = tcp_destroy,
};
