/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multipath against two scripted controllers on the simulated reactor: what each status means, how
 * long logs are read, how a Cross-Controller Reset may go, and that a controller that lies fails
 * its own path and nothing else.
 */
#include "../unit/tap.h"

#include "../unit/fake_ctrl.h"
#include "base/log.h"
#include "base/text.h"
#include "host/mpath_internal.h"
#include "wire/ctrl_reset.h"
#include "wire/log_page.h"

#define PATHS       2
#define GROUPS_MANY 500
/* KATO of 1 s and the 200 ms of the fakes' CQT. */
#define LOST_BY_TIME_MS 1200
#define NQN             "nqn.2026-11.io.weft:default"

/* What one controller plays. */
struct persona {
	struct fake *fake;
	const char *nqn;
	uint32_t nsids[4]; /* 0 ends */
	bool has_ana;
	uint32_t group_count; /* NANAGRPID, and groups in the log; the namespace is in the last */
	uint32_t log_group_count;
	enum ana_state state;
	uint64_t change_count;
	unsigned moves;     /* how often the change count still moves while the log is read */
	unsigned ana_reads; /* pieces */
	nvme_status status; /* of the next status_count I/O commands */
	unsigned status_count;
	unsigned hangs; /* I/O commands that get no answer */
	unsigned ios;
	uint64_t last_io_ns;
	uint32_t reset_limit;
	nvme_status reset_status;
	unsigned resets_refused; /* how many get reset_status before it goes well */
	bool is_reset_immediate;
	uint8_t reset_state; /* in the log */
	unsigned polls_until_state;
	unsigned resets;
	uint16_t reset_cntlid;
};

static struct persona personas[PATHS];
static struct sim *sim;
static struct reactor *reactor;
static struct mpath *mpath;
static struct mpath_config config;
static int ready_res;
static unsigned ready_count;
static bool is_gone;
static char said[8192];

/* ---- the controllers --------------------------------------------------------------------------
 */

static struct persona *persona_of(const struct fake_conn *fc)
{
	return &personas[personas[0].fake == fc->fake ? 0 : 1];
}

static void play_identify(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct persona *persona = persona_of(fc);
	struct ctrl_identity ctrl = {
		.serial = "1",
		.model = "liar",
		.firmware = "1",
		.type = CTRL_TYPE_IO,
		.cntlid = 5,
		.version = NVME_VERSION_2_1,
		.has_ana = persona->has_ana,
		.ana_group_max = persona->group_count,
		.ana_group_count = persona->group_count,
		.ana_transition_s = 1,
		.has_event_ns_attribute = true,
		.has_event_ana_change = persona->has_ana,
		.has_log_offsets = true,
		.abort_limit = 4,
		.async_event_limit = 4,
		.error_log_entries = 1,
		.queue_entries_max = 64,
		.namespace_id_max = 16,
		.in_capsule_bytes = FAKE_IN_CAPSULE,
		.retry_delays_ms = {100, 700, 0},
		.reset_limit = persona->reset_limit,
		.uniquifier = 3,
		.random_number = 77,
		.quiesce_ms = 200,
	};
	struct ns_identity ns = {.block_count = FAKE_BLOCKS,
				 .block_bytes = FAKE_BLOCK_BYTES,
				 .is_shared = true,
				 .ana_group_id = persona->has_ana ? persona->group_count : 0};
	struct identify_cmd cmd;
	uint8_t page[NVME_PAGE_BYTES] = {0};

	identify_cmd_decode(sqe, &cmd);
	text_copy(ctrl.subsystem_nqn, sizeof(ctrl.subsystem_nqn), persona->nqn);
	uuid_from_name("the namespace", &ns.uuid);
	if (cmd.cns == IDENTIFY_CTRL)
		identify_ctrl_encode(&ctrl, page);
	else if (cmd.cns == IDENTIFY_NS)
		identify_ns_encode(&ns, page);
	else if (cmd.cns == IDENTIFY_NS_DESCRIPTORS)
		identify_ns_descriptors_encode(&ns, page);
	else if (cmd.cns == IDENTIFY_NS_LIST)
		memcpy(page, persona->nsids, sizeof(persona->nsids)); /* little endian here */
	fake_send_page(fc, le16_get(sqe->cid), page, sizeof(page));
}

static void play_ana(struct fake_conn *fc, const struct log_cmd *log, uint16_t cid)
{
	static uint8_t page[LOG_ANA_HEADER_BYTES + (GROUPS_MANY + 8) * LOG_ANA_GROUP_BYTES + 4096];
	struct persona *persona = persona_of(fc);
	uint32_t count = persona->log_group_count;

	persona->ana_reads++;
	if (persona->moves > 0 && log->offset > 0) {
		persona->moves--;
		persona->change_count++;
	}
	memset(page, 0, sizeof(page));
	log_ana_header_encode(persona->change_count, (uint16_t)count, page);
	for (uint32_t i = 0; i < count; i++)
		log_ana_group_encode(i + 1, 0, persona->change_count,
				     i + 1 == persona->group_count ? persona->state : ANA_OPTIMIZED,
				     page + LOG_ANA_HEADER_BYTES + i * LOG_ANA_GROUP_BYTES);
	CHECK(log->offset + log->len_bytes <= sizeof(page));
	fake_send_page(fc, cid, page + log->offset, (uint32_t)log->len_bytes);
}

static void play_reset_log(struct fake_conn *fc, uint16_t cid)
{
	struct persona *persona = persona_of(fc);
	struct log_ctrl_reset_entry entry = {
		.cntlid = persona->reset_cntlid, .uniquifier = 3, .asked_cntlid = 5};
	uint8_t page[LOG_CTRL_RESET_BYTES] = {0};

	if (persona->polls_until_state > 0)
		persona->polls_until_state--;
	else
		entry.state = persona->reset_state;
	log_ctrl_reset_header_encode(1, page);
	log_ctrl_reset_entry_encode(&entry, page + LOG_CTRL_RESET_HEADER_BYTES);
	fake_send_page(fc, cid, page, sizeof(page));
}

static bool play_admin(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct persona *persona = persona_of(fc);
	uint16_t cid = le16_get(sqe->cid);
	struct ctrl_reset_cmd reset;
	struct log_cmd log;

	switch (sqe->opcode) {
	case NVME_ADMIN_IDENTIFY:
		play_identify(fc, sqe);
		return true;
	case NVME_ADMIN_GET_LOG_PAGE:
		log_cmd_decode(sqe, &log);
		if (log.log_id == LOG_ANA)
			play_ana(fc, &log, cid);
		else
			play_reset_log(fc, cid);
		return true;
	case NVME_ADMIN_CTRL_RESET:
		ctrl_reset_cmd_decode(sqe, &reset);
		EXPECT_EQ(5, reset.cntlid);
		EXPECT_EQ(3, reset.uniquifier);
		EXPECT_EQ(77, reset.random_number);
		persona->resets++;
		persona->reset_cntlid = reset.cntlid;
		if (persona->resets_refused > 0) {
			persona->resets_refused--;
			fake_respond(fc, cid, persona->reset_status, 0);
		} else {
			fake_respond(fc, cid, NVME_SC_SUCCESS, persona->is_reset_immediate);
		}
		return true;
	default:
		return false;
	}
}

static bool play(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct persona *persona = persona_of(fc);

	if (sqe->opcode == NVME_OPCODE_FABRICS)
		return false;
	if (fc->qid == 0)
		return play_admin(fc, sqe);
	persona->ios++;
	persona->last_io_ns = reactor_now_ns(fc->fake->reactor);
	if (persona->hangs > 0) {
		persona->hangs--;
		return true;
	}
	if (persona->status_count == 0)
		return false;
	persona->status_count--;
	fake_respond(fc, le16_get(sqe->cid), persona->status, 0);
	return true;
}

/* ---- the host ---------------------------------------------------------------------------------
 */

static void on_ready(struct mpath *unused, void *arg, int res, const struct host_error *error)
{
	ready_count++;
	ready_res = res;
}

static void on_path_changed(struct mpath *unused, void *arg, unsigned path, const char *what)
{
	size_t used = strlen(said);

	snprintf(said + used, sizeof(said) - used, "%u: %s\n", path, what);
}

static void on_gone(void *arg)
{
	is_gone = true;
}

static void run_ms(uint64_t ms)
{
	sim_run_until(sim, sim_now(sim) + ms * NS_PER_MS);
}

static void world_create(uint64_t seed)
{
	static const struct sim_options options = {.is_orderly = true};
	struct reactor_config reactor_config = {.index = 7, .cpu = -1};

	memset(personas, 0, sizeof(personas));
	ready_count = 0;
	is_gone = false;
	said[0] = '\0';
	sim = sim_create(seed, &options);
	CHECK(reactor_create(&reactor_config, &reactor) == 0);
	for (unsigned i = 0; i < PATHS; i++) {
		personas[i] = (struct persona){.fake = fake_create(sim),
					       .nqn = NQN,
					       .nsids = {1},
					       .group_count = 1,
					       .log_group_count = 1,
					       .state = ANA_OPTIMIZED};
		personas[i].fake->script = play;
	}
	config = (struct mpath_config){
		.policy = PATH_POLICY_ROUND_ROBIN,
		.io_queues = 1,
		.seed = seed,
		.numa_node = -1,
		.timeouts = {.connect_ms = 1000,
			     .keep_alive_ms = 1000,
			     .command_ms = 3000,
			     .reconnect_min_ms = 10,
			     .reconnect_max_ms = 50,
			     .stable_ms = 100,
			     .quiesce_ms = 300,
			     .reset_ms = 400},
	};
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), NQN);
	text_copy(config.host_nqn, sizeof(config.host_nqn), "nqn.2026-11.io.weft:liar");
	uuid_from_name("liar", &config.host_id);
}

static void world_connect(void)
{
	static const struct mpath_callbacks callbacks = {.ready = on_ready,
							 .path_changed = on_path_changed};
	struct net_addr addrs[PATHS];

	for (unsigned i = 0; i < PATHS; i++)
		addrs[i] = personas[i].fake->listener.addr;
	sim_enter(reactor);
	CHECK(mpath_open(reactor, &config, addrs, PATHS, &callbacks, NULL, &mpath) == 0);
	sim_leave(reactor);
	run_ms(300);
	EXPECT_EQ(1, ready_count);
	EXPECT_EQ(0, ready_res);
}

static void world_destroy(void)
{
	sim_enter(reactor);
	mpath_close(mpath, on_gone, NULL);
	sim_leave(reactor);
	run_ms(5000);
	EXPECT(is_gone);
	for (unsigned i = 0; i < PATHS; i++) {
		EXPECT(!fake_is_connected(personas[i].fake));
		sim_enter(personas[i].fake->reactor);
		reactor_listener_close(&personas[i].fake->listener, fake_listener_closed);
		sim_leave(personas[i].fake->reactor);
	}
	run_ms(5000);
	EXPECT_EQ(0, sim_leaks(sim));
	for (unsigned i = 0; i < PATHS; i++)
		free(personas[i].fake);
	sim_destroy(sim);
}

struct lio {
	struct mpath_io io;
	struct iovec iov;
	bool is_done;
	uint64_t done_ns;
	uint8_t data[FAKE_BLOCK_BYTES];
};

static void on_lio_done(struct mpath_io *io)
{
	struct lio *lio = container_of(io, struct lio, io);

	CHECK(!lio->is_done);
	lio->is_done = true;
	lio->done_ns = sim_now(sim);
}

static void lio_submit(struct lio *lio, bool is_write)
{
	struct host_cmd cmd = {0};

	memset(lio, 0, sizeof(*lio));
	lio->iov = (struct iovec){lio->data, sizeof(lio->data)};
	if (is_write)
		host_cmd_write(&cmd, 1, 3, 1, lio->data, sizeof(lio->data));
	else
		host_cmd_read(&cmd, 1, 3, 1, lio->data, sizeof(lio->data));
	lio->io.sqe = cmd.sqe;
	lio->io.direction = cmd.direction;
	lio->io.iov = &lio->iov;
	lio->io.iov_count = 1;
	lio->io.data_bytes = sizeof(lio->data);
	lio->io.done = on_lio_done;
	sim_enter(reactor);
	mpath_submit(mpath_ns_find(mpath, 1), &lio->io);
	sim_leave(reactor);
}

static void status_both(nvme_status status, unsigned count)
{
	for (unsigned i = 0; i < PATHS; i++) {
		personas[i].status = status;
		personas[i].status_count = count;
	}
}

/* ---- statuses ---------------------------------------------------------------------------------
 */

static void statuses_that_pass_are_waited_for(void)
{
	static const nvme_status statuses[] = {
		NVME_SC_NS_NOT_READY,        NVME_SC_DATA_TRANSFER_ERROR,
		NVME_SC_POWER_LOSS,          NVME_SC_INTERNAL,
		NVME_SC_ABORT_REQUESTED,     NVME_SC_ABORT_SQ_DELETION,
		NVME_SC_COMMAND_INTERRUPTED, NVME_SC_TRANSIENT_TRANSPORT,
	};
	struct lio lio;

	world_create(1);
	world_connect();
	for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
		status_both(statuses[i], 1);
		lio_submit(&lio, true);
		run_ms(200);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_OK, lio.io.result);
		EXPECT(lio.io.attempts == 2 || lio.io.attempts == 3);
	}
	/* But not for ever. */
	status_both(NVME_SC_INTERNAL, 1000);
	lio_submit(&lio, true);
	run_ms(3000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_STATUS, lio.io.result);
	EXPECT_EQ(6, lio.io.attempts);
	status_both(NVME_SC_INTERNAL, 0);
	world_destroy();
}

static void do_not_retry_is_obeyed(void)
{
	static const nvme_status statuses[] = {NVME_SC_INTERNAL, NVME_SC_COMMAND_INTERRUPTED,
					       NVME_SC_INTERNAL_PATH_ERROR, NVME_SC_WRITE_FAULT};
	struct lio lio;

	world_create(2);
	world_connect();
	for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
		status_both(nvme_status_dnr(statuses[i]), 1);
		lio_submit(&lio, true);
		run_ms(5);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_STATUS, lio.io.result);
		EXPECT_EQ(1, lio.io.attempts);
		EXPECT(nvme_status_same(lio.io.status, statuses[i]));
		status_both(NVME_SC_SUCCESS, 0);
	}
	/* What nobody has a rule for is the caller's, too. */
	status_both(NVME_SC_WRITE_FAULT, 1);
	lio_submit(&lio, true);
	run_ms(5);
	EXPECT(lio.is_done);
	EXPECT_EQ(1, lio.io.attempts);
	status_both(NVME_SC_SUCCESS, 0);
	world_destroy();
}

static void delays_of_the_controller_are_obeyed(void)
{
	struct lio lio;
	uint64_t begin_ns;

	world_create(3);
	world_connect();
	/* CRD 2 names CRDT2. */
	status_both((nvme_status){(uint16_t)(NVME_SC_COMMAND_INTERRUPTED.value | 2u << 11)}, 1);
	begin_ns = sim_now(sim);
	lio_submit(&lio, true);
	run_ms(690);
	EXPECT(!lio.is_done);
	EXPECT_EQ(1, personas[0].ios + personas[1].ios);
	run_ms(800);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	EXPECT(lio.done_ns - begin_ns >= 700 * NS_PER_MS);
	status_both(NVME_SC_SUCCESS, 0);
	world_destroy();
}

/* One path cannot, for a reason of its own: the other one can, at once. */
static void path_errors_send_a_command_elsewhere(void)
{
	static const nvme_status statuses[] = {
		NVME_SC_INTERNAL_PATH_ERROR, NVME_SC_ANA_INACCESSIBLE,
		NVME_SC_ANA_PERSISTENT_LOSS, NVME_SC_ANA_TRANSITION,
		NVME_SC_HOST_PATHING_ERROR,  NVME_SC_HOST_ABORTED,
		NVME_STATUS(3, 0x60),
	};
	struct lio lios[4];

	for (unsigned has_ana = 0; has_ana < 2; has_ana++) {
		world_create(4);
		personas[0].has_ana = personas[1].has_ana = has_ana;
		world_connect();
		for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
			personas[0].status = statuses[i];
			personas[0].status_count = 1000;
			for (unsigned k = 0; k < ARRAY_LEN(lios); k++)
				lio_submit(&lios[k], true);
			run_ms(5);
			for (unsigned k = 0; k < ARRAY_LEN(lios); k++) {
				EXPECT(lios[k].is_done);
				EXPECT_EQ(MPATH_OK, lios[k].io.result);
			}
			personas[0].status_count = 0;
			/* The next look finds it well. */
			run_ms(300);
			EXPECT_EQ(ANA_OPTIMIZED, mpath_path_ana(mpath, 0, 1));
		}
		EXPECT_EQ(0, mpath->paths[0]->losses);
		world_destroy();
	}
}

/* Both say that they cannot, and their logs say that they can. */
static void a_contradiction_ends(void)
{
	struct lio lio;

	world_create(5);
	personas[0].has_ana = personas[1].has_ana = true;
	world_connect();
	status_both(NVME_SC_ANA_INACCESSIBLE, 100000);
	lio_submit(&lio, true);
	run_ms(10000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_STATUS, lio.io.result);
	EXPECT(personas[0].ios + personas[1].ios < 50);
	status_both(NVME_SC_SUCCESS, 0);
	world_destroy();
}

/* ---- lies -------------------------------------------------------------------------------------
 */

/* Path 1 is not used; path 0 works. */
static void expect_only_first(const char *words)
{
	struct lio lio;

	for (unsigned i = 0; i < 4; i++) {
		lio_submit(&lio, true);
		run_ms(5);
		EXPECT(lio.is_done);
		EXPECT_EQ(MPATH_OK, lio.io.result);
	}
	EXPECT_EQ(0, personas[1].ios);
	EXPECT(!mpath->paths[1]->is_usable);
	EXPECT(strstr(said, words) != NULL);
	EXPECT(strstr(mpath->paths[1]->last_error, words) != NULL);
}

static void a_controller_of_another_subsystem_is_not_used(void)
{
	world_create(6);
	personas[1].nqn = "nqn.2026-11.io.weft:other";
	world_connect();
	expect_only_first("not " NQN);
	/* Until it is what it should be. */
	personas[1].nqn = NQN;
	run_ms(500);
	EXPECT(mpath->paths[1]->is_usable);
	world_destroy();
}

static void a_list_out_of_order_is_not_believed(void)
{
	world_create(7);
	memcpy(personas[1].nsids, (uint32_t[4]){5, 3, 1, 0}, sizeof(personas[1].nsids));
	world_connect();
	expect_only_first("list of namespaces");
	world_destroy();
}

static void an_ana_log_that_is_too_long_is_not_believed(void)
{
	world_create(8);
	personas[1].has_ana = true;
	personas[1].group_count = 4;
	personas[1].log_group_count = 5;
	world_connect();
	expect_only_first("ANA log");
	world_destroy();
}

static void a_long_ana_log_is_read_in_pieces(void)
{
	world_create(9);
	personas[1].has_ana = true;
	personas[1].group_count = personas[1].log_group_count = GROUPS_MANY;
	personas[1].state = ANA_NON_OPTIMIZED;
	personas[1].change_count = 1;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT_EQ(ANA_NON_OPTIMIZED, mpath_path_ana(mpath, 1, 1));
	/* Four pieces and a look at the header. */
	EXPECT_EQ(5, personas[1].ana_reads);
	world_destroy();
}

static void a_log_that_moves_while_it_is_read_is_read_again(void)
{
	world_create(10);
	personas[1].has_ana = true;
	personas[1].group_count = personas[1].log_group_count = GROUPS_MANY;
	personas[1].moves = 2;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT_EQ(10, personas[1].ana_reads);
	world_destroy();
	/* Not for ever. */
	world_create(11);
	personas[1].has_ana = true;
	personas[1].group_count = personas[1].log_group_count = GROUPS_MANY;
	personas[1].moves = 1000000;
	world_connect();
	EXPECT(mpath->paths[1]->is_usable);
	EXPECT(personas[1].ana_reads < 100);
	world_destroy();
}

/* Its path is given up while it has a write: which it may still run. */
static void what_a_liar_was_given_is_fenced(void)
{
	struct lio hung, failed;
	uint64_t begin_ns;

	world_create(18);
	personas[0].has_ana = personas[1].has_ana = true;
	personas[1].state = ANA_NON_OPTIMIZED;
	world_connect();
	personas[0].hangs = 1;
	lio_submit(&hung, true);
	run_ms(2);
	EXPECT_EQ(1, personas[0].ios);
	personas[0].status = NVME_SC_ANA_INACCESSIBLE;
	personas[0].status_count = 1;
	personas[0].log_group_count = 2;
	begin_ns = sim_now(sim);
	lio_submit(&failed, true);
	run_ms(500);
	EXPECT(failed.is_done);
	EXPECT_EQ(1, mpath->paths[0]->losses);
	EXPECT(strstr(said, "ANA log") != NULL);
	EXPECT(!hung.is_done);
	run_ms(2000);
	EXPECT(hung.is_done);
	EXPECT_EQ(MPATH_OK, hung.io.result);
	EXPECT(hung.done_ns - begin_ns >= LOST_BY_TIME_MS * NS_PER_MS);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

/* ---- Cross-Controller Reset -------------------------------------------------------------------
 */

/* A write hangs on path 0, which is then cut. Returns how long it took from there. */
static uint64_t lost_write_ms(void)
{
	struct lio lio;
	uint64_t begin_ns;

	personas[0].reset_limit = personas[1].reset_limit = 4;
	world_connect();
	run_ms(200);
	personas[1].has_ana = false;
	personas[0].fake->lie = LIE_NONE;
	mpath_ns_find(mpath, 1)->on[1].is_avoided = true;
	sim_enter(reactor);
	ns_recompute(mpath_ns_find(mpath, 1));
	sim_leave(reactor);
	personas[0].status_count = 0;
	/* Nothing of the fake's answers arrives any more. */
	sim_net_partition(sim, &personas[0].fake->listener.addr, true);
	lio_submit(&lio, true);
	run_ms(5);
	EXPECT(!lio.is_done);
	mpath_ns_find(mpath, 1)->on[1].is_avoided = false;
	sim_net_cut(sim, &personas[0].fake->listener.addr);
	begin_ns = sim_now(sim);
	run_ms(10000);
	EXPECT(lio.is_done);
	EXPECT_EQ(MPATH_OK, lio.io.result);
	EXPECT_EQ(2, lio.io.attempts);
	sim_net_partition(sim, &personas[0].fake->listener.addr, false);
	return (lio.done_ns - begin_ns) / NS_PER_MS;
}

static void an_immediate_reset_is_enough(void)
{
	world_create(12);
	personas[1].is_reset_immediate = true;
	EXPECT(lost_write_ms() < 20);
	EXPECT_EQ(1, personas[1].resets);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_reset);
	world_destroy();
}

static void a_reset_that_takes_its_time_is_polled_for(void)
{
	uint64_t took_ms;

	world_create(13);
	personas[1].reset_state = LOG_CTRL_RESET_SUCCESS;
	personas[1].polls_until_state = 3;
	took_ms = lost_write_ms();
	EXPECT(took_ms >= 150 && took_ms < 300);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_reset);
	world_destroy();
}

static void a_busy_controller_is_asked_again(void)
{
	uint64_t took_ms;

	world_create(14);
	personas[1].is_reset_immediate = true;
	personas[1].resets_refused = 3;
	personas[1].reset_status = NVME_SC_CTRL_RESET_LIMIT;
	took_ms = lost_write_ms();
	EXPECT(took_ms >= 150 && took_ms < 300);
	EXPECT_EQ(4, personas[1].resets);
	world_destroy();
}

static void a_reset_that_fails_is_no_reset(void)
{
	world_create(15);
	personas[1].reset_state = LOG_CTRL_RESET_FAILED;
	EXPECT(lost_write_ms() >= LOST_BY_TIME_MS);
	EXPECT_EQ(1, personas[1].resets);
	EXPECT_EQ(0, mpath->paths[0]->fences_by_reset);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

static void a_reset_that_is_refused_is_no_reset(void)
{
	world_create(16);
	personas[1].resets_refused = 100;
	personas[1].reset_status = NVME_SC_INVALID_FIELD;
	EXPECT(lost_write_ms() >= LOST_BY_TIME_MS);
	EXPECT_EQ(1, personas[1].resets);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

static void a_reset_without_end_is_no_reset(void)
{
	world_create(17);
	personas[1].polls_until_state = 100000;
	EXPECT(lost_write_ms() >= LOST_BY_TIME_MS);
	EXPECT_EQ(0, mpath->paths[0]->fences_by_reset);
	EXPECT_EQ(1, mpath->paths[0]->fences_by_time);
	world_destroy();
}

int main(void)
{
	const char *trace = getenv("TRACE");

	log_set_level(trace != NULL && trace[0] == '1' ? LOG_LEVEL_DEBUG : LOG_LEVEL_OFF);
	TAP_RUN(statuses_that_pass_are_waited_for);
	TAP_RUN(do_not_retry_is_obeyed);
	TAP_RUN(delays_of_the_controller_are_obeyed);
	TAP_RUN(path_errors_send_a_command_elsewhere);
	TAP_RUN(a_contradiction_ends);
	TAP_RUN(a_controller_of_another_subsystem_is_not_used);
	TAP_RUN(a_list_out_of_order_is_not_believed);
	TAP_RUN(an_ana_log_that_is_too_long_is_not_believed);
	TAP_RUN(a_long_ana_log_is_read_in_pieces);
	TAP_RUN(a_log_that_moves_while_it_is_read_is_read_again);
	TAP_RUN(what_a_liar_was_given_is_fenced);
	TAP_RUN(an_immediate_reset_is_enough);
	TAP_RUN(a_reset_that_takes_its_time_is_polled_for);
	TAP_RUN(a_busy_controller_is_asked_again);
	TAP_RUN(a_reset_that_fails_is_no_reset);
	TAP_RUN(a_reset_that_is_refused_is_no_reset);
	TAP_RUN(a_reset_without_end_is_no_reset);
	return tap_end();
}
