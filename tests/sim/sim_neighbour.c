/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile neighbours: their connections, what they do with them, and the time bounds that must hold
 * for other hosts nevertheless. See sim_neighbour.h. One thread; callbacks run on the neighbours'
 * simulated reactor, changes of the configuration on the control reactor.
 */
#include "sim_neighbour.h"
#include "sim_op.h"
#include "sim_world.h"

#include "base/clock.h"
#include "base/text.h"
#include "media/spec.h"
#include "target/barrier.h"
#include "tcp/tcp.h"
#include "wire/fabrics.h"
#include "wire/io_cmd.h"
#include "wire/sgl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUES      9 /* of a neighbour; the first is its admin queue */
#define CIDS        64
#define FLOOD_CONNS 16
#define WRITE_BYTES 4096
#define BLOCK_BYTES 512
#define DRIP_BYTES  4
/* Most time for a command of another host: less than a hoarder's data time-out. */
#define BOUND_MS        2000
#define CHANGE_BOUND_MS (BARRIER_PRESS_S * 1000 + 500)

enum queue_state {
	QUEUE_CLOSED,
	QUEUE_OPENING,
	QUEUE_CONNECTING, /* Connect was sent */
	QUEUE_ENABLING,   /* of the admin queue: sets CC.EN */
	QUEUE_LIVE,
};

struct nqueue {
	struct tcp_conn conn;
	struct neighbour *of;
	unsigned qid;
	enum queue_state state;
	unsigned tx_busy;
	bool is_asked[CIDS];
	bool has_r2t[CIDS];
	struct pdu r2t[CIDS];
	uint32_t dripped[CIDS]; /* bytes */
};

struct neighbour {
	struct world *world;
	unsigned index;
	enum neighbour_kind kind;
	struct reactor_timer timer;
	struct connect_args args;
	struct nqueue queues[QUEUES];
	struct nqueue flood[FLOOD_CONNS];
	bool is_leaving;
};

struct ntx {
	struct tcp_tx tx;
	struct iovec iov;
	struct nqueue *queue;
	uint8_t data[NVMF_CONNECT_DATA_BYTES];
};

static uint8_t waste[1 << 16]; /* sink for data that is not used */

static struct neighbours *neighbours_of(const struct nqueue *queue)
{
	return &queue->of->world->neighbours;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void on_sent(struct tcp_tx *tx, int res)
{
	struct ntx *sent = container_of(tx, struct ntx, tx);

	sent->queue->tx_busy--;
	free(sent);
}

static struct ntx *tx_make(struct nqueue *queue, uint32_t len_bytes)
{
	struct ntx *tx = sim_alloc(sizeof(*tx));

	CHECK(tx != NULL && len_bytes <= sizeof(tx->data));
	tx->queue = queue;
	tx->tx.done = on_sent;
	tx->iov = (struct iovec){tx->data, len_bytes};
	tx->tx.iov = &tx->iov;
	tx->tx.iov_count = len_bytes > 0;
	queue->tx_busy++;
	return tx;
}

static void command_send(struct nqueue *queue, uint16_t cid, struct nvme_sqe *sqe, struct ntx *tx)
{
	sqe->cid = le16_of(cid);
	sqe->flags = NVME_SQE_PSDT_SGL;
	tcp_send_cmd(&queue->conn, &tx->tx, sqe, (uint32_t)tx->iov.iov_len);
}

static void connect_send(struct nqueue *queue)
{
	struct connect_args *args = &queue->of->args;
	struct ntx *tx = tx_make(queue, NVMF_CONNECT_DATA_BYTES);
	struct nvme_sqe sqe = {0};

	args->qid = (uint16_t)queue->qid;
	args->queue_size = CIDS;
	args->wants_no_sq_flow_control = queue->qid > 0;
	if (queue->qid == 0)
		args->cntlid = 0xffff;
	connect_encode(&sqe, tx->data, args);
	sgl_encode_in_capsule(&sqe, NVMF_CONNECT_DATA_BYTES);
	queue->state = QUEUE_CONNECTING;
	command_send(queue, 0, &sqe, tx);
}

static void enable_send(struct nqueue *queue, bool is_first)
{
	struct ctrl_config config = {
		.is_enabled = true, .page_shift = 12, .sq_entry_shift = 6, .cq_entry_shift = 4};
	struct nvme_sqe sqe = {0};

	if (is_first)
		property_set_encode(&sqe, PROPERTY_CC, cc_encode(&config), false);
	else
		property_get_encode(&sqe, PROPERTY_CSTS, false);
	queue->state = QUEUE_ENABLING;
	command_send(queue, 0, &sqe, tx_make(queue, 0));
}

/* A write whose data the target must request; blocks: its block count. */
static void write_ask(struct nqueue *queue, uint16_t cid, uint32_t blocks, uint32_t len_bytes)
{
	struct io_cmd cmd = {.first_block = 16u * cid, .block_count = blocks};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, NVME_IO_WRITE, NEIGHBOUR_NSID, &cmd);
	sgl_encode_transport(&sqe, len_bytes);
	queue->is_asked[cid] = true;
	queue->has_r2t[cid] = false;
	queue->dripped[cid] = 0;
	neighbours_of(queue)->asked++;
	command_send(queue, cid, &sqe, tx_make(queue, 0));
}

static void piece_send(struct nqueue *queue, uint16_t cid, uint32_t offset, uint32_t len_bytes)
{
	const struct pdu *r2t = &queue->r2t[cid];
	struct pdu_data_args args = {
		.cccid = cid,
		.ttag = r2t->u.data.ttag,
		.offset = offset,
		.data_bytes = len_bytes,
		.is_last = offset + len_bytes == r2t->u.data.offset + r2t->u.data.length,
	};

	tcp_send_h2c_data(&queue->conn, &tx_make(queue, len_bytes)->tx, &args);
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void queue_open(struct nqueue *queue);

static bool is_flood(const struct nqueue *queue)
{
	return queue >= queue->of->flood && queue < queue->of->flood + FLOOD_CONNS;
}

static void on_ready(struct tcp_conn *conn)
{
	struct nqueue *queue = container_of(conn, struct nqueue, conn);
	struct prng *prng = &neighbours_of(queue)->prng;

	/* Half of the flood's connections never send Connect. */
	if (!is_flood(queue) || prng_one_in(prng, 2))
		connect_send(queue);
}

static struct pdu_error on_header(struct tcp_conn *conn, const struct pdu *pdu,
				  struct tcp_sink *sink, bool *ret_pause)
{
	sink->dest = waste;
	sink->granule_bytes = 1;
	return PDU_OK;
}

static void on_answer(struct nqueue *queue, const struct nvme_cqe *cqe)
{
	struct neighbour *neighbour = queue->of;
	bool is_ok = nvme_status_is_ok(nvme_status_decode(cqe->status));

	if (is_flood(queue))
		return;
	if (!is_ok) {
		tcp_conn_abort(&queue->conn, 0, "refused");
	} else if (queue->state == QUEUE_CONNECTING && queue->qid > 0) {
		queue->state = QUEUE_LIVE;
	} else if (queue->state == QUEUE_CONNECTING) {
		neighbour->args.cntlid = (uint16_t)le32_get(cqe->dw0);
		enable_send(queue, true);
	} else if ((le32_get(cqe->dw0) & 1) == 0) {
		enable_send(queue, false);
	} else {
		queue->state = QUEUE_LIVE;
		for (unsigned i = 1; i < QUEUES && !neighbour->is_leaving; i++)
			queue_open(&neighbour->queues[i]);
	}
}

static struct pdu_error on_pdu(struct tcp_conn *conn, const struct pdu *pdu, bool is_digest_ok)
{
	struct nqueue *queue = container_of(conn, struct nqueue, conn);
	uint16_t cid = pdu->type == NVME_TCP_PDU_CAPSULE_RESP ? le16_get(pdu->u.cqe.cid)
							      : pdu->u.data.cccid;

	CHECK(cid < CIDS);
	if (pdu->type == NVME_TCP_PDU_R2T) {
		queue->has_r2t[cid] = true;
		queue->r2t[cid] = *pdu;
		neighbours_of(queue)->hoarded++;
	} else if (pdu->type == NVME_TCP_PDU_CAPSULE_RESP && queue->state != QUEUE_LIVE) {
		on_answer(queue, &pdu->u.cqe);
	} else if (pdu->type == NVME_TCP_PDU_CAPSULE_RESP) {
		queue->is_asked[cid] = queue->has_r2t[cid] = false;
	}
	return PDU_OK;
}

static struct pdu_error on_whole(struct tcp_conn *conn, const struct pdu *pdu, bool *ret_pause)
{
	return on_pdu(conn, pdu, true);
}

/* A host that lost one connection closes its others and reconnects at its next turn. */
static void on_closed(struct tcp_conn *conn, int cause, const char *why)
{
	struct nqueue *queue = container_of(conn, struct nqueue, conn);
	struct neighbour *neighbour = queue->of;

	queue->state = QUEUE_CLOSED;
	if (is_flood(queue))
		return;
	neighbours_of(queue)->cut_off += !neighbour->is_leaving;
	for (unsigned i = 0; i < QUEUES; i++) {
		if (neighbour->queues[i].state != QUEUE_CLOSED)
			tcp_conn_abort(&neighbour->queues[i].conn, 0, "another one was lost");
	}
}

static void queue_open(struct nqueue *queue)
{
	static const struct tcp_conn_handler handler = {on_ready, on_header, on_pdu, on_whole,
							on_closed};
	const struct tcp_conn_config config = {.role = PDU_ROLE_HOST,
					       .data_align_bytes = 4,
					       .max_r2t = 1,
					       .ic_timeout_ms = 1000,
					       .term_timeout_ms = 200};
	struct world *world = queue->of->world;

	memset(queue->is_asked, 0, sizeof(queue->is_asked));
	memset(queue->has_r2t, 0, sizeof(queue->has_r2t));
	queue->state = QUEUE_OPENING;
	CHECK(tcp_conn_connect(&queue->conn, world->neighbours.reactor, &world->addr, &config,
			       &handler) == 0);
}

static bool queue_is_over(const struct nqueue *queue)
{
	return queue->state == QUEUE_CLOSED && queue->tx_busy == 0;
}

static bool neighbour_is_over(const struct neighbour *neighbour)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		if (!queue_is_over(&neighbour->queues[i]))
			return false;
	}
	for (unsigned i = 0; i < FLOOD_CONNS; i++) {
		if (!queue_is_over(&neighbour->flood[i]))
			return false;
	}
	return true;
}

/* ---- what they do ------------------------------------------------------------------------------
 */

static void hoard(struct nqueue *queue)
{
	for (uint16_t cid = 1; cid < CIDS; cid++) {
		if (!queue->is_asked[cid])
			write_ask(queue, cid, WRITE_BYTES / BLOCK_BYTES, WRITE_BYTES);
	}
}

/* Never sends the last bytes, which would complete the write. */
static void drip(struct nqueue *queue)
{
	for (uint16_t cid = 1; cid < CIDS; cid++) {
		uint32_t at = queue->dripped[cid];

		if (!queue->has_r2t[cid] || at + 2 * DRIP_BYTES > queue->r2t[cid].u.data.length)
			continue;
		piece_send(queue, cid, queue->r2t[cid].u.data.offset + at, DRIP_BYTES);
		queue->dripped[cid] = at + DRIP_BYTES;
	}
}

/* Lies about one length: of the data, of the blocks, of a piece. */
static void lie(struct nqueue *queue, struct prng *prng)
{
	uint16_t cid = (uint16_t)(1 + prng_below(prng, CIDS - 1));

	switch (prng_below(prng, 4)) {
	case 0: /* more or less data than the blocks hold */
		if (!queue->is_asked[cid])
			write_ask(queue, cid, 1 + (uint32_t)prng_below(prng, 16), WRITE_BYTES);
		break;
	case 1: /* more than any target can buffer */
		if (!queue->is_asked[cid])
			write_ask(queue, cid, 65536, UINT32_MAX - 511);
		break;
	case 2: /* a piece outside of the R2T */
		if (queue->has_r2t[cid])
			piece_send(queue, cid, WRITE_BYTES - 4, 8);
		break;
	default:
		if (!queue->is_asked[cid])
			write_ask(queue, cid, WRITE_BYTES / BLOCK_BYTES, WRITE_BYTES);
		break;
	}
}

static void flood(struct neighbour *neighbour)
{
	struct prng *prng = &neighbour->world->neighbours.prng;

	for (unsigned i = 0; i < FLOOD_CONNS; i++) {
		struct nqueue *queue = &neighbour->flood[i];

		if (queue_is_over(queue) && prng_one_in(prng, 2))
			queue_open(queue);
		else if (queue->state != QUEUE_CLOSED && prng_one_in(prng, 4))
			tcp_conn_abort(&queue->conn, 0, "enough");
	}
}

static void act(struct neighbour *neighbour, struct nqueue *queue)
{
	switch (neighbour->kind) {
	case NEIGHBOUR_DRIPS:
		drip(queue);
		hoard(queue);
		break;
	case NEIGHBOUR_LIES:
		lie(queue, &neighbour->world->neighbours.prng);
		break;
	default:
		hoard(queue);
		break;
	}
}

static void on_timer(struct reactor_timer *timer)
{
	struct neighbour *neighbour = container_of(timer, struct neighbour, timer);
	struct prng *prng = &neighbour->world->neighbours.prng;

	if (neighbour->is_leaving || neighbour->world->is_failed)
		return;
	if (neighbour->kind == NEIGHBOUR_FLOODS)
		flood(neighbour);
	else if (neighbour_is_over(neighbour))
		queue_open(&neighbour->queues[0]);
	for (unsigned i = 1; i < QUEUES; i++) {
		if (neighbour->queues[i].state == QUEUE_LIVE)
			act(neighbour, &neighbour->queues[i]);
	}
	reactor_timer_arm(timer,
			  sim_now(neighbour->world->sim) + (1 + prng_below(prng, 50)) * NS_PER_MS);
}

/* ---- life --------------------------------------------------------------------------------------
 */

void neighbours_choose(struct world *world, uint64_t seed)
{
	struct neighbours *neighbours = &world->neighbours;

	/* If a process dies, slow commands may be due to that. */
	if (seed % 7 != 4 || world->wreck.is_on)
		return;
	prng_seed(&neighbours->prng, seed * 0xd6e8feb86659fd93ull + 17);
	neighbours->is_on = true;
	for (unsigned i = 0; i < NEIGHBOUR_KINDS; i++)
		neighbours->has_kind[i] = prng_one_in(&neighbours->prng, 2);
	neighbours->has_kind[prng_below(&neighbours->prng, NEIGHBOUR_KINDS)] = true;
}

void neighbours_shrink(struct world *world, struct sim_options *options)
{
	struct neighbours *neighbours = &world->neighbours;
	struct world_plan *plan = &world->plan;

	for (unsigned i = 0; i < NEIGHBOUR_KINDS; i++)
		neighbours->has_kind[i] =
			world_feature(world, (enum world_feature)(FEATURE_NEIGHBOUR + i),
				      neighbours->has_kind[i]);
	if (!neighbours->is_on)
		return;
	plan->cut_one_in = plan->partition_one_in = plan->restart_one_in = 0;
	plan->power_loss_one_in = 0;
	plan->has_small_pools = false;
	plan->faults = options->faults = (struct sim_faults){0};
	world->late = (struct late){0};
}

void neighbours_create(struct world *world)
{
	struct reactor_config config = {.cpu = -1, .index = 9};
	struct media_error error;
	struct media *media;

	if (!world->neighbours.is_on)
		return;
	CHECK(reactor_create(&config, &world->neighbours.reactor) == 0);
	CHECK(media_open("fault:delay:op=read:ms=1@mem:1M,block=512", &media, &error) == 0);
	CHECK(ns_backing_create(media, world->plan.data_reactors, &world->neighbours.backing) == 0);
}

static struct neighbour *neighbour_create(struct world *world, enum neighbour_kind kind)
{
	struct neighbour *neighbour = sim_alloc(sizeof(*neighbour));

	CHECK(neighbour != NULL);
	neighbour->world = world;
	neighbour->index = world->neighbours.count;
	neighbour->kind = kind;
	neighbour->args = (struct connect_args){.subsystem_nqn = TARGET_DEFAULT_NQN,
						.host_id = {{0xee, (uint8_t)kind}}};
	snprintf(neighbour->args.host_nqn, sizeof(neighbour->args.host_nqn),
		 "nqn.2026-11.io.weft:neighbour%u", kind);
	for (unsigned i = 0; i < QUEUES; i++) {
		neighbour->queues[i].of = neighbour;
		neighbour->queues[i].qid = i;
	}
	for (unsigned i = 0; i < FLOOD_CONNS; i++)
		neighbour->flood[i].of = neighbour;
	reactor_timer_init(world->neighbours.reactor, &neighbour->timer, on_timer);
	reactor_timer_arm(&neighbour->timer, sim_now(world->sim));
	return neighbour;
}

void neighbours_start(struct world *world)
{
	struct neighbours *neighbours = &world->neighbours;

	if (!neighbours->is_on)
		return;
	sim_enter(neighbours->reactor);
	for (unsigned i = 0; i < NEIGHBOUR_KINDS; i++) {
		if (neighbours->has_kind[i])
			neighbours->all[neighbours->count++] =
				neighbour_create(world, (enum neighbour_kind)i);
	}
	sim_leave(neighbours->reactor);
}

static void uuid_set(struct uuid *ret_uuid)
{
	uuid_from_name("the neighbours' namespace", ret_uuid);
}

void neighbours_build(const struct world *world, struct subsystem *subsystem)
{
	struct ns *ns = &subsystem->namespaces[subsystem->ns_count];

	if (!world->neighbours.is_on)
		return;
	subsystem->ns_count++;
	*ns = (struct ns){.nsid = NEIGHBOUR_NSID, .ana_group = 1};
	ns_bind(ns, ns_backing_get(world->neighbours.backing));
	uuid_set(&ns->uuid);
}

void neighbours_leave(struct world *world)
{
	struct neighbours *neighbours = &world->neighbours;

	if (!neighbours->is_on)
		return;
	sim_enter(neighbours->reactor);
	for (unsigned i = 0; i < neighbours->count; i++) {
		struct neighbour *neighbour = neighbours->all[i];

		neighbour->is_leaving = true;
		reactor_timer_cancel(&neighbour->timer);
		for (unsigned k = 0; k < QUEUES; k++) {
			if (neighbour->queues[k].state != QUEUE_CLOSED)
				tcp_conn_abort(&neighbour->queues[k].conn, 0, "leaves");
		}
		for (unsigned k = 0; k < FLOOD_CONNS; k++) {
			if (neighbour->flood[k].state != QUEUE_CLOSED)
				tcp_conn_abort(&neighbour->flood[k].conn, 0, "leaves");
		}
	}
	sim_leave(neighbours->reactor);
}

bool neighbours_are_gone(const struct world *world)
{
	for (unsigned i = 0; i < world->neighbours.count; i++) {
		if (!neighbour_is_over(world->neighbours.all[i]))
			return false;
	}
	return true;
}

void neighbours_destroy(struct world *world)
{
	for (unsigned i = 0; i < world->neighbours.count; i++)
		free(world->neighbours.all[i]);
	if (world->neighbours.backing)
		ns_backing_put(world->neighbours.backing);
}

/* ---- bounds ------------------------------------------------------------------------------------
 */

void neighbours_judge(struct world *world, const struct sim_op *op)
{
	struct neighbours *neighbours = &world->neighbours;
	uint64_t took_us = (sim_now(world->sim) - op->sent_ns) / NS_PER_US;

	if (!neighbours->is_on || nvme_status_same(op->cmd.status, NVME_SC_HOST_PATHING_ERROR))
		return;
	if (took_us > neighbours->slowest_us)
		neighbours->slowest_us = took_us;
	if (took_us > BOUND_MS * 1000)
		world_fail(world,
			   "a command of kind %d of host %u took %" PRIu64
			   " us beside hostile neighbours",
			   op->kind, op->host_index, took_us);
}

static void on_drained(void *arg, int res)
{
	struct world *world = arg;

	world->neighbours.is_changing = false;
	if (res != 0)
		world_fail(world, "the barrier of a change beside hostile neighbours ended with %d",
			   res);
}

void neighbours_strike(struct world *world)
{
	struct neighbours *neighbours = &world->neighbours;
	struct target_scope scope = {.uuid_count = 1};
	struct uuid uuid;

	if (!neighbours->is_on || neighbours->is_changing || !prng_one_in(&neighbours->prng, 4) ||
	    !world_event(world))
		return;
	uuid_set(&uuid);
	if (prng_one_in(&neighbours->prng, 2))
		uuid = world->ns[0].uuid;
	scope.uuids = &uuid;
	neighbours->is_changing = true;
	neighbours->change_ns = sim_now(world->sim);
	neighbours->changes++;
	world_apply_and_drain(world, &scope, on_drained);
}

void neighbours_watch(struct world *world)
{
	const struct neighbours *neighbours = &world->neighbours;

	if (neighbours->is_changing &&
	    sim_now(world->sim) - neighbours->change_ns > CHANGE_BOUND_MS * NS_PER_MS)
		world_fail(world, "a change takes more than %u ms beside hostile neighbours",
			   CHANGE_BOUND_MS);
}

void neighbours_count(const struct world *world)
{
	const struct neighbours *neighbours = &world->neighbours;

	sim_counter_add(world->counters, "writes_of_neighbours", neighbours->asked);
	sim_counter_add(world->counters, "buffers_hoarded", neighbours->hoarded);
	sim_counter_add(world->counters, "neighbours_cut_off", neighbours->cut_off);
	sim_counter_add(world->counters, "changes_beside_neighbours", neighbours->changes);
}
