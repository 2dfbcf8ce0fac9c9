/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A multipath host and up to three scripted controllers of one subsystem (fake_ctrl.h) on simulated
 * reactors. A struct actor holds what its controller answers; a function of the test handles the
 * first command of an opcode. One thread; the seed determines everything.
 */
#ifndef WEFT_TESTS_SCRIPT_WORLD_H
#define WEFT_TESTS_SCRIPT_WORLD_H

#include "../sim/sim.h"
#include "tap.h"

#include "base/log.h"
#include "fake_ctrl.h"
#include "host/mpath.h"
#include "wire/ctrl_reset.h"
#include "wire/log_page.h"

#define ACTORS_MAX  3
#define ANA_GROUPS  200 /* log longer than one read */
#define CROWD_MAX   5000
#define SUBSYSTEM   "nqn.2026-11.io.weft:script"
#define HOST_NQN    "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"
#define KATO_MS     120000
#define SCRIPT_CIRN 0x1234567890abcdefull

struct actor {
	struct fake *fake;
	struct ns_identity ns;
	bool lacks_ns;
	bool has_ana;
	uint64_t ana_count; /* change count in the log's header */
	bool moves_ana;     /* once, between two reads of the log */
	unsigned ana_reads;
	uint32_t ns_group;       /* ANA group that lists the namespace; 0: none */
	uint32_t crowd;          /* number of other namespaces before it in group 1 */
	uint32_t barred_group;   /* inaccessible in the log, and for I/O in ns_group; 0: none */
	bool lists_too_many;     /* more namespaces than are possible */
	nvme_status look_status; /* of Identify Namespace; on success the page is sent */
	unsigned looks_refused;  /* number of refusals before it answers */
	void (*spoil)(uint8_t cns, uint8_t *page); /* changes an Identify page; may be NULL */
	unsigned looks;
	unsigned resets;
	bool resets_at_once;
	uint8_t reset_state;        /* of the entry in the log */
	uint16_t reset_count;       /* count in the log's header; the page always has the entry */
	nvme_status feature_status; /* of Get Features */
	unsigned feature_gets;
};

struct script_world {
	struct sim *sim;
	struct reactor *reactor;
	struct actor actors[ACTORS_MAX];
	unsigned actor_count;
	struct mpath_config config;
	struct mpath *mpath;
	unsigned ready_count;
	int ready_res;
	struct host_error ready_error;
	bool is_gone;
	char said[512]; /* last error text of a path that contains the searched text */
	const char *listens_for;
	struct actor *victim; /* first one that got a command of victim_opcode */
	uint8_t victim_opcode;
	void (*on_victim)(struct fake_conn *fc, const struct nvme_sqe *sqe);
	unsigned io_commands;
	nvme_status io_status; /* success: I/O commands are executed */
	bool is_mute;          /* answers no command, not even Connect */
};

struct script_io {
	struct mpath_io io;
	struct mpath_io second;
	struct iovec iov;
	struct iovec second_iov;
	bool is_done;
	uint8_t data[FAKE_BLOCK_BYTES];
	uint8_t second_data[FAKE_BLOCK_BYTES];
};

static struct script_world world;

static struct actor *actor_of(const struct fake *fake)
{
	for (unsigned i = 0; i < world.actor_count; i++)
		if (world.actors[i].fake == fake)
			return &world.actors[i];
	CHECK(!"an actor has this fake");
	return NULL;
}

/* ---- the script ------------------------------------------------------------------------------ */

static void answer_identify_ctrl(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct actor *actor = actor_of(fc->fake);
	struct ctrl_identity identity = {
		.serial = "1",
		.model = "script",
		.firmware = "1",
		.subsystem_nqn = SUBSYSTEM,
		.type = CTRL_TYPE_IO,
		.cntlid = fc->fake->cntlid,
		.version = NVME_VERSION_BASE,
		.has_multiple_ctrls = true,
		.has_ana = actor->has_ana,
		.has_log_offsets = true,
		.has_fused_compare = true,
		.has_compare = true,
		.ana_group_max = ANA_GROUPS,
		.ana_group_count = ANA_GROUPS,
		.uniquifier = 7,
		.random_number = SCRIPT_CIRN,
		.reset_limit = 4,
		.abort_limit = 4,
		.async_event_limit = 4,
		.error_log_entries = 1,
		.keep_alive_step_ms = 100,
		.queue_entries_max = 64,
		.namespace_id_max = 1,
		.in_capsule_bytes = FAKE_IN_CAPSULE,
	};
	uint8_t page[NVME_PAGE_BYTES];

	identify_ctrl_encode(&identity, page);
	fake_send_page(fc, le16_get(sqe->cid), page, sizeof(page));
}

static void answer_identify(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	static const uint32_t nsids[] = {1};
	struct actor *actor = actor_of(fc->fake);
	uint8_t page[NVME_PAGE_BYTES] = {0};
	struct identify_cmd cmd;

	identify_cmd_decode(sqe, &cmd);
	if (cmd.cns == IDENTIFY_CTRL) {
		answer_identify_ctrl(fc, sqe);
		return;
	}
	if (cmd.cns == IDENTIFY_NS) {
		actor->looks++;
		if (actor->looks_refused > 0) {
			actor->looks_refused--;
			fake_respond(fc, le16_get(sqe->cid), actor->look_status, 0);
			return;
		}
		identify_ns_encode(&actor->ns, page);
	} else if (cmd.cns == IDENTIFY_NS_DESCRIPTORS) {
		identify_ns_descriptors_encode(&actor->ns, page);
	} else {
		identify_ns_list_encode(nsids, actor->lacks_ns ? 0 : 1, page);
	}
	if (actor->spoil != NULL)
		actor->spoil(cmd.cns, page);
	fake_send_page(fc, le16_get(sqe->cid), page, sizeof(page));
}

static void answer_ana_log(struct fake_conn *fc, const struct nvme_sqe *sqe,
			   const struct log_cmd *cmd)
{
	static uint8_t log[LOG_ANA_HEADER_BYTES + ANA_GROUPS * LOG_ANA_GROUP_BYTES +
			   (CROWD_MAX + 1) * sizeof(le32)];
	struct actor *actor = actor_of(fc->fake);
	uint32_t at = LOG_ANA_HEADER_BYTES;

	actor->ana_reads++;
	if (actor->moves_ana && cmd->offset > 0) {
		actor->ana_count++;
		actor->moves_ana = false;
	}
	log_ana_header_encode(actor->ana_count, ANA_GROUPS, log);
	for (uint32_t group = 1; group <= ANA_GROUPS; group++) {
		uint32_t crowd = group == 1 ? actor->crowd : 0;
		uint32_t count = crowd + (group == actor->ns_group);

		log_ana_group_encode(
			group, actor->lists_too_many ? UINT32_MAX : count, actor->ana_count,
			group == actor->barred_group ? ANA_INACCESSIBLE : ANA_OPTIMIZED, log + at);
		at += LOG_ANA_GROUP_BYTES;
		for (uint32_t i = 0; i < count; i++, at += sizeof(le32)) {
			le32 nsid = le32_of(i < crowd ? i + 2 : 1);

			memcpy(log + at, &nsid, sizeof(nsid));
		}
	}
	/* Only the first piece may reach beyond the end of the log. */
	CHECK(cmd->offset == 0 || cmd->offset + cmd->len_bytes <= at);
	fake_send_page(fc, le16_get(sqe->cid), log + cmd->offset, cmd->len_bytes);
}

static void answer_reset_log(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct actor *actor = actor_of(fc->fake);
	struct log_ctrl_reset_entry entry = {.cntlid = world.victim->fake->cntlid,
					     .uniquifier = 7,
					     .asked_cntlid = fc->fake->cntlid,
					     .state = actor->reset_state};
	static uint8_t log[LOG_CTRL_RESET_BYTES];

	log_ctrl_reset_header_encode(actor->reset_count, log);
	log_ctrl_reset_entry_encode(&entry, log + LOG_CTRL_RESET_HEADER_BYTES);
	fake_send_page(fc, le16_get(sqe->cid), log, sizeof(log));
}

static bool answer_admin(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct actor *actor = actor_of(fc->fake);
	struct log_cmd log;

	if (sqe->opcode == NVME_ADMIN_IDENTIFY) {
		answer_identify(fc, sqe);
		return true;
	}
	if (sqe->opcode == NVME_ADMIN_CTRL_RESET) {
		actor->resets++;
		fake_respond(fc, le16_get(sqe->cid), NVME_SC_SUCCESS,
			     ctrl_reset_result_encode(actor->resets_at_once));
		return true;
	}
	if (sqe->opcode == NVME_ADMIN_GET_FEATURES) {
		actor->feature_gets++;
		fake_respond(fc, le16_get(sqe->cid), actor->feature_status, 0);
		return true;
	}
	if (sqe->opcode != NVME_ADMIN_GET_LOG_PAGE)
		return false;
	log_cmd_decode(sqe, &log);
	if (log.log_id == LOG_ANA)
		answer_ana_log(fc, sqe, &log);
	else if (log.log_id == LOG_CTRL_RESET)
		answer_reset_log(fc, sqe);
	else
		return false;
	return true;
}

static bool on_script(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (world.is_mute || sqe->opcode == NVME_OPCODE_FABRICS)
		return world.is_mute;
	if (fc->qid == 0)
		return answer_admin(fc, sqe);
	world.io_commands++;
	if (actor_of(fc->fake)->barred_group != 0 &&
	    actor_of(fc->fake)->barred_group == actor_of(fc->fake)->ns_group) {
		fake_respond(fc, le16_get(sqe->cid), NVME_SC_ANA_INACCESSIBLE, 0);
		return true;
	}
	if (!nvme_status_is_ok(world.io_status)) {
		fake_respond(fc, le16_get(sqe->cid), world.io_status, 0);
		return true;
	}
	if (world.on_victim == NULL || sqe->opcode != world.victim_opcode || world.victim != NULL)
		return false;
	world.victim = actor_of(fc->fake);
	world.on_victim(fc, sqe);
	return true;
}

/* Sends the event of a changed ANA log. */
static void actor_notify_ana(struct actor *actor)
{
	struct fake *fake = actor->fake;
	const struct async_event event = {
		.type = ASYNC_TYPE_NOTICE, .info = ASYNC_NOTICE_ANA_CHANGE, .log_id = LOG_ANA};

	actor->ana_count++;
	CHECK(fake->has_event);
	fake->has_event = false;
	sim_enter(fake->reactor);
	fake_respond(fake->event_conn, fake->event_cid, NVME_SC_SUCCESS,
		     async_event_encode(&event));
	sim_leave(fake->reactor);
}

/* Ends all connections of the controller. The host does not reconnect within a test. */
static void actor_hang_up(struct fake *fake)
{
	for (unsigned i = 0; i < FAKE_CONNS; i++)
		if (fake->conns[i].is_used)
			tcp_conn_close(&fake->conns[i].conn, "a test says so");
}

/* ---- the world ------------------------------------------------------------------------------- */

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	world.ready_count++;
	world.ready_res = res;
	if (error != NULL)
		world.ready_error = *error;
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	if (world.listens_for != NULL && strstr(what, world.listens_for) != NULL)
		snprintf(world.said, sizeof(world.said), "%s", what);
}

static void script_world_create(uint64_t seed, unsigned actor_count)
{
	static const struct sim_options options = {.is_orderly = true};
	struct reactor_config config = {.index = 0, .cpu = -1};

	memset(&world, 0, sizeof(world));
	world.sim = sim_create(seed, &options);
	CHECK(reactor_create(&config, &world.reactor) == 0);
	world.actor_count = actor_count;
	for (unsigned i = 0; i < actor_count; i++) {
		struct actor *actor = &world.actors[i];

		actor->fake = fake_create(world.sim);
		actor->fake->cntlid = (uint16_t)(10 + i);
		actor->fake->script = on_script;
		actor->ns = (struct ns_identity){.block_count = FAKE_BLOCKS,
						 .blocks_used = FAKE_BLOCKS,
						 .block_bytes = FAKE_BLOCK_BYTES,
						 .is_shared = true,
						 .ana_group_id = 1,
						 .uuid = {{9, 9}}};
	}
	world.config = (struct mpath_config){.subsystem_nqn = SUBSYSTEM,
					     .host_nqn = HOST_NQN,
					     .host_id = {{1}},
					     .policy = PATH_POLICY_ROUND_ROBIN,
					     .numa_node = -1};
	host_timeouts_fill(&world.config.timeouts, HOST_PROFILE_DEFAULT);
	world.config.timeouts.keep_alive_ms = KATO_MS;
	world.config.timeouts.reset_ms = KATO_MS;
	world.config.timeouts.reconnect_min_ms = KATO_MS;
	world.config.timeouts.reconnect_max_ms = KATO_MS;
}

static bool is_not_ready(void *arg)
{
	return world.ready_count == 0;
}

static struct path_info info_of(unsigned path)
{
	struct path_info info;

	sim_enter(world.reactor);
	mpath_path_info(world.mpath, path, &info);
	sim_leave(world.reactor);
	return info;
}

static bool is_not_live(void *arg)
{
	for (unsigned i = 0; i < mpath_path_count(world.mpath); i++)
		if (info_of(i).state != PATH_LIVE)
			return true;
	return false;
}

static int script_world_open(void)
{
	static const struct mpath_callbacks callbacks = {.ready = on_ready,
							 .path_changed = on_path_changed};
	struct host_addr addrs[ACTORS_MAX];
	int res;

	for (unsigned i = 0; i < world.actor_count; i++)
		addrs[i] = (struct host_addr){.net = world.actors[i].fake->listener.addr};
	sim_enter(world.reactor);
	res = mpath_open(world.reactor, &world.config, addrs, world.actor_count, &callbacks, NULL,
			 &world.mpath);
	sim_leave(world.reactor);
	return res;
}

/* Waits until all paths are live. False: the test must end. */
static bool script_world_connect(void)
{
	CHECK(script_world_open() == 0);
	EXPECT(sim_run_while(world.sim, is_not_ready, NULL, 3 * NS_PER_S));
	EXPECT_EQ(0, world.ready_res);
	EXPECT(sim_run_while(world.sim, is_not_live, NULL, 3 * NS_PER_S));
	return world.ready_count == 1 && world.ready_res == 0 && !is_not_live(NULL);
}

static void on_gone(void *arg)
{
	world.is_gone = true;
}

static bool is_settling(void *arg)
{
	for (unsigned i = 0; i < world.actor_count; i++)
		if (fake_is_connected(world.actors[i].fake))
			return true;
	return !world.is_gone || sim_leaks(world.sim) > 0;
}

static void script_world_destroy(void)
{
	sim_enter(world.reactor);
	if (world.mpath != NULL)
		mpath_close(world.mpath, on_gone, NULL);
	else
		world.is_gone = true;
	sim_leave(world.reactor);
	for (unsigned i = 0; i < world.actor_count; i++) {
		struct fake *fake = world.actors[i].fake;

		sim_enter(fake->reactor);
		reactor_listener_close(&fake->listener, fake_listener_closed);
		sim_leave(fake->reactor);
	}
	EXPECT(sim_run_while(world.sim, is_settling, NULL, 60 * NS_PER_S));
	EXPECT_EQ(0, sim_leaks(world.sim));
	sim_destroy(world.sim);
	for (unsigned i = 0; i < world.actor_count; i++)
		free(world.actors[i].fake);
}

static void run_ms(uint64_t ms)
{
	sim_run_until(world.sim, sim_now(world.sim) + ms * NS_PER_MS);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void on_io_done(struct mpath_io *io)
{
	struct script_io *op = container_of(io, struct script_io, io);

	CHECK(!op->is_done);
	op->is_done = true;
}

static bool is_io_busy(void *arg)
{
	return !((struct script_io *)arg)->is_done;
}

static bool io_ends_within(struct script_io *op, uint64_t ms)
{
	sim_run_while(world.sim, is_io_busy, op, ms * NS_PER_MS);
	return op->is_done;
}

static void io_start(struct script_io *op, bool is_write, bool is_fused)
{
	struct host_cmd cmd = {0};

	memset(op, 0, sizeof(*op));
	op->iov = (struct iovec){op->data, sizeof(op->data)};
	if (is_fused)
		host_cmd_compare(&cmd, 1, 3, 1, op->data, sizeof(op->data));
	else if (is_write)
		host_cmd_write(&cmd, 1, 3, 1, op->data, sizeof(op->data));
	else
		host_cmd_read(&cmd, 1, 3, 1, op->data, sizeof(op->data));
	op->io = (struct mpath_io){.sqe = cmd.sqe,
				   .direction = is_write ? HOST_DATA_TO_CTRL : HOST_DATA_FROM_CTRL,
				   .iov = &op->iov,
				   .iov_count = 1,
				   .data_bytes = sizeof(op->data),
				   .done = on_io_done};
	if (is_fused) {
		op->second_iov = (struct iovec){op->second_data, sizeof(op->second_data)};
		host_cmd_write(&cmd, 1, 3, 1, op->second_data, sizeof(op->second_data));
		op->second = (struct mpath_io){.sqe = cmd.sqe,
					       .direction = HOST_DATA_TO_CTRL,
					       .iov = &op->second_iov,
					       .iov_count = 1,
					       .data_bytes = sizeof(op->second_data)};
		op->io.fused_write = &op->second;
	}
	sim_enter(world.reactor);
	mpath_submit(mpath_ns_find(world.mpath, 1), &op->io);
	sim_leave(world.reactor);
}

#endif
