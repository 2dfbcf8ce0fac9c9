/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of the format world: each has one controller. A host reads what its NSIDs are before it
 * uses them, and again when a status shows that one changed, after its own commands for that NSID
 * have ended. One thread; callbacks run on the host's simulated reactor.
 */
#include "format_world.h"

#include "base/text.h"
#include "wire/io_cmd.h"
#include "wire/lba_format.h"
#include "wire/ns_manage.h"
#include "wire/reservation.h"

#include <stdio.h>
#include <string.h>

#define THINK_MAX_US       3000
#define LOOK_AGAIN_MS      100
#define RETRY_MAX_MS       50
#define CNS_NS             0
#define CNS_DESCRIPTORS    3
#define NIDT_UUID          3
#define FLBAS_BYTE         26
#define LBAF_BYTE          128
#define KEY_OF_HOST(index) (0x100ull + (index))

static void host_go(struct fhost *host);

/* ---- identifying namespaces -------------------------------------------------------------------
 */

static struct fdisk *disk_of_uuid(struct fworld *world, const uint8_t *bytes)
{
	for (unsigned i = 0; i < FORMAT_DISKS; i++) {
		if (memcmp(world->disks[i].uuid.bytes, bytes, 16) == 0)
			return &world->disks[i];
	}
	return NULL;
}

static struct fdisk *descriptors_find(struct fhost *host)
{
	const uint8_t *at = host->page;

	while (at + 4 + 16 <= host->page + sizeof(host->page) && at[1] > 0) {
		if (at[0] == NIDT_UUID)
			return disk_of_uuid(host->world, at + 4);
		at += 4 + at[1];
	}
	return NULL;
}

static void look_end(struct fhost *host, struct fdisk *disk, unsigned shift)
{
	struct fview *view = &host->views[host->look_ns];

	host->is_looking = false;
	host->look_again_ns = sim_now(host->world->sim) + LOOK_AGAIN_MS * NS_PER_MS;
	if (view->disk != disk)
		view->read_cell = 0;
	view->disk = disk;
	view->shift = shift;
	view->is_stale = false;
	host_go(host);
}

static void on_looked_at_format(struct host_cmd *cmd)
{
	struct fhost *host = container_of(cmd, struct fhost, look);
	struct fdisk *disk = host->look_disk;
	unsigned shift;

	if (!nvme_status_is_ok(cmd->status)) {
		look_end(host, NULL, 0);
		return;
	}
	shift = host->page[LBAF_BYTE + 4 * (host->page[FLBAS_BYTE] & 0xf) + 2];
	sim_trace(host->world->sim, "host %u: namespace %u is disk %u, shift %u", host->index,
		  host->look_ns + 1, disk->index, shift);
	if (shift != 9 && shift != 12) {
		look_end(host, NULL, 0);
		return;
	}
	if (host->look_epoch == disk->epoch && disk->shift_epoch == disk->epoch &&
	    disk->shift_since < host->look_start && shift != disk->shift)
		format_fail(host->world, "disk %u was formatted to shift %u, and has %u",
			    disk->index, disk->shift, shift);
	look_end(host, disk, shift);
}

static void on_looked_at_identity(struct host_cmd *cmd)
{
	struct fhost *host = container_of(cmd, struct fhost, look);

	host->look_disk = nvme_status_is_ok(cmd->status) ? descriptors_find(host) : NULL;
	if (!host->look_disk || !host->is_live) {
		look_end(host, NULL, 0);
		return;
	}
	/* If an operator replaces the namespace meanwhile, the disk's epoch changes. */
	host->look_epoch = host->look_disk->epoch;
	host->look_start = format_step(host->world);
	memset(&host->look, 0, sizeof(host->look));
	host_cmd_identify(&host->look, host->look_ns + 1, CNS_NS, host->page);
	host->look.done = on_looked_at_format;
	host_submit_admin(host->ctrl, &host->look);
}

static bool look_begin(struct fhost *host, unsigned n)
{
	if (host->is_looking || host->views[n].busy > 0 ||
	    sim_now(host->world->sim) < host->look_again_ns)
		return false;
	host->is_looking = true;
	host->look_ns = n;
	memset(&host->look, 0, sizeof(host->look));
	host_cmd_identify(&host->look, n + 1, CNS_DESCRIPTORS, host->page);
	host->look.done = on_looked_at_identity;
	host_submit_admin(host->ctrl, &host->look);
	return true;
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static void extent_choose(struct fop *op, const struct fview *view, struct prng *prng)
{
	uint32_t cells = 1u << (view->shift - 9);
	uint32_t blocks = FORMAT_CELLS / cells;
	uint32_t most = FORMAT_OP_CELLS / cells;
	uint32_t count = 1 + (uint32_t)prng_below(prng, most);
	uint32_t first = (uint32_t)prng_below(prng, blocks - count + 1);

	/* Sometimes all cells of the marked area. */
	if (prng_one_in(prng, 6)) {
		first = 0;
		count = FORMAT_AREA_CELLS / cells;
	}
	op->first_cell = first * cells;
	op->cell_count = count * cells;
}

static enum fop_kind kind_choose(struct fworld *world, struct prng *prng)
{
	static const enum fop_kind mix[] = {FOP_READ,   FOP_READ,    FOP_READ,
					    FOP_WRITE,  FOP_WRITE,   FOP_WRITE,
					    FOP_ZEROES, FOP_COMPARE, FOP_FLUSH};

	static const enum fop_kind reserves[] = {FOP_REGISTER, FOP_REGISTER, FOP_REGISTER,
						 FOP_REGISTER, FOP_REGISTER, FOP_ACQUIRE,
						 FOP_PREEMPT,  FOP_CLEAR};

	if (prng_one_in(prng, 12))
		return FOP_FORMAT;
	if (format_has(world, FF_RESERVE) && prng_one_in(prng, 8))
		return reserves[prng_below(prng, ARRAY_LEN(reserves))];
	if (format_has(world, FF_BAD_BLOCKS) && prng_one_in(prng, 8))
		return FOP_MARK;
	return mix[prng_below(prng, ARRAY_LEN(mix))];
}

/* Another host that is registered and has a Format in flight; -1: none. */
static int formatter_find(const struct fhost *host, uint32_t nsid)
{
	struct fworld *world = host->world;

	for (unsigned i = 0; i < world->host_count; i++) {
		const struct fhost *other = &world->hosts[i];

		for (unsigned k = 0; other != host && k < other->worker_count; k++) {
			const struct fop *op = &other->workers[k].op;

			if (other->workers[k].is_busy && op->kind == FOP_FORMAT &&
			    (op->nsid == nsid || op->nsid == NVME_NSID_ALL) &&
			    format_is_registered(world, nsid, &other->id))
				return (int)i;
		}
	}
	return -1;
}

static void begin_data(struct fworker *worker, uint64_t first_block, uint32_t count)
{
	struct fworld *world = worker->host->world;
	struct fdisk *disk = worker->host->views[worker->op.nsid - 1].disk;
	struct fop *op = &worker->op;
	uint32_t bytes = op->cell_count * FORMAT_CELL_BYTES;

	if (op->kind == FOP_WRITE) {
		op->value = world->next_value;
		world->next_value += op->cell_count;
	}
	for (uint32_t i = 0; i < op->cell_count; i++) {
		if (op->kind == FOP_COMPARE)
			op->expected[i] = model_guess(disk->model, op->first_cell + i);
		format_cell_fill(worker->data + (size_t)i * FORMAT_CELL_BYTES,
				 op->kind == FOP_COMPARE ? op->expected[i] : op->value + i);
	}
	if (op->kind == FOP_READ)
		host_cmd_read(&worker->cmd, op->nsid, first_block, count, worker->data, bytes);
	else if (op->kind == FOP_WRITE)
		host_cmd_write(&worker->cmd, op->nsid, first_block, count, worker->data, bytes);
	else
		host_cmd_compare(&worker->cmd, op->nsid, first_block, count, worker->data, bytes);
}

static void begin_reserve(struct fworker *worker, struct prng *prng)
{
	struct fhost *host = worker->host;
	struct fop *op = &worker->op;
	struct host_cmd *cmd = &worker->cmd;
	uint64_t key = KEY_OF_HOST(host->index);
	int formatter = formatter_find(host, op->nsid);

	op->victim = (unsigned)prng_below(prng, host->world->host_count);
	if (formatter >= 0)
		op->victim = (unsigned)formatter;
	op->victim_registered =
		format_is_registered(host->world, op->nsid, &host->world->hosts[op->victim].id);
	cmd->direction = HOST_DATA_TO_CTRL;
	cmd->data = worker->data;
	if (op->kind == FOP_REGISTER) {
		const struct register_cmd reg = {.action = REGISTER_KEY,
						 .ignores_key = true,
						 .persist = PERSIST_ON,
						 .current_key = key,
						 .new_key = key};

		register_cmd_encode(&cmd->sqe, op->nsid, &reg, worker->data);
		cmd->data_bytes = REGISTER_DATA_BYTES;
	} else if (op->kind == FOP_CLEAR) {
		const struct release_cmd release = {.action = RELEASE_CLEAR, .current_key = key};

		release_cmd_encode(&cmd->sqe, op->nsid, &release, worker->data);
		cmd->data_bytes = RELEASE_DATA_BYTES;
	} else {
		const struct acquire_cmd acquire = {
			.action = op->kind == FOP_ACQUIRE ? ACQUIRE_RESERVATION
							  : ACQUIRE_PREEMPT_AND_ABORT,
			.type = RESERVATION_WRITE_EXCLUSIVE,
			.current_key = key,
			.preempt_key = op->kind == FOP_ACQUIRE ? 0 : KEY_OF_HOST(op->victim)};

		acquire_cmd_encode(&cmd->sqe, op->nsid, &acquire, worker->data);
		cmd->data_bytes = ACQUIRE_DATA_BYTES;
	}
}

static void begin_format(struct fworker *worker, struct prng *prng)
{
	struct fworld *world = worker->host->world;
	struct fop *op = &worker->op;
	const struct format_cmd format = {
		.format = (uint8_t)prng_below(prng, 2),
		.erase = format_has(world, FF_ERASE) && prng_one_in(prng, 2)
				 ? FORMAT_ERASE_USER_DATA
				 : FORMAT_ERASE_NONE,
	};

	if (format_has(world, FF_ALL) && prng_one_in(prng, 3))
		op->nsid = NVME_NSID_ALL;
	op->erases = format.erase == FORMAT_ERASE_USER_DATA;
	op->shift = lba_format_shift(format.format);
	op->first_cell = 0;
	op->cell_count = FORMAT_CELLS;
	format_cmd_encode(&worker->cmd.sqe, &format);
	worker->cmd.sqe.opcode = NVME_ADMIN_FORMAT_NVM;
	worker->cmd.sqe.nsid = le32_of(op->nsid);
}

static void on_op_done(struct host_cmd *cmd);

static void worker_submit(struct fworker *worker)
{
	struct fhost *host = worker->host;
	struct fop *op = &worker->op;

	format_op_begin(host, op);
	sim_trace(host->world->sim, "op: %llu begins: host %u, kind %d, namespace %x, %u+%u",
		  (unsigned long long)op->start, host->index, op->kind, op->nsid, op->first_cell,
		  op->cell_count);
	worker->is_busy = true;
	worker->cmd.done = on_op_done;
	host->world->verdict->commands++;
	for (unsigned n = 0; n < host->world->ns_count; n++) {
		if (op->nsid != NVME_NSID_ALL && op->nsid != n + 1)
			continue;
		host->views[n].busy++;
		/* The host's own Format makes its view stale. */
		host->views[n].is_stale |= op->kind == FOP_FORMAT;
	}
	if (op->kind == FOP_FORMAT)
		host_submit_admin(host->ctrl, &worker->cmd);
	else
		host_submit_io(host->ctrl, 0, &worker->cmd);
}

static void op_fill(struct fworker *worker, struct prng *prng)
{
	struct fop *op = &worker->op;
	const struct fview *view = &worker->host->views[op->nsid - 1];
	uint64_t first_block = op->first_cell >> (view->shift - 9);
	uint32_t count = op->cell_count >> (view->shift - 9);
	struct io_cmd io = {.first_block = first_block, .block_count = count};

	memset(&worker->cmd, 0, sizeof(worker->cmd));
	op->value = 0;
	op->erases = false;
	if (op->kind == FOP_ZEROES)
		host_cmd_write_zeroes(&worker->cmd, op->nsid, first_block, count,
				      prng_one_in(prng, 2));
	else if (op->kind == FOP_MARK)
		io_cmd_encode(&worker->cmd.sqe, NVME_IO_WRITE_UNCORRECTABLE, op->nsid, &io);
	else if (op->kind == FOP_FLUSH)
		host_cmd_flush(&worker->cmd, op->nsid);
	else if (op->kind == FOP_FORMAT)
		begin_format(worker, prng);
	else if (op->kind >= FOP_REGISTER)
		begin_reserve(worker, prng);
	else
		begin_data(worker, first_block, count);
}

/* False: nothing to do now. */
static bool worker_work(struct fworker *worker, unsigned n)
{
	struct fhost *host = worker->host;
	struct fworld *world = host->world;
	const struct fview *view = &host->views[n];
	struct fop *op = &worker->op;

	if (view->is_stale || !view->disk)
		return false;
	op->nsid = n + 1;
	op->is_last_look = false;
	op->kind = kind_choose(world, &host->prng);
	extent_choose(op, view, &host->prng);
	if (op->kind == FOP_MARK) {
		op->first_cell = 0;
		op->cell_count = FORMAT_AREA_CELLS;
	}
	/* A fence matters most while another host's Format is in flight. */
	if (format_has(world, FF_RESERVE) && prng_one_in(&host->prng, 2) &&
	    formatter_find(host, op->nsid) >= 0)
		op->kind = format_is_registered(world, op->nsid, &host->id) ? FOP_PREEMPT
									    : FOP_REGISTER;
	/* One reservation command at a time, so that the time of each shut-out is known. */
	if (op->kind >= FOP_REGISTER && op->kind <= FOP_CLEAR && world->reserve_busy[n] > 0)
		op->kind = FOP_READ;
	world->commands_left--;
	op_fill(worker, &host->prng);
	worker_submit(worker);
	return true;
}

/* Reads the next cells that the host has not read since the troubles. */
static bool worker_read(struct fworker *worker, unsigned n)
{
	struct fview *view = &worker->host->views[n];

	if (view->is_stale || !view->disk || view->read_cell >= FORMAT_CELLS || view->busy > 0)
		return false;
	worker->op.nsid = n + 1;
	worker->op.kind = FOP_READ;
	worker->op.is_last_look = true;
	worker->op.first_cell = view->read_cell;
	worker->op.cell_count = FORMAT_OP_CELLS / 4;
	op_fill(worker, &worker->host->prng);
	worker_submit(worker);
	return true;
}

static void on_worker_timer(struct reactor_timer *timer)
{
	struct fworker *worker = container_of(timer, struct fworker, timer);
	struct fhost *host = worker->host;
	struct fworld *world = host->world;
	bool is_at_work = false;

	if (!host->is_live || worker->is_busy || world->is_ending)
		return;
	for (unsigned n = 0; n < world->ns_count; n++) {
		if (host->views[n].is_stale || !host->views[n].disk)
			(void)look_begin(host, n);
	}
	if (!world->is_healed && world->commands_left > 0) {
		is_at_work =
			worker_work(worker, (unsigned)prng_below(&host->prng, world->ns_count));
	} else if (world->is_restored && worker == host->workers) {
		for (unsigned n = 0; n < world->ns_count && !is_at_work; n++)
			is_at_work = worker_read(worker, n);
	}
	if (!is_at_work)
		reactor_timer_arm(timer, reactor_now_ns(host->reactor) + NS_PER_MS);
}

static bool is_a_hint(nvme_status status)
{
	return nvme_status_same(status, NVME_SC_NS_NOT_READY) ||
	       nvme_status_same(status, NVME_SC_INVALID_NS) ||
	       nvme_status_same(status, NVME_SC_INVALID_FIELD) ||
	       nvme_status_same(status, NVME_SC_SGL_INVALID_DATA_LEN) ||
	       nvme_status_same(status, NVME_SC_LBA_RANGE) ||
	       nvme_status_same(status, NVME_SC_FORMAT_IN_PROGRESS);
}

static void on_op_done(struct host_cmd *cmd)
{
	struct fworker *worker = container_of(cmd, struct fworker, cmd);
	struct fhost *host = worker->host;
	struct fop *op = &worker->op;
	struct fview *views = host->views;

	worker->is_busy = false;
	format_ghosts_settle(host->world);
	format_op_end(host, worker, cmd->status);
	for (unsigned n = 0; n < host->world->ns_count; n++) {
		if (op->nsid != NVME_NSID_ALL && op->nsid != n + 1)
			continue;
		views[n].busy--;
		views[n].is_stale |= is_a_hint(cmd->status);
		/* The last look does not heal marks: cells marked bad count as read. */
		if (op->is_last_look && op->first_cell == views[n].read_cell &&
		    (nvme_status_is_ok(cmd->status) ||
		     (nvme_status_same(cmd->status, NVME_SC_UNRECOVERED_READ) &&
		      op->first_cell < FORMAT_AREA_CELLS)))
			views[n].read_cell += op->cell_count;
	}
	if (host->is_live)
		reactor_timer_arm(&worker->timer,
				  reactor_now_ns(host->reactor) +
					  prng_below(&host->prng, THINK_MAX_US) * NS_PER_US);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static void host_go(struct fhost *host)
{
	for (unsigned i = 0; i < host->worker_count; i++) {
		if (host->is_live && !host->workers[i].is_busy)
			reactor_timer_arm(&host->workers[i].timer, reactor_now_ns(host->reactor));
	}
}

static void on_gone(void *arg)
{
	struct fhost *host = arg;

	host->ctrl = NULL;
	host->is_away = true;
	if (!host->world->is_ending)
		reactor_timer_arm(&host->retry,
				  reactor_now_ns(host->reactor) +
					  prng_below(&host->prng, RETRY_MAX_MS) * NS_PER_MS);
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct fhost *host = arg;

	(void)ctrl;
	if (res != 0) {
		sim_trace(host->world->sim, "host %u: no connection: %s", host->index, error->text);
		on_gone(host);
		return;
	}
	host->is_live = true;
	host->life = sim_node_lives(host->world->node);
	host->look_again_ns = 0;
	for (unsigned n = 0; n < FORMAT_NS_MAX; n++) {
		host->views[n].is_stale = true;
		host->views[n].disk = NULL;
		host->views[n].read_cell = 0;
	}
	host_go(host);
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct fhost *host = arg;

	sim_trace(host->world->sim, "host %u: lost: %s", host->index, error->text);
	host->is_live = false;
	host_disconnect(ctrl, on_gone, host);
}

static void on_retry(struct reactor_timer *timer)
{
	struct fhost *host = container_of(timer, struct fhost, retry);
	const struct host_callbacks callbacks = {.connected = on_connected, .lost = on_lost};
	struct host_config config = {
		.addr.net = host->world->addr,
		.io_queues = 1,
		.io_queue_size = 16,
		.kato_ms = 1000,
		.connect_timeout_ms = 1000,
		.command_timeout_ms = 120000,
		.host_id = host->id,
	};

	if (host->world->is_ending)
		return;
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), FORMAT_NQN);
	text_copy(config.host_nqn, sizeof(config.host_nqn), host->nqn);
	host->is_away = false;
	CHECK(host_connect(host->reactor, &config, &callbacks, host, &host->ctrl) == 0);
}

void format_host_create(struct fworld *world, unsigned index)
{
	struct fhost *host = &world->hosts[index];
	struct reactor_config config = {.index = 100 + index, .cpu = -1};

	host->world = world;
	host->index = index;
	snprintf(host->nqn, sizeof(host->nqn), "nqn.2026-11.io.weft:host%u", index);
	uuid_from_name(host->nqn, &host->id);
	prng_seed(&host->prng, world->scenario->seed * 0x9e3779b97f4a7c15ull + 77 + index);
	CHECK(reactor_create(&config, &host->reactor) == 0);
	reactor_timer_init(host->reactor, &host->retry, on_retry);
	host->worker_count = 1 + (unsigned)prng_below(&host->prng, FORMAT_WORKERS_MAX);
	for (unsigned i = 0; i < host->worker_count; i++) {
		host->workers[i].host = host;
		reactor_timer_init(host->reactor, &host->workers[i].timer, on_worker_timer);
	}
	host->is_away = true;
	sim_enter(host->reactor);
	reactor_timer_arm(&host->retry, reactor_now_ns(host->reactor) + NS_PER_MS);
	sim_leave(host->reactor);
}

void format_host_wake(struct fhost *host)
{
	sim_enter(host->reactor);
	for (unsigned n = 0; n < FORMAT_NS_MAX; n++) {
		host->views[n].is_stale = true;
		host->views[n].read_cell = 0;
	}
	host_go(host);
	sim_leave(host->reactor);
}

const char *format_host_lack(const struct fhost *host)
{
	if (!host->is_live)
		return "is not connected";
	for (unsigned n = 0; n < host->world->ns_count; n++) {
		if (!host->views[n].disk)
			return "does not see a namespace";
		if (host->views[n].read_cell < FORMAT_CELLS)
			return "has not read everything";
	}
	for (unsigned i = 0; i < host->worker_count; i++) {
		if (host->workers[i].is_busy)
			return "waits for an answer";
	}
	return host->is_looking ? "waits for Identify" : NULL;
}

void format_host_leave(struct fhost *host)
{
	sim_enter(host->reactor);
	reactor_timer_cancel(&host->retry);
	for (unsigned i = 0; i < host->worker_count; i++)
		reactor_timer_cancel(&host->workers[i].timer);
	if (host->is_live) {
		host->is_live = false;
		host_disconnect(host->ctrl, on_gone, host);
	}
	sim_leave(host->reactor);
}

bool format_host_is_gone(const struct fhost *host)
{
	return host->is_away;
}
