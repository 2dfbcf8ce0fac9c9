/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection engine against a bare socket on the simulated reactor: these bytes in, those
 * bytes out. Violations and the TermReq they cause, digests that do not match, deadlines, the IC
 * exchange, what is sent in one turn, shared payload, and the order of last words.
 * NVMe/TCP Transport 1.1, sections 3.1, 3.5 and 3.6.
 */
#include "../sim/sim.h"
#include "tap.h"

#include "base/clock.h"
#include "base/log.h"
#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RAW_BYTES (2 * 1024 * 1024)

struct raw {
	struct reactor_sock sock;
	bool is_open;
	bool is_deaf; /* receives nothing */
	bool has_eof;
	int error;
	size_t received;
	uint8_t *bytes;
	const uint8_t *answer; /* sent as soon as something was received */
	size_t answer_bytes;
};

struct subject {
	struct tcp_conn conn;
	bool is_begun;
	unsigned ready_count;
	unsigned pdu_count;
	unsigned bad_digests;
	unsigned closed_count;
	int cause;
	char why[80];
	uint8_t *dest;
	struct pdu last;
	struct pdu_error header_error; /* what on_header returns */
};

struct world {
	struct sim *sim;
	struct reactor *reactor;
	struct reactor_listener listener;
	struct raw raw;
	struct subject subject; /* what is tested against raw */
	struct subject other;   /* or against this one */
	struct tcp_conn_config target_config;
	struct tcp_conn_config host_config;
	bool is_raw_listening; /* who gets what the listener accepts */
	uint64_t flip_at;      /* byte of the host's stream whose bits are turned; 0: none */
};

static struct world *world; /* the one of the running case */

struct sent {
	struct tcp_tx tx;
	unsigned done_count;
	int res;
};

static void sent_done(struct tcp_tx *tx, int res)
{
	struct sent *sent = container_of(tx, struct sent, tx);

	sent->done_count++;
	sent->res = res;
}

/* ---- the engine's user --------------------------------------------------------------------- */

static void on_ready(struct tcp_conn *conn)
{
	container_of(conn, struct subject, conn)->ready_count++;
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	if (pdu_is_error(subject->header_error))
		return subject->header_error;
	if (pdu->data_bytes > 0) {
		free(subject->dest);
		subject->dest = malloc(pdu->data_bytes);
		sink->dest = subject->dest;
		sink->granule_bytes = 1;
	}
	return PDU_OK;
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	subject->pdu_count++;
	subject->bad_digests += !is_digest_ok;
	subject->last = *pdu;
	return PDU_OK;
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct subject *subject = container_of(conn, struct subject, conn);

	subject->closed_count++;
	subject->cause = cause;
	snprintf(subject->why, sizeof(subject->why), "%s", why);
}

static const struct tcp_conn_handler handler = {on_ready, on_header, on_pdu, on_closed};

/* ---- the bare socket ----------------------------------------------------------------------- */

static void raw_send(const void *bytes, size_t len_bytes)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len_bytes};

	/* The simulated socket takes less than there is room for now and then. */
	while (iov.iov_len > 0) {
		ssize_t len = reactor_sock_send(&world->raw.sock, &iov, 1);

		CHECK(len > 0 || len == -EAGAIN);
		if (len > 0) {
			iov.iov_base = (uint8_t *)iov.iov_base + len;
			iov.iov_len -= (size_t)len;
		}
	}
}

static void raw_ready(struct reactor_sock *sock, unsigned events)
{
	struct raw *raw = &world->raw;
	struct iovec iov = {.iov_base = raw->bytes + raw->received,
			    .iov_len = RAW_BYTES - raw->received};
	ssize_t len = reactor_sock_recv(sock, &iov, 1);

	if (len > 0) {
		raw->received += (size_t)len;
		if (raw->answer && raw->received >= NVME_TCP_IC_BYTES) {
			raw_send(raw->answer, raw->answer_bytes);
			raw->answer = NULL;
		}
	} else if (len != -EAGAIN) {
		raw->has_eof = len == 0;
		raw->error = (int)len;
		reactor_sock_want(sock, 0);
	}
}

static void raw_connected(struct reactor_sock *sock, int res)
{
	EXPECT_EQ(0, res);
	world->raw.is_open = true;
	if (world->raw.is_deaf)
		reactor_sock_want(sock, 0);
}

static void raw_closed(struct reactor_sock *sock)
{
	world->raw.is_open = false;
}

/* ---- the world ----------------------------------------------------------------------------- */

static void on_accepted(struct reactor_listener *listener, int taken_fd,
			const struct net_addr *peer)
{
	if (world->is_raw_listening) {
		reactor_sock_open(world->reactor, &world->raw.sock, taken_fd, raw_ready);
		world->raw.is_open = true;
		return;
	}
	world->subject.is_begun = true;
	EXPECT_EQ(0, tcp_conn_accept(&world->subject.conn, world->reactor, taken_fd,
				     &world->target_config, &handler));
}

static void tap_flip(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	/* The first socket after the listener is the connecting one. */
	if (fd == SIM_FIRST_FD + 1 && world->flip_at >= offset &&
	    world->flip_at < offset + len_bytes && world->flip_at > 0)
		bytes[world->flip_at - offset] ^= 0x40;
}

static void world_create(const struct sim_options *options)
{
	struct reactor_config config = {.cpu = -1};
	struct net_addr any;

	world = calloc(1, sizeof(*world));
	world->raw.bytes = malloc(RAW_BYTES);
	world->sim = sim_create(42, options);
	sim_net_set_tap(world->sim, tap_flip, NULL);
	CHECK(reactor_create(&config, &world->reactor) == 0);
	CHECK(net_addr_parse("127.0.0.1:0", 0, &any) == 0);
	sim_enter(world->reactor);
	CHECK(reactor_listener_open(world->reactor, &world->listener, &any, on_accepted) == 0);
	world->target_config = (struct tcp_conn_config){
		.role = PDU_ROLE_TARGET,
		.allows_header_digest = true,
		.allows_data_digest = true,
		.data_align_bytes = 4,
		.data_max_bytes = 128 * 1024,
		.in_capsule_max_bytes = 8192,
		.ic_timeout_ms = 300,
		.term_timeout_ms = 200,
	};
	world->host_config = world->target_config;
	world->host_config.role = PDU_ROLE_HOST;
	world->host_config.max_r2t = 1;
	sim_leave(world->reactor);
}

static void run_ms(uint64_t ms)
{
	sim_run_until(world->sim, sim_now(world->sim) + ms * NS_PER_MS);
}

static void listener_closed(struct reactor_listener *listener)
{
}

static void world_destroy(void)
{
	sim_enter(world->reactor);
	reactor_listener_close(&world->listener, listener_closed);
	if (world->raw.is_open)
		reactor_sock_close(&world->raw.sock, raw_closed);
	if (world->other.is_begun && world->other.closed_count == 0)
		tcp_conn_close(&world->other.conn, "the test is over");
	sim_leave(world->reactor);
	run_ms(1000);
	EXPECT_EQ(world->subject.is_begun, world->subject.closed_count);
	EXPECT_EQ(world->other.is_begun, world->other.closed_count);
	EXPECT_EQ(0, sim_leaks(world->sim));
	sim_destroy(world->sim);
	free(world->subject.dest);
	free(world->other.dest);
	free(world->raw.bytes);
	free(world);
	world = NULL;
}

/* A bare socket that talks to our target. */
static void raw_connect(void)
{
	sim_enter(world->reactor);
	reactor_sock_connect(world->reactor, &world->raw.sock, &world->listener.addr, raw_connected,
			     raw_ready);
	sim_leave(world->reactor);
	run_ms(1);
}

static void raw_send_ic_req(bool wants_header_digest, bool wants_data_digest)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	sim_enter(world->reactor);
	raw_send(hdr, pdu_encode_ic_req(hdr, 4, wants_header_digest, wants_data_digest, 1));
	sim_leave(world->reactor);
	run_ms(1);
}

static void raw_send_now(const void *bytes, size_t len_bytes)
{
	sim_enter(world->reactor);
	raw_send(bytes, len_bytes);
	sim_leave(world->reactor);
	run_ms(1);
}

/* Our host, connecting to whatever listens. */
static void host_connect(struct subject *host)
{
	host->is_begun = true;
	sim_enter(world->reactor);
	CHECK(tcp_conn_connect(&host->conn, world->reactor, &world->listener.addr,
			       &world->host_config, &handler) == 0);
	sim_leave(world->reactor);
}

/* ---- the IC exchange ----------------------------------------------------------------------- */

static void target_agrees_to_what_is_asked_and_allowed(void)
{
	struct nvme_tcp_ic ic;

	world_create(NULL);
	world->target_config.allows_data_digest = false;
	raw_connect();
	raw_send_ic_req(true, true);
	EXPECT_EQ(1, world->subject.ready_count);
	EXPECT_EQ(NVME_TCP_IC_BYTES, world->raw.received);
	memcpy(&ic, world->raw.bytes, sizeof(ic));
	EXPECT_EQ(NVME_TCP_PDU_IC_RESP, ic.ch.type);
	EXPECT_EQ(1, ic.dgst);
	EXPECT_EQ(128 * 1024, le32_get(ic.limit));
	EXPECT(world->subject.conn.tx_encoding.has_header_digest);
	EXPECT(!world->subject.conn.tx_encoding.has_data_digest);
	world_destroy();
}

static void target_gives_up_on_a_silent_host(void)
{
	world_create(NULL);
	raw_connect();
	run_ms(295);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(10);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ETIMEDOUT, world->subject.cause);
	EXPECT_STR("no ICReq in time", world->subject.why);
	EXPECT_EQ(-ECONNRESET, world->raw.error);
	world_destroy();
}

static void host_gives_up_on_a_silent_controller(void)
{
	world_create(NULL);
	world->is_raw_listening = true;
	host_connect(&world->subject);
	run_ms(310);
	EXPECT_EQ(-ETIMEDOUT, world->subject.cause);
	EXPECT_STR("no ICResp in time", world->subject.why);
	world_destroy();
}

static void host_gives_up_on_a_partitioned_controller(void)
{
	world_create(NULL);
	sim_net_partition(world->sim, &world->listener.addr, true);
	host_connect(&world->subject);
	run_ms(295);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(10);
	EXPECT_EQ(-ETIMEDOUT, world->subject.cause);
	EXPECT_STR("no connection in time", world->subject.why);
	world_destroy();
}

static void host_hears_of_a_controller_that_closes(void)
{
	world_create(NULL);
	world->is_raw_listening = true;
	host_connect(&world->subject);
	run_ms(1);
	sim_enter(world->reactor);
	reactor_sock_close(&world->raw.sock, raw_closed);
	sim_leave(world->reactor);
	run_ms(1);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ECONNRESET, world->subject.cause);
	world_destroy();
}

static void host_hears_of_a_refused_connection(void)
{
	world_create(&(struct sim_options){.faults.refuse_ppm = 1000000});
	host_connect(&world->subject);
	run_ms(10);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ECONNREFUSED, world->subject.cause);
	world_destroy();
}

/* Our host against a controller that answers the ICReq with this. */
static uint32_t controller_align_bytes = 4;

static void host_against_ic_resp(bool asks, bool has_header_digest, bool has_data_digest)
{
	static uint8_t resp[NVME_TCP_HDR_MAX_BYTES];

	world_create(NULL);
	world->is_raw_listening = true;
	world->host_config.allows_header_digest = asks;
	world->host_config.allows_data_digest = asks;
	world->raw.answer_bytes = pdu_encode_ic_resp(resp, controller_align_bytes,
						     has_header_digest, has_data_digest, 65536);
	world->raw.answer = resp;
	host_connect(&world->subject);
	run_ms(10);
}

static void host_takes_what_the_controller_says(void)
{
	host_against_ic_resp(true, true, true);
	EXPECT_EQ(1, world->subject.ready_count);
	EXPECT_EQ(65536, world->subject.conn.peer_data_max_bytes);
	world_destroy();
}

/* Alignment is any multiple of four: 76 bytes of header with 72 put the data at 144. */
static void host_keeps_an_odd_alignment(void)
{
	static uint8_t payload[100];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL};
	struct sent sent = {.tx.done = sent_done, .tx.iov = &iov, .tx.iov_count = 1};

	memset(payload, 0x5a, sizeof(payload));
	controller_align_bytes = 72;
	host_against_ic_resp(true, true, true);
	controller_align_bytes = 4;
	sim_enter(world->reactor);
	tcp_send_cmd(&world->subject.conn, &sent.tx, &sqe, sizeof(payload));
	sim_leave(world->reactor);
	run_ms(10);
	EXPECT_EQ(NVME_TCP_IC_BYTES + 144 + 100 + 4, world->raw.received);
	EXPECT_EQ(144, world->raw.bytes[NVME_TCP_IC_BYTES + 3]);
	EXPECT_EQ(0, world->raw.bytes[NVME_TCP_IC_BYTES + 143]);
	EXPECT_EQ(0x5a, world->raw.bytes[NVME_TCP_IC_BYTES + 144]);
	world_destroy();
}

static void host_refuses_to_go_without_a_digest(void)
{
	host_against_ic_resp(true, false, true);
	EXPECT_EQ(0, world->subject.ready_count);
	EXPECT_EQ(-EPROTO, world->subject.cause);
	EXPECT_STR("controller refused header digest", world->subject.why);
	EXPECT_EQ(NVME_TCP_IC_BYTES, world->raw.received);
	world_destroy();
	host_against_ic_resp(true, true, false);
	EXPECT_STR("controller refused data digest", world->subject.why);
	world_destroy();
}

static void host_terminates_on_a_digest_nobody_asked_for(void)
{
	struct nvme_tcp_term term;

	host_against_ic_resp(false, true, false);
	EXPECT_EQ(NVME_TCP_IC_BYTES + NVME_TCP_TERM_HDR_BYTES + NVME_TCP_IC_BYTES,
		  world->raw.received);
	memcpy(&term, world->raw.bytes + NVME_TCP_IC_BYTES, sizeof(term));
	EXPECT_EQ(NVME_TCP_PDU_H2C_TERM_REQ, term.ch.type);
	EXPECT_EQ(NVME_TCP_FES_INVALID_HEADER_FIELD, le16_get(term.fes));
	EXPECT_EQ(11, le32_get(term.fei));
	EXPECT_EQ(0, world->subject.ready_count);
	run_ms(500);
	EXPECT_EQ(-EPROTO, world->subject.cause);
	world_destroy();
}

/* ---- violations ---------------------------------------------------------------------------- */

static void an_unknown_type_is_answered_with_a_term_req(void)
{
	const uint8_t bad[24] = {0x42, 0, 24, 0, 24, 0, 0, 0, 1, 2, 3};
	const uint8_t *answer;
	struct nvme_tcp_term term;

	world_create(NULL);
	raw_connect();
	raw_send_ic_req(false, false);
	raw_send_now(bad, sizeof(bad));
	answer = world->raw.bytes + NVME_TCP_IC_BYTES;
	memcpy(&term, answer, sizeof(term));
	EXPECT_EQ(NVME_TCP_IC_BYTES + NVME_TCP_TERM_HDR_BYTES + 24, world->raw.received);
	EXPECT_EQ(NVME_TCP_PDU_C2H_TERM_REQ, term.ch.type);
	EXPECT_EQ(NVME_TCP_TERM_HDR_BYTES, term.ch.hlen);
	EXPECT_EQ(NVME_TCP_TERM_HDR_BYTES + 24, le32_get(term.ch.plen));
	EXPECT_EQ(NVME_TCP_FES_INVALID_HEADER_FIELD, le16_get(term.fes));
	EXPECT_EQ(0, le32_get(term.fei));
	EXPECT(memcmp(answer + NVME_TCP_TERM_HDR_BYTES, bad, 24) == 0);
	/* The host does not close: it is cut off after the deadline, not before. */
	EXPECT_EQ(TCP_CONN_TERMINATING, world->subject.conn.phase);
	run_ms(190);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(20);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-EPROTO, world->subject.cause);
	EXPECT_EQ(-ECONNRESET, world->raw.error);
	world_destroy();
}

static void a_term_req_is_not_answered(void)
{
	uint8_t term[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES];
	const uint8_t offending[8] = {5, 0, 24, 0, 24, 0, 0, 0};
	struct pdu_error error = {.fes = NVME_TCP_FES_DATA_OUT_OF_RANGE, .fei = 16};

	world_create(&(struct sim_options){.is_orderly = true});
	raw_connect();
	raw_send_ic_req(false, false);
	raw_send_now(term, pdu_encode_term(term, PDU_ROLE_HOST, error, offending, 8));
	EXPECT_EQ(NVME_TCP_IC_BYTES, world->raw.received);
	EXPECT(world->raw.has_eof);
	EXPECT_EQ(-ECONNRESET, world->subject.cause);
	EXPECT(strstr(world->subject.why, "data transfer out of range") != NULL);
	world_destroy();
}

static size_t encode_read(uint8_t hdr[NVME_TCP_HDR_MAX_BYTES], uint32_t data_bytes)
{
	struct pdu_encoding encoding = {.data_align_bytes = 4};
	struct nvme_sqe sqe = {.opcode = 2, .flags = NVME_SQE_PSDT_SGL};

	return pdu_encode_cmd(hdr, &encoding, &sqe, data_bytes);
}

static void a_violation_found_by_the_user_is_sent_with_its_header(void)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	struct nvme_tcp_term term;
	const uint8_t *answer;

	world_create(NULL);
	world->subject.header_error =
		(struct pdu_error){.fes = NVME_TCP_FES_PDU_SEQUENCE, .fei = 7, .what = "a test"};
	raw_connect();
	raw_send_ic_req(false, false);
	raw_send_now(hdr, encode_read(hdr, 0));
	answer = world->raw.bytes + NVME_TCP_IC_BYTES;
	memcpy(&term, answer, sizeof(term));
	EXPECT_EQ(NVME_TCP_IC_BYTES + NVME_TCP_TERM_HDR_BYTES + 72, world->raw.received);
	EXPECT_EQ(NVME_TCP_FES_PDU_SEQUENCE, le16_get(term.fes));
	EXPECT(memcmp(answer + NVME_TCP_TERM_HDR_BYTES, hdr, 72) == 0);
	EXPECT_EQ(0, world->subject.pdu_count);
	/* What comes after it is drained and never looked at; the host's close ends it. */
	raw_send_now(hdr, 72);
	EXPECT_EQ(0, world->subject.pdu_count);
	EXPECT_EQ(0, world->subject.closed_count);
	sim_enter(world->reactor);
	reactor_sock_close(&world->raw.sock, raw_closed);
	sim_leave(world->reactor);
	run_ms(1);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_STR("a test", world->subject.why);
	world_destroy();
}

static void the_limit_of_capsules_can_be_raised(void)
{
	static uint8_t bytes[72 + 16384];

	for (int is_raised = 0; is_raised < 2; is_raised++) {
		world_create(&(struct sim_options){.is_orderly = true});
		raw_connect();
		raw_send_ic_req(false, false);
		sim_enter(world->reactor);
		if (is_raised)
			tcp_conn_set_in_capsule_max(&world->subject.conn, 16384);
		sim_leave(world->reactor);
		EXPECT_EQ(72, encode_read(bytes, 16384));
		raw_send_now(bytes, sizeof(bytes));
		EXPECT_EQ(is_raised, world->subject.pdu_count);
		EXPECT_EQ(is_raised, tcp_conn_is_open(&world->subject.conn));
		world_destroy();
	}
}

static void the_end_inside_a_pdu_is_not_orderly(void)
{
	const uint8_t half[12] = {NVME_TCP_PDU_CAPSULE_CMD, 0, 72, 0, 72, 0, 0, 0};

	for (int is_half = 0; is_half < 2; is_half++) {
		world_create(NULL);
		raw_connect();
		raw_send_ic_req(false, false);
		if (is_half)
			raw_send_now(half, sizeof(half));
		sim_enter(world->reactor);
		reactor_sock_shutdown_send(&world->raw.sock);
		sim_leave(world->reactor);
		run_ms(1);
		EXPECT_EQ(1, world->subject.closed_count);
		EXPECT_EQ(is_half ? -ECONNRESET : 0, world->subject.cause);
		world_destroy();
	}
}

/* ---- digests ------------------------------------------------------------------------------- */

/* A host of ours sends one command with 1000 bytes; the byte at flip_at is changed on the way. */
static void send_flipped(uint64_t flip_at)
{
	static uint8_t payload[1000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL};
	struct sent sent = {.tx.done = sent_done, .tx.iov = &iov, .tx.iov_count = 1};

	world_create(NULL);
	world->flip_at = flip_at;
	host_connect(&world->other);
	run_ms(2);
	EXPECT_EQ(1, world->other.ready_count);
	sim_enter(world->reactor);
	tcp_send_cmd(&world->other.conn, &sent.tx, &sqe, sizeof(payload));
	sim_leave(world->reactor);
	run_ms(10);
	EXPECT_EQ(1, sent.done_count);
}

static void a_wrong_header_digest_ends_the_connection(void)
{
	send_flipped(NVME_TCP_IC_BYTES + 20);
	EXPECT_EQ(0, world->subject.pdu_count);
	EXPECT_EQ(-EPROTO, world->subject.cause);
	EXPECT_EQ(-ECONNRESET, world->other.cause);
	EXPECT(strstr(world->other.why, "header digest error") != NULL);
	world_destroy();
}

static void a_wrong_data_digest_is_told_to_the_user(void)
{
	send_flipped(NVME_TCP_IC_BYTES + 76 + 500);
	EXPECT_EQ(1, world->subject.pdu_count);
	EXPECT_EQ(1, world->subject.bad_digests);
	EXPECT_EQ(1, world->subject.conn.stats.data_digest_errors);
	EXPECT(tcp_conn_is_open(&world->subject.conn));
	world_destroy();
	send_flipped(0);
	EXPECT_EQ(1, world->subject.pdu_count);
	EXPECT_EQ(0, world->subject.bad_digests);
	world_destroy();
}

/* ---- sending ------------------------------------------------------------------------------- */

static void responses_of_one_turn_leave_in_one_send(void)
{
	struct sent sent[100] = {0};
	struct nvme_cqe cqe = {0};
	uint64_t sends;

	world_create(&(struct sim_options){.is_orderly = true});
	raw_connect();
	raw_send_ic_req(false, false);
	sends = world->subject.conn.stats.sends;
	sim_enter(world->reactor);
	for (unsigned i = 0; i < ARRAY_LEN(sent); i++) {
		sent[i].tx.done = sent_done;
		tcp_send_resp(&world->subject.conn, &sent[i].tx, &cqe);
		EXPECT_EQ(0, sent[i].done_count);
	}
	sim_leave(world->reactor);
	EXPECT_EQ(sends + 1, world->subject.conn.stats.sends);
	for (unsigned i = 0; i < ARRAY_LEN(sent); i++)
		EXPECT_EQ(1, sent[i].done_count);
	run_ms(1);
	EXPECT_EQ(NVME_TCP_IC_BYTES + 2400, world->raw.received);
	world_destroy();
}

/* More than a send takes in pieces and in bytes, and more than a turn may send. */
static void a_long_queue_leaves_in_several_sends(void)
{
	enum {
		COUNT = 1500,
		DATA_COUNT = 30
	};
	static struct sent sent[COUNT + DATA_COUNT];
	static uint8_t payload[50000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct pdu_data_args args = {.data_bytes = sizeof(payload), .is_last = true};
	struct nvme_cqe cqe = {0};
	uint64_t sends;

	memset(sent, 0, sizeof(sent));
	world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 8 << 20});
	raw_connect();
	raw_send_ic_req(false, false);
	sends = world->subject.conn.stats.sends;
	sim_enter(world->reactor);
	for (unsigned i = 0; i < COUNT + DATA_COUNT; i++) {
		sent[i].tx = (struct tcp_tx){.done = sent_done, .iov = &iov, .iov_count = 1};
		if (i < COUNT)
			tcp_send_resp(&world->subject.conn, &sent[i].tx, &cqe);
		else
			tcp_send_c2h_data(&world->subject.conn, &sent[i].tx, &args);
	}
	sim_leave(world->reactor);
	EXPECT_EQ(1, sent[0].done_count);
	EXPECT_EQ(0, sent[COUNT + DATA_COUNT - 1].done_count);
	run_ms(10);
	for (unsigned i = 0; i < COUNT + DATA_COUNT; i++)
		EXPECT(sent[i].done_count == 1 && sent[i].res == 0);
	EXPECT_EQ(NVME_TCP_IC_BYTES + COUNT * 24 + DATA_COUNT * (24 + sizeof(payload)),
		  world->raw.received);
	EXPECT(world->subject.conn.stats.sends - sends < 10);
	world_destroy();
}

/* The payload is scribbled over when a part of it is gone; the peer must see the old bytes only. */
static void shared_payload_is_not_torn(void)
{
	const size_t len = 100000;
	uint8_t *payload = malloc(len);
	struct iovec iov = {.iov_base = payload, .iov_len = len};
	struct pdu_data_args args = {.data_bytes = (uint32_t)len, .is_last = true};
	struct sent sent = {
		.tx = {.done = sent_done, .iov = &iov, .iov_count = 1, .data_is_shared = true}};
	size_t wrong = 0;

	world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 5000});
	raw_connect();
	raw_send_ic_req(false, false);
	memset(payload, 1, len);
	sim_enter(world->reactor);
	tcp_send_c2h_data(&world->subject.conn, &sent.tx, &args);
	sim_leave(world->reactor);
	EXPECT_EQ(5000, world->subject.conn.tx_head_done_bytes);
	memset(payload, 2, len);
	run_ms(100);
	EXPECT_EQ(1, sent.done_count);
	EXPECT_EQ(NVME_TCP_IC_BYTES + 24 + len, world->raw.received);
	for (size_t i = 0; i < len; i++)
		wrong += world->raw.bytes[NVME_TCP_IC_BYTES + 24 + i] != 1;
	EXPECT_EQ(0, wrong);
	world_destroy();
	free(payload);
}

/* With data digests the copy is made before the digest, so both always match. */
static void shared_payload_keeps_its_digest(void)
{
	uint8_t payload[4096];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL};
	struct sent sent = {
		.tx = {.done = sent_done, .iov = &iov, .iov_count = 1, .data_is_shared = true}};

	world_create(NULL);
	host_connect(&world->other);
	run_ms(2);
	memset(payload, 1, sizeof(payload));
	sim_enter(world->reactor);
	tcp_send_cmd(&world->other.conn, &sent.tx, &sqe, sizeof(payload));
	memset(payload, 2, sizeof(payload));
	sim_leave(world->reactor);
	run_ms(10);
	EXPECT_EQ(1, world->subject.pdu_count);
	EXPECT_EQ(0, world->subject.bad_digests);
	EXPECT_EQ(1, world->subject.dest[4095]);
	world_destroy();
}

/* A PDU that is begun is finished, the next one is dropped, then comes the TermReq. */
static void the_term_req_follows_the_pdu_that_is_begun(void)
{
	static uint8_t payload[50000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct pdu_data_args args = {.data_bytes = sizeof(payload), .is_last = true};
	struct sent sent[2] = {0};
	struct nvme_tcp_term term;

	world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 8192});
	raw_connect();
	raw_send_ic_req(false, false);
	for (int i = 0; i < 2; i++)
		sent[i].tx = (struct tcp_tx){.done = sent_done, .iov = &iov, .iov_count = 1};
	sim_enter(world->reactor);
	tcp_send_c2h_data(&world->subject.conn, &sent[0].tx, &args);
	tcp_send_c2h_data(&world->subject.conn, &sent[1].tx, &args);
	sim_leave(world->reactor);
	sim_enter(world->reactor);
	tcp_conn_fail(&world->subject.conn, (struct pdu_error){.fes = 2, .what = "a test"});
	EXPECT_EQ(0, sent[1].done_count);
	sim_leave(world->reactor);
	EXPECT_EQ(1, sent[1].done_count);
	EXPECT_EQ(-ECONNRESET, sent[1].res);
	EXPECT_EQ(0, sent[0].done_count);
	run_ms(50);
	EXPECT_EQ(1, sent[0].done_count);
	EXPECT_EQ(0, sent[0].res);
	memcpy(&term, world->raw.bytes + NVME_TCP_IC_BYTES + 24 + sizeof(payload), sizeof(term));
	EXPECT_EQ(NVME_TCP_PDU_C2H_TERM_REQ, term.ch.type);
	EXPECT_EQ(2, le16_get(term.fes));
	EXPECT_EQ(NVME_TCP_IC_BYTES + 24 + sizeof(payload) + le32_get(term.ch.plen),
		  world->raw.received);
	world_destroy();
}

/* A close sends what is queued first; a peer that does not read is cut off at the deadline. */
static void a_close_waits_for_what_is_queued(void)
{
	static uint8_t payload[50000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct pdu_data_args args = {.data_bytes = sizeof(payload), .is_last = true};

	for (int is_deaf = 0; is_deaf < 2; is_deaf++) {
		struct sent sent = {.tx = {.done = sent_done, .iov = &iov, .iov_count = 1}};

		world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 8192});
		world->raw.is_deaf = is_deaf;
		raw_connect();
		raw_send_ic_req(false, false);
		sim_enter(world->reactor);
		tcp_send_c2h_data(&world->subject.conn, &sent.tx, &args);
		tcp_conn_close(&world->subject.conn, "a test");
		EXPECT(!tcp_conn_is_open(&world->subject.conn));
		sim_leave(world->reactor);
		run_ms(100);
		EXPECT_EQ(!is_deaf, sent.done_count);
		EXPECT_EQ(!is_deaf, world->raw.has_eof);
		run_ms(150);
		EXPECT_EQ(1, sent.done_count);
		EXPECT_EQ(is_deaf ? -ECONNRESET : 0, sent.res);
		EXPECT_EQ(1, world->subject.closed_count);
		EXPECT_EQ(-ESHUTDOWN, world->subject.cause);
		EXPECT_STR("a test", world->subject.why);
		world_destroy();
	}
}

static void sending_on_an_ended_connection_gives_the_tx_back(void)
{
	struct sent sent = {.tx.done = sent_done};
	struct nvme_cqe cqe = {0};

	world_create(NULL);
	raw_connect();
	raw_send_ic_req(false, false);
	sim_enter(world->reactor);
	tcp_conn_abort(&world->subject.conn, -EIO, "a test");
	tcp_send_resp(&world->subject.conn, &sent.tx, &cqe);
	EXPECT_EQ(0, sent.done_count);
	EXPECT_EQ(0, world->subject.closed_count);
	sim_leave(world->reactor);
	EXPECT_EQ(1, sent.done_count);
	EXPECT_EQ(-ECONNRESET, sent.res);
	run_ms(1);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-EIO, world->subject.cause);
	world_destroy();
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(target_agrees_to_what_is_asked_and_allowed);
	TAP_RUN(target_gives_up_on_a_silent_host);
	TAP_RUN(host_gives_up_on_a_silent_controller);
	TAP_RUN(host_gives_up_on_a_partitioned_controller);
	TAP_RUN(host_hears_of_a_controller_that_closes);
	TAP_RUN(host_hears_of_a_refused_connection);
	TAP_RUN(host_takes_what_the_controller_says);
	TAP_RUN(host_keeps_an_odd_alignment);
	TAP_RUN(host_refuses_to_go_without_a_digest);
	TAP_RUN(host_terminates_on_a_digest_nobody_asked_for);
	TAP_RUN(an_unknown_type_is_answered_with_a_term_req);
	TAP_RUN(a_term_req_is_not_answered);
	TAP_RUN(a_violation_found_by_the_user_is_sent_with_its_header);
	TAP_RUN(the_limit_of_capsules_can_be_raised);
	TAP_RUN(the_end_inside_a_pdu_is_not_orderly);
	TAP_RUN(a_wrong_header_digest_ends_the_connection);
	TAP_RUN(a_wrong_data_digest_is_told_to_the_user);
	TAP_RUN(responses_of_one_turn_leave_in_one_send);
	TAP_RUN(a_long_queue_leaves_in_several_sends);
	TAP_RUN(shared_payload_is_not_torn);
	TAP_RUN(shared_payload_keeps_its_digest);
	TAP_RUN(the_term_req_follows_the_pdu_that_is_begun);
	TAP_RUN(a_close_waits_for_what_is_queued);
	TAP_RUN(sending_on_an_ended_connection_gives_the_tx_back);
	return tap_end();
}
