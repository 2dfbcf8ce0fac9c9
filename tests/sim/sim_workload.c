/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated hosts: connect, keep several commands in flight, send Aborts, crash, disconnect,
 * reconnect; at the end they read all blocks once more. The last host may be a discovery client.
 * One thread; each host's callbacks run on its own simulated reactor.
 */
#include "sim_op.h"

#include "base/clock.h"
#include "base/text.h"
#include "host/host.h"
#include "wire/ctrl_reset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX 16
#define IDLE_MAX_MS 6000

enum host_state {
	HOST_AWAY, /* a timer reconnects it, or it has left for good */
	HOST_CONNECTING,
	HOST_LIVE,
	HOST_LEAVING,
};

struct worker {
	struct sim_op op; /* first member: the worker is found from its command */
	struct sim_host *host;
	struct reactor_timer timer;
};

struct sim_host {
	struct world *world;
	struct reactor *reactor;
	struct prng prng;
	unsigned index;
	bool is_discovery;
	enum host_state state;
	struct host_ctrl *ctrl;
	struct world_ghost session;
	struct reactor_timer retry;
	struct worker *workers;
	unsigned worker_count;
	struct list ghosts;
	struct host_cmd abort_cmd;
	bool is_abort_busy;
	struct worker *abort_victim;
	uint64_t abort_victim_start;
	/* The final read of all blocks. */
	unsigned read_ns;
	uint64_t read_block;
	bool has_read_all;
	bool is_doomed; /* a queue was deleted, so the controller must end soon */
	/* The current controller, and the last one that was lost. */
	struct ctrl_reset_cmd instance;
	struct ctrl_reset_cmd lost_instance;
	struct world_ghost lost_session;
	struct host_cmd reset_cmd;
	bool has_lost;
	bool is_reset_busy;
	/* The changed namespaces log, read after each notice of the controller. */
	bool has_events;
	bool is_news_busy;
	bool is_news_again;
	struct host_cmd news_cmd;
	uint8_t news_page[512];
	uint64_t proven_ns; /* see sim_host_proven_ns */
	uint64_t idle_until_ns;
};

static void host_go(struct sim_host *host);

/* ---- life ------------------------------------------------------------------------------------ */

static void retry_later(struct sim_host *host, uint64_t max_us)
{
	if (host->world->phase == WORLD_LEAVING)
		return;
	reactor_timer_arm(&host->retry, reactor_now_ns(host->reactor) +
						prng_below(&host->prng, max_us + 1) * NS_PER_US);
}

static void on_gone(void *arg)
{
	struct sim_host *host = arg;

	host->state = HOST_AWAY;
	host->ctrl = NULL;
	for (unsigned i = 0; i < host->worker_count; i++) {
		if (host->workers[i].op.is_busy)
			world_fail(host->world, "host %u: a command was never answered",
				   host->index);
	}
	if (host->is_abort_busy)
		world_fail(host->world, "host %u: an Abort was never answered", host->index);
	if (host->is_reset_busy)
		world_fail(host->world, "host %u: a reset was never answered", host->index);
	if (host->is_news_busy)
		world_fail(host->world, "host %u: a log page was never answered", host->index);
	retry_later(host, 20000);
}

static bool has_cause_to_fail(const struct world *world)
{
	const struct world_plan *plan = &world->plan;

	return plan->cut_one_in || plan->partition_one_in || plan->restart_one_in ||
	       plan->faults.reset_ppm || plan->faults.half_close_ppm || plan->faults.stall_ppm ||
	       plan->faults.refuse_ppm || late_can_break(&world->late) || wreck_can_break(world);
}

/* Large transfers through windows of a few bytes may exceed a host's command time-out. */
static bool is_too_slow(const struct world *world, const struct host_error *error)
{
	return world->plan.has_large && world->plan.is_narrow &&
	       strstr(error->text, "was not answered") != NULL;
}

/* A read directly from memory that a reservation now forbids is completed from a copy. If the
 * host's share has no buffer for the copy, the connection is reset. */
static bool is_fenced_without_buffer(const struct world *world, const struct host_error *error)
{
	bool can_wait_half_sent = world->plan.has_large || world->plan.is_narrow;

	return world->plan.has_reservations && can_wait_half_sent &&
	       strstr(error->text, "reset by peer") != NULL &&
	       strstr(error->text, "of queue 0 ") == NULL;
}

/* ---- the controller that was lost is reset through the new one ---------------------------------
 */

static void on_reset_done(struct host_cmd *cmd)
{
	struct sim_host *host = container_of(cmd, struct sim_host, reset_cmd);
	bool is_ok = nvme_status_is_ok(cmd->status);

	host->is_reset_busy = false;
	world_hash(host->world, cmd->status.value ^ cmd->result << 21);
	if (!is_ok && !nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR) &&
	    !nvme_status_same(cmd->status, NVME_SC_ABORT_SQ_DELETION) &&
	    /* The target could not allocate memory. */
	    !(nvme_status_same(cmd->status, NVME_SC_INTERNAL) &&
	      host->world->wreck.refuse_one_in > 0))
		world_fail(host->world, "host %u: Cross-Controller Reset ended with \"%s\"",
			   host->index, nvme_status_name(cmd->status));
	if (!is_ok || !ctrl_reset_result_decode((uint32_t)cmd->result))
		return;
	host->world->stats->resets++;
	duty_reset_done(host->world, &host->lost_instance);
	/* From here on no command of the lost controller may land. */
	if (op_ghosts_reset(host->world, &host->ghosts, &host->lost_session) > 0)
		host->world->stats->resets_fence++;
}

static void reset_lost(struct sim_host *host)
{
	if (!host->world->plan.has_resets || !host->has_lost || host->is_discovery ||
	    host->lost_session.target_epoch != host->world->target_epoch)
		return;
	host->has_lost = false;
	host->is_reset_busy = true;
	memset(&host->reset_cmd, 0, sizeof(host->reset_cmd));
	host_cmd_ctrl_reset(&host->reset_cmd, host->lost_instance.cntlid,
			    host->lost_instance.uniquifier, host->lost_instance.random_number);
	host->reset_cmd.done = on_reset_done;
	host_submit_admin(host->ctrl, &host->reset_cmd);
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct sim_host *host = arg;

	world_hash(host->world, (uint64_t)res ^ sim_now(host->world->sim));
	if (res != 0) {
		host->world->stats->connect_failures++;
		if (!nvme_status_is_ok(error->status))
			host->world->stats->statuses[error->status.value % SIM_STATUS_MAX]++;
		sim_trace(host->world->sim, "host %u: no connection: %s", host->index, error->text);
		if (!has_cause_to_fail(host->world))
			world_fail(host->world, "host %u cannot connect: %s", host->index,
				   error->text);
		host->state = HOST_AWAY;
		host->ctrl = NULL;
		retry_later(host, 100000);
		return;
	}
	host->world->stats->connects++;
	host->state = HOST_LIVE;
	host->session =
		(struct world_ghost){host->world->target_epoch, host_ctrl_cntlid(ctrl), false};
	host->instance = (struct ctrl_reset_cmd){
		.cntlid = host_ctrl_cntlid(ctrl),
		.uniquifier = host_ctrl_identity(ctrl)->uniquifier,
		.random_number = host_ctrl_identity(ctrl)->random_number,
	};
	reset_lost(host);
	host->is_doomed = false;
	host->proven_ns = 0;
	duty_session_begun(host->world, host->index);
	host->read_ns = 0;
	host->read_block = 0;
	host_go(host);
}

static void note_loss(struct sim_host *host)
{
	/* One reset at a time: the reset in flight is for the loss before this one. */
	if (host->is_reset_busy)
		return;
	host->has_lost = true;
	host->lost_instance = host->instance;
	host->lost_session = host->session;
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct sim_host *host = arg;

	host->world->stats->losses++;
	sim_trace(host->world->sim, "host %u: lost: %s", host->index, error->text);
	if (!has_cause_to_fail(host->world) && !is_too_slow(host->world, error) &&
	    !is_fenced_without_buffer(host->world, error))
		world_fail(host->world, "host %u was lost: %s", host->index, error->text);
	note_loss(host);
	host->state = HOST_LEAVING;
	host_disconnect(ctrl, on_gone, host);
}

static void news_read(struct sim_host *host);

static void on_news_done(struct host_cmd *cmd)
{
	struct sim_host *host = container_of(cmd, struct sim_host, news_cmd);

	host->is_news_busy = false;
	world_hash(host->world, cmd->status.value);
	if (nvme_status_is_ok(cmd->status)) {
		duty_changed_log(host->world, host->index, host->news_page,
				 sizeof(host->news_page));
	} else if (!nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR) &&
		   (cmd->status.value & NVME_STATUS_DNR) == 0) {
		/* Read the log again, since no further notice would come. If the log page was
		 * damaged, the controller considers it read: a host then checks all namespaces. */
		if (nvme_status_same(cmd->status, NVME_SC_TRANSIENT_TRANSPORT))
			duty_session_begun(host->world, host->index);
		host->is_news_again = true;
	}
	if (host->is_news_again && host->state == HOST_LIVE)
		news_read(host);
}

static void news_read(struct sim_host *host)
{
	host->is_news_again = host->is_news_busy;
	if (host->is_news_busy)
		return;
	host->is_news_busy = true;
	memset(&host->news_cmd, 0, sizeof(host->news_cmd));
	host_cmd_log(&host->news_cmd, NVME_NSID_ALL, LOG_CHANGED_NS, 0, host->news_page,
		     sizeof(host->news_page));
	host->news_cmd.done = on_news_done;
	host_submit_admin(host->ctrl, &host->news_cmd);
}

static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
	struct sim_host *host = arg;

	world_hash(host->world, sim_now(host->world->sim));
	if (host->world->plan.has_news && host->state == HOST_LIVE &&
	    event->type == ASYNC_TYPE_NOTICE && event->info == ASYNC_NOTICE_NS_ATTRIBUTE)
		news_read(host);
}

const char *sim_host_name(unsigned index, char name[64])
{
	snprintf(name, 64, "nqn.2026-11.io.weft:sim%u", index);
	return name;
}

static void host_config_choose(struct sim_host *host, struct host_config *config)
{
	struct prng *prng = &host->prng;
	char name[64];

	*config = (struct host_config){
		.addr.net = host->world->addr,
		.io_queues = host->is_discovery ? 0 : 1 + (unsigned)prng_below(prng, 4),
		.io_queue_size = 2 + (unsigned)prng_below(prng, prng_one_in(prng, 2) ? 3 : 63),
		.kato_ms = prng_one_in(prng, 4) ? 0 : 200 + (uint32_t)prng_below(prng, 3000),
		.wants_header_digest = prng_one_in(prng, 2),
		.wants_data_digest = prng_one_in(prng, 2),
		.wants_sq_flow_control = prng_one_in(prng, 2),
		.connect_timeout_ms = 3000,
		.command_timeout_ms = 5000,
	};
	/* Without digests flipped bits are not noticed. */
	if (host->world->late.flip_one_in > 0)
		config->wants_header_digest = config->wants_data_digest = true;
	text_copy(config->subsystem_nqn, sizeof(config->subsystem_nqn),
		  host->is_discovery ? NVME_DISCOVERY_NQN : TARGET_DEFAULT_NQN);
	text_copy(config->host_nqn, sizeof(config->host_nqn), sim_host_name(host->index, name));
	uuid_from_name(config->host_nqn, &config->host_id);
}

static void on_retry(struct reactor_timer *timer)
{
	struct sim_host *host = container_of(timer, struct sim_host, retry);
	struct host_callbacks callbacks = {.connected = on_connected, .lost = on_lost};
	struct host_config config;

	if (host->world->phase == WORLD_LEAVING)
		return;
	if (prng_one_in(&host->prng, 2))
		callbacks.event = on_event;
	host->has_events = callbacks.event != NULL;
	host_config_choose(host, &config);
	host->state = HOST_CONNECTING;
	CHECK(host_connect(host->reactor, &config, &callbacks, host, &host->ctrl) == 0);
}

/* ---- Aborts ---------------------------------------------------------------------------------- */

static void on_abort_done(struct host_cmd *cmd)
{
	struct sim_host *host = container_of(cmd, struct sim_host, abort_cmd);
	struct sim_op *victim = &host->abort_victim->op;
	bool is_ok = nvme_status_is_ok(cmd->status);

	host->is_abort_busy = false;
	world_hash(host->world, cmd->status.value ^ cmd->result << 20);
	/* Invalid Field: the I/O queue may just have been deleted. One Abort at a time cannot
	 * exceed the limit. */
	if (!is_ok && !nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR) &&
	    !nvme_status_same(cmd->status, NVME_SC_ABORT_SQ_DELETION) &&
	    !nvme_status_same(cmd->status, NVME_SC_INVALID_FIELD))
		world_fail(host->world, "Abort ended with \"%s\"", nvme_status_name(cmd->status));
	if (!is_ok || (cmd->result & 1))
		return;
	host->world->stats->aborted++;
	/* The command identifier still belongs to this command, so this command was aborted. */
	if (victim->is_busy && victim->start == host->abort_victim_start)
		victim->must_be_aborted = true;
}

static void abort_somebody(struct sim_host *host)
{
	struct worker *worker = &host->workers[prng_below(&host->prng, host->worker_count)];
	struct sim_op *op = &worker->op;

	if (host->is_abort_busy || !op->is_busy || op_is_admin(op) ||
	    op->cmd.slot_index == HOST_NO_SLOT)
		return;
	host->is_abort_busy = true;
	host->abort_victim = worker;
	host->abort_victim_start = op->start;
	host->world->stats->aborts++;
	for (unsigned i = 0; i < host->worker_count; i++)
		host->workers[i].op.may_be_aborted = true;
	memset(&host->abort_cmd, 0, sizeof(host->abort_cmd));
	host_cmd_abort(&host->abort_cmd, (uint16_t)(op->queue + 1), le16_get(op->cmd.sqe.cid));
	host->abort_cmd.done = on_abort_done;
	host_submit_admin(host->ctrl, &host->abort_cmd);
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool strikes(struct sim_host *host, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&host->prng, one_in);
}

static void world_forget(struct world *world)
{
	uint64_t oldest = world->step + 1;

	for (unsigned i = 0; i < world->host_count; i++) {
		uint64_t start = world->hosts[i] ? sim_host_oldest(world->hosts[i]) : MODEL_NEVER;

		oldest = start < oldest ? start : oldest;
	}
	for (unsigned i = 0; i < world->ns_count; i++) {
		if (world->ns[i].model)
			model_forget(world->ns[i].model, oldest);
	}
}

/* Both of a fused pair; the target chooses their order. */
static void worker_cmd_done(struct worker *worker, const struct host_cmd *cmd)
{
	struct sim_host *host = worker->host;

	if (worker->op.cmds_busy == 0)
		world_fail(host->world, "a command was answered twice");
	host->is_doomed |= nvme_status_same(cmd->status, NVME_SC_ABORT_SQ_DELETION);
	/* The target received the command and restarted the keep alive timer. */
	if (!nvme_status_same(cmd->status, NVME_SC_ABORT_SQ_DELETION) &&
	    !nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR) &&
	    worker->op.sent_ns > host->proven_ns)
		host->proven_ns = worker->op.sent_ns;
	if (--worker->op.cmds_busy > 0) {
		/* An Abort may find the identifier in use by another command. */
		worker->op.cmd.slot_index = HOST_NO_SLOT;
		if (host->abort_victim == worker)
			host->abort_victim_start = MODEL_NEVER;
		return;
	}
	neighbours_judge(host->world, &worker->op);
	op_ghosts_settle(host->world, &host->ghosts);
	op_end(&worker->op, &host->ghosts, &host->session);
	if (host->world->step % 64 == 0)
		world_forget(host->world);
	if (host->state == HOST_LIVE)
		reactor_timer_arm(
			&worker->timer,
			reactor_now_ns(host->reactor) +
				prng_below(&host->prng, host->world->plan.think_max_us + 1) *
					NS_PER_US);
}

static void on_op_done(struct host_cmd *cmd)
{
	worker_cmd_done(container_of(cmd, struct worker, op.cmd), cmd);
}

static void on_second_done(struct host_cmd *cmd)
{
	worker_cmd_done(container_of(cmd, struct worker, op.second), cmd);
}

static void worker_submit(struct worker *worker)
{
	struct sim_host *host = worker->host;
	struct sim_op *op = &worker->op;

	op->cmd.done = on_op_done;
	op->cmd.slot_index = HOST_NO_SLOT;
	op->sent_ns = sim_now(host->world->sim);
	op->may_be_aborted = host->is_abort_busy;
	op->cmds_busy = op->kind == OP_FUSED ? 2 : 1;
	host->world->stats->commands += op->cmds_busy;
	if (op_is_admin(op)) {
		host_submit_admin(host->ctrl, &op->cmd);
		return;
	}
	op->queue = (unsigned)prng_below(&host->prng, host_ctrl_io_queues(host->ctrl));
	host_submit_io(host->ctrl, op->queue, &op->cmd);
	if (op->kind != OP_FUSED)
		return;
	op->second.done = on_second_done;
	op->second.slot_index = HOST_NO_SLOT;
	host_submit_io(host->ctrl, op->queue, &op->second);
}

/* Reads the next blocks. False: all were read. */
static bool read_next(struct worker *worker)
{
	struct sim_host *host = worker->host;
	struct world *world = host->world;

	while (host->read_ns < world->ns_count) {
		struct world_ns *ns = &world->ns[host->read_ns];
		uint64_t left = ns->block_count - host->read_block;

		if (world_ns_is_seen(ns, host->index) && left > 0) {
			uint32_t count = left < OP_BLOCKS_MAX ? (uint32_t)left : OP_BLOCKS_MAX;

			op_begin_read(&worker->op, ns, host->read_block, count);
			host->read_block += count;
			return true;
		}
		host->read_ns++;
		host->read_block = 0;
	}
	return false;
}

static void worker_work(struct worker *worker)
{
	struct sim_host *host = worker->host;
	struct world *world = host->world;

	op_ghosts_settle(world, &host->ghosts);
	if (host->is_discovery && world->phase == WORLD_TROUBLED) {
		op_begin_discovery(&worker->op);
	} else if (world->phase == WORLD_TROUBLED && world->commands_left > 0) {
		world->commands_left--;
		worker->op.can_fuse = host_ctrl_io_depth(host->ctrl) >= 2;
		op_begin_random(&worker->op, &host->prng);
	} else if (world->phase == WORLD_HEALED && worker == host->workers && !host->has_read_all) {
		if (host->is_discovery || !read_next(worker)) {
			host->has_read_all = true;
			return;
		}
	} else {
		return;
	}
	worker_submit(worker);
}

static void on_worker_timer(struct reactor_timer *timer)
{
	struct worker *worker = container_of(timer, struct worker, timer);
	struct sim_host *host = worker->host;
	const struct world_plan *plan = &host->world->plan;

	if (host->state != HOST_LIVE)
		return;
	if (host->world->phase == WORLD_TROUBLED) {
		uint64_t now_ns = reactor_now_ns(host->reactor);

		if (now_ns >= host->idle_until_ns && strikes(host, plan->idle_one_in))
			host->idle_until_ns =
				now_ns + (1 + prng_below(&host->prng, IDLE_MAX_MS)) * NS_PER_MS;
		if (now_ns < host->idle_until_ns) {
			reactor_timer_arm(timer, host->idle_until_ns);
			return;
		}
		if (strikes(host, plan->abort_one_in))
			abort_somebody(host);
		if (strikes(host, plan->crash_one_in) && world_event(host->world)) {
			host->world->stats->crashes++;
			note_loss(host);
			host->state = HOST_LEAVING;
			host_abandon(host->ctrl, on_gone, host);
			return;
		}
		if (strikes(host, host->is_discovery ? 5 : plan->leave_one_in) &&
		    world_event(host->world)) {
			host->state = HOST_LEAVING;
			host_disconnect(host->ctrl, on_gone, host);
			return;
		}
	}
	worker_work(worker);
}

/* Wakes every idle worker. */
static void host_go(struct sim_host *host)
{
	for (unsigned i = 0; i < host->worker_count; i++) {
		if (!host->workers[i].op.is_busy)
			reactor_timer_arm(&host->workers[i].timer, reactor_now_ns(host->reactor));
	}
}

/* ---- for the world --------------------------------------------------------------------------- */

struct sim_host *sim_host_create(struct world *world, unsigned index, bool is_discovery)
{
	struct sim_host *host = calloc(1, sizeof(*host));
	struct reactor_config config = {.index = 100 + index, .cpu = -1};
	char name[64];

	CHECK(host != NULL);
	host->world = world;
	host->index = index;
	host->is_discovery = is_discovery;
	prng_seed(&host->prng, prng_next(&world->prng));
	list_init(&host->ghosts);
	CHECK(reactor_create(&config, &host->reactor) == 0);
	reactor_timer_init(host->reactor, &host->retry, on_retry);
	host->worker_count = is_discovery ? 1 : 1 + (unsigned)prng_below(&host->prng, WORKERS_MAX);
	host->workers = calloc(host->worker_count, sizeof(*host->workers));
	CHECK(host->workers != NULL);
	for (unsigned i = 0; i < host->worker_count; i++) {
		struct worker *worker = &host->workers[i];

		worker->host = host;
		worker->op.world = world;
		worker->op.host_index = index;
		uuid_from_name(sim_host_name(index, name), &worker->op.host_id);
		worker->op.data = malloc(OP_DATA_BYTES);
		worker->op.second_data = malloc(OP_DATA_BYTES);
		CHECK(worker->op.data != NULL && worker->op.second_data != NULL);
		reactor_timer_init(host->reactor, &worker->timer, on_worker_timer);
	}
	sim_enter(host->reactor);
	retry_later(host, 1000);
	sim_leave(host->reactor);
	return host;
}

void sim_host_destroy(struct sim_host *host)
{
	op_ghosts_settle(host->world, &host->ghosts);
	if (!list_empty(&host->ghosts))
		world_fail(host->world, "host %u: commands of a lost session are still in flight",
			   host->index);
	for (unsigned i = 0; i < host->worker_count; i++) {
		free(host->workers[i].op.data);
		free(host->workers[i].op.second_data);
	}
	free(host->workers);
	free(host);
}

void sim_host_wake(struct sim_host *host)
{
	sim_enter(host->reactor);
	if (host->state == HOST_LIVE)
		host_go(host);
	sim_leave(host->reactor);
}

void sim_host_for_each_op(struct sim_host *host, void (*fn)(struct sim_op *op, void *arg),
			  void *arg)
{
	for (unsigned i = 0; i < host->worker_count; i++)
		fn(&host->workers[i].op, arg);
}

bool sim_host_has_ctrl(const struct sim_host *host, uint16_t cntlid)
{
	return host->state == HOST_LIVE && host->session.cntlid == cntlid &&
	       host->session.target_epoch == host->world->target_epoch;
}

uint64_t sim_host_oldest(const struct sim_host *host)
{
	uint64_t oldest = MODEL_NEVER;

	for (unsigned i = 0; i < host->worker_count; i++) {
		const struct sim_op *op = &host->workers[i].op;

		if (op->is_busy && op->start < oldest)
			oldest = op->start;
	}
	return oldest;
}

uint64_t sim_host_proven_ns(const struct sim_host *host, uint16_t cntlid)
{
	return sim_host_has_ctrl(host, cntlid) ? host->proven_ns : 0;
}

bool sim_host_hears(const struct sim_host *host)
{
	/* Not a host whose target lost power: without keep alive and with nothing to read, it does
	 * not notice. */
	return host->world->plan.has_news && host->has_events && host->state == HOST_LIVE &&
	       host->session.target_epoch == host->world->target_epoch;
}

const char *sim_host_lack(const struct sim_host *host)
{
	if (sim_host_hears(host) && !duty_is_told(host->world, host->index))
		return "was not told of a namespace that changed";
	if (!host->has_read_all)
		return "has not read everything";
	if (host->is_doomed)
		return "has a session that should have ended";
	return sim_host_oldest(host) == MODEL_NEVER ? NULL : "waits for an answer";
}

void sim_host_leave(struct sim_host *host)
{
	sim_enter(host->reactor);
	reactor_timer_cancel(&host->retry);
	for (unsigned i = 0; i < host->worker_count; i++)
		reactor_timer_cancel(&host->workers[i].timer);
	if (host->state == HOST_LIVE || host->state == HOST_CONNECTING) {
		host->state = HOST_LEAVING;
		host_disconnect(host->ctrl, on_gone, host);
	}
	sim_leave(host->reactor);
}

bool sim_host_is_gone(const struct sim_host *host)
{
	return host->state == HOST_AWAY;
}
