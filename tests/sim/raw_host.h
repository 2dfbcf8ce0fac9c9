/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host with one admin and one I/O queue whose test decides every PDU, for tests of a target in
 * simulated time. The host can connect; it keeps R2Ts and does not answer them.
 */
#ifndef WEFT_TESTS_RAW_HOST_H
#define WEFT_TESTS_RAW_HOST_H

#include "sim.h"

#include "base/clock.h"
#include "base/text.h"
#include "tcp/tcp.h"
#include "wire/fabrics.h"
#include "wire/io_cmd.h"
#include "wire/sgl.h"

#include <stdlib.h>
#include <string.h>

#define RAW_CIDS 8

struct raw_queue {
	struct tcp_conn conn;
	struct sim *sim;
	struct reactor *reactor;
	bool is_ready;
	bool is_closed;
	unsigned tx_busy;
	/* What was received, by CID. */
	bool is_done[RAW_CIDS];
	bool has_r2t[RAW_CIDS];
	bool by_flag[RAW_CIDS]; /* ended by the SUCCESS flag */
	struct pdu r2t[RAW_CIDS];
	struct nvme_cqe cqe[RAW_CIDS];
	uint8_t data[1 << 20];
};

struct raw_tx {
	struct tcp_tx tx;
	struct iovec iov;
	struct raw_queue *queue;
};

static void raw_on_ready(struct tcp_conn *conn)
{
	container_of(conn, struct raw_queue, conn)->is_ready = true;
}

static struct pdu_error raw_on_header(struct tcp_conn *conn, const struct pdu *pdu,
				      struct tcp_sink *sink, bool *ret_pause)
{
	sink->dest = container_of(conn, struct raw_queue, conn)->data;
	sink->granule_bytes = 1;
	return PDU_OK;
}

static struct pdu_error raw_on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct raw_queue *queue = container_of(conn, struct raw_queue, conn);
	uint16_t cid = pdu->type == NVME_TCP_PDU_CAPSULE_RESP ? le16_get(pdu->u.cqe.cid)
							      : pdu->u.data.cccid;

	CHECK(cid < RAW_CIDS);
	if (pdu->type == NVME_TCP_PDU_R2T) {
		queue->has_r2t[cid] = true;
		queue->r2t[cid] = *pdu;
	} else if (pdu->type == NVME_TCP_PDU_CAPSULE_RESP) {
		queue->is_done[cid] = true;
		queue->cqe[cid] = pdu->u.cqe;
	} else if (pdu->is_success) {
		queue->is_done[cid] = queue->by_flag[cid] = true;
	}
	return PDU_OK;
}

static struct pdu_error raw_on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	return raw_on_pdu(conn, pdu, true);
}

static void raw_on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	container_of(conn, struct raw_queue, conn)->is_closed = true;
}

static void raw_sent(struct tcp_tx *tx, int res)
{
	struct raw_tx *raw = container_of(tx, struct raw_tx, tx);

	raw->queue->tx_busy--;
	free(raw);
}

static struct raw_tx *raw_tx_make(struct raw_queue *queue, const void *data, size_t len_bytes)
{
	struct raw_tx *raw = sim_alloc(sizeof(*raw));

	raw->queue = queue;
	raw->tx.done = raw_sent;
	raw->iov = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len_bytes};
	raw->tx.iov = &raw->iov;
	raw->tx.iov_count = len_bytes > 0;
	queue->tx_busy++;
	return raw;
}

static bool raw_is_connecting(void *arg)
{
	struct raw_queue *queue = arg;

	return !queue->is_ready && !queue->is_closed;
}

__attribute__((unused)) static void raw_open(struct sim *sim, struct reactor *reactor,
					     struct raw_queue *queue, const struct net_addr *addr)
{
	static const struct tcp_conn_handler handler = {raw_on_ready, raw_on_header, raw_on_pdu,
							raw_on_whole, raw_on_closed};
	struct tcp_conn_config config = {.role = PDU_ROLE_HOST,
					 .data_align_bytes = 4,
					 .max_r2t = 1,
					 .ic_timeout_ms = 1000,
					 .term_timeout_ms = 200};

	memset(queue, 0, sizeof(*queue));
	queue->sim = sim;
	queue->reactor = reactor;
	sim_enter(reactor);
	CHECK(tcp_conn_connect(&queue->conn, reactor, addr, &config, &handler) == 0);
	sim_leave(reactor);
	CHECK(sim_run_while(sim, raw_is_connecting, queue, NS_PER_S));
}

/* Sends the command with len_bytes of data in the capsule. */
__attribute__((unused)) static void raw_submit(struct raw_queue *queue, uint16_t cid,
					       struct nvme_sqe *sqe, const void *data,
					       uint32_t len_bytes)
{
	queue->is_done[cid] = queue->has_r2t[cid] = queue->by_flag[cid] = false;
	sqe->cid = le16_of(cid);
	sqe->flags = NVME_SQE_PSDT_SGL;
	/* Without data the caller may have set an SGL for a transfer by the transport. */
	if (len_bytes > 0)
		sgl_encode_in_capsule(sqe, len_bytes);
	sim_enter(queue->reactor);
	tcp_send_cmd(&queue->conn, &raw_tx_make(queue, data, len_bytes)->tx, sqe, len_bytes);
	sim_leave(queue->reactor);
}

__attribute__((unused)) static void raw_submit_by_r2t(struct raw_queue *queue, uint16_t cid,
						      struct nvme_sqe *sqe, uint32_t len_bytes)
{
	sgl_encode_transport(sqe, len_bytes);
	raw_submit(queue, cid, sqe, NULL, 0);
}

/* Sends one H2CData PDU of the transfer that the command's R2T requested. */
__attribute__((unused)) static void raw_send_piece(struct raw_queue *queue, uint16_t cid,
						   uint32_t offset, const void *data,
						   uint32_t len_bytes)
{
	const struct pdu *r2t = &queue->r2t[cid];
	struct pdu_data_args args = {
		.cccid = cid,
		.ttag = r2t->u.data.ttag,
		.offset = offset,
		.data_bytes = len_bytes,
		.is_last = offset + len_bytes == r2t->u.data.offset + r2t->u.data.length,
	};

	sim_enter(queue->reactor);
	tcp_send_h2c_data(&queue->conn, &raw_tx_make(queue, data, len_bytes)->tx, &args);
	sim_leave(queue->reactor);
}

struct raw_wait {
	struct raw_queue *queue;
	uint16_t cid;
	bool for_r2t;
};

static bool raw_is_waiting(void *arg)
{
	const struct raw_wait *wait = arg;
	const struct raw_queue *queue = wait->queue;

	return !queue->is_closed && !queue->is_done[wait->cid] &&
	       !(wait->for_r2t && queue->has_r2t[wait->cid]);
}

/* False: no response in time, or the connection ended. */
__attribute__((unused)) static bool raw_wait_done(struct raw_queue *queue, uint16_t cid)
{
	struct raw_wait wait = {queue, cid, false};

	return sim_run_while(queue->sim, raw_is_waiting, &wait, 5 * NS_PER_S) &&
	       queue->is_done[cid];
}

__attribute__((unused)) static bool raw_wait_r2t(struct raw_queue *queue, uint16_t cid)
{
	struct raw_wait wait = {queue, cid, true};

	return sim_run_while(queue->sim, raw_is_waiting, &wait, 5 * NS_PER_S) &&
	       queue->has_r2t[cid];
}

__attribute__((unused)) static bool raw_is_ok(const struct raw_queue *queue, uint16_t cid)
{
	return queue->is_done[cid] &&
	       (queue->by_flag[cid] ||
		nvme_status_is_ok(nvme_status_decode(queue->cqe[cid].status)));
}

/* Connect as queue `args->qid` of a controller; fills args->cntlid when it is the admin queue. */
__attribute__((unused)) static bool raw_connect_queue(struct raw_queue *queue,
						      struct connect_args *args)
{
	uint8_t data[NVMF_CONNECT_DATA_BYTES];
	struct nvme_sqe sqe = {0};

	connect_encode(&sqe, data, args);
	raw_submit(queue, 0, &sqe, data, sizeof(data));
	if (!raw_wait_done(queue, 0) || !raw_is_ok(queue, 0))
		return false;
	if (args->qid == 0)
		args->cntlid = (uint16_t)le32_get(queue->cqe[0].dw0);
	return true;
}

__attribute__((unused)) static bool raw_enable(struct raw_queue *queue)
{
	struct ctrl_config config = {
		.is_enabled = true, .page_shift = 12, .sq_entry_shift = 6, .cq_entry_shift = 4};

	for (unsigned i = 0; i < 100; i++) {
		struct nvme_sqe sqe = {0};

		if (i == 0)
			property_set_encode(&sqe, PROPERTY_CC, cc_encode(&config), false);
		else
			property_get_encode(&sqe, PROPERTY_CSTS, false);
		raw_submit(queue, 0, &sqe, NULL, 0);
		if (!raw_wait_done(queue, 0) || !raw_is_ok(queue, 0))
			return false;
		if (i > 0 && (le32_get(queue->cqe[0].dw0) & 1) != 0)
			return true;
		sim_run_until(queue->sim, sim_now(queue->sim) + NS_PER_MS);
	}
	return false;
}

static bool raw_is_open(void *arg)
{
	struct raw_queue *queue = arg;

	return !queue->is_closed || queue->tx_busy > 0;
}

__attribute__((unused)) static void raw_close(struct raw_queue *queue)
{
	if (!queue->is_closed) {
		sim_enter(queue->reactor);
		tcp_conn_close(&queue->conn, "the test is over");
		sim_leave(queue->reactor);
	}
	CHECK(sim_run_while(queue->sim, raw_is_open, queue, 5 * NS_PER_S));
}

#endif
