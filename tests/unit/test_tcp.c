/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection engine against itself on the simulated reactor: a host and a target exchange
 * random PDUs of every kind over a network that cuts, delays and fails as the seed decides.
 *
 * Each side knows the other's script, so every header and every payload byte is compared. Payload
 * is received into buffers of exactly its size, and connections are freed in on_closed, so that
 * ASan sees any later use. SEEDS=n in the environment sets the number of seeds. Built a second time
 * with OVER_RECORDS, where records sit between the engine and the socket.
 */
#include "../sim/sim.h"
#include "payload.h"
#include "tap.h"
#include "xor_records.h"

#include "base/clock.h"
#include "base/log.h"
#include "tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS      6
#define SCRIPT_MAX 64
#define SENTINEL   0xee

#ifndef OVER_RECORDS
#define OVER_RECORDS 0
#endif

enum doom {
	DOOM_NONE,
	DOOM_CUT,
	DOOM_ABORT,
	DOOM_CLOSE,
	DOOM_FAIL,
	DOOM_COUNT,
};

struct item {
	enum nvme_tcp_pdu_type type;
	uint32_t len_bytes;
};

struct world;
struct peer;

struct holder {
	struct tcp_conn conn;
	struct peer *peer;
};

struct slot {
	struct tcp_tx tx;
	struct peer *peer;
	struct iovec iov[4];
	uint8_t *payload;
	bool is_busy;
};

struct peer {
	struct world *world;
	struct reactor *reactor;
	struct tcp_conn_config config;
	struct xor_config records;
	struct holder *holder; /* NULL before the start and after on_closed */
	struct peer *other;
	struct slot slots[SLOTS];
	struct item script[SCRIPT_MAX];
	unsigned script_count;
	unsigned next_send;
	unsigned next_receive;
	unsigned busy;
	unsigned sent_ok;
	unsigned ready_count;
	unsigned closed_count;
	int cause;
	char why[80];
	uint8_t *dest;
	uint32_t dest_bytes;
	uint32_t granule_bytes;
	bool has_paused;        /* for the current header */
	unsigned ignores_after; /* ignores after this number of PDUs; 0: never */
	bool is_in_pdu;         /* header judged, end not received yet */
	unsigned arrivals;
	struct reactor_timer timer;
};

struct world {
	struct sim *sim;
	struct prng *prng;
	struct reactor_listener listener;
	bool is_listener_closed;
	bool is_calm; /* no pauses, no holds, no odd granules */
	struct peer host;
	struct peer target;
	enum doom doom;
	unsigned doom_at_callback; /* 0: never */
	unsigned callbacks;
};

/* ---- doom ---------------------------------------------------------------------------------- */

static const struct pdu_error doom_error = {
	.fes = NVME_TCP_FES_PDU_SEQUENCE, .fei = 0, .what = "doom"};

static void doom_strike(struct peer *peer)
{
	struct world *world = peer->world;

	if (!peer->holder)
		return;
	sim_trace(world->sim, "doom %d strikes the %s", (int)world->doom,
		  peer == &world->host ? "host" : "target");
	switch (world->doom) {
	case DOOM_CUT:
		sim_net_cut(world->sim, NULL);
		break;
	case DOOM_ABORT:
		tcp_conn_abort(&peer->holder->conn, -ECANCELED, "doom");
		break;
	case DOOM_CLOSE:
		tcp_conn_close(&peer->holder->conn, "doom");
		break;
	case DOOM_FAIL:
		tcp_conn_fail(&peer->holder->conn, doom_error);
		break;
	default:
		break;
	}
}

static void doom_count(struct peer *peer)
{
	if (++peer->world->callbacks == peer->world->doom_at_callback)
		doom_strike(peer);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void peer_send_more(struct peer *peer);

static void slot_done(struct tcp_tx *tx, int res)
{
	struct slot *slot = container_of(tx, struct slot, tx);
	struct peer *peer = slot->peer;

	EXPECT(slot->is_busy && peer->holder);
	slot->is_busy = false;
	free(slot->payload);
	slot->payload = NULL;
	peer->busy--;
	peer->sent_ok += res == 0;
	EXPECT(res == 0 || res == -ECONNRESET);
	doom_count(peer);
	if (res == 0)
		peer_send_more(peer);
}

static void slot_cut_payload(struct slot *slot, uint32_t len_bytes)
{
	uint32_t done = 0;
	unsigned count = 0;

	while (done < len_bytes) {
		uint32_t part = len_bytes - done;

		if (count < 3)
			part = (uint32_t)prng_below(slot->peer->world->prng, part) + 1;
		slot->iov[count++] =
			(struct iovec){.iov_base = slot->payload + done, .iov_len = part};
		done += part;
	}
	slot->tx.iov = slot->iov;
	slot->tx.iov_count = count;
}

static void slot_send(struct slot *slot, unsigned number)
{
	struct peer *peer = slot->peer;
	struct tcp_conn *conn = &peer->holder->conn;
	const struct item *item = &peer->script[number];
	struct nvme_sqe sqe = {.opcode = 1, .flags = NVME_SQE_PSDT_SGL, .cid = le16_of(number)};
	struct nvme_cqe cqe = {.cid = le16_of(number), .dw0 = le32_of(number * 3)};
	struct pdu_data_args args = {.cccid = number,
				     .ttag = number + 1,
				     .offset = number * 4,
				     .data_bytes = item->len_bytes,
				     .is_last = true};

	slot->is_busy = true;
	slot->tx.done = slot_done;
	slot->tx.shared_block_bytes = prng_one_in(peer->world->prng, 2) ? 512 : 0;
	peer->busy++;
	slot->payload = malloc(item->len_bytes + 1);
	payload_fill(slot->payload, number, item->len_bytes);
	slot_cut_payload(slot, item->len_bytes);
	switch (item->type) {
	case NVME_TCP_PDU_CAPSULE_CMD:
		tcp_send_cmd(conn, &slot->tx, &sqe, item->len_bytes);
		break;
	case NVME_TCP_PDU_CAPSULE_RESP:
		tcp_send_resp(conn, &slot->tx, &cqe);
		break;
	case NVME_TCP_PDU_H2C_DATA:
		tcp_send_h2c_data(conn, &slot->tx, &args);
		break;
	case NVME_TCP_PDU_C2H_DATA:
		tcp_send_c2h_data(conn, &slot->tx, &args);
		break;
	default:
		args.data_bytes = 4096;
		tcp_send_r2t(conn, &slot->tx, &args);
		break;
	}
}

static void peer_send_more(struct peer *peer)
{
	for (unsigned i = 0; i < SLOTS && peer->next_send < peer->script_count; i++) {
		if (!peer->slots[i].is_busy)
			slot_send(&peer->slots[i], peer->next_send++);
	}
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void peer_timer(struct reactor_timer *timer)
{
	struct peer *peer = container_of(timer, struct peer, timer);

	tcp_conn_resume(&peer->holder->conn);
}

static void peer_arm(struct peer *peer)
{
	reactor_timer_arm(&peer->timer, reactor_now_ns(peer->reactor) +
						prng_below(peer->world->prng, 200) * NS_PER_US);
}

static void on_ready(struct tcp_conn *conn)
{
	struct peer *peer = container_of(conn, struct holder, conn)->peer;

	peer->ready_count++;
	doom_count(peer);
	peer_send_more(peer);
}

static void check_fields(const struct pdu *pdu, unsigned number)
{
	switch (pdu->type) {
	case NVME_TCP_PDU_CAPSULE_CMD:
		EXPECT_EQ(number, le16_get(pdu->u.sqe.cid));
		break;
	case NVME_TCP_PDU_CAPSULE_RESP:
		EXPECT_EQ(number * 3, le32_get(pdu->u.cqe.dw0));
		break;
	default:
		EXPECT_EQ(number, pdu->u.data.cccid);
		EXPECT_EQ(number * 4, pdu->u.data.offset);
		break;
	}
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	static const uint32_t granules[] = {1, 1, 512, 4096, 520};
	struct peer *peer = container_of(conn, struct holder, conn)->peer;
	struct prng *prng = peer->world->prng;
	const struct item *item = &peer->other->script[peer->next_receive];

	CHECK(peer->next_receive < peer->other->script_count);
	EXPECT_EQ(item->type, pdu->type);
	EXPECT_EQ(item->len_bytes, pdu->data_bytes);
	EXPECT(!peer->dest);
	check_fields(pdu, peer->next_receive);
	doom_count(peer);
	EXPECT(!conn->is_ignoring);
	if (!peer->world->is_calm && !peer->has_paused && prng_one_in(prng, 4)) {
		peer->has_paused = true;
		*ret_pause = true;
		peer_arm(peer);
		return PDU_OK;
	}
	peer->has_paused = false;
	peer->is_in_pdu = true;
	if (pdu->data_bytes == 0 || prng_one_in(prng, 16))
		return PDU_OK;
	peer->dest_bytes = pdu->data_bytes;
	peer->dest = malloc(pdu->data_bytes);
	memset(peer->dest, SENTINEL, pdu->data_bytes);
	peer->granule_bytes = granules[prng_below(prng, ARRAY_LEN(granules))];
	*sink = (struct tcp_sink){.dest = peer->dest, .granule_bytes = peer->granule_bytes};
	return PDU_OK;
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct peer *peer = container_of(conn, struct holder, conn)->peer;

	EXPECT(is_digest_ok);
	EXPECT(!peer->dest || payload_matches(peer->dest, peer->next_receive, peer->dest_bytes));
	free(peer->dest);
	peer->dest = NULL;
	peer->is_in_pdu = false;
	peer->next_receive++;
	if (++peer->world->callbacks == peer->world->doom_at_callback) {
		if (peer->world->doom == DOOM_FAIL)
			return doom_error;
		doom_strike(peer);
	}
	if (peer->ignores_after > 0 && peer->next_receive == peer->ignores_after)
		tcp_conn_ignore(conn);
	return PDU_OK;
}

static struct pdu_error on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	struct tcp_sink sink;

	EXPECT_EQ(0, pdu->data_bytes);
	EXPECT(pdu->type != NVME_TCP_PDU_H2C_DATA && pdu->type != NVME_TCP_PDU_C2H_DATA);
	on_header(conn, pdu, &sink, ret_pause);
	/* on_header may have ended the connection. */
	return *ret_pause || !tcp_conn_is_open(conn) ? PDU_OK : on_pdu(conn, pdu, true);
}

/* Called before the header is judged. The bytes always start with a PDU's header. */
static void on_arrival(struct tcp_conn *conn, const uint8_t *bytes, size_t len_bytes)
{
	struct peer *peer = container_of(conn, struct holder, conn)->peer;
	unsigned next = peer->next_receive + peer->is_in_pdu;

	EXPECT(len_bytes > 0);
	peer->arrivals++;
	if (peer->ready_count > 0 && next < peer->other->script_count &&
	    bytes[0] != NVME_TCP_PDU_H2C_TERM_REQ && bytes[0] != NVME_TCP_PDU_C2H_TERM_REQ)
		EXPECT_EQ(peer->other->script[next].type, bytes[0]);
}

static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct holder *holder = container_of(conn, struct holder, conn);
	struct peer *peer = holder->peer;

	EXPECT_EQ(0, peer->busy);
	EXPECT(why != NULL);
	peer->closed_count++;
	peer->cause = cause;
	snprintf(peer->why, sizeof(peer->why), "%s", why ? why : "");
	sim_trace(peer->world->sim, "%s closed: %d %s",
		  peer == &peer->world->host ? "host" : "target", cause, peer->why);
	reactor_timer_cancel(&peer->timer);
	free(peer->dest);
	peer->dest = NULL;
	peer->holder = NULL;
	free(holder);
}

static const struct tcp_conn_handler handler = {on_ready, on_header, on_pdu,
						on_whole, on_closed, on_arrival};

/* ---- the world ----------------------------------------------------------------------------- */

static void on_accepted(struct reactor_listener *listener, int taken_fd,
			const struct net_addr *peer)
{
	struct world *world = container_of(listener, struct world, listener);
	struct holder *holder = calloc(1, sizeof(*holder));

	CHECK(!world->target.holder);
	holder->peer = &world->target;
	world->target.holder = holder;
	EXPECT_EQ(0, tcp_conn_accept(&holder->conn, listener->reactor, taken_fd,
				     &world->target.config, &handler));
	holder->conn.wants_arrival = true;
}

static void peer_init(struct world *world, struct peer *peer, struct peer *other, unsigned index)
{
	struct reactor_config config = {.index = index, .cpu = -1};

	peer->world = world;
	peer->other = other;
	CHECK(reactor_create(&config, &peer->reactor) == 0);
	reactor_timer_init(peer->reactor, &peer->timer, peer_timer);
	for (unsigned i = 0; i < SLOTS; i++)
		peer->slots[i].peer = peer;
	peer->config = (struct tcp_conn_config){
		.role = index == 0 ? PDU_ROLE_HOST : PDU_ROLE_TARGET,
		.data_align_bytes = 4,
		.max_r2t = 1,
		.data_max_bytes = 1024 * 1024,
		.in_capsule_max_bytes = 1024 * 1024,
		.ic_timeout_ms = 1000,
		.term_timeout_ms = 500,
	};
}

static void peer_set_records(struct peer *peer, uint64_t seed)
{
	peer->records = xor_config_of(seed);
	peer->config.records = OVER_RECORDS ? &xor_records : NULL;
	peer->config.records_arg = &peer->records;
}

static void script_add(struct peer *peer, enum nvme_tcp_pdu_type type, uint32_t len_bytes)
{
	peer->script[peer->script_count++] = (struct item){.type = type, .len_bytes = len_bytes};
}

static void script_random(struct peer *peer, unsigned count, uint32_t max_bytes)
{
	static const enum nvme_tcp_pdu_type types[2][3] = {
		{NVME_TCP_PDU_CAPSULE_CMD, NVME_TCP_PDU_CAPSULE_CMD, NVME_TCP_PDU_H2C_DATA},
		{NVME_TCP_PDU_CAPSULE_RESP, NVME_TCP_PDU_R2T, NVME_TCP_PDU_C2H_DATA},
	};
	struct prng *prng = peer->world->prng;

	for (unsigned i = 0; i < count; i++) {
		enum nvme_tcp_pdu_type type =
			types[peer->config.role == PDU_ROLE_TARGET][prng_below(prng, 3)];
		uint32_t limit = prng_one_in(prng, 20) ? max_bytes : 12000;
		uint32_t most = limit < max_bytes ? limit : max_bytes;
		uint32_t len = (uint32_t)prng_below(prng, most / 4) * 4 + 4;

		if (type == NVME_TCP_PDU_CAPSULE_RESP || type == NVME_TCP_PDU_R2T ||
		    (type == NVME_TCP_PDU_CAPSULE_CMD && prng_one_in(prng, 2)))
			len = 0;
		script_add(peer, type, len);
	}
}

static void scripts_random(struct world *world, unsigned count, uint32_t max_bytes)
{
	script_random(&world->host, count, max_bytes);
	script_random(&world->target, count, max_bytes);
}

static struct world *world_create(uint64_t seed, const struct sim_options *options)
{
	struct world *world = calloc(1, sizeof(*world));
	struct net_addr any;

	world->sim = sim_create(seed, options);
	world->prng = sim_prng(world->sim);
	peer_init(world, &world->host, &world->target, 0);
	peer_init(world, &world->target, &world->host, 1);
	peer_set_records(&world->host, seed);
	peer_set_records(&world->target, seed);
	CHECK(net_addr_parse("127.0.0.1:0", 0, &any) == 0);
	sim_enter(world->target.reactor);
	CHECK(reactor_listener_open(world->target.reactor, &world->listener, &any, on_accepted) ==
	      0);
	sim_leave(world->target.reactor);
	return world;
}

/* Sets digests, alignment and budget from the seed. */
static void world_vary(struct world *world)
{
	struct prng *prng = world->prng;
	bool has_header_digest = prng_one_in(prng, 2);
	bool has_data_digest = prng_one_in(prng, 2);

	world->host.config.allows_header_digest = has_header_digest;
	world->host.config.allows_data_digest = has_data_digest;
	world->target.config.allows_header_digest = has_header_digest || prng_one_in(prng, 2);
	world->target.config.allows_data_digest = has_data_digest || prng_one_in(prng, 2);
	world->host.config.data_align_bytes = 4u << prng_below(prng, 6);
	world->target.config.data_align_bytes = 4u << prng_below(prng, 6);
	world->host.config.max_r2t = (uint32_t)prng_below(prng, 100) + 1;
	if (prng_one_in(prng, 2))
		world->target.config.recv_budget_bytes = (uint32_t)prng_below(prng, 65536) + 1;
}

static void world_connect(struct world *world)
{
	struct holder *holder = calloc(1, sizeof(*holder));

	holder->peer = &world->host;
	world->host.holder = holder;
	sim_enter(world->host.reactor);
	CHECK(tcp_conn_connect(&holder->conn, world->host.reactor, &world->listener.addr,
			       &world->host.config, &handler) == 0);
	holder->conn.wants_arrival = true;
	sim_leave(world->host.reactor);
}

static bool peer_is_finished(const struct peer *peer)
{
	return peer->closed_count > 0 ||
	       (peer->sent_ok == peer->script_count &&
		peer->next_receive == (peer->ignores_after ?: peer->other->script_count));
}

static bool is_talking(void *arg)
{
	struct world *world = arg;

	if (world->host.closed_count > 0 && !world->target.holder)
		return false;
	return !peer_is_finished(&world->host) || !peer_is_finished(&world->target);
}

static bool is_alive(void *arg)
{
	struct world *world = arg;

	return world->host.holder || world->target.holder;
}

/* Shared memory must not show half a granule: bytes after the whole granules are unchanged. */
static void check_granules(struct peer *peer)
{
	const struct tcp_conn *conn = peer->holder ? &peer->holder->conn : NULL;
	uint32_t done;

	if (!conn || !peer->dest || peer->granule_bytes == 1 || conn->rx_phase != TCP_RX_DATA)
		return;
	done = conn->data_done_bytes;
	EXPECT_EQ(0, done % peer->granule_bytes);
	for (uint32_t i = done; i < peer->dest_bytes && i < done + 16; i++)
		EXPECT_EQ(SENTINEL, peer->dest[i]);
}

static bool world_talk(struct world *world, unsigned max_steps)
{
	uint64_t deadline_ns = sim_now(world->sim) + 600 * NS_PER_S;

	while (is_talking(world) && max_steps-- > 0) {
		if (sim_now(world->sim) > deadline_ns || !sim_step(world->sim))
			return false;
		check_granules(&world->host);
		check_granules(&world->target);
	}
	return true;
}

static void listener_closed(struct reactor_listener *listener)
{
	container_of(listener, struct world, listener)->is_listener_closed = true;
}

static bool is_settling(void *arg)
{
	struct world *world = arg;

	return is_alive(world) || sim_leaks(world->sim) > 0;
}

/* From here on everything must end by itself. */
static void world_destroy(struct world *world)
{
	sim_enter(world->target.reactor);
	reactor_listener_close(&world->listener, listener_closed);
	sim_leave(world->target.reactor);
	EXPECT(sim_run_while(world->sim, is_settling, world, 60 * NS_PER_S));
	EXPECT(world->is_listener_closed);
	EXPECT_EQ(0, sim_leaks(world->sim));
	EXPECT_EQ(1, world->host.closed_count);
	EXPECT(world->target.closed_count <= 1);
	EXPECT_EQ(world->host.records.opened, world->host.records.freed);
	EXPECT_EQ(world->target.records.opened, world->target.records.freed);
	if (tap_case_failed)
		printf("# seed %llu: host %d (%s), target %d (%s)\n",
		       (unsigned long long)sim_seed(world->sim), world->host.cause, world->host.why,
		       world->target.cause, world->target.why);
	sim_destroy(world->sim);
	free(world);
}

static void world_close_host(struct world *world)
{
	sim_enter(world->host.reactor);
	if (world->host.holder)
		tcp_conn_close(&world->host.holder->conn, "the test is over");
	sim_leave(world->host.reactor);
}

static void expect_whole_conversation(struct world *world)
{
	EXPECT_EQ(1, world->host.ready_count);
	EXPECT_EQ(1, world->target.ready_count);
	EXPECT_EQ(world->host.script_count, world->target.next_receive);
	EXPECT_EQ(world->target.script_count, world->host.next_receive);
	EXPECT_EQ(0, world->host.closed_count + world->target.closed_count);
}

static unsigned seed_count(unsigned by_default)
{
	const char *text = getenv("SEEDS");

	return text ? (unsigned)atoi(text) : by_default;
}

/* ---- cases --------------------------------------------------------------------------------- */

static void every_pdu_arrives_whole(void)
{
	for (unsigned seed = 1; seed <= seed_count(300) && !tap_case_failed; seed++) {
		struct sim_options options = {.window_max_bytes = seed % 3 ? 256 * 1024 : 1500};
		uint32_t max_bytes = seed % 3 ? 1024 * 1024 : 6000;
		struct world *world;

		options.faults.stall_ppm = seed % 5 ? 0 : 20000;
		options.faults.stall_max_us = 5000;
		world = world_create(seed, &options);
		world_vary(world);
		scripts_random(world, 24, max_bytes);
		world_connect(world);
		EXPECT(world_talk(world, 1000000));
		expect_whole_conversation(world);
		world_close_host(world);
		EXPECT(sim_run_while(world->sim, is_alive, world, 10 * NS_PER_S));
		EXPECT(world->host.arrivals > 0 && world->target.arrivals > 0);
		EXPECT_EQ(-ESHUTDOWN, world->host.cause);
		EXPECT_EQ(0, world->target.cause);
		world_destroy(world);
	}
}

/* However and whenever it ends: on_closed once per side, every tx returned, nothing leaks. */
static void any_end_at_any_time_is_clean(void)
{
	for (unsigned seed = 1; seed <= seed_count(600) && !tap_case_failed; seed++) {
		struct sim_options options = {.window_max_bytes = 20000};
		struct world *world = world_create(seed + 100000, &options);
		struct peer *victim = seed % 2 ? &world->host : &world->target;
		struct prng *prng = world->prng;

		world_vary(world);
		scripts_random(world, 12, 60000);
		world->doom = (enum doom)(DOOM_CUT + seed / 2 % (DOOM_COUNT - DOOM_CUT));
		if (prng_one_in(prng, 2))
			world->doom_at_callback = (unsigned)prng_below(prng, 80) + 1;
		world_connect(world);
		world_talk(world,
			   world->doom_at_callback ? 1000000 : (unsigned)prng_below(prng, 300));
		sim_enter(victim->reactor);
		doom_strike(victim);
		sim_leave(victim->reactor);
		/* A side whose peer never started is closed by its own deadline. */
		world_close_host(world);
		EXPECT(sim_run_while(world->sim, is_alive, world, 30 * NS_PER_S));
		world_destroy(world);
	}
}

static void what_is_ignored_is_not_heard(void)
{
	for (unsigned seed = 1; seed <= seed_count(100) && !tap_case_failed; seed++) {
		struct world *world = world_create(seed + 300000, NULL);

		world_vary(world);
		scripts_random(world, 24, 60000);
		world->target.ignores_after = seed % 20 + 1;
		world_connect(world);
		EXPECT(world_talk(world, 1000000));
		EXPECT_EQ(world->target.ignores_after, world->target.next_receive);
		world_close_host(world);
		EXPECT(sim_run_while(world->sim, is_alive, world, 400 * NS_PER_MS));
		world_destroy(world);
	}
}

/* The same with a network that resets, stalls, refuses and half-closes on its own. */
static void a_bad_network_ends_clean(void)
{
	for (unsigned seed = 1; seed <= seed_count(200) && !tap_case_failed; seed++) {
		struct sim_options options = {.window_max_bytes = 20000};
		struct world *world;

		options.faults = (struct sim_faults){.reset_ppm = 20000,
						     .stall_ppm = 20000,
						     .half_close_ppm = 10000,
						     .refuse_ppm = 100000,
						     .stall_max_us = 20000};
		world = world_create(seed + 200000, &options);
		world_vary(world);
		scripts_random(world, 12, 60000);
		world_connect(world);
		EXPECT(world_talk(world, 1000000));
		world_close_host(world);
		EXPECT(sim_run_while(world->sim, is_alive, world, 30 * NS_PER_S));
		world_destroy(world);
	}
}

/* A partition that heals before the deadlines only delays. A lasting one is detected by them. */
static void a_partition_delays_or_times_out(void)
{
	struct world *world = world_create(7, NULL);

	scripts_random(world, 20, 60000);
	world_connect(world);
	EXPECT(world_talk(world, 60));
	sim_net_partition(world->sim, NULL, true);
	sim_run_until(world->sim, sim_now(world->sim) + 5 * NS_PER_S);
	EXPECT(is_talking(world));
	sim_net_partition(world->sim, &world->listener.addr, false);
	EXPECT(world_talk(world, 1000000));
	expect_whole_conversation(world);
	sim_net_partition(world->sim, NULL, true);
	world_close_host(world);
	sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
	EXPECT(!world->host.holder && world->target.holder);
	sim_net_partition(world->sim, NULL, false);
	EXPECT(sim_run_while(world->sim, is_alive, world, 10 * NS_PER_S));
	world_destroy(world);
}

static uint64_t boundary_run(const struct sim_options *options, bool has_digests)
{
	struct world *world = world_create(5, options);
	uint64_t bytes;

	world->is_calm = true;
	world->host.config.allows_header_digest = has_digests;
	world->host.config.allows_data_digest = has_digests;
	world->target.config.allows_header_digest = true;
	world->target.config.allows_data_digest = true;
	world->host.config.data_align_bytes = 32;
	world->target.config.data_align_bytes = 128;
	script_add(&world->host, NVME_TCP_PDU_CAPSULE_CMD, 0);
	script_add(&world->host, NVME_TCP_PDU_CAPSULE_CMD, 16);
	script_add(&world->host, NVME_TCP_PDU_H2C_DATA, 520);
	script_add(&world->host, NVME_TCP_PDU_CAPSULE_CMD, 0);
	script_add(&world->target, NVME_TCP_PDU_R2T, 0);
	script_add(&world->target, NVME_TCP_PDU_C2H_DATA, 600);
	script_add(&world->target, NVME_TCP_PDU_CAPSULE_RESP, 0);
	script_add(&world->target, NVME_TCP_PDU_C2H_DATA, 4);
	world_connect(world);
	EXPECT(world_talk(world, 1000000));
	expect_whole_conversation(world);
	bytes = sim_net_bytes(world->sim);
	world_close_host(world);
	EXPECT(sim_run_while(world->sim, is_alive, world, 10 * NS_PER_S));
	world_destroy(world);
	return bytes;
}

static void every_byte_boundary_is_survived(void)
{
	for (int has_digests = 0; has_digests < 2; has_digests++) {
		struct sim_options options = {.is_orderly = true};
		uint64_t bytes = boundary_run(&options, has_digests);

		EXPECT(bytes > 128 + 128 + 16 + 520 + 600);
		options.has_cut = true;
		for (uint64_t cut = 1; cut < bytes && !tap_case_failed; cut++) {
			options.cut_at = cut;
			/* With records, a cut send starts another record. */
			EXPECT(boundary_run(&options, has_digests) == bytes || OVER_RECORDS);
		}
		options.has_cut = false;
		options.recv_max_bytes = 1;
		boundary_run(&options, has_digests);
		options.segment_max_bytes = 1;
		boundary_run(&options, has_digests);
		options.window_max_bytes = 1;
		boundary_run(&options, has_digests);
	}
}

static void the_same_seed_gives_the_same_run(void)
{
	uint64_t ends[2];

	for (int i = 0; i < 2; i++) {
		struct world *world = world_create(4711, NULL);

		world_vary(world);
		scripts_random(world, 20, 100000);
		world_connect(world);
		EXPECT(world_talk(world, 1000000));
		ends[i] = sim_now(world->sim) ^ prng_next(world->prng);
		world_close_host(world);
		EXPECT(sim_run_while(world->sim, is_alive, world, 10 * NS_PER_S));
		world_destroy(world);
	}
	EXPECT_EQ(ends[0], ends[1]);
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(every_pdu_arrives_whole);
	TAP_RUN(any_end_at_any_time_is_clean);
	TAP_RUN(what_is_ignored_is_not_heard);
	TAP_RUN(a_bad_network_ends_clean);
	TAP_RUN(a_partition_delays_or_times_out);
	TAP_RUN(every_byte_boundary_is_survived);
	TAP_RUN(the_same_seed_gives_the_same_run);
	return tap_end();
}
