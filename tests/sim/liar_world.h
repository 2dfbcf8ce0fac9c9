/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two scripted controllers on the simulated reactor and an mpath over both, for test_mpath_liar.c.
 * Each controller follows a struct persona, which tests change during the run. One thread.
 */
#ifndef WEFT_TESTS_LIAR_WORLD_H
#define WEFT_TESTS_LIAR_WORLD_H

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

/* The behaviour of one controller. */
struct persona {
	struct fake *fake;
	const char *nqn;
	uint32_t nsids[4];   /* 0 ends */
	const char *ns_name; /* its UUID is derived from this */
	bool has_ana;
	uint32_t group_count; /* NANAGRPID; the namespace is in the last group */
	uint32_t log_group_count;
	enum ana_state state;
	uint64_t change_count;
	unsigned moves;       /* reads of the log in which the change count still rises */
	unsigned grows;       /* reads of the log that still add a group */
	bool is_count_hidden; /* added groups leave the change count as it is */
	unsigned ana_reads;   /* reads of pieces */
	unsigned behaviors_set;
	unsigned looks;          /* Identify of a namespace */
	nvme_status look_status; /* of the next looks_refused of them */
	unsigned looks_refused;
	unsigned changed_reads;   /* of the list of changed namespaces */
	unsigned changed_refused; /* as transport errors */
	nvme_status status;       /* of the next status_count I/O commands */
	unsigned status_count;
	unsigned hangs; /* I/O commands that get no answer */
	unsigned ios;
	uint64_t last_io_ns;
	uint32_t reset_limit;
	nvme_status reset_status;
	unsigned resets_refused; /* resets that get reset_status before one succeeds */
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
		.cntlid = persona->fake->cntlid,
		.version = NVME_VERSION_BASE,
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
	persona->looks += cmd.cns == IDENTIFY_NS;
	if (cmd.cns == IDENTIFY_NS && persona->looks_refused > 0) {
		persona->looks_refused--;
		fake_respond(fc, le16_get(sqe->cid), persona->look_status, 0);
		return;
	}
	text_copy(ctrl.subsystem_nqn, sizeof(ctrl.subsystem_nqn), persona->nqn);
	uuid_from_name(persona->ns_name, &ns.uuid);
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
	uint32_t count;

	persona->ana_reads++;
	if (persona->grows > 0 && log->offset > 0) {
		persona->grows--;
		persona->log_group_count++;
		persona->change_count += !persona->is_count_hidden;
	}
	count = persona->log_group_count;
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
	struct log_ctrl_reset_entry entry = {.cntlid = persona->reset_cntlid,
					     .uniquifier = 3,
					     .asked_cntlid = persona->fake->cntlid};
	uint8_t page[LOG_CTRL_RESET_BYTES] = {0};

	if (persona->polls_until_state > 0)
		persona->polls_until_state--;
	else
		entry.state = persona->reset_state;
	log_ctrl_reset_header_encode(1, page);
	log_ctrl_reset_entry_encode(&entry, page + LOG_CTRL_RESET_HEADER_BYTES);
	fake_send_page(fc, cid, page, sizeof(page));
}

static void play_changed(struct fake_conn *fc, uint16_t cid)
{
	struct persona *persona = persona_of(fc);
	uint8_t page[LOG_CHANGED_NS_BYTES] = {0};

	persona->changed_reads++;
	if (persona->changed_refused == 0) {
		fake_send_page(fc, cid, page, sizeof(page));
		return;
	}
	persona->changed_refused--;
	fake_respond(fc, cid, NVME_SC_TRANSIENT_TRANSPORT, 0);
}

static bool play_admin(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct persona *persona = persona_of(fc);
	uint16_t cid = le16_get(sqe->cid);
	struct ctrl_reset_cmd reset;
	struct feature_cmd feature;
	struct log_cmd log;

	switch (sqe->opcode) {
	case NVME_ADMIN_SET_FEATURES:
		feature_cmd_decode(sqe, &feature);
		persona->behaviors_set += feature.feature_id == FEATURE_HOST_BEHAVIOR;
		return false;
	case NVME_ADMIN_IDENTIFY:
		play_identify(fc, sqe);
		return true;
	case NVME_ADMIN_GET_LOG_PAGE:
		log_cmd_decode(sqe, &log);
		if (log.log_id == LOG_CHANGED_NS)
			play_changed(fc, cid);
		else if (log.log_id == LOG_ANA)
			play_ana(fc, &log, cid);
		else
			play_reset_log(fc, cid);
		return true;
	case NVME_ADMIN_CTRL_RESET:
		ctrl_reset_cmd_decode(sqe, &reset);
		EXPECT(reset.cntlid >= FAKE_CNTLID && reset.cntlid < FAKE_CNTLID + PATHS);
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
					       .ns_name = "the namespace",
					       .group_count = 1,
					       .log_group_count = 1,
					       .state = ANA_OPTIMIZED};
		personas[i].fake->script = play;
		personas[i].fake->cntlid = (uint16_t)(FAKE_CNTLID + i);
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
	struct host_addr addrs[PATHS];

	for (unsigned i = 0; i < PATHS; i++)
		addrs[i] = (struct host_addr){.net = personas[i].fake->listener.addr};
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

#endif
