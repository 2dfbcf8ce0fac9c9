/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what hosts' commands may return and what may land on a disk. Runs on hosts' reactors and
 * in the disks.
 *
 * A change ends when its host gets an answer, whatever the answer. A change in flight of a dead
 * host is a ghost. A ghost ends when its controllers must have ended: KATO after the host's last
 * message (twice KATO where traffic counts), plus CQT for their commands.
 */
#include "cluster_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GHOST_SLACK_MS 500
#define END_SLACK_NS   (2 * NS_PER_S)

/* ---- what a command changes -------------------------------------------------------------------
 */

static bool kind_changes(enum cluster_op_kind kind)
{
	return kind == COP_WRITE || kind == COP_ZEROES || kind == COP_DEALLOCATE ||
	       kind == COP_FUSED || kind == COP_COPY;
}

static void *known_of(struct cluster_worker *worker, uint64_t block)
{
	unsigned part = block >= CLUSTER_PART_BLOCKS;
	uint64_t first =
		part * CLUSTER_PART_BLOCKS +
		(worker->host->index * CLUSTER_WORKERS_MAX + worker->index) * CLUSTER_REGION_BLOCKS;

	if (block < first || block - first >= CLUSTER_REGION_BLOCKS)
		return NULL;
	return &worker->known[worker->set.disk->index][part][block - first];
}

static void known_set(struct cluster_worker *worker, bool is_known)
{
	for (uint32_t i = 0; i < worker->set.block_count; i++) {
		uint64_t *known = known_of(worker, worker->set.first_block + i);

		if (known != NULL)
			*known = is_known ? worker->set.values[i] : MODEL_NEVER;
	}
}

void cluster_set_begin(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	struct cluster_change_set *set = &worker->set;

	set->start = ++world->step;
	set->host = worker->host->index;
	set->worker = worker->index;
	worker->start_ns = sim_now(world->sim);
	worker->misdirected = sim_disk_misdirected(set->disk->disk);
	if (set->is_reserve) {
		set->disk->holder = 0;
		worker->is_reserve_alone = set->disk->reserve_busy == 0;
		set->disk->reserve_busy++;
		worker->reserve_number = ++set->disk->holder_number;
	}
	if (!kind_changes(worker->kind))
		return;
	for (uint32_t i = 0; i < set->block_count; i++) {
		model_write_begin(set->disk->model, set->first_block + i, set->values[i],
				  set->start);
		if (set->is_copy && set->values[i] != 0)
			cluster_value_find(world, set->values[i])->copies++;
	}
}

void cluster_set_end(struct cluster *world, const struct cluster_change_set *set, bool is_done,
		     bool is_stable)
{
	for (uint32_t i = 0; i < set->block_count; i++) {
		uint64_t block = set->first_block + i;
		uint64_t value = set->values[i];

		if (set->start < set->disk->born_at)
			; /* begun before the disk was recreated */
		else if (is_done)
			model_write_done(set->disk->model, block, value, set->start, world->step,
					 is_stable);
		else
			model_write_maybe(set->disk->model, block, value, set->start, world->step);
		if (value == 0)
			continue;
		if (set->is_copy)
			cluster_value_find(world, value)->copies--;
		else
			cluster_value_find(world, value)->is_over = true;
	}
}

void cluster_ghost_add(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	struct cluster_change_set *set = &worker->set;

	if (!kind_changes(worker->kind) && !set->is_reserve)
		return;
	known_set(worker, false);
	CHECK(world->ghost_count < CLUSTER_GHOSTS_MAX);
	set->may_run_twice = worker->io.attempts > 1;
	set->over_ns = sim_now(world->sim) +
		       (2 * worker->host->kato_ms + world->quiesce_ms + GHOST_SLACK_MS) * NS_PER_MS;
	sim_trace(world->sim, "host %u.%u: %" PRIu64 " is a ghost", worker->host->index,
		  worker->index, set->start);
	cluster_count(world, "ghosts", 1);
	world->ghosts[world->ghost_count++] = *set;
}

void cluster_ghosts_settle(struct cluster *world)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < world->ghost_count; i++) {
		struct cluster_change_set *set = &world->ghosts[i];

		if (sim_now(world->sim) < set->over_ns) {
			world->ghosts[kept++] = *set;
			continue;
		}
		world->step++;
		if (set->is_reserve)
			set->disk->reserve_busy--;
		else
			cluster_set_end(world, set, false, false);
	}
	world->ghost_count = kept;
}

static bool sets_overlap(uint64_t a_first, uint32_t a_count, uint64_t b_first, uint32_t b_count)
{
	return a_first < b_first + b_count && b_first < a_first + a_count;
}

bool cluster_ghost_may_land(const struct cluster *world, const struct cluster_disk *disk,
			    uint64_t first_block, uint32_t block_count)
{
	for (unsigned i = 0; i < world->ghost_count; i++) {
		const struct cluster_change_set *set = &world->ghosts[i];

		if (set->disk == disk &&
		    sets_overlap(set->first_block, set->block_count, first_block, block_count))
			return true;
	}
	return false;
}

bool cluster_has_ghost(const struct cluster *world, const struct cluster_disk *disk,
		       uint64_t first_block, uint32_t block_count)
{
	for (unsigned i = 0; i < world->ghost_count; i++) {
		const struct cluster_change_set *set = &world->ghosts[i];

		if (set->disk != disk)
			continue;
		if (set->may_run_twice &&
		    sets_overlap(set->first_block, set->block_count, first_block, block_count))
			return true;
		/* A Copy reads its source when it runs: until then its known source must not
		 * change. */
		if (set->is_copy && sets_overlap(set->first_block - CLUSTER_COPY_DISTANCE,
						 set->block_count, first_block, block_count))
			return true;
	}
	return false;
}

void cluster_forget(struct cluster *world)
{
	uint64_t oldest = world->step + 1;

	for (unsigned h = 0; h < world->host_count; h++) {
		for (unsigned i = 0; i < world->hosts[h].worker_count; i++) {
			const struct cluster_worker *worker = world->hosts[h].workers[i];

			if (worker->is_busy && worker->set.start < oldest)
				oldest = worker->set.start;
		}
	}
	for (unsigned i = 0; i < world->disk_count; i++)
		model_forget(world->disks[i].model, oldest);
}

/* ---- what lands -------------------------------------------------------------------------------
 */

void cluster_on_landed(void *arg, struct sim_disk *sim_disk, uint64_t block, const uint8_t *bytes,
		       const struct sim_process *writer, bool is_late)
{
	struct cluster_disk *disk = arg;
	struct cluster *world = disk->world;
	const struct cluster_value *found;
	uint64_t value;
	bool is_same;

	if (world->is_failed)
		return;
	if (!cluster_block_parse(world, bytes, &value)) {
		cluster_fail(world, "disk %u: block %" PRIu64 " is torn or has data of no write",
			     disk->index, block);
		return;
	}
	/* A discard may leave a block as it is; a loss of power brings back older blocks. */
	is_same = disk->content[block] == value && cluster_has(world, CF_DEALLOCATE) &&
		  !disk->options.reads_zero_after_discard;
	disk->content[block] = value;
	if (is_same || disk->is_losing)
		return;
	sim_trace(world->sim, "disk %u: block %" PRIu64 " holds %" PRIx64 "%s", disk->index, block,
		  value, is_late ? ", late" : "");
	cluster_hash(world, value ^ block << 48);
	cluster_count(world, "late landings", is_late);
	if (value == 0)
		return;
	found = cluster_value_find(world, value);
	if (found->disk != disk->index)
		cluster_fail(world, "disk %u: block %" PRIu64 " got data of another disk",
			     disk->index, block);
	else if (found->block != block && found->copies == 0)
		cluster_fail(world, "disk %u: block %" PRIu64 " got data of block %u", disk->index,
			     block, found->block);
	else if (found->block == block && found->is_over && found->copies == 0)
		cluster_fail(world,
			     "disk %u: block %" PRIu64 ": a write that had ended (%" PRIx64
			     ") landed again",
			     disk->index, block, value);
	else if (found->is_revoked && !found->is_over &&
		 found->allow_epoch == world->allow_epochs[disk->subsystem][found->host])
		cluster_fail(world,
			     "disk %u: block %" PRIu64 ": host %u wrote after it had lost access",
			     disk->index, block, found->host);
	else if (found->block == block)
		cluster_remake_check(disk, found, writer);
}

/* ---- answers to hosts -------------------------------------------------------------------------
 */

static bool disk_may_fail(const struct cluster *world)
{
	return cluster_has(world, CF_DISK_ERROR) || cluster_has(world, CF_DISK_CUT) ||
	       cluster_has(world, CF_DISK_FULL) || cluster_has(world, CF_DISK_POWER) ||
	       cluster_has(world, CF_IMAGE) || cluster_has(world, CF_NODE_POWER);
}

/* Statuses of a target that stalls, ends or has lost its host. The host retries five times. */
static bool is_of_an_end(nvme_status status)
{
	return nvme_status_same(status, NVME_SC_ABORT_REQUESTED) ||
	       nvme_status_same(status, NVME_SC_ABORT_SQ_DELETION) ||
	       nvme_status_same(status, NVME_SC_COMMAND_INTERRUPTED);
}

static bool is_of_ana(nvme_status status)
{
	return nvme_status_same(status, NVME_SC_ANA_INACCESSIBLE) ||
	       nvme_status_same(status, NVME_SC_ANA_PERSISTENT_LOSS) ||
	       nvme_status_same(status, NVME_SC_ANA_TRANSITION);
}

static bool ns_may_be_replaced(const struct cluster *world)
{
	return cluster_has(world, CF_IMAGE) || cluster_has(world, CF_REMAKE) ||
	       cluster_has(world, CF_ROLLBACK);
}

static bool ns_may_go(const struct cluster *world)
{
	return cluster_has(world, CF_NS) || cluster_has(world, CF_MASK) ||
	       cluster_has(world, CF_SUBSYSTEM) || ns_may_be_replaced(world);
}

bool cluster_status_is_explained(const struct cluster_worker *worker, nvme_status status)
{
	const struct cluster *world = worker->host->world;
	enum cluster_op_kind kind = worker->kind;

	if (nvme_status_same(status, NVME_SC_COMMAND_INTERRUPTED) && kind == COP_FUSED)
		return true;
	if (is_of_an_end(status))
		return worker->start_ns <= world->last_fault_ns + END_SLACK_NS;
	if (is_of_ana(status))
		return cluster_has(world, CF_ANA) || cluster_has(world, CF_IMAGE) ||
		       cluster_has(world, CF_TWIN);
	if (nvme_status_same(status, NVME_SC_COMPARE_FAILED))
		return kind == COP_COMPARE || kind == COP_FUSED;
	/* The Compare failed, or the Write found no buffer, for which it never waits. */
	if (nvme_status_same(status, NVME_SC_FUSED_FAIL) ||
	    nvme_status_same(status, NVME_SC_FUSED_MISSING))
		return kind == COP_FUSED;
	if (nvme_status_same(status, NVME_SC_WRITE_FAULT))
		return disk_may_fail(world) && (kind_changes(kind) || kind == COP_FLUSH);
	if (nvme_status_same(status, NVME_SC_CAPACITY_EXCEEDED))
		return cluster_has(world, CF_DISK_FULL) && kind_changes(kind);
	if (nvme_status_same(status, NVME_SC_UNRECOVERED_READ))
		return disk_may_fail(world) && !(kind == COP_WRITE || kind == COP_ZEROES);
	if (nvme_status_same(status, NVME_SC_NS_WRITE_PROTECTED))
		return cluster_has(world, CF_READ_ONLY) && kind_changes(kind);
	if (nvme_status_same(status, NVME_SC_RESERVATION_CONFLICT) ||
	    nvme_status_same(status, NVME_SC_ABORT_PREEMPT))
		return cluster_has(world, CF_RESERVE);
	if (nvme_status_same(status, NVME_SC_INVALID_FIELD) ||
	    nvme_status_same(status, NVME_SC_INVALID_NS))
		return ns_may_go(world);
	/* The namespace came back and its block size is not read yet, or the host has not yet
	 * identified the namespace that replaced it. */
	if (nvme_status_same(status, NVME_SC_NS_NOT_READY))
		return ns_may_be_replaced(world) || (ns_may_go(world) && kind_changes(kind));
	if (nvme_status_same(status, NVME_SC_LBA_RANGE))
		return cluster_has(world, CF_GROW) || cluster_has(world, CF_DISK_CUT) ||
		       cluster_has(world, CF_IMAGE) || cluster_has(world, CF_ROLLBACK);
	if (nvme_status_same(status, NVME_SC_DATA_TRANSFER_ERROR) ||
	    nvme_status_same(status, NVME_SC_TRANSIENT_TRANSPORT))
		return cluster_has(world, CF_FLIP);
	/* A reservation cannot be kept, or a buffer cannot be allocated. */
	if (nvme_status_same(status, NVME_SC_INTERNAL))
		return cluster_has(world, CF_NODE_MEMORY) || cluster_has(world, CF_STORE_FULL) ||
		       cluster_has(world, CF_STORE_ERROR);
	return false;
}

static bool result_is_explained(const struct cluster_worker *worker, const struct mpath_io *io)
{
	const struct cluster *world = worker->host->world;

	switch (io->result) {
	case MPATH_OK:
		return true;
	case MPATH_STATUS:
		return cluster_status_is_explained(worker, io->status);
	case MPATH_NO_PATH:
		return cluster_has(world, CF_FAST_FAIL) || cluster_has(world, CF_ANA);
	case MPATH_UNKNOWN:
		return kind_changes(worker->kind) || worker->set.is_reserve;
	case MPATH_GONE:
		return ns_may_go(world);
	case MPATH_STALE:
		/* Workers set no block size: only a replaced namespace explains this. */
		return ns_may_be_replaced(world);
	case MPATH_LOST:
		/* These targets report no boot, so hosts cannot detect a loss. */
		return false;
	}
	return false;
}

static bool is_judged(const struct cluster_worker *worker)
{
	if (worker->set.start < worker->set.disk->born_at)
		return false;
	return sim_disk_misdirected(worker->set.disk->disk) == worker->misdirected;
}

static void judge_value(struct cluster_worker *worker, uint64_t block, uint64_t value)
{
	struct cluster *world = worker->host->world;
	char why[160];

	cluster_count(world, "blocks checked", 1);
	cluster_hash(world, value);
	if (!model_read(worker->set.disk->model, block, value, worker->set.start, world->step, why))
		cluster_fail(world, "disk %u: %s", worker->set.disk->index, why);
}

static void judge_read(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	uint64_t value;

	if (!is_judged(worker))
		return;
	for (uint32_t i = 0; i < worker->set.block_count; i++) {
		uint64_t block = worker->set.first_block + i;

		if (!cluster_block_parse(world, worker->data + i * world->block_bytes, &value)) {
			cluster_fail(world, "disk %u: block %" PRIu64 " was read torn",
				     worker->set.disk->index, block);
			return;
		}
		judge_value(worker, block, value);
	}
}

static void judge_compare(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	const struct mpath_io *io = &worker->io;
	bool is_ok = io->result == MPATH_OK;
	bool can_differ = false;

	if (!is_judged(worker))
		return;
	for (uint32_t i = 0; i < worker->set.block_count; i++) {
		uint64_t block = worker->set.first_block + i;

		if (is_ok)
			judge_value(worker, block, worker->expected[i]);
		else
			can_differ |= !model_is_only(worker->set.disk->model, block,
						     worker->expected[i], worker->set.start);
	}
	if (io->result == MPATH_STATUS && nvme_status_same(io->status, NVME_SC_COMPARE_FAILED) &&
	    !can_differ)
		cluster_fail(world,
			     "disk %u: block %" PRIu64 ": Compare with the stored data failed",
			     worker->set.disk->index, worker->set.first_block);
}

/* Values are unique: of the pairs that compare with the same value only one may succeed. */
static void judge_fused(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	struct cluster_disk *disk = worker->set.disk;
	uint64_t *from = &disk->fused_from[worker->set.first_block];
	bool is_compared = worker->io.result == MPATH_OK;
	bool is_written = is_compared && worker->second.result == MPATH_OK;

	if (worker->io.result == MPATH_STATUS && worker->second.result == MPATH_OK)
		cluster_fail(
			world, "disk %u: block %" PRIu64 ": written although Compare ended with %s",
			disk->index, worker->set.first_block, nvme_status_name(worker->io.status));
	judge_compare(worker);
	if (is_written && is_judged(worker) && disk->lost_at < worker->set.start) {
		if (worker->expected[0] != 0 && *from == worker->expected[0])
			cluster_fail(world, "disk %u: block %" PRIu64 ": an update was lost",
				     disk->index, worker->set.first_block);
		*from = worker->expected[0];
	}
}

static void judge_change(struct cluster_worker *worker)
{
	const struct cluster_disk *disk = worker->set.disk;
	bool is_ok = worker->io.result == MPATH_OK;
	bool is_stable = worker->is_fua || !disk->options.has_volatile_cache;

	if (worker->kind == COP_FUSED)
		is_ok &= worker->second.result == MPATH_OK;
	/* A discard is only advice where the medium does not promise zeroes. */
	if (worker->kind == COP_DEALLOCATE)
		is_ok &= disk->options.reads_zero_after_discard && disk->options.can_discard;
	cluster_set_end(worker->host->world, &worker->set, is_ok,
			is_stable && worker->kind != COP_DEALLOCATE);
	known_set(worker, is_ok && worker->set.start >= disk->born_at);
}

static void judge_count(struct cluster_worker *worker)
{
	static const char *const names[] = {"ended ok",       "ended with a status",
					    "without a path", "outcome unknown",
					    "namespace gone", "namespace replaced"};
	struct cluster *world = worker->host->world;
	const struct mpath_io *io = &worker->io;

	cluster_count(world, "commands", 1);
	cluster_count(world, names[io->result], 1);
	cluster_count(world, "sent again", io->attempts > 1);
	if (io->result == MPATH_OK || io->result == MPATH_STATUS)
		world->counters->statuses[io->status.value % SIM_STATUS_MAX]++;
	cluster_hash(world, io->status.value ^ world->step << 16 ^ (uint64_t)io->result << 60);
	sim_trace(world->sim,
		  "host %u.%u: end %" PRIu64 " at %" PRIu64 ": kind %d, disk %u, %" PRIu64
		  "+%u: %s, %s",
		  worker->host->index, worker->index, worker->set.start, world->step,
		  (int)worker->kind, worker->set.disk->index, worker->set.first_block,
		  worker->set.block_count, names[io->result], nvme_status_name(io->status));
}

/* The worker that reads everything after the troubles advances when a command succeeds. */
static void sweep_end(struct cluster_worker *worker)
{
	if (worker->io.result == MPATH_OK) {
		if (worker->set.is_reserve)
			worker->settle_step++;
		else if (worker->kind == COP_READ)
			worker->swept_block += worker->set.block_count;
		return;
	}
	/* Another host cleared the registration or holds the reservation, or a node is still down.
	 * HEALED_NS of the world limits the retries. */
	worker->settle_step = 0;
}

static void result_fail(const struct cluster_worker *worker, const struct mpath_io *io)
{
	cluster_fail(worker->host->world,
		     "host %u: kind %d%s on disk %u ended with result %d, %s, without a cause",
		     worker->host->index, (int)worker->kind,
		     io == &worker->second ? " (second)" : "", worker->set.disk->index,
		     (int)io->result, nvme_status_name(io->status));
}

void cluster_judge(struct cluster_worker *worker)
{
	struct cluster *world = worker->host->world;
	bool is_ok = worker->io.result == MPATH_OK;

	judge_count(worker);
	if (!result_is_explained(worker, &worker->io))
		result_fail(worker, &worker->io);
	if (worker->kind == COP_FUSED && !result_is_explained(worker, &worker->second))
		result_fail(worker, &worker->second);
	if (is_ok && !worker->set.is_reserve && worker->kind != COP_FLUSH &&
	    worker->kind != COP_ADMIN)
		cluster_reserve_check(worker);
	if (worker->kind == COP_FUSED)
		judge_fused(worker);
	if (kind_changes(worker->kind))
		judge_change(worker);
	else if (worker->set.is_reserve)
		cluster_reserve_end(worker);
	else if (worker->kind == COP_READ && is_ok)
		judge_read(worker);
	else if (worker->kind == COP_COMPARE)
		judge_compare(worker);
	else if (worker->kind == COP_FLUSH && is_ok &&
		 worker->set.start >= worker->set.disk->born_at)
		model_flush(worker->set.disk->model, worker->set.start);
	if (world->is_healed)
		sweep_end(worker);
}
