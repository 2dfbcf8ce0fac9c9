/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams between a connection and its socket, with the test's own records (xor_records.h) on the
 * simulated reactor: the handshake before ICReq, records that hold several PDUs and PDUs over
 * several records, what the stream's properties switch off, and every way to end. test_tcp.c runs
 * the whole engine over such records, test_tcp_loopback.c on real sockets.
 */
#include "tcp_raw_world.h"
#include "xor_records.h"

#define KEPT_BYTES (256 * 1024)

static struct xor_config host_records, target_records;
static struct tcp_records watched; /* xor_records that record the engine's calls */
static unsigned direct_recvs;      /* received directly, not into the scratch */

/* Bytes that the host's side sends. */
static struct {
	size_t count;
	uint8_t bytes[KEPT_BYTES];
} wire;

static void tap_keep(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	tap_flip(arg, fd, offset, bytes, len_bytes);
	if (fd != SIM_FIRST_FD + 1 || wire.count + len_bytes > KEPT_BYTES)
		return;
	memcpy(wire.bytes + wire.count, bytes, len_bytes);
	wire.count += len_bytes;
}

static ssize_t recv_watched(struct tcp_stream *stream, const struct iovec *iov, unsigned iov_count)
{
	const uint8_t *scratch = reactor_scratch(stream->sock.reactor);

	for (unsigned i = 0; i < iov_count; i++) {
		const uint8_t *base = iov[i].iov_base;

		direct_recvs += base < scratch || base >= scratch + REACTOR_SCRATCH_BYTES;
	}
	return xor_recv(stream, iov, iov_count);
}

static void records_world(const struct sim_options *options)
{
	world_create(options);
	wire.count = 0;
	direct_recvs = 0;
	watched = xor_records;
	watched.recv = recv_watched;
	host_records = (struct xor_config){.seed = 1};
	target_records = (struct xor_config){.seed = 2};
	sim_net_set_tap(world->sim, tap_keep, NULL);
	world->host_config.records = &watched;
	world->host_config.records_arg = &host_records;
	world->target_config.records = &watched;
	world->target_config.records_arg = &target_records;
}

/* world_destroy, and the checks of the records. */
static void records_world_end(void)
{
	world_destroy();
	EXPECT_EQ(host_records.opened, host_records.freed);
	EXPECT_EQ(target_records.opened, target_records.freed);
}

static void connect_both(void)
{
	host_connect(&world->other);
	run_ms(20);
	EXPECT_EQ(1, world->other.ready_count);
	EXPECT_EQ(1, world->subject.ready_count);
}

static void host_send_cmd(struct sent *sent, const struct iovec *iov)
{
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL};

	*sent = (struct sent){.tx = {.done = sent_done, .iov = iov, .iov_count = iov ? 1 : 0}};
	tcp_send_cmd(&world->other.conn, &sent->tx, &sqe, iov ? (uint32_t)iov->iov_len : 0);
}

/* The target sends len_bytes; the host must receive them unchanged. */
static void target_sends(uint32_t len_bytes)
{
	uint8_t *payload = malloc(len_bytes);
	struct iovec iov = {.iov_base = payload, .iov_len = len_bytes};
	struct pdu_data_args args = {.data_bytes = len_bytes, .is_last = true};
	struct sent sent = {.tx = {.done = sent_done, .iov = &iov, .iov_count = 1}};
	unsigned before = world->other.pdu_count;

	for (uint32_t i = 0; i < len_bytes; i++)
		payload[i] = (uint8_t)(i * 7 + i / 251);
	sim_enter(world->reactor);
	tcp_send_c2h_data(&world->subject.conn, &sent.tx, &args);
	sim_leave(world->reactor);
	run_ms(1000);
	EXPECT_EQ(1, sent.done_count);
	EXPECT_EQ(0, sent.res);
	EXPECT_EQ(before + 1, world->other.pdu_count);
	if (world->other.pdu_count > before)
		EXPECT(memcmp(world->other.dest, payload, len_bytes) == 0);
	free(payload);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static void the_handshake_comes_before_the_ic_req(void)
{
	static const uint8_t ic_req[] = {0x00, 0x00, 0x80, 0x00, 0x80, 0x00, 0x00, 0x00};

	records_world(NULL);
	host_connect(&world->other);
	EXPECT_EQ(TCP_CONN_CONNECTING, world->other.conn.phase);
	run_ms(20);
	EXPECT_EQ(1, world->other.ready_count);
	EXPECT_EQ(1, world->subject.ready_count);
	EXPECT(wire.count > XOR_HELLO_BYTES + NVME_TCP_IC_BYTES);
	EXPECT(memcmp(wire.bytes, "HELLO", 5) == 0);
	/* No plain ICReq anywhere. */
	EXPECT(memmem(wire.bytes, wire.count, ic_req, sizeof(ic_req)) == NULL);
	records_world_end();

	/* Without records the ICReq comes first. */
	world_create(NULL);
	wire.count = 0;
	sim_net_set_tap(world->sim, tap_keep, NULL);
	connect_both();
	EXPECT(memcmp(wire.bytes, ic_req, sizeof(ic_req)) == 0);
	world_destroy();
}

static void a_pdu_needs_many_records(void)
{
	records_world(NULL);
	target_records.record_max_bytes = 7;
	connect_both();
	target_sends(20000);
	EXPECT(target_records.data_records > 20000 / 7);
	records_world_end();
}

static void a_record_holds_many_pdus(void)
{
	static struct sent sent[100];
	unsigned before;

	records_world(NULL);
	connect_both();
	before = host_records.data_records;
	sim_enter(world->reactor);
	for (unsigned i = 0; i < ARRAY_LEN(sent); i++)
		host_send_cmd(&sent[i], NULL);
	sim_leave(world->reactor);
	run_ms(20);
	EXPECT_EQ(ARRAY_LEN(sent), world->subject.pdu_count);
	EXPECT(host_records.data_records - before < 20);
	records_world_end();
}

/* A socket that takes a few bytes at a time, and records larger than its room. */
static void short_writes_and_reads_lose_nothing(void)
{
	for (uint32_t window = 1; window < 2000; window = window * 3 + 1) {
		struct sim_options options = {.window_max_bytes = window, .recv_max_bytes = 100};

		records_world(&options);
		target_records.noise_one_in = 2;
		world->target_config.ic_timeout_ms = 3000;
		world->host_config.ic_timeout_ms = 3000;
		host_connect(&world->other);
		run_ms(2500);
		EXPECT_EQ(1, world->other.ready_count);
		target_sends(6000);
		EXPECT(target_records.short_flushes > 0);
		records_world_end();
	}
}

/* Records without payload are handled by the records of both sides, not by the engine. */
static void records_answer_each_other(void)
{
	records_world(NULL);
	target_records.noise_one_in = 1;
	connect_both();
	target_sends(300000);
	EXPECT(target_records.noise_records > 1);
	EXPECT_EQ(target_records.noise_records, target_records.answers);
	records_world_end();
}

/* ---- properties ---------------------------------------------------------------------------- */

static void long_payload_goes_to_its_place_where_the_stream_can(void)
{
	records_world(NULL);
	connect_both();
	target_sends(500000);
	EXPECT_EQ(0, direct_recvs);
	records_world_end();

	records_world(NULL);
	host_records.is_direct = true;
	connect_both();
	target_sends(500000);
	EXPECT(direct_recvs > 0);
	records_world_end();
}

static void zero_copy_is_not_for_records(void)
{
	records_world(NULL);
	world->target_config.zero_copy_min_bytes = 4096;
	world->target_config.is_zero_copy_forced = true;
	connect_both();
	target_sends(100000);
	EXPECT_EQ(0, world->subject.conn.stats.zc_sends);
	records_world_end();

	records_world(NULL);
	world->target_config.zero_copy_min_bytes = 4096;
	world->target_config.is_zero_copy_forced = true;
	world->target_config.records = NULL;
	world->host_config.records = NULL;
	connect_both();
	target_sends(100000);
	EXPECT(world->subject.conn.stats.zc_sends > 0);
	records_world_end();
}

/* ---- handshakes ---------------------------------------------------------------------------- */

static void a_handshake_may_take_its_time(void)
{
	records_world(NULL);
	target_records.think_ns = 100 * NS_PER_MS;
	host_connect(&world->other);
	run_ms(90);
	EXPECT_EQ(TCP_CONN_HANDSHAKE, world->subject.conn.phase);
	EXPECT_EQ(TCP_CONN_HANDSHAKE, world->other.conn.phase);
	run_ms(20);
	EXPECT_EQ(1, world->subject.ready_count);
	EXPECT_EQ(1, world->other.ready_count);
	target_sends(5000);
	records_world_end();
}

/* A peer that sends early uses no turns, and its bytes are not lost. */
static void nothing_is_received_while_a_handshake_takes_its_time(void)
{
	static const uint8_t hello[XOR_HELLO_BYTES] = "HELLO";
	static uint8_t junk[20000];
	unsigned before;

	records_world(NULL);
	target_records.think_ns = 100 * NS_PER_MS;
	raw_connect();
	raw_send_now(hello, sizeof(hello));
	run_ms(10);
	before = target_records.handshakes;
	for (unsigned i = 0; i < 10; i++) {
		raw_send_now(junk, 1000);
		run_ms(2);
	}
	EXPECT_EQ(TCP_CONN_HANDSHAKE, world->subject.conn.phase);
	EXPECT_EQ(before, target_records.handshakes);
	run_ms(100);
	/* Then the bytes are judged. */
	EXPECT_EQ(before + 1, target_records.handshakes);
	EXPECT_EQ(-EBADMSG, world->subject.cause);
	records_world_end();
}

/* The connection may end during the handshake, too. */
static void a_handshake_under_way_can_be_closed(void)
{
	records_world(NULL);
	target_records.think_ns = 100 * NS_PER_MS;
	host_connect(&world->other);
	run_ms(50);
	sim_enter(world->reactor);
	tcp_conn_close(&world->subject.conn, "enough");
	sim_leave(world->reactor);
	run_ms(20);
	EXPECT_EQ(-ESHUTDOWN, world->subject.cause);
	EXPECT_STR("enough", world->subject.why);
	EXPECT_EQ(-ECONNRESET, world->other.cause);
	EXPECT_EQ(0, world->other.ready_count);
	records_world_end();
}

static void a_handshake_that_fails_says_why(void)
{
	records_world(NULL);
	host_records.key = 17;
	host_connect(&world->other);
	run_ms(20);
	EXPECT_EQ(-EACCES, world->subject.cause);
	EXPECT_STR("XOR handshake failed: another key", world->subject.why);
	EXPECT_EQ(1, world->other.closed_count);
	EXPECT_EQ(0, world->other.ready_count + world->subject.ready_count);
	records_world_end();
}

static void a_handshake_has_a_deadline(void)
{
	records_world(NULL);
	host_records.is_silent = true;
	host_connect(&world->other);
	run_ms(295);
	EXPECT_EQ(0, world->subject.closed_count + world->other.closed_count);
	run_ms(10);
	EXPECT_EQ(-ETIMEDOUT, world->other.cause);
	EXPECT_STR("the XOR handshake did not end in time", world->other.why);
	EXPECT_EQ(1, world->subject.closed_count);
	records_world_end();
}

static void who_has_no_records_is_refused(void)
{
	records_world(NULL);
	raw_connect();
	raw_send_ic_req(false, false);
	run_ms(20);
	EXPECT_EQ(-EPROTO, world->subject.cause);
	EXPECT_STR("XOR handshake failed: not a hello", world->subject.why);
	EXPECT_EQ(0, world->raw.received);
	records_world_end();
}

static void a_connection_that_is_refused_frees_its_records(void)
{
	records_world(&(struct sim_options){.faults.refuse_ppm = 1000000});
	host_connect(&world->other);
	run_ms(20);
	EXPECT_EQ(-ECONNREFUSED, world->other.cause);
	EXPECT_EQ(1, host_records.freed);
	records_world_end();
}

static int accept_error;

static void accepted_in_vain(struct reactor_listener *listener, int taken_fd,
			     const struct net_addr *peer)
{
	accept_error = tcp_conn_accept(&world->subject.conn, world->reactor, taken_fd,
				       &world->target_config, &handler);
	reactor_refuse_fd(taken_fd);
}

static void records_that_cannot_be_made_leave_nothing(void)
{
	records_world(NULL);
	host_records.open_error = -ENOMEM;
	target_records.open_error = -ENOMEM;
	world->listener.accepted = accepted_in_vain;
	sim_enter(world->reactor);
	EXPECT_EQ(-ENOMEM, tcp_conn_connect(&world->other.conn, world->reactor,
					    &world->listener.addr, &world->host_config, &handler));
	sim_leave(world->reactor);
	raw_connect();
	run_ms(20);
	EXPECT_EQ(-ENOMEM, accept_error);
	EXPECT_EQ(0, world->subject.closed_count + world->other.closed_count);
	records_world_end();
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void an_orderly_end_is_a_record(void)
{
	records_world(NULL);
	connect_both();
	sim_enter(world->reactor);
	tcp_conn_close(&world->other.conn, "done");
	sim_leave(world->reactor);
	run_ms(20);
	EXPECT_EQ(-ESHUTDOWN, world->other.cause);
	EXPECT_EQ(0, world->subject.cause);
	records_world_end();
}

static void an_end_without_its_record_is_an_error(void)
{
	records_world(NULL);
	host_records.is_endless = true;
	connect_both();
	sim_enter(world->reactor);
	tcp_conn_close(&world->other.conn, "done");
	sim_leave(world->reactor);
	run_ms(20);
	EXPECT_EQ(-ECONNABORTED, world->subject.cause);
	EXPECT_STR("the stream was cut off between its records", world->subject.why);
	records_world_end();
}

/* Bytes queued before a close are sent first, also when the socket has no room at once. */
static void a_close_waits_for_records(void)
{
	static uint8_t payload[8000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct sent sent;

	records_world(&(struct sim_options){.window_max_bytes = 500});
	connect_both();
	sim_enter(world->reactor);
	host_send_cmd(&sent, &iov);
	tcp_conn_close(&world->other.conn, "done");
	sim_leave(world->reactor);
	run_ms(150);
	EXPECT_EQ(0, sent.res);
	EXPECT_EQ(1, world->subject.pdu_count);
	EXPECT_EQ(0, world->subject.cause);
	EXPECT_EQ(-ESHUTDOWN, world->other.cause);
	records_world_end();
}

static void a_changed_record_ends_the_connection(void)
{
	struct sent sent;

	records_world(NULL);
	connect_both();
	world->flip_at = wire.count + XOR_HDR_BYTES + 3;
	sim_enter(world->reactor);
	host_send_cmd(&sent, NULL);
	sim_leave(world->reactor);
	run_ms(50);
	EXPECT_EQ(-EBADMSG, world->subject.cause);
	EXPECT_STR("a record is not what was sent", world->subject.why);
	EXPECT_EQ(0, world->subject.pdu_count);
	records_world_end();
}

/* The records have all bytes and wait for room that never comes. */
static void a_peer_that_does_not_read_records_is_cut_off(void)
{
	static uint8_t payload[20000];
	struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
	struct pdu_data_args args = {.data_bytes = sizeof(payload), .is_last = true};
	struct sent sent = {.tx = {.done = sent_done, .iov = &iov, .iov_count = 1}};

	records_world(&(struct sim_options){.is_orderly = true, .window_max_bytes = 5000});
	world->target_config.send_timeout_ms = 50;
	target_records.record_max_bytes = 1000;
	connect_both();
	sim_net_partition(world->sim, NULL, true);
	sim_enter(world->reactor);
	tcp_send_c2h_data(&world->subject.conn, &sent.tx, &args);
	sim_leave(world->reactor);
	run_ms(40);
	EXPECT_EQ(1, sent.done_count);
	EXPECT_EQ(0, sent.res);
	EXPECT_EQ(0, world->subject.closed_count);
	run_ms(40);
	EXPECT_EQ(1, world->subject.closed_count);
	EXPECT_EQ(-ETIMEDOUT, world->subject.cause);
	sim_net_partition(world->sim, NULL, false);
	records_world_end();
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(the_handshake_comes_before_the_ic_req);
	TAP_RUN(a_pdu_needs_many_records);
	TAP_RUN(a_record_holds_many_pdus);
	TAP_RUN(short_writes_and_reads_lose_nothing);
	TAP_RUN(records_answer_each_other);
	TAP_RUN(long_payload_goes_to_its_place_where_the_stream_can);
	TAP_RUN(zero_copy_is_not_for_records);
	TAP_RUN(a_handshake_may_take_its_time);
	TAP_RUN(nothing_is_received_while_a_handshake_takes_its_time);
	TAP_RUN(a_handshake_under_way_can_be_closed);
	TAP_RUN(a_handshake_that_fails_says_why);
	TAP_RUN(a_handshake_has_a_deadline);
	TAP_RUN(who_has_no_records_is_refused);
	TAP_RUN(a_connection_that_is_refused_frees_its_records);
	TAP_RUN(records_that_cannot_be_made_leave_nothing);
	TAP_RUN(an_orderly_end_is_a_record);
	TAP_RUN(an_end_without_its_record_is_an_error);
	TAP_RUN(a_close_waits_for_records);
	TAP_RUN(a_changed_record_ends_the_connection);
	TAP_RUN(a_peer_that_does_not_read_records_is_cut_off);
	return tap_end();
}
