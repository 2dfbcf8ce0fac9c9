/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection engine against a bare socket on the simulated reactor: given bytes in, expected
 * bytes out. The IC exchange, deadlines, violations and their TermReq, digest mismatches. NVMe/TCP
 * Transport 1.1, sections 3.1, 3.5 and 3.6.
 */
#include "tcp_raw_world.h"

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

/* Our host against a controller that sends this ICResp. */
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

	world_create(&(struct sim_options){.is_orderly = true});
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
	/* The host does not close. It is cut off at the deadline, not before. */
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

static void expect_violation_with_header(uint32_t data_bytes)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	struct nvme_tcp_term term;
	const uint8_t *answer;

	world_create(&(struct sim_options){.is_orderly = true});
	world->subject.header_error =
		(struct pdu_error){.fes = NVME_TCP_FES_PDU_SEQUENCE, .fei = 7, .what = "a test"};
	raw_connect();
	raw_send_ic_req(false, false);
	raw_send_now(hdr, encode_read(hdr, data_bytes));
	answer = world->raw.bytes + NVME_TCP_IC_BYTES;
	memcpy(&term, answer, sizeof(term));
	EXPECT_EQ(NVME_TCP_IC_BYTES + NVME_TCP_TERM_HDR_BYTES + 72, world->raw.received);
	EXPECT_EQ(NVME_TCP_FES_PDU_SEQUENCE, le16_get(term.fes));
	EXPECT(memcmp(answer + NVME_TCP_TERM_HDR_BYTES, hdr, 72) == 0);
	EXPECT_EQ(0, world->subject.pdu_count);
	/* Later bytes are drained and ignored; the host's close ends the connection. */
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

static void a_violation_found_by_the_user_is_sent_with_its_header(void)
{
	expect_violation_with_header(0);   /* found by on_whole */
	expect_violation_with_header(512); /* found by on_header */
}

static void the_limit_of_capsules_can_be_raised(void)
{
	static uint8_t bytes[72 + 16384];

	for (int is_raised = 0; is_raised < 2; is_raised++) {
		world_create(&(struct sim_options){.is_orderly = true});
		if (is_raised)
			world->target_config.in_capsule_max_bytes = 16384;
		raw_connect();
		raw_send_ic_req(false, false);
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

/* A controller must not run a command in transit after its host has given it up: only an orderly
 * end sends FIN, after the queued bytes. */
static void host_resets_what_it_has_given_up(void)
{
	for (int is_orderly = 0; is_orderly < 2; is_orderly++) {
		host_against_ic_resp(false, false, false);
		EXPECT_EQ(1, world->subject.ready_count);
		sim_enter(world->reactor);
		if (is_orderly)
			tcp_conn_close(&world->subject.conn, "the test is over");
		else
			reactor_sock_shutdown_send(&world->raw.sock);
		sim_leave(world->reactor);
		run_ms(1);
		EXPECT_EQ(is_orderly, world->raw.has_eof);
		EXPECT_EQ(is_orderly ? 0 : -ECONNRESET, world->raw.error);
		world_destroy();
	}
}

/* ---- digests ------------------------------------------------------------------------------- */

/* Our host sends one command with 1000 bytes; the byte at flip_at is changed in transit. */
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
	TAP_RUN(host_resets_what_it_has_given_up);
	TAP_RUN(a_wrong_header_digest_ends_the_connection);
	TAP_RUN(a_wrong_data_digest_is_told_to_the_user);
	return tap_end();
}
