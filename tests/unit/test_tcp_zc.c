/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends without a copy, seen by a bare socket on the simulated reactor: which PDUs are eligible, in
 * which order, how long they are held, and what happens when the kernel refuses, copies anyway, or
 * the connection ends first. The simulated reactor itself checks that no byte changes before its
 * release.
 */
#include "tcp_raw_world.h"

#define MIN_BYTES 4096
#define LONG_US   20000 /* longer than a case observes: 10 to 20 ms */

struct piece {
	struct tcp_tx tx;
	struct iovec iov;
	uint8_t *payload;
	unsigned done_count;
	unsigned closed_before; /* on_closed calls before done */
	int res;
};

static struct piece pieces[64];
static unsigned piece_count;

static void piece_done(struct tcp_tx *tx, int res)
{
	struct piece *piece = container_of(tx, struct piece, tx);

	piece->done_count++;
	piece->res = res;
	piece->closed_before = world->subject.closed_count;
	/* As a pool does: the next owner writes at once. */
	if (piece->payload)
		memset(piece->payload, 0xee, piece->iov.iov_len);
}

static struct tcp_conn *conn(void)
{
	return &world->subject.conn;
}

static void zc_world(struct sim_options options, bool is_forced)
{
	memset(pieces, 0, sizeof(pieces));
	piece_count = 0;
	world_create(&options);
	world->target_config.zero_copy_min_bytes = MIN_BYTES;
	world->target_config.is_zero_copy_forced = is_forced;
	raw_connect();
	raw_send_ic_req(false, false);
	run_ms(5);
	EXPECT_EQ(NVME_TCP_IC_BYTES, world->raw.received);
}

static void zc_world_end(void)
{
	world_destroy();
	for (unsigned i = 0; i < piece_count; i++) {
		EXPECT_EQ(1, pieces[i].done_count);
		EXPECT_EQ(0, pieces[i].closed_before);
		free(pieces[i].payload);
	}
}

static struct piece *piece_new(void)
{
	struct piece *piece = &pieces[piece_count++];

	CHECK(piece_count <= ARRAY_LEN(pieces));
	piece->tx.done = piece_done;
	return piece;
}

/* Call inside a turn. Sends a C2HData whose CID is its index in `pieces`. */
static struct piece *send_data(size_t len_bytes, uint32_t shared_block_bytes)
{
	struct pdu_data_args args = {
		.cccid = (uint16_t)piece_count, .data_bytes = (uint32_t)len_bytes, .is_last = true};
	struct piece *piece = piece_new();

	piece->payload = malloc(len_bytes);
	memset(piece->payload, (int)args.cccid + 1, len_bytes);
	piece->iov = (struct iovec){.iov_base = piece->payload, .iov_len = len_bytes};
	piece->tx.iov = &piece->iov;
	piece->tx.iov_count = 1;
	piece->tx.shared_block_bytes = shared_block_bytes;
	tcp_send_c2h_data(conn(), &piece->tx, &args);
	return piece;
}

static struct piece *send_resp(void)
{
	struct nvme_cqe cqe = {.cid = le16_of((uint16_t)piece_count)};
	struct piece *piece = piece_new();

	tcp_send_resp(conn(), &piece->tx, &cqe);
	return piece;
}

static struct piece *send_r2t(void)
{
	struct pdu_data_args args = {.cccid = (uint16_t)piece_count, .data_bytes = 512};
	struct piece *piece = piece_new();

	tcp_send_r2t(conn(), &piece->tx, &args);
	return piece;
}

static struct piece *send_data_now(size_t len_bytes)
{
	struct piece *piece;

	sim_enter(world->reactor);
	piece = send_data(len_bytes, 0);
	sim_leave(world->reactor);
	return piece;
}

/* The received bytes must be the PDUs 0 to `count` in order, each with its own payload. */
static void expect_stream(unsigned count)
{
	const uint8_t *at = world->raw.bytes + NVME_TCP_IC_BYTES;
	const uint8_t *end = world->raw.bytes + world->raw.received;
	unsigned wrong = 0;

	for (unsigned i = 0; i < count; i++) {
		struct nvme_tcp_common_hdr ch;
		size_t cid_at;
		le16 cid;

		if (end - at < 24)
			break;
		memcpy(&ch, at, sizeof(ch));
		cid_at = ch.type == NVME_TCP_PDU_CAPSULE_RESP ? 20 : 8;
		memcpy(&cid, at + cid_at, sizeof(cid));
		EXPECT_EQ(i, le16_get(cid));
		if (le32_get(ch.plen) > (size_t)(end - at))
			break;
		for (size_t j = 24; j < le32_get(ch.plen); j++)
			wrong += at[j] != (uint8_t)(i + 1);
		at += le32_get(ch.plen);
	}
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, end - at);
}

static void payload_is_held_until_it_is_released(void)
{
	struct piece *piece;

	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = LONG_US}, true);
	piece = send_data_now(100000);
	run_ms(5);
	EXPECT_EQ(NVME_TCP_IC_BYTES + 24 + 100000, world->raw.received);
	EXPECT_EQ(0, piece->done_count);
	EXPECT_EQ(1, conn()->stats.zc_sends);
	run_ms(30);
	EXPECT_EQ(1, piece->done_count);
	EXPECT_EQ(0, piece->res);
	EXPECT_EQ(0, conn()->stats.zc_copied);
	expect_stream(1);
	zc_world_end();
}

static void small_and_shared_payload_is_copied(void)
{
	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = LONG_US}, true);
	sim_enter(world->reactor);
	send_data(MIN_BYTES - 1, 0);
	send_data(100000, 512);
	sim_leave(world->reactor);
	run_ms(5);
	EXPECT_EQ(1, pieces[0].done_count);
	EXPECT_EQ(1, pieces[1].done_count);
	EXPECT_EQ(0, conn()->stats.zc_sends);
	/* Exactly the threshold is enough. */
	send_data_now(MIN_BYTES);
	run_ms(5);
	EXPECT_EQ(1, conn()->stats.zc_sends);
	EXPECT_EQ(0, pieces[2].done_count);
	expect_stream(3);
	zc_world_end();
}

/* A response may wait with the payload before it. An R2T may not: its data would be late. */
static void responses_ride_along_and_an_r2t_does_not(void)
{
	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = LONG_US}, true);
	sim_enter(world->reactor);
	send_data(20000, 0);
	send_resp();
	send_data(20000, 0);
	send_r2t();
	send_resp();
	sim_leave(world->reactor);
	run_ms(5);
	EXPECT_EQ(1, conn()->stats.zc_sends);
	for (unsigned i = 0; i < piece_count; i++)
		EXPECT_EQ(i >= 3, pieces[i].done_count);
	expect_stream(5);
	zc_world_end();
}

/* All kinds in sequence, over a network that cuts, stalls and fills up. */
static void the_order_of_the_queue_is_kept(void)
{
	for (unsigned round = 0; round < 40; round++) {
		zc_world((struct sim_options){.window_max_bytes = 2000 + round * 1000,
					      .zc_hold_max_us = round % 3 * 1000,
					      .zc_refuse_one_in = round % 4,
					      .zc_copied_one_in = round % 2 * 3},
			 round % 2);
		for (unsigned turn = 0; turn < 4; turn++) {
			sim_enter(world->reactor);
			send_resp();
			send_data(MIN_BYTES + 1000 * turn, 0);
			send_resp();
			send_data(round % 2 ? 3 * MIN_BYTES : 100, 0);
			send_r2t();
			send_data(2 * MIN_BYTES, 512);
			send_data(9 * MIN_BYTES, 0);
			sim_leave(world->reactor);
			run_ms(round % 5 == 0 ? 0 : 1);
		}
		run_ms(500);
		for (unsigned i = 0; i < piece_count; i++)
			EXPECT(pieces[i].done_count == 1 && pieces[i].res == 0);
		expect_stream(piece_count);
		zc_world_end();
	}
}

static void what_the_kernel_refuses_is_copied(void)
{
	zc_world((struct sim_options){.is_orderly = true,
				      .zc_hold_max_us = LONG_US,
				      .zc_refuse_one_in = 1},
		 true);
	for (unsigned i = 0; i < 3; i++)
		send_data_now(50000);
	run_ms(5);
	EXPECT_EQ(0, conn()->stats.zc_sends);
	EXPECT(conn()->stats.zc_fallbacks >= 1 && conn()->stats.zc_fallbacks <= 3);
	for (unsigned i = 0; i < 3; i++)
		EXPECT_EQ(1, pieces[i].done_count);
	expect_stream(3);
	zc_world_end();
}

static unsigned sends_of_ten(bool is_forced, uint32_t copied_one_in)
{
	unsigned sends;

	zc_world((struct sim_options){.is_orderly = true, .zc_copied_one_in = copied_one_in},
		 is_forced);
	for (unsigned i = 0; i < 10; i++) {
		send_data_now(20000);
		run_ms(2);
	}
	sends = (unsigned)conn()->stats.zc_sends;
	EXPECT_EQ(copied_one_in ? sends : 0, conn()->stats.zc_copied);
	EXPECT_EQ(10 * (24 + 20000), world->raw.received - NVME_TCP_IC_BYTES);
	expect_stream(10);
	zc_world_end();
	return sends;
}

static void four_copies_in_a_row_end_it_unless_forced(void)
{
	EXPECT_EQ(4, sends_of_ten(false, 1));
	EXPECT_EQ(10, sends_of_ten(true, 1));
	EXPECT_EQ(10, sends_of_ten(false, 0));
}

static void a_kernel_that_cannot_gets_copies(void)
{
	zc_world((struct sim_options){.is_orderly = true, .has_no_zc = true}, true);
	EXPECT(conn()->zc == NULL);
	send_data_now(50000);
	EXPECT_EQ(1, pieces[0].done_count);
	run_ms(5);
	expect_stream(1);
	zc_world_end();
}

/* A peer that never acknowledges can hold a bounded number. Later payload is copied and sent. */
static void held_sends_are_bounded(void)
{
	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = 2000000}, true);
	for (unsigned i = 0; i < 40; i++) {
		send_data_now(5000);
		run_ms(1);
	}
	EXPECT_EQ(32, conn()->stats.zc_sends);
	for (unsigned i = 0; i < 40; i++)
		EXPECT_EQ(i >= 32, pieces[i].done_count);
	expect_stream(40);
	run_ms(3000);
	/* After the release there is room again. */
	send_data_now(5000);
	run_ms(1);
	EXPECT_EQ(33, conn()->stats.zc_sends);
	run_ms(3000);
	zc_world_end();
}

/* ---- ends ---------------------------------------------------------------------------------- */

/* `is_early`: before the send has a result. Always done at the release, then the end. */
static void abort_with(bool is_early)
{
	zc_world((struct sim_options){.is_orderly = true,
				      .window_max_bytes = 30000,
				      .zc_hold_max_us = LONG_US},
		 true);
	sim_enter(world->reactor);
	reactor_sock_want(&world->raw.sock, 0);
	send_data(50000, 0);
	send_data(50000, 0);
	send_data(100, 0);
	sim_leave(world->reactor);
	if (!is_early)
		run_ms(1);
	EXPECT_EQ(is_early, conn()->is_tx_sending);
	sim_enter(world->reactor);
	tcp_conn_abort(conn(), -EIO, "a test");
	sim_leave(world->reactor);
	/* Payload that the kernel never got is returned at once. */
	EXPECT_EQ(1, pieces[2].done_count);
	EXPECT_EQ(!is_early, pieces[1].done_count);
	run_ms(5);
	EXPECT_EQ(0, pieces[0].done_count);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(30);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-EIO, world->subject.cause);
	for (unsigned i = 0; i < 3; i++)
		EXPECT_EQ(-ECONNRESET, pieces[i].res);
	zc_world_end();
}

static void an_abort_waits_for_the_release(void)
{
	abort_with(true);
	abort_with(false);
}

static void a_close_sends_and_waits_for_the_release(void)
{
	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = LONG_US}, true);
	sim_enter(world->reactor);
	send_data(50000, 0);
	tcp_conn_close(conn(), "a test");
	sim_leave(world->reactor);
	run_ms(3);
	EXPECT(world->raw.has_eof);
	expect_stream(1);
	sim_enter(world->reactor);
	reactor_sock_close(&world->raw.sock, raw_closed);
	sim_leave(world->reactor);
	run_ms(3);
	EXPECT_EQ(0, pieces[0].done_count);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(30);
	EXPECT_EQ(1, pieces[0].done_count);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ESHUTDOWN, world->subject.cause);
	zc_world_end();
}

/* Payload in flight is sent completely, other payload is dropped, then the TermReq follows. */
static void the_term_req_follows_what_is_under_way(void)
{
	struct nvme_tcp_term term;

	zc_world((struct sim_options){.is_orderly = true, .window_max_bytes = 8192}, true);
	sim_enter(world->reactor);
	send_data(30000, 0);
	send_resp();
	send_data(100, 0);
	sim_leave(world->reactor);
	EXPECT(conn()->is_tx_sending);
	sim_enter(world->reactor);
	tcp_conn_fail(conn(), (struct pdu_error){.fes = 2, .what = "a test"});
	sim_leave(world->reactor);
	EXPECT_EQ(1, pieces[2].done_count);
	EXPECT_EQ(-ECONNRESET, pieces[2].res);
	run_ms(50);
	memcpy(&term, world->raw.bytes + NVME_TCP_IC_BYTES + 24 + 30000 + 24, sizeof(term));
	EXPECT_EQ(NVME_TCP_PDU_C2H_TERM_REQ, term.ch.type);
	EXPECT_EQ(NVME_TCP_IC_BYTES + 24 + 30000 + 24 + le32_get(term.ch.plen),
		  world->raw.received);
	EXPECT_EQ(0, pieces[0].res);
	EXPECT_EQ(0, pieces[1].res);
	zc_world_end();
}

/* The kernel has all bytes, but a peer that acknowledges none must not hold buffers for ever. */
static void a_peer_that_keeps_buffers_is_cut_off(void)
{
	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = 1000000}, true);
	conn()->config.send_timeout_ms = 50;
	send_data_now(50000);
	run_ms(40);
	EXPECT(tcp_conn_is_open(conn()));
	run_ms(40);
	EXPECT(!tcp_conn_is_open(conn()));
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(1000);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ETIMEDOUT, world->subject.cause);
	zc_world_end();
}

static void a_reset_by_the_peer_waits_for_the_release(void)
{
	zc_world((struct sim_options){.is_orderly = true, .zc_hold_max_us = LONG_US}, true);
	send_data_now(50000);
	run_ms(1);
	sim_net_cut(world->sim, NULL);
	run_ms(3);
	EXPECT_EQ(0, pieces[0].done_count);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(30);
	EXPECT_EQ(1, world->subject.closed_count);
	zc_world_end();
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(payload_is_held_until_it_is_released);
	TAP_RUN(small_and_shared_payload_is_copied);
	TAP_RUN(responses_ride_along_and_an_r2t_does_not);
	TAP_RUN(the_order_of_the_queue_is_kept);
	TAP_RUN(what_the_kernel_refuses_is_copied);
	TAP_RUN(four_copies_in_a_row_end_it_unless_forced);
	TAP_RUN(a_kernel_that_cannot_gets_copies);
	TAP_RUN(held_sends_are_bounded);
	TAP_RUN(an_abort_waits_for_the_release);
	TAP_RUN(a_close_sends_and_waits_for_the_release);
	TAP_RUN(the_term_req_follows_what_is_under_way);
	TAP_RUN(a_peer_that_keeps_buffers_is_cut_off);
	TAP_RUN(a_reset_by_the_peer_waits_for_the_release);
	return tap_end();
}
