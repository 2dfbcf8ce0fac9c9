/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the connection engine against itself, as host and target, on the simulated reactor, with
 * everything its users may do in any order: PDUs of any length from any pieces, private, shared or
 * zero-copy; sinks of any kind, pauses, discards, ends. Sockets are full, slow, cut or interrupted,
 * allocations fail, bits flip. Runs with and without records between engine and socket.
 *
 * Input: 8 bytes of settings, then steps of enum step with their bytes; sinks are chosen from the
 * input when a header arrives. Checked: every PDU arrives whole, in order and with its bytes,
 * unless a bit was flipped; a block of shared memory is never half old and half new; every tx is
 * done once; on_closed comes once and last; nothing is leaked. One thread.
 */
#include "../unit/xor_records.h"
#include "fuzz_alloc.h"
#include "fuzz_script.h"

#include "base/log.h"
#include "tcp/tcp.h"

#define BLOCK        512u
#define POOL_BYTES   (3u << 20)
#define SHARED_BYTES (256u << 10)
#define PIECES_MAX   1200
#define TXS_MAX      3000

enum step {
	STEP_TIME,
	STEP_SEND, /* any PDU */
	STEP_SEND_MANY,
	STEP_RESUME,
	STEP_CHANGE, /* changes shared memory */
	STEP_CLOSE,
	STEP_ABORT,
	STEP_FAIL,
	STEP_DISCARD,
	STEP_IGNORE,
	STEP_NO_MEMORY,
	STEP_INTERRUPT,
	STEP_FLIP,
	STEP_NETWORK,
	STEP_HOLD, /* another thread holds a granule of shared memory */
	STEP_COUNT,
};

struct fuzz;

/* A PDU in transit to the other side. */
struct sent {
	struct list node;
	struct tcp_tx tx;
	struct side *side;
	enum nvme_tcp_pdu_type type;
	bool is_shared;
	uint32_t from_bytes; /* offset in the pool or in shared memory */
	uint32_t data_bytes;
	bool is_done, has_arrived;
	unsigned iov_count;
	struct iovec iov[];
};

struct side {
	struct fuzz *fuzz;
	struct reactor *reactor;
	struct tcp_conn conn;
	bool is_started, is_ready, is_closed;
	bool is_ignoring;
	struct list sent; /* in the order of sending */
	unsigned sent_count, done_count;
	/* The PDU being received. */
	uint8_t *dest;
	bool has_dest;
	unsigned piece_count;
	struct iovec pieces[PIECES_MAX];
};

struct fuzz {
	struct script script;
	struct sim *sim;
	struct reactor_listener listener;
	struct side sides[2]; /* host, target */
	struct tcp_conn_config target_config;
	bool has_records;
	struct xor_config records[2];
	struct block_guard *guard;
	bool is_listener_closed;
	bool has_flipped;
	unsigned flip_in_bytes;
	unsigned interrupts;
	struct silence silence; /* of the host, used by the target's connection */
	unsigned refusals;
	int zc_error;
	void *held;
	size_t held_bytes;
	uint8_t version;
};

static struct fuzz fuzz;
static uint8_t pool[POOL_BYTES];
static _Alignas(4096) uint8_t shared[SHARED_BYTES];

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int __wrap_sched_yield(void);
ssize_t __real_reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned count);
ssize_t __real_reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned count);
void __real_reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
				 const struct iovec *iov, unsigned count);
ssize_t __wrap_reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned count);
ssize_t __wrap_reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov,
				 unsigned count);
void __wrap_reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
				 const struct iovec *iov, unsigned count);

/* ---- faults of the kernel and of other threads ---------------------------------------------- */

static void hold_end(void)
{
	if (fuzz.held)
		block_guard_drop_exclusive(fuzz.guard, fuzz.held, fuzz.held_bytes);
	fuzz.held = NULL;
}

/* The engine spins on a granule that the simulated thread holds: release it. */
int __wrap_sched_yield(void)
{
	hold_end();
	return 0;
}

ssize_t __wrap_reactor_sock_recv(struct reactor_sock *sock, const struct iovec *iov, unsigned count)
{
	if (fuzz.interrupts > 0 && fuzz.interrupts-- % 2 == 0)
		return -EINTR;
	return __real_reactor_sock_recv(sock, iov, count);
}

ssize_t __wrap_reactor_sock_send(struct reactor_sock *sock, const struct iovec *iov, unsigned count)
{
	if (fuzz.interrupts > 0 && fuzz.interrupts-- % 2 == 1)
		return -EINTR;
	return __real_reactor_sock_send(sock, iov, count);
}

/* Reports a refused zero-copy send with another error. */
static void (*zc_sent)(struct reactor_send *send, int res);

static void on_zc_sent(struct reactor_send *send, int res)
{
	if (fuzz.zc_error && (res == -ENOMEM || res == -ENOBUFS)) {
		res = fuzz.zc_error;
		fuzz.zc_error = 0;
	}
	zc_sent(send, res);
}

void __wrap_reactor_sock_send_zc(struct reactor_sock *sock, struct reactor_send *send,
				 const struct iovec *iov, unsigned count)
{
	CHECK(!zc_sent || zc_sent == send->sent);
	zc_sent = send->sent;
	send->sent = on_zc_sent;
	__real_reactor_sock_send_zc(sock, send, iov, count);
}

static void on_bytes(void *arg, int fd, uint64_t offset, uint8_t *bytes, size_t len_bytes)
{
	if (fuzz.flip_in_bytes == 0)
		return;
	if (fuzz.flip_in_bytes <= len_bytes) {
		bytes[fuzz.flip_in_bytes - 1] ^= 1u << (offset % 8);
		fuzz.has_flipped = true;
		fuzz.flip_in_bytes = 0;
	} else {
		fuzz.flip_in_bytes -= (unsigned)len_bytes;
	}
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Cuts len_bytes at `base` into pieces as a byte of the script chooses; returns their number. */
static unsigned pieces_cut(struct iovec *pieces, unsigned max, uint8_t *base, size_t len_bytes)
{
	uint8_t choice = script_u8(&fuzz.script);
	size_t step = choice < 64 ? len_bytes : choice < 128 ? 4096 : choice < 192 ? BLOCK : 64;
	unsigned count = 0;

	while (len_bytes > 0) {
		size_t part = len_bytes < step || count + 2 >= max ? len_bytes : step;

		/* Sometimes an empty piece without an address. */
		if ((choice & 7) == 7 && count % 5 == 1 && count + 2 < max)
			pieces[count++] = (struct iovec){0};
		pieces[count++] = (struct iovec){.iov_base = base, .iov_len = part};
		base += part;
		len_bytes -= part;
	}
	return count;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void on_done(struct tcp_tx *tx, int res)
{
	struct sent *sent = container_of(tx, struct sent, tx);

	CHECK(!sent->is_done && !sent->side->is_closed);
	CHECK(res == 0 || res == -ECONNRESET);
	sent->is_done = true;
	sent->side->done_count++;
}

static uint32_t sent_size(uint8_t choice)
{
	uint32_t value = script_u8(&fuzz.script);

	switch (choice & 3) {
	case 0:
		return 1 + value;
	case 1:
		return (1 + value) * 64;
	case 2:
		return (1 + value) * 1024;
	default:
		return (1 + value) * 8192 + value;
	}
}

static struct sent *sent_make(struct side *side, uint8_t choice, uint32_t data_bytes)
{
	struct sent *sent = sim_alloc(sizeof(*sent) + PIECES_MAX * sizeof(struct iovec));

	sent->side = side;
	sent->is_shared = choice & 4;
	if (sent->is_shared && data_bytes > SHARED_BYTES)
		data_bytes = SHARED_BYTES;
	sent->data_bytes = data_bytes;
	sent->tx.done = on_done;
	if (data_bytes > 0) {
		size_t room = (sent->is_shared ? SHARED_BYTES : POOL_BYTES) - data_bytes;
		uint32_t skip = choice & 8 ? 1 + choice % 3 * BLOCK : 0;
		uint8_t *base = sent->is_shared ? shared : pool;

		sent->from_bytes = (script_u8(&fuzz.script) * BLOCK) % (room + 1) / BLOCK * BLOCK;
		if (sent->from_bytes < skip)
			skip = 0;
		sent->iov_count =
			pieces_cut(sent->iov, PIECES_MAX, base + sent->from_bytes, data_bytes);
		sent->iov[0].iov_base = (uint8_t *)sent->iov[0].iov_base - skip;
		sent->iov[0].iov_len += skip;
		sent->tx.iov_skip_bytes = skip;
	}
	sent->tx.iov = sent->iov;
	sent->tx.iov_count = sent->iov_count;
	sent->tx.shared_block_bytes = sent->is_shared ? BLOCK : 0;
	sent->tx.guard = choice & 16 ? fuzz.guard : NULL;
	return sent;
}

static void send_one(struct side *side, uint8_t choice, uint32_t data_bytes)
{
	bool is_host = side == &fuzz.sides[0];
	struct sent *sent;
	struct pdu_data_args args;
	struct nvme_sqe sqe = {0};
	struct nvme_cqe cqe = {0};

	if (!side->is_ready || side->is_closed || side->sent_count >= TXS_MAX)
		return;
	if (is_host && (choice & 32) && data_bytes > fuzz.target_config.in_capsule_max_bytes)
		data_bytes = fuzz.target_config.in_capsule_max_bytes;
	if (is_host && data_bytes > fuzz.target_config.data_max_bytes)
		data_bytes = fuzz.target_config.data_max_bytes;
	sent = sent_make(side, choice, data_bytes);
	side->sent_count++;
	list_init(&sent->node);
	list_push_back(&side->sent, &sent->node);
	args = (struct pdu_data_args){.cccid = (uint16_t)side->sent_count,
				      .data_bytes = sent->data_bytes,
				      .is_last = choice & 64,
				      .is_success = !is_host && (choice & 64)};
	if (is_host && (data_bytes == 0 || (choice & 32))) {
		sent->type = NVME_TCP_PDU_CAPSULE_CMD;
		tcp_send_cmd(&side->conn, &sent->tx, &sqe, sent->data_bytes);
	} else if (is_host) {
		sent->type = NVME_TCP_PDU_H2C_DATA;
		tcp_send_h2c_data(&side->conn, &sent->tx, &args);
	} else if (data_bytes > 0) {
		sent->type = NVME_TCP_PDU_C2H_DATA;
		tcp_send_c2h_data(&side->conn, &sent->tx, &args);
	} else if (choice & 32) {
		sent->type = NVME_TCP_PDU_R2T;
		args.data_bytes = 4096;
		tcp_send_r2t(&side->conn, &sent->tx, &args);
	} else {
		sent->type = NVME_TCP_PDU_CAPSULE_RESP;
		tcp_send_resp(&side->conn, &sent->tx, &cqe);
	}
}

static void send_step(struct side *side, bool is_many)
{
	uint8_t choice = script_u8(&fuzz.script);
	unsigned count = is_many ? script_u8(&fuzz.script) * 8u : 1;
	uint32_t data_bytes = choice & 128 ? 0 : sent_size(script_u8(&fuzz.script));

	/* Many large PDUs only take long. */
	if (is_many && data_bytes > 512)
		data_bytes = 512;
	for (unsigned i = 0; i < count; i++)
		send_one(side, choice, data_bytes);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static struct side *side_of(struct tcp_conn *conn)
{
	return container_of(conn, struct side, conn);
}

static void sink_end(struct side *side)
{
	free(side->dest);
	side->dest = NULL;
	side->has_dest = false;
	side->piece_count = 0;
}

/* Every byte of a block is the same: zeroes, or one version of the sent data. */
static void blocks_check(const uint8_t *bytes, size_t len_bytes)
{
	for (size_t i = 1; i < len_bytes; i++)
		CHECK(i % BLOCK == 0 || bytes[i] == bytes[i - 1]);
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	struct side *side = side_of(conn);
	uint8_t choice = script_u8(&fuzz.script);

	sink_end(side);
	CHECK(side->is_ready && !side->is_closed && !side->is_ignoring);
	if (choice == 255)
		return (struct pdu_error){NVME_TCP_FES_DATA_OUT_OF_RANGE, 1, NULL};
	if (choice == 254)
		tcp_conn_abort(conn, -ENOMEM, "no room");
	if (choice % 8 == 5)
		*ret_pause = true;
	/* A flipped bit may announce more data than any PDU has. */
	if (*ret_pause || pdu->data_bytes == 0 || choice % 8 == 0 || pdu->data_bytes > POOL_BYTES)
		return PDU_OK;
	side->dest = sim_alloc(pdu->data_bytes);
	side->has_dest = true;
	if (choice % 8 == 1) {
		side->piece_count =
			pieces_cut(side->pieces, PIECES_MAX, side->dest, pdu->data_bytes);
		sink->iov = side->pieces;
		sink->iov_count = side->piece_count;
		return PDU_OK;
	}
	sink->dest = side->dest;
	/* Private, or shared with granules of BLOCK or 4096 bytes. */
	sink->granule_bytes = choice % 8 < 4 ? choice % 2 : choice % 8 == 4 ? BLOCK : 4096;
	if (choice % 8 == 7)
		sink->granule_bytes = BLOCK;
	sink->guard = sink->granule_bytes > 1 && (choice & 16) ? fuzz.guard : NULL;
	return PDU_OK;
}

/* The arrived PDU must be the oldest one in transit to this side. */
static void arrival_check(struct side *side, const struct pdu *pdu)
{
	struct side *other = &fuzz.sides[side == &fuzz.sides[0]];
	const uint8_t *from;

	list_for_each(node, &other->sent) {
		struct sent *sent = list_entry(node, struct sent, node);

		if (sent->has_arrived)
			continue;
		sent->has_arrived = true;
		CHECK(sent->type == pdu->type && sent->data_bytes == pdu->data_bytes);
		if (!side->has_dest)
			return;
		from = (sent->is_shared ? shared : pool) + sent->from_bytes;
		if (sent->is_shared)
			blocks_check(side->dest, sent->data_bytes);
		else
			CHECK(memcmp(side->dest, from, sent->data_bytes) == 0);
		return;
	}
	CHECK(!"a PDU arrived that nobody has sent");
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct side *side = side_of(conn);
	uint8_t choice;

	CHECK(!side->is_closed);
	if (!fuzz.has_flipped) {
		CHECK(is_digest_ok);
		arrival_check(side, pdu);
	}
	sink_end(side);
	choice = script_u8(&fuzz.script);
	if (choice == 255)
		return (struct pdu_error){NVME_TCP_FES_PDU_SEQUENCE, 0, "fuzz"};
	if (choice == 254) {
		side->is_ignoring = true;
		tcp_conn_ignore(conn);
	}
	return PDU_OK;
}

static struct pdu_error on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	struct tcp_sink sink = {0};
	struct pdu_error error = on_header(conn, pdu, &sink, ret_pause);

	CHECK(pdu->data_bytes == 0 && sink.dest == NULL && sink.iov_count == 0);
	CHECK(pdu->type != NVME_TCP_PDU_H2C_DATA && pdu->type != NVME_TCP_PDU_C2H_DATA);
	/* on_header may have ended the connection. */
	if (*ret_pause || pdu_is_error(error) || !tcp_conn_is_open(conn))
		return error;
	return on_pdu(conn, pdu, true);
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct side *side = side_of(conn);

	CHECK(!side->is_closed && why != NULL && cause <= 0);
	CHECK(side->done_count == side->sent_count);
	side->is_closed = true;
	sink_end(side);
}

static void on_ready(struct tcp_conn *conn)
{
	side_of(conn)->is_ready = true;
}

static void on_arrival(struct tcp_conn *conn, const uint8_t *bytes, size_t len_bytes)
{
	CHECK(len_bytes > 0);
}

/* Every third refusal ends the lateness: a real user would end the connection soon. */
static void on_too_late(struct tcp_conn *conn)
{
	CHECK(conn == &fuzz.sides[1].conn);
	if (++fuzz.refusals % 3 == 0)
		atomic_store(&fuzz.silence.max_ns, 0);
}

static void silence_step(void)
{
	bool is_late = fuzz.script.left > 0 && fuzz.script.at[0] == 254 && fuzz.refusals < 9;

	if (is_late)
		atomic_store(&fuzz.silence.max_ns, 1);
}

static const struct tcp_conn_handler host_handler = {
	.on_ready = on_ready,
	.on_header = on_header,
	.on_pdu = on_pdu,
	.on_whole = on_whole,
	.on_closed = on_closed,
};

static const struct tcp_conn_handler target_handler = {
	.on_ready = on_ready,
	.on_header = on_header,
	.on_pdu = on_pdu,
	.on_whole = on_whole,
	.on_closed = on_closed,
	.on_arrival = on_arrival,
	.on_too_late = on_too_late,
};

/* ---- steps ----------------------------------------------------------------------------------- */

static void run_us(uint64_t us)
{
	sim_run_until(fuzz.sim, sim_now(fuzz.sim) + us * NS_PER_US);
}

static void network_step(uint8_t choice)
{
	static const struct sim_faults slow = {.slow_ppm = 300000};
	static const struct sim_faults none;
	struct sim_net_break net_break = {
		.kind = choice & 8 ? SIM_NET_HALF_CLOSE : SIM_NET_STALL,
		.is_by_server = choice & 16,
		.after_bytes = 1 + (choice % 8 == 3 ? script_u16(&fuzz.script) : 0),
		.stall_us = 500000,
	};

	if (choice % 8 == 0)
		sim_net_cut(fuzz.sim, NULL);
	else if (choice % 8 < 3)
		sim_net_partition(fuzz.sim, NULL, choice % 8 == 1);
	else if (choice % 8 == 3)
		sim_net_set_break(fuzz.sim, &net_break);
	else
		sim_net_set_faults(fuzz.sim, choice & 32 ? &slow : &none);
}

static void hold_step(void)
{
	uint8_t at = script_u8(&fuzz.script);

	hold_end();
	fuzz.held = shared + at % (SHARED_BYTES / 4096) * 4096u;
	fuzz.held_bytes = block_guard_take_exclusive(fuzz.guard, fuzz.held, 4096);
}

static void shared_change(void)
{
	uint32_t from = script_u8(&fuzz.script) * BLOCK, count = 1 + script_u8(&fuzz.script);

	fuzz.version++;
	for (uint32_t i = 0; i < count && from + (i + 1) * BLOCK <= SHARED_BYTES; i++)
		memset(shared + from + i * BLOCK, fuzz.version, BLOCK);
}

static void engine_step(struct side *side, enum step step)
{
	static const int zc_errors[] = {-EINVAL, -EOPNOTSUPP, -EIO, -EINTR, 0};
	struct pdu_error error = {.fes = NVME_TCP_FES_PDU_SEQUENCE};

	if (!side->is_started)
		return;
	if (step == STEP_SEND || step == STEP_SEND_MANY)
		send_step(side, step == STEP_SEND_MANY);
	else if (step == STEP_RESUME)
		tcp_conn_resume(&side->conn);
	else if (step == STEP_CLOSE)
		tcp_conn_close(&side->conn, "fuzz");
	else if (step == STEP_ABORT)
		tcp_conn_abort(&side->conn, -ETIMEDOUT, "fuzz");
	else if (step == STEP_FAIL) {
		error.fes = script_u8(&fuzz.script) % 9;
		tcp_conn_fail(&side->conn, error);
	} else if (step == STEP_DISCARD) {
		uint16_t cccid = side->conn.pdu.u.data.cccid;

		tcp_conn_discard(&side->conn, script_u8(&fuzz.script) % 8 ? cccid : 0);
		/* Free the sink if the engine no longer uses it. */
		if (side->conn.rx_phase == TCP_RX_DATA && !side->conn.sink.dest &&
		    side->conn.sink.iov_count == 0)
			sink_end(side);
	} else if (step == STEP_IGNORE) {
		side->is_ignoring = true;
		tcp_conn_ignore(&side->conn);
	} else if (step == STEP_INTERRUPT) {
		fuzz.interrupts = script_u8(&fuzz.script) % 4;
		fuzz.zc_error = zc_errors[script_u8(&fuzz.script) % ARRAY_LEN(zc_errors)];
	}
}

static void script_play(void)
{
	for (unsigned steps = 0; fuzz.script.left > 0 && steps < 300; steps++) {
		uint8_t byte = script_u8(&fuzz.script);
		struct side *side = &fuzz.sides[byte >> 7];
		enum step step = (byte & 127) % STEP_COUNT;

		silence_step();
		if (step == STEP_TIME) {
			uint8_t length = script_u8(&fuzz.script);

			run_us(length < 200 ? length : (length - 199) * 50000u);
		} else if (step == STEP_CHANGE) {
			shared_change();
		} else if (step == STEP_NETWORK) {
			network_step(script_u8(&fuzz.script));
		} else if (step == STEP_FLIP) {
			fuzz.flip_in_bytes = 1 + script_u16(&fuzz.script) % 4096;
		} else if (step == STEP_HOLD) {
			hold_step();
		} else if (step == STEP_NO_MEMORY) {
			alloc_fails_in = 1 + script_u8(&fuzz.script) % 8;
		} else {
			sim_enter(side->reactor);
			engine_step(side, step);
			sim_leave(side->reactor);
		}
		for (unsigned i = 0; i < 2; i++) {
			if (fuzz.sides[i].has_dest && !fuzz.has_flipped &&
			    fuzz.sides[i].conn.sink.granule_bytes >= BLOCK)
				blocks_check(fuzz.sides[i].dest, fuzz.sides[i].conn.pdu.data_bytes);
		}
	}
	hold_end();
}

/* ---- start and end ------------------------------------------------------------------------- */

static void on_accepted(struct reactor_listener *listener, int taken_fd,
			const struct net_addr *from)
{
	struct side *side = &fuzz.sides[1];

	if (side->is_started || tcp_conn_accept(&side->conn, side->reactor, taken_fd,
						&fuzz.target_config, &target_handler) != 0) {
		reactor_refuse_fd(taken_fd);
		return;
	}
	side->is_started = true;
	side->conn.wants_arrival = true;
	side->conn.silence = &fuzz.silence;
}

static void on_listener_closed(struct reactor_listener *listener)
{
	fuzz.is_listener_closed = true;
}

static struct tcp_conn_config config_of(enum pdu_role role, uint8_t bits)
{
	uint8_t more = script_u8(&fuzz.script);
	struct xor_config *records = &fuzz.records[role == PDU_ROLE_TARGET];

	*records = (struct xor_config){
		.seed = more,
		.record_max_bytes = more & 16 ? 60 : 0,
		.noise_one_in = more & 32 ? 2 : 0,
		.think_ns = more & 64 ? 50000 : 0,
		.is_silent = more == 255,
		.is_endless = more == 254,
		.is_direct = more & 128,
		.key = more == 253,
	};
	return (struct tcp_conn_config){
		.role = role,
		.records = fuzz.has_records ? &xor_records : NULL,
		.records_arg = records,
		.allows_header_digest = bits & 1,
		.allows_data_digest = bits & 2,
		.data_align_bytes = bits & 4 ? 72 : 4,
		.max_r2t = 1,
		.data_max_bytes = bits & 8 ? 4u << 20 : 65536,
		.in_capsule_max_bytes = bits & 16 ? 1u << 20 : 8192,
		.ic_timeout_ms = 100,
		.term_timeout_ms = 200,
		.send_timeout_ms = more & 1 ? 300 : 0,
		.unacked_timeout_ms = more & 2 ? 1000 : 0,
		.recv_budget_bytes = more & 4 ? 0 : 40000u * (1u + (more >> 3) % 32),
		.zero_copy_min_bytes = bits & 32 ? bits & 64 ? 4096 : 64 : 0,
		.is_zero_copy_forced = bits & 128,
	};
}

static void sim_start(uint8_t bits, uint8_t more)
{
	struct sim_options options = {
		.window_max_bytes = bits & 1   ? 4u << 20
				    : bits & 2 ? 3000
					       : 0,
		.segment_max_bytes = bits & 4 ? 700 : 0,
		.recv_max_bytes = bits & 8 ? 1500 : 0,
		.is_orderly = bits & 16,
		.has_no_zc = bits & 32,
		.zc_refuse_one_in = more & 1 ? 2 : 0,
		.zc_copied_one_in = more & 2 ? 1 : 0,
		.zc_hold_max_us = more & 4 ? 5000 : 0,
		.faults = {.refuse_ppm = bits == 255 ? 1000000 : 0},
	};
	struct reactor_config config = {.cpu = -1};

	fuzz.sim = sim_create(more, &options);
	for (unsigned i = 0; i < 2; i++) {
		fuzz.sides[i].fuzz = &fuzz;
		list_init(&fuzz.sides[i].sent);
		CHECK(reactor_create(&config, &fuzz.sides[i].reactor) == 0);
	}
	sim_net_set_tap(fuzz.sim, on_bytes, NULL);
}

static void conns_start(uint8_t host_bits, uint8_t target_bits)
{
	struct tcp_conn_config host_config = config_of(PDU_ROLE_HOST, host_bits);
	struct side *host = &fuzz.sides[0];
	struct net_addr addr;

	fuzz.target_config = config_of(PDU_ROLE_TARGET, target_bits);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &addr) == 0);
	sim_enter(fuzz.sides[1].reactor);
	CHECK(reactor_listener_open(fuzz.sides[1].reactor, &fuzz.listener, &addr, on_accepted) ==
	      0);
	sim_leave(fuzz.sides[1].reactor);
	sim_enter(host->reactor);
	host->is_started = tcp_conn_connect(&host->conn, host->reactor, &addr, &host_config,
					    &host_handler) == 0;
	sim_leave(host->reactor);
}

static bool is_open(void *arg)
{
	return (fuzz.sides[0].is_started && !fuzz.sides[0].is_closed) ||
	       (fuzz.sides[1].is_started && !fuzz.sides[1].is_closed);
}

static void fuzz_finish(void)
{
	alloc_fails_in = 0;
	sim_net_partition(fuzz.sim, NULL, false);
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = &fuzz.sides[i];

		sim_enter(side->reactor);
		if (side->is_started)
			tcp_conn_close(&side->conn, "the end");
		sim_leave(side->reactor);
	}
	run_while(fuzz.sim, is_open, NULL);
	sim_enter(fuzz.sides[1].reactor);
	reactor_listener_close(&fuzz.listener, on_listener_closed);
	sim_leave(fuzz.sides[1].reactor);
	sim_run_until(fuzz.sim, sim_now(fuzz.sim) + NS_PER_S);
	CHECK(fuzz.is_listener_closed && sim_leaks(fuzz.sim) == 0);
	for (unsigned i = 0; i < 2; i++)
		CHECK(fuzz.records[i].opened == fuzz.records[i].freed);
	for (unsigned i = 0; i < 2; i++) {
		struct list *node;

		while ((node = list_pop_front(&fuzz.sides[i].sent)) != NULL)
			free(list_entry(node, struct sent, node));
	}
	sim_destroy(fuzz.sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct block_guard *guard = fuzz.guard;
	uint8_t bits[5];

	memset(&fuzz, 0, sizeof(fuzz));
	zc_sent = NULL;
	alloc_fails_in = 0;
	fuzz.guard = guard ? guard : block_guard_create();
	CHECK(fuzz.guard != NULL);
	for (uint32_t i = 0; i < POOL_BYTES && !guard; i++)
		pool[i] = (uint8_t)(i / BLOCK * 7 + 1);
	memset(shared, 0, sizeof(shared));
	fuzz.script = (struct script){.at = input, .left = size};
	script_bytes(&fuzz.script, bits, sizeof(bits));
	log_set_level(bits[4] & 1 ? LOG_LEVEL_OFF : LOG_LEVEL_ERROR);
	sim_start(bits[0], bits[1]);
	if (bits[4] & 2)
		alloc_fails_in = 1 + (bits[4] >> 4);
	fuzz.has_records = bits[4] & 8;
	conns_start(bits[2], bits[3]);
	if (bits[4] & 4)
		run_us(3000);
	script_play();
	fuzz_finish();
	return 0;
}
