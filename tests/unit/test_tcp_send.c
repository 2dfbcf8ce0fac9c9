/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the connection engine sends and when, seen by a bare socket on the simulated reactor: one
 * send per turn, long queues, shared payload that changes while it waits, the order of the last
 * PDUs.
 */
#include "tcp_raw_world.h"

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

/* More than one send takes, in pieces and bytes, and more than one turn may send. */
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

/* The payload changes after each partial send. The peer still gets every block whole: the cut block
 * in its former version, later blocks as they are when sent. */
static void shared_blocks_are_not_torn(void)
{
	const size_t len = 100000, block = 4096;
	uint8_t *payload = malloc(len), value = 1;
	struct iovec iov = {.iov_base = payload, .iov_len = len};
	struct pdu_data_args args = {.data_bytes = (uint32_t)len, .is_last = true};
	struct sent sent = {.tx = {.done = sent_done,
				   .iov = &iov,
				   .iov_count = 1,
				   .shared_block_bytes = block}};
	const uint8_t *got;
	size_t torn = 0;

	world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 5000});
	raw_connect();
	raw_send_ic_req(false, false);
	memset(payload, value, len);
	sim_enter(world->reactor);
	tcp_send_c2h_data(&world->subject.conn, &sent.tx, &args);
	sim_leave(world->reactor);
	EXPECT_EQ(5000, world->subject.conn.tx_head_done_bytes);
	for (size_t before = 0; sent.done_count == 0 && value < 100;) {
		size_t done = world->subject.conn.tx_head_done_bytes;

		if (done != before)
			memset(payload, ++value, len);
		before = done;
		sim_step(world->sim);
	}
	run_ms(100);
	EXPECT_EQ(1, sent.done_count);
	EXPECT_EQ(NVME_TCP_IC_BYTES + 24 + len, world->raw.received);
	got = world->raw.bytes + NVME_TCP_IC_BYTES + 24;
	for (size_t i = 0; i < len; i++)
		torn += got[i] != got[i / block * block];
	EXPECT_EQ(0, torn);
	EXPECT_EQ(1, got[block]);
	EXPECT(got[len - 1] > 10);
	world_destroy();
	free(payload);
}

/* With data digests the payload is copied before the digest is computed, so both match. */
static void shared_payload_keeps_its_digest(void)
{
	uint8_t payload[4096];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL};
	struct sent sent = {
		.tx = {.done = sent_done, .iov = &iov, .iov_count = 1, .shared_block_bytes = 4096}};

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

/* A partly sent PDU is finished, the next one is dropped, then the TermReq follows. */
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

/* A close sends queued bytes first. A peer that does not read is cut off at the deadline. */
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

/* A connection with much data gets its share of each turn and no more. */
static void a_turn_receives_no_more_than_its_budget(void)
{
	enum {
		COUNT = 2000,
		BUDGET = 8192
	};
	static uint8_t stream[COUNT * NVME_TCP_CMD_HDR_BYTES];
	struct pdu_encoding plain = {.data_align_bytes = 4};
	struct nvme_sqe sqe = {.opcode = 2, .flags = NVME_SQE_PSDT_SGL};
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	uint64_t most = 0, before;

	world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 1 << 20});
	world->target_config.recv_budget_bytes = BUDGET;
	raw_connect();
	raw_send_ic_req(false, false);
	CHECK(pdu_encode_cmd(hdr, &plain, &sqe, 0) == NVME_TCP_CMD_HDR_BYTES);
	for (unsigned i = 0; i < COUNT; i++)
		memcpy(stream + i * NVME_TCP_CMD_HDR_BYTES, hdr, NVME_TCP_CMD_HDR_BYTES);
	sim_enter(world->reactor);
	raw_send(stream, sizeof(stream));
	sim_leave(world->reactor);
	do {
		before = world->subject.conn.stats.bytes_received;
		if (!sim_step(world->sim))
			break;
		if (world->subject.conn.stats.bytes_received - before > most)
			most = world->subject.conn.stats.bytes_received - before;
	} while (world->subject.pdu_count < COUNT);
	EXPECT_EQ(COUNT, world->subject.pdu_count);
	EXPECT(most <= BUDGET);
	world_destroy();
}

static void a_peer_that_does_not_read_is_cut_off(void)
{
	static uint8_t payload[100000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct pdu_data_args args = {.data_bytes = sizeof(payload), .is_last = true};
	struct sent sent = {.tx = {.done = sent_done, .iov = &iov, .iov_count = 1}};

	world_create(&(struct sim_options){.is_orderly = true, .window_max_bytes = 5000});
	world->target_config.send_timeout_ms = 50;
	raw_connect();
	raw_send_ic_req(false, false);
	sim_enter(world->reactor);
	reactor_sock_want(&world->raw.sock, 0);
	tcp_send_c2h_data(&world->subject.conn, &sent.tx, &args);
	sim_leave(world->reactor);
	run_ms(40);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(40);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ETIMEDOUT, world->subject.cause);
	EXPECT_EQ(-ECONNRESET, sent.res);
	world_destroy();
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(responses_of_one_turn_leave_in_one_send);
	TAP_RUN(a_long_queue_leaves_in_several_sends);
	TAP_RUN(shared_blocks_are_not_torn);
	TAP_RUN(shared_payload_keeps_its_digest);
	TAP_RUN(the_term_req_follows_the_pdu_that_is_begun);
	TAP_RUN(a_close_waits_for_what_is_queued);
	TAP_RUN(sending_on_an_ended_connection_gives_the_tx_back);
	TAP_RUN(a_turn_receives_no_more_than_its_budget);
	TAP_RUN(a_peer_that_does_not_read_is_cut_off);
	return tap_end();
}
