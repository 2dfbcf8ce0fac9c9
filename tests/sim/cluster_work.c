/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of a host: each sends one command after another through the host's mpaths. After the
 * troubles the first worker of each host reads everything once more. Runs on the host's reactor;
 * what outlives the host is in the world's memory.
 *
 * A block repeats its value in every eight bytes, mixed with their index. The value names the write
 * and the block that it is for. A block of zeroes is value 0.
 */
#include "cluster_world.h"

#include "wire/copy.h"
#include "wire/io_cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MIX        0x9e3779b97f4a7c15ull
#define WAIT_NS         (5 * NS_PER_MS)
#define BURST           12 /* commands, on average */
#define REFUSED_REST_US 30000

/* ---- blocks -----------------------------------------------------------------------------------
 */

void cluster_block_fill(const struct cluster *world, uint64_t value, uint8_t *bytes)
{
	for (unsigned i = 0; i < world->block_bytes / sizeof(value); i++) {
		uint64_t word = value == 0 ? 0 : value ^ i * WORD_MIX;

		memcpy(bytes + i * sizeof(word), &word, sizeof(word));
	}
}

bool cluster_block_parse(const struct cluster *world, const uint8_t *bytes, uint64_t *ret_value)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	*ret_value = value;
	for (unsigned i = 1; i < world->block_bytes / sizeof(value); i++) {
		uint64_t word;

		memcpy(&word, bytes + i * sizeof(word), sizeof(word));
		if (word != (value == 0 ? 0 : value ^ i * WORD_MIX))
			return false;
	}
	return value == 0 || value >> 16 < world->value_count;
}

struct cluster_value *cluster_value_find(struct cluster *world, uint64_t value)
{
	CHECK(value != 0 && value >> 16 < world->value_count);
	return &world->values[value >> 16];
}

uint64_t cluster_value_new(struct cluster_worker *worker, uint64_t block)
{
	struct cluster *world = worker->host->world;
	struct cluster_value *value;

	if (world->value_count == world->value_room) {
		world->value_room = world->value_room ? world->value_room * 2 : 1024;
		world->values =
			sim_realloc(world->values, world->value_room * sizeof(*world->values));
	}
	if (world->value_count == 0)
		world->value_count = 1; /* 0 is zeroes */
	value = &world->values[world->value_count];
	*value = (struct cluster_value){
		.disk = (uint8_t)worker->set.disk->index,
		.host = (uint8_t)worker->host->index,
		.block = (uint16_t)block,
		.is_revoked = cluster_is_revoked(world, worker->sub, worker->host->index),
		.allow_epoch = (uint32_t)world->allow_epochs[worker->sub][worker->host->index],
		.begin_ns = sim_now(world->sim),
		.identity = (uint8_t)worker->identity,
	};
	return world->value_count++ << 16 | block;
}

/* ---- sending ----------------------------------------------------------------------------------
 */

/* Bursts of commands fill the whole time of the troubles. */
static void worker_rest(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	uint64_t rest_us = prng_below(&world->prng, world->think_max_us + 1);

	if (worker->io.result == MPATH_NO_PATH || worker->io.result == MPATH_GONE ||
	    worker->io.result == MPATH_STALE)
		rest_us = REFUSED_REST_US;
	else if (!world->is_healed && prng_one_in(&world->prng, BURST))
		rest_us = prng_below(&world->prng, world->pause_max_us + 1);
	reactor_timer_arm(&worker->timer,
			  reactor_now_ns(worker->host->reactor) + rest_us * NS_PER_US);
}

static void on_io_done(struct mpath_io *io)
{
	struct cluster_worker *worker = container_of(io, struct cluster_worker, io);
	struct cluster *world = worker->host->world;

	/* A dying process gets no answer: its command becomes a ghost. */
	if (!sim_process_is_alive(worker->host->process))
		return;
	if (!worker->is_busy)
		cluster_fail(world, "a command of host %u was answered twice", worker->host->index);
	worker->is_busy = false;
	world->step++;
	cluster_judge(worker);
	if (world->step % 64 == 0)
		cluster_forget(world);
	worker_rest(worker);
}

static void io_fill(struct mpath_io *io, struct iovec *iov, const struct host_cmd *cmd)
{
	*io = (struct mpath_io){
		.sqe = cmd->sqe,
		.direction = cmd->direction,
		.iov = iov,
		.iov_count = cmd->direction == HOST_DATA_NONE ? 0 : 1,
		.data_bytes = cmd->data_bytes,
		.done = on_io_done,
	};
	*iov = (struct iovec){cmd->data, cmd->data_bytes};
}

static void worker_send(struct cluster_worker *worker, struct host_cmd *cmd, struct mpath_ns *ns)
{
	struct cluster *world = worker->host->world;
	struct cluster_change_set *set = &worker->set;

	if (cmd->direction == HOST_DATA_NONE)
		cmd->data_bytes = 0;
	io_fill(&worker->io, &worker->iov, cmd);
	if (worker->kind == COP_FUSED) {
		struct host_cmd second = {0};

		host_cmd_write(&second, set->disk->nsid, set->first_block, set->block_count,
			       worker->second_data, set->block_count * world->block_bytes);
		if (worker->is_fua)
			host_cmd_set_fua(&second);
		io_fill(&worker->second, &worker->second_iov, &second);
		worker->io.fused_write = &worker->second;
	}
	cluster_set_begin(worker);
	worker->is_busy = true;
	world->verdict->commands++;
	sim_trace(world->sim,
		  "host %u.%u: begin %" PRIu64 ": kind %d, disk %u, %" PRIu64 "+%u, value %" PRIx64,
		  worker->host->index, worker->index, set->start, (int)worker->kind,
		  set->disk->index, set->first_block, set->block_count, set->values[0]);
	if (worker->kind == COP_ADMIN)
		mpath_submit_admin(worker->host->mpaths[worker->sub].mpath, &worker->io);
	else
		mpath_submit(ns, &worker->io);
}

/* ---- kinds of commands ------------------------------------------------------------------------
 */

static uint64_t region_first(const struct cluster_worker *worker, unsigned part)
{
	return part * CLUSTER_PART_BLOCKS +
	       (worker->host->index * CLUSTER_WORKERS_MAX + worker->index) * CLUSTER_REGION_BLOCKS;
}

static uint64_t *known_at(struct cluster_worker *worker, uint64_t block)
{
	unsigned part = block >= CLUSTER_PART_BLOCKS;

	return &worker->known[worker->set.disk->index][part][block - region_first(worker, part)];
}

/* Some of the worker's own blocks. */
static void extent_own(struct cluster_worker *worker, unsigned part, struct prng *prng)
{
	uint32_t count = 1 + (uint32_t)prng_below(prng, CLUSTER_REGION_BLOCKS);

	worker->set.block_count = count;
	worker->set.first_block =
		region_first(worker, part) + prng_below(prng, CLUSTER_REGION_BLOCKS - count + 1);
}

static void extent_any(struct cluster_worker *worker, uint64_t block_count, struct prng *prng)
{
	worker->set.block_count = 1 + (uint32_t)prng_below(prng, CLUSTER_REGION_BLOCKS);
	worker->set.first_block = prng_below(prng, block_count - worker->set.block_count + 1);
}

static void begin_write(struct cluster_worker *worker, struct host_cmd *cmd)
{
	struct cluster *world = worker->host->world;
	struct cluster_change_set *set = &worker->set;

	for (uint32_t i = 0; i < set->block_count; i++) {
		set->values[i] = cluster_value_new(worker, set->first_block + i);
		cluster_block_fill(world, set->values[i], worker->data + i * world->block_bytes);
	}
	host_cmd_write(cmd, set->disk->nsid, set->first_block, set->block_count, worker->data,
		       set->block_count * world->block_bytes);
}

static void begin_zeroes(struct cluster_worker *worker, struct host_cmd *cmd, struct prng *prng)
{
	struct cluster_change_set *set = &worker->set;
	struct dsm_range range = {.first_block = set->first_block, .block_count = set->block_count};

	memset(set->values, 0, sizeof(set->values));
	if (worker->kind == COP_ZEROES) {
		host_cmd_write_zeroes(cmd, set->disk->nsid, set->first_block, set->block_count,
				      prng_one_in(prng, 2));
		return;
	}
	dsm_range_encode(worker->data, 0, &range);
	host_cmd_deallocate(cmd, set->disk->nsid, worker->data, 1);
}

static void begin_compare(struct cluster_worker *worker, struct host_cmd *cmd, struct prng *prng)
{
	struct cluster *world = worker->host->world;
	struct cluster_change_set *set = &worker->set;

	for (uint32_t i = 0; i < set->block_count; i++) {
		worker->expected[i] = prng_one_in(prng, 8) && world->value_count > 1
					      ? (1 + prng_below(prng, world->value_count - 1)) << 16
					      : model_guess(set->disk->model, set->first_block + i);
		cluster_block_fill(world, worker->expected[i],
				   worker->data + i * world->block_bytes);
	}
	host_cmd_compare(cmd, set->disk->nsid, set->first_block, set->block_count, worker->data,
			 set->block_count * world->block_bytes);
}

static void begin_fused(struct cluster_worker *worker, struct host_cmd *cmd, unsigned part,
			struct prng *prng)
{
	struct cluster_change_set *set = &worker->set;

	set->block_count = 1;
	set->first_block =
		(part + 1) * CLUSTER_PART_BLOCKS - 1 - prng_below(prng, CLUSTER_SHARED_BLOCKS);
	begin_compare(worker, cmd, prng);
	set->values[0] = cluster_value_new(worker, set->first_block);
	cluster_block_fill(worker->host->world, set->values[0], worker->second_data);
}

/* From the first half of the worker's blocks to the second. False: the source is unknown. */
static bool begin_copy(struct cluster_worker *worker, struct host_cmd *cmd, unsigned part,
		       struct prng *prng)
{
	struct cluster_change_set *set = &worker->set;
	uint64_t from = region_first(worker, part);
	uint32_t half = CLUSTER_COPY_DISTANCE;
	struct copy_cmd copy = {.range_count = 1, .format = COPY_FORMAT_ONE_NS};
	struct copy_range range;

	set->block_count = 1 + (uint32_t)prng_below(prng, half);
	set->first_block = from + half;
	for (uint32_t i = 0; i < set->block_count; i++) {
		set->values[i] = *known_at(worker, from + i);
		if (set->values[i] == MODEL_NEVER)
			return false;
	}
	if (cluster_ghost_may_land(worker->host->world, set->disk, from, set->block_count))
		return false;
	copy.first_block = set->first_block;
	copy.is_fua = worker->is_fua;
	range = (struct copy_range){.first_block = from, .block_count = set->block_count};
	copy_range_encode(worker->data, 0, COPY_FORMAT_ONE_NS, &range);
	copy_cmd_encode(&cmd->sqe, set->disk->nsid, &copy);
	cmd->direction = HOST_DATA_TO_CTRL;
	cmd->data = worker->data;
	cmd->data_bytes = NVME_COPY_RANGE_BYTES;
	set->is_copy = true;
	return true;
}

static void begin_verify(struct cluster_worker *worker, struct host_cmd *cmd)
{
	struct cluster_change_set *set = &worker->set;
	struct io_cmd io = {.first_block = set->first_block, .block_count = set->block_count};

	io_cmd_encode(&cmd->sqe, NVME_IO_VERIFY, set->disk->nsid, &io);
	cmd->direction = HOST_DATA_NONE;
}

/* Admin commands that change nothing and are resent when their path is lost. */
static void begin_admin(struct cluster_worker *worker, struct host_cmd *cmd, struct prng *prng)
{
	static const struct {
		uint8_t id;
		uint32_t bytes;
	} logs[] = {{LOG_ERROR, 512}, {LOG_SMART, 512}, {LOG_ANA, 2048}, {LOG_FIRMWARE, 512}};
	uint64_t draw = prng_below(prng, ARRAY_LEN(logs) + 2);

	worker->set.block_count = 0;
	if (draw < ARRAY_LEN(logs))
		host_cmd_log(cmd, draw == 1 ? NVME_NSID_ALL : 0, logs[draw].id, 0, worker->data,
			     logs[draw].bytes);
	else
		host_cmd_identify(cmd, draw % 2 == 0 ? 0 : worker->set.disk->nsid,
				  draw % 2 == 0 ? IDENTIFY_CTRL : IDENTIFY_NS, worker->data);
}

/* Nodes that start with a restored state may lose power, and their own disks with them. */
static bool may_lose_power(const struct cluster_disk *disk)
{
	const struct cluster *world = disk->world;

	return cluster_has(world, CF_DISK_POWER) || cluster_has(world, CF_NODE_POWER) ||
	       (cluster_has(world, CF_SOURCE) && !world->subs[disk->subsystem].is_shared);
}

/* A Copy's source must be known: no loss of power may bring back older blocks while the command
 * waits for a path. */
static bool can_copy(const struct cluster_disk *disk)
{
	return !disk->options.has_volatile_cache || !may_lose_power(disk);
}

static enum cluster_op_kind kind_draw(struct cluster_worker *worker, struct prng *prng)
{
	struct cluster *world = worker->host->world;
	bool is_shared = world->subs[worker->sub].is_shared;
	uint64_t draw = prng_below(prng, 32);

	if (draw == 0)
		return COP_FLUSH;
	if (draw == 1)
		return COP_VERIFY;
	if (draw <= 3 && cluster_has(world, CF_ZEROES))
		return COP_ZEROES;
	if (draw == 4 && cluster_has(world, CF_DEALLOCATE))
		return COP_DEALLOCATE;
	if (draw <= 6 && cluster_has(world, CF_COMPARE))
		return COP_COMPARE;
	if (draw <= 9 && cluster_has(world, CF_FUSED) && !is_shared)
		return COP_FUSED;
	if (draw <= 11 && cluster_has(world, CF_COPY) && can_copy(worker->set.disk))
		return COP_COPY;
	if (draw <= 13 && cluster_has(world, CF_RESERVE) && !is_shared)
		return COP_REGISTER;
	if (draw == 14 && cluster_has(world, CF_ADMIN))
		return COP_ADMIN;
	return draw < (cluster_has(world, CF_EDGES) ? 18 : 23) ? COP_READ : COP_WRITE;
}

/* False: send nothing now. */
static bool worker_choose(struct cluster_worker *worker, uint64_t block_count, struct host_cmd *cmd)
{
	struct prng *prng = &worker->host->world->prng;
	struct cluster_change_set *set = &worker->set;
	unsigned part = block_count >= CLUSTER_BLOCKS_MAX && prng_one_in(prng, 2);

	worker->kind = kind_draw(worker, prng);
	worker->is_fua = prng_one_in(prng, 4);
	extent_own(worker, part, prng);
	switch (worker->kind) {
	case COP_WRITE:
		if (cluster_has_ghost(worker->host->world, set->disk, set->first_block,
				      set->block_count))
			return false;
		begin_write(worker, cmd);
		break;
	case COP_ZEROES:
	case COP_DEALLOCATE:
		begin_zeroes(worker, cmd, prng);
		break;
	case COP_COMPARE:
		begin_compare(worker, cmd, prng);
		break;
	case COP_FUSED:
		begin_fused(worker, cmd, part, prng);
		break;
	case COP_COPY:
		if (!begin_copy(worker, cmd, part, prng))
			return false;
		break;
	case COP_FLUSH:
		host_cmd_flush(cmd, set->disk->nsid);
		break;
	case COP_VERIFY:
		begin_verify(worker, cmd);
		break;
	case COP_ADMIN:
		begin_admin(worker, cmd, prng);
		return true;
	case COP_REGISTER:
		return cluster_reserve_begin(worker, prng);
	default:
		extent_any(worker, block_count, prng);
		host_cmd_read(cmd, set->disk->nsid, set->first_block, set->block_count,
			      worker->data, set->block_count * worker->host->world->block_bytes);
		break;
	}
	if (worker->is_fua && (worker->kind == COP_WRITE || worker->kind == COP_ZEROES))
		host_cmd_set_fua(cmd);
	return worker->kind == COP_FUSED ||
	       !cluster_has_ghost(worker->host->world, set->disk, set->first_block,
				  set->block_count) ||
	       worker->kind == COP_READ || worker->kind == COP_COMPARE ||
	       worker->kind == COP_VERIFY || worker->kind == COP_FLUSH;
}

/* ---- after the troubles -----------------------------------------------------------------------
 */

/* The next blocks of all disks. False: all blocks are read. */
static bool sweep_next(struct cluster_worker *worker, struct host_cmd *cmd)
{
	struct cluster *world = worker->host->world;

	while (worker->index == 0 && worker->swept_disk < world->disk_count) {
		struct cluster_disk *disk = &world->disks[worker->swept_disk];
		bool is_grown = world->desired.ns_grown[disk->subsystem] >> (disk->nsid - 1) & 1;
		bool is_used = cluster_medium(world, &world->desired, disk->subsystem,
					      disk->nsid - 1) == disk;
		uint64_t end = is_grown ? CLUSTER_BLOCKS_MAX : CLUSTER_PART_BLOCKS;

		if (worker->swept_block >= end || !is_used) {
			worker->swept_disk++;
			worker->swept_block = 0;
			worker->settle_step = 0;
			continue;
		}
		worker->set.disk = disk;
		worker->sub = disk->subsystem;
		if (cluster_reserve_settle(worker, disk)) {
			*cmd = (struct host_cmd){.direction = worker->io.direction};
			return true;
		}
		worker->kind = COP_READ;
		worker->set.first_block = worker->swept_block;
		worker->set.block_count = (uint32_t)(end - worker->swept_block);
		if (worker->set.block_count > CLUSTER_REGION_BLOCKS)
			worker->set.block_count = CLUSTER_REGION_BLOCKS;
		host_cmd_read(cmd, disk->nsid, worker->set.first_block, worker->set.block_count,
			      worker->data, worker->set.block_count * world->block_bytes);
		return true;
	}
	return false;
}

static void worker_wait(struct cluster_worker *worker)
{
	reactor_timer_arm(&worker->timer, reactor_now_ns(worker->host->reactor) + WAIT_NS);
}

static void worker_pick_disk(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	const struct cluster_sub *sub;

	worker->sub = (unsigned)prng_below(&world->prng, world->sub_count);
	sub = &world->subs[worker->sub];
	worker->set.disk = sub->disks[prng_below(&world->prng, sub->ns_count)];
}

/* Finds the disk of a handle by its UUID. False: the UUID has no disk, any more or yet. */
static bool worker_identify(struct cluster_worker *worker, const struct ns_info *info)
{
	struct cluster *world = worker->host->world;
	int identity = cluster_identity_find(world, &info->identity.uuid);

	if (identity < 0 || world->identities[identity].disk == NULL)
		return false;
	worker->identity = (unsigned)identity;
	worker->set.disk = world->identities[identity].disk;
	return true;
}

/* Returns whether a command was sent. */
static bool worker_work(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	struct host_cmd cmd = {0};
	struct mpath_ns *ns;
	struct ns_info info;

	worker_pick_disk(worker);
	ns = mpath_ns_find(worker->host->mpaths[worker->sub].mpath, worker->set.disk->nsid);
	if (ns == NULL)
		return false;
	mpath_ns_info(ns, &info);
	if (info.is_gone && !prng_one_in(&world->prng, 8))
		return false;
	if (!worker_identify(worker, &info))
		return false;
	if (!worker_choose(worker, info.identity.block_count, &cmd))
		return false;
	if (worker->set.is_reserve)
		cmd = worker->io.cmd;
	world->commands_left--;
	worker_send(worker, &cmd, ns);
	return true;
}

static bool worker_sweep(struct cluster_worker *worker)
{
	struct host_cmd cmd = {0};
	const struct cluster_disk *disk;
	struct mpath_ns *ns;
	struct ns_info info;

	if (!sweep_next(worker, &cmd)) {
		worker->is_idle = true;
		return true;
	}
	ns = mpath_ns_find(worker->host->mpaths[worker->sub].mpath, worker->set.disk->nsid);
	if (ns == NULL)
		return false;
	disk = worker->set.disk;
	mpath_ns_info(ns, &info);
	if (!worker_identify(worker, &info) || worker->set.disk != disk)
		return false;
	if (worker->set.is_reserve)
		cmd = worker->io.cmd;
	worker_send(worker, &cmd, ns);
	return true;
}

static void on_worker_timer(struct reactor_timer *timer)
{
	struct cluster_worker *worker = container_of(timer, struct cluster_worker, timer);
	struct cluster *world = worker->host->world;
	bool is_sent;

	if (worker->host->is_leaving || (!world->is_healed && world->commands_left == 0)) {
		worker->is_idle = true;
		return;
	}
	memset(&worker->set, 0, sizeof(worker->set));
	worker->is_fua = false;
	is_sent = world->is_healed ? worker_sweep(worker) : worker_work(worker);
	if (!is_sent)
		worker_wait(worker);
}

void cluster_worker_forget(struct cluster_worker *worker, unsigned disk)
{
	for (unsigned i = 0; i < CLUSTER_REGION_BLOCKS; i++) {
		worker->known[disk][0][i] = MODEL_NEVER;
		worker->known[disk][1][i] = MODEL_NEVER;
	}
}

void cluster_worker_init(struct cluster_worker *worker)
{
	for (unsigned d = 0; d < CLUSTER_DISKS_MAX; d++)
		cluster_worker_forget(worker, d);
}

void cluster_worker_fill(struct cluster_worker *worker)
{
	worker->swept_disk = 0;
	worker->swept_block = 0;
	worker->settle_step = 0;
	reactor_timer_init(worker->host->reactor, &worker->timer, on_worker_timer);
	reactor_timer_arm(&worker->timer, reactor_now_ns(worker->host->reactor));
}
