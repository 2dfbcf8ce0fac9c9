/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: accept or connect, the ICReq/ICResp exchange, termination and close.
 *
 * Every end of a connection goes through tcp_conn_end, which closes the socket. The reactor then
 * calls done of every remaining PDU and on_closed. tcp_conn_fail is the only place that acts on
 * protocol violations. NVMe/TCP Transport 1.1, sections 3.1 (connection establishment), 3.5
 * (errors) and 3.6.2.3/4 (TermReq). Runs on the connection's reactor.
 */
#include "tcp/tcp_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *fes_name(uint16_t fes)
{
	switch (fes) {
	case NVME_TCP_FES_INVALID_HEADER_FIELD:
		return "invalid PDU header field";
	case NVME_TCP_FES_PDU_SEQUENCE:
		return "PDU sequence error";
	case NVME_TCP_FES_HDGST:
		return "header digest error";
	case NVME_TCP_FES_DATA_OUT_OF_RANGE:
		return "data transfer out of range";
	case NVME_TCP_FES_R2T_LIMIT_EXCEEDED:
		return "data transfer limit exceeded";
	case NVME_TCP_FES_UNSUPPORTED_PARAM:
		return "unsupported parameter";
	default:
		return "unknown fatal error status";
	}
}

bool tcp_conn_is_open(const struct tcp_conn *conn)
{
	return conn->phase == TCP_CONN_OPEN;
}

int tcp_conn_local(const struct tcp_conn *conn, struct net_addr *ret_addr)
{
	return tcp_stream_local(&conn->stream, ret_addr);
}

uint64_t tcp_conn_rtt_ns(const struct tcp_conn *conn)
{
	return tcp_stream_rtt_ns(&conn->stream);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Called by the reactor only, so no call of the user is in progress. */
static void conn_finish(struct tcp_conn *conn)
{
	tcp_tx_finish_dropped(conn);
	conn->phase = TCP_CONN_CLOSED;
	reactor_timer_cancel(&conn->deadline);
	tcp_tx_free(conn);
	tcp_rx_free(conn);
	conn->handler->on_closed(conn, conn->close_cause, conn->close_why);
}

static void conn_stream_closed(struct tcp_stream *stream)
{
	conn_finish(container_of(stream, struct tcp_conn, stream));
}

static void conn_set_cause(struct tcp_conn *conn, int cause, const char *why)
{
	if (conn->close_why)
		return;
	conn->close_cause = cause;
	conn->close_why = why;
}

/* From here on the connection is not open. */
static void conn_leave(struct tcp_conn *conn, enum tcp_conn_phase phase)
{
	bool was_open = tcp_conn_is_open(conn);

	conn->phase = phase;
	if (was_open && conn->handler->on_ending)
		conn->handler->on_ending(conn);
}

void tcp_conn_end(struct tcp_conn *conn, int cause, const char *why)
{
	if (conn->is_sock_closing)
		return;
	conn_set_cause(conn, cause, why);
	conn_leave(conn, TCP_CONN_CLOSING);
	conn->is_sock_closing = true;
	reactor_timer_cancel(&conn->deadline);
	reactor_defer_cancel(&conn->flush);
	/* A command still in the kernel's send buffer must not reach a controller that its host has
	 * given up: by then the host has sent the command again on another path. */
	if (conn->config.role == PDU_ROLE_HOST && conn->close_cause != -ESHUTDOWN)
		tcp_stream_set_abort(&conn->stream);
	tcp_tx_drop(conn, false);
	tcp_stream_close(&conn->stream);
}

void tcp_conn_abort(struct tcp_conn *conn, int cause, const char *why)
{
	CHECK_OWNER(conn);
	if (conn->is_sock_closing)
		return;
	tcp_stream_set_abort(&conn->stream);
	tcp_conn_end(conn, cause, why);
}

static void conn_arm_term_deadline(struct tcp_conn *conn)
{
	reactor_timer_arm(&conn->deadline,
			  reactor_now_ns(conn->reactor) + conn->config.term_timeout_ms * NS_PER_MS);
}

void tcp_conn_close(struct tcp_conn *conn, const char *why)
{
	CHECK_OWNER(conn);
	if (conn->phase < TCP_CONN_IC) {
		tcp_conn_abort(conn, -ESHUTDOWN, why);
		return;
	}
	if (!tcp_conn_is_listening(conn))
		return;
	conn_set_cause(conn, -ESHUTDOWN, why);
	conn_leave(conn, TCP_CONN_CLOSING);
	conn_arm_term_deadline(conn);
	tcp_tx_kick(conn);
	tcp_conn_update_want(conn);
}

void tcp_conn_fail(struct tcp_conn *conn, struct pdu_error error)
{
	char peer[NET_ADDR_TEXT_BYTES];

	CHECK_OWNER(conn);
	if (!tcp_conn_is_listening(conn))
		return;
	log_limited(LOG_LEVEL_WARN, "tcp", "%s: %s (fes %u, fei %u): %s",
		    net_addr_format(&conn->peer, peer), fes_name(error.fes), error.fes, error.fei,
		    error.what ? error.what : "");
	conn->term_buf = malloc(NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES);
	if (!conn->term_buf) {
		tcp_conn_abort(conn, -ENOMEM, "out of memory for a TermReq");
		return;
	}
	conn->term_bytes = pdu_encode_term(conn->term_buf, conn->config.role, error, conn->raw,
					   conn->raw_bytes);
	conn_set_cause(conn, -EPROTO, error.what ? error.what : fes_name(error.fes));
	conn_leave(conn, TCP_CONN_TERMINATING);
	conn_arm_term_deadline(conn);
	tcp_tx_drop(conn, true);
	tcp_tx_kick(conn);
	tcp_conn_update_want(conn);
}

void tcp_conn_on_term(struct tcp_conn *conn, const struct pdu *pdu)
{
	char peer[NET_ADDR_TEXT_BYTES];

	snprintf(conn->why_text, sizeof(conn->why_text), "TermReq: %s (fei %u)",
		 fes_name(pdu->u.term.fes), pdu->u.term.fei);
	log_limited(LOG_LEVEL_WARN, "tcp", "%s: sent a %s", net_addr_format(&conn->peer, peer),
		    conn->why_text);
	tcp_conn_end(conn, -ECONNRESET, conn->why_text);
}

static void conn_deadline(struct reactor_timer *timer)
{
	struct tcp_conn *conn = container_of(timer, struct tcp_conn, deadline);

	switch (conn->phase) {
	case TCP_CONN_CONNECTING:
		tcp_conn_abort(conn, -ETIMEDOUT, "no connection in time");
		break;
	case TCP_CONN_HANDSHAKE:
		snprintf(conn->why_text, sizeof(conn->why_text),
			 "the %s handshake did not end in time", conn->config.records->name);
		tcp_conn_abort(conn, -ETIMEDOUT, conn->why_text);
		break;
	case TCP_CONN_IC:
		tcp_conn_abort(conn, -ETIMEDOUT,
			       conn->config.role == PDU_ROLE_TARGET ? "no ICReq in time"
								    : "no ICResp in time");
		break;
	default:
		tcp_conn_abort(conn, conn->close_cause, conn->close_why);
		break;
	}
}

/* ---- the beginning ------------------------------------------------------------------------- */

static int conn_init(struct tcp_conn *conn, struct reactor *reactor,
		     const struct tcp_conn_config *config, const struct tcp_conn_handler *handler)
{
	memset(conn, 0, sizeof(*conn));
	conn->carry = malloc(TCP_CARRY_ROOM);
	if (!conn->carry)
		return -ENOMEM;
	conn->reactor = reactor;
	conn->config = *config;
	/* Point to a dummy so that receive and send need no NULL test. */
	if (!conn->config.heard_ns)
		conn->config.heard_ns = &conn->unread_ns;
	if (!conn->config.sent_ns)
		conn->config.sent_ns = &conn->unread_ns;
	if (conn->config.recv_budget_bytes == 0)
		conn->config.recv_budget_bytes = TCP_RECV_BUDGET_BYTES;
	if (conn->config.recv_budget_bytes > REACTOR_SCRATCH_BYTES - TCP_CARRY_ROOM)
		conn->config.recv_budget_bytes = REACTOR_SCRATCH_BYTES - TCP_CARRY_ROOM;
	conn->handler = handler;
	conn->rx_state = (struct pdu_state){
		.role = config->role,
		.data_align_bytes = config->data_align_bytes,
		.in_capsule_max_bytes = config->in_capsule_max_bytes,
		.data_max_bytes =
			config->role == PDU_ROLE_TARGET ? config->data_max_bytes : UINT32_MAX,
	};
	conn->tx_encoding.data_align_bytes = 4;
	conn->wanted = REACTOR_SOCK_READ;
	tcp_rx_init(conn);
	tcp_tx_init(conn);
	reactor_timer_init(reactor, &conn->deadline, conn_deadline);
	reactor_timer_arm(&conn->deadline,
			  reactor_now_ns(reactor) + config->ic_timeout_ms * NS_PER_MS);
	return 0;
}

/* Nothing to do once the engine's own ICReq or ICResp is sent. */
static void conn_ic_sent(struct tcp_tx *tx, int res)
{
}

static void conn_send_ic(struct tcp_conn *conn, size_t hdr_bytes)
{
	conn->ic_tx.hdr_bytes = (uint16_t)hdr_bytes;
	conn->ic_tx.done = conn_ic_sent;
	tcp_tx_queue(conn, &conn->ic_tx);
}

static void conn_connected(struct tcp_stream *stream, int res)
{
	struct tcp_conn *conn = container_of(stream, struct tcp_conn, stream);
	const struct tcp_conn_config *config = &conn->config;

	if (res < 0) {
		conn_set_cause(conn, res, "connect failed");
		conn->is_sock_closing = true;
		conn_finish(conn);
		return;
	}
	conn->phase = TCP_CONN_HANDSHAKE;
	*config->heard_ns = reactor_now_ns(conn->reactor);
	if (config->unacked_timeout_ms > 0)
		tcp_stream_set_timeout(stream, config->unacked_timeout_ms);
}

static void conn_established(struct tcp_stream *stream)
{
	struct tcp_conn *conn = container_of(stream, struct tcp_conn, stream);
	const struct tcp_conn_config *config = &conn->config;

	conn->phase = TCP_CONN_IC;
	conn->direct_min_bytes = stream->can_recv_direct ? TCP_DIRECT_MIN_BYTES : UINT32_MAX;
	if (config->zero_copy_min_bytes > 0 && stream->can_send_zc)
		tcp_zc_init(conn);
	if (config->role == PDU_ROLE_HOST)
		conn_send_ic(conn, pdu_encode_ic_req(conn->ic_tx.hdr, config->data_align_bytes,
						     config->allows_header_digest,
						     config->allows_data_digest, config->max_r2t));
}

static void conn_stream_failed(struct tcp_stream *stream, int error)
{
	struct tcp_conn *conn = container_of(stream, struct tcp_conn, stream);
	bool is_handshake = conn->phase == TCP_CONN_HANDSHAKE;

	snprintf(conn->why_text, sizeof(conn->why_text), "%s %s%s%s", conn->config.records->name,
		 is_handshake ? "handshake failed" : "failed", stream->why ? ": " : "",
		 stream->why ? stream->why : "");
	tcp_conn_end(conn, error, conn->why_text);
}

static const struct tcp_stream_user conn_stream_user = {
	.ready = tcp_rx_ready,
	.connected = conn_connected,
	.established = conn_established,
	.failed = conn_stream_failed,
	.closed = conn_stream_closed,
};

static struct tcp_stream_config conn_stream_config(const struct tcp_conn_config *config)
{
	return (struct tcp_stream_config){
		.user = &conn_stream_user,
		.records = config->records,
		.records_arg = config->records_arg,
	};
}

/* Undoes conn_init for a connection that could not be accepted or connected. */
static void conn_deinit(struct tcp_conn *conn)
{
	reactor_timer_cancel(&conn->deadline);
	tcp_tx_free(conn);
	tcp_rx_free(conn);
}

int tcp_conn_accept(struct tcp_conn *conn, struct reactor *reactor, int taken_fd,
		    const struct tcp_conn_config *config, const struct tcp_conn_handler *handler)
{
	struct tcp_stream_config stream_config = conn_stream_config(config);
	int error;

	CHECK(reactor == reactor_current() && config->role == PDU_ROLE_TARGET);
	error = conn_init(conn, reactor, config, handler);
	if (error)
		return error;
	conn->phase = TCP_CONN_HANDSHAKE;
	error = tcp_stream_accept(&conn->stream, reactor, taken_fd, &stream_config);
	if (error) {
		conn_deinit(conn);
		return error;
	}
	(void)tcp_stream_peer(&conn->stream, &conn->peer);
	return 0;
}

int tcp_conn_connect(struct tcp_conn *conn, struct reactor *reactor, const struct net_addr *addr,
		     const struct tcp_conn_config *config, const struct tcp_conn_handler *handler)
{
	struct tcp_stream_config stream_config = conn_stream_config(config);
	int error;

	CHECK(reactor == reactor_current() && config->role == PDU_ROLE_HOST);
	error = conn_init(conn, reactor, config, handler);
	if (error)
		return error;
	conn->phase = TCP_CONN_CONNECTING;
	conn->peer = *addr;
	error = tcp_stream_connect(&conn->stream, reactor, addr, &stream_config);
	if (error)
		conn_deinit(conn);
	return error;
}

/* ---- the IC exchange ----------------------------------------------------------------------- */

static void conn_open(struct tcp_conn *conn, const struct pdu *pdu, bool has_header_digest,
		      bool has_data_digest)
{
	conn->rx_state.is_initialized = true;
	conn->rx_state.has_header_digest = has_header_digest;
	conn->rx_state.has_data_digest = has_data_digest;
	conn->tx_encoding.has_header_digest = has_header_digest;
	conn->tx_encoding.has_data_digest = has_data_digest;
	conn->tx_encoding.data_align_bytes = pdu->u.ic.data_align_bytes;
	conn->phase = TCP_CONN_OPEN;
	reactor_timer_cancel(&conn->deadline);
	conn->handler->on_ready(conn);
}

static void conn_on_ic_req(struct tcp_conn *conn, const struct pdu *pdu)
{
	const struct tcp_conn_config *config = &conn->config;
	bool has_header_digest = pdu->u.ic.wants_header_digest && config->allows_header_digest;
	bool has_data_digest = pdu->u.ic.wants_data_digest && config->allows_data_digest;

	conn->peer_max_r2t = pdu->u.ic.max_r2t;
	conn_send_ic(conn, pdu_encode_ic_resp(conn->ic_tx.hdr, config->data_align_bytes,
					      has_header_digest, has_data_digest,
					      config->data_max_bytes));
	conn_open(conn, pdu, has_header_digest, has_data_digest);
}

static void conn_on_ic_resp(struct tcp_conn *conn, const struct pdu *pdu)
{
	const struct tcp_conn_config *config = &conn->config;
	bool has_header_digest = pdu->u.ic.wants_header_digest;
	bool has_data_digest = pdu->u.ic.wants_data_digest;

	if ((has_header_digest && !config->allows_header_digest) ||
	    (has_data_digest && !config->allows_data_digest)) {
		tcp_conn_fail(conn,
			      (struct pdu_error){.fes = NVME_TCP_FES_INVALID_HEADER_FIELD,
						 .fei = offsetof(struct nvme_tcp_ic, dgst),
						 .what = "controller enabled a digest that was not "
							 "asked for"});
		return;
	}
	if (config->allows_header_digest && !has_header_digest) {
		tcp_conn_end(conn, -EPROTO, "controller refused header digest");
		return;
	}
	if (config->allows_data_digest && !has_data_digest) {
		tcp_conn_end(conn, -EPROTO, "controller refused data digest");
		return;
	}
	conn->peer_data_max_bytes = pdu->u.ic.max_data_bytes;
	conn_open(conn, pdu, has_header_digest, has_data_digest);
}

void tcp_conn_on_ic(struct tcp_conn *conn, const struct pdu *pdu)
{
	if (conn->config.role == PDU_ROLE_TARGET)
		conn_on_ic_req(conn, pdu);
	else
		conn_on_ic_resp(conn, pdu);
}
