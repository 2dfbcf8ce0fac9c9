/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what a multipath host reads of its controllers, on the simulated reactor: Identify pages,
 * lists and descriptors of namespaces, ANA log, changed namespaces, the log of Cross-Controller
 * Resets, asynchronous events and statuses. Two controllers lie about any of these at any time,
 * while commands run.
 *
 * Input: a byte of switches, then steps of enum step with their bytes. A byte for each command that
 * a controller receives chooses one of enum act; below 128 the answer is honest. Checked: every
 * command ends once, the host ends, nothing is leaked. One thread.
 */
#include "fuzz_script.h"

#include "base/log.h"
#include "base/text.h"
#define EXPECT(cond)             CHECK(cond)
#define EXPECT_EQ(want, got)     CHECK((want) == (got))
#define EXPECT_STR_EQ(want, got) CHECK(strcmp(want, got) == 0)
#include "../unit/fake_ctrl.h"
#include "host/mpath.h"
#include "wire/ctrl_reset.h"
#include "wire/log_page.h"

#define PATHS     2
#define IOS       24
#define LOG_BYTES (64 * 1024)
/* The longest log that a host reads: 65535 groups with 65536 namespaces. */
#define LOG_MOST_BYTES (LOG_ANA_HEADER_BYTES + 65535u * LOG_ANA_GROUP_BYTES + 65536u * sizeof(le32))
#define NQN            "nqn.2026-11.io.weft:default"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum step {
	STEP_TIME,
	STEP_READ,
	STEP_WRITE,
	STEP_FUSED,
	STEP_ADMIN,
	STEP_EVENT,
	STEP_PERSONA,
	STEP_CUT,
	STEP_REMOVE_PATH,
	STEP_ADD_PATH,
	STEP_SILENCE, /* starts or ends a partition */
	STEP_COUNT,
};

enum act {
	ACT_CHANGED_PAGE, /* an honest page with some bytes changed */
	ACT_FILLED_PAGE,
	ACT_STATUS,
	ACT_STATUS_COMMON,
	ACT_SILENT,
	ACT_CLOSE,
	ACT_CHANGED_HEAD, /* changes some of the first 64 bytes */
	ACT_PERSONA,
	ACT_COUNT,
};

struct persona {
	struct fake *fake;
	uint32_t nsids[4]; /* a 0 ends the list */
	bool has_ana;
	uint32_t group_count;
	enum ana_state state;
	uint64_t change_count;
	uint32_t block_count;
	uint8_t ns_name; /* its UUID is derived from this */
	uint16_t reset_cntlid;
	uint8_t reset_state;
};

struct io {
	struct mpath_io io, write;
	struct iovec iov;
	bool is_busy;
	uint8_t data[FAKE_BLOCK_BYTES * 2];
};

static struct script script;
static struct sim *sim;
static struct reactor *reactor;
static struct mpath *mpath;
static struct persona personas[PATHS];
static struct io ios[IOS];
static unsigned busy_count;
static bool is_ready, is_gone, is_admin_under_way;
static struct io admin_io;
static uint8_t admin_page[NVME_PAGE_BYTES];

/* ---- the controllers ------------------------------------------------------------------------- */

static void persona_change(struct persona *persona)
{
	uint8_t choice = script_u8(&script), value = script_u8(&script);

	switch (choice % 8) {
	case 0:
		persona->state = (enum ana_state)(value & 0xf);
		persona->change_count++;
		break;
	case 1:
		persona->nsids[value & 3] = value >> 2;
		break;
	case 2:
		persona->group_count = value;
		persona->change_count++;
		break;
	case 3:
		persona->block_count = value * 8u;
		break;
	case 4:
		persona->ns_name = value;
		break;
	case 5:
		persona->reset_state = value % 4;
		break;
	case 6:
		persona->change_count += value;
		break;
	default:
		persona->nsids[1] = persona->nsids[0] ? value % 5 : 0;
		break;
	}
}

static struct persona *persona_of(const struct fake_conn *fc)
{
	return &personas[personas[0].fake == fc->fake ? 0 : 1];
}

static void page_ctrl(const struct persona *persona, uint8_t *page)
{
	struct ctrl_identity ctrl = {
		.serial = "1",
		.model = "fuzz",
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
		.reset_limit = 2,
		.uniquifier = 3,
		.random_number = 77,
		.quiesce_ms = 200,
		.has_event_ctrl_reset = true,
	};

	text_copy(ctrl.subsystem_nqn, sizeof(ctrl.subsystem_nqn), NQN);
	identify_ctrl_encode(&ctrl, page);
}

static void page_identify(const struct persona *persona, const struct nvme_sqe *sqe, uint8_t *page)
{
	struct ns_identity ns = {.block_count = persona->block_count,
				 .block_bytes = FAKE_BLOCK_BYTES,
				 .is_shared = true,
				 .ana_group_id = persona->has_ana ? persona->group_count : 0};
	char name[8] = {(char)('a' + persona->ns_name % 26)};
	struct identify_cmd cmd;

	identify_cmd_decode(sqe, &cmd);
	name[1] = (char)('0' + le32_get(sqe->nsid) % 10);
	uuid_from_name(name, &ns.uuid);
	if (cmd.cns == IDENTIFY_CTRL)
		page_ctrl(persona, page);
	else if (cmd.cns == IDENTIFY_NS)
		identify_ns_encode(&ns, page);
	else if (cmd.cns == IDENTIFY_NS_DESCRIPTORS)
		identify_ns_descriptors_encode(&ns, page);
	else if (cmd.cns == IDENTIFY_NS_LIST)
		identify_ns_list_encode(persona->nsids, 4, page);
}

static void page_log(const struct persona *persona, uint8_t log_id, uint8_t *page)
{
	struct log_ctrl_reset_entry entry = {.cntlid = persona->reset_cntlid,
					     .uniquifier = 3,
					     .asked_cntlid = persona->fake->cntlid,
					     .state = persona->reset_state};

	if (log_id == LOG_ANA) {
		log_ana_header_encode(persona->change_count, (uint16_t)persona->group_count, page);
		for (uint32_t i = 0; i < persona->group_count; i++)
			log_ana_group_encode(i + 1, 0, persona->change_count,
					     i + 1 == persona->group_count ? persona->state
									   : ANA_OPTIMIZED,
					     page + LOG_ANA_HEADER_BYTES + i * LOG_ANA_GROUP_BYTES);
	} else if (log_id == LOG_CHANGED_NS) {
		identify_ns_list_encode(persona->nsids, 4, page);
	} else {
		log_ctrl_reset_header_encode(1, page);
		log_ctrl_reset_entry_encode(&entry, page + LOG_CTRL_RESET_HEADER_BYTES);
	}
}

/* Sends the requested page, with `changes` bytes at offsets from the script. */
static void page_send(struct fake_conn *fc, const struct nvme_sqe *sqe, unsigned changes,
		      unsigned range, int fill)
{
	static uint8_t page[LOG_BYTES + NVME_PAGE_BYTES];
	struct persona *persona = persona_of(fc);
	struct log_cmd log = {.len_bytes = NVME_PAGE_BYTES};

	memset(page, 0, sizeof(page));
	if (sqe->opcode == NVME_ADMIN_GET_LOG_PAGE) {
		log_cmd_decode(sqe, &log);
		page_log(persona, log.log_id, page);
	} else {
		page_identify(persona, sqe, page);
	}
	if (fill >= 0)
		memset(page, fill, sizeof(page));
	while (changes-- > 0) {
		uint16_t at = script_u16(&script);

		page[at % range] = script_u8(&script);
	}
	CHECK(log.offset < LOG_MOST_BYTES && log.len_bytes <= LOG_BYTES);
	if (log.offset + log.len_bytes > sizeof(page))
		log.offset = 0;
	fake_send_page(fc, le16_get(sqe->cid), page + log.offset, (uint32_t)log.len_bytes);
}

static bool is_page(const struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	return fc->qid == 0 &&
	       (sqe->opcode == NVME_ADMIN_IDENTIFY || sqe->opcode == NVME_ADMIN_GET_LOG_PAGE);
}

static bool play_honest(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	struct ctrl_reset_cmd reset;

	if (is_page(fc, sqe)) {
		page_send(fc, sqe, 0, 1, -1);
		return true;
	}
	if (fc->qid == 0 && sqe->opcode == NVME_ADMIN_CTRL_RESET) {
		ctrl_reset_cmd_decode(sqe, &reset);
		persona_of(fc)->reset_cntlid = reset.cntlid;
		fake_respond(fc, le16_get(sqe->cid), NVME_SC_SUCCESS,
			     persona_of(fc)->reset_state == 3);
		return true;
	}
	return false;
}

static bool play_status(struct fake_conn *fc, const struct nvme_sqe *sqe, bool is_common)
{
	static const nvme_status common[] = {
		{0x6},    {0x7},   {0x8},   {0xb},    {0x21},  {0x22},  {0x82},  {0x83},
		{0x1021}, {0x281}, {0x286}, {0x300},  {0x301}, {0x302}, {0x303}, {0x370},
		{0x371},  {0x13f}, {0x141}, {0x4002}, {0x109}, {0x2},   {0x20},  {0x80},
	};
	nvme_status status = {script_u16(&script) & 0x7fff};

	if (is_common)
		status = common[status.value % ARRAY_LEN(common)];
	/* fuzz_host covers success without data. */
	if (nvme_status_is_ok(status))
		status = NVME_SC_INTERNAL;
	fake_respond(fc, le16_get(sqe->cid), status, 0);
	return true;
}

static bool play(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	uint8_t choice;

	if (sqe->opcode == NVME_OPCODE_FABRICS)
		return false;
	choice = script_u8(&script);
	if (choice < 128 || (fc->qid == 0 && sqe->opcode == NVME_ADMIN_ASYNC_EVENT))
		return play_honest(fc, sqe);
	switch ((enum act)(choice % ACT_COUNT)) {
	case ACT_CHANGED_PAGE:
	case ACT_CHANGED_HEAD:
		if (!is_page(fc, sqe))
			return play_honest(fc, sqe);
		page_send(fc, sqe, 1 + (choice >> 3) % 8,
			  choice % ACT_COUNT == ACT_CHANGED_HEAD ? 64 : NVME_PAGE_BYTES, -1);
		return true;
	case ACT_FILLED_PAGE:
		if (!is_page(fc, sqe))
			return play_honest(fc, sqe);
		page_send(fc, sqe, 0, 1, script_u8(&script));
		return true;
	case ACT_STATUS:
	case ACT_STATUS_COMMON:
		return play_status(fc, sqe, choice % ACT_COUNT == ACT_STATUS_COMMON);
	case ACT_SILENT:
		return true;
	case ACT_CLOSE:
		tcp_conn_abort(&fc->conn, -ECONNRESET, "fuzz");
		return true;
	default:
		persona_change(persona_of(fc));
		return play_honest(fc, sqe);
	}
}

static void send_event(struct persona *persona)
{
	static const uint32_t events[] = {0x000c0302, 0x00040002, 0x001e0702, 0x00000000,
					  0x00700f02, 0x001e0902, 0x001f0a02};
	struct fake *fake = persona->fake;
	uint8_t choice = script_u8(&script);
	uint32_t dw0 = events[choice % ARRAY_LEN(events)];

	if (choice & 128)
		dw0 = script_u32(&script);
	sim_enter(fake->reactor);
	if (fake->has_event && fake->event_conn->is_used &&
	    tcp_conn_is_open(&fake->event_conn->conn)) {
		fake->has_event = false;
		fake_respond(fake->event_conn, fake->event_cid, NVME_SC_SUCCESS, dw0);
	}
	sim_leave(fake->reactor);
}

/* ---- the host -------------------------------------------------------------------------------- */

static void on_ready(struct mpath *unused, void *arg, int res, const struct host_error *error)
{
	CHECK(!is_ready);
	is_ready = true;
}

static void on_gone(void *arg)
{
	is_gone = true;
}

static void on_ns_changed(struct mpath *unused, void *arg, uint32_t nsid)
{
	CHECK(nsid != 0);
}

static void on_io_done(struct mpath_io *done)
{
	struct io *io = container_of(done, struct io, io);

	CHECK(io->is_busy && done->result <= MPATH_LOST);
	io->is_busy = false;
	busy_count--;
}

static void on_admin_done(struct mpath_io *done)
{
	CHECK(is_admin_under_way);
	is_admin_under_way = false;
}

static void io_prepare(struct mpath_io *io, struct iovec *iov, bool is_write)
{
	struct host_cmd cmd = {0};

	if (is_write)
		host_cmd_write(&cmd, 1, 3, 1, iov->iov_base, FAKE_BLOCK_BYTES);
	else
		host_cmd_read(&cmd, 1, 3, 1, iov->iov_base, FAKE_BLOCK_BYTES);
	*io = (struct mpath_io){
		.sqe = cmd.sqe,
		.direction = cmd.direction,
		.iov = iov,
		.iov_count = 1,
		.data_bytes = FAKE_BLOCK_BYTES,
		.done = on_io_done,
	};
}

static void io_submit(enum step step)
{
	struct mpath_ns *ns = mpath_ns_next(mpath, script_u8(&script) & 1);
	struct io *io = NULL;

	for (unsigned i = 0; i < IOS && !io; i++)
		io = ios[i].is_busy ? NULL : &ios[i];
	if (!ns || !io || !is_ready)
		return;
	io->iov = (struct iovec){io->data, FAKE_BLOCK_BYTES};
	io_prepare(&io->io, &io->iov, step != STEP_READ);
	if (step == STEP_FUSED) {
		io->io.sqe.opcode = NVME_IO_COMPARE;
		io_prepare(&io->write, &io->iov, true);
		io->io.fused_write = &io->write;
	}
	io->is_busy = true;
	busy_count++;
	mpath_submit(ns, &io->io);
}

static void admin_submit(void)
{
	struct host_cmd cmd = {0};
	uint8_t cns = script_u8(&script) % 4;

	if (is_admin_under_way || !is_ready)
		return;
	host_cmd_identify(&cmd, 1, cns, admin_page);
	admin_io.iov = (struct iovec){admin_page, sizeof(admin_page)};
	admin_io.io = (struct mpath_io){
		.sqe = cmd.sqe,
		.direction = cmd.direction,
		.iov = &admin_io.iov,
		.iov_count = 1,
		.data_bytes = sizeof(admin_page),
		.done = on_admin_done,
	};
	is_admin_under_way = true;
	mpath_submit_admin(mpath, &admin_io.io);
}

static void look_around(void)
{
	struct path_queue_info queue;
	struct path_info path;
	struct ns_info ns;

	for (unsigned i = 0; i < mpath_path_count(mpath); i++) {
		mpath_path_info(mpath, i, &path);
		CHECK(memchr(path.last_error, 0, sizeof(path.last_error)) != NULL);
		for (unsigned q = 0; q < path.queue_count; q++)
			mpath_path_queue_info(mpath, i, q, &queue);
		(void)mpath_path_ana(mpath, i, 1);
	}
	for (struct mpath_ns *at = mpath_ns_next(mpath, 0); at;
	     at = mpath_ns_next(mpath, ns.nsid)) {
		mpath_ns_info(at, &ns);
		CHECK(ns.nsid != 0 && (ns.is_gone || ns.identity.block_bytes >= 512));
	}
}

/* ---- the script ------------------------------------------------------------------------------ */

static void run_ms(uint64_t ms)
{
	sim_run_until(sim, sim_now(sim) + ms * NS_PER_MS);
}

static void host_step(enum step step)
{
	const struct host_addr addr = {.net = personas[script.left & 1].fake->listener.addr};

	sim_enter(reactor);
	if (step == STEP_READ || step == STEP_WRITE || step == STEP_FUSED)
		io_submit(step);
	else if (step == STEP_ADMIN)
		admin_submit();
	else if (step == STEP_REMOVE_PATH)
		(void)mpath_remove_path(mpath, &addr);
	else if (step == STEP_ADD_PATH)
		(void)mpath_add_path(mpath, &addr);
	look_around();
	sim_leave(reactor);
}

static void script_play(void)
{
	bool is_silent = false;

	for (unsigned steps = 0; script.left > 0 && steps < 100; steps++) {
		uint8_t byte = script_u8(&script);
		enum step step = (byte & 127) % STEP_COUNT;
		struct persona *persona = &personas[byte >> 7];

		if (step == STEP_TIME) {
			uint8_t length = script_u8(&script);

			run_ms(length < 128 ? length : (length - 127) * 20u);
		} else if (step == STEP_EVENT) {
			send_event(persona);
		} else if (step == STEP_PERSONA) {
			persona_change(persona);
		} else if (step == STEP_CUT) {
			sim_net_cut(sim, &persona->fake->listener.addr);
		} else if (step == STEP_SILENCE) {
			is_silent = !is_silent;
			sim_net_partition(sim, &personas[0].fake->listener.addr, is_silent);
		} else {
			host_step(step);
		}
	}
	sim_net_partition(sim, NULL, false);
}

static void world_start(uint8_t switches)
{
	static const struct mpath_callbacks callbacks = {.ready = on_ready,
							 .ns_changed = on_ns_changed};
	struct sim_options options = {.is_orderly = true};
	struct reactor_config reactor_config = {.index = 7, .cpu = -1};
	struct mpath_config config = {
		.policy = (enum path_policy)(switches & 3),
		.io_queues = 1 + (switches >> 7),
		.seed = switches,
		.numa_node = -1,
		.hedge = {.percentile = switches & 8 ? 9000 : 0},
		.wants_data_digest = switches & 16,
		.timeouts = {.connect_ms = 500,
			     .keep_alive_ms = switches & 32 ? 0 : 1000,
			     .command_ms = 2000,
			     .fast_io_fail_ms = 3000,
			     .reconnect_min_ms = 10,
			     .reconnect_max_ms = 50,
			     .stable_ms = 100,
			     .quiesce_ms = 300,
			     .reset_ms = 400},
	};
	struct host_addr addrs[PATHS];

	sim = sim_create(switches, &options);
	CHECK(reactor_create(&reactor_config, &reactor) == 0);
	for (unsigned i = 0; i < PATHS; i++) {
		personas[i] = (struct persona){.fake = fake_create(sim),
					       .nsids = {1, 2},
					       .has_ana = switches & 4,
					       .group_count = switches & 64 ? 200 : 1,
					       .state = ANA_OPTIMIZED,
					       .block_count = FAKE_BLOCKS,
					       .reset_state = 1};
		personas[i].fake->script = play;
		/* With this switch the paths lead to two subsystems: one path is refused. */
		personas[i].fake->cntlid = (uint16_t)(FAKE_CNTLID + (switches & 128 ? 0 : i));
		addrs[i] = (struct host_addr){.net = personas[i].fake->listener.addr};
	}
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), NQN);
	text_copy(config.host_nqn, sizeof(config.host_nqn), "nqn.2026-11.io.weft:fuzz");
	uuid_from_name("fuzz", &config.host_id);
	sim_enter(reactor);
	CHECK(mpath_open(reactor, &config, addrs, PATHS, &callbacks, NULL, &mpath) == 0);
	sim_leave(reactor);
	run_ms(100);
}

static bool is_busy(void *arg)
{
	return busy_count > 0 || is_admin_under_way || !is_ready;
}

static bool is_there(void *arg)
{
	return !is_gone;
}

static void world_end(void)
{
	run_while(sim, is_busy, NULL);
	sim_enter(reactor);
	mpath_close(mpath, on_gone, NULL);
	sim_leave(reactor);
	run_while(sim, is_there, NULL);
	for (unsigned i = 0; i < PATHS; i++) {
		sim_enter(personas[i].fake->reactor);
		reactor_listener_close(&personas[i].fake->listener, fake_listener_closed);
		sim_leave(personas[i].fake->reactor);
	}
	run_ms(10000);
	CHECK(sim_leaks(sim) == 0);
	for (unsigned i = 0; i < PATHS; i++) {
		CHECK(!fake_is_connected(personas[i].fake));
		free(personas[i].fake);
	}
	sim_destroy(sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	log_set_level(LOG_LEVEL_OFF);
	memset(ios, 0, sizeof(ios));
	busy_count = 0;
	is_ready = is_gone = is_admin_under_way = false;
	script = (struct script){.at = input, .left = size};
	world_start(script_u8(&script));
	script_play();
	world_end();
	return 0;
}
