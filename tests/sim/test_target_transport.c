/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target over a transport without descriptors and byte streams, like verbs. Connections arrive
 * as requests in memory, capsules are whole, and the transport itself reads and writes the host's
 * memory, using buffers that it has registered by region.
 */
#include "raw_scene.h"

#include "base/log.h"
#include "target/local.h"

#include <errno.h>

#define CIDS        8
#define MEMORY      (256 * 1024)
#define BLOCK_BYTES 4096

/* The host's side of one queue. */
struct hand_conn {
	struct hand_queue *queue; /* NULL before it is accepted and after it has ended */
	bool is_refused;
	bool is_stopped;
	bool is_ended;
	unsigned fetches;
	bool is_done[CIDS];
	nvme_status status[CIDS];
	uint64_t result[CIDS];
	uint8_t memory[MEMORY]; /* that the host's keys give access to */
};

struct hand_queue {
	struct queue queue; /* first member: the target's part */
	struct hand_conn *conn;
	struct iovec regions[BUF_POOL_CLASSES]; /* as registered */
	struct reactor_msg msg;
};

struct hand_slot {
	struct slot slot; /* first member: the target's part */
	struct reactor_msg work;
};

struct hand_listener {
	struct listener listener; /* first member: the target's part */
	struct reactor_msg msg;
};

static const struct transport_ops hand;
static struct raw_scene scene;
static struct hand_listener *listener_now;
static unsigned listens, unlistens;
static int listen_error, accept_error;

/* ---- listening ------------------------------------------------------------------------------- */

static int hand_listen(struct listener *listener)
{
	EXPECT(listener->transport == &hand && listener->reactor == scene.data);
	if (listen_error)
		return listen_error;
	listens++;
	listener->bound = listener->asked;
	listener_now = container_of(listener, struct hand_listener, listener);
	return 0;
}

static void hand_unlistened(struct reactor_msg *msg)
{
	struct hand_listener *hl = container_of(msg, struct hand_listener, msg);

	unlistens++;
	if (listener_now == hl)
		listener_now = NULL;
	listener_on_closed(&hl->listener);
}

static void hand_unlisten(struct listener *listener)
{
	struct hand_listener *hl = container_of(listener, struct hand_listener, listener);

	reactor_post(listener->reactor, &hl->msg, hand_unlistened);
}

static void hand_refuse(union incoming incoming)
{
	((struct hand_conn *)incoming.request)->is_refused = true;
}

static int hand_accept(struct local *local, const struct arrival *arrival)
{
	struct hand_queue *hq;

	if (accept_error)
		return accept_error;
	hq = calloc(1, sizeof(*hq));
	hq->conn = arrival->incoming.request;
	hq->queue.peer = arrival->peer;
	buf_pool_get_regions(local->buffers, hq->regions);
	CHECK(queue_init(&hq->queue, local, &hand, arrival->port_id) == 0);
	queue_on_ready(&hq->queue, false);
	hq->conn->queue = hq;
	return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

static struct hand_queue *hand_queue_of(struct slot *slot)
{
	return container_of(slot->queue, struct hand_queue, queue);
}

/* What a device requires: the key names a region that contains all of the data. */
static void check_registered(struct slot *slot)
{
	const struct hand_queue *hq = hand_queue_of(slot);
	const struct iovec *region = &hq->regions[slot->data.key];
	size_t at = (size_t)(slot->data.addr - (uint8_t *)region->iov_base);

	EXPECT_EQ(BUF_POOL, slot->data.kind);
	EXPECT(slot->data.key < BUF_POOL_CLASSES && at + slot->data_bytes <= region->iov_len);
}

static void read_done(struct reactor_msg *msg)
{
	struct slot *slot = &container_of(msg, struct hand_slot, work)->slot;

	memcpy(slot->data.addr, hand_queue_of(slot)->conn->memory, slot->data_bytes);
	slot_data_arrived(slot, true);
}

static void hand_fetch(struct slot *slot)
{
	struct hand_slot *hs = container_of(slot, struct hand_slot, slot);

	check_registered(slot);
	hand_queue_of(slot)->conn->fetches++;
	reactor_post(slot->queue->reactor, &hs->work, read_done);
}

static void send_done(struct reactor_msg *msg)
{
	struct slot *slot = &container_of(msg, struct hand_slot, work)->slot;
	struct hand_conn *conn = hand_queue_of(slot)->conn;
	unsigned cid = le16_get(slot->sqe.cid);

	conn->is_done[cid] = true;
	conn->status[cid] = slot->status;
	conn->result[cid] = slot->result;
	slot_release(slot);
}

static void hand_respond(struct slot *slot)
{
	struct hand_slot *hs = container_of(slot, struct hand_slot, slot);
	struct hand_conn *conn = hand_queue_of(slot)->conn;

	if (slot->direction == DATA_TO_HOST && nvme_status_is_ok(slot->status)) {
		check_registered(slot);
		CHECK(slot->data_bytes <= MEMORY);
		memcpy(conn->memory, slot->data.addr, slot->data_bytes);
	}
	reactor_post(slot->queue->reactor, &hs->work, send_done);
}

static void hand_resume(struct queue *queue)
{
}

static void hand_stop(struct queue *queue)
{
	container_of(queue, struct hand_queue, queue)->conn->is_stopped = true;
}

static void hand_closed(struct reactor_msg *msg)
{
	queue_on_closed(&container_of(msg, struct hand_queue, msg)->queue);
}

static void hand_close(struct queue *queue, const char *why)
{
	reactor_post(queue->reactor, &container_of(queue, struct hand_queue, queue)->msg,
		     hand_closed);
}

static void hand_destroy(struct queue *queue)
{
	struct hand_queue *hq = container_of(queue, struct hand_queue, queue);

	hq->conn->is_ended = true;
	hq->conn->queue = NULL;
	free(hq);
}

static const struct transport_ops hand = {
	.name = "hand",
	.trtype = DISCOVERY_RDMA,
	.listener_bytes = sizeof(struct hand_listener),
	.slot_bytes = sizeof(struct hand_slot),
	.listen = hand_listen,
	.unlisten = hand_unlisten,
	.refuse = hand_refuse,
	.accept = hand_accept,
	.fetch = hand_fetch,
	.respond = hand_respond,
	.resume = hand_resume,
	.stop = hand_stop,
	.close = hand_close,
	.destroy = hand_destroy,
};

/* ---- the host -------------------------------------------------------------------------------- */

static struct hand_conn *conn_open(void)
{
	struct hand_conn *conn = sim_alloc(sizeof(*conn));
	struct net_addr from;

	CHECK(net_addr_parse("10.0.0.9:5000", 0, &from) == 0);
	sim_enter(scene.data);
	listener_on_arrival(&listener_now->listener, (union incoming){.request = conn}, &from);
	sim_leave(scene.data);
	raw_scene_run_ms(&scene, 1);
	return conn;
}

/* Runs one command to its end; the transport moves its data, or the capsule has it. */
static bool submit(struct hand_conn *conn, struct nvme_sqe *sqe, const void *capsule,
		   uint32_t capsule_bytes)
{
	struct slot *slot;
	uint32_t granule_bytes;
	uint8_t *dest;

	sqe->cid = le16_of(1);
	conn->is_done[1] = false;
	sim_enter(scene.data);
	slot = slot_take(&conn->queue->queue);
	CHECK(slot);
	slot->sqe = *sqe;
	slot->capsule_bytes = capsule_bytes;
	CHECK(slot_prepare(slot));
	dest = slot_capsule_dest(slot, &granule_bytes);
	if (capsule_bytes > 0 && dest)
		memcpy(dest, capsule, capsule_bytes);
	slot_start(slot, true);
	sim_leave(scene.data);
	raw_scene_run_ms(&scene, 5);
	return conn->is_done[1] && nvme_status_is_ok(conn->status[1]);
}

static bool connect_queue(struct hand_conn *conn, struct connect_args *args)
{
	uint8_t data[NVMF_CONNECT_DATA_BYTES];
	struct nvme_sqe sqe = {0};

	connect_encode(&sqe, data, args);
	sqe.flags = NVME_SQE_PSDT_SGL;
	sgl_encode_in_capsule(&sqe, sizeof(data));
	if (!submit(conn, &sqe, data, sizeof(data)))
		return false;
	if (args->qid == 0)
		args->cntlid = (uint16_t)conn->result[1];
	return true;
}

static void enable_ctrl(struct hand_conn *admin)
{
	struct ctrl_config config = {
		.is_enabled = true, .page_shift = 12, .sq_entry_shift = 6, .cq_entry_shift = 4};
	struct nvme_sqe sqe = {0};

	property_set_encode(&sqe, PROPERTY_CC, cc_encode(&config), false);
	sqe.flags = NVME_SQE_PSDT_SGL;
	EXPECT(submit(admin, &sqe, NULL, 0));
	raw_scene_run_ms(&scene, 10);
}

static bool transfer(struct hand_conn *io, uint8_t opcode, uint64_t block, uint32_t count)
{
	struct io_cmd cmd = {.first_block = block, .block_count = count};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, opcode, 1, &cmd);
	sqe.flags = NVME_SQE_PSDT_SGL;
	sgl_encode_transport(&sqe, count * BLOCK_BYTES);
	return submit(io, &sqe, NULL, 0);
}

static void scene_open(void)
{
	/* The transport does not move data in place, so data goes through buffers. */
	static const struct raw_scene_config config = {
		.specs = {"mem:16M", "mem:16M"},
		.data_timeout_ms = 2000,
		.buf_counts = {16, 8, 4},
		.stop_limit_ms = 5000,
		.transport = &hand,
	};

	listens = unlistens = 0;
	listen_error = accept_error = 0;
	raw_scene_open(&scene, &config);
	EXPECT_EQ(1, listens);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void a_host_is_served_without_descriptors(void)
{
	struct connect_args args = {.queue_size = 32, .cntlid = NVME_CNTLID_ANY};
	struct hand_conn *admin, *io;

	scene_open();
	text_copy(args.subsystem_nqn, sizeof(args.subsystem_nqn), TARGET_DEFAULT_NQN);
	text_copy(args.host_nqn, sizeof(args.host_nqn), "nqn.2014-08.org.test:hand");
	args.host_id.bytes[0] = 1;
	admin = conn_open();
	EXPECT(admin->queue && !admin->is_refused);
	EXPECT(connect_queue(admin, &args));
	enable_ctrl(admin);
	io = conn_open();
	args.qid = 1;
	args.queue_size = 8;
	EXPECT(connect_queue(io, &args));
	/* Small and large data: two buffer sizes, so two regions. */
	for (uint32_t blocks = 1; blocks <= 32; blocks *= 32) {
		for (uint32_t i = 0; i < blocks * BLOCK_BYTES; i++)
			io->memory[i] = (uint8_t)(i / 7 + blocks);
		EXPECT(transfer(io, NVME_IO_WRITE, blocks, blocks));
		memset(io->memory, 0, MEMORY);
		EXPECT(transfer(io, NVME_IO_READ, blocks, blocks));
		for (uint32_t i = 0; i < blocks * BLOCK_BYTES; i++) {
			if (io->memory[i] != (uint8_t)(i / 7 + blocks)) {
				EXPECT(!"what was written comes back");
				break;
			}
		}
	}
	EXPECT_EQ(2, io->fetches);
	raw_scene_close(&scene);
	EXPECT(admin->is_stopped && admin->is_ended && io->is_stopped && io->is_ended);
	EXPECT_EQ(1, unlistens);
	free(admin);
	free(io);
}

static unsigned connections_now(void)
{
	struct target_stats stats;

	target_get_stats(scene.target, &stats);
	return stats.connections;
}

static void what_cannot_be_accepted_is_refused(void)
{
	struct hand_conn *conn;

	scene_open();
	accept_error = -ENOMEM;
	conn = conn_open();
	EXPECT(conn->is_refused && !conn->queue);
	EXPECT_EQ(0, connections_now());
	accept_error = 0;
	raw_scene_close(&scene);
	free(conn);
}

static int apply_res;

static void on_applied(void *arg, int res, const char *error)
{
	apply_res = res;
	scene.is_waiting = false;
}

/* A second port on the address of the first one. */
static void port_add(struct snapshot *snapshot, const struct transport_ops *transport)
{
	struct port *ports = sim_alloc(2 * sizeof(*ports));

	ports[0] = snapshot->ports[0];
	ports[1] = (struct port){.id = 2,
				 .transport = transport,
				 .listen = scene.addr,
				 .subsystem_count = 1,
				 .zero_copy = ZERO_COPY_ON};
	ports[1].subsystems = sim_alloc(sizeof(struct subsystem *));
	ports[1].subsystems[0] = snapshot->subsystems[0];
	free(snapshot->ports);
	snapshot->ports = ports;
	snapshot->port_count = 2;
}

/* second: of the second port; NULL: there is none. */
static int apply_transports(const struct transport_ops *transport,
			    const struct transport_ops *second)
{
	struct snapshot *snapshot;

	scene.is_waiting = true;
	sim_enter(scene.control);
	snapshot = raw_scene_snapshot(&scene);
	snapshot->ports[0].transport = transport;
	if (second)
		port_add(snapshot, second);
	target_apply(scene.target, snapshot, on_applied, NULL);
	sim_leave(scene.control);
	EXPECT(sim_run_while(scene.sim, raw_scene_is_waiting, &scene, NS_PER_S));
	raw_scene_run_ms(&scene, 10);
	return apply_res;
}

static int apply_transport(const struct transport_ops *transport)
{
	return apply_transports(transport, NULL);
}

/* A listener is kept while its port's address and transport stay the same. */
static void a_port_may_change_its_transport(void)
{
	scene_open();
	EXPECT_EQ(0, apply_transport(&hand));
	EXPECT_EQ(1, listens);
	EXPECT_EQ(0, unlistens);
	EXPECT_EQ(0, sim_net_listener_count(scene.sim));
	EXPECT_EQ(0, apply_transport(NULL));
	EXPECT_EQ(1, unlistens);
	EXPECT_EQ(1, sim_net_listener_count(scene.sim));
	listen_error = -ENODEV;
	EXPECT_EQ(-ENODEV, apply_transport(&hand));
	EXPECT_EQ(1, sim_net_listener_count(scene.sim));
	listen_error = 0;
	EXPECT_EQ(0, apply_transport(&hand));
	EXPECT_EQ(2, listens);
	EXPECT_EQ(0, sim_net_listener_count(scene.sim));
	raw_scene_close(&scene);
}

/* One address, and a port of each transport there: each serves its hosts, and one goes alone. */
static void ports_of_two_transports_share_an_address(void)
{
	struct raw_queue *raw = sim_alloc(sizeof(*raw));
	struct hand_conn *conn;

	scene_open();
	EXPECT_EQ(0, apply_transports(&transport_tcp, &hand));
	EXPECT_EQ(2, listens); /* the second port is not the first one with another transport */
	EXPECT_EQ(1, unlistens);
	EXPECT_EQ(1, sim_net_listener_count(scene.sim));
	raw_open(scene.sim, scene.host, raw, &scene.addr);
	EXPECT(raw->is_ready);
	conn = conn_open();
	EXPECT(conn->queue && conn->queue->queue.port_id == 2);
	EXPECT_EQ(2, connections_now());
	EXPECT_EQ(0, apply_transport(&transport_tcp));
	EXPECT_EQ(2, unlistens);
	EXPECT_EQ(1, sim_net_listener_count(scene.sim));
	raw_close(raw);
	raw_scene_close(&scene);
	EXPECT(conn->is_ended);
	free(conn);
	free(raw);
}

int main(void)
{
	log_set_level(LOG_LEVEL_OFF);
	TAP_RUN(a_host_is_served_without_descriptors);
	TAP_RUN(what_cannot_be_accepted_is_refused);
	TAP_RUN(a_port_may_change_its_transport);
	TAP_RUN(ports_of_two_transports_share_an_address);
	return tap_end();
}
