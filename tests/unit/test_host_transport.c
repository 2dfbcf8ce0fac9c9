/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the host side and a transport (host/host_transport.h), seen from the
 * transport: one without bytes, whose controller reads and writes the buffers of commands itself,
 * as a target does by RDMA. Checked: what the host side requests, and what happens to commands when
 * the transport answers late, keeps a buffer, or loses the connection. On the simulated reactor.
 */
#include "host_world.h"

#include "base/text.h"
#include "host/host_transport.h"
#include "host/mpath.h"

#include <errno.h>

#define DIRECT_RTT_NS 12345
#define DIRECT_MARK   0x5eedf00du

struct direct_slot {
	struct host_slot slot;
	struct list node; /* of direct_queue.sent */
	uint32_t mark;    /* DIRECT_MARK plus the index, last in the slot */
};

struct direct_queue {
	struct host_queue queue;
	struct reactor_defer turn;
	struct list sent;
	bool has_connected;
	bool is_ending;
	int cause;
	const char *why;
};

/* The controller, and the behaviour of the transport. */
static struct {
	int connect_res;    /* of `connect` */
	int refusal;        /* ends the connection before it is open */
	bool is_silent;     /* I/O commands are not answered */
	bool is_holding;    /* I/O commands are answered but keep their buffers */
	bool is_never_sent; /* I/O commands are never sent */
	uint32_t cc;
	unsigned forgets;
	unsigned orderly_closes, other_closes;
	struct direct_queue *io; /* the last I/O queue */
	uint8_t store[64 * FAKE_BLOCK_BYTES];
} direct;

static struct direct_queue *direct_queue_of(struct host_queue *queue)
{
	return container_of(queue, struct direct_queue, queue);
}

static uint64_t direct_property(const struct nvme_sqe *sqe)
{
	static const struct ctrl_capabilities cap = {
		.queue_size_max = 64, .ready_timeout_ms = 1000, .supports_nvm = true};
	struct property_cmd cmd;

	EXPECT(nvme_status_is_ok(property_decode(sqe, &cmd)));
	if (fabrics_type(sqe) == NVMF_PROPERTY_SET)
		direct.cc = (uint32_t)cmd.value;
	else if (cmd.offset == PROPERTY_CAP)
		return cap_encode(&cap);
	else if (cmd.offset == PROPERTY_VS)
		return NVME_VERSION_BASE;
	else if (cmd.offset == PROPERTY_CC)
		return direct.cc;
	else if (cmd.offset == PROPERTY_CSTS)
		return (cc_decode(direct.cc).is_enabled ? CSTS_RDY : 0u) |
		       (cc_decode(direct.cc).shutdown != 0 ? CSTS_SHST_COMPLETE : 0u);
	return 0;
}

/* The controller behind each transport has an ID of its own. */
static uint16_t direct_cntlid(const struct host_queue *queue)
{
	return queue->transport->trtype == DISCOVERY_RDMA ? 7 : 8;
}

static uint64_t direct_fabrics(const struct host_slot *slot)
{
	const struct nvme_sqe *sqe = &slot->cmd->sqe;

	return fabrics_type(sqe) == NVMF_CONNECT ? direct_cntlid(slot->queue)
						 : direct_property(sqe);
}

static uint64_t direct_admin(const struct host_slot *slot)
{
	const struct host_cmd *cmd = slot->cmd;
	const struct ctrl_identity identity = {
		.serial = "1",
		.model = "direct",
		.firmware = "1",
		.subsystem_nqn = "nqn.2026-11.io.weft:default",
		.type = CTRL_TYPE_IO,
		.cntlid = direct_cntlid(slot->queue),
		.version = NVME_VERSION_BASE,
		.queue_entries_max = 64,
		.namespace_id_max = 1,
	};

	if (cmd->sqe.opcode == NVME_ADMIN_IDENTIFY && (le32_get(cmd->sqe.cdw10) & 0xff) == 1)
		identify_ctrl_encode(&identity, cmd->data);
	else if (cmd->data_bytes > 0)
		memset(cmd->data, 0, cmd->data_bytes); /* no namespaces */
	return feature_queue_count_encode(2, 2);
}

static void direct_io(const struct host_cmd *cmd)
{
	struct io_cmd io;
	uint8_t *block;

	io_cmd_decode(&cmd->sqe, &io);
	block = direct.store + io.first_block * FAKE_BLOCK_BYTES;
	CHECK(io.first_block * FAKE_BLOCK_BYTES + cmd->data_bytes <= sizeof(direct.store));
	if (cmd->sqe.opcode == NVME_IO_WRITE)
		memcpy(block, cmd->data, cmd->data_bytes);
	else
		memcpy(cmd->data, block, cmd->data_bytes);
}

/* Executes one command at the controller, or keeps it pending. */
static void direct_serve(struct direct_slot *ds)
{
	struct host_slot *slot = &ds->slot;
	const struct host_cmd *cmd = slot->cmd;
	uint64_t result = 0;

	EXPECT_EQ(DIRECT_MARK + slot->index, ds->mark);
	EXPECT_EQ(slot->index, le16_get(cmd->sqe.cid));
	if (cmd->sqe.opcode == NVME_OPCODE_FABRICS)
		result = direct_fabrics(slot);
	else if (slot->queue->qid == 0 && cmd->sqe.opcode == NVME_ADMIN_ASYNC_EVENT)
		return;
	else if (slot->queue->qid == 0)
		result = direct_admin(slot);
	else if (direct.is_silent || direct.is_never_sent)
		return;
	else if (!slot->is_forgotten)
		direct_io(cmd);
	if (!slot->has_answer)
		host_slot_answer(slot, NVME_SC_SUCCESS, result);
	if (slot->queue->qid != 0 && direct.is_holding)
		return;
	list_remove(&ds->node);
	host_slot_finish(slot);
}

static void direct_end(struct direct_queue *dq)
{
	struct direct_slot *slots = dq->queue.slots;

	for (uint32_t i = 0; i < dq->queue.slot_count; i++) {
		slots[i].slot.is_begun = !direct.is_never_sent;
		list_init(&slots[i].node);
	}
	host_queue_on_closed(&dq->queue, dq->cause, dq->why);
}

/* Handles what was sent since the last turn. */
static void direct_turn(struct reactor_defer *turn)
{
	struct direct_queue *dq = container_of(turn, struct direct_queue, turn);
	struct list served;
	struct list *node;

	if (dq->is_ending) {
		direct_end(dq);
		return;
	}
	if (!dq->has_connected) {
		dq->has_connected = true;
		dq->queue.is_open = true;
		host_queue_on_ready(&dq->queue);
	}
	dq->queue.heard_ns = reactor_now_ns(dq->queue.reactor);
	list_init(&served);
	list_splice_back(&served, &dq->sent);
	while ((node = list_pop_front(&served)) != NULL) {
		list_push_back(&dq->sent, node);
		direct_serve(list_entry(node, struct direct_slot, node));
	}
}

static void direct_begin_end(struct direct_queue *dq, int cause, const char *why)
{
	if (dq->is_ending)
		return;
	dq->queue.is_open = false;
	dq->is_ending = true;
	dq->cause = cause;
	dq->why = why;
	reactor_defer(dq->queue.reactor, &dq->turn);
}

static int direct_connect(struct host_queue *queue)
{
	struct direct_queue *dq = direct_queue_of(queue);
	struct direct_slot *slots = queue->slots;

	if (direct.connect_res != 0)
		return direct.connect_res;
	for (uint32_t i = 0; i < queue->slot_count; i++) {
		EXPECT(host_queue_slot(queue, i) == &slots[i].slot);
		slots[i].mark = DIRECT_MARK + i;
	}
	list_init(&dq->sent);
	reactor_defer_init(&dq->turn, direct_turn);
	if (queue->qid != 0)
		direct.io = dq;
	if (direct.refusal != 0)
		direct_begin_end(dq, direct.refusal, "refused");
	else
		reactor_defer(queue->reactor, &dq->turn);
	return 0;
}

static void direct_send(struct host_slot *slot)
{
	struct direct_slot *ds = container_of(slot, struct direct_slot, slot);
	struct direct_queue *dq = direct_queue_of(slot->queue);

	EXPECT(dq->queue.is_open && slot->cmd != NULL && !slot->has_answer && !slot->is_forgotten);
	list_push_back(&dq->sent, &ds->node);
	dq->queue.sent_ns = reactor_now_ns(dq->queue.reactor);
	reactor_defer(dq->queue.reactor, &dq->turn);
}

static void direct_forget(struct host_slot *slot)
{
	/* The command is still the caller's: the transport may need its memory. */
	EXPECT(slot->cmd != &slot->queue->forgotten && !slot->is_forgotten);
	direct.forgets++;
}

static void direct_close(struct host_queue *queue, bool is_orderly, const char *why)
{
	direct.orderly_closes += is_orderly;
	direct.other_closes += !is_orderly;
	direct_begin_end(direct_queue_of(queue), is_orderly ? -ESHUTDOWN : -ECONNABORTED, why);
}

static void direct_get_stats(struct host_queue *queue, struct host_queue_stats *stats)
{
	stats->rtt_ns = DIRECT_RTT_NS;
}

static const struct host_transport transport_direct = {
	.name = "direct",
	.trtype = DISCOVERY_RDMA,
	.connect_step = "direct connect",
	.queue_bytes = sizeof(struct direct_queue),
	.slot_bytes = sizeof(struct direct_slot),
	.connect = direct_connect,
	.send = direct_send,
	.forget = direct_forget,
	.close = direct_close,
	.get_stats = direct_get_stats,
};

/* The same behaviour as another transport, with port numbers of its own. */
static const struct host_transport transport_other = {
	.name = "other",
	.trtype = 254,
	.connect_step = "other connect",
	.queue_bytes = sizeof(struct direct_queue),
	.slot_bytes = sizeof(struct direct_slot),
	.connect = direct_connect,
	.send = direct_send,
	.forget = direct_forget,
	.close = direct_close,
	.get_stats = direct_get_stats,
};

static struct world *direct_world(uint64_t seed)
{
	struct world *world = world_create(seed);

	memset(&direct, 0, sizeof(direct));
	world->config.addr.transport = &transport_direct;
	world->config.io_queue_size = 5;
	return world;
}

/* The controller serves pending commands under the current settings. The end of a turn, and so
 * every sim_leave, does the same for commands sent in it. */
static void direct_go_on(struct world *world)
{
	sim_enter(world->reactor);
	reactor_defer(world->reactor, &direct.io->turn);
	sim_leave(world->reactor);
}

/* Ends the connection as a cut wire does. */
static void direct_cut(struct world *world)
{
	sim_enter(world->reactor);
	direct_begin_end(direct.io, -ECONNRESET, "cut");
	sim_leave(world->reactor);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void any_transport_carries_a_controller(void)
{
	struct world *world = direct_world(1);
	struct host_queue_stats stats;

	if (world_connect_ok(world)) {
		EXPECT_EQ(7, host_ctrl_cntlid(world->ctrl));
		for (unsigned i = 0; i < 20; i++)
			memset(world->cmds[i].data, 0x40 + (int)i, FAKE_BLOCK_BYTES);
		/* More commands than the queue has slots. */
		world_submit(world, 20, true, 1);
		world_drain(world);
		expect_status(world, 20, NVME_SC_SUCCESS);
		for (unsigned i = 0; i < 20; i++) {
			world->cmds[i].done_count = 0;
			memset(world->cmds[i].data, 0, FAKE_BLOCK_BYTES);
		}
		world_submit(world, 20, false, 1);
		world_drain(world);
		expect_status(world, 20, NVME_SC_SUCCESS);
		for (unsigned i = 0; i < 20; i++)
			EXPECT_EQ(0x40 + i, world->cmds[i].data[FAKE_BLOCK_BYTES - 1]);
		sim_enter(world->reactor);
		host_ctrl_queue_stats(world->ctrl, 0, &stats);
		EXPECT_EQ(DIRECT_RTT_NS, stats.rtt_ns);
		EXPECT_EQ(40, stats.commands - 1); /* without the Connect */
		EXPECT_EQ(direct.io->queue.heard_ns, stats.heard_ns);
		EXPECT(host_ctrl_last_sent_ns(world->ctrl) >= direct.io->queue.sent_ns);
		sim_leave(world->reactor);
	}
	world_destroy(world);
	EXPECT(direct.orderly_closes + direct.other_closes > 0);
}

static void connect_without_memory_fails_at_once(void)
{
	struct host_callbacks callbacks = {.connected = on_connected};
	struct world *world = direct_world(2);

	direct.connect_res = -ENOMEM;
	sim_enter(world->reactor);
	EXPECT_EQ(-ENOMEM,
		  host_connect(world->reactor, &world->config, &callbacks, world, &world->ctrl));
	sim_leave(world->reactor);
	EXPECT(world->ctrl == NULL);
	EXPECT_EQ(0, world->connected_count);
	world_destroy(world);
}

static void refused_connection_names_its_step(void)
{
	static const struct {
		int refusal;
		const char *text;
	} rows[] = {
		{-ECONNREFUSED, "connection refused; is `weft serve` running?"},
		{-EPROTO, "ended during direct connect: protocol error (refused)"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct world *world = direct_world(3);

		direct.refusal = rows[i].refusal;
		world_connect(world);
		EXPECT_EQ(rows[i].refusal, world->result);
		EXPECT(strstr(world->error.text, rows[i].text) != NULL);
		world_destroy(world);
	}
}

/* The answer counts once the transport releases the buffer or the connection ends. */
static void answer_waits_for_the_buffer(bool is_cut)
{
	struct world *world = direct_world(4);

	if (world_connect_ok(world)) {
		direct.is_holding = true;
		world_submit(world, 2, true, 1);
		EXPECT_EQ(0, world->done_count);
		direct.is_holding = false;
		if (is_cut)
			direct_cut(world);
		else
			direct_go_on(world);
		world_drain(world);
		expect_status(world, 2, NVME_SC_SUCCESS);
		EXPECT(world->cmds[0].cmd.may_have_run);
	}
	world_destroy(world);
}

static void answered_command_ends_with_its_buffer(void)
{
	answer_waits_for_the_buffer(false);
	answer_waits_for_the_buffer(true);
}

/* Ten commands on four slots: those in slots may have run if they were sent. */
static void lost_commands_tell_whether_they_left(void)
{
	for (unsigned has_left = 0; has_left < 2; has_left++) {
		struct world *world = direct_world(5);

		if (world_connect_ok(world)) {
			direct.is_silent = true;
			direct.is_never_sent = !has_left;
			world_submit(world, 10, true, 1);
			direct_cut(world);
			/* The connection is ending: the command is pending until the end. */
			sim_enter(world->reactor);
			host_cmd_read(&world->cmds[10].cmd, 1, 0, 1, world->cmds[10].data,
				      FAKE_BLOCK_BYTES);
			cmd_submit(world, 10);
			sim_leave(world->reactor);
			expect_loss(world, 11, "(cut)");
			for (unsigned i = 0; i < 11; i++)
				EXPECT_EQ(i < 4 && has_left, world->cmds[i].cmd.may_have_run);
		}
		world_destroy(world);
	}
}

static void forgotten_slot_drains(void)
{
	struct world *world = direct_world(6);
	struct host_queue_stats stats;

	if (world_connect_ok(world)) {
		direct.is_silent = true;
		world_submit(world, 1, false, 1);
		memset(world->cmds[0].data, 0x11, FAKE_BLOCK_BYTES);
		sim_enter(world->reactor);
		host_cmd_forget(world->ctrl, 0, &world->cmds[0].cmd);
		host_ctrl_queue_stats(world->ctrl, 0, &stats);
		sim_leave(world->reactor);
		world->submitted_count--;
		EXPECT_EQ(1, direct.forgets);
		EXPECT_EQ(1, stats.in_flight);
		direct.is_silent = false;
		direct_go_on(world);
		sim_enter(world->reactor);
		host_ctrl_queue_stats(world->ctrl, 0, &stats);
		sim_leave(world->reactor);
		EXPECT_EQ(0, stats.in_flight);
		EXPECT_EQ(0, world->done_count);
		EXPECT_EQ(0x11, world->cmds[0].data[0]);
	}
	world_destroy(world);
}

/* ---- addresses and paths -------------------------------------------------------------------- */

static struct host_addr addr_over(const struct host_transport *transport, const char *text)
{
	struct host_addr addr = {.transport = transport};

	CHECK(net_addr_parse(text, 0, &addr.net) == 0);
	return addr;
}

static void address_is_of_a_transport(void)
{
	struct host_addr unnamed = addr_over(NULL, "10.0.0.1:4420");
	struct host_addr tcp = addr_over(&host_transport_tcp, "10.0.0.1:4420");
	struct host_addr direct_addr = addr_over(&transport_direct, "10.0.0.1:4420");
	struct host_addr ipv6 = addr_over(&transport_direct, "[fd00::1]:5");
	struct host_addr other_port = addr_over(&transport_direct, "10.0.0.1:4421");
	char text[HOST_ADDR_TEXT_BYTES];

	EXPECT(host_addr_same(&unnamed, &tcp) && host_addr_same(&tcp, &unnamed));
	EXPECT(!host_addr_same(&unnamed, &direct_addr) && !host_addr_same(&direct_addr, &tcp));
	EXPECT(host_addr_same(&direct_addr, &direct_addr));
	EXPECT(!host_addr_same(&direct_addr, &other_port) && !host_addr_same(&direct_addr, &ipv6));
	EXPECT_STR("10.0.0.1:4420", host_addr_format(&unnamed, text));
	EXPECT_STR("10.0.0.1:4420", host_addr_format(&tcp, text));
	EXPECT_STR("direct 10.0.0.1:4420", host_addr_format(&direct_addr, text));
	EXPECT_STR("direct [fd00::1]:5", host_addr_format(&ipv6, text));
	EXPECT_STR("tcp", host_addr_transport_name(&unnamed));
	EXPECT_STR("direct", host_addr_transport_name(&direct_addr));
}

static void transports_of_the_build_are_found(void)
{
	EXPECT(host_transport_of(DISCOVERY_TCP) == &host_transport_tcp);
	EXPECT(host_transport_of(DISCOVERY_RDMA) == NULL);
	EXPECT(host_transport_find("tcp") == &host_transport_tcp);
	EXPECT(host_transport_find("rdma") == NULL && host_transport_find("") == NULL);
	EXPECT_STR("tcp", host_transport_names());
}

static bool is_mpath_there;

static void on_mpath_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	EXPECT_EQ(0, res);
}

static void on_mpath_gone(void *arg)
{
	is_mpath_there = false;
}

static bool mpath_is_there(void *arg)
{
	return is_mpath_there;
}

static void path_infos_check(struct mpath *mpath, const char *first, const char *second)
{
	const char *const names[] = {first, second};
	char text[HOST_ADDR_TEXT_BYTES];
	struct path_info info;

	EXPECT_EQ(second ? 2 : 1, mpath_path_count(mpath));
	for (unsigned i = 0; i < mpath_path_count(mpath); i++) {
		mpath_path_info(mpath, i, &info);
		EXPECT_STR(names[i], host_addr_format(&info.addr, text));
		EXPECT_EQ(PATH_LIVE, info.state);
		EXPECT_STR("", info.refusal);
	}
}

static void mpath_run(struct world *world, uint64_t ms)
{
	sim_leave(world->reactor);
	sim_run_until(world->sim, sim_now(world->sim) + ms * NS_PER_MS);
	sim_enter(world->reactor);
}

/* One IP address and port number over two transports: two paths, each live and removed alone. */
static void paths_of_two_transports_share_an_address(void)
{
	static const struct mpath_callbacks callbacks = {.ready = on_mpath_ready};
	struct world *world = direct_world(7);
	struct host_addr addrs[] = {addr_over(&transport_direct, "10.0.0.1:4420"),
				    addr_over(&transport_other, "10.0.0.1:4420"),
				    addr_over(&transport_direct, "10.0.0.1:4420")};
	struct mpath_config config = {.io_queues = 1, .io_queue_size = 8, .numa_node = -1};
	struct mpath *mpath = NULL;

	host_timeouts_fill(&config.timeouts, HOST_PROFILE_DEFAULT);
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), world->config.subsystem_nqn);
	text_copy(config.host_nqn, sizeof(config.host_nqn), world->config.host_nqn);
	config.host_id = world->config.host_id;
	sim_enter(world->reactor);
	EXPECT_EQ(-EINVAL, mpath_open(world->reactor, &config, addrs, 3, &callbacks, NULL, &mpath));
	CHECK(mpath_open(world->reactor, &config, addrs, 2, &callbacks, NULL, &mpath) == 0);
	is_mpath_there = true;
	mpath_run(world, 1000);
	path_infos_check(mpath, "direct 10.0.0.1:4420", "other 10.0.0.1:4420");
	EXPECT_EQ(-EEXIST, mpath_add_path(mpath, &addrs[2]));
	EXPECT_EQ(0, mpath_remove_path(mpath, &addrs[0]));
	EXPECT_EQ(-ENOENT, mpath_remove_path(mpath, &addrs[0]));
	mpath_run(world, 1000);
	path_infos_check(mpath, "other 10.0.0.1:4420", NULL);
	EXPECT_EQ(0, mpath_add_path(mpath, &addrs[0]));
	mpath_run(world, 1000);
	path_infos_check(mpath, "other 10.0.0.1:4420", "direct 10.0.0.1:4420");
	mpath_close(mpath, on_mpath_gone, NULL);
	sim_leave(world->reactor);
	EXPECT(sim_run_while(world->sim, mpath_is_there, NULL, 60 * NS_PER_S));
	world_destroy(world);
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(any_transport_carries_a_controller);
	TAP_RUN(connect_without_memory_fails_at_once);
	TAP_RUN(refused_connection_names_its_step);
	TAP_RUN(answered_command_ends_with_its_buffer);
	TAP_RUN(lost_commands_tell_whether_they_left);
	TAP_RUN(forgotten_slot_drains);
	TAP_RUN(address_is_of_a_transport);
	TAP_RUN(transports_of_the_build_are_found);
	TAP_RUN(paths_of_two_transports_share_an_address);
	return tap_end();
}
