/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection engine on the real reactor, over a loopback connection: the simulator cannot show
 * that both reactors implement their common header alike. A host sends commands with data of many
 * sizes; the target returns each one's data and a response.
 */
#include "tap.h"
#include "xor_records.h"

#include "base/clock.h"
#include "base/log.h"
#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH        8
#define COMMANDS_MAX 400
#define MAX_BYTES    (1024 * 1024)

/* A command of either side: its data and the PDUs sent for it. */
struct slot {
	struct tcp_tx data_tx;
	struct tcp_tx resp_tx;
	struct iovec iov;
	uint32_t len_bytes;
	uint32_t number;
	bool is_sending; /* the target's buffer is in use */
	uint8_t *buf;
};

struct side {
	struct tcp_conn conn;
	struct slot slots[DEPTH];
	unsigned closed_count;
	int cause;
};

static struct reactor *reactor;
static struct reactor_listener listener;
static struct reactor_timer watchdog;
static struct side host, target;
static unsigned commands_sent, commands_done, mismatches, bad_digests;
static bool is_timed_out;
static unsigned commands_wanted = COMMANDS_MAX;
static uint32_t granule_bytes;
static uint32_t zero_copy_min_bytes;
static bool is_zero_copy_forced;
static struct tcp_conn_stats target_stats;
static bool has_records;
static struct xor_config host_records, target_records;

static uint32_t command_len(unsigned number)
{
	static const uint32_t lens[] = {4, 512, 4096, 8192, 40000, 131072, 300004, MAX_BYTES};

	return lens[number * 7 % ARRAY_LEN(lens)];
}

static void host_send(struct slot *slot)
{
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL};

	if (commands_sent == commands_wanted)
		return;
	slot->number = commands_sent++;
	slot->len_bytes = command_len(slot->number);
	memset(slot->buf, (int)(slot->number & 0xff), slot->len_bytes);
	slot->iov = (struct iovec){.iov_base = slot->buf, .iov_len = slot->len_bytes};
	slot->data_tx.iov = &slot->iov;
	slot->data_tx.iov_count = 1;
	sqe.cid = le16_of((uint16_t)(slot - host.slots));
	sqe.cdw10 = le32_of(slot->number);
	tcp_send_cmd(&host.conn, &slot->data_tx, &sqe, slot->len_bytes);
}

static void nothing_to_do(struct tcp_tx *tx, int res)
{
}

static void target_data_done(struct tcp_tx *tx, int res)
{
	container_of(tx, struct slot, data_tx)->is_sending = false;
	tcp_conn_resume(&target.conn);
}

static void on_ready(struct tcp_conn *conn)
{
	for (unsigned i = 0; i < DEPTH && conn == &host.conn; i++)
		host_send(&host.slots[i]);
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	sink->granule_bytes = granule_bytes;
	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD) {
		/* The host has its data, but the kernel may still read the buffer. */
		*ret_pause = target.slots[le16_get(pdu->u.sqe.cid)].is_sending;
		sink->dest = target.slots[le16_get(pdu->u.sqe.cid)].buf;
	} else if (pdu->type == NVME_TCP_PDU_C2H_DATA) {
		sink->dest = host.slots[pdu->u.data.cccid].buf;
	}
	return PDU_OK;
}

static void target_answer(const struct pdu *pdu)
{
	struct slot *slot = &target.slots[le16_get(pdu->u.sqe.cid)];
	struct nvme_cqe cqe = {.cid = pdu->u.sqe.cid, .dw0 = pdu->u.sqe.cdw10};
	struct pdu_data_args args = {
		.cccid = le16_get(pdu->u.sqe.cid), .data_bytes = pdu->data_bytes, .is_last = true};

	slot->iov = (struct iovec){.iov_base = slot->buf, .iov_len = pdu->data_bytes};
	slot->data_tx.iov = &slot->iov;
	slot->data_tx.iov_count = 1;
	slot->data_tx.shared_block_bytes = zero_copy_min_bytes > 0 ? 0 : 4096;
	slot->data_tx.done = target_data_done;
	slot->is_sending = true;
	tcp_send_c2h_data(&target.conn, &slot->data_tx, &args);
	tcp_send_resp(&target.conn, &slot->resp_tx, &cqe);
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct slot *slot;

	bad_digests += !is_digest_ok;
	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD) {
		target_answer(pdu);
		return PDU_OK;
	}
	if (pdu->type != NVME_TCP_PDU_CAPSULE_RESP)
		return PDU_OK;
	slot = &host.slots[le16_get(pdu->u.cqe.cid)];
	mismatches += le32_get(pdu->u.cqe.dw0) != slot->number;
	for (uint32_t i = 0; i < slot->len_bytes; i++)
		mismatches += slot->buf[i] != (uint8_t)slot->number;
	if (++commands_done == commands_wanted)
		tcp_conn_close(&host.conn, "done");
	else
		host_send(slot);
	return PDU_OK;
}

static struct pdu_error on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	struct tcp_sink sink = {0};

	on_header(conn, pdu, &sink, ret_pause);
	return *ret_pause ? PDU_OK : on_pdu(conn, pdu, true);
}

static void listener_closed(struct reactor_listener *closed)
{
	reactor_timer_cancel(&watchdog);
	reactor_stop(reactor);
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct side *side = container_of(conn, struct side, conn);

	side->closed_count++;
	side->cause = cause;
	if (conn == &target.conn)
		target_stats = conn->stats;
	if (host.closed_count + target.closed_count == 2)
		reactor_listener_close(&listener, listener_closed);
}

static const struct tcp_conn_handler handler = {on_ready, on_header, on_pdu, on_whole, on_closed};

static struct tcp_conn_config config_of(enum pdu_role role, bool has_digests)
{
	bool is_host = role == PDU_ROLE_HOST;

	return (struct tcp_conn_config){.role = role,
					.records = has_records ? &xor_records : NULL,
					.records_arg = is_host ? &host_records : &target_records,
					.allows_header_digest = has_digests,
					.allows_data_digest = has_digests,
					.data_align_bytes = 4,
					.max_r2t = 1,
					.data_max_bytes = MAX_BYTES,
					.in_capsule_max_bytes = MAX_BYTES,
					.ic_timeout_ms = 10000,
					.term_timeout_ms = 10000};
}

static void on_accepted(struct reactor_listener *from, int taken_fd, const struct net_addr *peer)
{
	struct tcp_conn_config config = config_of(PDU_ROLE_TARGET, true);

	config.zero_copy_min_bytes = zero_copy_min_bytes;
	config.is_zero_copy_forced = is_zero_copy_forced;
	EXPECT_EQ(0, tcp_conn_accept(&target.conn, reactor, taken_fd, &config, &handler));
}

static void on_watchdog(struct reactor_timer *timer)
{
	is_timed_out = true;
	reactor_stop(reactor);
}

static bool host_has_digests;

static void on_start(struct reactor_msg *msg)
{
	struct tcp_conn_config config = config_of(PDU_ROLE_HOST, host_has_digests);
	struct net_addr addr;

	reactor_timer_init(reactor, &watchdog, on_watchdog);
	reactor_timer_arm(&watchdog, reactor_now_ns(reactor) + 100 * NS_PER_S);
	CHECK(net_addr_parse("127.0.0.1:0", 0, &addr) == 0);
	CHECK(reactor_listener_open(reactor, &listener, &addr, on_accepted) == 0);
	CHECK(tcp_conn_connect(&host.conn, reactor, &listener.addr, &config, &handler) == 0);
}

static void side_init(struct side *side)
{
	memset(side, 0, sizeof(*side));
	for (unsigned i = 0; i < DEPTH; i++) {
		side->slots[i].buf = malloc(MAX_BYTES);
		side->slots[i].data_tx.done = nothing_to_do;
		side->slots[i].resp_tx.done = nothing_to_do;
	}
}

static void conversation(bool has_digests, uint32_t granule)
{
	struct reactor_config config = {.cpu = -1};
	struct reactor_msg start;
	int error = reactor_create(&config, &reactor);

	EXPECT_EQ(0, error);
	if (error)
		return;
	host_has_digests = has_digests;
	granule_bytes = granule;
	commands_sent = commands_done = mismatches = bad_digests = 0;
	is_timed_out = false;
	side_init(&host);
	side_init(&target);
	reactor_post(reactor, &start, on_start);
	reactor_run(reactor);
	EXPECT(!is_timed_out);
	EXPECT_EQ(commands_wanted, commands_done);
	EXPECT_EQ(0, mismatches);
	EXPECT_EQ(0, bad_digests);
	EXPECT_EQ(-ESHUTDOWN, host.cause);
	EXPECT_EQ(0, target.cause);
	reactor_destroy(reactor);
	for (unsigned i = 0; i < DEPTH; i++) {
		free(host.slots[i].buf);
		free(target.slots[i].buf);
	}
}

static void data_comes_back_without_digests(void)
{
	conversation(false, 1);
}

static void data_comes_back_with_digests(void)
{
	conversation(true, 1);
}

static void data_comes_back_in_whole_blocks(void)
{
	conversation(false, 4096);
	conversation(true, 512);
}

/* Loopback copies anyway and reports it: by default the connection stops zero copy after four. */
static void data_comes_back_without_a_copy(void)
{
	zero_copy_min_bytes = 40000;
	is_zero_copy_forced = true;
	conversation(false, 1);
	EXPECT(target_stats.zc_sends > 10);
	EXPECT_EQ(target_stats.zc_sends, target_stats.zc_copied);
	conversation(true, 1);
	EXPECT(target_stats.zc_sends > 10);
	is_zero_copy_forced = false;
	conversation(false, 1);
	EXPECT(target_stats.zc_sends >= 4);
	/* And those in flight at the fourth report. */
	EXPECT(target_stats.zc_sends < 4 + 32);
	zero_copy_min_bytes = 0;
	conversation(false, 1);
	EXPECT_EQ(0, target_stats.zc_sends);
}

/* Bytes inside the records do not wake a cold socket: the stream must call `ready` itself. */
static void data_comes_back_through_records(void)
{
	has_records = true;
	commands_wanted = COMMANDS_MAX / 4; /* small records are slow under a sanitizer */
	for (unsigned i = 0; i < 4; i++) {
		host_records = (struct xor_config){.seed = i,
						   .record_max_bytes = i % 2 ? 900 : 0,
						   .noise_one_in = 3,
						   .is_direct = i / 2};
		target_records = host_records;
		target_records.think_ns = 2 * NS_PER_MS;
		conversation(i % 2, i / 2 ? 4096 : 1);
		EXPECT_EQ(1, host_records.freed);
		EXPECT_EQ(1, target_records.freed);
	}
	commands_wanted = COMMANDS_MAX;
	has_records = false;
}

static bool can_send_zc(void)
{
	struct reactor_config config = {.cpu = -1};
	bool can;

	if (reactor_create(&config, &reactor))
		return false;
	can = reactor_can_send_zc(reactor);
	reactor_destroy(reactor);
	return can;
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(data_comes_back_without_digests);
	TAP_RUN(data_comes_back_with_digests);
	TAP_RUN(data_comes_back_in_whole_blocks);
	TAP_RUN(data_comes_back_through_records);
	if (can_send_zc())
		TAP_RUN(data_comes_back_without_a_copy);
	else
		tap_skip("data_comes_back_without_a_copy", "the kernel cannot (Linux 6.2)");
	return tap_end();
}
