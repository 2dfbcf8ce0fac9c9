/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted controller for host tests. It answers Connect, properties, Identify and features
 * correctly, and reads and writes one small namespace honestly or with exactly one kind of lie.
 * Built on the connection engine in the target's role; runs on a simulated reactor of its own.
 */
#ifndef WEFT_TESTS_FAKE_CTRL_H
#define WEFT_TESTS_FAKE_CTRL_H

#include "../sim/sim.h"
#include "base/clock.h"
#include "tcp/tcp.h"
#include "wire/fabrics.h"
#include "wire/feature.h"
#include "wire/identify.h"
#include "wire/io_cmd.h"
#include "wire/sgl.h"

#include <errno.h>
#include <stdlib.h>

#define FAKE_BLOCK_BYTES  512
#define FAKE_BLOCKS       1024
#define FAKE_IN_CAPSULE   4096
#define FAKE_H2C_MAX      4096
#define FAKE_CONNS        8
#define FAKE_SLOTS        64
#define FAKE_TTAG         700
#define FAKE_REJECT_IPO   256
#define FAKE_QUEUES_GIVEN 2
#define FAKE_CNTLID       5

enum fake_lie {
	LIE_NONE,
	LIE_REJECT_CONNECT, /* Connect Invalid Parameters, IPO 256 in the data */
	LIE_REJECT_IO_CONNECT,
	LIE_NEVER_READY, /* CSTS.RDY stays 0 */
	LIE_WRONG_CID,
	LIE_DUPLICATE,
	LIE_DATA_PAST_END,
	LIE_SHORT_DATA, /* half of the data, then a successful response */
	LIE_DATA_FOR_WRITE,
	LIE_R2T_BEYOND,
	LIE_SECOND_R2T,   /* while the first is open */
	LIE_WRITE_UNREAD, /* success without requesting the data */
	LIE_SILENT,
	LIE_TERM_REQ,
	LIE_IO_ERROR,
};

struct fake;

struct fake_conn {
	struct tcp_conn conn;
	struct fake *fake;
	bool is_used;
	uint16_t qid;
	uint8_t capsule[8192];
	/* Writes with an R2T open; TTAG = CID + FAKE_TTAG. */
	struct {
		bool is_open;
		uint32_t next;
		uint32_t bytes;
		uint64_t offset;
	} writes[FAKE_SLOTS];
};

struct fake {
	struct sim *sim;
	struct reactor *reactor;
	struct reactor_listener listener;
	bool is_listener_closed;
	struct fake_conn conns[FAKE_CONNS];
	enum fake_lie lie;
	uint16_t cntlid;                /* FAKE_CNTLID unless the test sets another */
	bool lies_without_success_flag; /* separate responses instead of SUCCESS */
	uint32_t cc;
	unsigned keep_alives;
	uint64_t last_keep_alive_ns;
	uint64_t longest_gap_ns;
	unsigned connects;
	unsigned reads;
	unsigned writes;
	unsigned h2c_pdus;
	unsigned shutdowns;
	unsigned enables;
	uint32_t kato_ms;
	uint32_t event_mask;
	bool has_event; /* an AER is parked */
	struct fake_conn *event_conn;
	uint16_t event_cid;
	bool has_traffic_keep_alive;
	/* May be NULL. Called first for every command; true: it has handled the command. */
	bool (*script)(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes);
	/* May be NULL. Called with the ICResp in fc->conn.ic_tx, before it is sent. */
	void (*on_ready)(struct fake_conn *fc);
	unsigned commands; /* seen by script */
	unsigned script_at;
	uint8_t store[FAKE_BLOCKS * FAKE_BLOCK_BYTES];
};

struct fake_tx {
	struct tcp_tx tx;
	struct iovec iov;
	uint8_t data[];
};

static void fake_tx_done(struct tcp_tx *tx, int res)
{
	free(container_of(tx, struct fake_tx, tx));
}

static struct fake_tx *fake_tx_new(const void *data, size_t data_bytes)
{
	struct fake_tx *out = calloc(1, sizeof(*out) + data_bytes);

	CHECK(out != NULL);
	if (data_bytes > 0)
		memcpy(out->data, data, data_bytes);
	out->iov = (struct iovec){out->data, data_bytes};
	out->tx.done = fake_tx_done;
	out->tx.iov = &out->iov;
	out->tx.iov_count = data_bytes > 0 ? 1 : 0;
	return out;
}

static void fake_respond(struct fake_conn *fc, uint16_t cid, nvme_status status, uint64_t result)
{
	struct nvme_cqe cqe = {
		.dw0 = le32_of((uint32_t)result),
		.dw1 = le32_of((uint32_t)(result >> 32)),
		.sqid = le16_of(fc->qid),
		.cid = le16_of(cid),
		.status = nvme_status_encode(status),
	};

	tcp_send_resp(&fc->conn, &fake_tx_new(NULL, 0)->tx, &cqe);
}

static void fake_send_data(struct fake_conn *fc, uint16_t cid, const uint8_t *data,
			   struct pdu_data_args args)
{
	args.cccid = cid;
	tcp_send_c2h_data(&fc->conn, &fake_tx_new(data, args.data_bytes)->tx, &args);
}

static void fake_send_page(struct fake_conn *fc, uint16_t cid, const uint8_t *data, uint32_t bytes)
{
	bool has_success = !fc->fake->lies_without_success_flag;

	fake_send_data(fc, cid, data,
		       (struct pdu_data_args){
			       .data_bytes = bytes, .is_last = true, .is_success = has_success});
	if (!has_success)
		fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
}

static void fake_send_r2t(struct fake_conn *fc, uint16_t cid, uint32_t offset, uint32_t bytes)
{
	struct pdu_data_args args = {.cccid = cid,
				     .ttag = (uint16_t)(cid + FAKE_TTAG),
				     .offset = offset,
				     .data_bytes = bytes};

	tcp_send_r2t(&fc->conn, &fake_tx_new(NULL, 0)->tx, &args);
}

/* ---- admin ---------------------------------------------------------------------------------- */

static void fake_connect(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct fake *fake = fc->fake;
	struct connect_args args;
	struct connect_reject reject;
	uint16_t cid = le16_get(sqe->cid);

	connect_decode(sqe, fc->capsule, data_bytes, &args, &reject);
	EXPECT(nvme_status_is_ok(reject.status));
	fc->qid = args.qid;
	fake->connects++;
	if (fake->lie == (args.qid == 0 ? LIE_REJECT_CONNECT : LIE_REJECT_IO_CONNECT)) {
		reject = (struct connect_reject){NVME_SC_CONNECT_INVALID_PARAM, FAKE_REJECT_IPO,
						 true};
		fake_respond(fc, cid, reject.status, connect_reject_dw0(&reject));
		return;
	}
	EXPECT_EQ(args.qid == 0 ? NVME_CNTLID_ANY : fake->cntlid, args.cntlid);
	if (args.qid == 0)
		fake->kato_ms = args.kato_ms;
	fake_respond(fc, cid, NVME_SC_SUCCESS, fake->cntlid);
}

static void fake_property(struct fake_conn *fc, const struct nvme_sqe *sqe, bool is_set)
{
	static const struct ctrl_capabilities cap = {
		.queue_size_max = 64, .ready_timeout_ms = 1000, .supports_nvm = true};
	struct fake *fake = fc->fake;
	struct property_cmd cmd;
	uint64_t value = 0;

	EXPECT(nvme_status_is_ok(property_decode(sqe, &cmd)));
	if (is_set) {
		fake->cc = (uint32_t)cmd.value;
		fake->enables += cc_decode(fake->cc).is_enabled;
		fake->shutdowns += cc_decode(fake->cc).shutdown != 0;
	} else if (cmd.offset == PROPERTY_CAP) {
		value = cap_encode(&cap);
	} else if (cmd.offset == PROPERTY_VS) {
		value = NVME_VERSION_BASE;
	} else if (cmd.offset == PROPERTY_CC) {
		value = fake->cc;
	} else if (cmd.offset == PROPERTY_CSTS) {
		if (cc_decode(fake->cc).is_enabled && fake->lie != LIE_NEVER_READY)
			value |= CSTS_RDY;
		if (cc_decode(fake->cc).shutdown != 0)
			value |= CSTS_SHST_COMPLETE;
	}
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_SUCCESS, value);
}

static void fake_identify(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct ctrl_identity identity = {
		.serial = "1",
		.model = "fake",
		.firmware = "1",
		.subsystem_nqn = "nqn.2026-11.io.weft:default",
		.type = CTRL_TYPE_IO,
		.cntlid = fc->fake->cntlid,
		.version = NVME_VERSION_BASE,
		.has_event_ns_attribute = true,
		.has_traffic_keep_alive = fc->fake->has_traffic_keep_alive,
		.abort_limit = 4,
		.async_event_limit = 4,
		.error_log_entries = 1,
		.queue_entries_max = 64,
		.namespace_id_max = 1,
		.in_capsule_bytes = FAKE_IN_CAPSULE,
	};
	uint8_t page[NVME_PAGE_BYTES];

	identify_ctrl_encode(&identity, page);
	fake_send_page(fc, le16_get(sqe->cid), page, sizeof(page));
}

static void fake_admin(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct fake *fake = fc->fake;
	uint16_t cid = le16_get(sqe->cid);
	uint64_t now_ns = reactor_now_ns(fake->reactor);
	struct feature_cmd feature;

	switch (sqe->opcode) {
	case NVME_ADMIN_IDENTIFY:
		fake_identify(fc, sqe);
		break;
	case NVME_ADMIN_SET_FEATURES:
		feature_cmd_decode(sqe, &feature);
		if (feature.feature_id == FEATURE_ASYNC_EVENT)
			fake->event_mask = feature.cdw11;
		fake_respond(fc, cid, NVME_SC_SUCCESS,
			     feature_queue_count_encode(FAKE_QUEUES_GIVEN, FAKE_QUEUES_GIVEN));
		break;
	case NVME_ADMIN_KEEP_ALIVE:
		if (fake->keep_alives > 0 &&
		    now_ns - fake->last_keep_alive_ns > fake->longest_gap_ns)
			fake->longest_gap_ns = now_ns - fake->last_keep_alive_ns;
		fake->keep_alives++;
		fake->last_keep_alive_ns = now_ns;
		fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		break;
	case NVME_ADMIN_ASYNC_EVENT:
		fake->has_event = true;
		fake->event_conn = fc;
		fake->event_cid = cid;
		break;
	default:
		fake_respond(fc, cid, NVME_SC_INVALID_OPCODE, 0);
		break;
	}
}

/* ---- I/O ------------------------------------------------------------------------------------ */

static void fake_read_lie(struct fake_conn *fc, uint16_t cid, const uint8_t *data, uint32_t bytes)
{
	switch (fc->fake->lie) {
	case LIE_WRONG_CID:
		fake_respond(fc, (uint16_t)(cid + 40), NVME_SC_SUCCESS, 0);
		break;
	case LIE_DUPLICATE:
		fake_send_page(fc, cid, data, bytes);
		fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		break;
	case LIE_DATA_PAST_END:
		fake_send_data(fc, cid, data,
			       (struct pdu_data_args){.data_bytes = bytes + 64, .is_last = true});
		break;
	case LIE_SHORT_DATA:
		fake_send_data(fc, cid, data, (struct pdu_data_args){.data_bytes = bytes / 2});
		fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		break;
	case LIE_TERM_REQ:
		tcp_conn_fail(&fc->conn,
			      (struct pdu_error){NVME_TCP_FES_PDU_SEQUENCE, 0, "a test says so"});
		break;
	case LIE_IO_ERROR:
		fake_respond(fc, cid, NVME_SC_UNRECOVERED_READ, 0);
		break;
	case LIE_SILENT:
		break;
	default:
		fake_send_page(fc, cid, data, bytes);
		break;
	}
}

static void fake_write_begin(struct fake_conn *fc, uint16_t cid, const struct sgl *sgl,
			     uint64_t offset)
{
	CHECK(cid < FAKE_SLOTS && !fc->writes[cid].is_open);
	fc->writes[cid].is_open = true;
	fc->writes[cid].next = 0;
	fc->writes[cid].bytes = sgl->len_bytes;
	fc->writes[cid].offset = offset;
	switch (fc->fake->lie) {
	case LIE_R2T_BEYOND:
		fake_send_r2t(fc, cid, 0, sgl->len_bytes + 512);
		break;
	case LIE_SECOND_R2T:
		fake_send_r2t(fc, cid, 0, sgl->len_bytes / 2);
		fake_send_r2t(fc, cid, sgl->len_bytes / 2, sgl->len_bytes / 2);
		break;
	case LIE_WRITE_UNREAD:
		fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		break;
	case LIE_DATA_FOR_WRITE:
		fake_send_data(fc, cid, fc->fake->store,
			       (struct pdu_data_args){.data_bytes = 512, .is_last = true});
		break;
	default:
		fake_send_r2t(fc, cid, 0, sgl->len_bytes);
		break;
	}
}

static void fake_io(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct fake *fake = fc->fake;
	uint16_t cid = le16_get(sqe->cid);
	struct io_cmd io;
	struct sgl sgl;
	uint64_t offset;

	io_cmd_decode(sqe, &io);
	EXPECT(nvme_status_is_ok(sgl_decode(sqe, data_bytes, &sgl)));
	offset = io.first_block * FAKE_BLOCK_BYTES;
	CHECK(offset + sgl.len_bytes <= sizeof(fake->store));
	switch (sqe->opcode) {
	case NVME_IO_READ:
		fake->reads++;
		fake_read_lie(fc, cid, fake->store + offset, sgl.len_bytes);
		break;
	case NVME_IO_WRITE:
		fake->writes++;
		if (sgl.kind == SGL_IN_CAPSULE) {
			EXPECT_EQ(sgl.len_bytes, data_bytes);
			memcpy(fake->store + offset, fc->capsule, data_bytes);
			fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		} else {
			fake_write_begin(fc, cid, &sgl, offset);
		}
		break;
	default:
		fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		break;
	}
}

/* ---- connections ---------------------------------------------------------------------------- */

static void fake_on_ready(struct tcp_conn *conn)
{
	struct fake_conn *fc = container_of(conn, struct fake_conn, conn);

	if (fc->fake->on_ready != NULL)
		fc->fake->on_ready(fc);
}

static struct pdu_error fake_on_header(struct tcp_conn *conn, const struct pdu *pdu,
				       struct tcp_sink *sink, bool *ret_pause)
{
	struct fake_conn *fc = container_of(conn, struct fake_conn, conn);

	sink->granule_bytes = 1;
	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD) {
		sink->dest = fc->capsule;
	} else if (pdu->type == NVME_TCP_PDU_H2C_DATA) {
		uint16_t cid = pdu->u.data.cccid;

		CHECK(cid < FAKE_SLOTS);
		EXPECT(fc->writes[cid].is_open);
		EXPECT_EQ(cid + FAKE_TTAG, pdu->u.data.ttag);
		EXPECT_EQ(fc->writes[cid].next, pdu->u.data.offset);
		EXPECT(pdu->data_bytes <= FAKE_H2C_MAX);
		sink->dest = fc->fake->store + fc->writes[cid].offset + pdu->u.data.offset;
	}
	return PDU_OK;
}

static struct pdu_error fake_on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct fake_conn *fc = container_of(conn, struct fake_conn, conn);
	struct nvme_sqe sqe = pdu->u.sqe;

	EXPECT(is_digest_ok);
	if (pdu->type == NVME_TCP_PDU_H2C_DATA) {
		uint16_t cid = pdu->u.data.cccid;

		fc->fake->h2c_pdus++;
		fc->writes[cid].next += pdu->data_bytes;
		if (fc->fake->lie == LIE_NONE && fc->fake->script == NULL)
			EXPECT_EQ(fc->writes[cid].next == fc->writes[cid].bytes, pdu->is_last);
		if (fc->writes[cid].next == fc->writes[cid].bytes) {
			fc->writes[cid].is_open = false;
			fake_respond(fc, cid, NVME_SC_SUCCESS, 0);
		}
	} else if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD) {
		fc->fake->commands++;
		if (fc->fake->script != NULL && fc->fake->script(fc, &sqe, pdu->data_bytes))
			return PDU_OK;
		if (sqe.opcode != NVME_OPCODE_FABRICS && fc->qid == 0)
			fake_admin(fc, &sqe);
		else if (sqe.opcode != NVME_OPCODE_FABRICS)
			fake_io(fc, &sqe, pdu->data_bytes);
		else if (fabrics_type(&sqe) == NVMF_CONNECT)
			fake_connect(fc, &sqe, pdu->data_bytes);
		else
			fake_property(fc, &sqe, fabrics_type(&sqe) == NVMF_PROPERTY_SET);
	}
	return PDU_OK;
}

static struct pdu_error fake_on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	return fake_on_pdu(conn, pdu, true);
}

static void fake_on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	container_of(conn, struct fake_conn, conn)->is_used = false;
}

static void fake_accepted(struct reactor_listener *listener, int taken_fd,
			  const struct net_addr *peer)
{
	static const struct tcp_conn_handler handler = {fake_on_ready, fake_on_header, fake_on_pdu,
							fake_on_whole, fake_on_closed};
	static const struct tcp_conn_config config = {
		.role = PDU_ROLE_TARGET,
		.allows_header_digest = true,
		.allows_data_digest = true,
		.data_align_bytes = 4,
		.data_max_bytes = FAKE_H2C_MAX,
		.in_capsule_max_bytes = 8192,
		.ic_timeout_ms = 1000,
		.term_timeout_ms = 500,
	};
	struct fake *fake = container_of(listener, struct fake, listener);

	for (unsigned i = 0; i < FAKE_CONNS; i++) {
		struct fake_conn *fc = &fake->conns[i];

		if (fc->is_used)
			continue;
		memset(fc, 0, sizeof(*fc));
		fc->fake = fake;
		fc->is_used = true;
		CHECK(tcp_conn_accept(&fc->conn, fake->reactor, taken_fd, &config, &handler) == 0);
		return;
	}
	reactor_refuse_fd(taken_fd);
}

static bool fake_is_connected(const struct fake *fake)
{
	for (unsigned i = 0; i < FAKE_CONNS; i++)
		if (fake->conns[i].is_used)
			return true;
	return false;
}

static void fake_listener_closed(struct reactor_listener *listener)
{
	container_of(listener, struct fake, listener)->is_listener_closed = true;
}

static struct fake *fake_create(struct sim *sim)
{
	struct reactor_config config = {.index = 1, .cpu = -1};
	struct fake *fake = calloc(1, sizeof(*fake));
	struct net_addr any;

	CHECK(fake != NULL);
	fake->sim = sim;
	fake->cntlid = FAKE_CNTLID;
	for (size_t i = 0; i < sizeof(fake->store); i++)
		fake->store[i] = (uint8_t)(i * 7 + i / FAKE_BLOCK_BYTES);
	CHECK(reactor_create(&config, &fake->reactor) == 0);
	CHECK(net_addr_parse("127.0.0.1:0", 0, &any) == 0);
	sim_enter(fake->reactor);
	CHECK(reactor_listener_open(fake->reactor, &fake->listener, &any, fake_accepted) == 0);
	sim_leave(fake->reactor);
	return fake;
}

#endif
